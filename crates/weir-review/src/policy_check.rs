//! Whether a ruleset keeps a policy: `weir test`.
//!
//! [`check_policy`] decides every test. A packet is sent through the interpreter
//! ([`packet_decision`]); a region is decided for all its packets by the diagrams of
//! `weir-diagram`, on every path that its packets may take ([`region_decision`]). What cannot be
//! decided never holds: a verdict that depends on a match of which weir does not know the result,
//! or diagrams that exceed their limits.

mod junit;
mod packet_decision;
mod policy_report;
mod region_decision;
mod render_text;
mod tap;
mod test_conditions;

use std::collections::HashSet;

use weir_diagram::ProofBudget;
use weir_model::effect::{match_module_name, verdict_or_extension_name};
use weir_model::{Family, Firewall, Rule};
use weir_semantics::JourneyKind;
use weir_syntax::policy::{FirewallPolicy, PolicyTest, PolicyTestPackets};

pub use self::policy_report::{
    InvalidTestReason, PolicyPathReport, PolicyReport, PolicyTestReport, PolicyTestResult,
    TracedPacket,
};
use self::region_decision::RegionTest;
pub use self::test_conditions::is_expected_verdict;
use self::test_conditions::{journeys_of_test, missing_family_reason};

/// What deciding a policy may take.
#[derive(Clone, Copy, Debug)]
pub struct PolicyCheckLimits {
    /// Memory of the diagrams of one family and path, in bytes.
    pub memory_bytes: usize,
    /// Steps of all diagrams, as in
    /// [`CompareOptions::steps_max`](weir_diagram::CompareOptions::steps_max).
    pub steps_max: u64,
}

/// Decides every test. `progress` is called before the diagrams of a family and path are built.
pub fn check_policy(
    policy: &FirewallPolicy,
    firewall: &Firewall,
    limits: PolicyCheckLimits,
    progress: &mut dyn FnMut(Family, JourneyKind),
) -> PolicyReport {
    let mut tests: Vec<PolicyTestReport> = policy.tests.iter().map(PolicyTestReport::new).collect();
    let mut regions: Vec<RegionTest<'_>> = Vec::new();
    for (index, test) in policy.tests.iter().enumerate() {
        let report = &mut tests[index];
        report.invalid = find_unused_assumption(test, firewall);
        if report.invalid.is_some() {
            continue;
        }
        match &test.subject {
            PolicyTestPackets::Packet { packet, given } => {
                match packet_decision::decide_packet(test, (packet, *given), firewall) {
                    Ok(path) => report.paths.push(path),
                    Err(reason) => report.invalid = Some(reason),
                }
            }
            PolicyTestPackets::Region { family, .. } => match families_of_region(*family, firewall)
            {
                Ok(families) => regions.push(RegionTest { index, test, families }),
                Err(reason) => report.invalid = Some(reason),
            },
        }
    }
    let mut budget = ProofBudget::new(limits.steps_max);
    let journeys: Vec<(Family, JourneyKind)> = list_journeys(&regions);
    for (number, (family, journey)) in journeys.iter().enumerate() {
        progress(*family, *journey);
        let more_follow = number + 1 < journeys.len();
        let decided = region_decision::decide_regions_on_journey(
            &regions,
            firewall,
            (*family, *journey),
            (limits.memory_bytes, budget.steps_for_next_proof(more_follow)),
        );
        budget.spend(decided.steps);
        for (index, path) in decided.paths {
            tests[index].paths.push(path);
        }
    }
    for region in &regions {
        let report = &mut tests[region.index];
        if report.paths.is_empty() && report.invalid.is_none() {
            report.invalid = Some(InvalidTestReason {
                message: "no packet is in the region".to_owned(),
                cure: "its conditions contradict each other, or the path: change them".to_owned(),
            });
        }
    }
    tests.iter_mut().for_each(PolicyTestReport::set_worst_result_of_paths);
    PolicyReport::from_tests(tests)
}

/// The families in which a region is decided.
fn families_of_region(
    family: Option<Family>,
    firewall: &Firewall,
) -> Result<Vec<Family>, InvalidTestReason> {
    let wanted = match family {
        Some(family) => vec![family],
        None => vec![Family::V4, Family::V6],
    };
    let there: Vec<Family> =
        wanted.into_iter().filter(|family| firewall.ruleset(*family).is_some()).collect();
    if there.is_empty() { Err(missing_family_reason(family)) } else { Ok(there) }
}

/// An assumption about a module or target that no rule uses.
fn find_unused_assumption(test: &PolicyTest, firewall: &Firewall) -> Option<InvalidTestReason> {
    let is_in_some_rule = |is_used: &dyn Fn(&Rule, Family) -> bool| {
        firewall.rulesets().any(|ruleset| {
            let mut rules = ruleset.rules_with_table_and_chain();
            rules.any(|(_, _, rule)| is_used(rule, ruleset.family))
        })
    };
    let is_module_used = |module: &str| {
        is_in_some_rule(&|rule, family| {
            rule.matches.iter().any(|m| match_module_name(m, family) == module)
        })
    };
    let is_target_used = |target: &str| {
        is_in_some_rule(&|rule, _| verdict_or_extension_name(&rule.target) == Some(target))
    };
    let cure = "remove the assumption, or name the module as the rules do".to_owned();
    if let Some(unused) = test.assumed_results.iter().find(|a| !is_module_used(&a.module)) {
        return Some(InvalidTestReason {
            message: format!("no rule has -m {}", unused.module),
            cure,
        });
    }
    let mut droppers = test.assumed_not_to_drop.iter();
    let unused = droppers.find(|name| !is_module_used(name) && !is_target_used(name))?;
    Some(InvalidTestReason { message: format!("no rule has -m {unused} or -j {unused}"), cure })
}

/// Families and journeys of some regions, each once.
fn list_journeys(regions: &[RegionTest<'_>]) -> Vec<(Family, JourneyKind)> {
    let wanted: HashSet<(Family, JourneyKind)> = regions
        .iter()
        .flat_map(|region| {
            let journeys = journeys_of_test(region.test);
            region.families.iter().flat_map(move |family| {
                journeys.clone().into_iter().map(move |journey| (*family, journey))
            })
        })
        .collect();
    let all = [Family::V4, Family::V6]
        .into_iter()
        .flat_map(|family| JourneyKind::ALL.map(|journey| (family, journey)));
    all.filter(|journey| wanted.contains(journey)).collect()
}
