//! The common cause of several findings.

use weir_model::{RuleId, Span};

/// What findings have in common.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RootCause {
    /// Equal for findings of the same cause; those of different lints are never merged.
    pub grouping_key: String,
    /// The rule or chain to blame; the first of the findings' own places where none is.
    pub blamed_place: Option<(RuleId, Span)>,
    /// The message for one place, where it is not the finding's own.
    pub message_for_one: Option<String>,
    /// The message for several, with `{n}` for their number.
    pub message_for_many: String,
    /// What is at the places that are merged.
    pub label: String,
    /// What to do about several, or at the rule to blame, where it is not what the finding says.
    pub help: Option<String>,
}

impl RootCause {
    /// A cause without a rule to blame but the findings' own.
    pub fn new(key: impl Into<String>, many: impl Into<String>, label: impl Into<String>) -> Self {
        RootCause {
            grouping_key: key.into(),
            blamed_place: None,
            message_for_one: None,
            message_for_many: many.into(),
            label: label.into(),
            help: None,
        }
    }

    /// With the rule or chain to blame.
    pub fn with_blamed_place(mut self, at: (RuleId, Span), one: impl Into<String>) -> Self {
        (self.blamed_place, self.message_for_one) = (Some(at), Some(one.into()));
        self
    }

    /// With what to do about several, or at the rule to blame.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
