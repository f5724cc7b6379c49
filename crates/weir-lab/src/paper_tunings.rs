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
        why: "a buffer per socket, not for all: 80 MiB each was a misunderstanding; TCP uses \
             tcp_wmem, which is auto-tuned",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/core/rmem_max = rmem_default = 335544320",
        sysctl: "net.core.rmem_max",
        value: "4194304",
        reach: TuningScope::Machine,
        why: "as above, with tcp_rmem",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "fs/file-max = 65536",
        sysctl: "fs.file-max",
        value: "",
        reach: TuningScope::Machine,
        why: "practically unlimited since 5.x; the effective limit is RLIMIT_NOFILE of the \
             process (ulimit -n)",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/tcp_tw_recycle = 1",
        sysctl: "",
        value: "",
        reach: TuningScope::Gone,
        why: "removed in 4.12: it broke clients behind address translation",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/tcp_tw_reuse = 1",
        sysctl: "net.ipv4.tcp_tw_reuse",
        value: "1",
        reach: TuningScope::Namespace,
        why: "2, the default, is for the loopback device only; needs timestamps at both ends",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/tcp_max_tw_buckets = 65536",
        sysctl: "net.ipv4.tcp_max_tw_buckets",
        value: "262144",
        reach: TuningScope::Namespace,
        why: "one per connection of the last 60 s: for 4,000 per second and more",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/tcp_fin_timeout = 15",
        sysctl: "net.ipv4.tcp_fin_timeout",
        value: "15",
        reach: TuningScope::Namespace,
        why: "unchanged; concerns ends that wait for the other's FIN",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/tcp_max_syn_backlog = 65536",
        sysctl: "net.ipv4.tcp_max_syn_backlog",
        value: "65536",
        reach: TuningScope::Namespace,
        why: "unchanged; useless without the next one, which limits every listen queue",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "(the listen queue of the server)",
        sysctl: "net.core.somaxconn",
        value: "65535",
        reach: TuningScope::Namespace,
        why: "4096 since 5.4, 128 before; a server must also request it in listen()",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/tcp_syncookies = 1",
        sysctl: "net.ipv4.tcp_syncookies",
        value: "1",
        reach: TuningScope::Namespace,
        why: "the default today; acts when the queue is full",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/ipv4/ip_local_port_range = 1024 65535",
        sysctl: "net.ipv4.ip_local_port_range",
        value: "1024 65535",
        reach: TuningScope::Namespace,
        why: "for clients with sockets; IP_BIND_ADDRESS_NO_PORT and many addresses go further",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "net/core/netdev_max_backlog = 100000",
        sysctl: "net.core.netdev_max_backlog",
        value: "10000",
        reach: TuningScope::Machine,
        why: "for RPS and devices without NAPI; drivers with NAPI never queue there",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "ifconfig eth0 txqueuelen 10000",
        sysctl: "",
        value: "",
        reach: TuningScope::Gone,
        why: "such a long queue only adds delay; byte queue limits and fq replace it (veth has no \
             queue)",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "(the route cache)",
        sysctl: "",
        value: "",
        reach: TuningScope::Gone,
        why: "removed in 3.6 for IPv4: there is nothing to size, and random sources cost nothing \
             extra",
    },
    ModernizedPaperTuning {
        paper: "kadlecsik2005",
        then: "ip_conntrack_max for 3.5 million connections",
        sysctl: "net.netfilter.nf_conntrack_max",
        value: "5250000",
        reach: TuningScope::Machine,
        why: "global for all namespaces; `weir lab run --allow-global` raises it for a run",
    },
    ModernizedPaperTuning {
        paper: "brouer2008",
        then: "/sys/module/nf_conntrack/parameters/hashsize",
        sysctl: "net.netfilter.nf_conntrack_buckets",
        value: "1750000",
        reach: TuningScope::Machine,
        why: "a sysctl now; half as many as connections keeps chains short (8 bytes each)",
    },
    ModernizedPaperTuning {
        paper: "brouer2008",
        then: "net/ipv4/neigh/default/gc_thresh1, 2, 3",
        sysctl: "net.ipv4.neigh.default.gc_thresh3",
        value: "16384",
        reach: TuningScope::Machine,
        why: "as many neighbours as customers; the table is global for all namespaces",
    },
    ModernizedPaperTuning {
        paper: "hagtheil",
        then: "net.ipv4.ip_forward = 1",
        sysctl: "net.ipv4.ip_forward",
        value: "1",
        reach: TuningScope::Namespace,
        why: "as it was",
    },
    ModernizedPaperTuning {
        paper: "hagtheil",
        then: "net.ipv4.conf.all.send_redirects = 0",
        sysctl: "net.ipv4.conf.all.send_redirects",
        value: "0",
        reach: TuningScope::Namespace,
        why: "for a gateway with one variant; `default` and each device too, any of them switches \
             it on",
    },
    ModernizedPaperTuning {
        paper: "hagtheil",
        then: "nf_conntrack_tcp_timeout_fin_wait = 150",
        sysctl: "net.netfilter.nf_conntrack_tcp_timeout_fin_wait",
        value: "150",
        reach: TuningScope::Namespace,
        why: "unchanged: only to distinguish its expiry from the others, all of 120 s",
    },
    ModernizedPaperTuning {
        paper: "hagtheil",
        then: "nf_conntrack_tcp_timeout_syn_sent = 180",
        sysctl: "net.netfilter.nf_conntrack_tcp_timeout_syn_sent",
        value: "180",
        reach: TuningScope::Namespace,
        why: "as above",
    },
    ModernizedPaperTuning {
        paper: "hagtheil",
        then: "nf_conntrack_tcp_timeout_time_wait = 60, then 1",
        sysctl: "net.netfilter.nf_conntrack_tcp_timeout_time_wait",
        value: "60",
        reach: TuningScope::Namespace,
        why: "entries expired by timers then; since 4.9 a worker scans the table",
    },
    ModernizedPaperTuning {
        paper: "hagtheil",
        then: "ethtool -G eth1 rx 4096 tx 4096",
        sysctl: "",
        value: "",
        reach: TuningScope::Machine,
        why: "of a network card; the ring of a veth device is 256 and cannot be set",
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
/// Where the kernel refuses a value. A sysctl that it does not have (conntrack that is not loaded)
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
    fn what_is_gone_has_no_value_and_what_is_there_has_one() {
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
