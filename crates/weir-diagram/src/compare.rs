//! Compares two rulesets on every path, with one variable order after the other.

use std::cell::OnceCell;

use weir_model::effect::shared_objects::SharedObjectsAtLoad;
use weir_model::{Family, Firewall, Hook, iptables_tool_name};
use weir_semantics::JourneyKind;

use crate::bdd::node_store::LimitReached;
use crate::common_chains::ProvenTableEquality;
use crate::compared_pair::{
    ComparedPair, do_prerouting_rules_see_fragments, make_compared_rulesets,
};
use crate::compared_ruleset::ComparedRuleset;
use crate::comparison_types::{
    CompareError, CompareOptions, CompareScope, ComparedPath, Comparison, ComparisonVerdict,
    DiagramSizeAndSteps, FamilyPathComparison,
};
use crate::difference_slice::changed_rule_witness::ChangedRuleOnPath;
use crate::difference_slice::slice_to_difference;
use crate::ipv4_fragment_drops::have_same_leading_drops;
use crate::lockstep::lockstep_proof::LockstepResults;
use crate::packet_sets::packet_space::PacketSpaceBasis;
use crate::packet_sets::variable_layout::VariableOrder;
use crate::proof_budget::ProofBudget;
use crate::reassembly_difference::find_reassembly_difference;
use crate::rule_diagrams::rule_and_chain_diagrams::BuildError;
use crate::variable_order_search::rank_variable_orders;

/// Which part of the steps is for choosing the order of addresses and ports.
const VARIABLE_ORDER_RANKING_STEPS_DIVISOR: u64 = 8;

/// The part of the steps that a difference may take to be described if one packet of it is known:
/// of the usual budget, some seconds.
const KNOWN_DIFFERENCE_DESCRIPTION_STEPS_DIVISOR: u64 = 4;

/// Changed rules on a path up to which a change is taken for an edit.
const CHANGED_RULES_OF_SMALL_EDIT_MAX: usize = 32;

/// Compares the meaning of two firewalls for all packets.
///
/// A part that differs has a packet that the [`Interpreter`](weir_semantics::Interpreter) evaluated
/// with both rulesets: its difference is verified.
///
/// ```
/// use weir_model::{Chain, Family, Firewall, Hook, Policy, Ruleset, Table, TableName};
/// use weir_diagram::{CompareOptions, CompareScope, compare_firewalls};
///
/// let firewall = |policy| {
///     let mut ruleset = Ruleset::new(Family::V4);
///     ruleset.tables.push(Table {
///         name: TableName::Filter,
///         chains: vec![Chain::new("FORWARD", Some(policy))],
///         leading_comments: vec![],
///         trailing_comments: vec![],
///     });
///     Firewall { v4: Some(ruleset), ..Firewall::default() }
/// };
/// let (open, shut) = (firewall(Policy::Accept), firewall(Policy::Drop));
/// let options = CompareOptions { scope: CompareScope::OneHook(Hook::Forward), ..Default::default() };
/// assert!(compare_firewalls(&open, &open, &options)?.is_equal());
/// let comparison = compare_firewalls(&open, &shut, &options)?;
/// let (_, differs) = comparison.differences().next().expect("they differ");
/// assert_eq!(differs.regions[0].to_string(), "every packet");
/// assert!(differs.verdict_changes[0].is_newly_denied());
/// # Ok::<(), weir_diagram::CompareError>(())
/// ```
///
/// # Errors
/// [`CompareError`]: one of the two does not load, or there is a mistake in weir itself.
pub fn compare_firewalls(
    before: &Firewall,
    after: &Firewall,
    options: &CompareOptions,
) -> Result<Comparison, CompareError> {
    compare_with_progress(before, after, options, &mut |_, _| {})
}

/// The same, and reports each part before it begins.
///
/// # Errors
/// As [`compare_firewalls`].
pub fn compare_with_progress(
    before: &Firewall,
    after: &Firewall,
    options: &CompareOptions,
    progress: &mut dyn FnMut(Family, ComparedPath),
) -> Result<Comparison, CompareError> {
    check_same_shared_object_errors(before, after)?;
    let is_compared = |family: &Family| {
        let there = before.ruleset(*family).is_some() || after.ruleset(*family).is_some();
        there && options.family.is_none_or(|f| f == *family)
    };
    let families: Vec<Family> = [Family::V4, Family::V6].into_iter().filter(is_compared).collect();
    let ranking_steps_max = options.steps_max / VARIABLE_ORDER_RANKING_STEPS_DIVISOR;
    let mut run = ComparisonRun {
        firewalls: [before, after],
        options,
        paths: list_compared_paths(options),
        ranking_steps_max_per_family: ranking_steps_max / families.len().max(1) as u64,
        budget: ProofBudget::new(options.steps_max - ranking_steps_max),
        result: Comparison { parts: Vec::new(), steps: 0 },
    };
    for (number, family) in families.iter().enumerate() {
        run.compare_family(*family, number + 1 == families.len(), progress)?;
    }
    Ok(run.result)
}

fn list_compared_paths(options: &CompareOptions) -> Vec<ComparedPath> {
    match options.scope {
        CompareScope::OneHook(hook) => vec![ComparedPath::Hook(hook)],
        CompareScope::Journey => {
            let wanted = |kind: &JourneyKind| options.journey_kind.is_none_or(|only| only == *kind);
            JourneyKind::ALL.into_iter().filter(wanted).map(ComparedPath::WholeJourney).collect()
        }
    }
}

/// A comparison, family after family.
struct ComparisonRun<'r> {
    firewalls: [&'r Firewall; 2],
    options: &'r CompareOptions,
    paths: Vec<ComparedPath>,
    ranking_steps_max_per_family: u64,
    budget: ProofBudget,
    result: Comparison,
}

impl ComparisonRun<'_> {
    fn compare_family(
        &mut self,
        family: Family,
        is_last_family: bool,
        progress: &mut dyn FnMut(Family, ComparedPath),
    ) -> Result<(), CompareError> {
        let ([before, after], options, paths) = (self.firewalls, self.options, &self.paths);
        let mut sides = make_compared_rulesets(self.firewalls, family, options);
        let space_basis = PacketSpaceBasis::of_firewalls(family, &self.firewalls);
        let has_same_sets = space_basis.firewalls_have_same_ipsets;
        let has_reassembled = paths.contains(&ComparedPath::WholeJourney(JourneyKind::Input))
            && do_prerouting_rules_see_fragments(self.firewalls, family, options);
        let reassembled = has_reassembled.then_some(ComparedPath::ReassembledInput);
        // Which datagrams are reassembled is decided by rules that are in no slice.
        let slice = (!has_reassembled || have_same_leading_drops(self.firewalls))
            .then(|| slice_to_difference(&sides, paths, (family, has_same_sets)))
            .flatten();
        let changed_rules = slice.as_ref().map_or(&[][..], |slice| &slice.changed_rules);
        for (side, slice) in sides.iter_mut().zip(slice.iter().flat_map(|slice| &slice.rulesets)) {
            side.replace_rules_by_slice(slice);
        }
        // The first, if both have as many rules.
        let rulesets = sides.iter().rev().filter_map(ComparedRuleset::ruleset);
        let larger = rulesets.max_by_key(|r| r.rules_with_table_and_chain().count());
        let whole = ComparedPair {
            before,
            after,
            sides: &sides,
            space_basis: &space_basis,
            interpreters: &OnceCell::new(),
            options,
            steps_max: options.steps_max,
            family,
            path: ComparedPath::ReassembledInput,
            is_prerouting_same: false,
        };
        let mut state = FamilyStepEstimateAndProofs::new(&whole);
        let most = if state.may_stateful_tests_multiply_steps {
            state.typical_steps_for_ruleset_size
        } else {
            u64::MAX
        };
        let most = most.min(self.ranking_steps_max_per_family);
        let orders = OnceCell::new();
        let ranked = || orders.get_or_init(|| rank_variable_orders(family, larger, paths, most));
        let orders_by_rank = || &*ranked().orders;
        let fragments = find_reassembly_difference(before, after, family, options.conntrack_in_use);
        let all_paths: Vec<ComparedPath> = paths.iter().copied().chain(reassembled).collect();
        for (number, path) in all_paths.iter().enumerate() {
            progress(family, *path);
            let more_follow = number + 1 < all_paths.len() || !is_last_family;
            let steps_max = self.budget.steps_for_next_proof(more_follow);
            let mut pair = ComparedPair { steps_max, path: *path, ..whole };
            if Some(*path) == reassembled && !have_same_leading_drops(self.firewalls) {
                // The rules that drop all fragments of a datagram may be in chains or sets.
                let path = ComparedPath::Hook(Hook::Prerouting);
                let prerouting = ComparedPair { path, ..pair };
                let part =
                    compare_by_cheapest_proof(&prerouting, &[], &orders_by_rank, &mut state)?;
                pair.is_prerouting_same = matches!(part.verdict, ComparisonVerdict::Equal);
                self.budget.spend(part.statistics.steps);
                self.result.steps += part.statistics.steps;
                pair.steps_max = steps_max.saturating_sub(part.statistics.steps);
            }
            let mut part =
                compare_by_cheapest_proof(&pair, changed_rules, &orders_by_rank, &mut state)?;
            self.budget.spend(part.statistics.steps);
            self.result.steps += part.statistics.steps;
            match (&part.verdict, &fragments) {
                // Nothing to say of a path that few expect.
                (ComparisonVerdict::Equal, _) if Some(*path) == reassembled => continue,
                (ComparisonVerdict::Equal, Some(fragments)) => {
                    part.verdict = ComparisonVerdict::ReassemblyDiffers(fragments.clone());
                }
                _ => {}
            }
            self.result.parts.push(part);
        }
        self.result.steps += orders.get().map_or(0, |ranked| ranked.steps);
        Ok(())
    }
}

/// A ruleset that the kernel refuses has no meaning that could be equal to that of another.
fn check_same_shared_object_errors(
    before: &Firewall,
    after: &Firewall,
) -> Result<(), CompareError> {
    let [old, new] = [before, after].map(|f| SharedObjectsAtLoad::from_rulesets(f.rulesets()));
    if let Some(object) = old.first_conflict_difference(&new) {
        let in_first = old.describe_conflict(object);
        let which = if in_first.is_some() { "first" } else { "second" };
        let configurations = in_first.or_else(|| new.describe_conflict(object)).unwrap_or_default();
        let object = object.to_string();
        return Err(CompareError::SharedObjectConflict { which, object, configurations });
    }
    let Some((family, object)) = old.first_missing_object_difference(&new) else { return Ok(()) };
    let first = old.objects_missing_at_load().any(|missing| missing == (family, object));
    let which = if first { "first" } else { "second" };
    let tool = iptables_tool_name(family);
    Err(CompareError::OneRulesetRefusedByKernel {
        refused_ruleset: which,
        tool,
        missing_object: object.to_string(),
    })
}

/// What the paths of a family's rulesets have in common.
struct FamilyStepEstimateAndProofs {
    /// The steps that suffice for most rulesets of that size.
    typical_steps_for_ruleset_size: u64,
    /// Whether stateful and opaque tests may multiply the steps of diagrams.
    may_stateful_tests_multiply_steps: bool,
    proven_table_equality: ProvenTableEquality,
    lockstep_results: LockstepResults,
}

impl FamilyStepEstimateAndProofs {
    fn new(pair: &ComparedPair<'_>) -> FamilyStepEstimateAndProofs {
        FamilyStepEstimateAndProofs {
            typical_steps_for_ruleset_size: pair.usual_diagram_steps(),
            may_stateful_tests_multiply_steps: pair.may_tests_multiply_diagram_steps(),
            proven_table_equality: ProvenTableEquality::new(),
            lockstep_results: LockstepResults::default(),
        }
    }
}

/// Compares in lockstep; with common chains as calls; as sequences where tests multiply the steps
/// of diagrams; else tries one order after the other until the memory suffices.
///
/// If some packet is known to differ, at most the usual steps are used to find all of them.
fn compare_by_cheapest_proof<'f, 'o>(
    pair: &ComparedPair<'f>,
    changed_rules: &[ChangedRuleOnPath<'f>],
    orders: &dyn Fn() -> &'o [VariableOrder],
    plan: &mut FamilyStepEstimateAndProofs,
) -> Result<FamilyPathComparison, CompareError> {
    let mut statistics = DiagramSizeAndSteps::default();
    if pair.are_equal_in_lockstep(&mut plan.lockstep_results, &mut statistics) {
        return Ok(pair.make_family_path_comparison(ComparisonVerdict::Equal, statistics));
    }
    let ranked_steps = if plan.may_stateful_tests_multiply_steps {
        plan.typical_steps_for_ruleset_size
    } else {
        pair.steps_max / 4
    };
    let steps = [plan.typical_steps_for_ruleset_size, ranked_steps];
    // The edit of a few rules mostly changes something: a packet that shows it is cheaper than
    // proofs that fail. Where a pass changed many, the proofs mostly succeed.
    let changed_on_path = changed_rules.iter().filter(|changed| changed.path == pair.path);
    let is_edit = changed_on_path.count() <= CHANGED_RULES_OF_SMALL_EDIT_MAX;
    let mut differing = is_edit
        .then(|| pair.find_differing_packet_of_changed_rules(changed_rules, &mut statistics))
        .flatten();
    if differing.is_none()
        && pair.are_equal_with_common_chains(
            orders,
            steps,
            &mut plan.proven_table_equality,
            &mut statistics,
        )
    {
        return Ok(pair.make_family_path_comparison(ComparisonVerdict::Equal, statistics));
    }
    if !is_edit {
        differing = pair.find_differing_packet_of_changed_rules(changed_rules, &mut statistics);
    }
    let steps_max = match differing {
        Some(_) => {
            let steps = plan
                .typical_steps_for_ruleset_size
                .max(pair.steps_max / KNOWN_DIFFERENCE_DESCRIPTION_STEPS_DIVISOR);
            (statistics.steps + steps).min(pair.steps_max)
        }
        None => pair.steps_max,
    };
    let pair = &ComparedPair { steps_max, ..*pair };
    if plan.may_stateful_tests_multiply_steps {
        let steps_max =
            (statistics.steps + plan.typical_steps_for_ruleset_size).min(pair.steps_max);
        statistics.order = orders()[0];
        let quick = ComparedPair { steps_max, ..*pair };
        if let Ok(answer) = quick.compare_with_variable_order(statistics.order, &mut statistics) {
            return Ok(pair.make_family_path_comparison(answer?, statistics));
        }
        if differing.is_none() && pair.are_equal_as_sequences(&mut statistics) {
            return Ok(pair.make_family_path_comparison(ComparisonVerdict::Equal, statistics));
        }
    }
    let why = match compare_in_first_sufficient_order(pair, orders(), &mut statistics) {
        Ok(answer) => return Ok(pair.make_family_path_comparison(answer?, statistics)),
        Err(why) => why,
    };
    let verdict = match differing {
        Some(example) => ComparisonVerdict::DiffersOnPacket { example: Box::new(example), why },
        None => ComparisonVerdict::Undecided { why },
    };
    Ok(pair.make_family_path_comparison(verdict, statistics))
}

/// The verdict of whole diagrams in the first order for which the memory suffices; the reason if
/// there is none, or the steps do not suffice.
fn compare_in_first_sufficient_order(
    pair: &ComparedPair<'_>,
    orders: &[VariableOrder],
    statistics: &mut DiagramSizeAndSteps,
) -> Result<Result<ComparisonVerdict, CompareError>, String> {
    let mut why = String::new();
    for order in orders {
        statistics.order = *order;
        match pair.compare_with_variable_order(*order, statistics) {
            Ok(answer) => return Ok(answer),
            Err(BuildError::LimitReached(LimitReached::Memory)) => {
                let mib = pair.options.memory_bytes >> 20;
                why = format!("the diagrams need more than the allowed {mib} MiB");
            }
            Err(BuildError::LimitReached(LimitReached::Steps)) => {
                let millions = (pair.steps_max as f64 / 1e5).round() / 10.0;
                return Err(format!("not proven within {millions} million steps"));
            }
            Err(BuildError::OtherReason(other)) => return Err(other),
        }
    }
    Err(why)
}
