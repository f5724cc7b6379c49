//! The ruleset of a bench.

use std::fmt::Write as _;

use weir_model::{Family, Firewall, Hook, TableName};
use weir_syntax::iptables::{ParseOptions, parse};

use super::subject::MeasuredRule;

/// The device that packets come in by, and the one that they leave by.
pub(super) const IIF: &str = "weir-in";
pub(super) const OIF: &str = "weir-out";

/// Packets from this source MAC have mark 1 after the first rule of mangle PREROUTING.
pub const MARKED: weir_packet::Mac = [2, 0, 0, 0, 0, 7];

/// Rules of one step of the dispatch.
const GROUP: usize = 16;

/// The chain of a rule.
pub(super) fn chain(which: usize) -> String {
    format!("s{which}")
}

/// The chain of its probes at the end of the journey.
pub(super) fn late_chain(which: usize) -> String {
    format!("l{which}")
}

fn group(which: usize) -> String {
    format!("g{}", which / GROUP)
}

fn late_group(which: usize) -> String {
    format!("h{}", which / GROUP)
}

/// What a chain of the dispatch is for: its letter and its number.
fn parts(chain: &str) -> Option<(&str, usize)> {
    let (kind, rest) = chain.split_at_checked(1)?;
    let number = rest.trim_end_matches(|c: char| c.is_ascii_lowercase());
    "slgh".contains(kind).then_some(())?;
    Some((kind, number.parse().ok()?))
}

pub(super) fn is_dispatch(chain: &str) -> bool {
    parts(chain).is_some()
}

/// Whether a copy for that rule reaches the chain.
pub(super) fn leads_to(to: &str, which: usize) -> bool {
    match parts(to) {
        Some(("s" | "l", number)) => number == which,
        Some((_, number)) => number == which / GROUP,
        None => false,
    }
}

/// The rule that jumps to a rule's chain: in which chain, and its number there.
pub(super) fn jump(subjects: &[MeasuredRule], which: usize) -> (String, u32) {
    let own = &subjects[which];
    let first = which / GROUP * GROUP;
    let before = subjects[first..which].iter();
    let same = |s: &&MeasuredRule| (s.table, s.hook) == (own.table, own.hook);
    (group(which) + suffix(own.hook), before.filter(same).count() as u32 + 1)
}

/// Groups are apart by hook.
fn suffix(hook: Hook) -> &'static str {
    match hook {
        Hook::Prerouting => "p",
        Hook::Input => "i",
        Hook::Forward => "f",
        Hook::Output => "o",
        Hook::Postrouting => "q",
    }
}

/// A test of a packet's number, which is in its identification or flow label.
fn number_is(family: Family, lo: usize, hi: usize) -> String {
    let place = match family {
        Family::V4 => "2&0xffff",
        Family::V6 => "0&0xfffff",
    };
    let (lo, hi) = (lo + 1, hi + 1);
    let span = if lo == hi { format!("{lo:#x}") } else { format!("{lo:#x}:{hi:#x}") };
    format!("-m u32 --u32 \"{place}={span}\"")
}

/// All tables that have a rule, and mangle for the probes at the end.
pub(super) fn ruleset(family: Family, subjects: &[MeasuredRule], probes: &[String]) -> String {
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
        push_table(&mut out, family, table, subjects, &own, &late, probes);
    }
    out
}

fn push_table(
    out: &mut String,
    family: Family,
    table: TableName,
    subjects: &[MeasuredRule],
    own: &[usize],
    late: &[usize],
    probes: &[String],
) {
    let (mut chains, mut rules) = (String::new(), String::new());
    if table == TableName::Mangle {
        // Packets come in without a mark: this source is given one.
        let mac = MARKED.map(|b| format!("{b:02x}")).join(":");
        let _ = writeln!(rules, "-A PREROUTING -m mac --mac-source {mac} -j MARK --set-xmark 0x1");
    }
    for hook in table.hooks() {
        let _ = writeln!(chains, ":{} ACCEPT [0:0]", hook.chain());
        let here: Vec<usize> = own.iter().copied().filter(|i| subjects[*i].hook == *hook).collect();
        let name = |i: usize| group(i) + suffix(*hook);
        dispatch(&mut chains, &mut rules, (family, hook.chain()), &here, &name, &chain);
    }
    dispatch(&mut chains, &mut rules, (family, "POSTROUTING"), late, &late_group, &late_chain);
    // What a target sent to the host ends there.
    for same in late.chunk_by(|a, b| a / GROUP == b / GROUP) {
        let lo = same[0] / GROUP * GROUP;
        let test = number_is(family, lo, lo + GROUP - 1);
        let _ = writeln!(rules, "-A INPUT {test} -j {}", late_group(lo));
    }
    for i in own {
        if !subjects[*i].rule.is_empty() {
            let _ = writeln!(rules, "-A {} {}", chain(*i), subjects[*i].rule);
        }
        let _ = writeln!(rules, "-A {}", chain(*i));
        for probe in probes {
            let _ = writeln!(rules, "-A {} {probe}", chain(*i));
        }
    }
    for i in late {
        let _ = writeln!(rules, "-A {}", late_chain(*i));
        for probe in probes {
            let _ = writeln!(rules, "-A {} {probe}", late_chain(*i));
        }
    }
    let _ = write!(out, "*{table}\n{chains}{rules}COMMIT\n");
}

/// Two steps: a chain for each group of numbers, and in it a jump for each number.
fn dispatch(
    chains: &mut String,
    rules: &mut String,
    (family, from): (Family, &str),
    which: &[usize],
    group: &dyn Fn(usize) -> String,
    chain: &dyn Fn(usize) -> String,
) {
    for same in which.chunk_by(|a, b| a / GROUP == b / GROUP) {
        let (lo, name) = (same[0] / GROUP * GROUP, group(same[0]));
        let _ = writeln!(chains, ":{name} - [0:0]");
        let test = number_is(family, lo, lo + GROUP - 1);
        let _ = writeln!(rules, "-A {from} {test} -j {name}");
        for i in same {
            let _ = writeln!(chains, ":{} - [0:0]", chain(*i));
            let test = number_is(family, *i, *i);
            let _ = writeln!(rules, "-A {name} {test} -j {}", chain(*i));
        }
    }
}

/// The ruleset as weir reads it.
pub(super) fn read(family: Family, text: &str, sets: &str) -> Firewall {
    let options = ParseOptions { family: Some(family), ..ParseOptions::default() };
    let ruleset = match parse(text, &options) {
        Ok(ruleset) => ruleset,
        Err(errors) => panic!("{}", weir_syntax::render(&errors, "measured rules", text, false)),
    };
    let sets = weir_syntax::ipset::parse(sets).expect("sets that load");
    match family {
        Family::V4 => Firewall { v4: Some(ruleset), sets, ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), sets, ..Firewall::default() },
    }
}
