//! Options of a compilation, and the reasons why it can fail.

use std::fmt;

use weir_artefact::Form;
use weir_artefact::manifest::Share;
use weir_model::programs::Program;
use weir_model::{Family, Span};
use weir_passes::{CostModel, Counterexample, RefusedPass};

pub use weir_passes::ProgressFn;

/// How a ruleset is compiled.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Prefix lengths of a tree's levels, ascending; the cost model chooses where `None`.
    pub levels: Option<Vec<u8>>,
    /// What checks, jumps and probes cost.
    pub cost: CostModel,
    /// Seed of the random packets of the check.
    pub seed: u64,
    /// Packets of the check for each family; what lies on boundaries is tried in any case.
    pub check_packets: usize,
    /// CPUs of the machine that will load the form; counters are kept for each.
    pub cpus: usize,
    /// Names of the passes to run, in this order; those of the form where `None`.
    pub passes: Option<Vec<String>>,
    /// Names of passes that are not to run.
    pub without: Vec<String>,
    /// Nothing is compared with what it was; the manifest says so.
    pub trust: bool,
    /// Passes that lose counters may run.
    pub allow_counters: bool,
    /// Programs whose chains may be rewritten.
    pub programs: Vec<Program>,
    /// A form that leaves rules to another program than the form's own is refused.
    pub strict: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            levels: None,
            cost: CostModel::default(),
            seed: 1,
            check_packets: 100_000,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            passes: None,
            without: Vec::new(),
            trust: false,
            allow_counters: false,
            programs: Vec::new(),
            strict: false,
        }
    }
}

/// Why there is no such form of the ruleset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The form cannot say something that the ruleset says.
    #[error("{form} cannot express {}", list(.refusals))]
    Unsupported {
        /// Which form.
        form: Form,
        /// Everything that it cannot say.
        refusals: Vec<Refusal>,
    },
    /// The form would leave rules in iptables, and a mixture was not wanted. Nothing is written.
    #[error("{form} evaluates {} of {} rules, iptables keeps {}", share.in_form, share.rules, share.left)]
    Mixture {
        /// Which form.
        form: Form,
        /// What would be where.
        share: Share,
        /// The rules that are the cause.
        refusals: Vec<Refusal>,
    },
    /// The form treats a packet in another way than the ruleset. Nothing is written.
    #[error("the {form} form treats a packet in another way: {example}")]
    Differs {
        /// Which form.
        form: Form,
        /// The packet, and its path through both.
        example: Box<Counterexample>,
    },
    /// A pass made something that is not equal. Nothing is written.
    #[error(transparent)]
    Pass(#[from] RefusedPass),
    /// The text of the form does not read back as the form. Nothing is written.
    #[error("the text of the {form} form does not say what was checked: {what}")]
    Printed {
        /// Which form.
        form: Form,
        /// The first difference.
        what: String,
    },
    /// An option requests something that does not exist.
    #[error("{0}")]
    Option(String),
}

/// Something that a form cannot say.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Family of the ruleset.
    pub family: Family,
    /// The rule, as the manifest names it: `iptables/filter/FORWARD/3`.
    pub place: String,
    /// What it is, in the words of the ruleset: `-m recent`.
    pub what: String,
    /// What can be done about it, where something can.
    pub cure: Option<String>,
    /// Where it is in its text.
    pub span: Span,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.place)?;
        match &self.cure {
            Some(cure) => write!(f, ": {cure}"),
            None => Ok(()),
        }
    }
}

fn list(refusals: &[Refusal]) -> String {
    let shown: Vec<String> = refusals.iter().take(3).map(Refusal::to_string).collect();
    let more = refusals.len().saturating_sub(3);
    let tail = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{}{tail}", shown.join(", "))
}
