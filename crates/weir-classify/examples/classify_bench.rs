//! Builds engines from a ClassBench filter set and looks up the packets of a trace, on one core.
//!
//! `classify_bench RULES TRACE [ENGINE...]`: files may be gzipped. The answers of all engines are
//! compared before their rates are measured: medians of seven passes over the trace, per second of
//! processor time, which other load on the machine disturbs less than the time of day.

use std::io::Read;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use weir_classify::classbench::{parse_filter_set, parse_trace};
use weir_classify::{BuildLimits, Classifier, Engine, KeyTable, RuleLists};

const PASSES: usize = 7;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [rules, trace, names @ ..] = args.as_slice() else {
        bail!("usage: classify_bench RULES TRACE [ENGINE...]")
    };
    let filters = parse_filter_set(&read_text(rules)?, true)?;
    let keys = parse_trace(&read_text(trace)?)?;
    let engine = |name: &String| Engine::from_name(name).with_context(|| format!("engine {name}"));
    let mut engines = names.iter().map(engine).collect::<Result<Vec<_>>>()?;
    if engines.is_empty() {
        engines.push(Engine::IntervalDag);
    }
    let mut expected = None;
    println!("engine hash first_mps count_all_mps matches_per_key build_ms bytes_per_rule");
    for engine in engines {
        let mut build_ms = vec![];
        let mut built = None;
        for _ in 0..3 {
            let start = Instant::now();
            built = Some(engine.build(&filters, &BuildLimits::default())?);
            build_ms.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let classifier = built.context("three builds")?;
        let answers = Answers::collect(&*classifier, &keys);
        let expected = &*expected.get_or_insert(answers.clone());
        ensure!(*expected == answers, "{} differs from the first engine", engine.name());
        let count = filters.rule_count();
        let mut first = vec![0; keys.key_count()];
        let first_s = median_s(|| classifier.find_first_deciding(&keys, &mut first));
        let mut counters = vec![0; count];
        let count_s = median_s(|| classifier.count_matching(&keys, &mut counters));
        build_ms.sort_by(f64::total_cmp);
        println!(
            "{} {:016x} {:.2} {:.2} {:.2} {:.1} {:.1}",
            engine.name(),
            answers.hash(count),
            keys.key_count() as f64 / first_s / 1e6,
            keys.key_count() as f64 / count_s / 1e6,
            answers.matching.rule_count() as f64 / keys.key_count() as f64,
            build_ms[1],
            classifier.memory_bytes() as f64 / count as f64,
        );
    }
    Ok(())
}

#[derive(Clone, PartialEq, Eq)]
struct Answers {
    first: Vec<u32>,
    matching: RuleLists,
    counters: Vec<u64>,
}

impl Answers {
    fn collect(classifier: &dyn Classifier, keys: &KeyTable) -> Answers {
        let mut first = vec![0; keys.key_count()];
        classifier.find_first_deciding(keys, &mut first);
        let mut matching = RuleLists::default();
        classifier.collect_matching(keys, &mut matching);
        let rules = (0..matching.row_count()).flat_map(|row| matching.row(row)).copied();
        let mut counters = vec![0; rules.max().map_or(0, |rule| rule as usize + 1)];
        classifier.count_matching(keys, &mut counters);
        Answers { first, matching, counters }
    }

    /// `h * 1000003 + (rule_count - 1 - rule)` over all packets, from 0.
    fn hash(&self, rule_count: usize) -> u64 {
        self.first.iter().fold(0, |hash: u64, rule| {
            let reversed = (rule_count as u64).wrapping_sub(1).wrapping_sub(u64::from(*rule));
            hash.wrapping_mul(1_000_003).wrapping_add(reversed)
        })
    }
}

/// Median of the processor time of passes of at least 0.1 s.
fn median_s(mut pass: impl FnMut()) -> f64 {
    let mut seconds: Vec<f64> = (0..PASSES)
        .map(|_| {
            let (start, start_s) = (Instant::now(), thread_s());
            let mut repeats = 0;
            while repeats == 0 || start.elapsed().as_secs_f64() < 0.1 {
                pass();
                repeats += 1;
            }
            (thread_s() - start_s) / f64::from(repeats)
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[PASSES / 2]
}

/// Processor time of this thread, from the kernel's Documentation/scheduler/sched-stats.rst.
fn thread_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let on_cpu_ns = text.split_ascii_whitespace().next().and_then(|ns| ns.parse().ok());
    on_cpu_ns.unwrap_or(f64::NAN) / 1e9
}

fn read_text(path: &str) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("read {path}"))?;
    let mut text = String::new();
    if path.ends_with(".gz") {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text)?;
    } else {
        text = String::from_utf8(bytes)?;
    }
    Ok(text)
}
