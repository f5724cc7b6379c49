//! nft text: what weir writes and what nft 1.0.6 lists of it have the same meaning; modified texts
//! are read or refused.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weir_syntax::{fuzz, nft, render_diagnostics};

/// Something of everything that weir writes, and what `nft list ruleset` printed of it.
const WRITTEN: &str = include_str!("seeds/written.nft");
const LISTED: &str = include_str!("seeds/listed.nft");

fn read(name: &str, text: &str) -> weir_model::nft::Ruleset {
    nft::parse(text).unwrap_or_else(|e| panic!("{}", render_diagnostics(&e, name, text, false)))
}

#[test]
fn the_written_and_the_listed_ruleset_are_equal() {
    let (written, listed) = (read("written.nft", WRITTEN), read("listed.nft", LISTED));
    assert_eq!(nft::check_rulesets_equal(&written, &listed), Ok(()));
    let rules = |r: &weir_model::nft::Ruleset| -> usize {
        r.tables.iter().flat_map(|t| &t.chains).map(|c| c.rules.len()).sum()
    };
    assert!(rules(&listed) > 190);
}

#[test]
fn every_rule_that_is_changed_is_seen() {
    let whole = read("listed.nft", LISTED);
    let mut seen = 0;
    for (i, line) in LISTED.lines().enumerate() {
        // Omitting a rule without effect at the end of its chain is not detected.
        if !line.starts_with("\t\t") || line.contains("type ") && line.contains(" priority ") {
            continue;
        }
        let without: String = LISTED
            .lines()
            .enumerate()
            .filter(|(j, _)| *j != i)
            .flat_map(|(_, l)| [l, "\n"])
            .collect();
        if let Ok(less) = nft::parse(&without)
            && !matches!(line.trim().split(' ').next(), Some("size" | "counter" | "continue"))
        {
            assert!(
                nft::check_rulesets_equal(&whole, &less).is_err(),
                "{line} was taken out and not missed"
            );
            seen += 1;
        }
    }
    assert!(seen > 140, "{seen}");
}

#[test]
fn port_tests_that_nft_would_merge_across_another_statement_are_printed_separately() {
    let printed = |rule: &str| {
        let text = format!("table ip weir_filter {{\n\tchain c {{\n\t\t{rule}\n\t}}\n}}\n");
        let ruleset = read("rule", &text);
        let printed = nft::print(&ruleset);
        // The mask says nothing else.
        assert_eq!(nft::check_rulesets_equal(&ruleset, &read("printed", &printed)), Ok(()));
        printed.lines().nth(3).expect("a rule").trim().to_owned()
    };
    let limit = "limit rate 1/second burst 5 packets";
    for between in ["counter", limit, "counter meta mark set 0x5"] {
        let rule = format!("th sport == 53 {between} th dport == 53 counter accept");
        let apart = format!("th sport == 53 {between} th dport & 65535 == 53 counter accept");
        assert_eq!(printed(&rule), apart);
        let rule = format!("th dport == 53 {between} th sport == 53 counter accept");
        let apart = format!("th dport & 65535 == 53 {between} th sport == 53 counter accept");
        assert_eq!(printed(&rule), apart);
    }
    // Merged without harm: what is between is a test, or nothing.
    for rule in [
        "th sport == 53 th dport == 53 counter accept",
        "th sport == 53 ip saddr == 192.0.2.1 th dport == 53 counter accept",
        "th sport != 53 counter th dport == 53 accept",
    ] {
        assert_eq!(printed(rule), rule);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x7765_6972),
        ..ProptestConfig::default()
    })]

    #[test]
    fn changed_texts_are_read_or_refused_with_a_place(
        listed in any::<bool>(),
        changes in prop::collection::vec((any::<u8>(), any::<usize>(), 0usize..24, any::<u8>()), 1..5),
    ) {
        let mut data = if listed { LISTED } else { WRITTEN }.as_bytes().to_vec();
        for (how, at, len, byte) in changes {
            let at = at % data.len();
            let end = (at + len).min(data.len());
            match how % 4 {
                0 => data[at] = byte,
                1 => drop(data.drain(at..end)),
                2 => data.insert(at, byte),
                _ => {
                    const WORDS: [&[u8]; 8] =
                        [b" != ", b" { ", b"}", b"\"", b"\n", b" & 0x1 ", b" tcp dport ", b" jump "];
                    data.splice(at..at, WORDS[byte as usize % WORDS.len()].iter().copied());
                }
            }
        }
        fuzz::check_nft_normalize_idempotent(&data);
    }
}

/// Measured with nft 1.0.6: "File exists", "conflicting intervals specified".
#[test]
fn a_map_key_with_two_verdicts_is_refused() {
    let text = |elements: &str| {
        format!(
            "table ip weir_filter {{\n\tmap m {{\n\t\ttype inet_service : verdict\n\
             \t\tflags interval\n\t\telements = {{ {elements} }}\n\t}}\n}}\n"
        )
    };
    assert!(weir_syntax::nft::parse(&text("53 : accept, 54 : drop")).is_ok());
    for elements in ["53 : accept, 53 : drop", "50-60 : accept, 53 : drop"] {
        let errors = weir_syntax::nft::parse(&text(elements)).expect_err("two verdicts");
        assert!(errors[0].message.contains("another verdict"), "{errors:?}");
    }
}

/// nft 1.0.6 joins two declarations of a map, and takes the last of two lists of elements.
#[test]
fn a_map_that_is_declared_twice_or_has_two_lists_of_elements_is_refused() {
    let map =
        |elements: &str| format!("\tmap m {{\n\t\ttype ipv4_addr : verdict\n{elements}\t}}\n");
    let table = |maps: &str| {
        format!(
            "table ip weir_filter {{\n{maps}\tchain FORWARD {{\n\t\ttype filter hook forward \
             priority filter; policy accept;\n\t\tip saddr vmap @m\n\t}}\n}}\n"
        )
    };
    let (one, other) =
        ("\t\telements = { 10.0.0.1 : drop }\n", "\t\telements = { 10.0.0.2 : drop }\n");
    assert!(weir_syntax::nft::parse(&table(&map(one))).is_ok());
    let joined = map(one) + &map(other);
    for (maps, message) in
        [(joined, "two maps of weir_filter"), (map(&format!("{one}{other}")), "elements only once")]
    {
        let errors = weir_syntax::nft::parse(&table(&maps)).expect_err("a wrong reading");
        assert!(errors.iter().any(|error| error.message.contains(message)), "{errors:?}");
    }
}
