//! `weir bench classify`: classifiers compared packet by packet, then measured.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;
use weir_bench::{
    AnswerCheckResult, BenchSubject, MeasurementOptions, MedianWithRange, SubjectRates,
    TraceOptions, TracePattern, WrongAnswer, build_engine_subject, find_wrong_answers,
    find_wrong_answers_with_sample, generate_trace, measure_subjects,
};
use weir_classify::classbench::{parse_filter_set, parse_trace};
use weir_classify::{BuildLimits, Engine, FilterSet, KeyTable, NO_RULE};

use super::YesNoExitStatus;
use super::bench_ruleset::{MeasuredLookup, compile_largest_lookup};
use crate::cli::{BenchClassifyArgs, TracePatternArg};
use crate::json_output;
use crate::terminal::{self, TerminalProgress};

/// Progress of a command that is faster is not shown.
const PROGRESS_DISPLAY_DELAY: Duration = Duration::from_secs(1);
/// From how many rules on progress is shown at once: a single engine may take longer than that.
const PROGRESS_DISPLAY_RULES_MIN: usize = 5_000;

/// Compares and measures; no if an engine is wrong.
pub fn compare_and_measure_classifiers(
    args: &BenchClassifyArgs,
    color: bool,
) -> Result<YesNoExitStatus> {
    check_argument_ranges(args)?;
    let engines = parse_weir_engine_names(&args.engine)?;
    let (measured_lookup, filters) = read_filters(args, color)?;
    let keys = read_or_generate_trace(args, &filters)?;
    let mut progress = DelayedProgress::new(filters.rule_count() >= PROGRESS_DISPLAY_RULES_MIN);
    let mut rows: Vec<EngineRow> = Vec::new();
    let mut subjects: Vec<Box<dyn BenchSubject>> = Vec::new();
    for engine in engines {
        progress.show(&format!("build {}", engine.name()), 0.0);
        let limits = BuildLimits { steps_max: args.build_steps, ..BuildLimits::default() };
        match build_engine_subject(engine, &filters, &limits) {
            Ok(subject) => {
                rows.push(EngineRow::of_built_subject(&subject, filters.rule_count()));
                subjects.push(Box::new(subject));
            }
            Err(error) => rows.push(EngineRow::of_refusal(engine.name(), error.to_string())),
        }
    }
    for name in args.engine.iter().filter(|name| name.starts_with("rte_acl")) {
        progress.show(&format!("build {name}"), 0.05);
        match build_rte_acl_subject_by_name(name, &filters)? {
            Ok(subject) => {
                rows.push(EngineRow::of_built_subject(&*subject, filters.rule_count()));
                subjects.push(subject);
            }
            Err(reason) => rows.push(EngineRow::of_refusal(name, reason)),
        }
    }
    progress.show("compare answers", 0.1);
    let compared: Vec<&dyn BenchSubject> = subjects.iter().map(|subject| &**subject).collect();
    let check = match args.linear_packets {
        Some(packets) => find_wrong_answers_with_sample(&compared, &filters, &keys, packets)?,
        None => find_wrong_answers(&compared, &filters, &keys)?,
    };
    let names: Vec<String> = subjects.iter().map(|subject| subject.name().to_owned()).collect();
    for wrong in &check.first_wrong_of_each_subject {
        let row = find_engine_row(&mut rows, &names[wrong.subject_index]);
        row.state = EngineBenchResult::Wrong;
        row.reason = Some(describe_wrong_answer(wrong));
    }
    let is_wrong = |index: usize| {
        check.first_wrong_of_each_subject.iter().any(|wrong| wrong.subject_index == index)
    };
    let right = subjects.into_iter().enumerate().filter(|(index, _)| !is_wrong(*index));
    let mut right: Vec<Box<dyn BenchSubject>> = right.map(|(_, subject)| subject).collect();
    let options = MeasurementOptions {
        round_count: args.rounds,
        min_turn_duration: Duration::from_secs_f64(args.turn_seconds),
        update_order_seed: args.seed,
    };
    let rates = measure_subjects(&mut right, &filters, &keys, &options, &mut |name, done| {
        progress.show(&format!("measure {name}"), 0.2 + 0.8 * done);
    });
    for (subject, rates) in right.iter().zip(rates) {
        find_engine_row(&mut rows, subject.name())
            .set_rates_and_cache_lines(&rates, &**subject, &keys);
    }
    drop(progress);
    let report = ClassifyReport::new(args, measured_lookup, &filters, &keys, &check, rows);
    terminal::print_escaped_to_stdout(&if args.json {
        json_output::render_json_object("bench classify", &report)?
    } else {
        report.render_text()
    })?;
    Ok(if check.first_wrong_of_each_subject.is_empty() {
        YesNoExitStatus::Yes
    } else {
        YesNoExitStatus::No
    })
}

fn check_argument_ranges(args: &BenchClassifyArgs) -> Result<()> {
    ensure!(
        (1..=10_000_000).contains(&args.packets),
        "--packets {}: must be from 1 to 10,000,000",
        args.packets
    );
    ensure!((1..=1000).contains(&args.rounds), "--rounds {}: must be from 1 to 1000", args.rounds);
    ensure!(
        (0.001..=60.0).contains(&args.turn_seconds),
        "--turn-seconds {}: must be from 0.001 to 60",
        args.turn_seconds
    );
    ensure!(args.linear_packets != Some(0), "--linear-packets 0: must be at least 1");
    Ok(())
}

fn parse_weir_engine_names(names: &[String]) -> Result<Vec<Engine>> {
    if names.is_empty() {
        return Ok(Engine::ALL.to_vec());
    }
    let known = Engine::ALL.map(Engine::name).join(", ");
    let mut engines = Vec::new();
    for (index, name) in names.iter().enumerate() {
        ensure!(!names[..index].contains(name), "--engine {name} is given twice");
        if name.starts_with("rte_acl") {
            continue;
        }
        let engine = Engine::from_name(name);
        let engine = engine.with_context(|| format!("--engine {name}: must be one of {known}"))?;
        engines.push(engine);
    }
    Ok(engines)
}

#[cfg(feature = "rte-acl")]
fn build_rte_acl_subject_by_name(
    name: &str,
    filters: &FilterSet,
) -> Result<Result<Box<dyn BenchSubject>, String>> {
    use weir_bench::rte_acl::{RteAclMethod, build_rte_acl_subject};
    let known = RteAclMethod::ALL.map(RteAclMethod::name).join(", ");
    let method = RteAclMethod::ALL.into_iter().find(|method| method.name() == name);
    let method = method.with_context(|| format!("--engine {name}: must be one of {known}"))?;
    let built = build_rte_acl_subject(filters, method);
    Ok(built.map(|subject| Box::new(subject) as _).map_err(|error| error.to_string()))
}

#[cfg(not(feature = "rte-acl"))]
fn build_rte_acl_subject_by_name(
    name: &str,
    _filters: &FilterSet,
) -> Result<Result<Box<dyn BenchSubject>, String>> {
    bail!(
        "--engine {name}: this weir was built without DPDK; install libdpdk-dev and build with \
         --features rte-acl"
    )
}

/// The filters of a set in the format of ClassBench, or of the largest look-up of a ruleset.
fn read_filters(
    args: &BenchClassifyArgs,
    color: bool,
) -> Result<(Option<MeasuredLookup>, FilterSet)> {
    let path = &args.rules_file;
    let (name, text) = (path.display().to_string(), read_plain_or_gzipped_text(path)?);
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    if text.lines().any(|line| line.starts_with('*') || line.starts_with("-A ")) {
        ensure!(
            args.trace_file.is_none(),
            "{name} is a ruleset of iptables: its keys have other words than a trace of ClassBench"
        );
        let chain = args.chain.as_deref();
        let (lookup, filters) =
            compile_largest_lookup((&name, &text), chain, args.ipset.as_deref(), color)?;
        return Ok((Some(lookup), filters));
    }
    if first.starts_with(|first: char| first.is_ascii_digit()) {
        bail!(
            "{name} is a trace: its first line has no `@`; the filters come first, then the trace"
        );
    }
    let of_ruleset = [("--chain", args.chain.is_some()), ("--ipset", args.ipset.is_some())];
    if let Some((option, _)) = of_ruleset.into_iter().find(|option| option.1) {
        bail!("{option} is for rulesets of iptables, and {name} is none");
    }
    let filters = parse_filter_set(&text, true).with_context(|| name.clone())?;
    ensure!(filters.rule_count() > 0, "{name} has no filters");
    Ok((None, filters))
}

fn read_or_generate_trace(args: &BenchClassifyArgs, filters: &FilterSet) -> Result<KeyTable> {
    let Some(path) = &args.trace_file else {
        let pattern = match args.trace {
            TracePatternArg::Uniform => TracePattern::Uniform,
            TracePatternArg::Zipf => TracePattern::Zipf,
            TracePatternArg::Local => TracePattern::Local,
            TracePatternArg::Random => TracePattern::Random,
        };
        let options = TraceOptions { pattern, packet_count: args.packets, seed: args.seed };
        return Ok(generate_trace(filters, &options));
    };
    let text = read_plain_or_gzipped_text(path)?;
    let keys = parse_trace(&text).with_context(|| path.display().to_string())?;
    ensure!(keys.key_count() > 0, "{} has no packets", path.display());
    Ok(keys)
}

fn read_plain_or_gzipped_text(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let is_gzipped = path.extension().is_some_and(|extension| extension == "gz");
    let mut plain = Vec::new();
    if is_gzipped {
        let mut decoder = flate2::read::MultiGzDecoder::new(bytes.as_slice());
        decoder.read_to_end(&mut plain).with_context(|| format!("unzip {}", path.display()))?;
    } else {
        plain = bytes;
    }
    String::from_utf8(plain).with_context(|| format!("read {} as text", path.display()))
}

/// Progress on standard error, at once or when a command has taken a second.
struct DelayedProgress {
    start: Instant,
    is_shown_at_once: bool,
    bar: Option<TerminalProgress>,
}

impl DelayedProgress {
    fn new(is_shown_at_once: bool) -> DelayedProgress {
        DelayedProgress { start: Instant::now(), is_shown_at_once, bar: None }
    }

    fn show(&mut self, what: &str, done_fraction: f64) {
        if self.is_shown_at_once || self.start.elapsed() > PROGRESS_DISPLAY_DELAY {
            let bar = self.bar.get_or_insert_with(TerminalProgress::new);
            bar.show_done_fraction(what, done_fraction);
        }
    }
}

fn describe_wrong_answer(wrong: &WrongAnswer) -> String {
    let list = |rules: &[u32]| match rules {
        [] | [NO_RULE] => "none".to_owned(),
        rules => rules.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    };
    let WrongAnswer { packet_index, question, expected, found, .. } = wrong;
    format!("{question} of packet {packet_index}: {}, linear {}", list(found), list(expected))
}

fn find_engine_row<'a>(rows: &'a mut [EngineRow], name: &str) -> &'a mut EngineRow {
    let row = rows.iter_mut().find(|row| row.engine == name);
    row.expect("each subject has its row")
}

#[derive(Serialize)]
struct ClassifyReport {
    /// Of a ruleset of iptables.
    lookup: Option<MeasuredLookup>,
    rules: usize,
    packets: usize,
    trace: String,
    seed: u64,
    rounds: usize,
    packets_compared_with_linear: usize,
    matches_per_packet: Option<f64>,
    first_match_hash: Option<String>,
    engines: Vec<EngineRow>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum EngineBenchResult {
    Measured,
    Refused,
    Wrong,
}

#[derive(Serialize)]
struct EngineRow {
    engine: String,
    state: EngineBenchResult,
    reason: Option<String>,
    first_match_pps: Option<MedianMinMaxJson>,
    count_all_pps: Option<MedianMinMaxJson>,
    updates_per_second: Option<MedianMinMaxJson>,
    build_seconds: Option<MedianMinMaxJson>,
    bytes_per_rule: Option<f64>,
    /// Read by a look-up of the first match; `None` of engines that do not count them.
    cache_lines_per_packet: Option<f64>,
}

#[derive(Clone, Copy, Serialize)]
struct MedianMinMaxJson {
    median: f64,
    min: f64,
    max: f64,
}

impl From<MedianWithRange> for MedianMinMaxJson {
    fn from(MedianWithRange { min, median, max }: MedianWithRange) -> MedianMinMaxJson {
        MedianMinMaxJson { median, min, max }
    }
}

impl EngineRow {
    fn of_refusal(engine: &str, reason: String) -> EngineRow {
        EngineRow {
            engine: engine.to_owned(),
            state: EngineBenchResult::Refused,
            reason: Some(reason),
            first_match_pps: None,
            count_all_pps: None,
            updates_per_second: None,
            build_seconds: None,
            bytes_per_rule: None,
            cache_lines_per_packet: None,
        }
    }

    fn of_built_subject(subject: &dyn BenchSubject, rule_count: usize) -> EngineRow {
        EngineRow {
            state: EngineBenchResult::Measured,
            reason: None,
            build_seconds: Some(MedianWithRange::of_values(subject.build_seconds()).into()),
            bytes_per_rule: Some(subject.memory_bytes() as f64 / rule_count as f64),
            ..EngineRow::of_refusal(subject.name(), String::new())
        }
    }

    fn set_rates_and_cache_lines(
        &mut self,
        rates: &SubjectRates,
        subject: &dyn BenchSubject,
        keys: &KeyTable,
    ) {
        self.first_match_pps = Some(rates.first_match_pps.into());
        self.count_all_pps = rates.count_all_pps.map(MedianMinMaxJson::from);
        self.updates_per_second = rates.update_rate.map(MedianMinMaxJson::from);
        let counting = subject.all_matches_classifier();
        let lines = counting.and_then(|classifier| classifier.count_first_match_cache_lines(keys));
        self.cache_lines_per_packet = lines.map(|lines| lines as f64 / keys.key_count() as f64);
    }

    fn render_line(&self) -> String {
        if let (EngineBenchResult::Refused | EngineBenchResult::Wrong, Some(reason)) =
            (self.state, &self.reason)
        {
            let state = if self.state == EngineBenchResult::Wrong { "WRONG" } else { "refused" };
            return format!("{:<11} {state}: {reason}\n", self.engine);
        }
        let rate = |rate: Option<MedianMinMaxJson>, unit: f64| {
            rate.map_or("n/a".to_owned(), |MedianMinMaxJson { median, min, max }| {
                format!("{:.2} [{:.2}–{:.2}]", median / unit, min / unit, max / unit)
            })
        };
        let build_ms = self.build_seconds.map_or(f64::NAN, |build| build.median * 1e3);
        format!(
            "{:<11} {:>22} {:>22} {:>22} {build_ms:>10.1} {:>10.1} {:>11}\n",
            self.engine,
            rate(self.first_match_pps, 1e6),
            rate(self.count_all_pps, 1e6),
            rate(self.updates_per_second, 1e3),
            self.bytes_per_rule.unwrap_or(f64::NAN),
            self.cache_lines_per_packet.map_or("n/a".to_owned(), |lines| format!("{lines:.1}")),
        )
    }
}

impl ClassifyReport {
    fn new(
        args: &BenchClassifyArgs,
        lookup: Option<MeasuredLookup>,
        filters: &FilterSet,
        keys: &KeyTable,
        check: &AnswerCheckResult,
        engines: Vec<EngineRow>,
    ) -> ClassifyReport {
        let generated = match args.trace {
            TracePatternArg::Uniform => "uniform",
            TracePatternArg::Zipf => "zipf",
            TracePatternArg::Local => "local",
            TracePatternArg::Random => "random",
        };
        let file = args.trace_file.as_ref().map(|path| path.display().to_string());
        ClassifyReport {
            lookup,
            rules: filters.rule_count(),
            packets: keys.key_count(),
            trace: file.unwrap_or_else(|| generated.to_owned()),
            seed: args.seed,
            rounds: args.rounds,
            packets_compared_with_linear: check.linear_packet_count,
            matches_per_packet: check.matches_per_packet,
            first_match_hash: check
                .right_subjects_first_match_hash
                .map(|hash| format!("{hash:016x}")),
            engines,
        }
    }

    fn render_text(&self) -> String {
        let rules = match &self.lookup {
            None => format!("{} rules", self.rules),
            Some(MeasuredLookup { chain, rules, lookups, filters, words }) => format!(
                "{chain}, rules: {rules}, look-ups: {lookups}; measured is the largest, filters: \
                 {filters}, entries: {}, words: {words}\n{filters} filters",
                self.rules
            ),
        };
        let mut text = format!(
            "{rules}, {} packets ({}), {} of them compared with linear\n",
            self.packets, self.trace, self.packets_compared_with_linear
        );
        if let (Some(hash), Some(matches)) = (&self.first_match_hash, self.matches_per_packet) {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{matches:.2} matching rules per packet on average; checksum of the first matches: \
                 {hash}"
            );
        }
        let _ = writeln!(
            text,
            "{:<11} {:>22} {:>22} {:>22} {:>10} {:>10} {:>11}",
            "engine",
            "first M/s",
            "all M/s",
            "updates k/s",
            "build ms",
            "bytes/rule",
            "lines/packet"
        );
        self.engines.iter().for_each(|row| text.push_str(&row.render_line()));
        text
    }
}
