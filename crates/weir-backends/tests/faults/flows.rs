//! Two flows through the firewall: one that every ruleset of the tests accepts, and one that every
//! ruleset drops.

use std::iter::repeat_n;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_kernel::Namespace;

/// Between two bursts.
const GAP: Duration = Duration::from_micros(500);

/// Packets of one flow.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
}

/// Both flows, from their start until the value is dropped.
#[derive(Debug)]
pub struct Flows {
    allowed: Arc<Counts>,
    forbidden: Arc<Counts>,
    /// Whether the sender rests; its answers come after its last packet.
    rest: Sender<bool>,
    resting: Receiver<()>,
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// The outcome of the packets so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivered {
    pub allowed_sent: u64,
    pub allowed_lost: u64,
    pub forbidden_sent: u64,
    pub forbidden_received: u64,
}

impl Flows {
    /// Starts them: from `from` to the address `to`, which `receiver` has, in bursts of one allowed
    /// and so many forbidden packets.
    pub fn start(from: &Namespace, receiver: &Namespace, to: &str, forbid: usize) -> Flows {
        let end = Arc::new(AtomicBool::new(false));
        let (allowed, forbidden) = (Arc::<Counts>::default(), Arc::<Counts>::default());
        let mut threads = Vec::new();
        for (port, counts) in [(5001, &allowed), (5002, &forbidden)] {
            let socket = bound(receiver, &format!("{to}:{port}"));
            let limit = Some(Duration::from_millis(100));
            socket.set_read_timeout(limit).expect("a limit is set");
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 4 << 20)
                .expect("room for packets");
            let (counts, end) = (Arc::clone(counts), Arc::clone(&end));
            threads.push(thread::spawn(move || {
                let mut buffer = [0; 64];
                while !end.load(SeqCst) {
                    if socket.recv(&mut buffer).is_ok() {
                        counts.received.fetch_add(1, SeqCst);
                    }
                }
            }));
        }
        let socket = bound(from, "0.0.0.0:0");
        let (rest, orders) = channel();
        let (answer, resting) = channel();
        let to = to.to_owned();
        let both = [(5001, Arc::clone(&allowed)), (5002, Arc::clone(&forbidden))];
        threads.push(thread::spawn(move || {
            send((&socket, &to), (&both, forbid), &orders, &answer);
        }));
        Flows { allowed, forbidden, rest, resting, end, threads }
    }

    /// Rests the flows until all that was sent has arrived or two seconds brought nothing more,
    /// counts, and continues.
    pub fn delivered(&self) -> Delivered {
        self.rest.send(true).expect("the sender lives");
        self.resting.recv().expect("the sender rests");
        let sent = self.allowed.sent.load(SeqCst);
        let limit = Instant::now() + Duration::from_secs(2);
        while self.allowed.received.load(SeqCst) < sent && Instant::now() < limit {
            thread::yield_now();
        }
        let counted = Delivered {
            allowed_sent: sent,
            allowed_lost: sent - self.allowed.received.load(SeqCst),
            forbidden_sent: self.forbidden.sent.load(SeqCst),
            forbidden_received: self.forbidden.received.load(SeqCst),
        };
        self.rest.send(false).expect("the sender lives");
        counted
    }

    /// Whether a forbidden packet arrives within a few seconds.
    pub fn forbidden_arrives(&self) -> bool {
        let limit = Instant::now() + Duration::from_secs(10);
        while self.forbidden.received.load(SeqCst) == 0 && Instant::now() < limit {
            thread::yield_now();
        }
        self.forbidden.received.load(SeqCst) > 0
    }

    /// Waits until both flows have sent this many packets more.
    pub fn wait_for_packets(&self, packets: u64) {
        let until = self.forbidden.sent.load(SeqCst) + packets;
        while self.forbidden.sent.load(SeqCst) < until {
            thread::yield_now();
        }
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.end.store(true, SeqCst);
        let (closed, _) = channel();
        self.rest = closed;
        for thread in self.threads.drain(..) {
            thread.join().expect("a flow ends");
        }
    }
}

fn bound(namespace: &Namespace, address: &str) -> UdpSocket {
    let bind = || UdpSocket::bind(address);
    namespace.call_inside(bind).expect("the namespace is entered").expect("the socket is bound")
}

fn send(
    (socket, to): (&UdpSocket, &str),
    (flows, forbid): (&[(u16, Arc<Counts>); 2], usize),
    orders: &Receiver<bool>,
    answer: &Sender<()>,
) {
    let mut rests = false;
    loop {
        // The wait for an order is the pace of the flows.
        let order = if rests {
            orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            orders.recv_timeout(GAP)
        };
        match order {
            Ok(order) => rests = order,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if rests {
            answer.send(()).expect("somebody asked");
            continue;
        }
        for (port, counts) in flows.iter().chain(repeat_n(&flows[1], forbid - 1)) {
            if socket.send_to(b"weir", (to, *port)).is_ok() {
                counts.sent.fetch_add(1, SeqCst);
            }
        }
    }
}
