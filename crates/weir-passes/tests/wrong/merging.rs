//! Wrong variants of passes that merge rules or tests.

use std::sync::Arc;

use weir_model::rule_match::{Match, Negatable, TcpFlagsMatch};

use crate::{List, chain, forward};

pub fn merges(list: &mut List) {
    let halves = forward(
        "-A FORWARD -s 192.0.2.0/25 -j ACCEPT\n-A FORWARD -s 192.0.2.128/25 -j ACCEPT\n\
         -A FORWARD -p tcp -m tcp --dport 80 -j ACCEPT\n\
         -A FORWARD -p tcp -m tcp --dport 81 -j ACCEPT\n",
    );
    list.refused("merge_adjacent", "a prefix one bit too wide", &halves, |made| {
        let m = chain(made, "FORWARD")[0].base.saddr.as_mut().unwrap();
        (m.addr.0, m.mask.0) = (0xc000_0200, 0xffff_fe00);
    });
    list.refused("merge_adjacent", "a prefix one bit too narrow", &halves, |made| {
        chain(made, "FORWARD")[0].base.saddr.as_mut().unwrap().mask.0 = 0xffff_ff80;
    });
    list.refused("merge_adjacent", "a port too many", &halves, |made| {
        let Match::Tcp { dport: Some(p), .. } = &mut chain(made, "FORWARD")[1].matches[0] else {
            panic!("the ports")
        };
        p.value.hi += 1;
    });
    list.refused("merge_adjacent", "credit for one of the two only", &halves, |made| {
        chain(made, "FORWARD")[0].credited_originals.truncate(1);
    });
    list.refused("merge_adjacent", "the wrong rules share a counter", &halves, |made| {
        let rules = chain(made, "FORWARD");
        let (a, b) = (rules[0].credited_originals[1], rules[1].credited_originals[0]);
        rules[0].credited_originals[1] = b;
        rules[1].credited_originals[0] = a;
    });
}

/// `nft -o` makes `{ syn, ack }` of two bit tests, which loses SYN+ACK.
pub fn bit_tests(list: &mut List) {
    let rules = forward(
        "-A FORWARD -p tcp -m tcp --tcp-flags SYN SYN -j ACCEPT\n\
         -A FORWARD -p tcp -m tcp --tcp-flags ACK ACK -j ACCEPT\n",
    );
    list.refused("merge_adjacent", "bits as values", &rules, |made| {
        let rules = chain(made, "FORWARD");
        let exactly = |comp| {
            let value = TcpFlagsMatch { mask: 0x3f, comp };
            let flags = Some(Negatable { negated: false, value });
            Match::Tcp { sport: None, dport: None, flags, option: None }
        };
        rules[0].matches = vec![exactly(0x02)];
        rules[1].matches = vec![exactly(0x10)];
    });
    list.refused("merge_adjacent", "one mask for both", &rules, |made| {
        let rules = chain(made, "FORWARD");
        let second = rules.remove(1);
        rules[0].credited_originals.extend(second.credited_originals);
        let value = TcpFlagsMatch { mask: 0x12, comp: 0x12 };
        rules[0].matches = vec![Match::Tcp {
            sport: None,
            dport: None,
            flags: Some(Negatable { negated: false, value }),
            option: None,
        }];
    });
}

pub fn sets(list: &mut List) {
    let mut hosts = String::new();
    for i in 1..20 {
        hosts += &format!("-A FORWARD -s 192.0.2.{i}/32 -j ACCEPT\n");
    }
    let rules = forward(&(hosts + "-A FORWARD -s 192.0.2.0/24 -j LOG\n"));
    list.refused("fold_into_set", "an element is forgotten", &rules, |made| {
        let element = Arc::make_mut(&mut made.sets[0].elements).pop().unwrap();
        made.dead_rules.extend(element.credited_originals);
    });
    list.refused("fold_into_set", "an element of the neighbour", &rules, |made| {
        let elements = Arc::make_mut(&mut made.sets[0].elements);
        let credited_originals = elements[0].credited_originals.clone();
        elements[0].credited_originals =
            std::mem::replace(&mut elements[1].credited_originals, credited_originals);
    });
    list.refused("fold_into_set", "the other direction", &rules, |made| {
        let rules = chain(made, "FORWARD");
        for m in rules.iter_mut().flat_map(|r| &mut r.matches) {
            if let Match::Set(s) = m {
                s.src_directions[0] = !s.src_directions[0];
            }
        }
    });
    list.refused("fold_into_set", "a forgotten negation", &rules, |made| {
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
    let said = list.refused("fold_into_set", "two budgets become one", &budgets, |made| {
        let rules = chain(made, "FORWARD");
        let second = rules.remove(1);
        rules[0].credited_originals.extend(second.credited_originals);
        rules[0].base.saddr.as_mut().unwrap().mask.0 = 0xffff_fffc;
        rules[0].base.saddr.as_mut().unwrap().addr.0 = 0xc000_0200;
    });
    assert!(said.to_string().contains("is stateful"), "{said}");
}

pub fn cheaper_matches(list: &mut List) {
    let rules = forward(
        "-A FORWARD -m u32 --u32 \"0xc&0xffffff00=0xc0000200\" -j ACCEPT\n\
         -A FORWARD -m u32 --u32 \"0x6&0xff=0x11\" -j ACCEPT\n\
         -A FORWARD -p sctp -m string --string \"foo.com\" --algo kmp -j ACCEPT\n\
         -A FORWARD -p tcp -m tcp -m tcp --dport 80 -j ACCEPT\n",
    );
    list.refused("cheaper_match", "destination for source", &rules, |made| {
        let base = &mut chain(made, "FORWARD")[0].base;
        base.daddr = base.saddr.take();
    });
    list.refused("cheaper_match", "a mask one bit too short", &rules, |made| {
        chain(made, "FORWARD")[0].base.saddr.as_mut().unwrap().mask.0 = 0xffff_fe00;
    });
    list.refused("cheaper_match", "another protocol", &rules, |made| {
        chain(made, "FORWARD")[1].base.proto.as_mut().unwrap().proto = 16;
    });
    list.refused("cheaper_match", "a negation too many", &rules, |made| {
        chain(made, "FORWARD")[1].base.proto.as_mut().unwrap().negated = true;
    });
    list.refused("cheaper_match", "another pattern", &rules, |made| {
        let Match::UnmodelledInput(host) = &mut chain(made, "FORWARD")[2].matches[0] else {
            panic!("string")
        };
        host.options[0].value =
            weir_model::rule_match::ExtensionValue::ByteString(b"foo.org".to_vec());
    });
    list.refused("cheaper_match", "the ports are dropped instead", &rules, |made| {
        let Match::Tcp { dport, .. } = &mut chain(made, "FORWARD")[3].matches[0] else {
            panic!("tcp")
        };
        *dport = None;
    });
}

/// Budgets, targets, IPv6.
pub fn other_merges(list: &mut List) {
    let budgets = forward(
        "-A FORWARD -s 192.0.2.0/25 -m limit --limit 1/sec -j ACCEPT\n\
         -A FORWARD -s 192.0.2.128/25 -m limit --limit 1/sec -j ACCEPT\n",
    );
    list.refused("merge_adjacent", "two budgets become one", &budgets, |made| {
        let rules = chain(made, "FORWARD");
        let second = rules.remove(1);
        rules[0].credited_originals.extend(second.credited_originals);
        rules[0].base.saddr.as_mut().unwrap().mask.0 = 0xffff_ff00;
    });
    let ways = "*filter\n:FORWARD DROP [0:0]\n:one - [0:0]\n:two - [0:0]\n\
        -A FORWARD -s 192.0.2.0/25 -g one\n-A FORWARD -s 192.0.2.128/25 -g two\n\
        -A FORWARD -j ACCEPT\n-A one -j RETURN\n-A two -j RETURN\nCOMMIT\n";
    list.refused("merge_adjacent", "gotos to two chains become one", ways, |made| {
        let rules = chain(made, "FORWARD");
        let second = rules.remove(1);
        rules[0].credited_originals.extend(second.credited_originals);
        rules[0].base.saddr.as_mut().unwrap().mask.0 = 0xffff_ff00;
    });
    let negated = forward(
        "-A FORWARD -p udp -m udp --dport 53 -j ACCEPT\n\
         -A FORWARD -p udp -m udp ! --dport 53 -j ACCEPT\n-A FORWARD -p udp -j LOG\n",
    );
    list.refused("merge_adjacent", "a test and its negation become no test", &negated, |made| {
        let rules = chain(made, "FORWARD");
        let second = rules.remove(1);
        rules[0].credited_originals.extend(second.credited_originals);
        rules[0].matches.clear();
    });
    let v6 = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -s 2001:db8::/33 -j ACCEPT\n\
        -A FORWARD -s 2001:db8:8000::/33 -j ACCEPT\nCOMMIT\n";
    list.refused("merge_adjacent", "an IPv6 prefix one bit too wide", v6, |made| {
        let m = chain(made, "FORWARD")[0].base.saddr.as_mut().unwrap();
        m.mask.0 <<= 97;
        m.addr.0 &= m.mask.0;
    });
}
