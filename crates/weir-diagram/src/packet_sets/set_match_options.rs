//! The options of `-m set` besides the set.

use weir_model::rule_match::SetMatch;

/// What the options of a `-m set` require.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SetMatchOptionRequirements {
    pub return_nomatch: bool,
    /// More than membership.
    pub has_options_beyond_membership: bool,
}

pub(crate) fn parse_set_match_options(m: &SetMatch) -> SetMatchOptionRequirements {
    let mut options = SetMatchOptionRequirements::default();
    for word in m.options.iter().flat_map(|o| o.split_whitespace()) {
        match word.trim_start_matches('-') {
            "return-nomatch" => options.return_nomatch = true,
            "!" | "update-counters" | "update-subcounters" => {}
            _ => options.has_options_beyond_membership = true,
        }
    }
    options
}
