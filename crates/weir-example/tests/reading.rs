//! weir reads the generated rulesets, and prints the same text again.

use weir_example::{
    IspOptions, RuleListKind, RuleListOptions, generate_isp_ruleset, generate_rule_list,
};
use weir_syntax::iptables::{ParserSettings, parse, print};

/// The lines that are neither comment nor blank, tables in a fixed order.
fn tables(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let body: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut tables: Vec<String> = body.split_inclusive("COMMIT\n").map(str::to_owned).collect();
    tables.sort();
    tables
}

fn prints_itself(text: &str) {
    let ruleset = parse(text, &ParserSettings::default()).unwrap_or_else(|errors| {
        panic!("{} errors, the first: {}", errors.len(), errors[0].message);
    });
    let (written, printed) = (tables(text), tables(&print(&ruleset, false)));
    assert_eq!(written.len(), printed.len());
    for (written, printed) in written.iter().zip(&printed) {
        for (ours, theirs) in written.lines().zip(printed.lines()) {
            // Packet counts are in the lines of chains only where they were asked for.
            assert_eq!(ours.trim_end_matches(" [0:0]"), theirs.trim_end_matches(" [0:0]"));
        }
        assert_eq!(written.lines().count(), printed.lines().count());
    }
}

#[test]
fn the_isp_ruleset_round_trips_through_the_printer() {
    let example = generate_isp_ruleset(&IspOptions::default());
    prints_itself(&example.v4);
    prints_itself(&example.v6);
}

#[test]
fn study_rule_lists_round_trip_through_the_printer() {
    for kind in [RuleListKind::Stateless, RuleListKind::Stateful] {
        prints_itself(&generate_rule_list(&RuleListOptions {
            nonmatching_rule_count: 1000,
            seed: 1,
            kind,
        }));
    }
}

#[test]
fn the_example_rulesets_round_trip_through_the_printer() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/");
    for name in ["office.rules", "host6.rules6", "blocklist.rules"] {
        let text =
            std::fs::read_to_string(format!("{folder}{name}")).expect("the example is there");
        prints_itself(&text);
    }
}
