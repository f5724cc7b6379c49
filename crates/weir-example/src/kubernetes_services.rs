//! The rules of a Kubernetes node, as kube-proxy writes them in its iptables mode.
//!
//! Each service is one rule of `KUBE-SERVICES`, with its address and port, that jumps to the
//! service's chain. That chain chooses an endpoint at random, and the endpoint's chain translates.
//! A new connection that is not to a service traverses the whole list, for example between pods or
//! to the Internet.

use std::fmt::Write;

use weir_random::Rng;

use crate::table_text::TableText;

/// What [`generate_services_ruleset()`] writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicesOptions {
    /// Services: 1 to 20,000.
    pub count: usize,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Letters of the names of chains (base 32, RFC 4648), and how many of them.
const BASE32_ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const CHAIN_HASH_LENGTH: usize = 16;
/// Ports of services.
const SERVICE_PORTS: [u16; 8] = [80, 80, 443, 443, 8080, 5432, 6379, 9090];

/// The tables `filter` and `nat` of one node as `iptables-save` text: services in 10.96.0.0/12,
/// pods in 10.244.0.0/16.
///
/// ```
/// use weir_example::{ServicesOptions, generate_services_ruleset};
/// let text = generate_services_ruleset(&ServicesOptions { count: 3, seed: 1 });
/// assert_eq!(text.matches("-A KUBE-SERVICES -d ").count(), 3);
/// ```
///
/// # Source
/// Kubernetes, pkg/proxy/iptables/proxier.go: the chains, their order, and the marks.
pub fn generate_services_ruleset(options: &ServicesOptions) -> String {
    assert!((1..=20_000).contains(&options.count), "1 to 20,000 services");
    let mut random = Rng::for_purpose(options.seed, "services");
    let mut text = String::new();
    build_kube_forward_filter_table().write_save_text(&mut text);
    build_nat_table(options, &mut random).write_save_text(&mut text);
    text
}

fn build_kube_forward_filter_table() -> TableText {
    let builtin = [("INPUT", "ACCEPT"), ("FORWARD", "ACCEPT"), ("OUTPUT", "ACCEPT")];
    let mut filter = TableText::new("filter", &builtin);
    filter.append_rule(
        "FORWARD",
        "-m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD",
    );
    filter.append_rules(
        "KUBE-FORWARD",
        &[
            "-m conntrack --ctstate INVALID -j DROP",
            "-m comment --comment \"kubernetes forwarding rules\" -m mark --mark 0x4000/0x4000 -j ACCEPT",
            "-m comment --comment \"kubernetes forwarding conntrack rule\" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        ],
    );
    filter
}

fn build_nat_table(options: &ServicesOptions, random: &mut Rng) -> TableText {
    let builtin = [
        ("PREROUTING", "ACCEPT"),
        ("INPUT", "ACCEPT"),
        ("OUTPUT", "ACCEPT"),
        ("POSTROUTING", "ACCEPT"),
    ];
    let mut nat = TableText::new("nat", &builtin);
    for chain in ["PREROUTING", "OUTPUT"] {
        let portals = "-m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES";
        nat.append_rule(chain, portals);
    }
    nat.append_rule(
        "POSTROUTING",
        "-m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING",
    );
    nat.append_rule("KUBE-MARK-MASQ", "-j MARK --set-xmark 0x4000/0x4000");
    nat.append_rules(
        "KUBE-POSTROUTING",
        &[
            "-m mark ! --mark 0x4000/0x4000 -j RETURN",
            "-j MARK --set-xmark 0x4000/0x0",
            "-j MASQUERADE",
        ],
    );
    nat.declare_chain("KUBE-NODEPORTS");
    for number in 0..options.count {
        add_service_chains(&mut nat, number, random);
    }
    let nodeports = "kubernetes service nodeports; NOTE: this must be the last rule in this chain";
    nat.append_rule(
        "KUBE-SERVICES",
        format!(
            "-m comment --comment \"{nodeports}\" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS"
        ),
    );
    nat
}

/// One service with its endpoints, one to five.
fn add_service_chains(nat: &mut TableText, number: usize, random: &mut Rng) {
    // Addresses spread over 10.96.0.0/12, each used once: the factor is odd.
    let spread = (number * 40_503 + 1) % (1 << 20);
    let (second, third, fourth) = (96 + (spread >> 16), spread >> 8 & 255, spread & 255);
    let (address, port) = (format!("10.{second}.{third}.{fourth}"), *random.pick(&SERVICE_PORTS));
    let title = format!("team-{}/service-{number}:http", number % 40);
    let chain = format!("KUBE-SVC-{}", random_chain_hash(random));
    let to_service =
        format!("-p tcp -m comment --comment \"{title} cluster IP\" -m tcp --dport {port}");
    nat.append_rule("KUBE-SERVICES", format!("-d {address}/32 {to_service} -j {chain}"));
    let outside = format!("! -s 10.244.0.0/16 -d {address}/32 {to_service}");
    nat.append_rule(&chain, format!("{outside} -j KUBE-MARK-MASQ"));
    let endpoints = 1 + random.below(5);
    for endpoint in 0..endpoints {
        let left = endpoints - endpoint;
        let pod = format!("10.244.{}.{}", random.below(256), 1 + random.below(254));
        let own = format!("KUBE-SEP-{}", random_chain_hash(random));
        let mut rule = format!("-m comment --comment \"{title} -> {pod}:8080\"");
        if left > 1 {
            let chance = 1.0 / left as f64;
            // Writing to a String cannot fail.
            let _ = write!(rule, " -m statistic --mode random --probability {chance:.11}");
        }
        nat.append_rule(&chain, format!("{rule} -j {own}"));
        let comment = format!("-m comment --comment \"{title}\"");
        nat.append_rule(&own, format!("-s {pod}/32 {comment} -j KUBE-MARK-MASQ"));
        nat.append_rule(
            &own,
            format!("-p tcp {comment} -m tcp -j DNAT --to-destination {pod}:8080"),
        );
    }
}

/// The hash in the name of a chain.
fn random_chain_hash(random: &mut Rng) -> String {
    (0..CHAIN_HASH_LENGTH).map(|_| char::from(*random.pick(BASE32_ALPHABET))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_distinct_addresses_and_a_chain_each() {
        let text = generate_services_ruleset(&ServicesOptions { count: 2000, seed: 1 });
        let rules = text.lines().filter(|line| line.starts_with("-A KUBE-SERVICES -d "));
        let addresses: std::collections::HashSet<&str> =
            rules.filter_map(|line| line.split(' ').nth(3)).collect();
        assert_eq!(addresses.len(), 2000);
        assert_eq!(text.matches("\n:KUBE-SVC-").count(), 2000);
        assert_eq!(text.matches("\n:KUBE-SEP-").count(), text.matches(" -j DNAT ").count());
    }

    #[test]
    fn the_last_service_rule_jumps_to_node_ports() {
        let text = generate_services_ruleset(&ServicesOptions { count: 3, seed: 1 });
        let last = text.lines().rfind(|line| line.starts_with("-A KUBE-SERVICES"));
        assert!(last.is_some_and(|line| line.ends_with("-j KUBE-NODEPORTS")), "{last:?}");
    }

    #[test]
    fn the_generated_text_is_parsed() {
        let text = generate_services_ruleset(&ServicesOptions { count: 20, seed: 1 });
        let parsed = weir_syntax::iptables::parse(&text, &Default::default());
        assert!(parsed.is_ok(), "{parsed:?}");
    }
}
