//! Time and memory of proving that the result of all passes is equal to a ruleset: the generated
//! network, and published rulesets. `cargo bench -p weir-passes --bench proof -- FILE…` takes
//! rulesets.
//!
//! Passes with a sense of equality that diagrams do not support are excluded.

use weir_diagram::{CompareOptions, CompareScope, ComparisonVerdict, compare_firewalls};
use weir_example::{IspOptions, generate_isp_ruleset};
use weir_model::{Family, Firewall, Hook};
use weir_passes::{
    CheckedPassesOptions, Equivalence, Pass, PassEqualityEvidence, passes,
    run_passes_until_first_refusal,
};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::WallAndCpuClock;

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    if files.is_empty() {
        proof("generated network, IPv4", &generate_isp_ruleset(&IspOptions::default()).v4);
    }
    for file in files {
        let bytes = std::fs::read(&file).expect("a readable file");
        proof(&file, &String::from_utf8_lossy(&bytes));
    }
}

fn proof(name: &str, text: &str) {
    let ruleset = match parse(text, &ParserSettings::default()) {
        Ok(ruleset) => ruleset,
        Err(_) => return println!("{name}: cannot be read"),
    };
    let before = match ruleset.family {
        Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    };
    let strict = |pass: &&dyn Pass| {
        matches!(pass.equivalence(), Equivalence::Strict | Equivalence::SummedCounters)
    };
    let all: Vec<&dyn Pass> = passes::ALL_PASSES.into_iter().filter(strict).collect();
    let mut options =
        CheckedPassesOptions { skip_equivalence_checks: true, ..CheckedPassesOptions::default() };
    options.pass.allow_counter_loss = true;
    let run = run_passes_until_first_refusal(&before, &all, &options, &mut |_, _| {})
        .expect("nothing is compared");
    let acted: Vec<&str> = run
        .pass_reports
        .iter()
        .filter(|s| s.evidence == PassEqualityEvidence::Trusted)
        .map(|s| s.pass)
        .collect();
    let rules =
        |f: &Firewall| f.rulesets().map(|r| r.rules_with_table_and_chain().count()).sum::<usize>();
    println!(
        "{name}: {} rules, {} after {}",
        rules(&before),
        rules(&run.firewall),
        acted.join(", ")
    );
    for (what, scope) in
        [("FORWARD", CompareScope::OneHook(Hook::Forward)), ("all journeys", CompareScope::Journey)]
    {
        let clock = WallAndCpuClock::start();
        let options = CompareOptions { scope, ..CompareOptions::default() };
        let found =
            compare_firewalls(&before, &run.firewall, &options).expect("no mistake in weir");
        let time = clock.to_string();
        let most = found.parts.iter().map(|p| p.statistics.memory_bytes).max().unwrap_or(0);
        let steps: u64 = found.parts.iter().map(|p| p.statistics.steps).sum();
        let why = found.parts.iter().find_map(|p| match &p.verdict {
            ComparisonVerdict::Undecided { why } => Some(why.as_str()),
            _ => None,
        });
        println!(
            "  {what}: equal {}, {time}, {:.1} million steps, {} MiB {}",
            found.is_equal(),
            steps as f64 / 1e6,
            most >> 20,
            why.unwrap_or(""),
        );
    }
}
