//! Wrong variants of passes that change the order of rules or the shape of chains.

use weir_model::rule_match::{Match, PortSpan};
use weir_model::{OriginalRuleIndex, Rule, TableName, Target};

use crate::{HOSTS, List, chain, forward, of_table};

pub fn orders(list: &mut List) {
    let rules = "*filter\n:FORWARD DROP [0:0]\n[1:1] -A FORWARD -s 192.0.2.1/32 -j ACCEPT\n\
        [9:9] -A FORWARD -s 192.0.2.2/32 -j DROP\n[5:5] -A FORWARD -s 192.0.2.0/24 -j LOG\n\
        [1:1] -A FORWARD -s 192.0.2.8/32 -m limit --limit 1/sec -j ACCEPT\n\
        [9:9] -A FORWARD -s 192.0.2.8/32 -j DROP\n\
        [1:1] -A FORWARD -s 192.0.2.7/32 -p tcp -m tcp --dport 22 -j ACCEPT\n\
        [1:1] -A FORWARD -s 192.0.2.7/32 -p tcp -j DROP\nCOMMIT\n";
    list.refused("reorder_by_hits", "moved over what shares packets with it", rules, |made| {
        chain(made, "FORWARD").swap(1, 2);
    });
    list.refused("reorder_by_hits", "moved over a budget", rules, |made| {
        chain(made, "FORWARD").swap(3, 4);
    });
    list.refused("reorder_by_hits", "moved over a look at a header", rules, |made| {
        chain(made, "FORWARD").swap(5, 6);
    });
    list.refused("reorder_by_hits", "counters change places with the rules", rules, |made| {
        let rules = chain(made, "FORWARD");
        let a = rules[0].credited_originals.clone();
        rules[0].credited_originals = std::mem::replace(&mut rules[1].credited_originals, a);
    });
    let marks = "*mangle\n:PREROUTING ACCEPT [0:0]\n\
        [1:1] -A PREROUTING -m mark ! --mark 0x1 -j MARK --set-xmark 0x1/0xffffffff\n\
        [9:9] -A PREROUTING -m mark --mark 0x1 -j ACCEPT\nCOMMIT\n";
    list.refused("reorder_by_hits", "moved over what changes its field", marks, |made| {
        of_table(made, TableName::Mangle, "PREROUTING").swap(0, 1);
    });
}

pub fn trees(list: &mut List) {
    let rules = forward(&format!("{HOSTS}-A FORWARD -s 192.0.2.1/32 -j DROP\n-A FORWARD -j LOG\n"));
    list.refused("chain_tree", "a rule forgotten in its leaf", &rules, |made| {
        for rules in made.ruleset.tables[0].chains.iter_mut().map(|c| &mut c.rules) {
            if let Some(i) =
                rules.iter().position(|r| r.credited_originals[..] == [OriginalRuleIndex(2)])
            {
                rules.remove(i);
                made.dead_rules.push(OriginalRuleIndex(2));
                return;
            }
        }
    });
    list.refused("chain_tree", "a rule counted for another", &rules, |made| {
        for rule in made.ruleset.tables[0].chains.iter_mut().flat_map(|c| &mut c.rules) {
            if rule.credited_originals[..] == [OriginalRuleIndex(0)] {
                rule.credited_originals = [OriginalRuleIndex(1)].into_iter().collect();
                return;
            }
        }
    });
    list.refused("chain_tree", "a port off by one", &rules, |made| {
        for rule in made.ruleset.tables[0].chains.iter_mut().flat_map(|c| &mut c.rules) {
            if let [Match::Tcp { dport: Some(p), .. }] = &mut rule.matches[..] {
                p.value = PortSpan { lo: 21, hi: 22 };
            }
        }
    });
}

pub fn splits_and_inlinings(list: &mut List) {
    let mut text = String::from("-A FORWARD -m limit --limit 1/sec -j LOG\n");
    for i in 1..=9 {
        text += &format!(
            "-A FORWARD -p tcp -m tcp --dport {i} -j ACCEPT\n\
             -A FORWARD -p udp -m udp --dport {i} -j ACCEPT\n"
        );
    }
    let rules = forward(&(text + "-A FORWARD -s 192.0.2.0/24 -j RETURN\n-A FORWARD -j ACCEPT\n"));
    list.refused(
        "split_by_protocol",
        "a rule for any protocol in one chain only",
        &rules,
        |made| {
            chain(made, ":udp").retain(|r| r.base.proto.is_some());
        },
    );
    list.refused("split_by_protocol", "entered by a jump", &rules, |made| {
        for rule in chain(made, "FORWARD") {
            if let Target::Goto(c) = &rule.target {
                rule.target = Target::Jump(c.clone());
            }
        }
    });
    list.refused("split_by_protocol", "a budget in both", &rules, |made| {
        let limit = chain(made, "FORWARD")[0].clone();
        chain(made, ":udp").insert(0, limit);
    });
    let rules = "*filter\n:FORWARD DROP [0:0]\n:web - [0:0]\n\
        -A FORWARD -s 192.0.2.0/24 -p tcp -j web\n-A FORWARD -p udp -j ACCEPT\n\
        -A web -p tcp -m tcp --dport 80 -j ACCEPT\nCOMMIT\n";
    list.refused("inline_chain", "the jump's tests are forgotten", rules, |made| {
        chain(made, "FORWARD")[1].base.saddr = None;
    });
    list.refused("inline_chain", "the jump no longer counts", rules, |made| {
        chain(made, "FORWARD").remove(0);
    });
    let budget = "*filter\n:FORWARD DROP [0:0]\n:few - [0:0]\n-A FORWARD -s 192.0.2.0/25 -j few\n\
        -A FORWARD -s 192.0.2.128/25 -j few\n-A few -m limit --limit 1/sec -j ACCEPT\nCOMMIT\n";
    list.refused("inline_chain", "a budget in both places", budget, |made| {
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

/// Trees: ways out of chains, the order of effects, IPv6.
pub fn trees_of_ways_and_effects(list: &mut List) {
    let returns = forward(&format!(
        "{HOSTS}-A FORWARD -s 192.0.2.4/32 -j RETURN\n-A FORWARD -s 192.0.2.0/24 -j ACCEPT\n\
         -A FORWARD -j ACCEPT\n"
    ));
    list.refused(
        "chain_tree",
        "entered by jumps, which RETURN comes back from",
        &returns,
        |made| {
            for rule in made.ruleset.tables[0].chains.iter_mut().flat_map(|c| &mut c.rules) {
                if let Target::Goto(to) = &rule.target {
                    rule.target = Target::Jump(to.clone());
                }
            }
        },
    );
    let logged = forward(&format!(
        "{HOSTS}-A FORWARD -s 198.51.100.0/24 -j LOG --log-prefix first\n\
         -A FORWARD -s 198.51.100.1/32 -j LOG --log-prefix second\n"
    ));
    list.refused("chain_tree", "log lines in another order", &logged, |made| {
        for chain in made.ruleset.tables[0].chains.iter_mut().filter(|c| c.policy.is_none()) {
            let last = chain.rules.len().saturating_sub(2);
            chain.rules[last..].reverse();
        }
    });
    let mut v6 = String::from("*filter\n:FORWARD DROP [0:0]\n");
    for i in 0..12 {
        v6 += &format!("-A FORWARD -d 2001:db8:{i}::/48 -p tcp -m tcp --dport 22 -j ACCEPT\n");
    }
    list.refused("chain_tree", "an IPv6 branch one bit too narrow", &(v6 + "COMMIT\n"), |made| {
        for rule in made.ruleset.tables[0].chains.iter_mut().flat_map(|c| &mut c.rules) {
            if let (Some(m), true) = (&mut rule.base.daddr, rule.credited_originals.is_empty()) {
                m.mask.0 = m.mask.0 >> 1 | 1 << 127;
            }
        }
    });
}

/// Inlined and split chains: ways out of them, the order of effects, negations.
pub fn chains_of_ways_and_effects(list: &mut List) {
    let effects = "*filter\n:FORWARD DROP [0:0]\n:few - [0:0]\n-A FORWARD -p tcp -j few\n\
        -A few -s 192.0.2.0/24 -j LOG --log-prefix first\n\
        -A few -s 192.0.2.0/25 -j LOG --log-prefix second\nCOMMIT\n";
    list.refused("inline_chain", "log lines in another order", effects, |made| {
        chain(made, "FORWARD").swap(1, 2);
    });
    let returns = "*filter\n:FORWARD DROP [0:0]\n:few - [0:0]\n-A FORWARD -p tcp -j few\n\
        -A FORWARD -j ACCEPT\n-A few -s 192.0.2.0/24 -j RETURN\n-A few -j LOG\nCOMMIT\n";
    list.refused(
        "inline_chain",
        "a chain with RETURN, which leaves the caller now",
        returns,
        |made| {
            let few = chain(made, "few").clone();
            let rules = chain(made, "FORWARD");
            rules[0].target = Target::None;
            for (i, mut rule) in few.into_iter().enumerate() {
                rule.base.proto = rules[0].base.proto;
                rules.insert(i + 1, rule);
            }
            made.ruleset.tables[0].chains.retain(|c| &*c.name != "few");
        },
    );
    let mut text = String::new();
    for i in 1..=9 {
        text += &format!(
            "-A FORWARD -p tcp -m tcp --dport {i} -j ACCEPT\n\
             -A FORWARD -p udp -m udp --dport {i} -j ACCEPT\n"
        );
    }
    let rules = forward(&(text + "-A FORWARD ! -p tcp -j LOG\n"));
    list.refused("split_by_protocol", "a negated protocol in no chain", &rules, |made| {
        chain(made, ":udp").retain(|r| !r.base.proto.is_some_and(|p| p.negated));
    });
    list.refused(
        "split_by_protocol",
        "one of two copies counts for another rule",
        &rules,
        |made| {
            let rules = chain(made, ":udp");
            let other = rules[0].credited_originals.clone();
            rules.last_mut().unwrap().credited_originals = other;
        },
    );
}
