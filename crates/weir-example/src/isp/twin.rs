//! The IPv6 counterpart: the same design, a /64 per customer, no address translation.

use weir_random::Rng;

use super::mangle as bandwidth;
use super::options::IspOptions;
use super::plan::{Customer, CustomerFirewall, Plan};
use crate::text::TableText;

/// The tables of the twin, in the order in which they are printed.
pub(super) fn tables(options: &IspOptions, plan: &Plan) -> [TableText; 3] {
    [raw(), mangle(plan), filter(options, plan)]
}

/// The network of a customer: 2001:db8:VLAN:PLACE::/64.
fn network(plan: &Plan, customer: &Customer) -> String {
    format!("2001:db8:{:x}:{:x}::/64", plan.vlans[customer.vlan].tag, customer.place)
}

fn raw() -> TableText {
    let mut table = TableText::new("raw", &[("PREROUTING", "ACCEPT"), ("OUTPUT", "ACCEPT")]);
    table.rules(
        "PREROUTING",
        &["-s ::1/128 -i eth1 -j DROP", "-s fc00::/7 -i eth1 -j DROP", "-s ff00::/8 -j DROP"],
    );
    table
}

fn mangle(plan: &Plan) -> TableText {
    let mut table = bandwidth::shared_classes();
    for (index, customer) in plan.customers.iter().enumerate() {
        let (chain, class) = (format!("bw_{}", customer.id), 0x10 + index);
        let network = network(plan, customer);
        table.rule("bw_up", format!("-s {network} -j {chain}"));
        table.rule("bw_down", format!("-d {network} -j {chain}"));
        table.rule(&chain, format!("-o eth1 -j CLASSIFY --set-class 0001:{class:04x}"));
        table.rule(&chain, format!("-i eth1 -j CLASSIFY --set-class 0002:{class:04x}"));
    }
    table
}

fn filter(options: &IspOptions, plan: &Plan) -> TableText {
    let mut random = Rng::for_purpose(options.seed, "twin");
    let builtin = [("INPUT", "DROP"), ("FORWARD", "DROP"), ("OUTPUT", "ACCEPT")];
    let mut table = TableText::new("filter", &builtin);
    router(&mut table);
    for vlan in &plan.vlans {
        let (device, chain) = (format!("eth0.{}", vlan.tag), format!("vlan_{}", vlan.tag));
        table.rule("spoof", format!("-i {device} -j {chain}"));
        table.rule(&chain, format!("-s 2001:db8:{:x}::/48 -j RETURN", vlan.tag));
        table.rule(&chain, "-j DROP");
    }
    for customer in &plan.customers {
        let id = customer.id;
        let network = network(plan, customer);
        let (up, down) = (format!("c{id}_up"), format!("c{id}_down"));
        table.rule("customers_up", format!("-s {network} -j {up}"));
        table.rule("customers_down", format!("-d {network} -j {down}"));
        // A rule without a target is a counter.
        table.rules(&up, &["", "-o eth1 -j ACCEPT"]);
        table.rule(&down, "");
        table.rule(&down, format!("-j c{id}_fw"));
        table.rule(&down, "-j ACCEPT");
        personal_firewall(&mut table, customer, &mut random);
    }
    table
}

fn router(table: &mut TableText) {
    table.rules(
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
    table.rules(
        "FORWARD",
        &[
            "-m conntrack --ctstate INVALID -j DROP",
            "-i eth0.+ -j spoof",
            "-i eth0.+ -j customers_up",
            "-o eth0.+ -j customers_down",
            "-j log_drop",
        ],
    );
    table.rules(
        "log_drop",
        &["-m limit --limit 5/sec -j LOG --log-prefix \"fw6 drop: \"", "-j DROP"],
    );
}

fn personal_firewall(table: &mut TableText, customer: &Customer, random: &mut Rng) {
    const ANSWERS: &str = "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN";
    let chain = format!("c{}_fw", customer.id);
    match customer.firewall {
        CustomerFirewall::Off => table.rule(&chain, "-j RETURN"),
        CustomerFirewall::Standard => table.rules(
            &chain,
            &[ANSWERS, "-p ipv6-icmp -m icmp6 --icmpv6-type 128 -j RETURN", "-j DROP"],
        ),
        CustomerFirewall::Individual => {
            table.rule(&chain, ANSWERS);
            table.rule(&chain, "-p ipv6-icmp -j RETURN");
            for _ in 0..1 + random.below(4) {
                let port = *random.pick(&[22, 80, 443, 993, 5060, 8080]);
                table.rule(&chain, format!("-p tcp -m tcp --dport {port} -j RETURN"));
            }
            table.rule(&chain, "-j REJECT --reject-with icmp6-port-unreachable");
        }
    }
}
