//! The papers' tunings in today's terms.
//!
//! Each line of their scripts, with today's setting or the reason why there is none. Some applied
//! to one kernel of the time and are useless now; they are explained rather than repeated.

use std::fs;

use serde::Serialize;
use weir_kernel::Namespace;

use crate::LabError;

/// Where a setting acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TuningScope {
    /// One network namespace.
    Namespace,
    /// The whole machine: the laboratory never sets it unasked.
    Machine,
    /// Not a setting any more.
    Gone,
}

/// One tuning of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModernizedPaperTuning {
    /// The paper, as the studies name it.
    pub paper: &'static str,
    /// What it set, as its text has it.
    pub then: &'static str,
    /// Today's sysctl; empty if it no longer exists, or is not a sysctl.
    pub sysctl: &'static str,
    /// The value that serves the same end today; empty where none is to be set.
    pub value: &'static str,
    /// How far it reaches.
    pub reach: TuningScope,
    /// Why this value, or the outcome of it.
    pub why: &'static str,
}

/// The tunings of all papers.
pub const ALL_PAPERS_TUNINGS: &[ModernizedPaperTuning] = &[
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/core/wmem_max = wmem_default = 83886080",
        sysctl: "net.core.wmem_max",
        value: "4194304",
        reach: TuningScope::Machine,
        why: "this is the size of one buffer, not of all together, so 80 MiB was far more than \
             intended; TCP adapts the size itself, within tcp_wmem",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/core/rmem_max = rmem_default = 335544320",
        sysctl: "net.core.rmem_max",
        value: "4194304",
        reach: TuningScope::Machine,
        why: "this is the size of one buffer, not of all together, so 320 MiB was far more than \
             intended; TCP adapts the size itself, within tcp_rmem",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "fs/file-max = 65536",
        sysctl: "fs.file-max",
        value: "",
        reach: TuningScope::Machine,
        why: "it is practically unlimited since Linux 5.x; the effective limit is RLIMIT_NOFILE of \
             the process (ulimit -n)",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/tcp_tw_recycle = 1",
        sysctl: "",
        value: "",
        reach: TuningScope::Gone,
        why: "it was removed in Linux 4.12, because it broke clients behind address translation",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/tcp_tw_reuse = 1",
        sysctl: "net.ipv4.tcp_tw_reuse",
        value: "1",
        reach: TuningScope::Namespace,
        why: "outgoing connections can reuse ports in TIME_WAIT; this needs timestamps at both \
             ends, and the default, 2, allows it for loopback only",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/tcp_max_tw_buckets = 65536",
        sysctl: "net.ipv4.tcp_max_tw_buckets",
        value: "262144",
        reach: TuningScope::Namespace,
        why: "each connection of the last 60 s needs one entry, so 4,000 connections per second \
             need 240,000",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/tcp_fin_timeout = 15",
        sysctl: "net.ipv4.tcp_fin_timeout",
        value: "15",
        reach: TuningScope::Namespace,
        why: "it still limits for how many seconds a closed socket waits for the FIN of its peer",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/tcp_max_syn_backlog = 65536",
        sysctl: "net.ipv4.tcp_max_syn_backlog",
        value: "65536",
        reach: TuningScope::Namespace,
        why: "it still has the same meaning, but no effect unless net.core.somaxconn is raised \
             too, which limits every listen queue",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "(the listen queue of the server)",
        sysctl: "net.core.somaxconn",
        value: "65535",
        reach: TuningScope::Namespace,
        why: "the default is 4096 since Linux 5.4, and was 128 before; a server must also request \
             the length in listen()",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/tcp_syncookies = 1",
        sysctl: "net.ipv4.tcp_syncookies",
        value: "1",
        reach: TuningScope::Namespace,
        why: "it is the default today, and takes effect when the queue of half-open connections is \
             full",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/ip_local_port_range = 1024 65535",
        sysctl: "net.ipv4.ip_local_port_range",
        value: "1024 65535",
        reach: TuningScope::Namespace,
        why: "it limits the connections of a client with sockets; several addresses and \
             IP_BIND_ADDRESS_NO_PORT allow more",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/core/netdev_max_backlog = 100000",
        sysctl: "net.core.netdev_max_backlog",
        value: "10000",
        reach: TuningScope::Machine,
        why: "only RPS and devices without NAPI use this queue, and drivers with NAPI never do, so \
             a smaller value is sufficient",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "ifconfig eth0 txqueuelen 10000",
        sysctl: "",
        value: "",
        reach: TuningScope::Gone,
        why: "such a long queue only adds delay; byte queue limits and fq replace it (a veth \
             device has no queue)",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "(the route cache)",
        sysctl: "",
        value: "",
        reach: TuningScope::Gone,
        why: "the IPv4 route cache was removed in Linux 3.6, so its size cannot be set, and random \
             source addresses have no extra cost",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "ip_conntrack_max for 3.5 million connections",
        sysctl: "net.netfilter.nf_conntrack_max",
        value: "5250000",
        reach: TuningScope::Machine,
        why: "the limit applies to all namespaces together; this value has room for half as many \
             again, and `weir lab run --allow-global` raises it for the time of a run",
    },
    ModernizedPaperTuning {
        paper: "brouer2008",
        then: "/sys/module/nf_conntrack/parameters/hashsize",
        sysctl: "net.netfilter.nf_conntrack_buckets",
        value: "1750000",
        reach: TuningScope::Machine,
        why: "a sysctl sets it today; half as many buckets as connections, of 8 bytes each, are \
             enough to keep the hash chains short",
    },
    ModernizedPaperTuning {
        paper: "brouer2008",
        then: "net/ipv4/neigh/default/gc_thresh1, 2, 3",
        sysctl: "net.ipv4.neigh.default.gc_thresh3",
        value: "16384",
        reach: TuningScope::Machine,
        why: "the neighbour table needs one entry per customer, and all namespaces share it; \
             gc_thresh3 is its maximum",
    },
    ModernizedPaperTuning {
        paper: "hagtheil",
        then: "net.ipv4.ip_forward = 1",
        sysctl: "net.ipv4.ip_forward",
        value: "1",
        reach: TuningScope::Namespace,
        why: "a router must forward packets, so this is still needed",
    },
    ModernizedPaperTuning {
        paper: "hagtheil",
        then: "net.ipv4.conf.all.send_redirects = 0",
        sysctl: "net.ipv4.conf.all.send_redirects",
        value: "0",
        reach: TuningScope::Namespace,
        why: "a gateway that forwards within one subnet would send ICMP redirects; `default` and \
             each device must be 0 too, because any of them enables redirects",
    },
    ModernizedPaperTuning {
        paper: "hagtheil",
        then: "nf_conntrack_tcp_timeout_fin_wait = 150",
        sysctl: "net.netfilter.nf_conntrack_tcp_timeout_fin_wait",
        value: "150",
        reach: TuningScope::Namespace,
        why: "it differs from the other timeouts, which are 120 s, only to show which of them the \
             entries expire by",
    },
    ModernizedPaperTuning {
        paper: "hagtheil",
        then: "nf_conntrack_tcp_timeout_syn_sent = 180",
        sysctl: "net.netfilter.nf_conntrack_tcp_timeout_syn_sent",
        value: "180",
        reach: TuningScope::Namespace,
        why: "it differs from the other timeouts, which are 120 s, only to show which of them the \
             entries expire by",
    },
    ModernizedPaperTuning {
        paper: "hagtheil",
        then: "nf_conntrack_tcp_timeout_time_wait = 60, then 1",
        sysctl: "net.netfilter.nf_conntrack_tcp_timeout_time_wait",
        value: "60",
        reach: TuningScope::Namespace,
        why: "the author lowered it to show what expiry costs; entries had timers then, and since \
             Linux 4.9 a worker scans the table",
    },
    ModernizedPaperTuning {
        paper: "hagtheil",
        then: "ethtool -G eth1 rx 4096 tx 4096",
        sysctl: "",
        value: "",
        reach: TuningScope::Machine,
        why: "it sets the rings of a network card; the ring of a veth device has 256 entries and \
             cannot be changed",
    },
];

impl ModernizedPaperTuning {
    /// Its value now, in the namespace of the caller; `None` if there is no such setting.
    pub fn read_current_sysctl_value(&self) -> Option<String> {
        if self.sysctl.is_empty() {
            return None;
        }
        let path = format!("/proc/sys/{}", self.sysctl.replace('.', "/"));
        let text = fs::read_to_string(path).ok()?;
        Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// Applies to a namespace what a namespace can have; what was set. What reaches the whole machine
/// is left alone.
///
/// # Errors
/// If the kernel refuses a value. A sysctl that it does not have (conntrack that is not loaded)
/// is passed over.
pub fn apply_modern_namespace_tunings(
    namespace: &Namespace,
) -> Result<Vec<&'static ModernizedPaperTuning>, LabError> {
    let mut done = Vec::new();
    for tuning in ALL_PAPERS_TUNINGS {
        let is_ours = tuning.reach == TuningScope::Namespace && !tuning.value.is_empty();
        if is_ours && namespace.read_sysctl(tuning.sysctl).is_ok() {
            namespace.set_sysctl(tuning.sysctl, tuning.value)?;
            done.push(tuning);
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_tunings_are_empty_and_values_have_a_sysctl() {
        for tuning in ALL_PAPERS_TUNINGS {
            if tuning.reach == TuningScope::Gone {
                assert!(tuning.sysctl.is_empty() && tuning.value.is_empty(), "{}", tuning.then);
                assert_eq!(tuning.read_current_sysctl_value(), None);
            }
            if !tuning.value.is_empty() {
                assert!(!tuning.sysctl.is_empty(), "{}", tuning.then);
            }
        }
        let removed = ALL_PAPERS_TUNINGS
            .iter()
            .find(|tuning| tuning.then.contains("tcp_tw_recycle"))
            .unwrap();
        assert_eq!(removed.reach, TuningScope::Gone);
    }
}
