//! Values of options as numbers of a structure.

use weir_model::rule_match::ExtensionValue;

/// A number that fits; `None` for another kind of value.
pub(super) fn numeric_option_value<T: TryFrom<u64>>(value: &ExtensionValue) -> Option<T> {
    match value {
        ExtensionValue::Number(n) | ExtensionValue::Hex(n) => T::try_from(*n).ok(),
        _ => None,
    }
}
