//! The common cause of several findings.

use weir_model::{RuleId, Span};

/// What findings have in common.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RootCause {
    /// Equal for findings of the same cause; those of different lints are never put together.
    pub key: String,
    /// The rule or chain to blame; the first of the findings' own places where none is.
    pub at: Option<(RuleId, Span)>,
    /// The message for one place, where it is not the finding's own.
    pub one: Option<String>,
    /// The message for several, with `{n}` for their number.
    pub many: String,
    /// What is at the places that are put together.
    pub label: String,
    /// What to do about several, or at the rule to blame, where it is not what the finding says.
    pub help: Option<String>,
}

impl RootCause {
    /// A cause without a rule to blame but the findings' own.
    pub fn new(key: impl Into<String>, many: impl Into<String>, label: impl Into<String>) -> Self {
        RootCause {
            key: key.into(),
            at: None,
            one: None,
            many: many.into(),
            label: label.into(),
            help: None,
        }
    }

    /// With the rule or chain to blame.
    pub fn blames(mut self, at: (RuleId, Span), one: impl Into<String>) -> Self {
        (self.at, self.one) = (Some(at), Some(one.into()));
        self
    }

    /// With what to do about several, or at the rule to blame.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
