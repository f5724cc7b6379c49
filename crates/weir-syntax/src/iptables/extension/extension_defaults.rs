//! What most extensions have in common.

use super::option_value_printing::{print_option_value, print_written_argument};
use crate::iptables::option_specs_and_arguments::{Extension, UNRESTRICTED_SCOPE};

impl<T> Extension<T> {
    /// Of both families, allowed everywhere, and printed as `iptables-save` prints it. Name,
    /// options and `build` are each extension's own.
    pub(super) const DEFAULT: Extension<T> = Extension {
        name: "",
        family: None,
        options: &[],
        build: |g| g.extension_error(format!("{} cannot be read", g.name)).into_err(),
        scope: UNRESTRICTED_SCOPE,
        print_value: print_option_value,
        keeps_spelling: false,
        is_part_of_iptables: true,
        check_rule_matches: |_, _| Ok(()),
    };

    /// The same, but its options are printed as they were written.
    pub(super) const PRINTED_AS_WRITTEN: Extension<T> = Extension {
        print_value: print_written_argument,
        keeps_spelling: true,
        ..Extension::DEFAULT
    };
}
