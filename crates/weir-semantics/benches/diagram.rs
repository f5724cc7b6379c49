//! Time and memory of comparisons: published rulesets against themselves, the generated network,
//! random prefixes. `cargo bench -p weir-semantics --bench diagram -- FILE…` takes rulesets.

use std::hint::black_box;
use std::time::Instant;

use weir_example::{IspOptions, isp};
use weir_model::{Family, Firewall, Hook, Rule, Target};
use weir_semantics::diagram::{
    Answer, At, CompareOptions, Comparison, Level, Order, PacketSet, Scope, Space, SpaceOptions,
    compare,
};
use weir_syntax::iptables::{ParseOptions, parse};

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if files.is_empty() {
        prefixes();
        let example = isp(&IspOptions::default());
        ruleset("generated network, IPv4", &example.v4);
        ruleset("generated network, IPv6", &example.v6);
    }
    for file in files {
        let bytes = std::fs::read(&file).expect("a readable file");
        ruleset(&file, &String::from_utf8_lossy(&bytes));
    }
}

fn ruleset(name: &str, text: &str) {
    let ruleset = match parse(text, &ParseOptions::default()) {
        Ok(ruleset) => ruleset,
        Err(_) => return println!("{name}: cannot be read"),
    };
    println!("{name}: {} rules", ruleset.rules().count());
    let firewall = match ruleset.family {
        Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    };
    let journey = CompareOptions::default();
    let hook = CompareOptions { scope: Scope::Hook(Hook::Forward), ..journey.clone() };
    let verdict = CompareOptions { level: Level::Verdict, ..hook.clone() };
    for (what, options) in
        [("FORWARD, verdict", verdict), ("FORWARD", hook), ("all journeys", journey)]
    {
        let begin = Instant::now();
        let comparison = compare(black_box(&firewall), &firewall.clone(), &options);
        report(what, begin, &comparison.expect("no mistake in weir"));
    }
}

fn report(what: &str, begin: Instant, comparison: &Comparison) {
    let parts = &comparison.parts;
    let most = |of: &dyn Fn(&weir_semantics::diagram::Statistics) -> usize| {
        parts.iter().map(|p| of(&p.statistics)).max().unwrap_or(0)
    };
    let why = parts.iter().find_map(|p| match &p.answer {
        Answer::Unknown { why } => Some(why.as_str()),
        _ => None,
    });
    println!(
        "  {what}: equal {}, {:.2?}, {:?}, {} nodes, peak {}, {} MiB, {} outcomes {}",
        comparison.is_equal(),
        begin.elapsed(),
        parts.first().map(|p| p.statistics.order).unwrap_or_default(),
        most(&|s| s.nodes),
        most(&|s| s.nodes_peak),
        most(&|s| s.memory_bytes) >> 20,
        most(&|s| s.outcomes),
        why.unwrap_or(""),
    );
}

/// 100,000 random source prefixes, merged in two orders, and compared.
fn prefixes() {
    let firewall = Firewall::default();
    let mut state = 1u64;
    let mut rules = Vec::new();
    for _ in 0..100_000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let len = 16 + (state >> 60) as u32 + 1;
        let mask = Family::V4.mask(len);
        let mut rule = Rule::new(Target::Drop);
        let addr = u128::from((state >> 20) as u32) & mask;
        rule.base.saddr = Some(weir_model::AddrMatch {
            negated: false,
            addr: weir_model::Addr(addr),
            mask: weir_model::Addr(mask),
        });
        rules.push(rule);
    }
    let begin = Instant::now();
    let options = SpaceOptions { order: Order::SourceFirst, ..SpaceOptions::default() };
    let mut space = Space::with(Family::V4, &[&firewall], options).expect("room");
    let mut union = |rules: &mut dyn Iterator<Item = &Rule>| {
        let mut sets: Vec<PacketSet> = Vec::new();
        for rule in rules {
            sets.push(space.of_rule(rule, At::ANYWHERE).expect("room"));
        }
        space.any_of(&sets).expect("room")
    };
    let there = union(&mut rules.iter());
    let back = union(&mut rules.iter().rev());
    println!(
        "100,000 source prefixes, there and back: equal {}, {:.2?}, {} nodes, {} MiB",
        there == back,
        begin.elapsed(),
        space.nodes(),
        space.memory_bytes() >> 20,
    );
}
