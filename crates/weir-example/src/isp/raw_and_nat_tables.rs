//! The raw and the nat table: bogus sources, polling without state, address translation.

use weir_random::Rng;

use super::network_plan::{CUSTOMER_NETWORKS, NetworkPlan};
use super::options::IspOptions;
use crate::table_text::TableText;

/// Sources that cannot come from the uplink, and polling that needs no state.
pub(super) fn build_raw_table() -> TableText {
    let mut table = TableText::new("raw", &[("PREROUTING", "ACCEPT"), ("OUTPUT", "ACCEPT")]);
    for bogus in [
        "0.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "224.0.0.0/3",
    ] {
        table.append_rule("PREROUTING", format!("-s {bogus} -i eth1 -j DROP"));
    }
    for [a, b] in CUSTOMER_NETWORKS.iter().filter(|region| region[0] == 10) {
        table.append_rule("PREROUTING", format!("-s {a}.{b}.0.0/16 -i eth1 -j DROP"));
    }
    table.append_rules(
        "PREROUTING",
        &["-s 10.255.0.0/24 -i eth1 -p udp -m udp --dport 161 -j CT --notrack"],
    );
    table.append_rules(
        "OUTPUT",
        &["-d 10.255.0.0/24 -o eth1 -p udp -m udp --sport 161 -j CT --notrack"],
    );
    table
}

/// Customers leave with the router's addresses; a few have a port of one for themselves.
pub(super) fn build_nat_table(options: &IspOptions, plan: &NetworkPlan) -> TableText {
    let mut random = Rng::for_purpose(options.seed, "nat");
    let builtin = ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"];
    let mut table = TableText::new("nat", &builtin.map(|chain| (chain, "ACCEPT")));
    let forwards = plan.customers.len().div_ceil(50);
    for (index, customer) in
        plan.customers.iter().filter(|c| !c.access_closed).take(forwards).enumerate()
    {
        let port = 20_000 + index;
        let inside = *random.pick(&[22, 80, 443, 8080]);
        table.append_rule(
            "PREROUTING",
            format!(
                "-d 203.0.113.2/32 -i eth1 -p tcp -m tcp --dport {port} -j DNAT \
                 --to-destination {}:{inside}",
                customer.equipment_addresses[0]
            ),
        );
    }
    for ([a, b], last) in CUSTOMER_NETWORKS.iter().zip(4..) {
        table.append_rule(
            "POSTROUTING",
            format!("-s {a}.{b}.0.0/16 -o eth1 -j SNAT --to-source 203.0.113.{last}"),
        );
    }
    table.append_rule("POSTROUTING", "-s 10.255.0.0/24 -o eth0.+ -j MASQUERADE");
    table
}
