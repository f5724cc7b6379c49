//! `weir example …`: rulesets and frames that are generated.

use std::path::PathBuf;

use clap::Subcommand;

/// `weir example …`.
#[derive(Debug, Subcommand)]
pub enum ExampleCommand {
    /// An access network: 2,105 customers, 36,532 filter rules in 9,827 chains, and an IPv6 twin.
    Isp {
        /// Seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Size against the whole, above 0 and at most 1.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Folder to write isp.rules, isp.rules6 and isp.ipset to; without it, the IPv4 text is
        /// printed.
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    /// UDP or TCP frames of several flows, all with the same verdict.
    Frames {
        /// How many flows: sources beside each other, from 10.9.0.1 on.
        #[arg(long, default_value_t = 1)]
        flows: u32,
        /// The first source.
        #[arg(long, default_value = "10.9.0.1")]
        from: std::net::Ipv4Addr,
        /// Where they go.
        #[arg(long, default_value = "203.0.113.9")]
        to: std::net::Ipv4Addr,
        /// TCP rather than UDP, to this port.
        #[arg(long)]
        tcp: bool,
        /// Port of the destination.
        #[arg(long, default_value_t = 53)]
        port: u16,
        /// What the packets carry.
        #[arg(long, default_value = "")]
        payload: String,
        /// The verdict that all of them meet.
        #[arg(long, value_parser = ["accept", "drop"], default_value = "accept")]
        verdict: String,
        /// The pcap file to write; `FILE.verdicts` beside it holds a verdict a line.
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// The rules of a node of Kubernetes, as kube-proxy writes them.
    Services {
        /// How many services, 1 to 20,000; each has about eight rules.
        #[arg(long, default_value_t = 1000)]
        count: usize,
        /// Seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// The firewall of a university: departments with the services that they have opened.
    University {
        /// How many, 1 to 200; each has about 25 rules.
        #[arg(long, default_value_t = 100)]
        departments: usize,
        /// Seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Without rules of state, and with NOTRACK before all others.
        #[arg(long)]
        untracked: bool,
    },
    /// COUNT rules that do not match before the one that accepts.
    Rules {
        /// How many.
        #[arg(long, default_value_t = 1024)]
        count: usize,
        /// Seed of the addresses.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// As nftables text written by hand: one rule a line, no sets.
        #[arg(long)]
        nft: bool,
    },
}
