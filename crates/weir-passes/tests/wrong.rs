//! Deliberately wrong passes: `run_checked` refuses each of them.
//!
//! A check that lets nothing through and one that lets all through are both useless: so each ruleset
//! is first run through the right pass, or unchanged, and passes.

use weir_model::matching::{Match, Neg, PortSpan, TcpFlags};
use weir_model::{Effect, Family, Firewall, Rule, RuleId, Ruleset, TableName, Target};
use weir_passes::{
    CheckOptions, Context, Counting, Pass, PassOptions, Refused, Rewritten, RunOptions, Sameness,
    passes, run_checked,
};
use weir_syntax::iptables::{self, ParseOptions};

const V4: Family = Family::V4;

/// A pass whose result is spoiled.
struct Wrong {
    of: &'static str,
    spoil: fn(&mut Rewritten),
}

impl Wrong {
    fn right(&self) -> &'static dyn Pass {
        passes::by_name(self.of).expect("the pass is there")
    }
}

impl Pass for Wrong {
    fn name(&self) -> &'static str {
        self.of
    }

    fn about(&self) -> &'static str {
        "a wrong variant"
    }

    fn counters(&self) -> Counting {
        self.right().counters()
    }

    fn sameness(&self) -> Sameness {
        self.right().sameness()
    }

    fn run(&self, ruleset: &Ruleset, context: &Context<'_>) -> Rewritten {
        let mut made = self.right().run(ruleset, context);
        (self.spoil)(&mut made);
        made
    }
}

fn options() -> RunOptions {
    let cost = weir_passes::CostModel {
        check_ns: 10.0,
        jump_ns: 1.0,
        set_ns: 1.0,
        probe_ns: 1.0,
        ..Default::default()
    };
    RunOptions {
        pass: PassOptions { cost, allow_counters: true, ..PassOptions::default() },
        check: CheckOptions { seed: 1, packets: 4000 },
        ..RunOptions::default()
    }
}

fn read(rules: &str) -> Firewall {
    let options = ParseOptions { family: Some(V4), ..ParseOptions::default() };
    let v4 = iptables::parse(rules, &options)
        .unwrap_or_else(|d| panic!("{}", weir_syntax::render(&d, "case", rules, false)));
    Firewall { v4: Some(v4), ..Firewall::default() }
}

/// The rules of a chain of the filter.
fn chain<'m>(made: &'m mut Rewritten, name: &str) -> &'m mut Vec<Rule> {
    of_table(made, TableName::Filter, name)
}

fn of_table<'m>(made: &'m mut Rewritten, table: TableName, name: &str) -> &'m mut Vec<Rule> {
    let table = made.ruleset.tables.iter_mut().find(|t| t.name == table).expect("the table");
    let chain = table.chains.iter_mut().find(|c| c.name.ends_with(name)).expect("the chain");
    &mut chain.rules
}

fn forward(rules: &str) -> String {
    format!(
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n{rules}COMMIT\n"
    )
}

/// Lets the right pass run and the wrong one fail; what was said of the wrong one.
fn refused(of: &'static str, what: &str, rules: &str, spoil: fn(&mut Rewritten)) -> Refused {
    let firewall = read(rules);
    let right = passes::by_name(of).expect("the pass is there");
    run_checked(&firewall, &[right], &options(), &mut |_, _| {})
        .unwrap_or_else(|e| panic!("{of} is refused where it is right ({what}): {e}"));
    match run_checked(&firewall, &[&Wrong { of, spoil }], &options(), &mut |_, _| {}) {
        Err(refused) => refused,
        Ok(run) => panic!("{of}: {what} was not caught:\n{:#?}", run.steps),
    }
}

const HOSTS: &str = "-A FORWARD -s 192.0.2.1/32 -j ACCEPT\n-A FORWARD -s 192.0.2.2/32 -j DROP\n\
    -A FORWARD -s 192.0.2.3/32 -j ACCEPT\n-A FORWARD -s 192.0.2.9/32 -j ACCEPT\n\
    -A FORWARD -s 198.51.100.1/32 -j LOG\n-A FORWARD -s 198.51.100.2/32 -j ACCEPT\n\
    -A FORWARD -s 198.51.100.3/32 -p tcp -m tcp --dport 22 -j ACCEPT\n";

#[test]
fn wrong_removals_are_caught() {
    let rules = forward(
        "-A FORWARD -s 192.0.2.0/24 -p tcp -j ACCEPT\n-A FORWARD -s 192.0.2.0/25 -j LOG\n\
         -A FORWARD -s 192.0.2.0/24 -p tcp -j DROP\n-A FORWARD -s 192.0.3.0/24\n\
         -A FORWARD -s 192.0.2.0/24 -j RETURN\n-A FORWARD -j ACCEPT\n",
    );
    for of in ["remove_duplicates", "remove_shadowed"] {
        refused(of, "a live rule goes", &rules, |made| {
            let rule = chain(made, "FORWARD").remove(1);
            made.dead.extend(rule.credit);
        });
        refused(of, "a rule that only counts goes", &rules, |made| {
            let rules = chain(made, "FORWARD");
            let i = rules.iter().position(|r| r.target == Target::None).unwrap();
            let rule = rules.remove(i);
            made.dead.extend(rule.credit);
        });
        let said = refused(of, "credit is lost in silence", &rules, |made| made.dead.clear());
        assert!(said.to_string().contains("no counter is left"), "{said}");
        refused(of, "RETURN is dropped", &rules, |made| {
            let rules = chain(made, "FORWARD");
            let i = rules.iter().position(|r| r.target == Target::Return).unwrap();
            let rule = rules.remove(i);
            made.dead.extend(rule.credit);
        });
        refused(of, "the first of two goes", &rules, |made| {
            let first = chain(made, "FORWARD").remove(0);
            made.dead.extend(first.credit);
        });
    }
    let fragments = forward(
        "-A FORWARD -p udp -m udp --dport 0:1023 -j DROP\n\
         -A FORWARD -p udp -m udp --dport 1024:65535 -j DROP\n-A FORWARD -p udp -j ACCEPT\n",
    );
    refused("remove_shadowed", "all ports taken for all packets", &fragments, |made| {
        let rule = chain(made, "FORWARD").remove(2);
        made.dead.extend(rule.credit);
    });
    let header = forward(
        "-A FORWARD -p tcp -m tcp --dport 22 -j ACCEPT\n-A FORWARD -p tcp -f -j ACCEPT\n\
         -A FORWARD -p tcp -m tcp --dport 22 -j DROP\n-A FORWARD -p tcp -j ACCEPT\n",
    );
    refused("remove_duplicates", "the first look at a header goes", &header, |made| {
        chain(made, "FORWARD").retain(|r| r.matches.is_empty());
        made.dead.extend([RuleId(0), RuleId(2)]);
    });
}

#[test]
fn a_last_use_of_conntrack_that_goes_is_caught() {
    let rules = forward("-A FORWARD -j ACCEPT\n-A FORWARD -m conntrack --ctstate NEW -j DROP\n");
    let said = refused("remove_shadowed", "the last state goes", &rules, |made| {
        chain(made, "FORWARD").truncate(1);
        made.dead.push(RuleId(1));
    });
    assert!(said.to_string().contains("conntrack"), "{said}");
}

#[test]
fn wrong_merges_are_caught() {
    let halves = forward(
        "-A FORWARD -s 192.0.2.0/25 -j ACCEPT\n-A FORWARD -s 192.0.2.128/25 -j ACCEPT\n\
         -A FORWARD -p tcp -m tcp --dport 80 -j ACCEPT\n\
         -A FORWARD -p tcp -m tcp --dport 81 -j ACCEPT\n",
    );
    refused("merge_adjacent", "a prefix one bit too wide", &halves, |made| {
        let m = chain(made, "FORWARD")[0].base.saddr.as_mut().unwrap();
        (m.addr.0, m.mask.0) = (0xc000_0200, 0xffff_fe00);
    });
    refused("merge_adjacent", "a prefix one bit too narrow", &halves, |made| {
        chain(made, "FORWARD")[0].base.saddr.as_mut().unwrap().mask.0 = 0xffff_ff80;
    });
    refused("merge_adjacent", "a port too many", &halves, |made| {
        let Match::Tcp { dport: Some(p), .. } = &mut chain(made, "FORWARD")[1].matches[0] else {
            panic!("the ports")
        };
        p.value.hi += 1;
    });
    refused("merge_adjacent", "credit for one of the two only", &halves, |made| {
        chain(made, "FORWARD")[0].credit.truncate(1);
    });
    refused("merge_adjacent", "the wrong rules share a counter", &halves, |made| {
        let rules = chain(made, "FORWARD");
        let (a, b) = (rules[0].credit[1], rules[1].credit[0]);
        rules[0].credit[1] = b;
        rules[1].credit[0] = a;
    });
}

/// `nft -o` makes `{ syn, ack }` of two bit tests, which loses SYN+ACK.
#[test]
fn bit_tests_that_are_folded_as_exact_values_are_caught() {
    let rules = forward(
        "-A FORWARD -p tcp -m tcp --tcp-flags SYN SYN -j ACCEPT\n\
         -A FORWARD -p tcp -m tcp --tcp-flags ACK ACK -j ACCEPT\n",
    );
    refused("merge_adjacent", "bits as values", &rules, |made| {
        let rules = chain(made, "FORWARD");
        let exactly = |comp| {
            let value = TcpFlags { mask: 0x3f, comp };
            let flags = Some(Neg { negated: false, value });
            Match::Tcp { sport: None, dport: None, flags, option: None }
        };
        rules[0].matches = vec![exactly(0x02)];
        rules[1].matches = vec![exactly(0x10)];
    });
    refused("merge_adjacent", "one mask for both", &rules, |made| {
        let rules = chain(made, "FORWARD");
        let second = rules.remove(1);
        rules[0].credit.extend(second.credit);
        let value = TcpFlags { mask: 0x12, comp: 0x12 };
        rules[0].matches = vec![Match::Tcp {
            sport: None,
            dport: None,
            flags: Some(Neg { negated: false, value }),
            option: None,
        }];
    });
}

#[test]
fn wrong_orders_are_caught() {
    let rules = "*filter\n:FORWARD DROP [0:0]\n[1:1] -A FORWARD -s 192.0.2.1/32 -j ACCEPT\n\
        [9:9] -A FORWARD -s 192.0.2.2/32 -j DROP\n[5:5] -A FORWARD -s 192.0.2.0/24 -j LOG\n\
        [1:1] -A FORWARD -s 192.0.2.8/32 -m limit --limit 1/sec -j ACCEPT\n\
        [9:9] -A FORWARD -s 192.0.2.8/32 -j DROP\n\
        [1:1] -A FORWARD -s 192.0.2.7/32 -p tcp -m tcp --dport 22 -j ACCEPT\n\
        [1:1] -A FORWARD -s 192.0.2.7/32 -p tcp -j DROP\nCOMMIT\n";
    refused("reorder_by_hits", "moved over what shares packets with it", rules, |made| {
        chain(made, "FORWARD").swap(1, 2);
    });
    refused("reorder_by_hits", "moved over a budget", rules, |made| {
        chain(made, "FORWARD").swap(3, 4);
    });
    refused("reorder_by_hits", "moved over a look at a header", rules, |made| {
        chain(made, "FORWARD").swap(5, 6);
    });
    refused("reorder_by_hits", "counters change places with the rules", rules, |made| {
        let rules = chain(made, "FORWARD");
        let a = rules[0].credit.clone();
        rules[0].credit = std::mem::replace(&mut rules[1].credit, a);
    });
    let marks = "*mangle\n:PREROUTING ACCEPT [0:0]\n\
        [1:1] -A PREROUTING -m mark ! --mark 0x1 -j MARK --set-xmark 0x1/0xffffffff\n\
        [9:9] -A PREROUTING -m mark --mark 0x1 -j ACCEPT\nCOMMIT\n";
    refused("reorder_by_hits", "moved over what changes its field", marks, |made| {
        of_table(made, TableName::Mangle, "PREROUTING").swap(0, 1);
    });
}

#[test]
fn wrong_sets_are_caught() {
    let mut hosts = String::new();
    for i in 1..20 {
        hosts += &format!("-A FORWARD -s 192.0.2.{i}/32 -j ACCEPT\n");
    }
    let rules = forward(&(hosts + "-A FORWARD -s 192.0.2.0/24 -j LOG\n"));
    refused("fold_into_set", "an element is forgotten", &rules, |made| {
        let element = made.sets[0].elements.pop().unwrap();
        made.dead.extend(element.credit);
    });
    refused("fold_into_set", "an element of the neighbour", &rules, |made| {
        let elements = &mut made.sets[0].elements;
        let credit = elements[0].credit.clone();
        elements[0].credit = std::mem::replace(&mut elements[1].credit, credit);
    });
    refused("fold_into_set", "the other direction", &rules, |made| {
        let rules = chain(made, "FORWARD");
        for m in rules.iter_mut().flat_map(|r| &mut r.matches) {
            if let Match::Set(s) = m {
                s.dirs[0] = !s.dirs[0];
            }
        }
    });
    refused("fold_into_set", "a forgotten negation", &rules, |made| {
        let rules = chain(made, "FORWARD");
        for m in rules.iter_mut().flat_map(|r| &mut r.matches) {
            if let Match::Set(s) = m {
                s.negated = true;
            }
        }
    });
    let budgets = forward(
        "-A FORWARD -s 192.0.2.1/32 -m limit --limit 1/sec -j ACCEPT\n\
         -A FORWARD -s 192.0.2.2/32 -m limit --limit 1/sec -j ACCEPT\n",
    );
    let said = refused("fold_into_set", "two budgets become one", &budgets, |made| {
        let rules = chain(made, "FORWARD");
        let second = rules.remove(1);
        rules[0].credit.extend(second.credit);
        rules[0].base.saddr.as_mut().unwrap().mask.0 = 0xffff_fffc;
        rules[0].base.saddr.as_mut().unwrap().addr.0 = 0xc000_0200;
    });
    assert!(said.to_string().contains("keeps a state"), "{said}");
}

#[test]
fn wrong_trees_are_caught() {
    let rules = forward(&format!("{HOSTS}-A FORWARD -s 192.0.2.1/32 -j DROP\n-A FORWARD -j LOG\n"));
    refused("chain_tree", "a rule forgotten in its leaf", &rules, |made| {
        for rules in made.ruleset.tables[0].chains.iter_mut().map(|c| &mut c.rules) {
            if let Some(i) = rules.iter().position(|r| r.credit == [RuleId(2)]) {
                rules.remove(i);
                made.dead.push(RuleId(2));
                return;
            }
        }
    });
    refused("chain_tree", "a rule counted for another", &rules, |made| {
        for rule in made.ruleset.tables[0].chains.iter_mut().flat_map(|c| &mut c.rules) {
            if rule.credit == [RuleId(0)] {
                rule.credit = vec![RuleId(1)];
                return;
            }
        }
    });
    refused("chain_tree", "a port off by one", &rules, |made| {
        for rule in made.ruleset.tables[0].chains.iter_mut().flat_map(|c| &mut c.rules) {
            if let [Match::Tcp { dport: Some(p), .. }] = &mut rule.matches[..] {
                p.value = PortSpan { lo: 21, hi: 22 };
            }
        }
    });
}

#[test]
fn wrong_splits_and_inlinings_are_caught() {
    let mut text = String::from("-A FORWARD -m limit --limit 1/sec -j LOG\n");
    for i in 1..=9 {
        text += &format!(
            "-A FORWARD -p tcp -m tcp --dport {i} -j ACCEPT\n\
             -A FORWARD -p udp -m udp --dport {i} -j ACCEPT\n"
        );
    }
    let rules = forward(&(text + "-A FORWARD -s 192.0.2.0/24 -j RETURN\n-A FORWARD -j ACCEPT\n"));
    refused("split_by_protocol", "a rule for any protocol in one chain only", &rules, |made| {
        chain(made, ":udp").retain(|r| r.base.proto.is_some());
    });
    refused("split_by_protocol", "entered by a jump", &rules, |made| {
        for rule in chain(made, "FORWARD") {
            if let Target::Goto(c) = &rule.target {
                rule.target = Target::Jump(c.clone());
            }
        }
    });
    refused("split_by_protocol", "a budget in both", &rules, |made| {
        let limit = chain(made, "FORWARD")[0].clone();
        chain(made, ":udp").insert(0, limit);
    });
    let rules = "*filter\n:FORWARD DROP [0:0]\n:web - [0:0]\n\
        -A FORWARD -s 192.0.2.0/24 -p tcp -j web\n-A FORWARD -p udp -j ACCEPT\n\
        -A web -p tcp -m tcp --dport 80 -j ACCEPT\nCOMMIT\n";
    refused("inline_chain", "the jump's tests are forgotten", rules, |made| {
        chain(made, "FORWARD")[1].base.saddr = None;
    });
    refused("inline_chain", "the jump no longer counts", rules, |made| {
        chain(made, "FORWARD").remove(0);
    });
    let budget = "*filter\n:FORWARD DROP [0:0]\n:few - [0:0]\n-A FORWARD -s 192.0.2.0/25 -j few\n\
        -A FORWARD -s 192.0.2.128/25 -j few\n-A few -m limit --limit 1/sec -j ACCEPT\nCOMMIT\n";
    refused("inline_chain", "a budget in both places", budget, |made| {
        let few = chain(made, "few")[0].clone();
        let rules = chain(made, "FORWARD");
        for i in [1, 0] {
            let inlined = Rule { base: rules[i].base.clone(), ..few.clone() };
            rules[i].target = Target::None;
            rules.insert(i + 1, inlined);
        }
        made.ruleset.tables[0].chains.retain(|c| &*c.name != "few");
    });
}

#[test]
fn wrong_early_drops_are_caught() {
    let both = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:black - [0:0]\n\
        -A INPUT -j black\n-A FORWARD -j black\n-A black -s 192.0.2.0/24 -j DROP\n\
        -A black -s 198.51.100.0/24 -j LOG\n-A black -s 198.51.100.0/24 -j DROP\nCOMMIT\n";
    refused("early_drop", "without a look at the time to live", both, |made| {
        of_table(made, TableName::Raw, ":early")[0].matches.clear();
    });
    refused("early_drop", "a prefix one bit too wide", both, |made| {
        let m = of_table(made, TableName::Raw, ":early")[0].base.saddr.as_mut().unwrap();
        (m.addr.0, m.mask.0) = (0xc000_0200, 0xffff_fe00);
    });
    refused("early_drop", "what was logged first", both, |made| {
        let m = of_table(made, TableName::Raw, ":early")[0].base.saddr.as_mut().unwrap();
        m.addr.0 = 0xc633_6400;
    });
    refused("early_drop", "with an answer", both, |made| {
        let answer = Target::Reject("icmp-port-unreachable");
        of_table(made, TableName::Raw, ":early")[0].target = answer;
    });
    let one_way = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n\
        -A INPUT -s 192.0.2.0/24 -j DROP\n-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n\
        -A FORWARD -s 192.0.2.0/24 -j DROP\nCOMMIT\n";
    refused("early_drop", "what some states accept", one_way, |made| {
        let mut raw =
            read("*raw\n-A PREROUTING -s 192.0.2.0/24 -m ttl --ttl-gt 1 -j DROP\nCOMMIT\n");
        let mut raw = raw.v4.take().unwrap().tables.remove(0);
        raw.chains[0].rules[0].credit.clear();
        made.ruleset.tables.push(raw);
    });
}

#[test]
fn wrong_notracks_are_caught() {
    let dns = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:free - [0:0]\n\
        -A INPUT -j free\n-A FORWARD -j free\n\
        -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
        -A free -p icmp -j ACCEPT\n-A free -p udp -m udp --dport 53 -j ACCEPT\n\
        -A free -p udp -m udp --sport 53 -j ACCEPT\nCOMMIT\n";
    refused("notrack", "one direction only", dns, |made| {
        of_table(made, TableName::Raw, ":notrack").truncate(1);
    });
    refused("notrack", "not what is made here", dns, |made| {
        of_table(made, TableName::Raw, "OUTPUT").clear();
    });
    refused("notrack", "what a state decides", dns, |made| {
        for rule in of_table(made, TableName::Raw, ":notrack") {
            rule.matches.clear();
            rule.base.proto.as_mut().unwrap().proto = 6;
        }
    });
    refused("notrack", "another effect on the way", dns, |made| {
        let mark = Effect::Mark { value: 1, mask: u32::MAX };
        of_table(made, TableName::Raw, ":notrack")[0].target = Target::Effect(Box::new(mark));
    });
    let errors = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:free - [0:0]\n\
        -A INPUT -j free\n-A FORWARD -j free\n\
        -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
        -A free -p udp -m udp --dport 53 -j ACCEPT\n\
        -A free -p udp -m udp --sport 53 -j ACCEPT\nCOMMIT\n";
    let said = refused("notrack", "ICMP errors are accepted as RELATED only", errors, |made| {
        let raw = "*raw\n:w4:00001:notrack - [0:0]\n-A PREROUTING -j w4:00001:notrack\n\
            -A OUTPUT -j w4:00001:notrack\n\
            -A w4:00001:notrack -p udp -m udp --dport 53 -j CT --notrack\n\
            -A w4:00001:notrack -p udp -m udp --sport 53 -j CT --notrack\nCOMMIT\n";
        let mut raw = read(raw).v4.take().unwrap().tables.remove(0);
        for rule in raw.chains.iter_mut().flat_map(|c| &mut c.rules) {
            rule.credit.clear();
        }
        made.ruleset.tables.push(raw);
    });
    assert!(said.to_string().contains("ICMP errors"), "{said}");
}

#[test]
fn wrong_cheaper_matches_are_caught() {
    let rules = forward(
        "-A FORWARD -m u32 --u32 \"0xc&0xffffff00=0xc0000200\" -j ACCEPT\n\
         -A FORWARD -m u32 --u32 \"0x6&0xff=0x11\" -j ACCEPT\n\
         -A FORWARD -p sctp -m string --string \"foo.com\" --algo kmp -j ACCEPT\n\
         -A FORWARD -p tcp -m tcp -m tcp --dport 80 -j ACCEPT\n",
    );
    refused("cheaper_match", "destination for source", &rules, |made| {
        let base = &mut chain(made, "FORWARD")[0].base;
        base.daddr = base.saddr.take();
    });
    refused("cheaper_match", "a mask one bit too short", &rules, |made| {
        chain(made, "FORWARD")[0].base.saddr.as_mut().unwrap().mask.0 = 0xffff_fe00;
    });
    refused("cheaper_match", "another protocol", &rules, |made| {
        chain(made, "FORWARD")[1].base.proto.as_mut().unwrap().proto = 16;
    });
    refused("cheaper_match", "a negation too many", &rules, |made| {
        chain(made, "FORWARD")[1].base.proto.as_mut().unwrap().negated = true;
    });
    refused("cheaper_match", "another pattern", &rules, |made| {
        let Match::Host(host) = &mut chain(made, "FORWARD")[2].matches[0] else { panic!("string") };
        host.options[0].value = weir_model::matching::Value::Bytes(b"foo.org".to_vec());
    });
    refused("cheaper_match", "the ports are dropped instead", &rules, |made| {
        let Match::Tcp { dport, .. } = &mut chain(made, "FORWARD")[3].matches[0] else {
            panic!("tcp")
        };
        *dport = None;
    });
}

#[test]
fn chains_of_programs_and_policies_that_change_are_caught() {
    let rules = "*filter\n:FORWARD DROP [0:0]\n:DOCKER - [0:0]\n-A FORWARD -j DOCKER\n\
        -A DOCKER -s 192.0.2.1/32 -j DROP\n-A DOCKER -s 192.0.2.1/32 -j ACCEPT\nCOMMIT\n";
    let said = refused("remove_duplicates", "Docker's chain", rules, |made| {
        chain(made, "DOCKER").pop();
        made.dead.push(RuleId(2));
    });
    assert!(said.to_string().contains("another program's"), "{said}");
    refused("remove_duplicates", "a policy", rules, |made| {
        let table = &mut made.ruleset.tables[0];
        let chain = table.chains.iter_mut().find(|c| &*c.name == "FORWARD").unwrap();
        chain.policy = Some(weir_model::Policy::Accept);
    });
}

#[test]
fn a_pass_that_loses_counters_runs_only_where_that_is_allowed() {
    let firewall = read(&forward(
        "-A FORWARD -s 192.0.2.0/25 -j ACCEPT\n-A FORWARD -s 192.0.2.128/25 -j ACCEPT\n",
    ));
    let pass = passes::by_name("merge_adjacent").unwrap();
    let mut options = options();
    let run = run_checked(&firewall, &[pass], &options, &mut |_, _| {}).unwrap();
    assert_eq!(run.steps[0].rules, (2, 1));
    options.pass.allow_counters = false;
    let run = run_checked(&firewall, &[pass], &options, &mut |_, _| {}).unwrap();
    assert!(matches!(run.steps[0].by, weir_passes::By::Skipped(_)));
    assert_eq!(run.firewall, firewall);
}

#[test]
fn what_is_trusted_is_not_compared_and_says_so() {
    let firewall = read(&forward(HOSTS));
    let wrong = Wrong { of: "chain_tree", spoil: |made| chain(made, "FORWARD").clear() };
    let trust = RunOptions { trust: true, ..options() };
    let run = run_checked(&firewall, &[&wrong], &trust, &mut |_, _| {}).unwrap();
    assert_eq!(run.steps[0].by, weir_passes::By::Trusted);
    run_checked(&firewall, &[&wrong], &options(), &mut |_, _| {}).unwrap_err();
}
