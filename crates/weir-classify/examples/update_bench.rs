//! Updates of the engine dag while another thread looks packets up.
//!
//! `update_bench RULES TRACE [UPDATES_PER_S [PUBLISH_MS]]`: a tenth of the rules is held out; then
//! a random one of them is inserted and a random other one removed, in turn. Prints the rate of
//! updates that the writer sustained, and the reader's rate without updates and with them, in
//! packets per second of its processor time; rounds without and with updates alternate.
//! `updates_per_cpu_s` counts the processor time of the writer and of its builds: compare it on a
//! machine that is not idle, with more updates per second than are possible.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use weir_classify::classbench::{parse_filter_set, parse_trace};
use weir_classify::interval_dag::{IntervalDagReader, UpdatableIntervalDag};
use weir_classify::{
    BuildLimits, Classifier, FilterSet, KeyTable, SingleFilterRule, UpdatableClassifier,
};

const ROUND_COUNT: usize = 5;
/// Keys that a reader looks up in one snapshot.
const KEYS_PER_SNAPSHOT: usize = 1024;
/// How long the writer pauses if it is early. It would lose whole time slices by yielding.
const PAUSE_BETWEEN_UPDATES: Duration = Duration::from_micros(50);
const ROUND_DURATION: Duration = Duration::from_secs(2);

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [rules, trace, rates @ ..] = args.as_slice() else {
        bail!("usage: update_bench RULES TRACE [UPDATES_PER_S [PUBLISH_MS]]")
    };
    let updates_per_s: f64 = rates.first().map_or(Ok(20_000.0), |rate| rate.parse())?;
    let publish_ms: u64 = rates.get(1).map_or(Ok(20), |ms| ms.parse())?;
    let filters = parse_filter_set(&read_plain_or_gzip_text(rules)?, true)?;
    let chunks = split_keys_into_chunks(&filters, &parse_trace(&read_plain_or_gzip_text(trace)?)?);
    let mut rng = weir_random::Rng::new(1);
    let mut present = FilterSet::new(filters.schema().clone());
    let (mut inside, mut outside) = (vec![], vec![]);
    for filter in filters.filters() {
        if rng.below(10) == 0 {
            outside.push(filter.rule);
        } else {
            inside.push(filter.rule);
            present.push_rule(filter.rule, true, filter.tests);
        }
    }
    let mut dag = UpdatableIntervalDag::build(&present, &BuildLimits::default())?;
    let reader = dag.reader();
    let measure = |stop: &_, time| measure_lookups_per_cpu_second(&reader, &chunks, stop, time);
    let (mut quiet, mut busy, mut update_rates, mut cpu_rates) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUND_COUNT {
        quiet.push(measure(&AtomicBool::new(false), ROUND_DURATION).0);
        let mut updates = 0_u32;
        let stop = AtomicBool::new(false);
        let start_cpu_s = process_cpu_seconds();
        let (rate, reader_cpu_s) = std::thread::scope(|scope| {
            let reading = scope.spawn(|| measure(&stop, Duration::MAX));
            let (start, mut published) = (Instant::now(), Instant::now());
            while start.elapsed() < ROUND_DURATION {
                let due = start.elapsed().as_secs_f64() * updates_per_s;
                if f64::from(updates) > due {
                    std::thread::sleep(PAUSE_BETWEEN_UPDATES);
                } else {
                    let is_insertion = updates.is_multiple_of(2);
                    let list = if is_insertion { &mut outside } else { &mut inside };
                    let rule = list.swap_remove(rng.below(list.len()));
                    if is_insertion {
                        let tests_by_word = filters.filter(rule as usize).tests;
                        dag.insert(SingleFilterRule { rule, is_deciding: true, tests_by_word })?;
                        inside.push(rule);
                    } else {
                        dag.remove(rule)?;
                        outside.push(rule);
                    }
                    updates += 1;
                }
                if published.elapsed() >= Duration::from_millis(publish_ms) {
                    dag.publish();
                    published = Instant::now();
                }
            }
            update_rates.push(f64::from(updates) / start.elapsed().as_secs_f64());
            stop.store(true, Ordering::Relaxed);
            anyhow::Ok(reading.join().expect("the reader panicked"))
        })?;
        busy.push(rate);
        cpu_rates.push(f64::from(updates) / (process_cpu_seconds() - start_cpu_s - reader_cpu_s));
    }
    let bytes_per_rule = dag.memory_bytes() as f64 / inside.len() as f64;
    print_medians([quiet, busy, update_rates, cpu_rates], bytes_per_rule);
    Ok(())
}

fn print_medians(rates_of_rounds: [Vec<f64>; 4], bytes_per_rule: f64) {
    let [quiet, busy, updates, updates_per_cpu_s] = rates_of_rounds.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[ROUND_COUNT / 2]
    });
    println!("updates_per_s updates_per_cpu_s quiet_mps busy_mps busy_share bytes_per_rule");
    println!(
        "{updates:.0} {updates_per_cpu_s:.0} {:.2} {:.2} {:.3} {bytes_per_rule:.1}",
        quiet / 1e6,
        busy / 1e6,
        busy / quiet
    );
}

/// Looks up the keys, chunk after chunk, each in the snapshot that is then the newest. Keys per
/// second of processor time, and that time.
fn measure_lookups_per_cpu_second(
    reader: &IntervalDagReader,
    chunks: &[KeyTable],
    stop: &AtomicBool,
    duration: Duration,
) -> (f64, f64) {
    let mut first = vec![0; KEYS_PER_SNAPSHOT];
    let (start, start_s) = (Instant::now(), thread_cpu_seconds());
    let mut count = 0;
    for chunk in chunks.iter().cycle() {
        if stop.load(Ordering::Relaxed) || start.elapsed() >= duration {
            break;
        }
        let snapshot = reader.snapshot();
        snapshot.find_first_deciding(chunk, &mut first[..chunk.key_count()]);
        count += chunk.key_count();
    }
    let cpu_s = thread_cpu_seconds() - start_s;
    (count as f64 / cpu_s, cpu_s)
}

fn split_keys_into_chunks(filters: &FilterSet, keys: &KeyTable) -> Vec<KeyTable> {
    let starts = (0..keys.key_count()).step_by(KEYS_PER_SNAPSHOT);
    let chunks = starts.map(|start| {
        let mut chunk = KeyTable::new(filters.schema());
        keys.keys().skip(start).take(KEYS_PER_SNAPSHOT).for_each(|key| chunk.push(key));
        chunk
    });
    chunks.collect()
}

/// Processor time of this thread, from the kernel's Documentation/scheduler/sched-stats.rst.
fn thread_cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let on_cpu_ns = text.split_ascii_whitespace().next().and_then(|ns| ns.parse().ok());
    on_cpu_ns.unwrap_or(f64::NAN) / 1e9
}

/// Processor time of all threads, from proc_pid_stat(5): `utime` and `stime` in hundredths.
fn process_cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit_once(')').map_or("", |parts| parts.1);
    let fields = after_name.split_ascii_whitespace().skip(11).take(2);
    fields.map(|ticks| ticks.parse().unwrap_or(f64::NAN)).sum::<f64>() / 100.0
}

fn read_plain_or_gzip_text(path: &str) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("read {path}"))?;
    let mut text = String::new();
    if path.ends_with(".gz") {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text)?;
    } else {
        text = String::from_utf8(bytes)?;
    }
    Ok(text)
}
