//! The classifier form: built-in chains as blocks of look-ups.
//!
//! It is for programs that walk blocks themselves; iptables does not load it. A rule that look-ups
//! do not judge alone (`limit`, a set with counters, a target that changes the packet) is refused
//! by name.

use weir_artefact::classifier_folder::{
    CLASSIFIER_MANIFEST_VERSION, ClassifierBuiltInChain, ClassifierChain, ClassifierEntry,
    ClassifierKeyPart, ClassifierLookupStretch, ClassifierManifest,
};
use weir_classify::interval_dag::IntervalDagClassifier;
use weir_classify::ruleset::{
    EntryContinuation, FlattenLimits, FoundEntryMeaning, KeyPart, LookupEntry, LookupProgram,
    LookupProgramError, LookupStretch,
};
use weir_classify::{BuildLimits, ClassifierBuildError};
use weir_model::{Family, Firewall, Policy, Rule, TableName, Target, iptables_tool_name};
use weir_partition::AxislessTest;
use weir_syntax::iptables;

use crate::compile_options::FormRefusal;

/// A built-in chain: of a family, a table.
pub type BuiltInChain<'a> = (Family, TableName, &'a str);

/// A ruleset as blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassifierForm {
    /// What to do with what the blocks find.
    pub manifest: ClassifierManifest,
    /// The blocks: names of their files and bytes.
    pub blocks: Vec<(String, Vec<u8>)>,
}

/// Why a chain has no blocks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClassifierFormError {
    /// It has no look-ups.
    #[error(transparent)]
    NoLookupProgram(#[from] LookupProgramError),
    /// Rules cannot be expressed.
    #[error("the classifier form cannot express {} of the rules", .0.len())]
    Unsupported(Vec<FormRefusal>),
    /// A block would be too large.
    #[error(transparent)]
    BlockBuildFailed(#[from] ClassifierBuildError),
}

/// The built-in chains of a firewall that have rules.
pub fn list_built_in_chains_with_rules(firewall: &Firewall) -> Vec<BuiltInChain<'_>> {
    let tables = firewall.rulesets().flat_map(|r| r.tables.iter().map(|t| (r.family, t)));
    let chains = tables.flat_map(|(family, table)| {
        let has_rules =
            |chain: &&weir_model::Chain| chain.policy.is_some() && !chain.rules.is_empty();
        let chains = table.chains.iter().filter(has_rules);
        chains.map(move |chain| (family, table.name, &*chain.name))
    });
    chains.collect()
}

impl ClassifierForm {
    /// Adds a chain that was compared with the interpreter on some packets.
    ///
    /// # Errors
    /// [`ClassifierFormError::Unsupported`] names the rules that have to be evaluated.
    pub fn push_chain_lookup_program(
        &mut self,
        program: &LookupProgram<'_>,
        checked_packets: usize,
    ) -> Result<(), ClassifierFormError> {
        let refusals = list_refusals_of_rules_lookups_cannot_decide(program);
        if !refusals.is_empty() {
            return Err(ClassifierFormError::Unsupported(refusals));
        }
        let policy_rule_id = program.policy_rule_id();
        let tool = iptables_tool_name(program.family());
        let chain = format!("{tool}/{}/{}", policy_rule_id.table, policy_rule_id.chain);
        let mut chains = Vec::new();
        for lookups in program.chains() {
            let name = program.table().chains[lookups.chain_index as usize].name.to_string();
            let mut stretches = Vec::new();
            for stretch in &lookups.stretches {
                stretches.push(self.build_classifier_lookup_stretch(program, stretch)?);
            }
            chains.push(ClassifierChain { name, stretches });
        }
        let devices = program
            .lowering()
            .coded_devices()
            .iter()
            .map(|(name, is_prefix)| format!("{name}{}", if *is_prefix { "+" } else { "" }));
        self.manifest.version = CLASSIFIER_MANIFEST_VERSION;
        self.manifest.weir = env!("CARGO_PKG_VERSION").to_owned();
        self.manifest.form = "classifier".to_owned();
        self.manifest.tables.push(ClassifierBuiltInChain {
            chain,
            policy: manifest_policy_word(program.policy().unwrap_or(Policy::Accept)).to_owned(),
            rules: program.reachable_rule_count(),
            device_names_by_code: devices.collect(),
            chains,
            checked_packets,
        });
        Ok(())
    }

    fn build_classifier_lookup_stretch(
        &mut self,
        program: &LookupProgram<'_>,
        stretch: &LookupStretch,
    ) -> Result<ClassifierLookupStretch, ClassifierFormError> {
        let mut block = None;
        if stretch.filters.filter_count() > 0 {
            let built = IntervalDagClassifier::build(&stretch.filters, &BuildLimits::default())?;
            let name = format!("stretch-{}.block", self.blocks.len());
            self.blocks.push((name.clone(), built.block().to_bytes()));
            block = Some(name);
        }
        let part = |part: &KeyPart| to_classifier_key_part(program, part);
        let entry = |entry: &LookupEntry| to_classifier_entry(program, entry);
        Ok(ClassifierLookupStretch {
            block,
            key: stretch.key_layout.parts().iter().map(part).collect(),
            entries: stretch.entries.iter().map(entry).collect(),
        })
    }
}

/// The rules that look-ups do not judge alone, which the form refuses.
pub fn list_refusals_of_rules_lookups_cannot_decide(
    program: &LookupProgram<'_>,
) -> Vec<FormRefusal> {
    let evaluated = program.rules_evaluated_after_lookup().into_iter();
    let mut refusals: Vec<_> =
        evaluated.map(|(place, reason)| (place, format!("a rule that {reason}"))).collect();
    let stretches = program.chains().iter().flat_map(|chain| &chain.stretches);
    for entry in stretches.flat_map(|stretch| &stretch.entries) {
        let rule = rule_of_entry(program, entry);
        if entry.then == EntryContinuation::ApplyTarget && !matches!(rule.target, Target::Reject(_))
        {
            let words = iptables::print_target(&rule.target, program.family());
            refusals.push((entry.rule, format!("the target `{words}`")));
        }
    }
    refusals.sort();
    refusals.dedup();
    let refuse = |(place, construct): (weir_model::RulePlaceInTable, String)| {
        let rule = &program.table().chains[place.chain as usize].rules[place.rule as usize];
        FormRefusal {
            family: program.family(),
            rule_id: program.rule_id(place).to_string(),
            construct,
            cure: None,
            span: rule.span,
        }
    };
    refusals.into_iter().map(refuse).collect()
}

fn rule_of_entry<'p>(program: &LookupProgram<'p>, entry: &LookupEntry) -> &'p Rule {
    &program.table().chains[entry.rule.chain as usize].rules[entry.rule.rule as usize]
}

fn manifest_policy_word(policy: Policy) -> &'static str {
    match policy {
        Policy::Accept => "accept",
        Policy::Drop => "drop",
    }
}

fn to_classifier_entry(program: &LookupProgram<'_>, entry: &LookupEntry) -> ClassifierEntry {
    let (then, resume_at, call) = match entry.then {
        EntryContinuation::NextEntry => ("next".to_owned(), None, None),
        EntryContinuation::Decide(policy) => (manifest_policy_word(policy).to_owned(), None, None),
        EntryContinuation::ApplyTarget => {
            let Target::Reject(with) = rule_of_entry(program, entry).target else {
                unreachable!("other targets are refused")
            };
            (format!("reject {with}"), None, None)
        }
        EntryContinuation::ResumeAt(at) => ("resume".to_owned(), Some(at), None),
        EntryContinuation::Call { chain, resume_at } => {
            ("call".to_owned(), (resume_at > 0).then_some(resume_at), Some(chain))
        }
    };
    ClassifierEntry {
        rule: program.rule_id(entry.rule).to_string(),
        counts_packet: entry.meaning_if_found == FoundEntryMeaning::Match,
        then,
        resume_at,
        call,
    }
}

fn to_classifier_key_part(program: &LookupProgram<'_>, part: &KeyPart) -> ClassifierKeyPart {
    match part {
        KeyPart::Number { field, words } => {
            ClassifierKeyPart::Number { field: field.row().name.to_owned(), words: *words }
        }
        KeyPart::Classes(classes) => {
            let mut class_by_code = classes.class_by_code().to_vec();
            let last = class_by_code[255];
            let kept =
                class_by_code.iter().rposition(|class| *class != last).map_or(0, |at| at + 1);
            class_by_code.truncate(kept + 1);
            let bits = classes.has_bit_per_class();
            let axis = classes.axis_name().to_owned();
            ClassifierKeyPart::Classes { axis, bits, class_by_code }
        }
        KeyPart::AxislessTests(numbers) => {
            let test = |number: &u32| match &program.axisless_tests()[*number as usize] {
                AxislessTest::MaskedField { field, value, mask } => {
                    format!("{} & {mask:#x} == {value:#x}", field.row().name)
                }
                AxislessTest::SetMembership { name, dirs } => {
                    let dir = |src: &bool| if *src { "src" } else { "dst" };
                    let dirs: Vec<&str> = dirs.iter().map(dir).collect();
                    format!("set {name} {}", dirs.join(","))
                }
            };
            ClassifierKeyPart::Tests { tests: numbers.iter().map(test).collect() }
        }
    }
}

/// Compiles a chain for the form.
///
/// # Errors
/// There is no such chain, or it leads back to itself.
pub fn compile_chain_to_lookups<'a>(
    firewall: &'a Firewall,
    (family, table, chain): BuiltInChain<'_>,
) -> Result<LookupProgram<'a>, LookupProgramError> {
    LookupProgram::compile(firewall, family, (table, chain), FlattenLimits::default())
}
