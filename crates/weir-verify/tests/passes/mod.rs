//! All passes over a ruleset: how each is checked, how it changes the number of rules that a packet
//! tries, and whether the kernel agrees.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use weir_artefact::{CheckedPass, Manifest};
use weir_backends::{CompileError, CompileOptions, CompiledForm, compile, write_artefact};
use weir_model::{Firewall, Packet};
use weir_passes::equivalence_check::generate_firewall_check_packets;
use weir_passes::{
    CheckedPassesOptions, NoProofReason, PacketCheckOptions, Pass, PassEqualityEvidence,
    PassOptions, passes, run_passes_until_first_refusal,
};
use weir_semantics::{Interpreter, JourneyKind, SeededOracle};
use weir_verify::{VerifyOptions, verify};

/// Packets of a check, for each family.
const CHECKED: usize = 4_000;
/// Packets through the kernel, for each ruleset.
const IN_KERNEL: usize = 10_000;
/// Packets that are tried one at a time, because only the kernel can say what they meet.
const SINGLES: usize = 150;

/// What one pass made of one ruleset.
pub struct Row {
    file: String,
    pass: String,
    by: String,
    tried: Option<(f64, f64)>,
}

/// The result of all rulesets.
pub struct Table {
    rows: Vec<Row>,
    kernel: Vec<String>,
    /// Where artefacts are written.
    folder: PathBuf,
    /// What is wrong, each in a line.
    pub wrong: Vec<String>,
}

impl Drop for Table {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a pass does on purpose, and a diagram cannot tell from a mistake.
fn is_listed(pass: &str, why: &NoProofReason) -> bool {
    match why {
        NoProofReason::OracleQuestionTextChanged => pass == "cheaper_match",
        NoProofReason::DropsBeforeConntrack => pass == "early_drop",
        NoProofReason::ConntrackStateDiffers => pass == "notrack",
        NoProofReason::ProofUnfinished(_) => false,
    }
}

impl Table {
    pub fn new(name: &str) -> Table {
        let folder = format!("weir-corpus-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).expect("a folder for artefacts");
        Table { rows: Vec::new(), kernel: Vec::new(), folder, wrong: Vec::new() }
    }

    /// Each pass alone.
    pub fn check_each(&mut self, file: &str, firewall: &Firewall) {
        for pass in passes::ALL_PASSES {
            self.run(file, "alone", firewall, &[pass]);
        }
    }

    /// All passes, one after another, and what they make together.
    pub fn check_all(&mut self, file: &str, firewall: &Firewall) {
        if let Some(after) = self.run(file, "then", firewall, &passes::ALL_PASSES) {
            let (file, tried) = (file.to_owned(), Some(tried(firewall, [firewall, &after])));
            let (pass, by) = ("all together".to_owned(), "each as above".to_owned());
            self.rows.push(Row { file, pass, by, tried });
        }
    }

    /// Rows for passes that change something; the firewall that they make.
    fn run(
        &mut self,
        file: &str,
        how: &str,
        firewall: &Firewall,
        passes: &[&dyn Pass],
    ) -> Option<Firewall> {
        let options = CheckedPassesOptions {
            pass: PassOptions { allow_counter_loss: true, ..PassOptions::default() },
            packet_check: PacketCheckOptions { seed: 1, packets_per_family: CHECKED },
            ..CheckedPassesOptions::default()
        };
        let run = match run_passes_until_first_refusal(firewall, passes, &options, &mut |_, _| {}) {
            Ok(run) => run,
            Err(refused) => {
                self.wrong.push(format!("{file}: {refused}"));
                return None;
            }
        };
        for step in run.pass_reports {
            let by = match &step.evidence {
                PassEqualityEvidence::Unchanged => continue,
                PassEqualityEvidence::ProvenAndPacketsCompared(_) => "proven".to_owned(),
                PassEqualityEvidence::ComparedPackets(packets, why)
                    if is_listed(step.pass, why) =>
                {
                    format!("{packets} packets: {why}")
                }
                by => {
                    self.wrong.push(format!("{file}: {}: {by:?}", step.pass));
                    continue;
                }
            };
            let (file, pass) = (file.to_owned(), format!("{how} {}", step.pass));
            self.rows.push(Row { file, pass, by, tried: step.mean_rules_tried });
        }
        Some(run.firewall)
    }

    /// Both forms that passes lead to, with all of them, in the kernel.
    pub fn load(&mut self, file: &str, firewall: &Firewall) {
        let mut dirs = Vec::new();
        for form in [CompiledForm::Ipset, CompiledForm::Nft] {
            let options = CompileOptions {
                check_packets_per_family: CHECKED,
                passes: Some(of_form(form)),
                allow_counter_loss: true,
                ..CompileOptions::default()
            };
            match compile(firewall, form, &options, &mut |_, _| {}) {
                Ok(made) => {
                    self.note_maps(file, &made.manifest);
                    let dir = self.folder.join(form.as_str());
                    write_artefact(&made, &dir).expect("the artefact is written");
                    dirs.push(dir);
                }
                Err(CompileError::Unsupported { refusals, .. }) => {
                    let first = refusals.first().map(ToString::to_string).unwrap_or_default();
                    self.kernel.push(format!("{file} {form}: no such form: {first}"));
                }
                Err(error) => self.wrong.push(format!("{file} {form}: {error}")),
            }
        }
        let paths: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
        let options = VerifyOptions {
            packet_count: IN_KERNEL,
            single_packets_max: SINGLES,
            ..VerifyOptions::default()
        };
        match verify(firewall, &paths, &options, &mut |_, _| {}) {
            Ok(report) => {
                for way in &report.ways {
                    self.kernel.push(format!(
                        "{file} {}: {} packets, {} of {} counters hit, {} + {} differences",
                        way.name,
                        way.compared,
                        way.counters_hit,
                        way.counters,
                        way.verdict_differences,
                        way.packets_with_counter_difference
                    ));
                }
                if !report.has_no_unintended_difference() || report.compared < IN_KERNEL as u64 {
                    self.wrong.push(format!("{file}: {report}"));
                }
            }
            Err(error) => self.wrong.push(format!("{file}: {error}")),
        }
        for dir in dirs {
            fs::remove_dir_all(dir).expect("the artefact goes");
        }
    }
}

impl Table {
    /// The pass that the nft form is.
    fn note_maps(&mut self, file: &str, manifest: &Manifest) {
        let maps = |p: &&CheckedPass| p.pass == passes::FOLD_INTO_VERDICT_MAP_PASS_NAME;
        let Some(step) = manifest.checked.passes.iter().find(maps) else { return };
        if !matches!(step.evidence, PassEqualityEvidence::ProvenAndPacketsCompared(_)) {
            self.wrong.push(format!("{file}: {}: {:?}", step.pass, step.evidence));
        }
        let (file, pass) = (file.to_owned(), format!("then {}", step.pass));
        self.rows.push(Row {
            file,
            pass,
            by: step.evidence.manifest_word().to_owned(),
            tried: None,
        });
    }
}

/// All passes that a form can use, in their order.
fn of_form(form: CompiledForm) -> Vec<String> {
    let mut names: Vec<&str> = passes::ALL_PASSES.iter().map(|p| p.name()).collect();
    if form == CompiledForm::Nft {
        names.retain(|n| *n != "fold_into_set");
        names.push(passes::FOLD_INTO_VERDICT_MAP_PASS_NAME);
    }
    names.into_iter().map(str::to_owned).collect()
}

/// Rules that a packet for the first firewall tries in each, on average.
fn tried(of: &Firewall, both: [&Firewall; 2]) -> (f64, f64) {
    let packets: Vec<(JourneyKind, Vec<Packet>)> = generate_firewall_check_packets(
        of,
        &PacketCheckOptions { seed: 1, packets_per_family: CHECKED },
        1,
    );
    let [before, after] = both.map(|firewall| {
        let interpreter = Interpreter::new(firewall);
        let each = packets.iter().flat_map(|(entry, list)| list.iter().map(move |p| (entry, p)));
        let tried = each.map(|(entry, packet)| {
            u64::from(
                interpreter.evaluate_journey(packet, *entry, &mut SeededOracle(1)).rules_tried,
            )
        });
        tried.sum::<u64>() as f64
    });
    let count = packets.iter().map(|(_, list)| list.len()).sum::<usize>().max(1) as f64;
    (before / count, after / count)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<45} {:<26} {:>8} {:>8}  checked", "file", "pass", "tried", "then")?;
        for Row { file, pass, by, tried } in &self.rows {
            let tenth = |n: f64| format!("{n:.1}");
            let (before, after) =
                tried.map_or_else(Default::default, |(b, a)| (tenth(b), tenth(a)));
            writeln!(f, "{file:<45} {pass:<26} {before:>8} {after:>8}  {by}")?;
        }
        self.kernel.iter().try_for_each(|line| writeln!(f, "kernel: {line}"))
    }
}
