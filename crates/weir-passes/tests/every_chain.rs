//! Exhaustive test in a small scope: every pass over every chain of up to three rules from a few,
//! and every packet of a small universe.
//!
//! Most mistakes of a rewrite show in a ruleset of a few rules. So each pass has an alphabet of
//! rules on which it may act, must not act, or may be wrong; all sequences of up to three of them
//! are chains; and the result of the pass is compared for all packets, in the pass's own sense of
//! equality, and by structure. In IPv6, which shares the passes' code, chains have up to two rules.

use std::fmt::Write as _;

use weir_model::rule_match::{Match, Negatable, TcpFlagsMatch};
use weir_model::{
    Addr, ChangingSets, CtState, Family, Firewall, OriginalRuleIndex, Packet, Rule, RuleIdTable,
    Ruleset, Span,
};
use weir_packet::{ConntrackInfo, Transport, tcp_flag};
use weir_passes::equivalence_check::{U32EvaluatingOracle, find_counterexample_in_packets};
use weir_passes::{
    CostModel, Equivalence, Pass, PassContext, PassOptions, passes, structure_check,
};
use weir_semantics::{JourneyKind, SeededOracle};
use weir_syntax::iptables::{self, ParserSettings};

/// Rules by the letters of an alphabet; `NET` and `PART` are prefixes, one in the other.
struct Alphabet {
    pass: &'static str,
    /// Tables around the chain `X`, which is called from them or is one of theirs.
    around: &'static str,
    rules: &'static [&'static str],
}

const FILTER: &str = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    :X - [0:0]\n:one - [0:0]\n-A INPUT -j X\n-A FORWARD -j X\n-A FORWARD -s NET1 -j LOG\n\
    -A OUTPUT -j X\n-A one -s NET1 -j RETURN\n-A one -p tcp -j ACCEPT\n";

/// A chain that is called from one place, after a test.
const CALLED: &str = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:X - [0:0]\n:one - [0:0]\n\
    -A FORWARD -s NET1 -p tcp -j X\n-A FORWARD -p tcp -j ACCEPT\n-A one -j ACCEPT\n";

/// Answers to what goes out are asked for after the chain.
const STATES: &str = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    :X - [0:0]\n:one - [0:0]\n-A INPUT -j X\n-A FORWARD -j X\n\
    -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A one -j ACCEPT\n";

const ALPHABETS: [Alphabet; 11] = [
    Alphabet { pass: "remove_duplicates", around: FILTER, rules: WALKS },
    Alphabet { pass: "remove_shadowed", around: FILTER, rules: WALKS },
    Alphabet {
        pass: "cheaper_match",
        around: FILTER,
        rules: &[
            "-m u32 --u32 \"0xc&0xffffff00=0xc0000200\" -j ACCEPT",
            "-m u32 --u32 \"0x6&0xff=0x11\" -j DROP",
            "-m u32 ! --u32 \"0x6&0xff=0x11\" -j LOG",
            "-m u32 --u32 \"0x4&0x1fff=0x1:0x1fff\" -j ACCEPT",
            "-m u32 --u32 \"0x4&0x1fff=0x0\" -j DROP",
            "-m u32 --u32 \"0x0&0xffff=0x0:0x28\" -j DROP",
            "-m u32 --u32 \"0x5&0xff=0x40\" -j LOG",
            "-p tcp -m tcp --dport 22 -m u32 --u32 \"0xc&0xffffff00=0xc0000200\" -j ACCEPT",
            "-p tcp -m tcp -m tcp --dport 22 -j ACCEPT",
            "-p tcp -m tcp -m tcp ! --dport 22 -j DROP",
            "-p udp -m udp -m udp --dport 53 -j LOG",
            "-p tcp -m string --string x --algo kmp -j DROP",
            "-m conntrack --ctstate NEW -m conntrack --ctstate NEW,ESTABLISHED -j ACCEPT",
            "-m limit --limit 1/sec -j ACCEPT",
            "-j RETURN",
        ],
    },
    Alphabet { pass: "inline_chain", around: CALLED, rules: WALKS },
    Alphabet {
        pass: "merge_adjacent",
        around: FILTER,
        rules: &[
            "-s NET1 -j ACCEPT",
            "-s NET2 -j ACCEPT",
            "! -s NET2 -j ACCEPT",
            "-s NET1 -j LOG",
            "-s NET2 -j LOG",
            "-s NET2 -j one",
            "-s NET1 -j one",
            "-p tcp -m tcp --dport 22 -j ACCEPT",
            "-p tcp -m tcp --dport 23 -j ACCEPT",
            "-p tcp -m tcp ! --dport 23 -j ACCEPT",
            "-p udp -m udp --dport 53 -j DROP",
            "-p udp -m udp --dport 54 -j DROP",
            "-p tcp -m tcp --tcp-flags SYN SYN -j ACCEPT",
            "-p tcp -m tcp --tcp-flags ACK ACK -j ACCEPT",
            "-s NET1 -m limit --limit 1/sec -j ACCEPT",
            "-s NET2 -m limit --limit 1/sec -j ACCEPT",
            "-s NET1 -j MARK --set-mark 1",
            "-s NET2 -j MARK --set-mark 1",
        ],
    },
    Alphabet { pass: "reorder_by_hits", around: FILTER, rules: WALKS },
    Alphabet {
        pass: "notrack",
        around: STATES,
        rules: &[
            "-p ICMP -j ACCEPT",
            "-p udp -m udp --dport 53 -j ACCEPT",
            "-p udp -m udp --sport 53 -j ACCEPT",
            "-s NET1 -p udp -m udp --dport 53 -j ACCEPT",
            "-d NET1 -p udp -m udp --sport 53 -j ACCEPT",
            "-p udp -j ACCEPT",
            "-p tcp -m tcp --dport 22 -j ACCEPT",
            "-p tcp -m tcp --sport 22 -j ACCEPT",
            "-m conntrack --ctstate ESTABLISHED -j ACCEPT",
            "-m conntrack --ctstate INVALID -j DROP",
            "-s NET1 -j one",
            "-p udp -j RETURN",
            "-j LOG",
            "-p udp -m limit --limit 1/sec -j ACCEPT",
        ],
    },
    Alphabet {
        pass: "early_drop",
        around: FILTER,
        rules: &[
            "-s NET1 -j DROP",
            "! -s NET1 -j DROP",
            "-p udp -m udp --dport 53 -j DROP",
            "-p udp -m udp ! --dport 53 -j DROP",
            "-p tcp -m tcp --tcp-flags SYN SYN -j DROP",
            "-s NET1 -j ACCEPT",
            "-p tcp -j LOG",
            "-p tcp -j RETURN",
            "-p tcp -j one",
            "-p tcp -g one",
            "-j MARK --set-mark 1",
            "-m conntrack --ctstate ESTABLISHED -j ACCEPT",
            "-p udp -j REJECT",
            "-p udp -m limit --limit 1/sec -j DROP",
            "-s NET2",
        ],
    },
    Alphabet { pass: "fold_into_set", around: FILTER, rules: HOSTS },
    Alphabet { pass: "split_by_protocol", around: FILTER, rules: WALKS },
    Alphabet { pass: "chain_tree", around: FILTER, rules: HOSTS },
];

/// Ways through a chain, tests and their negations, effects, what changes a field.
const WALKS: &[&str] = &[
    "-s NET1 -j ACCEPT",
    "-s NET1 -j DROP",
    "-s NET2 -j RETURN",
    "! -s NET1 -j DROP",
    "-j LOG",
    "-s NET1 -j one",
    "-s NET1 -g one",
    "-p tcp -j ACCEPT",
    "-p udp -j RETURN",
    "! -p tcp -j DROP",
    "-p tcp -m tcp --dport 22 -j DROP",
    "-p tcp -m tcp ! --dport 22 -j DROP",
    "-p udp -m udp --dport 53",
    "-p udp -m udp --dport 54 -j LOG",
    "-j MARK --set-mark 1",
    "-m mark --mark 0x1 -j ACCEPT",
    "-m conntrack --ctstate NEW -j ACCEPT",
    "-s NET1 -m limit --limit 1/sec -j LOG",
];

/// Addresses that a tree or a set is made of, and what stands between them.
const HOSTS: &[&str] = &[
    "-s HOST0 -j ACCEPT",
    "-s HOST1 -j ACCEPT",
    "-s HOST1 -j DROP",
    "-s HOST2 -j ACCEPT",
    "-s NET1 -j DROP",
    "-s NET1 -j LOG",
    "! -s HOST1 -j DROP",
    "-s HOST0 -p tcp -m tcp --dport 22 -j ACCEPT",
    "-s HOST1 -p tcp -m tcp --dport 22 -j ACCEPT",
    "-s HOST1 -p tcp -m tcp ! --dport 22 -j DROP",
    "-s HOST0 -p udp -j LOG",
    "-s HOST1 -p udp -j LOG",
    "-s HOST0 -j one",
    "-s HOST2 -g one",
    "-s HOST1 -j RETURN",
    "-s HOST2",
    "-j MARK --set-mark 1",
    "-s HOST1 -m limit --limit 1/sec -j ACCEPT",
];

/// A text with the family's addresses.
fn said(text: &str, family: Family) -> String {
    let (base, nets, icmp) = match family {
        Family::V4 => ("192.0.2.", ["192.0.2.0/31", "192.0.2.2/31"], "icmp"),
        Family::V6 => ("2001:db8::", ["2001:db8::/127", "2001:db8::2/127"], "ipv6-icmp"),
    };
    let mut out = text.replace("NET1", nets[0]).replace("NET2", nets[1]).replace("ICMP", icmp);
    for host in 0..3 {
        out = out.replace(&format!("HOST{host}"), &format!("{base}{host}"));
    }
    out
}

/// The rulesets of an alphabet: the tables around, and the rules by letter.
struct Words {
    around: Ruleset,
    letters: Vec<Rule>,
}

impl Words {
    fn of(alphabet: &Alphabet, family: Family) -> Words {
        // Without options of the tool's own, what IPv6 cannot say is omitted.
        let rules = alphabet.rules.iter().filter(|r| family == Family::V4 || !r.contains("u32"));
        let mut text = alphabet.around.to_owned();
        for rule in rules {
            let _ = writeln!(text, "-A X {rule}");
        }
        let text = said(&(text + "COMMIT\n"), family);
        let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
        let mut around = iptables::parse(&text, &options).unwrap_or_else(|d| {
            panic!("{}", weir_syntax::render_diagnostics(&d, "alphabet", &text, false))
        });
        let chains = &mut around.tables[0].chains;
        let x = chains.iter_mut().find(|c| &*c.name == "X").expect("the chain");
        let mut letters = std::mem::take(&mut x.rules);
        // Later letters are hit more often, for the pass that goes by it.
        for (i, rule) in letters.iter_mut().enumerate() {
            (rule.span, rule.match_and_target_spans) = (Span::NONE, Vec::new());
            rule.counters = Some(weir_model::Counters { packets: i as u64 * 7 % 11, bytes: 0 });
        }
        Words { around, letters }
    }

    /// The ruleset whose chain is the word.
    fn ruleset(&self, word: &[usize]) -> Ruleset {
        let mut out = self.around.clone();
        let mut id = 0;
        for chain in &mut out.tables[0].chains {
            if &*chain.name == "X" {
                chain.rules = word.iter().map(|l| self.letters[*l].clone()).collect();
            }
            for rule in &mut chain.rules {
                rule.credited_originals = [OriginalRuleIndex(id)].into_iter().collect();
                id += 1;
            }
        }
        out
    }

    /// All words of up to so many letters.
    fn all(&self, most: usize) -> Vec<Vec<usize>> {
        let n = self.letters.len();
        let mut words = vec![Vec::new()];
        let mut last = words.clone();
        for _ in 0..most {
            last = last.iter().flat_map(|w| (0..n).map(move |l| [&w[..], &[l]].concat())).collect();
            words.extend(last.iter().cloned());
        }
        words
    }
}

/// The universe: five sources, what their packets carry, three states, all ways.
fn universe(family: Family) -> Vec<(JourneyKind, Packet)> {
    let base: u128 = match family {
        Family::V4 => 0xc000_0200,
        Family::V6 => 0x2001_0db8 << 96,
    };
    let icmp = if family == Family::V4 { 1 } else { 58 };
    let tcp = |sport, dport, flags| {
        let options = Vec::new();
        (6, Transport::Tcp { sport, dport, seq: 0, ack: 0, flags, options }, 0)
    };
    let (syn, ack) = (tcp_flag::SYN, tcp_flag::ACK);
    let carried = [
        tcp(1000, 22, syn),
        tcp(1000, 22, ack),
        tcp(1000, 22, syn | ack),
        tcp(1000, 23, 0),
        tcp(22, 1000, ack),
        (6, Transport::Truncated, 0),
        (6, Transport::NoParsedHeader, 1),
        (17, Transport::Udp { sport: 1000, dport: 53 }, 0),
        (17, Transport::Udp { sport: 53, dport: 1000 }, 0),
        (17, Transport::Udp { sport: 1000, dport: 54 }, 0),
        (17, Transport::Truncated, 0),
        (17, Transport::NoParsedHeader, 2),
        (icmp, Transport::Icmp { kind: 8, code: 0, rest: [0; 4] }, 0),
        (47, Transport::NoParsedHeader, 0),
    ];
    let mut out = Vec::new();
    for entry in JourneyKind::ALL {
        for source in [0, 1, 2, 3, 9] {
            for (proto, transport, offset) in &carried {
                for state in [CtState::New, CtState::Established, CtState::Invalid] {
                    let (from, to) = (Addr(base + source), Addr(base + 9 - source));
                    let mut p = Packet::new(family, from, to, *proto);
                    p.transport = transport.clone();
                    p.fragment.offset = *offset;
                    p.ct = ConntrackInfo::from_state(state);
                    if entry != JourneyKind::Output {
                        p.iif = "eth0".into();
                    }
                    if entry != JourneyKind::Input {
                        p.oif = "eth1".into();
                    }
                    out.push((entry, p));
                }
            }
        }
    }
    out
}

fn options(pass: &dyn Pass, family: Family) -> PassOptions {
    let cost = CostModel {
        check_ns: 10.0,
        // Chains pay for a rule or two.
        jump_ns: -100.0,
        set_ns: -100.0,
        probe_ns: 0.0,
        copies_ratio_max: 8.0,
        inlined_group_rules_max: 3,
        protocol_chain_rules_min: 1,
        ..CostModel::default()
    };
    let mut options = PassOptions { cost, allow_counter_loss: true, ..PassOptions::default() };
    if pass.name() == "chain_tree" {
        // Three rules are a list to the model: trees of given levels.
        options.cost.jump_ns = 1.0;
        options.cost.inlined_group_rules_max = 1;
        let most = family.addr_bits() as u8;
        options.levels = Some(vec![most - 2, most - 1]);
    }
    options
}

fn firewall(ruleset: Ruleset) -> Firewall {
    match ruleset.family {
        Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    }
}

/// The result of all words of an alphabet.
#[derive(Default)]
struct Count {
    words: usize,
    changed: usize,
    wrong: Vec<String>,
}

fn run(pass: &dyn Pass, alphabet: &Alphabet, family: Family, most: usize) -> Count {
    let (words, packets) = (Words::of(alphabet, family), universe(family));
    let options = options(pass, family);
    let mut count = Count::default();
    for word in words.all(most) {
        count.words += 1;
        let before = words.ruleset(&word);
        let places = RuleIdTable::from_ruleset(&before);
        let changing = ChangingSets::default();
        let context = PassContext {
            options: &options,
            rule_ids: &places,
            sets: &[],
            traffic_changed_sets: &changing,
        };
        let made = pass.run(&before, &context);
        if made.ruleset == before {
            continue;
        }
        count.changed += 1;
        let context = PassContext { sets: &made.sets, ..context };
        let broken = structure_check::check_rules_chains_and_conntrack_use_of_rewrite(
            &before,
            &made.ruleset,
            &made.dead_rules,
            pass.equivalence(),
            &context,
        );
        let (before, mut after) = (firewall(before), firewall(made.ruleset));
        after.sets = made.sets;
        let differs = find_counterexample_in_packets(
            pass.equivalence(),
            &before,
            &after,
            &packets,
            &mut U32EvaluatingOracle(SeededOracle(1)),
        );
        let why = broken.err().map(|b| b.to_string()).or(differs.map(|d| d.to_string()));
        if let Some(why) = why {
            let rules: Vec<&str> = word.iter().map(|l| alphabet.rules[*l]).collect();
            count.wrong.push(format!("{} {rules:#?}: {why}", pass.name()));
        }
    }
    count
}

fn every_pass_keeps_the_meaning(family: Family, most: usize) {
    assert_eq!(
        ALPHABETS.map(|a| a.pass),
        passes::ALL_PASSES.map(|p| p.name()),
        "all passes, in order"
    );
    let mut wrong = Vec::new();
    for alphabet in &ALPHABETS {
        let pass = passes::find_pass(alphabet.pass).expect("the pass is there");
        // The least that it acts on are three rules.
        let most = if alphabet.pass == "notrack" { 3 } else { most };
        let mut count = run(pass, alphabet, family, most);
        let Count { words, changed, .. } = count;
        println!("{} {family:?}: {words} chains, {changed} changed", pass.name());
        wrong.extend(count.wrong.drain(..).take(3));
        assert!(changed > 3, "{} {family:?} hardly acts", pass.name());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_pass_keeps_the_meaning_of_every_chain_of_three_rules() {
    every_pass_keeps_the_meaning(Family::V4, 3);
}

#[test]
fn every_pass_keeps_the_meaning_of_every_ipv6_chain_of_two_rules() {
    every_pass_keeps_the_meaning(Family::V6, 2);
}

/// What `nft -o` does: neighbours that test bits become one rule for the exact values.
struct FoldBits;

impl Pass for FoldBits {
    fn name(&self) -> &'static str {
        "fold_bits"
    }

    fn description(&self) -> &'static str {
        "a wrong pass"
    }

    fn equivalence(&self) -> Equivalence {
        Equivalence::SummedCounters
    }

    fn run(&self, ruleset: &Ruleset, _: &PassContext<'_>) -> weir_passes::RewrittenRuleset {
        let mut made = weir_passes::RewrittenRuleset::unchanged(ruleset);
        for rules in
            made.ruleset.tables.iter_mut().flat_map(|t| &mut t.chains).map(|c| &mut c.rules)
        {
            let bits = |r: &Rule| match &r.matches[..] {
                [Match::Tcp { flags: Some(f), .. }] => Some(f.value),
                _ => None,
            };
            let at = rules.windows(2).position(|w| bits(&w[0]).zip(bits(&w[1])).is_some());
            let Some(at) = at else { continue };
            let second = rules.remove(at + 1);
            let (a, b) = (bits(&rules[at]), bits(&second));
            let (Some(a), Some(b)) = (a, b) else { continue };
            rules[at].credited_originals.extend(second.credited_originals);
            let value = TcpFlagsMatch { mask: a.mask | b.mask, comp: a.comp };
            let flags = Some(Negatable { negated: false, value });
            rules[at].matches = vec![Match::Tcp { sport: None, dport: None, flags, option: None }];
        }
        made
    }
}

#[test]
fn the_naive_fold_of_bit_tests_is_caught() {
    let alphabet = ALPHABETS.iter().find(|a| a.pass == "merge_adjacent").expect("it is there");
    let count = run(&FoldBits, alphabet, Family::V4, 2);
    let caught = |rules: &[&str]| {
        let text = format!("{:#?}", rules);
        count.wrong.iter().any(|w| w.contains(&text))
    };
    let [syn, ack] = ["SYN SYN", "ACK ACK"]
        .map(|bits| alphabet.rules.iter().copied().find(|r| r.contains(bits)).expect("a rule"));
    assert!(caught(&[syn, ack]) && caught(&[ack, syn]), "{:#?}", count.wrong);
    assert!(!caught(&[syn]) && count.changed > 1);
}
