//! How much the core on which a trial runs is disturbed.

use std::fs;
use std::time::{Duration, Instant};

use weir_stats::TrialNoise;

/// What a trial's noise is made of, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoiseSnapshot {
    taken_at: Instant,
    cpu_pressure: Duration,
    steal_time: Duration,
    involuntary_switches: u64,
    spin_time: Duration,
}

impl NoiseSnapshot {
    /// Looks at the machine, and times the fixed loop on the current core.
    pub(crate) fn take(core: u32) -> NoiseSnapshot {
        let spin = time_spin_loop();
        NoiseSnapshot {
            taken_at: Instant::now(),
            cpu_pressure: parse_cpu_pressure(
                &fs::read_to_string("/proc/pressure/cpu").unwrap_or_default(),
            ),
            steal_time: parse_steal_time(
                &fs::read_to_string("/proc/stat").unwrap_or_default(),
                core,
            ),
            involuntary_switches: read_involuntary_switches(),
            spin_time: spin,
        }
    }

    /// The slower of both loops.
    pub(crate) fn slower_spin_time(&self, other: &NoiseSnapshot) -> Duration {
        self.spin_time.max(other.spin_time)
    }

    /// The noise between two moments. `best` is the fastest loop of the run so far.
    pub(crate) fn noise_until(&self, after: &NoiseSnapshot, best: Duration) -> TrialNoise {
        let seconds = after.taken_at.duration_since(self.taken_at).as_secs_f64().max(1e-9);
        let share = |after: Duration, before: Duration| {
            after.saturating_sub(before).as_secs_f64() / seconds
        };
        TrialNoise {
            psi: share(after.cpu_pressure, self.cpu_pressure),
            steal: share(after.steal_time, self.steal_time),
            spin_ratio: self.slower_spin_time(after).as_secs_f64() / best.as_secs_f64().max(1e-9),
            generator_preemptions: after
                .involuntary_switches
                .saturating_sub(self.involuntary_switches),
        }
    }
}

/// Time of a fixed number of dependent operations: about a third of a millisecond.
pub(crate) fn time_spin_loop() -> Duration {
    let before = Instant::now();
    let mut state = 1_u64;
    for _ in 0..200_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state ^= state >> 29;
    }
    std::hint::black_box(state);
    before.elapsed()
}

/// `some … total=` of `/proc/pressure/cpu`, microseconds.
fn parse_cpu_pressure(text: &str) -> Duration {
    let some = text.lines().find(|line| line.starts_with("some ")).unwrap_or_default();
    let total = some.rsplit_once("total=").and_then(|(_, total)| total.trim().parse().ok());
    Duration::from_micros(total.unwrap_or(0))
}

/// The steal column of a core in `/proc/stat`, in hundredths of a second.
fn parse_steal_time(text: &str, core: u32) -> Duration {
    let name = format!("cpu{core}");
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    let ticks = lines.find_map(|mut fields| {
        (fields.next() == Some(name.as_str())).then(|| fields.nth(7)?.parse::<u64>().ok())?
    });
    Duration::from_millis(10 * ticks.unwrap_or(0))
}

fn read_involuntary_switches() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_read_in_microseconds() {
        let text = "some avg10=0.18 avg60=0.11 avg300=0.14 total=5364027\nfull avg10=0 total=9\n";
        assert_eq!(parse_cpu_pressure(text), Duration::from_micros(5_364_027));
        assert_eq!(parse_cpu_pressure(""), Duration::ZERO);
    }

    #[test]
    fn steal_time_is_read_per_core() {
        let text =
            "cpu  1 2 3 4 5 6 7 99 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 3 0 0\n";
        assert_eq!(parse_steal_time(text, 1), Duration::from_millis(30));
        assert_eq!(parse_steal_time(text, 7), Duration::ZERO);
    }
}
