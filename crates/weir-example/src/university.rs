//! The firewall of a university: it drops incoming packets except for the services that departments
//! offer.
//!
//! First it drops packets from networks that misbehaved, and packets to ports that must not be
//! reachable from outside. Then it dispatches a packet by destination to its department, and
//! compares it with the services of single hosts and of server networks, some of them for partners
//! only. Packets of known connections are accepted before all of this, as such firewalls do.

use std::net::Ipv4Addr;

use weir_random::Rng;

use crate::table_text::TableText;

/// What [`generate_university_ruleset()`] writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniversityOptions {
    /// Departments: 1 to 200.
    pub department_count: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// Connections are tracked; without it there are no state rules, and NOTRACK comes first.
    pub track_connections: bool,
}

/// Networks that are dropped before anything else.
const BLOCKED_NETWORK_COUNT: usize = 250;
/// Ports that hosts open, the frequent ones often.
const OPEN_PORTS: [u16; 12] = [443, 443, 443, 80, 80, 22, 25, 993, 636, 5060, 3389, 8443];
/// Networks of partners, which see more (RFC 5737).
const PARTNER_NETWORK_PREFIXES: [&str; 3] = ["192.0.2.0/24", "198.51.100.0/25", "203.0.113.64/26"];

/// The ruleset as `iptables-save` text: `eth0` is outside, `eth1` the campus 10.32.0.0/16, a /24
/// for each department.
///
/// ```
/// use weir_example::{UniversityOptions, generate_university_ruleset};
/// let text = generate_university_ruleset(&UniversityOptions { department_count: 2, seed: 1, track_connections: true });
/// assert!(text.contains(":dept_001") && text.contains("--ctstate RELATED,ESTABLISHED"));
/// ```
pub fn generate_university_ruleset(options: &UniversityOptions) -> String {
    assert!((1..=200).contains(&options.department_count), "a /16 holds 200 departments at most");
    let mut random = Rng::for_purpose(options.seed, "university");
    let mut text = String::new();
    if !options.track_connections {
        let mut raw = TableText::new("raw", &[("PREROUTING", "ACCEPT"), ("OUTPUT", "ACCEPT")]);
        raw.append_rule("PREROUTING", "-j CT --notrack");
        raw.write_save_text(&mut text);
    }
    let builtin = [("INPUT", "ACCEPT"), ("FORWARD", "DROP"), ("OUTPUT", "ACCEPT")];
    let mut filter = TableText::new("filter", &builtin);
    if options.track_connections {
        filter.append_rule("FORWARD", "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT");
        filter.append_rule("FORWARD", "-m conntrack --ctstate INVALID -j DROP");
    }
    filter.append_rules(
        "FORWARD",
        &[
            "-i eth1 -j outgoing",
            "-s 10.32.0.0/16 -i eth0 -j DROP",
            "-i eth0 -j blocked",
            "-p icmp -m icmp --icmp-type 8 -j ACCEPT",
            "-p tcp -m multiport --dports 135,139,445,1433,3306 -j DROP",
            "-p udp -m multiport --dports 135,137,138,161,1900 -j DROP",
        ],
    );
    filter.append_rules(
        "outgoing",
        &["-p tcp -m tcp --dport 25 -j DROP", "-s 10.32.0.0/16 -j ACCEPT"],
    );
    for _ in 0..BLOCKED_NETWORK_COUNT {
        filter
            .append_rule("blocked", format!("-s {} -j DROP", random_blocked_network(&mut random)));
    }
    for department in 1..=options.department_count {
        let chain = format!("dept_{department:03}");
        filter.append_rule("FORWARD", format!("-d 10.32.{department}.0/24 -j {chain}"));
        self::add_department_rules(&mut filter, &chain, department, &mut random);
    }
    filter.write_save_text(&mut text);
    text
}

/// A network of somebody outside: private ones that the campus does not use (RFC 1918).
fn random_blocked_network(random: &mut Rng) -> String {
    let (second, third) = (64 + random.below(128), random.below(256));
    if random.chance_percent(30) {
        return format!("10.{second}.{third}.0/24");
    }
    format!("10.{second}.{third}.{}/32", 1 + random.below(254))
}

/// What one department has opened.
fn add_department_rules(filter: &mut TableText, chain: &str, department: usize, random: &mut Rng) {
    let host = |at: usize| Ipv4Addr::new(10, 32, department as u8, at as u8);
    // A network of servers first, as wide as the department could get it.
    let bits = *random.pick(&[28_usize, 29, 29, 30]);
    let servers = host(16 * (1 + random.below(14)));
    let web = format!("-d {servers}/{bits} -p tcp -m multiport --dports 80,443 -j ACCEPT");
    filter.append_rule(chain, web);
    for _ in 0..10 + random.below(25) {
        let at = host(1 + random.below(254));
        let port = *random.pick(&OPEN_PORTS);
        let protocol = if port == 5060 { "udp" } else { "tcp" };
        let from = if random.chance_percent(20) {
            format!("-s {} ", random.pick(&PARTNER_NETWORK_PREFIXES))
        } else {
            String::new()
        };
        let service = format!("-p {protocol} -m {protocol} --dport {port}");
        filter.append_rule(chain, format!("{from}-d {at}/32 {service} -j ACCEPT"));
    }
    if random.chance_percent(15) {
        let lab = host(224);
        filter
            .append_rule(chain, format!("-d {lab}/28 -p udp -m udp --dport 33434:33534 -j ACCEPT"));
    }
    filter.append_rule(chain, "-j DROP");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(departments: usize, tracked: bool) -> String {
        generate_university_ruleset(&UniversityOptions {
            department_count: departments,
            seed: 1,
            track_connections: tracked,
        })
    }

    #[test]
    fn each_department_has_a_chain_that_ends_with_a_drop() {
        let text = text(12, true);
        let jumps = text.lines().filter(|line| line.contains(" -j dept_")).count();
        let drops = text.lines().filter(|line| {
            line.starts_with("-A dept_") && line.split(' ').skip(2).eq(["-j", "DROP"])
        });
        assert_eq!((jumps, drops.count()), (12, 12));
        assert_eq!(text.matches("-A blocked").count(), BLOCKED_NETWORK_COUNT);
    }

    #[test]
    fn without_tracking_no_rule_matches_a_conntrack_state() {
        let (with, without) = (text(3, true), text(3, false));
        assert!(with.contains("ctstate") && !with.contains("notrack"));
        assert!(!without.contains("ctstate") && without.contains("-j CT --notrack"));
        let after = |text: &str| text.split("-i eth1 -j outgoing").nth(1).map(str::to_owned);
        assert_eq!(after(&with), after(&without), "the rest is the same");
    }

    #[test]
    fn the_generated_text_is_parsed() {
        let parsed = weir_syntax::iptables::parse(&text(5, false), &Default::default());
        assert!(parsed.is_ok(), "{parsed:?}");
    }
}
