//! Rulesets by chance.
//!
//! The weights come from 176 published dumps with 119,507 rules: matches in the order mac, state,
//! tcp, multiport, udp, conntrack, limit, icmp; targets in the order DROP, RETURN, ACCEPT, LOG,
//! jump, none, REJECT. They are damped (about the square root of the counts), so that what is rare
//! there still comes by. Values are few, so that rules meet the same packets.

use std::fmt::Write as _;

use super::{TestRng, rare_modules};

/// What to write.
#[derive(Clone, Copy, Debug)]
pub struct RulesetShape {
    /// `ip6tables-save` instead of `iptables-save`.
    pub v6: bool,
    /// Rules of the filter table, about.
    pub rule_count: usize,
    /// Tests of a connection's state, and with them conntrack.
    pub ct_states: bool,
    /// Matches that only the kernel can answer (`limit`, `statistic`).
    pub opaque_matches: bool,
    /// Raw, mangle and nat tables, too.
    pub all_tables: bool,
    /// Every match and target that weir reads, and sets that change: see
    /// [`format_fixed_ipset_text`](super::format_fixed_ipset_text).
    pub rare_modules: bool,
}

impl RulesetShape {
    /// A shape by chance.
    pub fn random(rng: &mut TestRng, rules: usize) -> RulesetShape {
        RulesetShape {
            v6: rng.chance_percent(30),
            rule_count: 1 + rng.number_below(2 * rules),
            ct_states: rng.chance_percent(60),
            opaque_matches: rng.chance_percent(10),
            all_tables: rng.chance_percent(40),
            rare_modules: false,
        }
    }

    /// A shape by chance, wide where the seed says so.
    pub fn random_maybe_with_rare_modules(rng: &mut TestRng, rules: usize) -> RulesetShape {
        let wide = rng.chance_percent(60);
        let shape = RulesetShape { rare_modules: wide, ..RulesetShape::random(rng, rules) };
        RulesetShape {
            all_tables: shape.all_tables || wide,
            opaque_matches: shape.opaque_matches || wide && rng.chance_percent(30),
            ..shape
        }
    }
}

/// Text of `iptables-save`, the same for the same seed and shape.
pub fn generate_ruleset(seed: u64, shape: &RulesetShape) -> String {
    let mut w = RulesetWriter {
        rng: TestRng::new(seed),
        shape: *shape,
        text: String::new(),
        hashlimit_number: 0,
    };
    if shape.all_tables {
        w.write_raw_table();
        w.write_mangle_table();
        if shape.ct_states {
            w.write_nat_table();
        }
    }
    w.write_filter_table();
    w.text
}

struct RulesetWriter {
    rng: TestRng,
    shape: RulesetShape,
    text: String,
    /// Number of the last memory that has a name of its own.
    hashlimit_number: u32,
}

const IPV4_NETS: [&str; 14] = [
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

const IPV6_NETS: [&str; 8] = [
    "2001:db8::/32",
    "2001:db8:1::/48",
    "2001:db8:1:2::/64",
    "2001:db8:1:2::1/128",
    "2001:db8:1:2::2/128",
    "2001:db8:ff::/48",
    "2001:db8:ff::7/128",
    "2001:db8:aa::/47",
];

const PORT_RANGES: [&str; 9] =
    ["22", "25", "53", "80", "443", "0:1023", "1024:65535", "8000:8010", "135:139"];

const TCP_FLAG_OPERANDS: [&str; 6] = [
    "FIN,SYN,RST,ACK SYN",
    "SYN,ACK SYN,ACK",
    "FIN,SYN,RST,PSH,ACK,URG NONE",
    "RST RST",
    "FIN,SYN FIN,SYN",
    "ACK,URG URG",
];

/// Chains of the filter table that rules jump to; each may jump to later ones only.
const FILTER_USER_CHAINS: [&str; 4] = ["customers", "services", "Bad_ones", "last"];

impl RulesetWriter {
    fn write_table_header(&mut self, name: &str, chains: &[&str], users: &[&str]) {
        let _ = writeln!(self.text, "*{name}");
        for chain in chains {
            let policy =
                if name == "filter" && self.rng.chance_percent(40) { "DROP" } else { "ACCEPT" };
            let _ = writeln!(self.text, ":{chain} {policy} [0:0]");
        }
        for chain in users {
            let _ = writeln!(self.text, ":{chain} - [0:0]");
        }
    }

    fn write_commit(&mut self) {
        self.text.push_str("COMMIT\n");
    }

    fn write_filter_table(&mut self) {
        self.write_table_header("filter", &["INPUT", "FORWARD", "OUTPUT"], &FILTER_USER_CHAINS);
        let hooks = [(2, "INPUT"), (6, "FORWARD"), (2, "OUTPUT"), (2, FILTER_USER_CHAINS[0])];
        let users =
            [(2, FILTER_USER_CHAINS[1]), (2, FILTER_USER_CHAINS[2]), (1, FILTER_USER_CHAINS[3])];
        let places: Vec<(usize, &str)> = hooks.into_iter().chain(users).collect();
        let mut chain = "FORWARD";
        for _ in 0..self.shape.rule_count {
            // Runs of rules in one chain: that is what forms are made of.
            if self.rng.chance_percent(25) {
                chain = self.rng.pick_weighted(&places);
            }
            let conds = self.random_matches("filter", chain, true);
            let target = self.random_target(chain, &conds);
            let _ = writeln!(self.text, "-A {chain}{conds}{target}");
        }
        self.write_commit();
    }

    fn write_raw_table(&mut self) {
        self.write_table_header("raw", &["PREROUTING", "OUTPUT"], &[]);
        for _ in 0..self.rng.number_below(4) {
            let chain = self.rng.pick(&["PREROUTING", "PREROUTING", "OUTPUT"]);
            let mut conds = self.random_matches("raw", chain, false);
            if self.shape.rare_modules && self.rng.chance_percent(50) {
                let place = self.random_rule_context("raw", chain, self.shape.ct_states);
                let (asks, target) =
                    rare_modules::random_rare_target_and_match(&mut self.rng, &place);
                conds.push_str(asks);
                let _ = writeln!(self.text, "-A {chain}{conds}{target}");
                continue;
            }
            let weights = [(3, " -j DROP"), (2, " -j ACCEPT"), (1, "")];
            let mut target = self.rng.pick_weighted(&weights);
            if self.shape.ct_states && self.rng.chance_percent(20) {
                target = " -j CT --notrack";
            }
            let _ = writeln!(self.text, "-A {chain}{conds}{target}");
        }
        self.write_commit();
    }

    fn write_mangle_table(&mut self) {
        let chains = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];
        self.write_table_header("mangle", &chains, &[]);
        for _ in 0..self.rng.number_below(if self.shape.rare_modules { 14 } else { 5 }) {
            // A changed packet is routed again in OUTPUT.
            let chain = self.rng.pick(&["PREROUTING", "FORWARD", "FORWARD", "POSTROUTING"]);
            if self.shape.rare_modules && self.rng.chance_percent(60) {
                self.write_rare_target_mangle_rule(chain);
                continue;
            }
            let conds = self.random_matches("mangle", chain, true);
            let targets = [
                (4, " -j MARK --set-xmark 0x1/0xffffffff"),
                (2, " -j MARK --set-xmark 0x10/0xf0"),
                (1, " -j TOS --set-tos 0x10/0xff"),
                (1, " -j DSCP --set-dscp 0x2e"),
                (1, " -j DROP"),
                (1, " -j ACCEPT"),
                (1, ""),
            ];
            let target = self.rng.pick_weighted(&targets);
            let _ = writeln!(self.text, "-A {chain}{conds}{target}");
        }
        self.write_commit();
    }

    fn write_nat_table(&mut self) {
        self.write_table_header("nat", &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"], &[]);
        let to = if self.shape.v6 { "2001:db8:ff::7" } else { "198.51.100.7" };
        if self.rng.chance_percent(60) {
            let conds = self.random_matches("nat", "POSTROUTING", true);
            let _ = writeln!(self.text, "-A POSTROUTING{conds} -j SNAT --to-source {to}");
        }
        for _ in 0..if self.shape.rare_modules { self.rng.number_below(3) } else { 0 } {
            let (chain, target) =
                rare_modules::random_nat_chain_and_target(&mut self.rng, self.shape.v6);
            let conds = self.random_matches("nat", chain, true);
            let _ = writeln!(self.text, "-A {chain}{conds}{target}");
        }
        self.write_commit();
    }

    /// A target of mangle, with its own protocol where it wants one.
    fn write_rare_target_mangle_rule(&mut self, chain: &str) {
        let place = self.random_rule_context("mangle", chain, self.shape.ct_states);
        let (asks, target) = rare_modules::random_rare_target_and_match(&mut self.rng, &place);
        let conds = match asks {
            "" => self.random_matches("mangle", chain, true),
            asks => asks.to_owned(),
        };
        let _ = writeln!(self.text, "-A {chain}{conds}{target}");
    }

    fn random_rule_context<'p>(
        &self,
        table: &'p str,
        chain: &'p str,
        states: bool,
    ) -> rare_modules::RandomRulePlace<'p> {
        let RulesetShape { v6, opaque_matches: opaque, .. } = self.shape;
        rare_modules::RandomRulePlace {
            table,
            chain,
            v6,
            conntrack_allowed: states && self.shape.ct_states,
            opaque_allowed: opaque,
        }
    }

    fn random_negation(&mut self) -> &'static str {
        if self.rng.chance_percent(8) { " !" } else { "" }
    }

    fn random_net(&mut self) -> &'static str {
        if self.shape.v6 { self.rng.pick(&IPV6_NETS) } else { self.rng.pick(&IPV4_NETS) }
    }

    /// What a rule tests, with a blank before each word.
    fn random_matches(&mut self, table: &str, chain: &str, states: bool) -> String {
        let mut out = String::new();
        let (ins, outs) = match chain {
            "PREROUTING" | "INPUT" => (true, false),
            "OUTPUT" | "POSTROUTING" => (false, true),
            "FORWARD" => (true, true),
            _ => (false, false),
        };
        if self.rng.chance_percent(35) {
            let _ = write!(out, "{} -s {}", self.random_negation(), self.random_net());
        }
        if self.rng.chance_percent(25) {
            let _ = write!(out, "{} -d {}", self.random_negation(), self.random_net());
        }
        let devices = ["eth0", "eth1", "eth+"];
        if ins && self.rng.chance_percent(12) {
            let _ = write!(out, "{} -i {}", self.random_negation(), self.rng.pick(&devices));
        }
        if outs && self.rng.chance_percent(10) {
            let _ = write!(out, "{} -o {}", self.random_negation(), self.rng.pick(&devices));
        }
        if !self.shape.v6 && !self.shape.ct_states && self.rng.chance_percent(3) {
            let _ = write!(out, "{} -f", self.random_negation());
        }
        let place = self.random_rule_context(table, chain, states);
        match self.shape.rare_modules && self.rng.chance_percent(20) {
            true => out.push_str(&rare_modules::random_rare_protocol_match(&mut self.rng, &place)),
            false => self.append_protocol_match(&mut out),
        }
        if states && self.shape.ct_states && self.rng.chance_percent(25) {
            let states = ["NEW", "ESTABLISHED", "RELATED,ESTABLISHED", "INVALID", "INVALID,NEW"];
            let not = self.random_negation();
            let state = self.rng.pick(&states);
            let _ = write!(out, " -m conntrack{not} --ctstate {state}");
        }
        if ins && chain != "OUTPUT" && self.rng.chance_percent(10) {
            let mac = self.rng.number_below(3);
            let _ =
                write!(out, " -m mac{} --mac-source 02:00:00:00:00:0{mac}", self.random_negation());
        }
        self.append_uncommon_match_by_chance(&mut out);
        if self.shape.rare_modules && self.rng.chance_percent(18) {
            let place = self.random_rule_context(table, chain, states);
            out.push_str(&rare_modules::random_protocolless_match(
                &mut self.rng,
                &place,
                &mut self.hashlimit_number,
            ));
        }
        out
    }

    fn append_protocol_match(&mut self, out: &mut String) {
        let (icmp, module, option) =
            if self.shape.v6 { ("ipv6-icmp", "icmp6", "icmpv6") } else { ("icmp", "icmp", "icmp") };
        let kinds =
            [(30, "none"), (24, "tcp"), (18, "udp"), (14, "multiport"), (5, "icmp"), (1, "sctp")];
        match self.rng.pick_weighted(&kinds) {
            "none" => {}
            "multiport" => {
                let proto = self.rng.pick(&["tcp", "udp"]);
                let which = self.rng.pick(&["dports", "dports", "sports", "ports"]);
                let ports = self.rng.pick(&["22,80,443", "25,53,8000:8010", "0:1023,8080"]);
                let _ = write!(
                    out,
                    " -p {proto} -m multiport{} --{which} {ports}",
                    self.random_negation()
                );
            }
            "icmp" => {
                let _ = write!(out, " -p {icmp}");
                if self.rng.chance_percent(80) {
                    let v4 = ["8", "0", "3/4", "11", "3"];
                    let v6 = ["128", "129", "1/4", "135", "2"];
                    let kind = self.rng.pick(if self.shape.v6 { &v6 } else { &v4 });
                    let _ = write!(
                        out,
                        " -m {module}{} --{option}-type {kind}",
                        self.random_negation()
                    );
                }
            }
            proto => {
                let _ = write!(
                    out,
                    "{} -p {proto}",
                    if self.rng.chance_percent(2) { " !" } else { "" }
                );
                if out.ends_with(&format!(" ! -p {proto}")) || self.rng.chance_percent(15) {
                    return;
                }
                let _ = write!(out, " -m {proto}");
                if self.rng.chance_percent(25) {
                    let _ = write!(
                        out,
                        "{} --sport {}",
                        self.random_negation(),
                        self.rng.pick(&PORT_RANGES)
                    );
                }
                if self.rng.chance_percent(75) {
                    let _ = write!(
                        out,
                        "{} --dport {}",
                        self.random_negation(),
                        self.rng.pick(&PORT_RANGES)
                    );
                }
                if proto == "tcp" && self.rng.chance_percent(20) {
                    let _ = write!(
                        out,
                        "{} --tcp-flags {}",
                        self.random_negation(),
                        self.rng.pick(&TCP_FLAG_OPERANDS)
                    );
                }
            }
        }
    }

    fn append_uncommon_match_by_chance(&mut self, out: &mut String) {
        if !self.rng.chance_percent(8) {
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
        if self.shape.opaque_matches {
            all.push((6, " -m limit --limit 3/hour --limit-burst 4"));
            all.push((2, " -m statistic --mode nth --every 3 --packet 0"));
        }
        out.push_str(self.rng.pick_weighted(&all));
    }

    /// What a rule does, with a blank before it.
    fn random_target(&mut self, chain: &str, conds: &str) -> String {
        let later = FILTER_USER_CHAINS.iter().position(|c| *c == chain).map_or(0, |i| i + 1);
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
        match self.rng.pick_weighted(&kinds) {
            "none" => String::new(),
            "jump" | "goto" if later >= FILTER_USER_CHAINS.len() => " -j DROP".into(),
            "jump" => format!(" -j {}", self.rng.pick(&FILTER_USER_CHAINS[later..])),
            "goto" => format!(" -g {}", self.rng.pick(&FILTER_USER_CHAINS[later..])),
            "REJECT"
                if conds.contains(" -p tcp")
                    && !conds.contains("! -p")
                    && self.rng.chance_percent(50) =>
            {
                " -j REJECT --reject-with tcp-reset".into()
            }
            "LOG" => format!(" -j LOG --log-prefix \"{} \"", self.rng.pick(&["in", "bad"])),
            plain => format!(" -j {plain}"),
        }
    }
}
