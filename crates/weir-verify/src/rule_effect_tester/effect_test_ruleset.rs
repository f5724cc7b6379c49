//! The ruleset of a bench.

use std::fmt::Write as _;

use weir_model::{Family, Firewall, Hook, TableName};
use weir_syntax::iptables::{ParserSettings, parse};

use super::copy_number::format_copy_number_match;
use super::measured_rule::RuleToMeasure;

/// The device that packets come in by, and the one that they leave by.
pub(super) const INPUT_DEVICE: &str = "weir-in";
pub(super) const OUTPUT_DEVICE: &str = "weir-out";

/// Packets from this source MAC have mark 1 after the first rule of mangle PREROUTING.
pub const SOURCE_MAC_GIVEN_MARK_ONE: weir_packet::Mac = [2, 0, 0, 0, 0, 7];

/// Rules of one step of the dispatch.
const DISPATCH_GROUP_RULES: usize = 16;

/// The chain of a rule.
pub(super) fn measured_chain_name_of_rule(which: usize) -> String {
    format!("s{which}")
}

/// The chain of its probes at the end of the journey.
pub(super) fn final_probe_chain_name(which: usize) -> String {
    format!("l{which}")
}

fn dispatch_chain_name_of_rule(which: usize) -> String {
    format!("g{}", which / DISPATCH_GROUP_RULES)
}

fn final_dispatch_chain_name_of_rule(which: usize) -> String {
    format!("h{}", which / DISPATCH_GROUP_RULES)
}

/// What a chain of the dispatch is for: its letter and its number.
fn parse_chain_kind_and_number(chain: &str) -> Option<(&str, usize)> {
    let (kind, rest) = chain.split_at_checked(1)?;
    let number = rest.trim_end_matches(|c: char| c.is_ascii_lowercase());
    "slgh".contains(kind).then_some(())?;
    Some((kind, number.parse().ok()?))
}

pub(super) fn is_generated_chain(chain: &str) -> bool {
    parse_chain_kind_and_number(chain).is_some()
}

/// Whether a copy for that rule reaches the chain.
pub(super) fn is_on_dispatch_path(to: &str, which: usize) -> bool {
    match parse_chain_kind_and_number(to) {
        Some(("s" | "l", number)) => number == which,
        Some((_, number)) => number == which / DISPATCH_GROUP_RULES,
        None => false,
    }
}

/// The rule that jumps to a rule's chain: in which chain, and its number there.
pub(super) fn find_dispatch_jump(subjects: &[RuleToMeasure], which: usize) -> (String, u32) {
    let own = &subjects[which];
    let first = which / DISPATCH_GROUP_RULES * DISPATCH_GROUP_RULES;
    let before = subjects[first..which].iter();
    let same = |s: &&RuleToMeasure| (s.table, s.hook) == (own.table, own.hook);
    (
        dispatch_chain_name_of_rule(which) + dispatch_chain_hook_suffix(own.hook),
        before.filter(same).count() as u32 + 1,
    )
}

/// Groups are apart by hook.
fn dispatch_chain_hook_suffix(hook: Hook) -> &'static str {
    match hook {
        Hook::Prerouting => "p",
        Hook::Input => "i",
        Hook::Forward => "f",
        Hook::Output => "o",
        Hook::Postrouting => "q",
    }
}

/// A test for the copies of the rules from `lo` to `hi`.
fn format_copy_match(family: Family, lo: usize, hi: usize) -> String {
    format_copy_number_match(family, copy_number_of_rule(lo), copy_number_of_rule(hi))
}

/// The number of a rule's copy.
pub(super) fn copy_number_of_rule(which: usize) -> u32 {
    which as u32 + 1
}

/// All tables that have a rule, and mangle for the probes at the end.
pub(super) fn write_effect_test_ruleset(
    family: Family,
    subjects: &[RuleToMeasure],
    probes: &[String],
) -> String {
    let mut out = String::new();
    for table in TableName::ALL {
        let mut own: Vec<usize> = (0..subjects.len()).collect();
        own.retain(|i| subjects[*i].table == table);
        let late: Vec<usize> = match table {
            TableName::Mangle if !probes.is_empty() => (0..subjects.len()).collect(),
            _ => Vec::new(),
        };
        if own.is_empty() && late.is_empty() {
            continue;
        }
        write_table(&mut out, family, table, subjects, &own, &late, probes);
    }
    out
}

fn write_table(
    out: &mut String,
    family: Family,
    table: TableName,
    subjects: &[RuleToMeasure],
    own: &[usize],
    late: &[usize],
    probes: &[String],
) {
    let (mut chains, mut rules) = (String::new(), String::new());
    if table == TableName::Mangle {
        // Packets come in without a mark: this source is given one.
        let mac = SOURCE_MAC_GIVEN_MARK_ONE.map(|b| format!("{b:02x}")).join(":");
        let _ = writeln!(rules, "-A PREROUTING -m mac --mac-source {mac} -j MARK --set-xmark 0x1");
    }
    for hook in table.hooks() {
        let _ = writeln!(chains, ":{} ACCEPT [0:0]", hook.chain_name());
        let here: Vec<usize> = own.iter().copied().filter(|i| subjects[*i].hook == *hook).collect();
        let name = |i: usize| dispatch_chain_name_of_rule(i) + dispatch_chain_hook_suffix(*hook);
        write_dispatch_chains(
            &mut chains,
            &mut rules,
            (family, hook.chain_name()),
            &here,
            &name,
            &measured_chain_name_of_rule,
        );
    }
    write_dispatch_chains(
        &mut chains,
        &mut rules,
        (family, "POSTROUTING"),
        late,
        &final_dispatch_chain_name_of_rule,
        &final_probe_chain_name,
    );
    // What a target sent to the host ends there.
    for same in late.chunk_by(|a, b| a / DISPATCH_GROUP_RULES == b / DISPATCH_GROUP_RULES) {
        let lo = same[0] / DISPATCH_GROUP_RULES * DISPATCH_GROUP_RULES;
        let test = format_copy_match(family, lo, lo + DISPATCH_GROUP_RULES - 1);
        let _ = writeln!(rules, "-A INPUT {test} -j {}", final_dispatch_chain_name_of_rule(lo));
    }
    for i in own {
        if !subjects[*i].rule.is_empty() {
            let _ = writeln!(rules, "-A {} {}", measured_chain_name_of_rule(*i), subjects[*i].rule);
        }
        let _ = writeln!(rules, "-A {}", measured_chain_name_of_rule(*i));
        for probe in probes {
            let _ = writeln!(rules, "-A {} {probe}", measured_chain_name_of_rule(*i));
        }
    }
    for i in late {
        let _ = writeln!(rules, "-A {}", final_probe_chain_name(*i));
        for probe in probes {
            let _ = writeln!(rules, "-A {} {probe}", final_probe_chain_name(*i));
        }
    }
    let _ = write!(out, "*{table}\n{chains}{rules}COMMIT\n");
}

/// Two steps: a chain for each group of numbers, and in it a jump for each number.
fn write_dispatch_chains(
    chains: &mut String,
    rules: &mut String,
    (family, from): (Family, &str),
    which: &[usize],
    group: &dyn Fn(usize) -> String,
    chain: &dyn Fn(usize) -> String,
) {
    for same in which.chunk_by(|a, b| a / DISPATCH_GROUP_RULES == b / DISPATCH_GROUP_RULES) {
        let (lo, name) = (same[0] / DISPATCH_GROUP_RULES * DISPATCH_GROUP_RULES, group(same[0]));
        let _ = writeln!(chains, ":{name} - [0:0]");
        let test = format_copy_match(family, lo, lo + DISPATCH_GROUP_RULES - 1);
        let _ = writeln!(rules, "-A {from} {test} -j {name}");
        for i in same {
            let _ = writeln!(chains, ":{} - [0:0]", chain(*i));
            let test = format_copy_match(family, *i, *i);
            let _ = writeln!(rules, "-A {name} {test} -j {}", chain(*i));
        }
    }
}

/// The ruleset as weir reads it.
pub(super) fn parse_effect_test_ruleset(family: Family, text: &str, sets: &str) -> Firewall {
    let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
    let ruleset = match parse(text, &options) {
        Ok(ruleset) => ruleset,
        Err(errors) => {
            panic!("{}", weir_syntax::render_diagnostics(&errors, "measured rules", text, false))
        }
    };
    let sets = weir_syntax::ipset::parse(sets).expect("sets that load");
    match family {
        Family::V4 => Firewall { v4: Some(ruleset), sets, ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), sets, ..Firewall::default() },
    }
}
