//! In which order packets traverse what is at each hook: as the kernel lists it, or by the priorities
//! of what was found.

use weir_kernel::bpf_links::read_bpf_netfilter_links;
use weir_kernel::device_filters::{DevicePacketDirection, read_filters_of_all_devices};
use weir_kernel::kernel_feature::KernelFeature;
use weir_kernel::netfilter_hooks::{
    HookedProgram, NetfilterHookEntry, read_device_hook_entries, read_hook_entries,
};
use weir_model::{Hook, TableName};

use super::status_types::{FirewallKind, FirewallStatus, HookOrderEntry, HookTraversalOrder};

/// Names of the hooks by their numbers (include/uapi/linux/netfilter.h).
const HOOK_NAMES: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];
/// The same of a device.
const DEVICE_HOOK_NAMES: [&str; 2] = ["ingress", "egress"];
/// `NFPROTO_…` of the families whose hooks are read.
const FAMILIES: [(u8, &str); 3] = [(2, "ipv4"), (10, "ipv6"), (7, "bridge")];

/// Reads the hooks that something is registered at.
pub(super) fn read_packet_order(status: &mut FirewallStatus) {
    match read_hooks_of_kernel() {
        Ok(hooks) => (status.hooks, status.order_source) = (hooks, "kernel"),
        Err(error) => {
            status.order_source = "priorities";
            status.hooks = list_base_chains_by_hook_and_priority(status);
            // Without privileges, what is missing is told already.
            if error.is_none_or(|kind| kind != std::io::ErrorKind::PermissionDenied) {
                add_bpf_programs(status);
            } else {
                status.not_seen.push("BPF programs at hooks (run weir as root)".to_owned());
            }
        }
    }
}

/// The hooks as the kernel lists them; why it does not.
fn read_hooks_of_kernel() -> Result<Vec<HookTraversalOrder>, Option<std::io::ErrorKind>> {
    if !KernelFeature::HookList.is_loaded() {
        return Err(None);
    }
    let mut hooks = Vec::new();
    for (family, family_name) in FAMILIES {
        for (number, hook) in HOOK_NAMES.into_iter().enumerate() {
            match read_hook_entries(family, number as u32) {
                Ok(entries) => push_hook(&mut hooks, family_name.to_owned(), hook, &entries),
                Err(error) if family == FAMILIES[0].0 => return Err(error.kind()),
                // A family without hooks, as bridges without their module.
                Err(_) => {}
            }
        }
    }
    let devices = read_filters_of_all_devices().unwrap_or_default();
    let mut devices: Vec<String> = devices.into_iter().map(|device| device.device).collect();
    devices.sort();
    for device in devices {
        for (number, hook) in DEVICE_HOOK_NAMES.into_iter().enumerate() {
            if let Ok(entries) = read_device_hook_entries(&device, number as u32) {
                push_hook(&mut hooks, device.clone(), hook, &entries);
            }
        }
    }
    Ok(hooks)
}

/// The base chains of all tables by family and hook, sorted by priority.
fn list_base_chains_by_hook_and_priority(status: &FirewallStatus) -> Vec<HookTraversalOrder> {
    let mut hooks = Vec::new();
    for (family, nft_families) in
        [("ipv4", &["ip", "inet"][..]), ("ipv6", &["ip6", "inet"]), ("bridge", &["bridge"])]
    {
        for hook in HOOK_NAMES {
            let mut entries: Vec<HookOrderEntry> = status
                .tables
                .iter()
                .filter(|table| nft_families.contains(&table.family))
                .flat_map(|table| table.chains.iter().map(move |chain| (table, chain)))
                .filter(|(_, chain)| chain.hook == Some(hook))
                .map(|(table, chain)| HookOrderEntry {
                    priority: chain.priority.unwrap_or(0),
                    name: match table.kind {
                        FirewallKind::LegacyIptables => format!("legacy {}", table.name),
                        _ => format!("{} {}", table.place(), chain.name),
                    },
                })
                .collect();
            entries.sort_by_key(|entry| entry.priority);
            if !entries.is_empty() {
                hooks.push(HookTraversalOrder { family: family.to_owned(), hook, entries });
            }
        }
    }
    hooks
}

/// Adds the BPF programs at hooks of all network namespaces.
fn add_bpf_programs(status: &mut FirewallStatus) {
    let links = match read_bpf_netfilter_links() {
        Ok(links) => links,
        // A kernel without BPF has none.
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => return,
        Err(error) => return status.not_seen.push(format!("BPF programs at hooks: {error}")),
    };
    for link in links {
        let family = FAMILIES.into_iter().find(|(number, _)| u32::from(*number) == link.family);
        let hook = HOOK_NAMES.get(link.hook_number as usize);
        let (Some((_, family)), Some(hook)) = (family, hook) else { continue };
        let entry = HookOrderEntry {
            priority: link.priority,
            name: format!("BPF program {} (of some network namespace)", link.program_id),
        };
        match status.hooks.iter_mut().find(|order| order.family == family && order.hook == *hook) {
            Some(order) => {
                let at = order.entries.partition_point(|known| known.priority <= entry.priority);
                order.entries.insert(at, entry);
            }
            None => status.hooks.push(HookTraversalOrder {
                family: family.to_owned(),
                hook,
                entries: vec![entry],
            }),
        }
    }
}

/// The priority of a table of legacy iptables at a hook (include/uapi/linux/netfilter_ipv4.h,
/// `enum nf_ip_hook_priorities`).
pub(super) const fn legacy_priority(table: TableName, hook: Hook) -> i32 {
    match table {
        TableName::Raw => -300,
        TableName::Mangle => -150,
        TableName::Nat => match hook {
            Hook::Prerouting | Hook::Output => -100,
            _ => 100,
        },
        TableName::Filter => 0,
        TableName::Security => 50,
    }
}

/// The name of a hook of an nft family.
pub(super) fn hook_name(nft_family: &str, number: u32) -> &'static str {
    let names: &[&'static str] = match nft_family {
        "netdev" => &DEVICE_HOOK_NAMES,
        "arp" => &["INPUT", "OUTPUT", "FORWARD"],
        // `NF_INET_INGRESS` comes after the hooks of the families.
        _ if number as usize >= HOOK_NAMES.len() => &["ingress"; 6],
        _ => &HOOK_NAMES,
    };
    names.get(number as usize).copied().unwrap_or("unknown")
}

fn push_hook(
    hooks: &mut Vec<HookTraversalOrder>,
    family: String,
    hook: &'static str,
    entries: &[NetfilterHookEntry],
) {
    let entries: Vec<HookOrderEntry> = entries
        .iter()
        .map(|entry| HookOrderEntry { priority: entry.priority, name: describe_entry(entry) })
        .collect();
    if !entries.is_empty() {
        hooks.push(HookTraversalOrder { family, hook, entries });
    }
}

fn describe_entry(entry: &NetfilterHookEntry) -> String {
    match &entry.program {
        HookedProgram::NftChain { family, table, chain } => format!("nft {family} {table} {chain}"),
        HookedProgram::Bpf { program_id } => format!("BPF program {program_id}"),
        HookedProgram::Function => describe_function(entry),
    }
}

/// Functions of the kernel that evaluate rules or change packets; others by their names.
fn describe_function(entry: &NetfilterHookEntry) -> String {
    let NetfilterHookEntry { priority, function, module, .. } = entry;
    let is_legacy = matches!(&**function, "ipt_do_table" | "ip6t_do_table")
        || function.starts_with("iptable_")
        || function.starts_with("ip6table_");
    if is_legacy {
        // include/uapi/linux/netfilter_ipv4.h, `NF_IP_PRI_…`.
        return match priority {
            -450 | -300 => "legacy raw".to_owned(),
            -150 => "legacy mangle".to_owned(),
            -100 | 100 => "legacy nat".to_owned(),
            0 => "legacy filter".to_owned(),
            50 => "legacy security".to_owned(),
            _ => "legacy iptables".to_owned(),
        };
    }
    let words = match &**function {
        name if name.starts_with("nf_nat_") => "address translation (rules of all nat tables)",
        name if name.contains("_conntrack_defrag") || name.contains("_defrag") => "reassembly",
        "ipv4_conntrack_in"
        | "ipv6_conntrack_in"
        | "ipv4_conntrack_local"
        | "ipv6_conntrack_local" => "connection tracking",
        "nf_confirm" | "ipv4_confirm" | "ipv6_confirm" => "connection tracking, confirmation",
        _ => "",
    };
    match (words, &**function, &**module) {
        ("", "", "") => "a function that the kernel does not name".to_owned(),
        ("", "", module) => format!("a function of {module}"),
        ("", function, "") => function.to_owned(),
        ("", function, module) => format!("{function} [{module}]"),
        (words, ..) => words.to_owned(),
    }
}

/// What a tc filter of a direction is called.
pub(super) const fn tc_kind(direction: DevicePacketDirection) -> &'static str {
    match direction {
        DevicePacketDirection::Ingress => "tc ingress",
        DevicePacketDirection::Egress => "tc egress",
    }
}
