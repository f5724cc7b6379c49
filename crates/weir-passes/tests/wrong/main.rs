//! Deliberately wrong passes: `run_passes_until_first_refusal` refuses each of them.
//!
//! A check that rejects everything and one that accepts everything are both useless: so each
//! ruleset is first run through the correct pass, or unchanged, and accepted. `--nocapture` prints
//! the list.

mod merging;
mod removing;
mod shaping;
mod traffic;

use std::fmt;

use weir_model::{Family, Firewall, Rule, Ruleset, TableName};
use weir_passes::{
    CheckedPassesOptions, CounterPreservation, Equivalence, PacketCheckOptions, Pass, PassContext,
    PassOptions, PassRefusalReason, RefusedPass, RewrittenRuleset, passes,
    run_passes_until_first_refusal,
};
use weir_syntax::iptables::{self, ParserSettings};

/// A pass whose result is spoiled.
struct Wrong {
    of: &'static str,
    spoil: fn(&mut RewrittenRuleset),
}

impl Wrong {
    fn right(&self) -> &'static dyn Pass {
        passes::find_pass(self.of).expect("the pass is there")
    }
}

impl Pass for Wrong {
    fn name(&self) -> &'static str {
        self.of
    }

    fn description(&self) -> &'static str {
        "a wrong variant"
    }

    fn counter_preservation(&self) -> CounterPreservation {
        self.right().counter_preservation()
    }

    fn equivalence(&self) -> Equivalence {
        self.right().equivalence()
    }

    fn run(&self, ruleset: &Ruleset, context: &PassContext<'_>) -> RewrittenRuleset {
        let mut made = self.right().run(ruleset, context);
        (self.spoil)(&mut made);
        made
    }
}

fn options() -> CheckedPassesOptions {
    let cost = weir_passes::CostModel {
        check_ns: 10.0,
        jump_ns: 1.0,
        set_ns: 1.0,
        probe_ns: 1.0,
        ..Default::default()
    };
    CheckedPassesOptions {
        pass: PassOptions { cost, allow_counter_loss: true, ..PassOptions::default() },
        packet_check: PacketCheckOptions { seed: 1, packets_per_family: 4000 },
        ..CheckedPassesOptions::default()
    }
}

fn read(rules: &str) -> Firewall {
    let ruleset = iptables::parse(rules, &ParserSettings::default()).unwrap_or_else(|d| {
        panic!("{}", weir_syntax::render_diagnostics(&d, "case", rules, false))
    });
    match ruleset.family {
        Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    }
}

/// The rules of a chain of the filter.
fn chain<'m>(made: &'m mut RewrittenRuleset, name: &str) -> &'m mut Vec<Rule> {
    of_table(made, TableName::Filter, name)
}

fn of_table<'m>(made: &'m mut RewrittenRuleset, table: TableName, name: &str) -> &'m mut Vec<Rule> {
    let table = made.ruleset.tables.iter_mut().find(|t| t.name == table).expect("the table");
    let chain = table.chains.iter_mut().find(|c| c.name.ends_with(name)).expect("the chain");
    &mut chain.rules
}

fn forward(rules: &str) -> String {
    format!(
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n{rules}COMMIT\n"
    )
}

const HOSTS: &str = "-A FORWARD -s 192.0.2.1/32 -j ACCEPT\n-A FORWARD -s 192.0.2.2/32 -j DROP\n\
    -A FORWARD -s 192.0.2.3/32 -j ACCEPT\n-A FORWARD -s 192.0.2.9/32 -j ACCEPT\n\
    -A FORWARD -s 198.51.100.1/32 -j LOG\n-A FORWARD -s 198.51.100.2/32 -j ACCEPT\n\
    -A FORWARD -s 198.51.100.3/32 -p tcp -m tcp --dport 22 -j ACCEPT\n";

/// Wrong variants that were refused.
#[derive(Default)]
struct List(Vec<(&'static str, &'static str, RefusedPass)>);

impl List {
    /// Lets the right pass run and the wrong one fail; what was said of the wrong one.
    fn refused(
        &mut self,
        of: &'static str,
        what: &'static str,
        rules: &str,
        spoil: fn(&mut RewrittenRuleset),
    ) -> String {
        let firewall = read(rules);
        let right = passes::find_pass(of).expect("the pass is there");
        run_passes_until_first_refusal(&firewall, &[right], &options(), &mut |_, _| {})
            .unwrap_or_else(|e| panic!("{of} is refused where it is right ({what}): {e}"));
        match run_passes_until_first_refusal(
            &firewall,
            &[&Wrong { of, spoil }],
            &options(),
            &mut |_, _| {},
        ) {
            Err(refused) => {
                let said = refused.to_string();
                self.0.push((of, what, refused));
                said
            }
            Ok(run) => panic!("{of}: {what} was not caught:\n{:#?}", run.pass_reports),
        }
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<18} {:<58} caught by", "pass", "wrong variant")?;
        for pass in passes::ALL_PASSES {
            for (of, what, refused) in self.0.iter().filter(|(of, ..)| *of == pass.name()) {
                let difference = match &refused.why {
                    PassRefusalReason::PacketDiffers(e) | PassRefusalReason::Disproven(e) => {
                        e.difference.clone()
                    }
                    why => why.to_string(),
                };
                let by = refused.why.refusing_check_name();
                writeln!(f, "{of:<18} {what:<58} {by}: {difference}")?;
            }
        }
        Ok(())
    }
}

#[test]
fn each_wrong_variant_of_each_pass_is_caught() {
    let mut list = List::default();
    for group in [
        removing::removals,
        removing::negations_and_ways_out,
        removing::last_use_of_conntrack,
        removing::programs_and_policies,
        merging::merges,
        merging::bit_tests,
        merging::other_merges,
        merging::sets,
        merging::cheaper_matches,
        shaping::orders,
        shaping::trees,
        shaping::splits_and_inlinings,
        shaping::trees_of_ways_and_effects,
        shaping::chains_of_ways_and_effects,
        traffic::early_drops,
        traffic::early_fragments,
        traffic::other_early_drops,
        traffic::notracks,
    ] {
        group(&mut list);
    }
    println!("{list}");
    for pass in passes::ALL_PASSES {
        let variants = list.0.iter().filter(|(of, ..)| *of == pass.name()).count();
        assert!(variants >= 5, "{}: {variants} wrong variants", pass.name());
    }
}

#[test]
fn a_pass_that_loses_counters_runs_only_where_that_is_allowed() {
    let firewall = read(&forward(
        "-A FORWARD -s 192.0.2.0/25 -j ACCEPT\n-A FORWARD -s 192.0.2.128/25 -j ACCEPT\n",
    ));
    let pass = passes::find_pass("merge_adjacent").unwrap();
    let mut options = options();
    let run = run_passes_until_first_refusal(&firewall, &[pass], &options, &mut |_, _| {}).unwrap();
    assert_eq!(run.pass_reports[0].rule_counts, (2, 1));
    options.pass.allow_counter_loss = false;
    let run = run_passes_until_first_refusal(&firewall, &[pass], &options, &mut |_, _| {}).unwrap();
    assert!(matches!(
        run.pass_reports[0].evidence,
        weir_passes::PassEqualityEvidence::PassNotRun(_)
    ));
    assert_eq!(run.firewall, firewall);
}

#[test]
fn a_trusted_pass_is_not_compared_and_reported_as_trusted() {
    let firewall = read(&forward(HOSTS));
    let wrong = Wrong { of: "chain_tree", spoil: |made| chain(made, "FORWARD").clear() };
    let trust = CheckedPassesOptions { skip_equivalence_checks: true, ..options() };
    let run = run_passes_until_first_refusal(&firewall, &[&wrong], &trust, &mut |_, _| {}).unwrap();
    assert_eq!(run.pass_reports[0].evidence, weir_passes::PassEqualityEvidence::Trusted);
    run_passes_until_first_refusal(&firewall, &[&wrong], &options(), &mut |_, _| {}).unwrap_err();
}
