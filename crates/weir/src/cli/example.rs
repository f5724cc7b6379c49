//! `weir example …`: generated rulesets and frames.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// `weir example …`.
#[derive(Debug, Subcommand)]
pub enum ExampleCommand {
    /// An access network: 2,105 customers, 36,532 filter rules in 9,827 chains, and IPv6.
    Isp {
        /// Seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Size relative to the full network, above 0 and at most 5.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Folder to write isp.rules, isp.rules6 and isp.ipset to; without it, the IPv4 text is
        /// printed.
        #[arg(id = "output", short, long = "output", value_name = "DIR")]
        output_folder: Option<PathBuf>,
    },
    /// UDP or TCP frames of several flows, all with the same verdict (a pcap file, not a ruleset).
    Frames {
        /// Number of flows, from consecutive source addresses.
        #[arg(id = "flows", value_name = "FLOWS", long = "flows", default_value_t = 1)]
        source_address_count: u32,
        /// First source address.
        #[arg(id = "from", value_name = "FROM", long = "from", default_value = "10.9.0.1")]
        first_source_addr: std::net::Ipv4Addr,
        /// Destination address.
        #[arg(long, default_value = "203.0.113.9")]
        to: std::net::Ipv4Addr,
        /// TCP instead of UDP.
        #[arg(long)]
        tcp: bool,
        /// Destination port.
        #[arg(long, default_value_t = 53)]
        port: u16,
        /// Payload of the packets.
        #[arg(long, default_value = "")]
        payload: String,
        /// Expected verdict of all frames.
        #[arg(long, value_parser = ["accept", "drop"], default_value = "accept")]
        verdict: String,
        /// The pcap file to write; `FILE.verdicts` has one verdict per line.
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// The rules of a Kubernetes node, as kube-proxy writes them.
    Services {
        /// Number of services, 1 to 20,000; each has about eight rules.
        #[arg(long, default_value_t = 1000)]
        count: usize,
        /// Seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// The firewall of a university: departments and the services that they offer.
    University {
        /// Number of departments, 1 to 200; each has about 25 rules.
        #[arg(long, default_value_t = 100)]
        departments: usize,
        /// Seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Without state rules, and with NOTRACK before all other rules.
        #[arg(long)]
        untracked: bool,
    },
    /// A filter set for `weir bench classify`, in the format of ClassBench.
    #[command(after_help = "\
Example:
  weir example classbench --shape fw --rules 10000 > fw.filters
  weir bench classify fw.filters")]
    Classbench {
        /// What the filters are like.
        #[arg(long, value_enum)]
        shape: FilterSetShapeArg,
        /// Number of filters, 1 to 1,000,000; with more than 10,000, addresses of acl, fw and ipc
        /// nest less, as in ClassBench's sets.
        #[arg(long, default_value_t = 1000)]
        rules: usize,
        /// Seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// COUNT rules that do not match, followed by one that accepts.
    #[command(name = "rules")]
    NonmatchingRules {
        /// Number of rules.
        #[arg(long, default_value_t = 1024)]
        count: usize,
        /// Seed of the addresses.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// As nftables text written by hand: one rule per line, no sets.
        #[arg(long)]
        nft: bool,
    },
}

/// The distributions of a generated filter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FilterSetShapeArg {
    /// An access list, with the statistics of ClassBench's acl1.
    Acl,
    /// A firewall, as fw1.
    Fw,
    /// IP chains, as ipc1.
    Ipc,
    /// Distinct source addresses.
    BlockList,
    /// About ten filters for each customer.
    AccessNetwork,
}
