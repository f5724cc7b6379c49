//! Requests at planned times, and the response time of each.
//!
//! A client that waits for a response before its next request sends fewer requests while responses
//! are slow, and so omits from its figures the responses for which users would have waited
//! (coordinated omission). Here the times of all requests are planned. One thread sends and
//! receives; if it sends a request late, for example because the machine was busy, the delay counts
//! as response time. A request without a response is lost, and counted.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use weir_stats::ProbeResult;

use crate::workload::response_time::{
    new_latency_histogram, sleep_until_readable_or_limit, summarise_latencies,
};

/// Something that answers questions, each by its number.
pub trait ProbeTransport {
    /// Asks; the answer is not waited for.
    ///
    /// # Errors
    /// If the question cannot leave; then it is lost.
    fn send_request(&mut self, number: u32) -> io::Result<()>;

    /// What becomes readable when there is an answer.
    fn readable_fd(&self) -> BorrowedFd<'_>;

    /// Numbers of the answers that are there, in `numbers`; waits for none.
    ///
    /// # Errors
    /// If they cannot be read.
    fn read_answers(&mut self, numbers: &mut Vec<u32>) -> io::Result<()>;
}

/// When to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodicProbeSchedule {
    /// Time between two questions.
    pub period: Duration,
    /// How many.
    pub request_count: u32,
    /// How long to wait for answers after the last of them.
    pub wait_after_last_request: Duration,
}

impl PeriodicProbeSchedule {
    /// As many questions as a rate (a second, 1 at least) makes in a time; one at least.
    pub fn new(rate: u32, duration: Duration, grace: Duration) -> PeriodicProbeSchedule {
        let rate = rate.max(1);
        let questions = (duration.as_secs_f64() * f64::from(rate)).round().max(1.0);
        PeriodicProbeSchedule {
            period: Duration::from_secs(1) / rate,
            request_count: questions as u32,
            wait_after_last_request: grace,
        }
    }
}

/// Asks as planned, from now on.
///
/// # Errors
/// If answers cannot be read any more.
pub fn run_open_loop_probe(
    transport: &mut dyn ProbeTransport,
    plan: &PeriodicProbeSchedule,
) -> io::Result<ProbeResult> {
    let begun = Instant::now();
    let planned = |number: u32| plan.period * number;
    let end = planned(plan.request_count.saturating_sub(1)) + plan.wait_after_last_request;
    let mut times = new_latency_histogram();
    let mut is_open = vec![true; plan.request_count as usize];
    let mut left = is_open.len();
    let mut next = 0;
    let mut numbers = Vec::new();
    loop {
        let now = begun.elapsed();
        if next < plan.request_count && now >= planned(next) {
            // One that cannot leave has no answer.
            let _ = transport.send_request(next);
            next += 1;
            // Answers first where several questions are late: they are there already.
        } else if left == 0 || (next == plan.request_count && now >= end) {
            break;
        } else {
            let until = if next < plan.request_count { planned(next) } else { end };
            sleep_until_readable_or_limit(transport.readable_fd(), until.saturating_sub(now))?;
        }
        transport.read_answers(&mut numbers)?;
        let now = begun.elapsed();
        for number in numbers.drain(..) {
            let Some(open) = is_open.get_mut(number as usize).filter(|open| **open) else {
                continue;
            };
            *open = false;
            left -= 1;
            times.saturating_record(now.saturating_sub(planned(number)).as_nanos() as u64);
        }
    }
    Ok(ProbeResult {
        planned: u64::from(plan.request_count),
        answered: times.len(),
        grace_seconds: plan.wait_after_last_request.as_secs_f64(),
        latency_from_planned_time: summarise_latencies(&times),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// Answers at once, but for what it loses, and stops the asker at one question.
    struct Mirror {
        near: UnixStream,
        far: UnixStream,
        loses: fn(u32) -> bool,
        stalls_at: Option<(u32, Duration)>,
    }

    impl Mirror {
        fn new(loses: fn(u32) -> bool, stalls_at: Option<(u32, Duration)>) -> Mirror {
            let (near, far) = UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            Mirror { near, far, loses, stalls_at }
        }
    }

    impl ProbeTransport for Mirror {
        fn send_request(&mut self, number: u32) -> io::Result<()> {
            if let Some((at, length)) = self.stalls_at
                && at == number
            {
                let begun = Instant::now();
                while begun.elapsed() < length {
                    std::hint::spin_loop();
                }
            }
            if !(self.loses)(number) {
                self.far.write_all(&number.to_ne_bytes())?;
            }
            Ok(())
        }

        fn readable_fd(&self) -> BorrowedFd<'_> {
            self.near.as_fd()
        }

        fn read_answers(&mut self, numbers: &mut Vec<u32>) -> io::Result<()> {
            let mut word = [0; 4];
            while self.near.read_exact(&mut word).is_ok() {
                numbers.push(u32::from_ne_bytes(word));
            }
            Ok(())
        }
    }

    const PLAN: PeriodicProbeSchedule = PeriodicProbeSchedule {
        period: Duration::from_millis(1),
        request_count: 40,
        wait_after_last_request: Duration::from_millis(20),
    };

    #[test]
    fn every_response_is_counted_once() {
        let found = run_open_loop_probe(&mut Mirror::new(|_| false, None), &PLAN).unwrap();
        assert_eq!((found.planned, found.answered, found.lost_requests()), (40, 40, 0));
        assert_eq!(found.latency_from_planned_time.count, 40);
    }

    #[test]
    fn requests_without_a_response_are_counted_as_lost() {
        let found =
            run_open_loop_probe(&mut Mirror::new(|number| number % 4 == 0, None), &PLAN).unwrap();
        assert_eq!((found.answered, found.lost_requests()), (30, 10));
        let nothing = run_open_loop_probe(&mut Mirror::new(|_| true, None), &PLAN).unwrap();
        assert_eq!(
            (nothing.answered, nothing.latency_from_planned_time.duration_at_quantile(0.5)),
            (0, None)
        );
    }

    /// A closed loop would show one slow response; the requests that were due in the meantime
    /// waited as well.
    #[test]
    fn a_stall_delays_every_request_due_during_it() {
        let stall = Duration::from_millis(20);
        let found =
            run_open_loop_probe(&mut Mirror::new(|_| false, Some((10, stall))), &PLAN).unwrap();
        assert_eq!(found.answered, 40);
        // Twenty were due during it, and half of them waited for at least half of it.
        let at = found.latency_from_planned_time.duration_at_quantile(0.75).unwrap();
        assert!(at >= stall.as_nanos() as f64 / 2.0, "{at} ns");
        let worst = found.latency_from_planned_time.duration_at_quantile(1.0).unwrap();
        assert!(worst >= stall.as_nanos() as f64 * 0.99, "{worst} ns");
    }

    #[test]
    fn a_rate_and_duration_determine_the_request_count() {
        let plan = PeriodicProbeSchedule::new(1000, Duration::from_millis(300), Duration::ZERO);
        assert_eq!((plan.request_count, plan.period), (300, Duration::from_millis(1)));
        assert_eq!(
            PeriodicProbeSchedule::new(0, Duration::from_millis(1), Duration::ZERO).request_count,
            1
        );
    }
}
