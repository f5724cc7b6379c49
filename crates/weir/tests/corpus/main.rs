//! Policies for published rulesets (`testdata/policies`): they hold, the kernel gives packets of
//! each region the stated verdict, and a ruleset of which one rule is changed fails them. Needs
//! root.
//!
//! `WEIR_POLICIES` restricts the tests to policies whose path contains a text.

mod kernel_verdicts;
mod mutation_tally;
mod policy_case;
mod region_samples;
mod rule_mutation;

use std::time::Instant;

use weir_testkit::skip_without_root;

use kernel_verdicts::confirm_policy_by_kernel;
use mutation_tally::{MutationTally, test_mutations};
use policy_case::load_policy_cases;

#[test]
fn policies_hold_and_the_kernel_gives_packets_of_each_region_the_stated_verdict() {
    if skip_without_root() {
        return;
    }
    let (mut wrong, mut packets, mut tests, mut unconfirmed) = (Vec::new(), 0, 0, 0);
    println!("policy: tests, tests confirmed by packets in the kernel, packets");
    for case in load_policy_cases() {
        let began = Instant::now();
        let firewall = case.firewall();
        let report = case.check(&firewall);
        if report.holding_tests != report.tests.len() {
            wrong.push(report.render_text(&case.name));
            continue;
        }
        let confirmed = confirm_policy_by_kernel(&case, &firewall, &report);
        let (confirmed_tests, confirmed_packets) = confirmed.count_tests_and_packets();
        println!(
            "{}: {}, {confirmed_tests}, {confirmed_packets} ({:.1} s)",
            case.name,
            report.tests.len(),
            began.elapsed().as_secs_f64(),
        );
        for (test, why) in &confirmed.tests_without_packets {
            println!("  no packet: {test}: {why}");
        }
        packets += confirmed_packets;
        tests += report.tests.len();
        unconfirmed += report.tests.len() - confirmed_tests;
        wrong.extend(confirmed.contradictions);
    }
    println!("{} of {tests} tests confirmed by {packets} packets", tests - unconfirmed);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Multicast is not delivered, and some assumptions are not true in an empty namespace.
    assert!(unconfirmed * 25 <= tests, "{unconfirmed} of {tests} tests without a packet");
}

#[test]
fn a_ruleset_with_one_rule_changed_fails_its_policy_and_the_kernel_shows_why() {
    if skip_without_root() {
        return;
    }
    let mut total = MutationTally::default();
    println!("{}", MutationTally::TABLE_HEAD);
    for case in load_policy_cases() {
        let tally = test_mutations(&case);
        println!("{}", tally.table_row(&case.name));
        total.add(tally);
    }
    println!("{}", total.table_row("all"));
    assert!(total.wrong.is_empty(), "{}", total.wrong.join("\n"));
    assert!(total.caught > 0);
}
