//! Which firewall runs: all that evaluates packets in the current network namespace, whose it is,
//! and in which order packets traverse it.
//!
//! Everything is read from the kernel itself, without a tool. Looking changes nothing: a table of
//! legacy iptables is read only if the kernel lists it as being in use
//! (`/proc/net/ip_tables_names`), since asking for another puts it in use; a subsystem is asked
//! only if it is there, since asking for it would load its module. What cannot be read is named.

mod packet_order;
mod render_text;
mod status_types;

use std::collections::BTreeMap;
use std::fs;

use weir_kernel::KernelError;
use weir_kernel::device_filters::read_filters_of_all_devices;
use weir_kernel::ipset_list::read_ipsets;
use weir_kernel::kernel_feature::KernelFeature;
use weir_kernel::nft_objects::{NftTableSummary, read_nft_tables};
use weir_kernel::xtables::XtablesSocket;
use weir_model::managing_programs::{
    ManagingProgram, program_of_chain_or_set, program_of_nft_table,
};
use weir_model::{Family, Hook, TableName};

pub use self::status_types::{
    DeviceFilterStatus, FamilyFirewalls, FirewallKind, FirewallStatus, HookOrderEntry,
    HookTraversalOrder, IpsetStatus, OwnerStatus, TableChainStatus, TableStatus,
};
use crate::xtables::KernelTable;

/// Prefix of the tables of the nft form.
const WEIR_NFT_TABLE_PREFIX: &str = "weir_";

/// Reads all firewalls of the current network namespace.
pub fn read_firewall_status() -> FirewallStatus {
    let mut status = FirewallStatus::default();
    for family in [Family::V4, Family::V6] {
        add_legacy_tables_in_use(family, &mut status);
    }
    if KernelFeature::NfTables.is_loaded() {
        match read_nft_tables() {
            Ok(tables) => status.tables.extend(tables.iter().map(summarise_nft_table)),
            Err(error) => status.add_unseen("tables of nf_tables", &error),
        }
    }
    let are_tables_complete = status.not_seen.is_empty();
    if KernelFeature::Ipset.is_loaded() {
        match read_ipsets() {
            Ok(sets) => status.ipsets.extend(sets.into_iter().map(|set| IpsetStatus {
                owner: program_of_chain_or_set(&set.name).map(ManagingProgram::as_str),
                name: set.name,
                set_type: set.set_type,
                elements: set.element_count,
                references: set.reference_count,
            })),
            Err(error) if error.kind() == Some(std::io::ErrorKind::PermissionDenied) => {
                status.add_unseen("ipsets", &error);
            }
            // Built into the netlink of the kernel, but not there.
            Err(_) => {}
        }
    }
    add_device_filters(&mut status);
    packet_order::read_packet_order(&mut status);
    status.owners = list_owners(&status);
    status.firewalls_by_family =
        status_types::list_firewalls_by_family(&status, are_tables_complete);
    status
}

impl FirewallStatus {
    fn add_unseen(&mut self, what: &str, error: &KernelError) {
        let cure = match error.kind() {
            Some(std::io::ErrorKind::PermissionDenied) => " (run weir as root)",
            _ => "",
        };
        self.not_seen.push(format!("{what}: {error}{cure}"));
    }
}

/// The tables of legacy iptables that are in use.
fn add_legacy_tables_in_use(family: Family, status: &mut FirewallStatus) {
    let (file, tool) = match family {
        Family::V4 => ("ip_tables_names", "iptables"),
        Family::V6 => ("ip6_tables_names", "ip6tables"),
    };
    let path = format!("/proc/thread-self/net/{file}");
    let names = match fs::read_to_string(&path) {
        Ok(names) => names,
        // Legacy iptables is not there.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            let cure = match error.kind() {
                std::io::ErrorKind::PermissionDenied => " (run weir as root)",
                _ => "",
            };
            status.not_seen.push(format!("legacy tables of {tool}: read {path}: {error}{cure}"));
            return;
        }
    };
    let mut tables: Vec<TableName> = Vec::new();
    for name in names.split_ascii_whitespace() {
        match TableName::parse(name) {
            Some(table) => tables.push(table),
            None => status.not_seen.push(format!("table {name} of {tool}: weir does not know it")),
        }
    }
    tables.sort_by_key(|table| TableName::ALL.iter().position(|known| known == table));
    for table in tables {
        let read = XtablesSocket::open(family)
            .map_err(crate::ApplyError::from)
            .and_then(|socket| KernelTable::read(&socket, table));
        match read {
            Ok(read) => status.tables.push(summarise_legacy_table(&read)),
            Err(error) => status.not_seen.push(format!("table {table} of {tool}: {error}")),
        }
    }
}

fn summarise_legacy_table(table: &KernelTable) -> TableStatus {
    let chains = table.chains().iter().map(|chain| {
        let name = table.chain_name(chain).to_owned();
        TableChainStatus {
            owner: program_of_chain_or_set(&name).map(ManagingProgram::as_str),
            hook: chain.hook.map(Hook::chain_name),
            policy: chain.hook.map(|_| if table.policy_drops(chain) { "drop" } else { "accept" }),
            priority: chain.hook.map(|hook| packet_order::legacy_priority(table.name(), hook)),
            rules: chain.rules.len(),
            name,
        }
    });
    TableStatus {
        kind: FirewallKind::LegacyIptables,
        family: match table.family() {
            Family::V4 => "ip",
            Family::V6 => "ip6",
        },
        name: table.name().as_str().to_owned(),
        owner: None,
        rules: table.rule_count(),
        chains: chains.collect(),
        sets: Vec::new(),
    }
}

fn summarise_nft_table(table: &NftTableSummary) -> TableStatus {
    let owner = program_of_nft_table(&table.name);
    let kind = match table.family {
        _ if table.name.starts_with(WEIR_NFT_TABLE_PREFIX) => FirewallKind::WeirNft,
        "ip" | "ip6"
            if TableName::parse(&table.name).is_some() && has_only_iptables_base_chains(table) =>
        {
            FirewallKind::IptablesNft
        }
        _ => FirewallKind::NativeNft,
    };
    let chains = table.chains.iter().map(|chain| TableChainStatus {
        owner: program_of_chain_or_set(&chain.name).map(ManagingProgram::as_str),
        hook: chain
            .base
            .as_ref()
            .map(|base| packet_order::hook_name(table.family, base.hook_number)),
        policy: chain.base.as_ref().map(|b| if b.drops_by_policy { "drop" } else { "accept" }),
        priority: chain.base.as_ref().map(|base| base.priority),
        rules: chain.rule_count,
        name: chain.name.clone(),
    });
    TableStatus {
        kind,
        family: table.family,
        name: table.name.clone(),
        owner: owner.map(ManagingProgram::as_str),
        rules: table.chains.iter().map(|chain| chain.rule_count).sum(),
        chains: chains.collect(),
        sets: table.sets.clone(),
    }
}

/// Whether the base chains of a table are named as iptables-nft names them.
fn has_only_iptables_base_chains(table: &NftTableSummary) -> bool {
    let hooks = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];
    let mut base_chains = table.chains.iter().filter(|chain| chain.base.is_some());
    base_chains.all(|chain| hooks.contains(&&*chain.name))
}

fn add_device_filters(status: &mut FirewallStatus) {
    let devices = match read_filters_of_all_devices() {
        Ok(devices) => devices,
        Err(error) => return status.add_unseen("XDP programs and tc filters", &error),
    };
    let mut is_tcx_unseen = false;
    for device in devices {
        let add = |what: &'static str, detail: String| DeviceFilterStatus {
            device: device.device.clone(),
            kind: what,
            detail,
        };
        let mut filters = Vec::new();
        filters.extend(device.xdp_program_id.map(|id| add("xdp", format!("program {id}"))));
        for (direction, kind) in &device.tc_filters {
            filters.push(add(packet_order::tc_kind(*direction), kind.clone()));
        }
        is_tcx_unseen |= device.tcx_program_ids.is_none();
        for (direction, id) in device.tcx_program_ids.iter().flatten() {
            filters.push(add(packet_order::tc_kind(*direction), format!("tcx program {id}")));
        }
        status.device_filters.extend(filters);
    }
    if is_tcx_unseen {
        status.not_seen.push("tcx programs: the kernel does not tell (Linux 6.6, root)".to_owned());
    }
}

/// Programs that keep tables, chains or sets here.
fn list_owners(status: &FirewallStatus) -> Vec<OwnerStatus> {
    let mut owners: BTreeMap<&'static str, OwnerStatus> = BTreeMap::new();
    let mut add = |program: &'static str, place: String, chains: usize, rules: usize| {
        let owner = owners.entry(program).or_insert_with(|| OwnerStatus::new(program));
        owner.chains += chains;
        owner.rules += rules;
        if !owner.places.contains(&place) {
            owner.places.push(place);
        }
    };
    for table in &status.tables {
        let place = table.place();
        if let Some(program) = table.owner {
            add(program, place, table.chains.len(), table.rules);
            continue;
        }
        for chain in &table.chains {
            if let Some(program) = chain.owner {
                add(program, place.clone(), 1, chain.rules);
            }
        }
    }
    for set in &status.ipsets {
        if let Some(program) = set.owner {
            add(program, format!("ipset {}", set.name), 0, 0);
        }
    }
    owners.into_values().collect()
}
