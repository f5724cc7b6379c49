//! The forms that a ruleset can be compiled to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a ruleset is compiled to.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum CompiledForm {
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

impl CompiledForm {
    /// All forms.
    pub const ALL: [CompiledForm; 4] =
        [CompiledForm::Linear, CompiledForm::Tree, CompiledForm::Ipset, CompiledForm::Nft];

    /// The word after `--to`, which the manifest stores.
    pub const fn as_str(self) -> &'static str {
        match self {
            CompiledForm::Linear => "linear",
            CompiledForm::Tree => "tree",
            CompiledForm::Ipset => "ipset",
            CompiledForm::Nft => "nft",
        }
    }

    /// The form of that word.
    pub fn parse(s: &str) -> Option<Self> {
        CompiledForm::ALL.into_iter().find(|f| f.as_str() == s)
    }
}

impl fmt::Display for CompiledForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_serialized_as_its_command_line_name() {
        for form in CompiledForm::ALL {
            let stored = serde_json::to_string(&form).unwrap();
            assert_eq!(stored, format!("\"{form}\""));
            assert_eq!(serde_json::from_str::<CompiledForm>(&stored).unwrap(), form);
            assert_eq!(CompiledForm::parse(form.as_str()), Some(form));
        }
    }
}
