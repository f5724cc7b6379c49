//! The nft form: native nftables with verdict maps.
//!
//! Each iptables table of each family becomes one nft table with base chains at the same hooks and
//! priorities, user-defined chains under their names, and a `counter` for every rule. Runs of rules
//! that test one value become one lookup ([`lookup_classes`]); their other tests stay in the chain
//! that the lookup leads to. If later fragments can occur (conntrack is not in use, so nothing
//! reassembles them), a test of the fragment offset precedes the first test of a transport header,
//! because nft would read a fragment's payload as ports.
//!
//! What nft cannot express is refused by name. A hook that needs it stays in iptables, as prefix
//! trees of chains, which the manifest lists; if no hook remains, there is no such form. The same
//! applies to a hook that enters a chain of Docker, kube-proxy, firewalld or ufw, because these
//! programs continue to edit it in iptables.

mod chain_emitter;
mod chain_names;
mod hook_comparison;
mod lookup_class_rules;
mod lookup_classes;
mod lookup_run_search;
mod lost_shared_objects;
mod lowered_rule;
mod manifest_rule_ids;
mod nft_condition;
mod nft_counter_credit;
mod nft_form;
mod nft_form_proof;
mod nft_rule_coverage;
mod opaque_match;
mod table_move_plan;
pub mod to_iptables;

use std::collections::HashMap;

use weir_artefact::manifest::{CompiledRuleRun, FormRuleCoverage, UnchangedRule};
use weir_artefact::{
    CheckedPass, CompiledForm, Deviation, EqualityCheckRecord, PassEqualityEvidence,
};
use weir_model::effect::has_conntrack_enabling_rule;
use weir_model::managing_programs::ManagingProgram;
use weir_model::nft::{self, CreditedRuleOrPolicy};
use weir_model::{
    ChangingSets, CountersByOriginalRule, Family, Firewall, OriginalRuleIndex, RuleId, RuleIdTable,
    Ruleset, Span, iptables_tool_name,
};
use weir_passes::equivalence_check::{self, PacketCheckOptions};
use weir_passes::{CheckedPassesResult, Pass as _, PassContext, passes};

use crate::compile_options::{CompileError, CompileOptions, FormRefusal, FractionDoneFn};
use crate::form_passes;
use crate::text_round_trip::check_nft_text_round_trip;

use self::chain_emitter::CompiledRuleRunReport;
pub use self::hook_comparison::compare_nft_form_at_hooks;
use self::manifest_rule_ids::map_rule_index_to_manifest_id;
pub use self::nft_form::{MovedTable, NftForm};
use self::table_move_plan::{MAX_CALLS_BELOW_BASE_CHAIN, TableMovePlan};

/// The step in the manifest if verdict maps were excluded: rules are still translated to nft.
const TRANSLATION_WITHOUT_MAPS_NAME: &str = "translation_without_maps";

/// Compiles a firewall to nft.
///
/// # Errors
/// [`CompileError::Unsupported`] with every rule that nft cannot say, where no hook is left for
/// nft; [`CompileError::NotEquivalent`] if the check finds a packet that is treated in another way;
/// [`CompileError::ReadBackMismatch`] if the text reads as other tables.
pub fn compile_nft_form_without_passes(
    firewall: &Firewall,
    options: &CompileOptions,
    progress: &mut FractionDoneFn<'_>,
) -> Result<NftForm, CompileError> {
    let run =
        form_passes::run_form_passes(firewall, &[], options, (CompiledForm::Nft, "nft"), progress)?;
    compile_nft_after_passes(firewall, &run, true, options, progress)
}

/// Compiles what passes made of a firewall; runs become verdict maps where `maps`.
pub(crate) fn compile_nft_after_passes(
    original: &Firewall,
    run: &CheckedPassesResult,
    maps: bool,
    options: &CompileOptions,
    progress: &mut FractionDoneFn<'_>,
) -> Result<NftForm, CompileError> {
    let firewall = &run.firewall;
    let mut builder = NftFormBuilder {
        use_verdict_maps: maps,
        compiled_rule_runs: run.compiled_rule_runs.clone(),
        barriers: run.unchanged_rules.clone(),
        ..NftFormBuilder::default()
    };
    for ruleset in firewall.rulesets() {
        progress(&format!("nft: {} rules", iptables_tool_name(ruleset.family)), 0.0);
        let original = original.ruleset(ruleset.family).expect("passes keep the families");
        builder.add_ruleset(ruleset, original, options);
    }
    if builder.moved_tables.is_empty() {
        let refusals = builder.refusals;
        return Err(CompileError::Unsupported { form: CompiledForm::Nft, refusals });
    }
    if options.refuse_rules_left_in_iptables && builder.share.left > 0 {
        let (share, refusals) = (builder.share, builder.refusals);
        return Err(CompileError::RulesLeftInIptables { form: CompiledForm::Nft, share, refusals });
    }
    let stays = builder.iptables_rests_without_trees.clone();
    let mut form = builder.into_form(firewall, options);
    let refusals = lost_shared_objects::refuse_dropped_rules_configuring_kept_objects(
        firewall,
        &form.iptables_tables_with_hooks_left(),
    );
    if !refusals.is_empty() {
        return Err(CompileError::Unsupported { form: CompiledForm::Nft, refusals });
    }
    form.deviations.extend(run.deviations.iter().cloned());
    let mut step = CheckedPass {
        pass: match maps {
            true => passes::FOLD_INTO_VERDICT_MAP_PASS_NAME.to_owned(),
            false => TRANSLATION_WITHOUT_MAPS_NAME.to_owned(),
        },
        evidence: PassEqualityEvidence::Trusted,
        rules_before: form.share.in_form,
        rules_after: form
            .nft_ruleset
            .tables
            .iter()
            .flat_map(|t| &t.chains)
            .map(|c| c.rules.len() as u64)
            .sum(),
        tried_before: None,
        tried_after: None,
    };
    // The text is final: it is read back meanwhile.
    let (checked, read_back) = std::thread::scope(|scope| {
        let read = || check_nft_text_round_trip(&form.nft_ruleset, &form.nft_text);
        let read_back = std::thread::Builder::new().spawn_scoped(scope, read);
        let checked = (!options.trust)
            .then(|| compare_and_prove_form(firewall, stays, (&form, run), options, progress))
            .transpose();
        // Without a thread, the text is read here.
        (checked, read_back.map_or_else(|_| Ok(read()), |thread| thread.join()))
    });
    let read_back = read_back.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if let Some((check, evidence)) = checked? {
        form.equality_check = check;
        step.evidence = evidence;
    }
    read_back.map_err(|what| CompileError::ReadBackMismatch { form: CompiledForm::Nft, what })?;
    form.equality_check.passes.push(step);
    Ok(form)
}

/// Compares a form with the rules that it was made from, packet by packet, and proves it if that is
/// possible.
fn compare_and_prove_form(
    firewall: &Firewall,
    stays: Vec<Ruleset>,
    (form, run): (&NftForm, &CheckedPassesResult),
    options: &CompileOptions,
    progress: &mut FractionDoneFn<'_>,
) -> Result<(EqualityCheckRecord, PassEqualityEvidence), CompileError> {
    progress("nft: check", 0.3);
    let mut check = compare_nft_form_at_hooks(firewall, form, options, progress)?;
    check.packets +=
        compare_iptables_rest_with_trees(stays, &form.iptables_rest, options, progress)?;
    progress("nft: proof", 0.9);
    let budget = (options, run.proof_budget);
    let evidence =
        match nft_form_proof::prove_nft_form_or_explain(firewall, form, budget, progress)? {
            None => PassEqualityEvidence::ProvenAndPacketsCompared(check.packets),
            Some(why) => PassEqualityEvidence::ComparedPackets(check.packets, why),
        };
    Ok((check, evidence))
}

/// Compares what stays in iptables with what it was; how many packets were compared.
fn compare_iptables_rest_with_trees(
    before: Vec<Ruleset>,
    after: &Firewall,
    options: &CompileOptions,
    progress: &mut FractionDoneFn<'_>,
) -> Result<u64, CompileError> {
    if before.iter().all(|r| r.rules_with_table_and_chain().next().is_none()) {
        return Ok(0);
    }
    let mut was = Firewall { sets: after.sets.clone(), ..Firewall::default() };
    for ruleset in before {
        match ruleset.family {
            Family::V4 => was.v4 = Some(ruleset),
            Family::V6 => was.v6 = Some(ruleset),
        }
    }
    let check = PacketCheckOptions {
        seed: options.seed,
        packets_per_family: options.check_packets_per_family,
    };
    let checked = equivalence_check::compare_form_on_generated_packets(
        &was,
        &[after],
        &check,
        equivalence_check::make_iptables_form_comparer(&was, after),
        progress,
    )
    .map_err(|example| CompileError::NotEquivalent { form: CompiledForm::Nft, example })?;
    Ok(checked.packets)
}

#[derive(Default)]
struct NftFormBuilder {
    /// Runs become verdict maps.
    use_verdict_maps: bool,
    nft_ruleset: nft::Ruleset,
    iptables_rest: Firewall,
    moved_tables: Vec<MovedTable>,
    compiled_rule_runs: Vec<CompiledRuleRun>,
    barriers: Vec<UnchangedRule>,
    share: FormRuleCoverage,
    refusals: Vec<FormRefusal>,
    counters: CountersByOriginalRule,
    has_limit_test: bool,
    /// What stays in iptables, before it was shortened.
    iptables_rests_without_trees: Vec<Ruleset>,
    /// Families without conntrack.
    families_without_conntrack_rules: Vec<Family>,
}

impl NftFormBuilder {
    fn add_ruleset(&mut self, ruleset: &Ruleset, original: &Ruleset, options: &CompileOptions) {
        let family = ruleset.family;
        let places = map_rule_index_to_manifest_id(original);
        for place in places.values() {
            self.counters.0.entry(place.clone()).or_default();
        }
        let guard = !has_conntrack_enabling_rule(ruleset);
        if guard {
            self.families_without_conntrack_rules.push(family);
        }
        let mut rest = ruleset.clone();
        for (at, table) in ruleset.tables.iter().enumerate() {
            let mut plan =
                TableMovePlan::new(table, family, &options.programs_with_rewritable_chains);
            self.record_refusals(&plan, ruleset);
            let mut is_deep = false;
            match emit_table_without_lookups_if_too_deep(&plan, guard, self.use_verdict_maps) {
                _ if plan.moved_hooks.is_empty() => {}
                Ok((written, runs)) => {
                    self.record_compiled_rule_runs(runs, &places);
                    self.moved_tables.push(MovedTable {
                        family,
                        table: table.name,
                        nft_name: written.name.clone(),
                        hooks: plan.moved_hooks.clone(),
                        is_whole_table: plan.leaves_nothing_in_iptables(),
                    });
                    self.nft_ruleset.tables.push(written);
                }
                Err(depth) => {
                    let why = format!(
                        "calls nested {depth} chains deep; nft allows {MAX_CALLS_BELOW_BASE_CHAIN}: all of {} stays",
                        table.name
                    );
                    let rule = format!("{}/{}", iptables_tool_name(family), table.name);
                    self.refusals.push(FormRefusal {
                        family,
                        rule_id: rule.clone(),
                        construct: format!(
                            "calls nested {depth} chains deep (nft allows {MAX_CALLS_BELOW_BASE_CHAIN})"
                        ),
                        cure: None,
                        span: Span::NONE,
                    });
                    plan.moved_hooks.clear();
                    nft_rule_coverage::add_nft_table_coverage(&mut self.share, &plan, Some(&why));
                    self.barriers.push(UnchangedRule { rule, why });
                    is_deep = true;
                }
            }
            if !is_deep {
                nft_rule_coverage::add_nft_table_coverage(&mut self.share, &plan, None);
            }
            rest.tables[at] = plan.iptables_table_rest();
            nft_counter_credit::credit_policies_left_in_iptables(&mut self.counters, &plan);
        }
        self.iptables_rests_without_trees.push(rest.clone());
        let rest = self.build_iptables_rest_trees(rest, original, options);
        nft_counter_credit::credit_iptables_rules(&mut self.counters, &rest, &places);
        nft_counter_credit::add_nft_counters_of_family(
            &mut self.counters,
            &self.nft_ruleset,
            family,
            &places,
        );
        match family {
            Family::V4 => self.iptables_rest.v4 = Some(rest),
            Family::V6 => self.iptables_rest.v6 = Some(rest),
        }
    }

    /// What stays in iptables, as prefix trees of chains.
    fn build_iptables_rest_trees(
        &mut self,
        rest: Ruleset,
        original: &Ruleset,
        options: &CompileOptions,
    ) -> Ruleset {
        if rest.rules_with_table_and_chain().next().is_none() {
            return rest;
        }
        let (options, places) =
            (form_passes::build_pass_options(options, "nft"), RuleIdTable::from_ruleset(original));
        let changing = ChangingSets::default();
        let context = PassContext {
            options: &options,
            rule_ids: &places,
            sets: &[],
            traffic_changed_sets: &changing,
        };
        let made = passes::chain_tree::ChainTreePass.run(&rest, &context);
        self.compiled_rule_runs.extend(made.compiled_rule_runs);
        made.ruleset
    }

    /// Notes what nft cannot say, and what stays in iptables for it.
    fn record_refusals(&mut self, plan: &TableMovePlan<'_>, ruleset: &Ruleset) {
        let (family, table) = (ruleset.family, plan.table);
        let stays: Vec<&str> = table
            .name
            .hooks()
            .iter()
            .filter(|h| plan.built_in_chain(**h).is_some() && !plan.moved_hooks.contains(h))
            .map(|h| h.chain_name())
            .collect();
        for refused in &plan.refused_rules {
            let number = Some(refused.number);
            let chain = refused.chain.clone();
            let place = RuleId { family, table: table.name, chain, number }.to_string();
            let span = plan
                .chain(&refused.chain)
                .map_or(Span::NONE, |c| c.rules[refused.number as usize - 1].span);
            self.refusals.push(FormRefusal {
                family,
                rule_id: place.clone(),
                construct: refused.why.clone(),
                cure: None,
                span,
            });
            let why = format!(
                "nft cannot express {}; {} of {} stays in iptables",
                refused.why,
                stays.join(", "),
                table.name
            );
            self.barriers.push(UnchangedRule { rule: place, why });
        }
        self.record_program_chains(plan, &stays.join(", "));
        for (hook, why) in &plan.expressible_hooks_kept_in_iptables {
            let rule =
                format!("{}/{}/{}", iptables_tool_name(family), table.name, hook.chain_name());
            self.barriers.push(UnchangedRule { rule, why: format!("stays in iptables: {why}") });
        }
    }

    /// Notes which chains other programs keep, a line per program.
    fn record_program_chains(&mut self, plan: &TableMovePlan<'_>, stays: &str) {
        let (family, table) = (plan.family, plan.table.name);
        for program in ManagingProgram::ALL {
            let mut chains = plan
                .chains_of_managing_programs
                .iter()
                .filter(|(_, p)| *p == program)
                .map(|(c, _)| c);
            let Some(first) = chains.next() else { continue };
            let place = format!("{}/{table}/{first}", iptables_tool_name(family));
            let all = match chains.count() {
                0 => format!("a chain that {program} keeps in iptables"),
                more => format!("chains that {program} keeps in iptables, this and {more} more"),
            };
            self.refusals.push(FormRefusal {
                family,
                rule_id: place.clone(),
                construct: all.clone(),
                cure: Some(format!(
                    "--programs {program} copies them, without the program being aware of it"
                )),
                span: Span::NONE,
            });
            let why = match stays {
                "" => format!("{all}: {table} keeps them"),
                stays => format!("{all}; {stays} of {table} stays there"),
            };
            self.barriers.push(UnchangedRule { rule: place, why });
        }
    }

    fn record_compiled_rule_runs(
        &mut self,
        runs: Vec<CompiledRuleRunReport>,
        places: &HashMap<OriginalRuleIndex, String>,
    ) {
        for run in runs {
            let first = match run.first_credit {
                Some(CreditedRuleOrPolicy::Rule(id)) => {
                    places.get(&id).cloned().unwrap_or_default()
                }
                _ => String::new(),
            };
            let rules = run.rule_count as u32;
            self.compiled_rule_runs.push(CompiledRuleRun { first, rules, into: run.description });
        }
    }

    fn into_form(mut self, firewall: &Firewall, options: &CompileOptions) -> NftForm {
        self.iptables_rest.sets = firewall.sets.clone();
        let statements =
            self.nft_ruleset.tables.iter().flat_map(|t| &t.chains).flat_map(|c| &c.rules);
        self.has_limit_test = statements
            .flat_map(|r| &r.statements)
            .any(|s| matches!(s, nft::Statement::OpaqueTest(o) if o.text.starts_with("limit")));
        NftForm {
            nft_text: weir_syntax::nft::print(&self.nft_ruleset),
            memory_bytes: nft_counter_credit::estimate_nft_kernel_bytes(
                &self.nft_ruleset,
                options.target_machine_cpus,
            ),
            deviations: self.list_form_deviations(),
            nft_ruleset: self.nft_ruleset,
            iptables_rest: self.iptables_rest,
            moved_tables: self.moved_tables,
            compiled_rule_runs: self.compiled_rule_runs,
            barriers: self.barriers,
            share: self.share,
            counters: self.counters,
            equality_check: EqualityCheckRecord::default(),
        }
    }

    fn list_form_deviations(&self) -> Vec<Deviation> {
        let mut out = vec![Deviation::TruncatedHeader, Deviation::TcpFragment];
        if self
            .moved_tables
            .iter()
            .any(|m| !self.families_without_conntrack_rules.contains(&m.family))
        {
            out.push(Deviation::LaterFragment);
        }
        if self.has_limit_test {
            out.push(Deviation::LimitResolution);
        }
        out
    }
}

/// The table with its runs; without them if chains would be nested too deeply, or if they are not
/// wanted. The depth if even that does not help.
fn emit_table_without_lookups_if_too_deep(
    plan: &TableMovePlan<'_>,
    guard: bool,
    maps: bool,
) -> Result<(nft::Table, Vec<CompiledRuleRunReport>), usize> {
    let mut deepest = 0;
    for runs in [true, false].into_iter().filter(|runs| maps || !runs) {
        let (written, compiled) = plan.emit_table(guard, runs);
        deepest = table_move_plan::find_max_call_depth_of_table(&written);
        if deepest <= MAX_CALLS_BELOW_BASE_CHAIN {
            return Ok((written, compiled));
        }
    }
    Err(deepest)
}
