//! Rulesets that make proofs expensive, as text: the same for the same seed, everywhere.
//!
//! A ruleset has one to three [shapes](AdversarialShape), each of a random size. Every shape is one
//! that made proofs or checks take too long, or could: what multiplies outcomes (stateful and
//! opaque tests followed by effects, marks that later rules test, chains that fan out), and what
//! makes diagrams large (many fields, negated lists of ports, sets, translated addresses).

use std::fmt::Write as _;

use crate::random_ruleset::TestRng;

/// A kind of rules that makes proofs expensive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdversarialShape {
    /// Limited LOG rules in a row.
    LimitedLogs,
    /// Marks after `limit` and `statistic`.
    LimitedMarks,
    /// Marks after two u32 tests.
    U32Marks,
    /// Chains that each lead to two others, after tests of marks and u32, and change marks.
    MarkJumpsToNextTwoChains,
    /// Negated multiport tests of fifteen ports.
    NegatedMultiports,
    /// Rules over many fields, with overlapping values.
    ManyFields,
    /// Tests of sets that rules change.
    ChangingSets,
    /// Chains that each jump twice to the next one.
    TwiceJumpedChains,
    /// Translations whose results later rules test.
    Nat,
    /// Marks of packets and connections, copied and flipped, and the time to live.
    CopiedMarks,
    /// Stateful tests of other modules in front of verdicts.
    StatefulVerdicts,
}

impl AdversarialShape {
    /// All of them.
    pub const ALL: [AdversarialShape; 11] = [
        AdversarialShape::LimitedLogs,
        AdversarialShape::LimitedMarks,
        AdversarialShape::U32Marks,
        AdversarialShape::MarkJumpsToNextTwoChains,
        AdversarialShape::NegatedMultiports,
        AdversarialShape::ManyFields,
        AdversarialShape::ChangingSets,
        AdversarialShape::TwiceJumpedChains,
        AdversarialShape::Nat,
        AdversarialShape::CopiedMarks,
        AdversarialShape::StatefulVerdicts,
    ];
}

/// A generated ruleset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdversarialRuleset {
    /// What is in it: shape and size.
    pub shapes: Vec<(AdversarialShape, usize)>,
    /// `iptables-save` text.
    pub iptables_save_text: String,
    /// `ipset save` text.
    pub ipset_save_text: String,
}

/// The ruleset of a seed. No shape has more than `size_max` rules or chains.
pub fn generate_adversarial_ruleset(seed: u64, size_max: usize) -> AdversarialRuleset {
    let mut rng = TestRng::new(seed);
    let count = rng.pick_weighted(&[(6, 1), (3, 2), (1, 3)]);
    let shapes = (0..count).map(|_| {
        let shape = rng.pick(&AdversarialShape::ALL);
        // Small sizes as often as large ones.
        let limit = size_max >> rng.number_below(6);
        (shape, 1 + rng.number_below(limit.max(1)))
    });
    let shapes: Vec<_> = shapes.collect();
    write_adversarial_ruleset(&shapes, rng)
}

/// A ruleset of one shape, with that many rules or chains.
pub fn generate_adversarial_shape(shape: AdversarialShape, size: usize) -> AdversarialRuleset {
    write_adversarial_ruleset(&[(shape, size)], TestRng::new(1))
}

fn write_adversarial_ruleset(
    shapes: &[(AdversarialShape, usize)],
    rng: TestRng,
) -> AdversarialRuleset {
    let mut writer = ShapeWriter {
        rng,
        tables: Default::default(),
        ipset_save_text: String::new(),
        next_chain_number: 0,
    };
    for (shape, size) in shapes {
        writer.write_shape(*shape, *size);
    }
    let mut iptables_save_text = String::new();
    for (table, builtin) in TABLES_AND_BUILTIN_CHAINS.iter().enumerate() {
        let TableLines { chain_declarations, rule_lines: lines } = &writer.tables[table];
        if lines.is_empty() {
            continue;
        }
        let (name, builtin) = builtin;
        let _ = writeln!(iptables_save_text, "*{name}");
        for chain in *builtin {
            let _ = writeln!(iptables_save_text, ":{chain} ACCEPT [0:0]");
        }
        let _ = writeln!(iptables_save_text, "{chain_declarations}{lines}COMMIT");
    }
    AdversarialRuleset {
        shapes: shapes.to_vec(),
        iptables_save_text,
        ipset_save_text: writer.ipset_save_text,
    }
}

/// The tables that are written, with their built-in chains.
const TABLES_AND_BUILTIN_CHAINS: [(&str, &[&str]); 3] = [
    ("mangle", &["PREROUTING", "FORWARD"]),
    ("nat", &["PREROUTING", "POSTROUTING"]),
    ("filter", &["INPUT", "FORWARD"]),
];
const MANGLE_TABLE_INDEX: usize = 0;
const NAT_TABLE_INDEX: usize = 1;
const FILTER_TABLE_INDEX: usize = 2;

#[derive(Default)]
struct TableLines {
    chain_declarations: String,
    rule_lines: String,
}

struct ShapeWriter {
    rng: TestRng,
    tables: [TableLines; TABLES_AND_BUILTIN_CHAINS.len()],
    ipset_save_text: String,
    /// Number of the next chain.
    next_chain_number: usize,
}

impl ShapeWriter {
    fn write_shape(&mut self, shape: AdversarialShape, size: usize) {
        match shape {
            AdversarialShape::LimitedLogs => {
                self.append_generated_rules(size, FILTER_TABLE_INDEX, ShapeWriter::limited_log_rule)
            }
            AdversarialShape::LimitedMarks => self.append_generated_rules(
                size,
                MANGLE_TABLE_INDEX,
                ShapeWriter::limited_mark_rule,
            ),
            AdversarialShape::U32Marks => {
                self.append_generated_rules(size, MANGLE_TABLE_INDEX, ShapeWriter::u32_mark_rule)
            }
            AdversarialShape::MarkJumpsToNextTwoChains => {
                self.write_mark_jumps_to_next_two_chains(size.min(60))
            }
            AdversarialShape::NegatedMultiports => self.append_generated_rules(
                size,
                FILTER_TABLE_INDEX,
                ShapeWriter::negated_multiport_rule,
            ),
            AdversarialShape::ManyFields => {
                self.append_generated_rules(size, FILTER_TABLE_INDEX, ShapeWriter::many_fields_rule)
            }
            AdversarialShape::ChangingSets => self.write_changing_sets(size),
            AdversarialShape::TwiceJumpedChains => self.write_twice_jumped_chains(size.min(60)),
            AdversarialShape::Nat => self.write_nat(size),
            AdversarialShape::CopiedMarks => self.append_generated_rules(
                size,
                MANGLE_TABLE_INDEX,
                ShapeWriter::mark_copy_ttl_or_dscp_rule,
            ),
            AdversarialShape::StatefulVerdicts => self.append_generated_rules(
                size,
                FILTER_TABLE_INDEX,
                ShapeWriter::stateful_verdict_rule,
            ),
        }
    }

    fn append_generated_rules(
        &mut self,
        size: usize,
        table: usize,
        rule: fn(&mut ShapeWriter, usize) -> String,
    ) {
        for i in 0..size {
            let rule = rule(self, i);
            self.append_rule("FORWARD", table, &rule);
        }
    }

    fn append_rule(&mut self, chain: &str, table: usize, rule: &str) {
        let _ = writeln!(self.tables[table].rule_lines, "-A {chain} {rule}");
    }

    fn limited_log_rule(&mut self, i: usize) -> String {
        let test = self.pick_often_none(&["-i eth0", "-p tcp", "-s 10.0.0.0/9", "-d 10.1.0.0/16"]);
        format!("{test}-m limit --limit 5/min -j LOG --log-prefix \"n{i} \"")
    }

    fn limited_mark_rule(&mut self, i: usize) -> String {
        let test = self.pick_often_none(&["-p udp", "-s 10.0.0.0/9", "-m mark --mark 0x1/0x1"]);
        let probability = 1 + self.rng.number_below(9);
        let mark = self.random_mark_operand();
        format!(
            "{test}-m limit --limit {}/min -m statistic --mode random --probability 0.{probability} \
             -j MARK --set-xmark {mark}",
            1 + i % 50
        )
    }

    fn u32_mark_rule(&mut self, _: usize) -> String {
        let tests = [self.random_u32_match(), self.random_u32_match()].concat();
        let test = self.pick_often_none(&["-m mark --mark 0x2/0x6", "-p tcp"]);
        let mark = self.random_mark_operand();
        format!("{test}{tests}-j MARK --set-xmark {mark}")
    }

    fn random_u32_match(&mut self) -> String {
        let offset = 4 * (8 + self.rng.number_below(50));
        let value = self.rng.number_below(256);
        format!("-m u32 --u32 \"{offset}&0xFF=0x{value:x}\" ")
    }

    /// A value and mask of the mark.
    fn random_mark_operand(&mut self) -> String {
        let bit = 1_u32 << self.rng.number_below(32);
        match self.rng.number_below(4) {
            0 => format!("0x0/0x{bit:x}"),
            1 => format!("0x{bit:x}/0x0"),
            2 => format!("0x{:x}/0xff", self.rng.number_below(256)),
            _ => format!("0x{bit:x}/0x{bit:x}"),
        }
    }

    fn negated_multiport_rule(&mut self, _: usize) -> String {
        let mut ports: Vec<usize> = (0..15).map(|_| 1 + self.rng.number_below(65_000)).collect();
        ports.sort_unstable();
        ports.dedup();
        let ports: Vec<String> = ports.iter().map(usize::to_string).collect();
        let protocol = self.rng.pick(&["tcp", "udp"]);
        let side = self.rng.pick(&["dports", "sports", "ports"]);
        let target = self.rng.pick(&["ACCEPT", "DROP", "RETURN", "LOG"]);
        let source = self.pick_often_none(&["-s 10.0.0.0/9", "-i eth0"]);
        format!("{source}-p {protocol} -m multiport ! --{side} {} -j {target}", ports.join(","))
    }

    fn many_fields_rule(&mut self, _: usize) -> String {
        let mut rule = String::new();
        if self.rng.chance_percent(60) {
            let _ = write!(rule, "-s {} ", self.random_ipv4_prefix());
        }
        if self.rng.chance_percent(60) {
            let _ = write!(rule, "-d {} ", self.random_ipv4_prefix());
        }
        if self.rng.chance_percent(30) {
            let _ = write!(rule, "-i eth{} ", self.rng.number_below(4));
        }
        if self.rng.chance_percent(50) {
            let (low, high) = self.random_port_range();
            let _ = write!(rule, "-p tcp -m tcp --dport {low}:{high} ");
            if self.rng.chance_percent(40) {
                let (low, high) = self.random_port_range();
                let _ = write!(rule, "--sport {low}:{high} ");
            }
        }
        if self.rng.chance_percent(20) {
            let low = self.rng.number_below(1000);
            let _ = write!(rule, "-m length --length {low}:{} ", low + self.rng.number_below(500));
        }
        if self.rng.chance_percent(20) {
            let _ = write!(rule, "-m ttl --ttl-lt {} ", 1 + self.rng.number_below(250));
        }
        if self.rng.chance_percent(20) {
            let _ = write!(rule, "-m dscp --dscp 0x{:02x} ", self.rng.number_below(64));
        }
        if self.rng.chance_percent(20) {
            rule.push_str("-m conntrack --ctstate ESTABLISHED ");
        }
        let target = self.rng.pick(&["ACCEPT", "DROP", "RETURN", "LOG"]);
        format!("{rule}-j {target}")
    }

    fn random_ipv4_prefix(&mut self) -> String {
        let length = 1 + self.rng.number_below(32);
        let addr = (self.rng.next_u64() as u32) & (u32::MAX << (32 - length));
        format!("{}/{length}", std::net::Ipv4Addr::from(addr))
    }

    fn random_port_range(&mut self) -> (usize, usize) {
        let low = self.rng.number_below(60_000);
        (low, low + self.rng.number_below(5_000))
    }

    fn mark_copy_ttl_or_dscp_rule(&mut self, i: usize) -> String {
        let test = self.pick_often_none(&["-m mark --mark 0x1/0x1", "-p tcp", "-i eth0"]);
        let target = match self.rng.number_below(6) {
            0 => "CONNMARK --save-mark --nfmask 0xff --ctmask 0xff".to_owned(),
            1 => "CONNMARK --restore-mark --nfmask 0xff00 --ctmask 0xff".to_owned(),
            2 => "TTL --ttl-dec 1".to_owned(),
            3 => format!("DSCP --set-dscp 0x{:02x}", i % 64),
            _ => format!("MARK --set-xmark {}", self.random_mark_operand()),
        };
        let ttl = if self.rng.chance_percent(20) { "-m ttl --ttl-gt 7 " } else { "" };
        format!("{test}{ttl}-j {target}")
    }

    fn stateful_verdict_rule(&mut self, i: usize) -> String {
        let test = self.pick_often_none(&["-p tcp", "-s 10.0.0.0/9"]);
        let stateful = match self.rng.number_below(4) {
            0 => format!("-m recent --name r{} --rcheck --seconds 60 ", i % 8),
            1 => format!(
                "-m hashlimit --hashlimit-upto 5/sec --hashlimit-mode srcip --hashlimit-name h{i} "
            ),
            2 => "-m statistic --mode random --probability 0.5 ".to_owned(),
            _ => "-m limit --limit 7/hour ".to_owned(),
        };
        let target = self.rng.pick(&["DROP", "ACCEPT", "RETURN", "LOG"]);
        format!("{test}{stateful}-j {target}")
    }

    /// A test, or in half of the cases none.
    fn pick_often_none(&mut self, tests: &[&'static str]) -> String {
        match self.rng.chance_percent(50) {
            true => String::new(),
            false => format!("{} ", self.rng.pick(tests)),
        }
    }

    /// Numbers of so many new chains of a table.
    fn declare_chains(&mut self, table: usize, count: usize) -> std::ops::Range<usize> {
        let first = self.next_chain_number;
        self.next_chain_number += count;
        for chain in first..self.next_chain_number {
            let _ = writeln!(self.tables[table].chain_declarations, ":c{chain} - [0:0]");
        }
        first..self.next_chain_number
    }

    fn write_mark_jumps_to_next_two_chains(&mut self, count: usize) {
        let chains = self.declare_chains(MANGLE_TABLE_INDEX, count);
        self.append_rule("FORWARD", MANGLE_TABLE_INDEX, &format!("-j c{}", chains.start));
        for chain in chains.clone() {
            let name = format!("c{chain}");
            for next in [chain + 1, chain + 2] {
                if next < chains.end {
                    let test = match self.rng.chance_percent(50) {
                        true => self.random_u32_match(),
                        false => format!("-m mark --mark {} ", self.random_one_bit_mark_operand()),
                    };
                    self.append_rule(&name, MANGLE_TABLE_INDEX, &format!("{test}-j c{next}"));
                }
            }
            let rule = format!(
                "{}-j MARK --set-xmark {}",
                self.random_u32_match(),
                self.random_mark_operand()
            );
            self.append_rule(&name, MANGLE_TABLE_INDEX, &rule);
        }
    }

    fn random_one_bit_mark_operand(&mut self) -> String {
        let bit = 1_u32 << self.rng.number_below(8);
        format!("0x{bit:x}/0x{bit:x}")
    }

    fn write_twice_jumped_chains(&mut self, depth: usize) {
        let chains = self.declare_chains(FILTER_TABLE_INDEX, depth);
        self.append_rule("FORWARD", FILTER_TABLE_INDEX, &format!("-j c{}", chains.start));
        for chain in chains.clone() {
            let name = format!("c{chain}");
            if chain + 1 < chains.end {
                for _ in 0..2 {
                    let rule = format!("-s {} -j c{}", self.random_ipv4_prefix(), chain + 1);
                    self.append_rule(&name, FILTER_TABLE_INDEX, &rule);
                }
            }
            let rule = match self.rng.chance_percent(40) {
                true => self.limited_log_rule(chain),
                false => self.many_fields_rule(chain),
            };
            self.append_rule(&name, FILTER_TABLE_INDEX, &rule);
        }
    }

    fn write_changing_sets(&mut self, size: usize) {
        let sets = 1 + size / 20;
        let first = self.next_chain_number;
        self.next_chain_number += sets;
        for set in first..first + sets {
            let _ = writeln!(self.ipset_save_text, "create s{set} hash:net family inet");
            for _ in 0..1 + self.rng.number_below(20) {
                let length = 8 + self.rng.number_below(25);
                let addr = (self.rng.next_u64() as u32) & (u32::MAX << (32 - length));
                let addr = std::net::Ipv4Addr::from(addr);
                let _ = writeln!(self.ipset_save_text, "add s{set} {addr}/{length} -exist");
            }
        }
        for _ in 0..size {
            let set = first + self.rng.number_below(sets);
            let not = if self.rng.chance_percent(30) { "! " } else { "" };
            let side = self.rng.pick(&["src", "dst"]);
            let other = first + self.rng.number_below(sets);
            let target = match self.rng.number_below(5) {
                0 => format!("SET --add-set s{other} src"),
                1 => "LOG".to_owned(),
                2 => "DROP".to_owned(),
                _ => "ACCEPT".to_owned(),
            };
            let rule = format!("-m set {not}--match-set s{set} {side} -j {target}");
            self.append_rule("FORWARD", FILTER_TABLE_INDEX, &rule);
        }
    }

    fn write_nat(&mut self, size: usize) {
        for i in 0..size {
            let (port, host) = (1 + self.rng.number_below(65_000), self.rng.number_below(250));
            let prefix = self.random_ipv4_prefix();
            let rule = match self.rng.number_below(3) {
                0 => format!(
                    "-d {prefix} -p tcp -m tcp --dport {port} -j DNAT --to-destination 10.0.0.{host}-10.0.0.254"
                ),
                1 => format!("-s {prefix} -p udp -j REDIRECT --to-ports {port}"),
                _ => format!(
                    "-d {prefix} -p tcp -j DNAT --to-destination 10.0.{}.{host}:{port}",
                    i % 4
                ),
            };
            self.append_rule("PREROUTING", NAT_TABLE_INDEX, &rule);
            if self.rng.chance_percent(40) {
                let rule =
                    format!("-s {} -j SNAT --to-source 192.0.2.{host}", self.random_ipv4_prefix());
                self.append_rule("POSTROUTING", NAT_TABLE_INDEX, &rule);
            }
            let rule = format!("-d 10.0.{}.{host} -j DROP", i % 4);
            self.append_rule("FORWARD", FILTER_TABLE_INDEX, &rule);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_occurs_and_a_seed_gives_the_same_text() {
        let all: Vec<AdversarialRuleset> =
            (0..300).map(|seed| generate_adversarial_ruleset(seed, 200)).collect();
        for shape in AdversarialShape::ALL {
            assert!(all.iter().any(|r| r.shapes.iter().any(|(s, _)| *s == shape)), "{shape:?}");
        }
        assert_eq!(all[7], generate_adversarial_ruleset(7, 200));
        assert_ne!(all[7].iptables_save_text, all[8].iptables_save_text);
    }
}
