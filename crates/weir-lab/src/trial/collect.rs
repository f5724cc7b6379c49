//! What the machine tells during a trial: read before and after, the connection table all along.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use weir_stats::{Collected, CoreWork, Table};

use crate::LabError;
use crate::observe::counters::Conntrack;
use crate::observe::sampling::Sampling;
use crate::topology::Firewall;

/// Lines of the kernel's log that are kept of one trial.
const LOG_LINES: usize = 20;

type Counts = BTreeMap<String, u64>;

/// The kernel's log from now on.
pub(crate) struct KernelLog(Option<File>);

impl KernelLog {
    /// Begins at its end; without the right to read it, it stays empty.
    pub(crate) fn new() -> KernelLog {
        let open = File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        let mut log = KernelLog(open.ok());
        log.lines(0);
        log
    }

    /// Lines since the last call, the first `most` of them.
    pub(crate) fn lines(&mut self, most: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let Some(file) = &mut self.0 else { return lines };
        let mut record = [0; 8192];
        loop {
            match file.read(&mut record) {
                Ok(0) => return lines,
                Ok(length) if lines.len() < most => {
                    lines.extend(message(&String::from_utf8_lossy(&record[..length])));
                }
                Ok(_) => {}
                // Records were overwritten before they were read: go on with the next one.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(_) => return lines,
            }
        }
    }
}

/// What the kernel of a firewall wrote to its log since the last time.
fn log_lines(
    firewall: &Firewall,
    log: &mut KernelLog,
    most: usize,
) -> Result<Vec<String>, LabError> {
    match &firewall.elsewhere {
        Some(room) => room.host().log(most),
        None => Ok(log.lines(most)),
    }
}

/// The text of a record of `/dev/kmsg`: `level,sequence,time,flags;text`, then key=value lines.
fn message(record: &str) -> Option<String> {
    let (_, text) = record.split_once(';')?;
    Some(text.lines().next()?.to_owned())
}

/// A trial is being watched while it lives.
pub(crate) struct Collecting {
    begun: Instant,
    softnet: Counts,
    interrupts: Counts,
    softirqs: Counts,
    cores: Vec<CoreWork>,
    snmp: Counts,
    conntrack: Conntrack,
    slab: i64,
    sampling: Option<Sampling>,
    core: Option<u32>,
}

impl Collecting {
    /// Reads everything, and begins to look at the connection table.
    pub(crate) fn begin(
        firewall: &Firewall,
        core: u32,
        expected: Duration,
        log: &mut KernelLog,
    ) -> Result<Collecting, LabError> {
        log_lines(firewall, log, 0)?;
        // A card's interrupts may be on any core of another host.
        let core = firewall.elsewhere.is_none().then_some(core);
        Ok(Collecting {
            softnet: softnet(&firewall.proc("net/softnet_stat")?),
            interrupts: interrupts(&firewall.proc("interrupts")?),
            softirqs: softirqs(&firewall.proc("softirqs")?, core),
            cores: cores(&firewall.proc("net/softnet_stat")?, &firewall.proc("softirqs")?),
            snmp: firewall.stack.values()?,
            conntrack: firewall.conntrack.read()?,
            slab: slab_bytes(&firewall.proc("meminfo")?),
            sampling: Sampling::begin(firewall, expected)?,
            begun: Instant::now(),
            core,
        })
    }

    /// Reads everything again; what changed.
    pub(crate) fn end(
        self,
        firewall: &Firewall,
        log: &mut KernelLog,
    ) -> Result<Collected, LabError> {
        let mut samples = self.sampling.map_or(Ok(Vec::new()), Sampling::end)?;
        let after = firewall.conntrack.read()?;
        let slab = slab_bytes(&firewall.proc("meminfo")?);
        if !samples.is_empty() {
            samples.push((self.begun.elapsed().as_secs_f64(), after.entries));
        }
        let before = self.conntrack;
        let seen = samples.iter().map(|(_, entries)| *entries);
        let is_in_use = seen.chain([before.entries, after.entries]).any(|entries| entries > 0);
        let setting = |name: &str| -> Result<u64, LabError> {
            let text = firewall.proc(&format!("sys/net/netfilter/{name}"))?;
            Ok(text.trim().parse().unwrap_or(0))
        };
        let mut table = None;
        if is_in_use {
            table = Some(Table {
                limit: setting("nf_conntrack_max")?,
                buckets: setting("nf_conntrack_buckets")?,
                before: before.entries,
                after: after.entries,
                samples,
                counters: after.grown_since(&before),
                object_bytes: object_bytes(&firewall.proc("slabinfo")?),
                slab_growth_bytes: slab - self.slab,
            });
        }
        let snmp = firewall.stack.values()?;
        let now = cores(&firewall.proc("net/softnet_stat")?, &firewall.proc("softirqs")?);
        Ok(Collected {
            table,
            softnet: grown(&softnet(&firewall.proc("net/softnet_stat")?), &self.softnet),
            interrupts: grown(&interrupts(&firewall.proc("interrupts")?), &self.interrupts),
            softirqs: grown(&softirqs(&firewall.proc("softirqs")?, self.core), &self.softirqs),
            cores: now.iter().filter_map(|core| core.since(&self.cores)).collect(),
            redirects_sent: snmp.get("Icmp.OutRedirects").copied().unwrap_or(0),
            snmp: grown(&snmp, &self.snmp),
            load_memory_bytes: None,
            kernel_log: log_lines(firewall, log, LOG_LINES)?,
            load_average: load_average(&firewall.proc("loadavg")?),
        })
    }
}

fn proc(name: &str) -> String {
    fs::read_to_string(format!("/proc/{name}")).unwrap_or_default()
}

/// What grew, and by how much.
fn grown(after: &Counts, before: &Counts) -> Counts {
    let growth = |(name, value): (&String, &u64)| {
        let more = value.saturating_sub(before.get(name).copied().unwrap_or(0));
        (more > 0).then(|| (name.clone(), more))
    };
    after.iter().filter_map(growth).collect()
}

/// The first three columns of `/proc/net/softnet_stat`, hexadecimal, a line for each core.
fn softnet(text: &str) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines() {
        let values = line.split_ascii_whitespace().map(|v| u64::from_str_radix(v, 16));
        for (name, value) in ["processed", "dropped", "time_squeeze"].iter().zip(values) {
            *counts.entry((*name).to_owned()).or_default() += value.unwrap_or(0);
        }
    }
    counts
}

/// What each core did so far: its line of `/proc/net/softnet_stat`, whose 13th column is its
/// number (5.10 and later), and its NET_RX of `/proc/softirqs`.
fn cores(softnet: &str, softirq: &str) -> Vec<CoreWork> {
    let line = |line: &str| {
        let column = |at| {
            let value = line.split_ascii_whitespace().nth(at)?;
            u64::from_str_radix(value, 16).ok()
        };
        let core = u32::try_from(column(12)?).ok()?;
        let net_rx = softirqs(softirq, Some(core)).get("NET_RX").copied().unwrap_or(0);
        Some(CoreWork { core, packets: column(0)?, net_rx })
    };
    softnet.lines().filter_map(line).collect()
}

/// Interrupts by number or name with what they are for, all cores together.
fn interrupts(text: &str) -> Counts {
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let cores = words.iter().take_while(|word| word.parse::<u64>().is_ok()).count();
        let sum = words[..cores].iter().filter_map(|word| word.parse::<u64>().ok()).sum();
        let what = words[cores..].join(" ");
        Some((format!("{} {what}", name.trim()).trim().to_owned(), sum))
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// Softirqs of one core, or of all together: a line of cores, then a line for each kind.
fn softirqs(text: &str, core: Option<u32>) -> Counts {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let is_wanted = |name: &str| core.is_none_or(|core| name == format!("CPU{core}"));
    let wanted: Vec<bool> = header.split_ascii_whitespace().map(is_wanted).collect();
    if !wanted.contains(&true) {
        return Counts::new();
    }
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let values = rest.split_ascii_whitespace().zip(&wanted).filter(|(_, wanted)| **wanted);
        Some((name.trim().to_owned(), values.filter_map(|(v, _)| v.parse::<u64>().ok()).sum()))
    };
    lines.filter_map(line).collect()
}

/// Waits until slabs that cannot be reclaimed shrink no more: the kernel frees entries that it
/// forgets a while later (RCU), and a trial that begins before would find too little growth.
pub(crate) fn settle_slabs() {
    settle(|| slab_bytes(&proc("meminfo")), 1);
}

/// Bytes of this machine's kernel that rulesets may be kept in; `settled` waits first until they
/// shrink no more, for a namespace that was removed is taken apart a while later, with its rules.
pub(crate) fn ruleset_memory(settled: bool) -> i64 {
    if settled {
        settle(kernel_bytes, 3);
    }
    kernel_bytes()
}

/// Looks until so many times in a row nothing shrank by a mebibyte, or five seconds have passed.
fn settle(bytes: fn() -> i64, still: u32) {
    const LOOK: Duration = Duration::from_millis(100);
    const LIMIT: Duration = Duration::from_secs(5);
    const STILL_BYTES: i64 = 1 << 20;
    let begun = Instant::now();
    let (mut before, mut looks) = (bytes(), 0);
    while looks < still && begun.elapsed() < LIMIT {
        std::thread::sleep(LOOK);
        let now = bytes();
        looks = if before - now < STILL_BYTES { looks + 1 } else { 0 };
        before = now;
    }
}

/// Bytes of the kernel that a ruleset may be kept in: `vmalloc` (tables), slabs that cannot be
/// reclaimed (sets, chains, small tables) and what each core has of its own (counters).
fn kernel_bytes() -> i64 {
    let text = proc("meminfo");
    ["VmallocUsed", "SUnreclaim", "Percpu"].iter().map(|name| meminfo_bytes(&text, name)).sum()
}

/// `SUnreclaim` of `/proc/meminfo`, bytes.
fn slab_bytes(text: &str) -> i64 {
    meminfo_bytes(text, "SUnreclaim")
}

/// A line of `/proc/meminfo`, bytes.
fn meminfo_bytes(text: &str, name: &str) -> i64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let line = lines.find_map(|(found, rest)| (found == name).then_some(rest));
    let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<i64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Size of an entry in `/proc/slabinfo`, bytes.
fn object_bytes(text: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with("nf_conntrack "));
    let size = line.and_then(|line| line.split_ascii_whitespace().nth(3)?.parse().ok());
    size.unwrap_or(0)
}

fn load_average(text: &str) -> f64 {
    text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_summed_and_keep_what_they_are_for() {
        let text = "      CPU0  CPU1\n  24:  5  7  PCI-MSI-0000 virtio0-input.0\nLOC: 1 2 Local timer\nERR: 0\n";
        let counts = interrupts(text);
        assert_eq!(counts["24 PCI-MSI-0000 virtio0-input.0"], 12);
        assert_eq!(counts["LOC Local timer"], 3);
        assert_eq!(counts["ERR"], 0);
    }

    #[test]
    fn softirqs_are_those_of_the_core() {
        let text = "        CPU0   CPU1\n NET_RX:   10   20\n TIMER:  1  2\n";
        assert_eq!(softirqs(text, Some(1))["NET_RX"], 20);
        assert_eq!(softirqs(text, None)["NET_RX"], 30);
        assert!(softirqs(text, Some(9)).is_empty());
    }

    #[test]
    fn each_core_is_told_by_its_own_line() {
        let zeros = "0 ".repeat(9);
        let softnet = format!("0000000a 0 0 {zeros}00000001\n00000014 0 0 {zeros}00000003\n");
        let softirqs = "        CPU1   CPU3\n NET_RX:   5   7\n";
        let core = |core, packets, net_rx| CoreWork { core, packets, net_rx };
        assert_eq!(cores(&softnet, softirqs), [core(1, 10, 5), core(3, 20, 7)]);
        assert!(cores("0000000a 0 0\n", softirqs).is_empty(), "an old kernel names no core");
    }

    #[test]
    fn softnet_is_hexadecimal() {
        let counts = softnet("00000010 00000001 00000002 0\n00000001 00000000 00000000 0\n");
        assert_eq!((counts["processed"], counts["dropped"], counts["time_squeeze"]), (17, 1, 2));
    }

    #[test]
    fn only_what_grew_is_kept() {
        let counts = |pairs: &[(&str, u64)]| -> Counts {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let grew = grown(&counts(&[("a", 3), ("b", 2), ("c", 1)]), &counts(&[("a", 1), ("b", 2)]));
        assert_eq!(grew, counts(&[("a", 2), ("c", 1)]));
    }

    #[test]
    fn a_record_of_the_log_is_its_text() {
        assert_eq!(message("6,1,2,-;eth0: up\n SUBSYSTEM=net\n").as_deref(), Some("eth0: up"));
    }

    #[test]
    fn slabs_are_read_by_name() {
        let text = "nf_conntrack_expect 1 2 9 4\nnf_conntrack 160 240 256 16 1 : tunables\n";
        assert_eq!(object_bytes(text), 256);
        assert_eq!(slab_bytes("Slab: 9 kB\nSUnreclaim:   2 kB\n"), 2048);
        assert_eq!(meminfo_bytes("VmallocTotal: 9 kB\nVmallocUsed: 3 kB\n", "VmallocUsed"), 3072);
        assert_eq!(meminfo_bytes("", "Percpu"), 0);
    }
}
