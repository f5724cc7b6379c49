//! The values of the status. They serialise to JSON directly: docs/guide/json.md documents these
//! members.

use serde::Serialize;

/// All that evaluates packets in a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FirewallStatus {
    /// Which kinds of tables have rules, or policies that drop, for each family.
    pub firewalls_by_family: Vec<FamilyFirewalls>,
    /// Tables of legacy iptables, then those of nf_tables.
    pub tables: Vec<TableStatus>,
    /// The ipsets.
    pub ipsets: Vec<IpsetStatus>,
    /// XDP programs and tc filters, device after device.
    pub device_filters: Vec<DeviceFilterStatus>,
    /// Programs that keep tables, chains or sets here.
    pub owners: Vec<OwnerStatus>,
    /// What packets traverse at each hook, in this order.
    pub hooks: Vec<HookTraversalOrder>,
    /// Where the order is from. `kernel`: the kernel lists what is at its hooks. `priorities`: it
    /// does not; the tables, and BPF programs of any network namespace, are sorted by their
    /// priorities.
    pub order_source: &'static str,
    /// What could not be read, in sentences.
    pub not_seen: Vec<String>,
}

/// What evaluates the packets of a family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FamilyFirewalls {
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// Kinds of tables that have rules or policies that drop.
    pub kinds: Vec<FirewallKind>,
    /// Whether all tables of the family were read: else there may be more.
    pub is_complete: bool,
}

/// Whose form a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FirewallKind {
    /// A table of legacy iptables.
    LegacyIptables,
    /// A table of nf_tables that iptables-nft keeps.
    IptablesNft,
    /// A table of an nft form that weir compiled.
    WeirNft,
    /// Another table of nf_tables.
    NativeNft,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableStatus {
    /// Whose form it has.
    pub kind: FirewallKind,
    /// `ip`, `ip6`, `inet`, `arp`, `bridge`, `netdev`.
    pub family: &'static str,
    /// Its name.
    pub name: String,
    /// The program that keeps all of it.
    pub owner: Option<&'static str>,
    /// Rules of all chains.
    pub rules: usize,
    /// Its chains.
    pub chains: Vec<TableChainStatus>,
    /// Names of its sets and maps.
    pub sets: Vec<String>,
}

/// A chain of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableChainStatus {
    /// Its name.
    pub name: String,
    /// The program that keeps it, known by its name.
    pub owner: Option<&'static str>,
    /// The hook from which packets enter it: `PREROUTING`, …; `ingress`, `egress`.
    pub hook: Option<&'static str>,
    /// `accept` or `drop`, of a chain that packets enter from a hook.
    pub policy: Option<&'static str>,
    /// Its priority at the hook.
    pub priority: Option<i32>,
    /// How many rules it has.
    pub rules: usize,
}

/// An ipset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IpsetStatus {
    /// Its name.
    pub name: String,
    /// Its type: `hash:net`.
    pub set_type: String,
    /// How many elements it has.
    pub elements: u32,
    /// How many rules and sets use it.
    pub references: u32,
    /// The program that keeps it, known by its name.
    pub owner: Option<&'static str>,
}

/// A program or filter of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceFilterStatus {
    /// The device.
    pub device: String,
    /// `xdp`, `tc ingress` or `tc egress`.
    pub kind: &'static str,
    /// The kind of filter, or the number of the program.
    pub detail: String,
}

/// A program that keeps tables, chains or sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnerStatus {
    /// Its name.
    pub program: &'static str,
    /// Its chains.
    pub chains: usize,
    /// Rules in them.
    pub rules: usize,
    /// Tables and sets, as `legacy ip filter`, `nft inet firewalld`, `ipset NAME`.
    pub places: Vec<String>,
}

/// What packets traverse at a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookTraversalOrder {
    /// `ipv4`, `ipv6`, `bridge`, or a device.
    pub family: String,
    /// `PREROUTING`, …; `ingress` and `egress` of a device.
    pub hook: &'static str,
    /// In the order in which packets traverse them.
    pub entries: Vec<HookOrderEntry>,
}

/// A table, program or link that packets traverse at a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookOrderEntry {
    /// Lower ones come first.
    pub priority: i32,
    /// What it is, in words: `legacy filter`, `nft inet firewalld filter_INPUT`.
    pub name: String,
}

impl OwnerStatus {
    pub(super) fn new(program: &'static str) -> OwnerStatus {
        OwnerStatus { program, chains: 0, rules: 0, places: Vec::new() }
    }
}

impl TableStatus {
    /// `legacy ip filter`, `nft inet firewalld`.
    pub fn place(&self) -> String {
        let tool = match self.kind {
            FirewallKind::LegacyIptables => "legacy",
            _ => "nft",
        };
        format!("{tool} {} {}", self.family, self.name)
    }

    /// Whether it does anything to packets.
    pub fn affects_packets(&self) -> bool {
        self.rules > 0 || self.chains.iter().any(|chain| chain.policy == Some("drop"))
    }
}

impl FirewallKind {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            FirewallKind::LegacyIptables => "legacy iptables",
            FirewallKind::IptablesNft => "iptables-nft",
            FirewallKind::WeirNft => "an nft form of weir",
            FirewallKind::NativeNft => "nftables",
        }
    }
}

/// The kinds of tables that do anything to packets of a family.
pub(super) fn list_firewalls_by_family(
    status: &FirewallStatus,
    is_complete: bool,
) -> Vec<FamilyFirewalls> {
    let of_family = |family, nft_families: [&str; 2]| {
        let mut kinds: Vec<FirewallKind> = status
            .tables
            .iter()
            .filter(|table| nft_families.contains(&table.family) && table.affects_packets())
            .map(|table| table.kind)
            .collect();
        kinds.sort();
        kinds.dedup();
        FamilyFirewalls { family, kinds, is_complete }
    };
    vec![of_family("ipv4", ["ip", "inet"]), of_family("ipv6", ["ip6", "inet"])]
}
