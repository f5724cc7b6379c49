//! The forms that a ruleset can be compiled to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a ruleset is compiled to.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// The ruleset unchanged.
    #[default]
    Linear,
    /// Prefix trees of iptables chains.
    Tree,
    /// ipsets and iptables.
    Ipset,
    /// Native nftables with verdict maps.
    Nft,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 4] = [Form::Linear, Form::Tree, Form::Ipset, Form::Nft];

    /// The word after `--to`, which the manifest stores.
    pub const fn as_str(self) -> &'static str {
        match self {
            Form::Linear => "linear",
            Form::Tree => "tree",
            Form::Ipset => "ipset",
            Form::Nft => "nft",
        }
    }

    /// The form of that word.
    pub fn parse(s: &str) -> Option<Self> {
        Form::ALL.into_iter().find(|f| f.as_str() == s)
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_stored_as_the_word_of_the_command_line() {
        for form in Form::ALL {
            let stored = serde_json::to_string(&form).unwrap();
            assert_eq!(stored, format!("\"{form}\""));
            assert_eq!(serde_json::from_str::<Form>(&stored).unwrap(), form);
            assert_eq!(Form::parse(form.as_str()), Some(form));
        }
    }
}
