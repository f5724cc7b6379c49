//! The mangle table: the HTB class of each packet.
//!
//! `CLASSIFY` does not terminate, and the lists have no early exit: every packet of the first
//! generation design is compared with every address.

use weir_random::Rng;

use super::network_plan::{Customer, NetworkPlan};
use super::options::IspOptions;
use crate::table_text::TableText;

/// What customers of the better contract have preferred within their bandwidth.
const PREFERRED_TRAFFIC_MATCHES: [&str; 12] = [
    "-p udp -m udp --dport 5060:5061",
    "-p udp -m udp --sport 5060:5061",
    "-p udp -m udp --dport 16384:32767 -m length --length 0:400",
    "-p tcp -m tcp --dport 22",
    "-p tcp -m tcp --sport 22",
    "-p icmp",
    "-p udp -m udp --dport 53",
    "-p udp -m udp --sport 53",
    "-p tcp -m tcp --dport 443 -m length --length 0:128",
    "-p tcp -m tcp --dport 3389",
    "-p udp -m udp --dport 27015:27030",
    "-p udp -m udp --dport 3074",
];

/// The beginning of the table in both families: both directions, and the default classes.
pub(super) fn build_base_mangle_table() -> TableText {
    let builtin = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];
    let mut table = TableText::new("mangle", &builtin.map(|chain| (chain, "ACCEPT")));
    table.append_rules(
        "FORWARD",
        &["-j bw_default", "-i eth0.+ -o eth1 -j bw_up", "-i eth1 -o eth0.+ -j bw_down"],
    );
    table.append_rules(
        "bw_default",
        &[
            "-o eth1 -j CLASSIFY --set-class 0001:0002",
            "-o eth0.+ -j CLASSIFY --set-class 0002:0002",
        ],
    );
    table
}

/// The table with exactly the chains and rules that the options request.
pub(super) fn build_mangle_table(options: &IspOptions, plan: &NetworkPlan) -> TableText {
    let mut random = Rng::for_purpose(options.seed, "mangle");
    let mut table = build_base_mangle_table();
    table.append_rule("OUTPUT", "-p tcp -m tcp --sport 22 -j CLASSIFY --set-class 0001:0001");
    for (customer, address) in plan.customer_address_pairs() {
        table.append_rule("bw_up", format!("-s {address}/32 -j bw_{}", customer.id));
        table.append_rule("bw_down", format!("-d {address}/32 -j bw_{}", customer.id));
    }
    // One chain per customer; as many customers as chains are left for have a second.
    let used = table.chain_count() + plan.customers.len();
    let second = options.mangle_chains.saturating_sub(used).min(plan.customers.len());
    for (index, customer) in plan.customers.iter().enumerate() {
        add_customer_htb_class_chain(&mut table, index, customer, index < second);
    }
    add_priority_chains(&mut table, options, &plan.customers[..second], &mut random);
    table
}

/// The minor number of a customer's HTB class: 0x10 and up, so that 1:1 and 1:2 stay free.
fn htb_class_minor(index: usize) -> usize {
    0x10 + index
}

fn add_customer_htb_class_chain(
    table: &mut TableText,
    index: usize,
    customer: &Customer,
    has_second: bool,
) {
    let (id, class) = (customer.id, htb_class_minor(index));
    let chain = format!("bw_{id}");
    table.append_rule(&chain, format!("-o eth1 -j CLASSIFY --set-class 0001:{class:04x}"));
    table.append_rule(&chain, format!("-i eth1 -j CLASSIFY --set-class 0002:{class:04x}"));
    if has_second {
        table.append_rule(&chain, format!("-j prio_{id}"));
    }
}

/// The second chains, which grow until the table has the requested rules.
fn add_priority_chains(
    table: &mut TableText,
    options: &IspOptions,
    customers: &[Customer],
    random: &mut Rng,
) {
    let rules = |index: usize, preferred: &[&str]| -> Vec<String> {
        let class = htb_class_minor(index);
        preferred
            .iter()
            .map(|what| format!("{what} -j CLASSIFY --set-class 0003:{class:04x}"))
            .collect()
    };
    let mut wishes: Vec<Vec<&str>> = customers.iter().map(|_| Vec::new()).collect();
    let most = customers.len() * PREFERRED_TRAFFIC_MATCHES.len();
    let wanted = options.mangle_rules.saturating_sub(table.rule_count()).min(most);
    let mut placed = 0;
    while placed < wanted {
        // The first round gives everybody one.
        let at = if placed < wishes.len() { placed } else { random.below(wishes.len()) };
        let wish = *random.pick(&PREFERRED_TRAFFIC_MATCHES);
        if !wishes[at].contains(&wish) {
            wishes[at].push(wish);
            placed += 1;
        }
    }
    for (index, (customer, preferred)) in customers.iter().zip(&wishes).enumerate() {
        let chain = format!("prio_{}", customer.id);
        table.declare_chain(&chain);
        for rule in rules(index, preferred) {
            table.append_rule(&chain, rule);
        }
    }
}
