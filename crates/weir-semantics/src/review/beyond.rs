//! What a proof does not cover, where rules test what it hangs on (docs/semantics.md).

use weir_model::{Field, Firewall, Hook, Ruleset, TableName, Test, tests_of};

/// What no packet of a comparison shows, of firewalls whose rules could tell: sentences.
pub fn not_covered(firewalls: &[&Firewall]) -> Vec<String> {
    let any = |tells: fn(&Ruleset) -> bool| firewalls.iter().flat_map(|f| f.rulesets()).any(tells);
    let cases: [(bool, &str); 4] = [
        (
            any(|r| tests(r, |_, _| true, Field::Length)),
            "packets of more than 65,535 bytes (BIG TCP), which rules test by their length",
        ),
        (
            any(|r| tests(r, |_, chain| is_behind_routing(chain), Field::Ttl)),
            "bridged packets (bridge-nf-call-iptables): FORWARD and POSTROUTING see their time to \
             live undiminished",
        ),
        (
            any(|r| tests(r, |t, _| t == TableName::Raw, Field::CtState)),
            "packets that come to the raw table with a conntrack entry or as UNTRACKED, but for \
             those over lo: the host's own broadcasts that come back to it, clones of TEE",
        ),
        (
            any(|r| tests(r, |_, chain| is_last(chain), Field::Daddr)),
            "packets with a source route that the host accepts: their destination changes between \
             FORWARD and POSTROUTING",
        ),
    ];
    cases.into_iter().filter(|(tells, _)| *tells).map(|(_, what)| what.to_owned()).collect()
}

/// Whether some rule of such a table and chain tests the field.
fn tests(ruleset: &Ruleset, of: fn(TableName, &str) -> bool, field: Field) -> bool {
    ruleset.rules().filter(|(table, chain, _)| of(table.name, &chain.name)).any(|(_, _, rule)| {
        let is_it = |t: &Test| matches!(t, Test::Field { field: f, .. } if *f == field);
        tests_of(rule, ruleset.family).iter().any(is_it)
    })
}

/// Whether a forwarded packet may meet the chain behind routing: user chains may be called there.
fn is_behind_routing(chain: &str) -> bool {
    Hook::of_chain(chain).is_none_or(|hook| matches!(hook, Hook::Forward | Hook::Postrouting))
}

/// Whether it may meet the chain behind FORWARD.
fn is_last(chain: &str) -> bool {
    Hook::of_chain(chain).is_none_or(|hook| hook == Hook::Postrouting)
}
