//! A finding: where, why, and what to do about it.

use weir_model::managing_programs::ManagingProgram;
use weir_model::{Family, Rule, RuleId, SharedName, Span, TableName};

use crate::lint::{Lint, Severity};
use crate::root_cause::RootCause;

/// Something that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Which lint says it.
    pub lint: &'static Lint,
    /// How bad it is.
    pub severity: Severity,
    /// What it is, in a line.
    pub message: String,
    /// Where: a rule or a chain's policy; `None` for a set.
    pub place: Option<RuleId>,
    /// In which family's ruleset; `None` for a set.
    pub family: Option<Family>,
    /// Where in that ruleset's (or the sets') text.
    pub span: Span,
    /// Related positions in the same text: further affected rules, and the rules that cause the
    /// finding.
    pub related_places: Vec<RelatedPlace>,
    /// What to do about it.
    pub help: String,
    /// Rules that a packet tries in vain because of it; 0 where it costs nothing.
    pub wasted_comparisons: u32,
    /// What weir can do about it.
    pub fix: Option<Fix>,
    /// The program that wrote what causes it.
    pub program: Option<ManagingProgram>,
    /// What findings of the same cause are merged by.
    pub(crate) root_cause: Option<Box<RootCause>>,
}

impl Finding {
    /// The lint's id.
    pub fn lint_id(&self) -> &'static str {
        self.lint.id
    }

    /// A finding without a place in a ruleset.
    pub(crate) fn new_with_span_only(lint: &'static Lint, span: Span, message: String) -> Finding {
        Finding {
            lint,
            severity: lint.severity,
            message,
            place: None,
            family: None,
            span,
            related_places: Vec::new(),
            help: String::new(),
            wasted_comparisons: 0,
            fix: None,
            program: None,
            root_cause: None,
        }
    }

    /// With what it has in common with others.
    pub(crate) fn with_root_cause(mut self, cause: RootCause) -> Finding {
        self.root_cause = Some(Box::new(cause));
        self
    }

    /// Caused by what a program wrote.
    pub(crate) fn with_blamed_program(mut self, program: Option<ManagingProgram>) -> Finding {
        self.program = program;
        self
    }

    /// With what to do about it.
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Finding {
        self.help = help.into();
        self
    }

    /// With another place.
    pub(crate) fn with_related_place(mut self, also: RelatedPlace) -> Finding {
        self.related_places.push(also);
        self
    }

    /// With the rules that a packet tries in vain.
    pub(crate) fn with_wasted_comparisons(mut self, rules: usize) -> Finding {
        self.wasted_comparisons = u32::try_from(rules).unwrap_or(u32::MAX);
        self
    }

    /// With an edit after which every counter that is left counts as before.
    pub(crate) fn with_fix(mut self, edits: Vec<RulesetEdit>) -> Finding {
        self.fix = Some(Fix { edits, changes_counters: false });
        self
    }

    /// With an edit that loses or changes counters.
    pub(crate) fn with_counter_changing_fix(mut self, edits: Vec<RulesetEdit>) -> Finding {
        self.fix = Some(Fix { edits, changes_counters: true });
        self
    }
}

/// Another place that has to do with a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct RelatedPlace {
    /// Where.
    pub place: RuleId,
    /// Where in the same text.
    pub span: Span,
    /// What it has to do with it.
    pub label: String,
}

/// A change that weir can make.
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// What is changed.
    pub edits: Vec<RulesetEdit>,
    /// Counters of rules are lost or change: a removed rule matches packets.
    pub changes_counters: bool,
}

/// One edit of a firewall.
#[derive(Clone, Debug, PartialEq)]
pub enum RulesetEdit {
    /// Remove the rule.
    RemoveRule {
        /// Which rule.
        rule: RuleId,
    },
    /// The rule becomes another.
    ReplaceRule {
        /// Which rule.
        rule: RuleId,
        /// What it becomes.
        by: Box<Rule>,
    },
    /// Remove the chain with its rules.
    RemoveChain {
        /// Whose ruleset.
        family: Family,
        /// Table.
        table: TableName,
        /// Chain.
        chain: SharedName,
    },
    /// Remove the set.
    RemoveSet {
        /// Its name.
        set: SharedName,
    },
}
