//! The end of a trial: waiting until no packet is in flight any more.

use std::time::{Duration, Instant};

use crate::LabError;

/// A reading of counters while packets may still be in flight.
pub(crate) struct InFlightPacketReading<T> {
    /// Packets counted so far; while this changes, packets are in flight.
    pub(crate) counted_packets: u64,
    /// No packet is in flight any more.
    pub(crate) is_complete: bool,
    /// The caller's result, if this is the last reading.
    pub(crate) final_value: T,
}

/// How long the end of a trial is awaited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettleTimeLimits {
    /// How long packets may be under way after the last one that was sent.
    max_wait: Duration,
    /// How long nothing may move before the rest counts as lost.
    max_idle: Duration,
}

impl SettleTimeLimits {
    /// Packets between BPF programs: nothing holds them back.
    pub(crate) const BPF_PROGRAMS: SettleTimeLimits = SettleTimeLimits {
        max_wait: Duration::from_millis(100),
        max_idle: Duration::from_millis(5),
    };
    /// Packets between sockets of the kernel, which may delay what they acknowledge.
    pub(crate) const KERNEL_SOCKETS: SettleTimeLimits = SettleTimeLimits {
        max_wait: Duration::from_millis(200),
        max_idle: Duration::from_millis(20),
    };
}

/// Reads until a reading is complete, the count has not changed for `max_idle`, or `max_wait` has
/// passed; returns the value of the last reading.
pub(crate) fn wait_until_settled<T>(
    SettleTimeLimits { max_wait, max_idle }: SettleTimeLimits,
    mut read: impl FnMut() -> Result<InFlightPacketReading<T>, LabError>,
) -> Result<T, LabError> {
    let begun = Instant::now();
    let mut last: Option<(u64, Instant)> = None;
    loop {
        let InFlightPacketReading { counted_packets: moved, is_complete, final_value } = read()?;
        let now = Instant::now();
        let since = match last {
            Some((before, since)) if before == moved => since,
            _ => now,
        };
        last = Some((moved, since));
        if is_complete || now - since > max_idle || now - begun > max_wait {
            return Ok(final_value);
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Reads the counts one after the other, the last one again and again; how many were read.
    fn settled(
        max_wait: Duration,
        max_idle: Duration,
        counts: &[u64],
        enough: u64,
    ) -> (u64, usize) {
        let mut reads = 0;
        let value = wait_until_settled(SettleTimeLimits { max_wait, max_idle }, || {
            let moved = counts[reads.min(counts.len() - 1)];
            reads += 1;
            Ok(InFlightPacketReading {
                counted_packets: moved,
                is_complete: moved >= enough,
                final_value: moved,
            })
        });
        (value.unwrap(), reads)
    }

    #[test]
    fn waiting_ends_when_the_expected_count_is_reached() {
        assert_eq!(settled(LONG, LONG, &[1, 2, 2, 5], 5), (5, 4));
        assert_eq!(settled(LONG, LONG, &[7], 5), (7, 1));
    }

    #[test]
    fn waiting_for_lost_packets_ends_when_idle_or_timed_out() {
        assert_eq!(settled(LONG, Duration::ZERO, &[1, 2, 3], 5).0, 3);
        assert!(settled(Duration::ZERO, LONG, &[1, 2, 3], 5).1 < 3, "the time is over");
    }
}
