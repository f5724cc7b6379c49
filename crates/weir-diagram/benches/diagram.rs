//! Time and memory of comparisons: the generated network against itself and against an equivalent
//! edit of it, random prefixes in two orders, and published rulesets. `cargo bench -p
//! weir-semantics --bench diagram -- FILE…` takes rulesets.
//!
//! Equal chains are built once, so a ruleset against itself is the easy case. The edit exchanges
//! adjacent rules that cannot both match, in every chain that has some; in the prefixes, no order
//! is preserved. Besides wall-clock time the processor time is printed, which other programs on the
//! machine disturb less.

use std::hint::black_box;

use weir_diagram::{
    CompareLevel, CompareOptions, CompareScope, Comparison, ComparisonVerdict, DiagramSizeAndSteps,
    HookContext, PacketSet, PacketSpace, PacketSpaceOptions, VariableOrder, compare_firewalls,
};
use weir_example::{IspOptions, generate_isp_ruleset};
use weir_model::{
    Addr, AddrMatch, Chain, Family, Field, Firewall, Hook, Policy, Predicate, Rule, Ruleset, Table,
    TableName, Target, Test, lower_to_tests,
};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::WallAndCpuClock;

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if files.is_empty() {
        prefixes();
        let example = generate_isp_ruleset(&IspOptions::default());
        ruleset("generated network, IPv4", &example.v4);
        ruleset("generated network, IPv6", &example.v6);
    }
    for file in files {
        let bytes = std::fs::read(&file).expect("a readable file");
        ruleset(&file, &String::from_utf8_lossy(&bytes));
    }
}

fn ruleset(name: &str, text: &str) {
    let ruleset = match parse(text, &ParserSettings::default()) {
        Ok(ruleset) => ruleset,
        Err(_) => return println!("{name}: cannot be read"),
    };
    println!("{name}: {} rules", ruleset.rules_with_table_and_chain().count());
    let mut edit = ruleset.clone();
    let (chains, swapped) = swap_disjoint(&mut edit);
    let (before, after) = (firewall(ruleset), firewall(edit));
    let journey = CompareOptions::default();
    let hook = CompareOptions { scope: CompareScope::OneHook(Hook::Forward), ..journey.clone() };
    let verdict = CompareOptions { level: CompareLevel::Verdict, ..hook.clone() };
    for (what, options) in
        [("FORWARD, verdict", verdict), ("FORWARD", hook), ("all journeys", journey.clone())]
    {
        measure(what, &before, &before.clone(), &options);
    }
    let what = format!("all journeys, {swapped} pairs swapped in {chains} chains");
    measure(&what, &before, &after, &journey);
}

fn firewall(ruleset: Ruleset) -> Firewall {
    match ruleset.family {
        Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    }
}

/// Swaps neighbours that cannot both match; in how many chains, and how many pairs.
fn swap_disjoint(ruleset: &mut Ruleset) -> (usize, usize) {
    let family = ruleset.family;
    let (mut chains, mut pairs) = (0, 0);
    for chain in ruleset.tables.iter_mut().flat_map(|t| &mut t.chains) {
        let before = pairs;
        let mut at = 1;
        while at < chain.rules.len() {
            if are_disjoint(&chain.rules[at - 1], &chain.rules[at], family) {
                chain.rules.swap(at - 1, at);
                pairs += 1;
                at += 1;
            }
            at += 1;
        }
        chains += usize::from(pairs > before);
    }
    (chains, pairs)
}

/// Whether two rules test one field for values that no packet can both have. Ports do not count: a
/// truncated header is dropped by the first rule that requires it, but multiport may still read it.
fn are_disjoint(a: &Rule, b: &Rule, family: Family) -> bool {
    let of_b = lower_to_tests(b, family);
    let differ = |test: &Test| match test {
        Test::Field { field, predicate, negated: false } => of_b.iter().any(|other| match other {
            Test::Field { field: same, predicate: p, negated: false } if field == same => {
                exclude(*field, predicate, p)
            }
            _ => false,
        }),
        _ => false,
    };
    lower_to_tests(a, family).iter().any(differ)
}

fn exclude(field: Field, a: &Predicate, b: &Predicate) -> bool {
    match (a, b) {
        (Predicate::Masked { value: v, mask: m }, Predicate::Masked { value: w, mask: n }) => {
            matches!(field, Field::Saddr | Field::Daddr) && (v ^ w) & m & n != 0
        }
        (Predicate::InSpans(a), Predicate::InSpans(b)) if field == Field::Proto => {
            a.iter().all(|a| b.iter().all(|b| a.1 < b.0 || b.1 < a.0))
        }
        _ => false,
    }
}

fn measure(what: &str, before: &Firewall, after: &Firewall, options: &CompareOptions) {
    let clock = WallAndCpuClock::start();
    let comparison =
        compare_firewalls(black_box(before), after, options).expect("no mistake in weir");
    report(what, &clock, &comparison);
}

fn report(what: &str, clock: &WallAndCpuClock, comparison: &Comparison) {
    let parts = &comparison.parts;
    let most = |of: &dyn Fn(&DiagramSizeAndSteps) -> usize| {
        parts.iter().map(|p| of(&p.statistics)).max().unwrap_or(0)
    };
    let why = parts.iter().find_map(|p| match &p.verdict {
        ComparisonVerdict::Undecided { why } => Some(why.as_str()),
        _ => None,
    });
    println!(
        "  {what}: equal {}, {}, {:?}, {:.1} million steps, {} nodes, peak {}, {} MiB, {} outcomes {}",
        comparison.is_equal(),
        clock,
        parts.first().map(|p| p.statistics.order).unwrap_or_default(),
        parts.iter().map(|p| p.statistics.steps).sum::<u64>() as f64 / 1e6,
        most(&|s| s.nodes),
        most(&|s| s.nodes_peak),
        most(&|s| s.memory_bytes) >> 20,
        most(&|s| s.outcomes),
        why.unwrap_or(""),
    );
}

/// 100,000 random source prefixes in two orders: as rulesets, and as sets of packets that nothing
/// is known of.
fn prefixes() {
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state
    };
    let mut rules = Vec::new();
    for _ in 0..100_000 {
        let drawn = draw();
        let len = 16 + (drawn >> 60) as u32 + 1;
        let mask = Family::V4.netmask(len);
        let mut rule = Rule::unconditional(Target::Drop);
        let addr = Addr(u128::from((drawn >> 20) as u32) & mask);
        rule.base.saddr = Some(AddrMatch { negated: false, addr, mask: Addr(mask) });
        rules.push(rule);
    }
    let mut shuffled = rules.clone();
    for at in (1..shuffled.len()).rev() {
        shuffled.swap(at, (draw() >> 33) as usize % (at + 1));
    }
    println!("100,000 source prefixes");
    let forward =
        CompareOptions { scope: CompareScope::OneHook(Hook::Forward), ..Default::default() };
    let [before, after] = [&rules, &shuffled].map(|rules| {
        let mut chain = Chain::new("FORWARD", Some(Policy::Accept));
        chain.rules = rules.clone();
        let (leading_comments, trailing_comments) = (Vec::new(), Vec::new());
        let chains = vec![chain];
        let mut ruleset = Ruleset::new(Family::V4);
        let name = TableName::Filter;
        ruleset.tables.push(Table { name, chains, leading_comments, trailing_comments });
        firewall(ruleset)
    });
    measure("FORWARD, shuffled", &before, &after, &forward);
    let clock = WallAndCpuClock::start();
    let options = PacketSpaceOptions {
        order: VariableOrder::SourceBeforeDestination,
        ..PacketSpaceOptions::default()
    };
    let mut space = PacketSpace::for_firewalls(Family::V4, &[&before], options).expect("room");
    let mut union = |rules: &[Rule]| {
        let of_rule =
            |r: &Rule| space.packets_matching_rule(r, HookContext::EVERYTHING_KNOWN).expect("room");
        let sets: Vec<PacketSet> = rules.iter().map(of_rule).collect();
        space.union_all(&sets).expect("room")
    };
    let (there, back) = (union(&rules), union(&shuffled));
    println!(
        "  sets of packets, shuffled: equal {}, {}, {} nodes, {} MiB",
        there == back,
        clock,
        space.node_count(),
        space.memory_bytes() >> 20,
    );
}
