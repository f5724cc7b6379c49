//! Rulesets of a shape and a size: the same for the same size, everywhere.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use weir_example::{ServicesOptions, generate_services_ruleset};
use weir_testkit::random_ruleset::TestRng;

/// What a ruleset consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleShape {
    /// A list of hosts.
    Addresses,
    /// A list of prefixes, each with some of destination, device and port.
    MixedFields,
    /// A list in which each rule tests a host, a device and a port.
    AddressPortDevice,
    /// A list of lists of ports, without an address.
    Multiport,
    /// A list of lists of ports, each either the source or the destination.
    EitherPort,
    /// The same, each with a host.
    AddressEitherPort,
    /// A list in which each rule tests a network, a port and flags of TCP.
    AddressPortFlags,
    /// A chain for each of many networks.
    Chains,
    /// A rule with a set of many hosts.
    SetElements,
    /// Chains of kube-proxy; the size is the number of services.
    Services,
    /// Limited LOG rules in a row.
    LimitedLogs,
}

/// The texts of a ruleset.
pub struct ScaleRuleset {
    /// `iptables-save`.
    pub rules: String,
    /// `ipset save`.
    pub sets: Option<String>,
}

impl ScaleShape {
    /// All of them.
    pub const ALL: [ScaleShape; 11] = [
        ScaleShape::Addresses,
        ScaleShape::MixedFields,
        ScaleShape::AddressPortDevice,
        ScaleShape::Multiport,
        ScaleShape::EitherPort,
        ScaleShape::AddressEitherPort,
        ScaleShape::AddressPortFlags,
        ScaleShape::Chains,
        ScaleShape::SetElements,
        ScaleShape::Services,
        ScaleShape::LimitedLogs,
    ];

    /// The largest size that is measured: what issue and documentation name.
    pub fn largest_size(self) -> usize {
        match self {
            ScaleShape::SetElements => 1_000_000,
            ScaleShape::Chains => 50_000,
            ScaleShape::Services => 4_000,
            ScaleShape::LimitedLogs => 2_000,
            _ => 200_000,
        }
    }

    /// The ruleset of a size.
    pub fn generate_ruleset(self, size: usize) -> ScaleRuleset {
        let mut rng = TestRng::new(1);
        let sets = (self == ScaleShape::SetElements).then(|| write_set(size, &mut rng));
        if self == ScaleShape::Services {
            let rules = generate_services_ruleset(&ServicesOptions { count: size, seed: 1 });
            return ScaleRuleset { rules, sets };
        }
        let (mut chains, mut rules) = (String::new(), String::new());
        match self {
            ScaleShape::SetElements => {
                rules += "-A FORWARD -m set --match-set hosts src -j DROP\n";
            }
            ScaleShape::Chains => {
                for n in 0..size {
                    let _ = writeln!(chains, ":c{n} - [0:0]");
                    let network = Ipv4Addr::from(0x0a00_0000 | (n as u32) << 8);
                    let _ = writeln!(rules, "-A FORWARD -s {network}/24 -j c{n}");
                    let port = 1 + n % 65_000;
                    let _ = writeln!(rules, "-A c{n} -p tcp -m tcp --dport {port} -j ACCEPT");
                    let _ = writeln!(rules, "-A c{n} -j DROP");
                }
            }
            _ => {
                for n in 0..size {
                    let _ = writeln!(rules, "-A FORWARD {}", self.write_rule(n, &mut rng));
                }
            }
        }
        let head = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n";
        ScaleRuleset { rules: format!("{head}{chains}{rules}COMMIT\n"), sets }
    }

    fn write_rule(self, number: usize, rng: &mut TestRng) -> String {
        match self {
            ScaleShape::MixedFields => write_mixed_rule(rng),
            ScaleShape::AddressPortDevice => {
                let host = Ipv4Addr::from(1 + rng.next_u64() as u32 / 2);
                let (device, protocol) = (rng.number_below(4), rng.pick(&["tcp", "udp"]));
                let (port, target) = (1 + rng.number_below(65_000), rng.pick(&["ACCEPT", "DROP"]));
                format!(
                    "-s {host}/32 -i eth{device} -p {protocol} -m {protocol} --dport {port} -j {target}"
                )
            }
            ScaleShape::Multiport => {
                let count = 2 + rng.number_below(14);
                let ports = write_port_list(count, rng);
                let (protocol, target) = (rng.pick(&["tcp", "udp"]), rng.pick(&["ACCEPT", "DROP"]));
                format!("-p {protocol} -m multiport --dports {ports} -j {target}")
            }
            ScaleShape::EitherPort | ScaleShape::AddressEitherPort => {
                let source = match self {
                    ScaleShape::EitherPort => String::new(),
                    _ => format!("-s {}/32 ", Ipv4Addr::from(1 + rng.next_u64() as u32 / 2)),
                };
                let (ports, target) = (write_port_list(15, rng), rng.pick(&["ACCEPT", "DROP"]));
                format!("{source}-p tcp -m multiport --ports {ports} -j {target}")
            }
            ScaleShape::AddressPortFlags => {
                let network = Ipv4Addr::from(0x0a00_0000 | (rng.next_u64() as u32 & 0x00ff_ff00));
                let (port, target) = (1 + rng.number_below(65_000), rng.pick(&["ACCEPT", "DROP"]));
                let flags = write_tcp_flags(rng);
                format!(
                    "-s {network}/24 -p tcp -m tcp --dport {port} --tcp-flags {flags} -j {target}"
                )
            }
            ScaleShape::LimitedLogs => {
                format!("-m limit --limit 5/min -j LOG --log-prefix \"n{number} \"")
            }
            // Shuffled, so that no order helps.
            _ => {
                let host = 0x0a00_0000 | ((number as u32).wrapping_mul(48_271) % 0x0100_0000);
                format!("-s {}/32 -j DROP", Ipv4Addr::from(host))
            }
        }
    }
}

/// At most so many ports, sorted.
fn write_port_list(count: usize, rng: &mut TestRng) -> String {
    let ports: std::collections::BTreeSet<usize> =
        (0..count).map(|_| 1 + rng.number_below(65_000)).collect();
    ports.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// The flags that are tested, at least one, and those of them that are set.
fn write_tcp_flags(rng: &mut TestRng) -> String {
    let mask = 1 + rng.number_below(63);
    let set = mask & rng.number_below(64);
    let names = |bits: usize| -> String {
        let all = ["FIN", "SYN", "RST", "PSH", "ACK", "URG"].into_iter().enumerate();
        let named = all.filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| name);
        named.collect::<Vec<_>>().join(",")
    };
    let set = match set {
        0 => "NONE".to_owned(),
        some => names(some),
    };
    format!("{} {set}", names(mask))
}

fn write_mixed_rule(rng: &mut TestRng) -> String {
    let length = rng.pick(&[32, 32, 28, 24]);
    let source = Ipv4Addr::from((rng.next_u64() as u32) & (u32::MAX << (32 - length)));
    let mut rule = format!("-s {source}/{length}");
    if rng.chance_percent(30) {
        let _ = write!(rule, " -d 192.0.2.{}/32", rng.number_below(256));
    }
    if rng.chance_percent(30) {
        let _ = write!(rule, " -i eth{}", rng.number_below(4));
    }
    if rng.chance_percent(60) {
        let (protocol, port) = (rng.pick(&["tcp", "udp"]), 1 + rng.number_below(65_000));
        let _ = write!(rule, " -p {protocol} -m {protocol} --dport {port}");
    }
    format!("{rule} -j {}", rng.pick(&["ACCEPT", "DROP", "RETURN"]))
}

fn write_set(size: usize, rng: &mut TestRng) -> String {
    let mut text = format!("create hosts hash:ip family inet hashsize 1024 maxelem {size}\n");
    let mut hosts = std::collections::BTreeSet::new();
    while hosts.len() < size {
        hosts.insert(1 + rng.next_u64() as u32 / 2);
    }
    for host in hosts {
        let _ = writeln!(text, "add hosts {}", Ipv4Addr::from(host));
    }
    text
}
