//! The kept runs of a study, and which of them decides a claim.
//!
//! The choice does not depend on the results of runs. Of the runs that measured a claim, those
//! within the limits come first ([`weir_stats::evidence_limits`]: noise floor, given-up trials,
//! samples, the study's definition); then the one with the narrowest noise floor, the smallest
//! share of given-up trials, the narrowest interval; of equal ones the newest. The numbers of all
//! other runs are shown as well.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_stats::{
    Claim, ClaimOutcome, ClaimRecord, ClaimTest, EvidenceShortcoming, RunQuality, RunRecord, claim,
    run_folder,
};

use super::definition_at_run::DefinitionAtRun;
use super::statement_status::{ClaimEvidence, OtherRunEvidence, StatementStatus};
use crate::StudyError;
use crate::loaded_study::LoadedStudy;

/// A complete run in a study's folder.
#[derive(Clone, Debug, Serialize)]
pub struct KeptRun {
    /// Its folder below the study's, e.g. `runs/2026-11-21-amd-epyc-2cpu`.
    pub folder: String,
    /// When it began, RFC 3339, UTC.
    pub date: String,
    /// Kernel release of the machine whose rules were measured.
    pub kernel: String,
    /// Duration and number of repetitions.
    pub preset: String,
    /// Its noise floor, its given-up trials and its processor.
    pub quality: RunQuality,
}

/// A kept run with its records.
#[derive(Clone, Debug)]
pub struct KeptRunRecord {
    /// Its summary for readers.
    pub run: KeptRun,
    /// Its records.
    pub record: RunRecord,
    definition: DefinitionAtRun,
}

impl KeptRunRecord {
    /// Whether the study had this claim with the same test when it was run.
    pub(super) fn has_same_test(&self, loaded: &LoadedStudy, claim_id: &str) -> bool {
        self.definition.has_same_test(loaded, claim_id)
    }

    /// The parts that a test depends on and that the study now defines otherwise.
    pub(super) fn list_changed_parts(&self, loaded: &LoadedStudy, test: &ClaimTest) -> Vec<String> {
        self.definition.list_changed_parts(loaded, &self.record, test)
    }
}

/// All complete runs of a study, the best first.
///
/// # Errors
/// Records that cannot be read, a folder whose name does not contain the processor of its run.
pub fn load_kept_runs_best_first(study: &Path) -> Result<Vec<KeptRunRecord>, StudyError> {
    let Ok(entries) = fs::read_dir(study.join("runs")) else { return Ok(Vec::new()) };
    let mut folders: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|run| run.join("run.json").is_file())
        .collect();
    folders.sort();
    let mut kept = Vec::new();
    for folder in folders {
        let record = run_folder::load_record_recomputing_claims(&folder)?;
        if record.run.complete {
            kept.push(build_kept_run_checking_folder_name(&folder, record)?);
        }
    }
    kept.sort_by(|a, b| compare_run_quality(&a.run, &b.run));
    Ok(kept)
}

fn build_kept_run_checking_folder_name(
    folder: &Path,
    record: RunRecord,
) -> Result<KeptRunRecord, StudyError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let environment = record.run.firewall_environment();
    let cpu = format_cpu_for_folder(&environment.cpu_model);
    if !name.contains(&cpu) {
        return Err(StudyError::InvalidFile {
            path: folder.join("run.json"),
            line: 1,
            message: format!(
                "the run was made on processor `{}`, which the name of its folder does not contain: \
                 name it DATE-{cpu}-{}cpu",
                environment.cpu_model, environment.cores
            ),
        });
    }
    let run = KeptRun {
        folder: format!("runs/{name}"),
        date: record.run.date.clone(),
        kernel: environment.kernel.clone(),
        preset: record.run.preset.name.clone(),
        quality: RunQuality::from_run(&record.run),
    };
    Ok(KeptRunRecord { run, definition: DefinitionAtRun::read_from_run_folder(folder)?, record })
}

/// Orders better runs first, independent of their results.
fn compare_run_quality(first: &KeptRun, second: &KeptRun) -> Ordering {
    let falls_short = |run: &KeptRun| !run.quality.shortcomings().is_empty();
    falls_short(first)
        .cmp(&falls_short(second))
        .then_with(|| {
            let reach = |run: &KeptRun| run.quality.max_noise_floor_factor();
            reach(first).total_cmp(&reach(second))
        })
        .then_with(|| {
            let share = |run: &KeptRun| run.quality.given_up_share();
            share(first).total_cmp(&share(second))
        })
        .then_with(|| second.date.cmp(&first.date))
}

/// The evidence for a claim without a kept run: the reason, or that there is no run.
pub(super) fn evidence_without_run(claim: &Claim) -> ClaimEvidence {
    let status = match claim.test {
        Some(_) => StatementStatus::NotRun,
        None => claim::evaluate_claim(claim, &[], &[]).outcome.into(),
    };
    ClaimEvidence {
        claim: claim.id.clone(),
        status,
        estimate: None,
        run: None,
        cpu: None,
        shortcomings: Vec::new(),
        other_runs: Vec::new(),
    }
}

/// The evidence for a claim: of the runs that measured it, the best one decides.
pub(super) fn choose_claim_evidence(
    loaded: &LoadedStudy,
    claim: &Claim,
    kept: &[KeptRunRecord],
) -> ClaimEvidence {
    let Some(test) = &claim.test else { return evidence_without_run(claim) };
    let mut measured: Vec<(&KeptRunRecord, ClaimRecord)> = Vec::new();
    for one in kept {
        let mut shortcomings = one.run.quality.shortcomings();
        let changed = one.list_changed_parts(loaded, test);
        let is_accepted = |part: &String| loaded.study.accepts_change(&one.run.folder, part);
        let parts = changed.into_iter().filter(|part| !is_accepted(part));
        shortcomings.extend(parts.map(|part| EvidenceShortcoming::ChangedDefinition { part }));
        let decided = claim::evaluate_claim(claim, &one.record.trials, &shortcomings);
        if decided.outcome != ClaimOutcome::NotMeasured {
            measured.push((one, decided));
        }
    }
    measured.sort_by(|a, b| compare_evidence_quality((&a.0.run, &a.1), (&b.0.run, &b.1)));
    let mut measured = measured.into_iter();
    let Some((best, decided)) = measured.next() else {
        let not_measured =
            ClaimEvidence { status: StatementStatus::NotMeasured, ..evidence_without_run(claim) };
        return if kept.is_empty() { evidence_without_run(claim) } else { not_measured };
    };
    let other = |(other, decided): (&KeptRunRecord, ClaimRecord)| {
        Some(OtherRunEvidence {
            run: other.run.folder.clone(),
            cpu: format_cpu_for_reader(&other.run.quality.cpu_model),
            status: decided.outcome.into(),
            estimate: decided.estimate?,
        })
    };
    ClaimEvidence {
        claim: claim.id.clone(),
        status: decided.outcome.into(),
        estimate: decided.estimate,
        run: Some(best.run.folder.clone()),
        cpu: Some(format_cpu_for_reader(&best.run.quality.cpu_model)),
        shortcomings: decided.shortcomings,
        other_runs: measured.filter_map(other).collect(),
    }
}

/// As [`compare_run_quality`], of a claim: it also counts how many samples and how wide an interval
/// a run has for it.
fn compare_evidence_quality(
    (first_run, first): (&KeptRun, &ClaimRecord),
    (second_run, second): (&KeptRun, &ClaimRecord),
) -> Ordering {
    // A straddled bound depends on what was found.
    let falls_short = |record: &ClaimRecord| {
        let depends_on_result =
            |one: &EvidenceShortcoming| matches!(one, EvidenceShortcoming::StraddledBound { .. });
        !record.shortcomings.iter().all(depends_on_result)
    };
    let width = |record: &ClaimRecord| {
        record.estimate.map_or(f64::INFINITY, |estimate| {
            (estimate.hi - estimate.lo) / estimate.value.abs().max(f64::MIN_POSITIVE)
        })
    };
    falls_short(first)
        .cmp(&falls_short(second))
        .then_with(|| {
            compare_run_quality(
                &KeptRun { date: String::new(), ..first_run.clone() },
                &KeptRun { date: String::new(), ..second_run.clone() },
            )
        })
        .then_with(|| width(first).total_cmp(&width(second)))
        .then_with(|| second_run.date.cmp(&first_run.date))
}

/// A processor as part of a folder's name: `AMD EPYC` is `amd-epyc`.
///
/// # Example
/// ```
/// use weir_study::claims_registry::format_cpu_for_folder;
/// assert_eq!(format_cpu_for_folder("Intel(R) Xeon(R) Processor @ 2.90GHz"), "intel-xeon-2-90ghz");
/// ```
pub fn format_cpu_for_folder(cpu_model: &str) -> String {
    let lower = format_cpu_for_reader(cpu_model).to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// A processor without marks and words that all of them have: `Intel(R) Xeon(R) Processor` is
/// `Intel Xeon`.
pub fn format_cpu_for_reader(cpu_model: &str) -> String {
    let plain = cpu_model.replace("(R)", " ").replace("(TM)", " ").replace("(tm)", " ");
    let is_name = |word: &&str| !["Processor", "CPU", "@"].contains(word);
    let words: Vec<&str> = plain.split_whitespace().filter(is_name).collect();
    if words.is_empty() { "unknown processor".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_stats::Estimate;

    fn run(floor: (f64, f64), given_up: u64, date: &str) -> KeptRun {
        let floor = Estimate { value: 1.0, lo: floor.0, hi: floor.1, samples: 8 };
        KeptRun {
            folder: format!("runs/{date}"),
            date: date.to_owned(),
            kernel: "6".to_owned(),
            preset: "quick".to_owned(),
            quality: RunQuality {
                noise_floor: Some(floor),
                accepted_trials: 100,
                given_up_trials: given_up,
                cpu_model: "a processor".to_owned(),
            },
        }
    }

    #[test]
    fn the_better_run_decides_though_it_is_older() {
        let quiet = run((0.999, 1.009), 0, "2026-11-21");
        let noisy = run((0.857, 1.221), 0, "2026-11-22");
        assert_eq!(compare_run_quality(&quiet, &noisy), Ordering::Less);
        let given_up = run((0.999, 1.001), 20, "2026-11-22");
        assert_eq!(compare_run_quality(&quiet, &given_up), Ordering::Less, "it may not decide");
        let narrower = run((0.9995, 1.001), 5, "2026-11-20");
        assert_eq!(compare_run_quality(&quiet, &narrower), Ordering::Greater);
        let newer = run((0.999, 1.009), 0, "2026-11-23");
        assert_eq!(compare_run_quality(&quiet, &newer), Ordering::Greater, "of equals the newest");
    }

    #[test]
    fn processors_are_named_by_their_model() {
        assert_eq!(format_cpu_for_folder("AMD EPYC"), "amd-epyc");
        assert_eq!(format_cpu_for_folder("Intel(R) Xeon(R) Processor"), "intel-xeon");
        assert_eq!(format_cpu_for_reader("Intel(R) Xeon(R) Processor"), "Intel Xeon");
        assert_eq!(format_cpu_for_reader(""), "unknown processor");
    }
}
