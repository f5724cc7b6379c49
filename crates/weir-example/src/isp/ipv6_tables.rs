//! The IPv6 counterpart: the same design, a /64 per customer, no address translation.

use weir_random::Rng;

use super::mangle_table as bandwidth;
use super::network_plan::{Customer, CustomerFirewall, NetworkPlan};
use super::options::IspOptions;
use crate::table_text::TableText;

/// The tables of the twin, in the order in which they are printed.
pub(super) fn build_ipv6_tables(options: &IspOptions, plan: &NetworkPlan) -> [TableText; 3] {
    [build_raw_table(), build_mangle_table(plan), build_filter_table(options, plan)]
}

/// The network of a customer: 2001:db8:VLAN:PLACE::/64.
fn customer_prefix(plan: &NetworkPlan, customer: &Customer) -> String {
    format!(
        "2001:db8:{:x}:{:x}::/64",
        plan.vlans[customer.vlan_index].tag, customer.index_in_building
    )
}

fn build_raw_table() -> TableText {
    let mut table = TableText::new("raw", &[("PREROUTING", "ACCEPT"), ("OUTPUT", "ACCEPT")]);
    table.append_rules(
        "PREROUTING",
        &["-s ::1/128 -i eth1 -j DROP", "-s fc00::/7 -i eth1 -j DROP", "-s ff00::/8 -j DROP"],
    );
    table
}

fn build_mangle_table(plan: &NetworkPlan) -> TableText {
    let mut table = bandwidth::build_base_mangle_table();
    for (index, customer) in plan.customers.iter().enumerate() {
        let (chain, class) = (format!("bw_{}", customer.id), 0x10 + index);
        let network = customer_prefix(plan, customer);
        table.append_rule("bw_up", format!("-s {network} -j {chain}"));
        table.append_rule("bw_down", format!("-d {network} -j {chain}"));
        table.append_rule(&chain, format!("-o eth1 -j CLASSIFY --set-class 0001:{class:04x}"));
        table.append_rule(&chain, format!("-i eth1 -j CLASSIFY --set-class 0002:{class:04x}"));
    }
    table
}

fn build_filter_table(options: &IspOptions, plan: &NetworkPlan) -> TableText {
    let mut random = Rng::for_purpose(options.seed, "twin");
    let builtin = [("INPUT", "DROP"), ("FORWARD", "DROP"), ("OUTPUT", "ACCEPT")];
    let mut table = TableText::new("filter", &builtin);
    add_input_forward_and_log_drop_rules(&mut table);
    for vlan in &plan.vlans {
        let (device, chain) = (format!("eth0.{}", vlan.tag), format!("vlan_{}", vlan.tag));
        table.append_rule("spoof", format!("-i {device} -j {chain}"));
        table.append_rule(&chain, format!("-s 2001:db8:{:x}::/48 -j RETURN", vlan.tag));
        table.append_rule(&chain, "-j DROP");
    }
    for customer in &plan.customers {
        let id = customer.id;
        let network = customer_prefix(plan, customer);
        let (up, down) = (format!("c{id}_up"), format!("c{id}_down"));
        table.append_rule("customers_up", format!("-s {network} -j {up}"));
        table.append_rule("customers_down", format!("-d {network} -j {down}"));
        // A rule without a target is a counter.
        table.append_rules(&up, &["", "-o eth1 -j ACCEPT"]);
        table.append_rule(&down, "");
        table.append_rule(&down, format!("-j c{id}_fw"));
        table.append_rule(&down, "-j ACCEPT");
        add_personal_firewall(&mut table, customer, &mut random);
    }
    table
}

fn add_input_forward_and_log_drop_rules(table: &mut TableText) {
    table.append_rules(
        "INPUT",
        &[
            "-i lo -j ACCEPT",
            "-p ipv6-icmp -m icmp6 --icmpv6-type 133 -j ACCEPT",
            "-p ipv6-icmp -m icmp6 --icmpv6-type 135 -j ACCEPT",
            "-p ipv6-icmp -m icmp6 --icmpv6-type 136 -j ACCEPT",
            "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
            "-m conntrack --ctstate INVALID -j DROP",
            "-i eth0.+ -j spoof",
            "-p ipv6-icmp -m icmp6 --icmpv6-type 128 -m limit --limit 50/sec -j ACCEPT",
            "-i eth0.+ -p udp -m udp --sport 546 --dport 547 -j ACCEPT",
            "-s 2001:db8:ffff::/48 -i eth1 -p tcp -m tcp --dport 22 -j ACCEPT",
            "-j log_drop",
        ],
    );
    table.append_rules(
        "FORWARD",
        &[
            "-m conntrack --ctstate INVALID -j DROP",
            "-i eth0.+ -j spoof",
            "-i eth0.+ -j customers_up",
            "-o eth0.+ -j customers_down",
            "-j log_drop",
        ],
    );
    table.append_rules(
        "log_drop",
        &["-m limit --limit 5/sec -j LOG --log-prefix \"fw6 drop: \"", "-j DROP"],
    );
}

fn add_personal_firewall(table: &mut TableText, customer: &Customer, random: &mut Rng) {
    const RETURN_ESTABLISHED: &str = "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN";
    let chain = format!("c{}_fw", customer.id);
    match customer.firewall {
        CustomerFirewall::AcceptAll => table.append_rule(&chain, "-j RETURN"),
        CustomerFirewall::EstablishedOnly => table.append_rules(
            &chain,
            &[RETURN_ESTABLISHED, "-p ipv6-icmp -m icmp6 --icmpv6-type 128 -j RETURN", "-j DROP"],
        ),
        CustomerFirewall::CustomRules => {
            table.append_rule(&chain, RETURN_ESTABLISHED);
            table.append_rule(&chain, "-p ipv6-icmp -j RETURN");
            for _ in 0..1 + random.below(4) {
                let port = *random.pick(&[22, 80, 443, 993, 5060, 8080]);
                table.append_rule(&chain, format!("-p tcp -m tcp --dport {port} -j RETURN"));
            }
            table.append_rule(&chain, "-j REJECT --reject-with icmp6-port-unreachable");
        }
    }
}
