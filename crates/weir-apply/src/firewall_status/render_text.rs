//! The status as text.

use std::fmt::Write as _;

use super::status_types::{
    DeviceFilterStatus, FamilyFirewalls, FirewallKind, FirewallStatus, HookTraversalOrder,
    TableChainStatus, TableStatus,
};

impl FirewallStatus {
    /// What evaluates packets, the tables, and the order at each hook.
    pub fn render_text(&self) -> String {
        let mut text = String::new();
        text.push_str(&self.render_firewalls_by_family());
        if !self.tables.is_empty() {
            text.push_str("\ntables\n");
        }
        for table in &self.tables {
            render_table(&mut text, table);
        }
        if !self.ipsets.is_empty() {
            text.push_str("\nipsets\n");
        }
        for set in &self.ipsets {
            let owner = set.owner.map(|owner| format!(", of {owner}")).unwrap_or_default();
            let _ = writeln!(
                text,
                "  {} {}: {}, used by {}{owner}",
                set.name,
                set.set_type,
                counted(set.elements as usize, "element", "elements"),
                set.references
            );
        }
        if !self.device_filters.is_empty() {
            text.push_str("\ndevices\n");
        }
        for filter in &self.device_filters {
            let _ = writeln!(text, "  {} {}: {}", filter.device, filter.kind, filter.detail);
        }
        if !self.owners.is_empty() {
            text.push_str("\nowners, by the names of tables, chains and sets\n");
        }
        for owner in &self.owners {
            let _ = writeln!(
                text,
                "  {}: {}, {} ({})",
                owner.program,
                counted(owner.chains, "chain", "chains"),
                counted(owner.rules, "rule", "rules"),
                owner.places.join(", ")
            );
        }
        if !self.hooks.is_empty() {
            let source = match self.order_source {
                "kernel" => "as the kernel lists it",
                _ => "by priority; the kernel does not list its hooks",
            };
            let _ = writeln!(text, "\norder in which packets traverse them ({source})");
        }
        for hook in &self.hooks {
            render_hook(&mut text, hook);
        }
        if !self.not_seen.is_empty() {
            text.push_str("\nnot seen\n");
        }
        for what in &self.not_seen {
            let _ = writeln!(text, "  {what}");
        }
        text
    }

    /// How many rules of an nft table packets traverse, in words; `None` if it does nothing to
    /// them.
    pub fn describe_traversed_nft_table(&self, family: &str, name: &str) -> Option<String> {
        let table = self.tables.iter().find(|table| {
            let is_nft = table.kind != FirewallKind::LegacyIptables;
            is_nft && (table.family, &*table.name) == (family, name)
        })?;
        let owner = table.owner.map(|owner| format!(" of {owner}")).unwrap_or_default();
        let rules = counted(table.rules, "rule", "rules");
        table.affects_packets().then(|| format!("packets traverse its {rules}{owner} as well"))
    }

    /// What packets traverse before and after the tables of netfilter, a phrase each.
    pub fn describe_device_filters(&self) -> Vec<String> {
        let phrase = |filter: &DeviceFilterStatus| {
            let DeviceFilterStatus { device, kind, detail } = filter;
            let order = if *kind == "tc egress" { "after" } else { "before" };
            format!("{kind} of {device} ({detail}): packets traverse it {order} iptables")
        };
        self.device_filters.iter().map(phrase).collect()
    }

    /// A line for each family: what evaluates its packets.
    pub fn render_firewalls_by_family(&self) -> String {
        let line = |family: &FamilyFirewalls| {
            let more = match (family.is_complete, family.kinds.is_empty()) {
                (true, _) => "",
                (false, true) => " seen, but not all tables could be read",
                (false, false) => "; not all tables could be read",
            };
            format!("{}: {}{more}\n", family.family, describe_kinds(&family.kinds))
        };
        self.firewalls_by_family.iter().map(line).collect()
    }
}

/// Which kinds of tables evaluate the packets of a family, in a sentence.
fn describe_kinds(kinds: &[FirewallKind]) -> String {
    let words: Vec<&str> = kinds.iter().map(|kind| kind.words()).collect();
    match words.split_last() {
        None => "no rules".to_owned(),
        Some((only, [])) => format!("{only} evaluates packets"),
        Some((last, others)) => {
            let others = others.join(", ");
            format!("{others} and {last} evaluate packets: a packet must pass all of them")
        }
    }
}

fn render_table(text: &mut String, table: &TableStatus) {
    let kind = match table.kind {
        FirewallKind::IptablesNft => " (iptables-nft)",
        FirewallKind::WeirNft => " (weir)",
        FirewallKind::LegacyIptables | FirewallKind::NativeNft => "",
    };
    let owner = table.owner.map(|owner| format!(", of {owner}")).unwrap_or_default();
    let sets = match table.sets.len() {
        0 => String::new(),
        sets => format!(", {}", counted(sets, "set", "sets")),
    };
    let own = |chain: &&TableChainStatus| chain.policy.is_none();
    let (rules, chains) = (
        counted(table.rules, "rule", "rules"),
        counted(table.chains.iter().filter(own).count(), "own chain", "own chains"),
    );
    let base = table.chains.iter().filter_map(|chain| {
        let priority = chain.priority.map(|p| format!(" at priority {p}")).unwrap_or_default();
        Some(format!("{} {}{priority}", chain.name, chain.policy?))
    });
    let base: Vec<String> = base.collect();
    let _ = writeln!(text, "  {}{kind}: {rules}, {chains}{sets}{owner}", table.place());
    if !base.is_empty() {
        let _ = writeln!(text, "    {}", base.join(", "));
    }
}

fn render_hook(text: &mut String, hook: &HookTraversalOrder) {
    let _ = writeln!(text, "  {} {}", hook.family, hook.hook);
    for entry in &hook.entries {
        let _ = writeln!(text, "    {:>11}  {}", entry.priority, entry.name);
    }
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}
