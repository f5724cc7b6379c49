//! Sets of fields.

use crate::field::{FIELDS, Field};

/// A set of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldSet(u32);

impl FieldSet {
    /// No field.
    pub const NONE: FieldSet = FieldSet(0);
    /// Every field of the table.
    pub const ALL: FieldSet = FieldSet((1 << FIELDS.len()) - 1);

    /// The fields of a list.
    pub const fn from_fields(fields: &[Field]) -> FieldSet {
        let (mut bits, mut i) = (0, 0);
        while i < fields.len() {
            bits |= 1 << fields[i] as u32;
            i += 1;
        }
        FieldSet(bits)
    }

    /// Whether the field is in the set.
    pub const fn contains(self, field: Field) -> bool {
        self.0 >> field as u32 & 1 == 1
    }

    /// Fields of either set.
    pub const fn union(self, other: FieldSet) -> FieldSet {
        FieldSet(self.0 | other.0)
    }

    /// Fields of this set that are not in the other.
    pub const fn without(self, other: FieldSet) -> FieldSet {
        FieldSet(self.0 & !other.0)
    }

    /// Whether the set has no field.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The fields, in the order of the field table.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        FIELDS.iter().map(|row| row.field).filter(move |f| self.contains(*f))
    }
}
