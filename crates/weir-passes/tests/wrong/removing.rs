//! Wrong variants of passes that remove rules.

use weir_model::{OriginalRuleIndex, Target};

use crate::{List, chain, forward};

pub fn removals(list: &mut List) {
    let rules = forward(
        "-A FORWARD -s 192.0.2.0/24 -p tcp -j ACCEPT\n-A FORWARD -s 192.0.2.0/25 -j LOG\n\
         -A FORWARD -s 192.0.2.0/24 -p tcp -j DROP\n-A FORWARD -s 192.0.3.0/24\n\
         -A FORWARD -s 192.0.2.0/24 -j RETURN\n-A FORWARD -j ACCEPT\n",
    );
    for of in ["remove_duplicates", "remove_shadowed"] {
        list.refused(of, "a live rule goes", &rules, |made| {
            let rule = chain(made, "FORWARD").remove(1);
            made.dead_rules.extend(rule.credited_originals);
        });
        list.refused(of, "a rule that only counts goes", &rules, |made| {
            let rules = chain(made, "FORWARD");
            let i = rules.iter().position(|r| r.target == Target::None).unwrap();
            let rule = rules.remove(i);
            made.dead_rules.extend(rule.credited_originals);
        });
        let said =
            list.refused(of, "credit is lost in silence", &rules, |made| made.dead_rules.clear());
        assert!(said.to_string().contains("no counter is left"), "{said}");
        list.refused(of, "RETURN is dropped", &rules, |made| {
            let rules = chain(made, "FORWARD");
            let i = rules.iter().position(|r| r.target == Target::Return).unwrap();
            let rule = rules.remove(i);
            made.dead_rules.extend(rule.credited_originals);
        });
        list.refused(of, "the first of two goes", &rules, |made| {
            let first = chain(made, "FORWARD").remove(0);
            made.dead_rules.extend(first.credited_originals);
        });
    }
    let fragments = forward(
        "-A FORWARD -p udp -m udp --dport 0:1023 -j DROP\n\
         -A FORWARD -p udp -m udp --dport 1024:65535 -j DROP\n-A FORWARD -p udp -j ACCEPT\n",
    );
    list.refused("remove_shadowed", "all ports taken for all packets", &fragments, |made| {
        let rule = chain(made, "FORWARD").remove(2);
        made.dead_rules.extend(rule.credited_originals);
    });
    let header = forward(
        "-A FORWARD -p tcp -m tcp --dport 22 -j ACCEPT\n-A FORWARD -p tcp -f -j ACCEPT\n\
         -A FORWARD -p tcp -m tcp --dport 22 -j DROP\n-A FORWARD -p tcp -j ACCEPT\n",
    );
    list.refused("remove_duplicates", "the first look at a header goes", &header, |made| {
        chain(made, "FORWARD").retain(|r| r.matches.is_empty());
        made.dead_rules.extend([OriginalRuleIndex(0), OriginalRuleIndex(2)]);
    });
}

pub fn last_use_of_conntrack(list: &mut List) {
    let rules = forward("-A FORWARD -j ACCEPT\n-A FORWARD -m conntrack --ctstate NEW -j DROP\n");
    let said = list.refused("remove_shadowed", "the last state goes", &rules, |made| {
        chain(made, "FORWARD").truncate(1);
        made.dead_rules.push(OriginalRuleIndex(1));
    });
    assert!(said.to_string().contains("conntrack"), "{said}");
    let rules = forward("-A FORWARD -j ACCEPT\n-A FORWARD -m socket -j DROP\n");
    let said = list.refused("remove_shadowed", "the last defragmentation goes", &rules, |made| {
        chain(made, "FORWARD").truncate(1);
        made.dead_rules.push(OriginalRuleIndex(1));
    });
    assert!(said.to_string().contains("fragments"), "{said}");
}

pub fn programs_and_policies(list: &mut List) {
    let rules = "*filter\n:FORWARD DROP [0:0]\n:DOCKER - [0:0]\n-A FORWARD -j DOCKER\n\
        -A DOCKER -s 192.0.2.1/32 -j DROP\n-A DOCKER -s 192.0.2.1/32 -j ACCEPT\nCOMMIT\n";
    let said = list.refused("remove_duplicates", "Docker's chain", rules, |made| {
        chain(made, "DOCKER").pop();
        made.dead_rules.push(OriginalRuleIndex(2));
    });
    assert!(said.to_string().contains("another program"), "{said}");
    list.refused("remove_duplicates", "a policy", rules, |made| {
        let table = &mut made.ruleset.tables[0];
        let chain = table.chains.iter_mut().find(|c| &*c.name == "FORWARD").unwrap();
        chain.policy = Some(weir_model::Policy::Accept);
    });
}

/// What is true of all packets with ports is not true of those without.
pub fn negations_and_ways_out(list: &mut List) {
    let both = forward(
        "-A FORWARD -p udp -m udp --dport 53 -j DROP\n\
         -A FORWARD -p udp -m udp ! --dport 53 -j DROP\n-A FORWARD -p udp -j ACCEPT\n",
    );
    list.refused(
        "remove_shadowed",
        "a test and its negation taken for all packets",
        &both,
        |made| {
            let rule = chain(made, "FORWARD").remove(2);
            made.dead_rules.extend(rule.credited_originals);
        },
    );
    let ways = "*filter\n:FORWARD DROP [0:0]\n:one - [0:0]\n-A FORWARD -s 192.0.2.0/24 -j one\n\
        -A FORWARD -s 192.0.2.0/24 -g one\n-A FORWARD -s 192.0.2.0/24 -j ACCEPT\n\
        -A one -p tcp -j RETURN\n-A one -p udp -j ACCEPT\nCOMMIT\n";
    for of in ["remove_duplicates", "remove_shadowed"] {
        list.refused(of, "a jump that may come back taken for an end", ways, |made| {
            let rules = chain(made, "FORWARD");
            let goto = rules.iter().position(|r| matches!(r.target, Target::Goto(_))).unwrap();
            let rule = rules.remove(goto);
            made.dead_rules.extend(rule.credited_originals);
        });
    }
    let v6 = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -s 2001:db8::/32 -j ACCEPT\n\
        -A FORWARD -s 2001:db8::/33 -j DROP\n-A FORWARD -s 2001:db9::/32 -j DROP\nCOMMIT\n";
    list.refused("remove_shadowed", "an IPv6 prefix one bit beside", v6, |made| {
        let rules = chain(made, "FORWARD");
        let rule = rules.pop().unwrap();
        made.dead_rules.extend(rule.credited_originals);
    });
}
