//! Rulesets of which one rule is changed, against the policy of the published one.

use std::collections::HashSet;
use std::process::Command;

use weir_model::{Firewall, Packet};
use weir_review::explain::verdict_words;
use weir_review::policy_check::{
    PolicyReport, PolicyTestReport, PolicyTestResult, is_expected_verdict,
};
use weir_semantics::{AlwaysFalseOracle, Interpreter, JourneyKind, Oracle, RuleAnswersTrueOracle};
use weir_syntax::packet::parse_packet;
use weir_syntax::policy::PolicyTest;
use weir_testkit::TempFolder;
use weir_testkit::random_ruleset::TestRng;

use crate::kernel_verdicts::send_packets_through_kernel;
use crate::policy_case::{PolicyCase, journey_of_path};
use crate::region_samples::RegionSampler;
use crate::rule_mutation::{RuleLine, RuleMutation, list_rule_lines, mutate_rule};

/// Rules of a ruleset that are changed: most of them those that packets of the policy count in.
const RULES_CHANGED_MAX: usize = 60;
/// So many are enough if the kernel has confirmed a change that a test found.
const RULES_CHANGED_AFTER_CONFIRMATION_MAX: usize = 12;
/// Of more rules, where a check takes seconds, one confirmed change is enough.
const LARGE_RULESET_RULES: usize = 1_000;
/// Failing packets that are sent through the kernel until it confirms one.
const KERNEL_CONFIRMATIONS_TRIED_MAX: usize = 12;

/// How many changes policies found.
#[derive(Default)]
pub struct MutationTally {
    pub mutations: usize,
    /// A test fails.
    pub caught: usize,
    /// No test fails; for some it depends on what packets do not determine.
    pub undecided: usize,
    /// All tests hold: for their packets, the rulesets are equivalent.
    pub equivalent: usize,
    /// The text is no ruleset.
    pub unreadable: usize,
    /// Changes of which the kernel confirmed a failing packet.
    pub confirmed_by_kernel: usize,
    pub wrong: Vec<String>,
}

impl MutationTally {
    pub const TABLE_HEAD: &str = "policy: changes, caught (confirmed by the kernel), undecided, \
                                  equivalent for its packets, not readable";

    pub fn table_row(&self, name: &str) -> String {
        format!(
            "{name}: {}, {} ({}), {}, {}, {}",
            self.mutations,
            self.caught,
            self.confirmed_by_kernel,
            self.undecided,
            self.equivalent,
            self.unreadable
        )
    }

    pub fn add(&mut self, other: MutationTally) {
        self.mutations += other.mutations;
        self.caught += other.caught;
        self.undecided += other.undecided;
        self.equivalent += other.equivalent;
        self.unreadable += other.unreadable;
        self.confirmed_by_kernel += other.confirmed_by_kernel;
        self.wrong.extend(other.wrong);
    }
}

/// A packet of a test.
type SampledPacket<'p> = (&'p PolicyTest, JourneyKind, Packet);

/// Changes rules of a ruleset, one at a time, and checks its policy.
pub fn test_mutations(case: &PolicyCase) -> MutationTally {
    let firewall = case.firewall();
    let samples = sample_tests(case, &firewall);
    let rules = list_rule_lines(&case.rules);
    let mut tally = MutationTally::default();
    let mut kernel_tries = 0;
    let is_large = rules.len() > LARGE_RULESET_RULES;
    let enough = if is_large { 1 } else { RULES_CHANGED_AFTER_CONFIRMATION_MAX };
    let chosen = choose_rules(case, &firewall, &rules, &samples);
    for (changed, rule) in chosen.into_iter().enumerate() {
        if changed >= enough && tally.confirmed_by_kernel > 0 {
            break;
        }
        for mutation in RuleMutation::ALL {
            let Some(text) = mutate_rule(&case.rules, &rules, &rule, mutation) else { continue };
            tally.mutations += 1;
            let Some(mutated) = case.firewall_with_rules(&text) else {
                tally.unreadable += 1;
                continue;
            };
            let report = case.check(&mutated);
            let what =
                format!("{}: {}/{}/{} {mutation}", case.name, rule.table, rule.chain, rule.number);
            if report.failing_tests > 0 {
                tally.caught += 1;
                if tally.confirmed_by_kernel == 0 && kernel_tries < KERNEL_CONFIRMATIONS_TRIED_MAX {
                    kernel_tries += 1;
                    let confirmed = confirm_failing_packet(case, &mutated, &report, &text);
                    match confirmed {
                        Ok(is_confirmed) => {
                            tally.confirmed_by_kernel += usize::from(is_confirmed);
                        }
                        Err(wrong) => tally.wrong.push(format!("{what}: {wrong}")),
                    }
                }
                continue;
            }
            if report.undecided_tests + report.invalid_tests > 0 {
                tally.undecided += 1;
                continue;
            }
            tally.equivalent += 1;
            if let Some(packet) = find_contradicting_packet(&mutated, &samples) {
                tally.wrong.push(format!("{what}: all tests hold, but not for {packet:?}"));
            }
        }
    }
    if tally.caught == 0 {
        tally.wrong.push(format!("{}: no change of a rule fails a test", case.name));
    } else if tally.confirmed_by_kernel == 0 {
        tally.wrong.push(format!("{}: the kernel confirmed no failing packet", case.name));
    }
    tally
}

fn sample_tests<'p>(case: &'p PolicyCase, firewall: &Firewall) -> Vec<SampledPacket<'p>> {
    let report = case.check(firewall);
    let mut sampler = RegionSampler::new(firewall, case.family);
    let mut samples = Vec::new();
    for (test, decided) in case.policy.tests.iter().zip(&report.tests) {
        for path in &decided.paths {
            let journey = journey_of_path(path.path);
            let packets = sampler.sample_test(test, journey);
            samples.extend(packets.into_iter().map(|packet| (test, journey, packet)));
        }
    }
    samples
}

/// The rules to change: three of four are such that packets of the policy count in.
fn choose_rules(
    case: &PolicyCase,
    firewall: &Firewall,
    rules: &[RuleLine],
    samples: &[SampledPacket<'_>],
) -> Vec<RuleLine> {
    let interpreter = Interpreter::new(firewall);
    let mut counting = HashSet::new();
    let mut oracles: [Box<dyn Oracle>; 2] =
        [Box::new(AlwaysFalseOracle), Box::new(RuleAnswersTrueOracle)];
    let both = samples.iter().flat_map(|sample| [(sample, 0), (sample, 1)]);
    for ((_, journey, packet), oracle) in both {
        let outcome = interpreter.evaluate_journey(packet, *journey, oracles[oracle].as_mut());
        let ids = outcome.hits.iter().filter_map(|hit| hit.rule_or_policy_id(case.family));
        counting.extend(ids.filter_map(|id| {
            Some((id.table.as_str().to_owned(), id.chain.to_string(), id.number?))
        }));
    }
    let is_counting =
        |rule: &RuleLine| counting.contains(&(rule.table.clone(), rule.chain.clone(), rule.number));
    let (mut hit, mut other): (Vec<RuleLine>, Vec<RuleLine>) =
        rules.iter().cloned().partition(is_counting);
    let max = RULES_CHANGED_MAX;
    let mut rng = TestRng::new(16);
    let mut chosen = remove_random_rules(&mut hit, max - max / 4, &mut rng);
    chosen.append(&mut remove_random_rules(&mut other, max - chosen.len(), &mut rng));
    chosen
}

fn remove_random_rules(rules: &mut Vec<RuleLine>, max: usize, rng: &mut TestRng) -> Vec<RuleLine> {
    let mut taken = Vec::new();
    while taken.len() < max && !rules.is_empty() {
        taken.push(rules.swap_remove(rng.number_below(rules.len())));
    }
    taken
}

/// A packet for which a ruleset does not do what the policy states.
fn find_contradicting_packet<'s>(
    mutated: &Firewall,
    samples: &'s [SampledPacket<'_>],
) -> Option<&'s Packet> {
    let interpreter = Interpreter::new(mutated);
    let contradicts = |(test, journey, packet): &&SampledPacket<'_>| {
        if has_assumptions(test) {
            return false;
        }
        let outcome = interpreter.evaluate_journey(packet, *journey, &mut AlwaysFalseOracle);
        !is_expected_verdict(&test.expected, outcome.verdict)
    };
    samples.iter().find(contradicts).map(|(_, _, packet)| packet)
}

/// Whether the kernel, with the changed ruleset loaded, gives a packet that a failing test shows
/// the verdict that is shown. The program ends with status 1 and shows the packet's path.
fn confirm_failing_packet(
    case: &PolicyCase,
    mutated: &Firewall,
    report: &PolicyReport,
    text: &str,
) -> Result<bool, String> {
    check_that_weir_test_fails(case, text)?;
    let both = case.policy.tests.iter().zip(&report.tests);
    let mut failing: Vec<(&PolicyTest, &PolicyTestReport)> =
        both.filter(|(_, decided)| decided.result == PolicyTestResult::Fails).collect();
    failing.sort_by_key(|(test, _)| has_assumptions(test));
    for (test, decided) in failing {
        let Some((journey, packet, shown_verdict)) = failing_packet(decided) else {
            return Err(format!("{}: no packet is shown", test.words));
        };
        for own in [true, false] {
            let packets = vec![(journey, packet.clone())];
            let kernel = send_packets_through_kernel(mutated, packets, own);
            if !kernel.has_no_unintended_difference() {
                return Err(format!("{}: {kernel}", test.words));
            }
            let [sent] = &kernel.compared_packets[..] else { continue };
            if verdict_words(sent.verdict) == shown_verdict {
                return Ok(true);
            }
            // An assumption may not be true in the kernel; and what conntrack or routing makes of
            // the packet may be something else.
            let is_as_shown = sent.packet.ct.state == packet.ct.state
                && sent.journey_kind == journey
                && !has_assumptions(test);
            if is_as_shown && is_expected_verdict(&test.expected, sent.verdict) {
                return Err(format!(
                    "{}: the kernel: {:?} for {packet:?}",
                    test.words, sent.verdict
                ));
            }
        }
    }
    Ok(false)
}

fn has_assumptions(test: &PolicyTest) -> bool {
    !test.assumed_results.is_empty() || !test.assumed_not_to_drop.is_empty()
}

/// The packet that is shown for a failing test, and its verdict.
fn failing_packet(decided: &PolicyTestReport) -> Option<(JourneyKind, Packet, &str)> {
    let path = decided.paths.iter().find(|path| path.result == PolicyTestResult::Fails)?;
    let shown = path.packet.as_ref()?;
    let packet = parse_packet(&shown.packet);
    let packet = packet.unwrap_or_else(|error| panic!("{}: {error}", shown.packet));
    Some((journey_of_path(path.path), packet, &shown.verdict))
}

fn check_that_weir_test_fails(case: &PolicyCase, text: &str) -> Result<(), String> {
    let folder = TempFolder::new("policy-mutation");
    let rules = folder.write_file("changed.rules", text);
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("test").arg(&case.policy_path);
    if case.family == weir_model::Family::V6 {
        command.arg("--ip6");
    }
    let output = command.arg(&rules).output().expect("weir runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    let is_complete = ["FAILS", "    fails for  ", "verdict: "].iter().all(|w| printed.contains(w));
    match (output.status.code(), is_complete) {
        (Some(1), true) => Ok(()),
        (status, _) => Err(format!(
            "weir test ends with {status:?}: {printed}{}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}
