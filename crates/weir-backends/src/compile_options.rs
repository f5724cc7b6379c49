//! Options of a compilation, and the reasons why it can fail.

use std::fmt;

use weir_artefact::CompiledForm;
use weir_artefact::manifest::FormRuleCoverage;
use weir_model::managing_programs::ManagingProgram;
use weir_model::{Family, Span};
use weir_passes::{CheckedPassesOptions, CostModel, Counterexample, RefusedPass};

pub use weir_passes::FractionDoneFn;

/// How a ruleset is compiled.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Prefix lengths of a tree's levels, ascending; the cost model chooses where `None`.
    pub tree_level_prefix_lengths: Option<Vec<u8>>,
    /// What checks, jumps and probes cost.
    pub cost: CostModel,
    /// Seed of the random packets of the check.
    pub seed: u64,
    /// Packets of the check for each family; what lies on boundaries is tried in any case.
    pub check_packets_per_family: usize,
    /// CPUs of the machine that will load the form; counters are kept for each.
    pub target_machine_cpus: usize,
    /// Names of the passes to run, in this order; those of the form where `None`.
    pub passes: Option<Vec<String>>,
    /// Names of passes that are not to run.
    pub skipped_passes: Vec<String>,
    /// Nothing is compared with what it was; the manifest says so.
    pub trust: bool,
    /// Passes that lose counters may run.
    pub allow_counter_loss: bool,
    /// Programs whose chains may be rewritten.
    pub programs_with_rewritable_chains: Vec<ManagingProgram>,
    /// Steps that all proofs together may take
    /// ([`CompareOptions::steps_max`](weir_diagram::CompareOptions::steps_max)).
    pub all_proofs_steps_max: u64,
    /// Memory of the diagrams of one family and path, in bytes.
    pub diagram_memory_bytes_per_path_max: usize,
    /// A form that leaves rules to another program than the form's own is refused.
    pub refuse_rules_left_in_iptables: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            tree_level_prefix_lengths: None,
            cost: CostModel::default(),
            seed: 1,
            check_packets_per_family: 100_000,
            target_machine_cpus: std::thread::available_parallelism().map_or(1, usize::from),
            passes: None,
            skipped_passes: Vec::new(),
            trust: false,
            allow_counter_loss: false,
            programs_with_rewritable_chains: Vec::new(),
            all_proofs_steps_max: CheckedPassesOptions::default().proof_steps_max,
            diagram_memory_bytes_per_path_max: CheckedPassesOptions::default().proof_memory_bytes,
            refuse_rules_left_in_iptables: false,
        }
    }
}

/// Why there is no such form of the ruleset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The form cannot say something that the ruleset says.
    #[error("{form} cannot express {}", format_first_refusals(.refusals))]
    Unsupported {
        /// Which form.
        form: CompiledForm,
        /// Everything that it cannot say.
        refusals: Vec<FormRefusal>,
    },
    /// The form would leave rules in iptables, and a mixture was not wanted. Nothing is written.
    #[error("{form} evaluates {} of {} rules, iptables keeps {}", share.in_form, share.hook_entered_rules, share.left)]
    RulesLeftInIptables {
        /// Which form.
        form: CompiledForm,
        /// What would be where.
        share: FormRuleCoverage,
        /// The rules that are the cause.
        refusals: Vec<FormRefusal>,
    },
    /// The form treats a packet in another way than the ruleset. Nothing is written.
    #[error("the {form} form treats a packet in another way: {example}")]
    NotEquivalent {
        /// Which form.
        form: CompiledForm,
        /// The packet, and its path through both.
        example: Box<Counterexample>,
    },
    /// A pass made something that is not equal. Nothing is written.
    #[error(transparent)]
    PassChangesMeaning(#[from] RefusedPass),
    /// The text of the form does not read back as the form. Nothing is written.
    #[error("the text of the {form} form does not say what was checked: {what}")]
    ReadBackMismatch {
        /// Which form.
        form: CompiledForm,
        /// The first difference.
        what: String,
    },
    /// An option requests something that does not exist.
    #[error("{0}")]
    InvalidOption(String),
}

/// Something that a form cannot say.
#[derive(Clone, Debug, PartialEq)]
pub struct FormRefusal {
    /// Family of the ruleset.
    pub family: Family,
    /// The rule, as the manifest names it: `iptables/filter/FORWARD/3`.
    pub rule_id: String,
    /// What it is, in the words of the ruleset: `-m recent`.
    pub construct: String,
    /// What can be done about it, where something can.
    pub cure: Option<String>,
    /// Where it is in its text.
    pub span: Span,
}

impl fmt::Display for FormRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.construct, self.rule_id)?;
        match &self.cure {
            Some(cure) => write!(f, ": {cure}"),
            None => Ok(()),
        }
    }
}

fn format_first_refusals(refusals: &[FormRefusal]) -> String {
    let shown: Vec<String> = refusals.iter().take(3).map(FormRefusal::to_string).collect();
    let more = refusals.len().saturating_sub(3);
    let tail = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{}{tail}", shown.join(", "))
}
