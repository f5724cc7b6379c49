//! The filter table: abuse, spoofing, access control, accounting and personal firewalls.

use std::fmt::Write;
use std::net::Ipv4Addr;

use weir_random::Rng;

use super::network_plan::{Customer, CustomerFirewall, NetworkPlan};
use super::options::IspOptions;
use super::router_host_filter_rules;
use crate::table_text::TableText;

/// Services that customers open to the world.
const CUSTOMER_SERVICES: [(&str, u16); 14] = [
    ("tcp", 22),
    ("tcp", 80),
    ("tcp", 443),
    ("tcp", 21),
    ("tcp", 25),
    ("tcp", 993),
    ("tcp", 3389),
    ("udp", 1194),
    ("udp", 5060),
    ("tcp", 6881),
    ("udp", 27_015),
    ("tcp", 5900),
    ("tcp", 8080),
    ("udp", 3074),
];

/// The table with exactly the chains and rules that the options request.
pub(super) fn build_filter_table(options: &IspOptions, plan: &NetworkPlan) -> TableText {
    let mut random = Rng::for_purpose(options.seed, "filter");
    let builtin = [("INPUT", "DROP"), ("FORWARD", "DROP"), ("OUTPUT", "ACCEPT")];
    let mut table = TableText::new("filter", &builtin);
    router_host_filter_rules::add_router_host_rules(&mut table);
    add_forward_and_log_drop_rules(&mut table);
    add_abuse_chain(&mut table, options, &mut random);
    add_vlan_antispoof_chains(&mut table, plan);
    for (customer, address) in plan.customer_address_pairs() {
        add_jumps_for_customer_address(&mut table, customer, address, &mut random);
    }
    // Four chains a customer; as many customers as chains are left for have a fifth.
    let used = table.chain_count() + 4 * plan.customers.len();
    let fifth = options.filter_chains.saturating_sub(used);
    for (index, customer) in plan.customers.iter().rev().enumerate() {
        add_accounting_chains(&mut table, customer, index < fifth);
        add_customer_access_chain(&mut table, customer);
    }
    add_firewall_chain_per_customer(&mut table, options, plan, &mut random);
    table
}

/// `ipset save` text of the set for the abuse list.
pub(super) fn generate_abuse_set(options: &IspOptions) -> String {
    let mut random = Rng::for_purpose(options.seed, "abuse set");
    let mut text = String::from(
        "create abuse hash:net family inet hashsize 1024 maxelem 65536 bucketsize 12 \
         initval 0x5c3a91d7\n",
    );
    for source in generate_abuse_networks(options, &mut random) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "add abuse {}", source.trim_end_matches("/32"));
    }
    text
}

fn add_forward_and_log_drop_rules(table: &mut TableText) {
    table.append_rules(
        "FORWARD",
        &[
            "-m conntrack --ctstate INVALID -j DROP",
            "-j abuse",
            "-i eth0.+ -j spoof",
            "-i eth0.+ -j customers_up",
            "-o eth0.+ -j customers_down",
            "-s 10.255.0.0/24 -o eth0.+ -m comment --comment \"our own support desk\" -j ACCEPT",
            "-j log_drop",
        ],
    );
    table.append_rules(
        "log_drop",
        &["-m limit --limit 5/sec -j LOG --log-prefix \"fw drop: \"", "-j DROP"],
    );
}

/// Networks that complaints were about. All are reserved for documentation.
fn generate_abuse_networks(options: &IspOptions, random: &mut Rng) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let count = (options.equipment_count * 12 / 100).clamp(1, 480);
    while seen.len() < count {
        let net = *random.pick(&["192.0.2", "198.51.100", "203.0.113"]);
        // Hosts in the lower half, small networks in the upper one: no entry contains another.
        let source = match random.below(10) {
            0 if net != "203.0.113" => format!("{net}.{}/30", 128 + 4 * random.below(32)),
            _ if net == "203.0.113" => format!("{net}.{}/32", 16 + random.below(240)),
            _ => format!("{net}.{}/32", 1 + random.below(127)),
        };
        seen.insert(source);
    }
    let mut all: Vec<String> = seen.into_iter().collect();
    all.sort();
    // A list grows by complaints, not by address.
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at + 1));
    }
    all
}

fn add_abuse_chain(table: &mut TableText, options: &IspOptions, random: &mut Rng) {
    table.declare_chain("abuse");
    if options.use_abuse_set {
        table.append_rule("abuse", "-m set --match-set abuse src -j DROP");
        return;
    }
    let mut ticket = 48_000;
    for source in generate_abuse_networks(options, random) {
        ticket += 1 + random.below(40);
        let comment = match random.chance_percent(30) {
            true => format!(" -m comment --comment \"abuse ticket {ticket}\""),
            false => String::new(),
        };
        table.append_rule("abuse", format!("-s {source}{comment} -j DROP"));
    }
}

fn add_vlan_antispoof_chains(table: &mut TableText, plan: &NetworkPlan) {
    for vlan in &plan.vlans {
        let (device, chain) = (format!("eth0.{}", vlan.tag), format!("vlan_{}", vlan.tag));
        table.append_rule("spoof", format!("-i {device} -j {chain}"));
        table.append_rule(&chain, format!("-s {} -j RETURN", vlan.prefix()));
        let prefix = format!("\"spoof {device}: \"");
        table.append_rule(&chain, format!("-m limit --limit 1/min -j LOG --log-prefix {prefix}"));
        table.append_rule(&chain, "-j DROP");
    }
}

/// The chains that count what a customer sends and receives, and pass it on.
fn add_accounting_chains(table: &mut TableText, customer: &Customer, has_outgoing: bool) {
    let id = customer.id;
    let (up, down) = (format!("c{id}_up"), format!("c{id}_down"));
    for address in &customer.equipment_addresses {
        // A rule without a target is a counter.
        table.append_rule(&up, format!("-s {address}/32"));
        table.append_rule(&down, format!("-d {address}/32"));
    }
    table.append_rule(&up, format!("-j c{id}_ctl"));
    if has_outgoing {
        let out = format!("c{id}_out");
        table.append_rule(&up, format!("-j {out}"));
        table.append_rule(
            &out,
            "-p tcp -m tcp --dport 25 -j REJECT --reject-with icmp-admin-prohibited",
        );
    }
    table.append_rule(&up, "-o eth1 -j ACCEPT");
    table.append_rule(&down, format!("-j c{id}_ctl"));
    table.append_rule(&down, format!("-j c{id}_fw"));
    table.append_rule(&down, "-j ACCEPT");
}

/// Open, or closed but for the page that says why.
fn add_customer_access_chain(table: &mut TableText, customer: &Customer) {
    let chain = format!("c{}_ctl", customer.id);
    if customer.access_closed {
        table.append_rules(
            &chain,
            &[
                "-d 192.0.2.80/32 -p tcp -m tcp --dport 80 -j RETURN",
                "-s 192.0.2.80/32 -p tcp -m tcp --sport 80 -j RETURN",
                "-j REJECT --reject-with icmp-admin-prohibited",
            ],
        );
    } else {
        table.append_rule(&chain, "-j RETURN");
    }
}

/// One chain per customer; the individual ones grow until the table has the rules asked for.
fn add_firewall_chain_per_customer(
    table: &mut TableText,
    options: &IspOptions,
    plan: &NetworkPlan,
    random: &mut Rng,
) {
    const RETURN_ESTABLISHED: &str = "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN";
    const FINAL_RULE_CHOICES: [&str; 3] =
        ["-j log_drop", "-j DROP", "-j REJECT --reject-with icmp-port-unreachable"];
    let mut individual = Vec::new();
    for customer in &plan.customers {
        let chain = format!("c{}_fw", customer.id);
        match customer.firewall {
            CustomerFirewall::AcceptAll => table.append_rule(&chain, "-j RETURN"),
            CustomerFirewall::EstablishedOnly => {
                table.append_rules(&chain, &[RETURN_ESTABLISHED, "-j DROP"])
            }
            CustomerFirewall::CustomRules => {
                individual.push((customer, vec![random_customer_rule(customer, random)]));
            }
        }
    }
    let mut rules = table.rule_count() + 3 * individual.len();
    while rules < options.filter_rules {
        let at = random.below(individual.len());
        let (customer, wishes) = &mut individual[at];
        let wish = random_customer_rule(customer, random);
        if !wishes.contains(&wish) {
            wishes.push(wish);
            rules += 1;
        }
    }
    for (customer, wishes) in individual {
        let chain = format!("c{}_fw", customer.id);
        table.append_rule(&chain, RETURN_ESTABLISHED);
        for wish in wishes {
            table.append_rule(&chain, wish);
        }
        table.append_rule(&chain, *random.pick(&FINAL_RULE_CHOICES));
    }
}

/// A rule as a customer would ask for it.
fn random_customer_rule(customer: &Customer, random: &mut Rng) -> String {
    let (proto, port) = *random.pick(&CUSTOMER_SERVICES);
    let address = *random.pick(&customer.equipment_addresses);
    let to = format!("-d {address}/32 -p {proto}");
    match random.below(12) {
        0 => "-p icmp -m icmp --icmp-type 8 -j RETURN".to_owned(),
        1 => {
            let first = 40_000 + 100 * random.below(200);
            format!("{to} -m multiport --dports {port},{first}:{} -j RETURN", first + 20)
        }
        2 => {
            let friend = 1 + random.below(127);
            format!("-s 198.51.100.{friend}/32 {to} -m {proto} --dport {port} -j RETURN")
        }
        3 => format!("-p {proto} -m {proto} --dport {port}:{} -j RETURN", port + 10),
        4 => format!(
            "-d {address}/32 -p tcp -m tcp --dport {port} --tcp-flags FIN,SYN,RST,ACK SYN \
             -j RETURN"
        ),
        5 => format!("{to} -m {proto} --dport {port} -j DROP"),
        6 => format!("-s 203.0.113.0/28 {to} -j RETURN"),
        7 => {
            let first = 1024 + random.below(60_000);
            format!("{to} -m {proto} --dport {first} -j RETURN")
        }
        _ => format!("{to} -m {proto} --dport {port} -j RETURN"),
    }
}

fn add_jumps_for_customer_address(
    table: &mut TableText,
    customer: &Customer,
    address: Ipv4Addr,
    random: &mut Rng,
) {
    let id = customer.id;
    let comment = match random.chance_percent(10) {
        true => format!(" -m comment --comment \"flat {}\"", customer.index_in_building),
        false => String::new(),
    };
    table.append_rule("customers_up", format!("-s {address}/32{comment} -j c{id}_up"));
    table.append_rule("customers_down", format!("-d {address}/32{comment} -j c{id}_down"));
}
