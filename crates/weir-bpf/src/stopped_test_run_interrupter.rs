//! A thread that ends the generator's call when its program has stopped sending.
//!
//! The kernel prepares such a call for a few to a hundred milliseconds, so a timer that is set
//! beforehand cannot know the end. The watcher sleeps for the length of the trial, then reads the
//! program's status word once per millisecond, and ends the call with a signal.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::BpfError;

/// How long a call may last beyond its duration: then it is ended in any case.
const OVERTIME_LIMIT: Duration = Duration::from_secs(3);

extern "C" fn ignore_signal(_signal: libc::c_int) {}

struct WatchRequest {
    call_duration: Duration,
    caller_thread_id: libc::pid_t,
    call_end_flag: CallEndFlag,
}

/// Whether a call has ended. It is read and acted on under one lock, so that a signal of one call
/// never reaches the next.
#[derive(Clone, Default)]
struct CallEndFlag(Arc<Mutex<bool>>);

impl CallEndFlag {
    fn with_lock<T>(&self, act: impl FnOnce(&mut bool) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A thread that ends the calls of a program.
pub struct StoppedTestRunInterrupter {
    watch_request_sender: Option<Sender<WatchRequest>>,
    thread: Option<JoinHandle<()>>,
}

/// A call is being watched while it lives.
pub struct WatchGuard {
    call_end_flag: CallEndFlag,
    watcher_thread: Option<Thread>,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.call_end_flag.with_lock(|over| *over = true);
        // A call that made all it had to make is over long before its time.
        if let Some(watcher) = &self.watcher_thread {
            watcher.unpark();
        }
    }
}

impl StoppedTestRunInterrupter {
    /// Starts the thread. The program reports that it has stopped by a word that is not 0, at
    /// `stopped_flag_offset` of the only value of `map`. The thread calls `prepare_thread` first:
    /// its priority must exceed that of the thread that runs the program, which it otherwise could
    /// not interrupt on a machine with one core.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn spawn_thread(
        map: MapHandle,
        stopped_flag_offset: usize,
        prepare_thread: fn(),
    ) -> Result<StoppedTestRunInterrupter, BpfError> {
        install_signal_handler();
        let (orders, received) = mpsc::channel::<WatchRequest>();
        let is_silent = move || {
            let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
            value.is_some_and(|bytes| {
                bytes[stopped_flag_offset..stopped_flag_offset + 8].iter().any(|byte| *byte != 0)
            })
        };
        let watch = move || {
            prepare_thread();
            received
                .into_iter()
                .for_each(|order| interrupt_call_when_stopped_or_overdue(&order, &is_silent));
        };
        let failed = |source| BpfError::Io { action: "start the watcher", source };
        let thread =
            std::thread::Builder::new().name("watcher".to_owned()).spawn(watch).map_err(failed)?;
        Ok(StoppedTestRunInterrupter { watch_request_sender: Some(orders), thread: Some(thread) })
    }

    /// Watches the next call of the current thread.
    pub fn watch_next_call(&self, call_duration: Duration) -> WatchGuard {
        let over = CallEndFlag::default();
        // SAFETY: a call without arguments that cannot fail.
        let caller_thread_id = unsafe { libc::gettid() };
        if let Some(orders) = &self.watch_request_sender {
            let sent = orders.send(WatchRequest {
                call_duration,
                caller_thread_id,
                call_end_flag: over.clone(),
            });
            assert!(sent.is_ok(), "the watcher lives as long as its handle");
        }
        let watcher = self.thread.as_ref().map(|watcher| watcher.thread().clone());
        WatchGuard { call_end_flag: over, watcher_thread: watcher }
    }
}

impl Drop for StoppedTestRunInterrupter {
    fn drop(&mut self) {
        self.watch_request_sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn interrupt_call_when_stopped_or_overdue(order: &WatchRequest, is_silent: &impl Fn() -> bool) {
    let begun = Instant::now();
    let mut is_over = false;
    while !is_over {
        let left = order.call_duration.saturating_sub(begun.elapsed());
        std::thread::park_timeout(left.max(Duration::from_millis(1)));
        is_over = order.call_end_flag.with_lock(|over| {
            let is_late = begun.elapsed() > order.call_duration + OVERTIME_LIMIT;
            if !*over && begun.elapsed() >= order.call_duration && (is_silent() || is_late) {
                interrupt_thread(order.caller_thread_id);
            }
            *over
        });
    }
}

/// Sends the signal to one thread of this process.
fn interrupt_thread(thread: libc::pid_t) {
    // SAFETY: plain numbers; the handler of the signal does nothing, and a thread that has ended
    // is an error that is of no interest.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, interrupt_signal_number()) };
}

fn interrupt_signal_number() -> libc::c_int {
    libc::SIGRTMIN() + 7
}

/// A handler that does nothing, without SA_RESTART: the call ends with EINTR.
fn install_signal_handler() {
    static INSTALL_ONCE: Once = Once::new();
    INSTALL_ONCE.call_once(|| {
        // SAFETY: a zeroed sigaction is valid; the handler does nothing and lives as long as the
        // process.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ignore_signal as *const () as usize;
            libc::sigaction(interrupt_signal_number(), &action, std::ptr::null_mut())
        };
        assert_eq!(result, 0, "a handler for a real-time signal can be set");
    });
}
