//! Wrong variants of passes that treat packets differently on purpose.

use weir_model::rule_match::{FragmentMatch, Negatable};
use weir_model::{Effect, Match, TableName, Target};
use weir_passes::RewrittenRuleset;

use crate::{List, of_table, read};

const DROPS_EARLY: &str = "*raw\n-A PREROUTING -s 192.0.2.0/24 -m ttl --ttl-gt 1 -j DROP\nCOMMIT\n";

/// Adds a raw table whose rules stand for none of the original.
fn add_raw(made: &mut RewrittenRuleset, text: &str) {
    let mut raw = read(text).v4.take().unwrap().tables.remove(0);
    raw.chains
        .iter_mut()
        .flat_map(|c| &mut c.rules)
        .for_each(|rule| rule.credited_originals.clear());
    made.ruleset.tables.push(raw);
}

pub fn early_drops(list: &mut List) {
    let both = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:black - [0:0]\n\
        -A INPUT -j black\n-A FORWARD -j black\n-A black -s 192.0.2.0/24 -j DROP\n\
        -A black -s 198.51.100.0/24 -j LOG\n-A black -s 198.51.100.0/24 -j DROP\nCOMMIT\n";
    list.refused("early_drop", "without a look at the time to live", both, |made| {
        of_table(made, TableName::Raw, ":early")[0].matches.clear();
    });
    list.refused("early_drop", "a prefix one bit too wide", both, |made| {
        let m = of_table(made, TableName::Raw, ":early")[0].base.saddr.as_mut().unwrap();
        (m.addr.0, m.mask.0) = (0xc000_0200, 0xffff_fe00);
    });
    list.refused("early_drop", "what was logged first", both, |made| {
        let m = of_table(made, TableName::Raw, ":early")[0].base.saddr.as_mut().unwrap();
        m.addr.0 = 0xc633_6400;
    });
    list.refused("early_drop", "with an answer", both, |made| {
        let answer = Target::Reject("icmp-port-unreachable");
        of_table(made, TableName::Raw, ":early")[0].target = answer;
    });
    let one_way = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n\
        -A INPUT -s 192.0.2.0/24 -j DROP\n-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n\
        -A FORWARD -s 192.0.2.0/24 -j DROP\nCOMMIT\n";
    list.refused("early_drop", "what some states accept", one_way, |made| {
        add_raw(made, DROPS_EARLY);
    });
}

pub fn early_fragments(list: &mut List) {
    let untracked = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:black - [0:0]\n\
        -A INPUT -j black\n-A FORWARD -j black\n-A black -s 192.0.2.0/24 -p udp -j DROP\n\
        -A black -f -j DROP\n-A black -p udp -m length --length 0:60 -j DROP\nCOMMIT\n";
    list.refused("early_drop", "fragments of what INPUT accepts whole", untracked, |made| {
        let base = &mut of_table(made, TableName::Raw, ":early")[0].base;
        (base.saddr, base.proto) = (None, None);
        base.fragment = Some(FragmentMatch { negated: false });
    });
    list.refused("early_drop", "short fragments of long datagrams", untracked, |made| {
        let rule = &mut of_table(made, TableName::Raw, ":early")[0];
        rule.base.saddr = None;
        rule.matches.push(Match::Length(Negatable { negated: false, value: (0, 60) }));
    });
}

pub fn notracks(list: &mut List) {
    let dns = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:free - [0:0]\n\
        -A INPUT -j free\n-A FORWARD -j free\n\
        -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
        -A free -p icmp -j ACCEPT\n-A free -p udp -m udp --dport 53 -j ACCEPT\n\
        -A free -p udp -m udp --sport 53 -j ACCEPT\nCOMMIT\n";
    list.refused("notrack", "one direction only", dns, |made| {
        of_table(made, TableName::Raw, ":notrack").truncate(1);
    });
    list.refused("notrack", "not what is made here", dns, |made| {
        of_table(made, TableName::Raw, "OUTPUT").clear();
    });
    list.refused("notrack", "what a state decides", dns, |made| {
        for rule in of_table(made, TableName::Raw, ":notrack") {
            rule.matches.clear();
            rule.base.proto.as_mut().unwrap().proto = 6;
        }
    });
    list.refused("notrack", "another effect on the way", dns, |made| {
        let mark = Effect::Mark { xor_value: 1, clear_mask: u32::MAX };
        of_table(made, TableName::Raw, ":notrack")[0].target = Target::Effect(Box::new(mark));
    });
    let errors = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:free - [0:0]\n\
        -A INPUT -j free\n-A FORWARD -j free\n\
        -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
        -A free -p udp -m udp --dport 53 -j ACCEPT\n\
        -A free -p udp -m udp --sport 53 -j ACCEPT\nCOMMIT\n";
    let said =
        list.refused("notrack", "ICMP errors are accepted as RELATED only", errors, |made| {
            let raw = "*raw\n:w4:00001:notrack - [0:0]\n-A PREROUTING -j w4:00001:notrack\n\
            -A OUTPUT -j w4:00001:notrack\n\
            -A w4:00001:notrack -p udp -m udp --dport 53 -j CT --notrack\n\
            -A w4:00001:notrack -p udp -m udp --sport 53 -j CT --notrack\nCOMMIT\n";
            add_raw(made, raw);
        });
    assert!(said.to_string().contains("ICMP errors"), "{said}");
}

/// What looks like a flood, and is not dropped on every way.
pub fn other_early_drops(list: &mut List) {
    let input = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n\
        -A FORWARD -s 192.0.2.0/24 -j DROP\nCOMMIT\n";
    list.refused("early_drop", "what INPUT accepts", input, |made| {
        add_raw(made, DROPS_EARLY);
    });
    let negated = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:black - [0:0]\n\
        -A INPUT -j black\n-A FORWARD -j black\n-A black ! -s 192.0.2.0/24 -j DROP\nCOMMIT\n";
    list.refused("early_drop", "a forgotten negation", negated, |made| {
        let rule = &mut of_table(made, TableName::Raw, ":early")[0];
        rule.base.saddr.as_mut().unwrap().negated = false;
    });
}
