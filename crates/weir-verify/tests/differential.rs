//! Random rulesets and packets: the interpreter, the diagrams, the kernel with legacy iptables, and
//! every form.
//!
//! A pair is one packet through one ruleset: its verdict and the outgoing packet are compared one
//! by one, counters for batches of packets, in the original and in each form that can express the
//! ruleset. `cargo xtask differential --seed S --pairs N` runs this at length; without environment
//! variables it is small. Needs root: everything happens in separate network namespaces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use weir_backends::{CompileError, CompileOptions, CompiledForm, compile, write_artefact};
use weir_model::{Family, Firewall};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::random_ruleset::{
    RulesetShape, TestRng, format_fixed_ipset_text, generate_ruleset,
};
use weir_testkit::{TempFolder, skip_without_root};
use weir_verify::{VerifyOptions, VerifyReport, verify};

const FORMS: [CompiledForm; 3] = [CompiledForm::Tree, CompiledForm::Ipset, CompiledForm::Nft];

/// Packets for each ruleset.
const PACKETS: usize = 2_500;
/// Rules of a ruleset, about.
const RULES: usize = 40;
/// Packets of one ruleset that are tried one at a time, at most.
const SINGLES: usize = 40;
/// Rulesets at most that are tried until each form could say one.
const RULESETS: u64 = 60;

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// The result of all rulesets.
#[derive(Default)]
struct Total {
    rulesets: u64,
    rules: u64,
    pairs: u64,
    /// Packets compared by form.
    by_form: BTreeMap<String, u64>,
    by_way: BTreeMap<String, u64>,
    by_state: BTreeMap<String, u64>,
    named: BTreeMap<String, u64>,
    excluded: BTreeMap<String, u64>,
    /// Rulesets that a form cannot say.
    unsaid: BTreeMap<String, u64>,
    counters_read: u64,
    /// Packets of which the diagram was asked, and of which it was not.
    looked: u64,
    not_looked: BTreeMap<String, u64>,
    differences: Vec<String>,
}

impl Total {
    fn add(&mut self, how: &str, report: &VerifyReport) {
        self.rulesets += 1;
        self.pairs += report.compared;
        let sum = |into: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>| {
            from.iter().for_each(|(k, n)| *into.entry(k.clone()).or_default() += n);
        };
        sum(&mut self.by_way, &report.compared_by_path);
        sum(&mut self.by_state, &report.compared_by_state);
        sum(&mut self.excluded, &report.excluded);
        if let Some(diagram) = &report.diagram {
            self.looked += diagram.compared;
            sum(&mut self.not_looked, &diagram.not_asked);
        }
        for way in &report.ways {
            *self.by_form.entry(way.name.clone()).or_default() += way.compared;
            self.counters_read += way.counter_read_rounds * way.counters;
            sum(&mut self.named, &way.named);
        }
        if !report.has_no_unintended_difference() {
            self.differs(format!("{how}\n{report}"));
        }
    }

    /// Whether each form was compared with the kernel in some packet.
    fn has_every_form(&self) -> bool {
        let of = |form: &CompiledForm| self.by_form.get(form.as_str()).copied().unwrap_or(0);
        FORMS.iter().all(|form| of(form) > 0)
    }

    /// Said at once, too: a long run may end otherwise.
    fn differs(&mut self, what: String) {
        println!("DIFFERS {what}");
        self.differences.push(what);
    }

    fn print(&self, seconds: f64) {
        println!(
            "{} rulesets, {} rules, {} pairs of ruleset and packet in {seconds:.0} s, the diagram \
             asked of {}; {} counters compared; {} differences",
            self.rulesets,
            self.rules,
            self.pairs,
            self.looked,
            self.counters_read,
            self.differences.len()
        );
        let all = [
            ("compared in", &self.by_form),
            ("went", &self.by_way),
            ("were", &self.by_state),
            ("named in docs/semantics.md", &self.named),
            ("not compared", &self.excluded),
            ("the diagram not asked", &self.not_looked),
            ("rulesets without the form", &self.unsaid),
        ];
        for (what, map) in all {
            for (name, n) in map {
                println!("  {what}: {n} {name}");
            }
        }
    }
}

fn firewall(text: &str, sets: &str) -> Firewall {
    let ruleset = match parse(text, &ParserSettings::default()) {
        Ok(ruleset) => ruleset,
        Err(errors) => {
            panic!("{}", weir_syntax::render_diagnostics(&errors, "generated", text, false))
        }
    };
    let sets = weir_syntax::ipset::parse(sets).expect("sets that load");
    match ruleset.family {
        Family::V4 => Firewall { v4: Some(ruleset), sets, ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), sets, ..Firewall::default() },
    }
}

/// Writes all forms that can say the ruleset; what cannot is noted.
fn write_forms(how: &str, firewall: &Firewall, folder: &Path, total: &mut Total) -> Vec<PathBuf> {
    let options = CompileOptions { check_packets_per_family: 400, ..CompileOptions::default() };
    let mut dirs = Vec::new();
    for form in FORMS {
        match compile(firewall, form, &options, &mut |_, _| {}) {
            Ok(made) => {
                let dir = folder.join(form.as_str());
                write_artefact(&made, &dir).expect("the artefact is written");
                dirs.push(dir);
            }
            Err(CompileError::NotEquivalent { example, .. }) => {
                total.differs(format!("{how}\n{form} differs: {example}"));
            }
            Err(CompileError::ReadBackMismatch { what, .. }) => {
                total.differs(format!("{how}\n{form} is printed wrong: {what}"));
            }
            Err(CompileError::Unsupported { .. }) => {
                *total.unsaid.entry(form.to_string()).or_default() += 1;
            }
            Err(other) => total.differs(format!("{how}\n{form}: {other}")),
        }
    }
    dirs
}

#[test]
fn every_random_ruleset_is_read() {
    let (mut rng, mut rules) = (TestRng::new(1), 0);
    for _ in 0..500 {
        let (shape, of) =
            (RulesetShape::random_maybe_with_rare_modules(&mut rng, RULES), rng.next_u64());
        let firewall = firewall(&generate_ruleset(of, &shape), &format_fixed_ipset_text(shape.v6));
        rules += firewall.rulesets().map(|r| r.rules_with_table_and_chain().count()).sum::<usize>();
    }
    assert!(rules > 500 * RULES / 2, "{rules} rules");
}

#[test]
fn random_rulesets_agree_with_the_kernel_in_every_form() {
    if skip_without_root() {
        return;
    }
    let (seed, pairs) = (number("WEIR_SEED", 4), number("WEIR_PAIRS", 3_000));
    let (began, folder) = (Instant::now(), TempFolder::new("differential"));
    let mut rng = TestRng::new(seed);
    let mut total = Total::default();
    while total.pairs < pairs || !total.has_every_form() && total.rulesets < RULESETS {
        let (shape, of) =
            (RulesetShape::random_maybe_with_rare_modules(&mut rng, RULES), rng.next_u64());
        let how = format!("ruleset {}: ruleset({of}, {shape:?})", total.rulesets + 1);
        let sets =
            if shape.rare_modules { format_fixed_ipset_text(shape.v6) } else { String::new() };
        let firewall = firewall(&generate_ruleset(of, &shape), &sets);
        total.rules +=
            firewall.rulesets().map(|r| r.rules_with_table_and_chain().count() as u64).sum::<u64>();
        let dirs = write_forms(&how, &firewall, folder.path(), &mut total);
        let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
        let options = VerifyOptions {
            packet_count: PACKETS.min(pairs as usize / 2),
            seed: of,
            single_packets_max: SINGLES,
            check_diagrams: true,
            ..VerifyOptions::default()
        };
        let report = verify(&firewall, &dirs, &options, &mut |_, _| {})
            .unwrap_or_else(|e| panic!("{how}: {e}"));
        total.add(&how, &report);
        if total.rulesets.is_multiple_of(50) {
            total.print(began.elapsed().as_secs_f64());
        }
    }
    total.print(began.elapsed().as_secs_f64());
    let most = total.looked * 10 >= total.pairs * 9;
    assert!(most, "the diagram was asked of {} of {} pairs", total.looked, total.pairs);
    assert!(total.has_every_form(), "compared in {:?} alone", total.by_form);
    assert!(
        total.differences.is_empty(),
        "cargo xtask differential --seed {seed} --pairs {pairs} repeats it:\n{}",
        total.differences.join("\n")
    );
}
