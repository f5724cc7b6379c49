//! Names of an enum's variants and of their fields, as serde reads them.
//!
//! A derived `Deserialize` passes its names to the deserializer before it reads anything. The
//! deserializer here records them and fails, so that a message can list what a text may contain
//! without a second list of it.

use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, VariantAccess, Visitor,
};

/// Names of the variants of an enum, in their order.
pub(super) fn list_variant_names<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut recorded: &[&str] = &[];
    let _ = T::deserialize(NameRecorder { variant: None, recorded: &mut recorded });
    recorded
}

/// Names of the fields of a variant that contains a struct, in their order.
pub(super) fn list_field_names_of_variant<T: for<'de> Deserialize<'de>>(
    variant: &'static str,
) -> &'static [&'static str] {
    let mut recorded: &[&str] = &[];
    let _ = T::deserialize(NameRecorder { variant: Some(variant), recorded: &mut recorded });
    recorded
}

/// Records the names of variants, or the names of the fields of one of them.
struct NameRecorder<'r> {
    variant: Option<&'static str>,
    recorded: &'r mut &'static [&'static str],
}

/// Nothing is read: the names are recorded.
#[derive(Debug)]
struct NamesRecordedError;

impl fmt::Display for NamesRecordedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("only names are read")
    }
}

impl std::error::Error for NamesRecordedError {}

impl Error for NamesRecordedError {
    fn custom<M: fmt::Display>(_message: M) -> NamesRecordedError {
        NamesRecordedError
    }
}

impl<'de> Deserializer<'de> for NameRecorder<'_> {
    type Error = NamesRecordedError;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, NamesRecordedError> {
        Err(NamesRecordedError)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, NamesRecordedError> {
        *self.recorded = fields;
        Err(NamesRecordedError)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NamesRecordedError> {
        if self.variant.is_some() {
            return visitor.visit_enum(self);
        }
        *self.recorded = variants;
        Err(NamesRecordedError)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for NameRecorder<'_> {
    type Error = NamesRecordedError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), NamesRecordedError> {
        let variant = self.variant.ok_or(NamesRecordedError)?;
        Ok((seed.deserialize(variant.into_deserializer())?, self))
    }
}

impl<'de> VariantAccess<'de> for NameRecorder<'_> {
    type Error = NamesRecordedError;

    fn unit_variant(self) -> Result<(), NamesRecordedError> {
        Err(NamesRecordedError)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, NamesRecordedError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _length: usize,
        _visitor: V,
    ) -> Result<V::Value, NamesRecordedError> {
        Err(NamesRecordedError)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, NamesRecordedError> {
        *self.recorded = fields;
        Err(NamesRecordedError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(dead_code, reason = "only the names of fields and variants are read")]
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Shape {
        Circle(CircleShape),
        Square { side: u32 },
        Point,
    }

    #[expect(dead_code, reason = "only the names of fields are read")]
    #[derive(Deserialize)]
    #[serde(try_from = "CircleFields")]
    struct CircleShape(u32);

    #[derive(Deserialize)]
    struct CircleFields {
        #[serde(rename = "r")]
        radius: u32,
    }

    impl TryFrom<CircleFields> for CircleShape {
        type Error = String;

        fn try_from(fields: CircleFields) -> Result<CircleShape, String> {
            Ok(CircleShape(fields.radius))
        }
    }

    #[test]
    fn variant_and_field_names_are_those_of_serde() {
        assert_eq!(list_variant_names::<Shape>(), ["circle", "square", "point"]);
        assert_eq!(list_field_names_of_variant::<Shape>("circle"), ["r"]);
        assert_eq!(list_field_names_of_variant::<Shape>("square"), ["side"]);
        assert!(list_field_names_of_variant::<Shape>("point").is_empty());
    }
}
