//! Rulesets by chance.
//!
//! The weights come from 176 published dumps with 119,507 rules: matches in the order mac, state,
//! tcp, multiport, udp, conntrack, limit, icmp; targets in the order DROP, RETURN, ACCEPT, LOG,
//! jump, none, REJECT. They are damped (about the square root of the counts), so that what is rare
//! there still comes by. Values are few, so that rules meet the same packets.

use std::fmt::Write as _;

use super::{TestRng, wide};

/// What to write.
#[derive(Clone, Copy, Debug)]
pub struct RulesShape {
    /// `ip6tables-save` instead of `iptables-save`.
    pub v6: bool,
    /// Rules of the filter table, about.
    pub rules: usize,
    /// Tests of a connection's state, and with them conntrack.
    pub states: bool,
    /// Matches that only the kernel can answer (`limit`, `statistic`).
    pub opaque: bool,
    /// Raw, mangle and nat tables, too.
    pub tables: bool,
    /// Every match and target that weir reads, and sets that change: see [`sets`](super::sets).
    pub wide: bool,
}

impl RulesShape {
    /// A shape by chance.
    pub fn random(rng: &mut TestRng, rules: usize) -> RulesShape {
        RulesShape {
            v6: rng.chance(30),
            rules: 1 + rng.below(2 * rules),
            states: rng.chance(60),
            opaque: rng.chance(10),
            tables: rng.chance(40),
            wide: false,
        }
    }

    /// A shape by chance, wide where the seed says so.
    pub fn random_wide(rng: &mut TestRng, rules: usize) -> RulesShape {
        let wide = rng.chance(60);
        let shape = RulesShape { wide, ..RulesShape::random(rng, rules) };
        RulesShape {
            tables: shape.tables || wide,
            opaque: shape.opaque || wide && rng.chance(30),
            ..shape
        }
    }
}

/// Text of `iptables-save`, the same for the same seed and shape.
pub fn ruleset(seed: u64, shape: &RulesShape) -> String {
    let mut w = Writer { rng: TestRng::new(seed), shape: *shape, text: String::new(), number: 0 };
    if shape.tables {
        w.raw();
        w.mangle();
        if shape.states {
            w.nat();
        }
    }
    w.filter();
    w.text
}

struct Writer {
    rng: TestRng,
    shape: RulesShape,
    text: String,
    /// Number of the last memory that has a name of its own.
    number: u32,
}

const V4: [&str; 14] = [
    "192.0.2.0/24",
    "192.0.2.0/25",
    "192.0.2.64/26",
    "192.0.2.1/32",
    "192.0.2.2/32",
    "192.0.2.77/32",
    "198.51.100.0/24",
    "198.51.100.7/32",
    "198.51.100.128/25",
    "203.0.113.0/28",
    "203.0.113.9/32",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.0.1.0/255.0.255.0",
];

const V6: [&str; 8] = [
    "2001:db8::/32",
    "2001:db8:1::/48",
    "2001:db8:1:2::/64",
    "2001:db8:1:2::1/128",
    "2001:db8:1:2::2/128",
    "2001:db8:ff::/48",
    "2001:db8:ff::7/128",
    "2001:db8:aa::/47",
];

const PORTS: [&str; 9] =
    ["22", "25", "53", "80", "443", "0:1023", "1024:65535", "8000:8010", "135:139"];

const FLAGS: [&str; 6] = [
    "FIN,SYN,RST,ACK SYN",
    "SYN,ACK SYN,ACK",
    "FIN,SYN,RST,PSH,ACK,URG NONE",
    "RST RST",
    "FIN,SYN FIN,SYN",
    "ACK,URG URG",
];

/// Chains of the filter table that rules jump to; each may jump to later ones only.
const CHAINS: [&str; 4] = ["customers", "services", "Bad_ones", "last"];

impl Writer {
    fn table(&mut self, name: &str, chains: &[&str], users: &[&str]) {
        let _ = writeln!(self.text, "*{name}");
        for chain in chains {
            let policy = if name == "filter" && self.rng.chance(40) { "DROP" } else { "ACCEPT" };
            let _ = writeln!(self.text, ":{chain} {policy} [0:0]");
        }
        for chain in users {
            let _ = writeln!(self.text, ":{chain} - [0:0]");
        }
    }

    fn commit(&mut self) {
        self.text.push_str("COMMIT\n");
    }

    fn filter(&mut self) {
        self.table("filter", &["INPUT", "FORWARD", "OUTPUT"], &CHAINS);
        let hooks = [(2, "INPUT"), (6, "FORWARD"), (2, "OUTPUT"), (2, CHAINS[0])];
        let users = [(2, CHAINS[1]), (2, CHAINS[2]), (1, CHAINS[3])];
        let places: Vec<(usize, &str)> = hooks.into_iter().chain(users).collect();
        let mut chain = "FORWARD";
        for _ in 0..self.shape.rules {
            // Runs of rules in one chain: that is what forms are made of.
            if self.rng.chance(25) {
                chain = self.rng.weighted(&places);
            }
            let conds = self.conds("filter", chain, true);
            let target = self.target(chain, &conds);
            let _ = writeln!(self.text, "-A {chain}{conds}{target}");
        }
        self.commit();
    }

    fn raw(&mut self) {
        self.table("raw", &["PREROUTING", "OUTPUT"], &[]);
        for _ in 0..self.rng.below(4) {
            let chain = self.rng.pick(&["PREROUTING", "PREROUTING", "OUTPUT"]);
            let mut conds = self.conds("raw", chain, false);
            if self.shape.wide && self.rng.chance(50) {
                let place = self.place("raw", chain, self.shape.states);
                let (asks, target) = wide::target(&mut self.rng, &place);
                conds.push_str(asks);
                let _ = writeln!(self.text, "-A {chain}{conds}{target}");
                continue;
            }
            let weights = [(3, " -j DROP"), (2, " -j ACCEPT"), (1, "")];
            let mut target = self.rng.weighted(&weights);
            if self.shape.states && self.rng.chance(20) {
                target = " -j CT --notrack";
            }
            let _ = writeln!(self.text, "-A {chain}{conds}{target}");
        }
        self.commit();
    }

    fn mangle(&mut self) {
        let chains = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];
        self.table("mangle", &chains, &[]);
        for _ in 0..self.rng.below(if self.shape.wide { 14 } else { 5 }) {
            // A changed packet is routed again in OUTPUT.
            let chain = self.rng.pick(&["PREROUTING", "FORWARD", "FORWARD", "POSTROUTING"]);
            if self.shape.wide && self.rng.chance(60) {
                self.wide_rule(chain);
                continue;
            }
            let conds = self.conds("mangle", chain, true);
            let targets = [
                (4, " -j MARK --set-xmark 0x1/0xffffffff"),
                (2, " -j MARK --set-xmark 0x10/0xf0"),
                (1, " -j TOS --set-tos 0x10/0xff"),
                (1, " -j DSCP --set-dscp 0x2e"),
                (1, " -j DROP"),
                (1, " -j ACCEPT"),
                (1, ""),
            ];
            let target = self.rng.weighted(&targets);
            let _ = writeln!(self.text, "-A {chain}{conds}{target}");
        }
        self.commit();
    }

    fn nat(&mut self) {
        self.table("nat", &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"], &[]);
        let to = if self.shape.v6 { "2001:db8:ff::7" } else { "198.51.100.7" };
        if self.rng.chance(60) {
            let conds = self.conds("nat", "POSTROUTING", true);
            let _ = writeln!(self.text, "-A POSTROUTING{conds} -j SNAT --to-source {to}");
        }
        for _ in 0..if self.shape.wide { self.rng.below(3) } else { 0 } {
            let (chain, target) = wide::nat(&mut self.rng, self.shape.v6);
            let conds = self.conds("nat", chain, true);
            let _ = writeln!(self.text, "-A {chain}{conds}{target}");
        }
        self.commit();
    }

    /// A target of mangle, with its own protocol where it wants one.
    fn wide_rule(&mut self, chain: &str) {
        let place = self.place("mangle", chain, self.shape.states);
        let (asks, target) = wide::target(&mut self.rng, &place);
        let conds = match asks {
            "" => self.conds("mangle", chain, true),
            asks => asks.to_owned(),
        };
        let _ = writeln!(self.text, "-A {chain}{conds}{target}");
    }

    fn place<'p>(&self, table: &'p str, chain: &'p str, states: bool) -> wide::Place<'p> {
        let RulesShape { v6, opaque, .. } = self.shape;
        wide::Place { table, chain, v6, states: states && self.shape.states, opaque }
    }

    fn not(&mut self) -> &'static str {
        if self.rng.chance(8) { " !" } else { "" }
    }

    fn net(&mut self) -> &'static str {
        if self.shape.v6 { self.rng.pick(&V6) } else { self.rng.pick(&V4) }
    }

    /// What a rule tests, with a blank before each word.
    fn conds(&mut self, table: &str, chain: &str, states: bool) -> String {
        let mut out = String::new();
        let (ins, outs) = match chain {
            "PREROUTING" | "INPUT" => (true, false),
            "OUTPUT" | "POSTROUTING" => (false, true),
            "FORWARD" => (true, true),
            _ => (false, false),
        };
        if self.rng.chance(35) {
            let _ = write!(out, "{} -s {}", self.not(), self.net());
        }
        if self.rng.chance(25) {
            let _ = write!(out, "{} -d {}", self.not(), self.net());
        }
        let devices = ["eth0", "eth1", "eth+"];
        if ins && self.rng.chance(12) {
            let _ = write!(out, "{} -i {}", self.not(), self.rng.pick(&devices));
        }
        if outs && self.rng.chance(10) {
            let _ = write!(out, "{} -o {}", self.not(), self.rng.pick(&devices));
        }
        if !self.shape.v6 && !self.shape.states && self.rng.chance(3) {
            let _ = write!(out, "{} -f", self.not());
        }
        let place = self.place(table, chain, states);
        match self.shape.wide && self.rng.chance(20) {
            true => out.push_str(&wide::protocol(&mut self.rng, &place)),
            false => self.protocol(&mut out),
        }
        if states && self.shape.states && self.rng.chance(25) {
            let states = ["NEW", "ESTABLISHED", "RELATED,ESTABLISHED", "INVALID", "INVALID,NEW"];
            let not = self.not();
            let state = self.rng.pick(&states);
            let _ = write!(out, " -m conntrack{not} --ctstate {state}");
        }
        if ins && chain != "OUTPUT" && self.rng.chance(10) {
            let mac = self.rng.below(3);
            let _ = write!(out, " -m mac{} --mac-source 02:00:00:00:00:0{mac}", self.not());
        }
        self.rare(&mut out);
        if self.shape.wide && self.rng.chance(18) {
            let place = self.place(table, chain, states);
            out.push_str(&wide::any(&mut self.rng, &place, &mut self.number));
        }
        out
    }

    fn protocol(&mut self, out: &mut String) {
        let (icmp, module, option) =
            if self.shape.v6 { ("ipv6-icmp", "icmp6", "icmpv6") } else { ("icmp", "icmp", "icmp") };
        let kinds =
            [(30, "none"), (24, "tcp"), (18, "udp"), (14, "multiport"), (5, "icmp"), (1, "sctp")];
        match self.rng.weighted(&kinds) {
            "none" => {}
            "multiport" => {
                let proto = self.rng.pick(&["tcp", "udp"]);
                let which = self.rng.pick(&["dports", "dports", "sports", "ports"]);
                let ports = self.rng.pick(&["22,80,443", "25,53,8000:8010", "0:1023,8080"]);
                let _ = write!(out, " -p {proto} -m multiport{} --{which} {ports}", self.not());
            }
            "icmp" => {
                let _ = write!(out, " -p {icmp}");
                if self.rng.chance(80) {
                    let v4 = ["8", "0", "3/4", "11", "3"];
                    let v6 = ["128", "129", "1/4", "135", "2"];
                    let kind = self.rng.pick(if self.shape.v6 { &v6 } else { &v4 });
                    let _ = write!(out, " -m {module}{} --{option}-type {kind}", self.not());
                }
            }
            proto => {
                let _ = write!(out, "{} -p {proto}", if self.rng.chance(2) { " !" } else { "" });
                if out.ends_with(&format!(" ! -p {proto}")) || self.rng.chance(15) {
                    return;
                }
                let _ = write!(out, " -m {proto}");
                if self.rng.chance(25) {
                    let _ = write!(out, "{} --sport {}", self.not(), self.rng.pick(&PORTS));
                }
                if self.rng.chance(75) {
                    let _ = write!(out, "{} --dport {}", self.not(), self.rng.pick(&PORTS));
                }
                if proto == "tcp" && self.rng.chance(20) {
                    let _ = write!(out, "{} --tcp-flags {}", self.not(), self.rng.pick(&FLAGS));
                }
            }
        }
    }

    fn rare(&mut self, out: &mut String) {
        if !self.rng.chance(8) {
            return;
        }
        let hl = if self.shape.v6 { " -m hl --hl-lt 10" } else { " -m ttl --ttl-lt 10" };
        let range = if self.shape.v6 {
            " -m iprange --src-range 2001:db8:1:2::1-2001:db8:1:2::9"
        } else {
            " -m iprange --src-range 192.0.2.1-192.0.2.66"
        };
        let mut all = vec![
            (4, " -m comment --comment \"no more than this\""),
            (3, " -m mark --mark 0x1"),
            (2, " -m mark ! --mark 0x10/0xf0"),
            (2, hl),
            (2, range),
            (2, " -m length --length 0:100"),
            (1, " -m length ! --length 40:60"),
            (1, " -m dscp --dscp 0x2e"),
            (1, " -m tos --tos 0x10/0x3f"),
        ];
        if self.shape.opaque {
            all.push((6, " -m limit --limit 3/hour --limit-burst 4"));
            all.push((2, " -m statistic --mode nth --every 3 --packet 0"));
        }
        out.push_str(self.rng.weighted(&all));
    }

    /// What a rule does, with a blank before it.
    fn target(&mut self, chain: &str, conds: &str) -> String {
        let later = CHAINS.iter().position(|c| *c == chain).map_or(0, |i| i + 1);
        let kinds = [
            (20, "DROP"),
            (10, "RETURN"),
            (18, "ACCEPT"),
            (5, "LOG"),
            (10, "jump"),
            (6, "none"),
            (4, "REJECT"),
            (2, "goto"),
        ];
        match self.rng.weighted(&kinds) {
            "none" => String::new(),
            "jump" | "goto" if later >= CHAINS.len() => " -j DROP".into(),
            "jump" => format!(" -j {}", self.rng.pick(&CHAINS[later..])),
            "goto" => format!(" -g {}", self.rng.pick(&CHAINS[later..])),
            "REJECT"
                if conds.contains(" -p tcp") && !conds.contains("! -p") && self.rng.chance(50) =>
            {
                " -j REJECT --reject-with tcp-reset".into()
            }
            "LOG" => format!(" -j LOG --log-prefix \"{} \"", self.rng.pick(&["in", "bad"])),
            plain => format!(" -j {plain}"),
        }
    }
}
