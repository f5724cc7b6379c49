//! What a proof does not cover, if rules test something related (docs/semantics.md).

use weir_model::{Field, Firewall, Hook, Ruleset, TableName, Test, lower_to_tests};

/// What no packet of a comparison shows, for firewalls whose rules could distinguish it: sentences.
pub fn describe_uncovered_packets(firewalls: &[&Firewall]) -> Vec<String> {
    let any = |tells: fn(&Ruleset) -> bool| firewalls.iter().flat_map(|f| f.rulesets()).any(tells);
    let cases: [(bool, &str); 4] = [
        (
            any(|r| tests_field_in_hooks(r, None, &Hook::ALL, Field::Length)),
            "packets of more than 65,535 bytes (BIG TCP), whose length rules test",
        ),
        (
            any(|r| tests_field_in_hooks(r, None, &[Hook::Forward, Hook::Postrouting], Field::Ttl)),
            "bridged packets (bridge-nf-call-iptables): FORWARD and POSTROUTING see their TTL \
             before it is decremented",
        ),
        (
            any(|r| tests_field_in_hooks(r, Some(TableName::Raw), &Hook::ALL, Field::CtState)),
            "packets that enter the raw table with a conntrack entry or as UNTRACKED, except over \
             lo: the host's own broadcasts that return to it, clones of TEE",
        ),
        (
            any(|r| tests_field_in_hooks(r, None, &[Hook::Postrouting], Field::Daddr)),
            "packets with a source route that the host accepts: their destination changes between \
             FORWARD and POSTROUTING",
        ),
    ];
    cases.into_iter().filter(|(tells, _)| *tells).map(|(_, what)| what.to_owned()).collect()
}

/// Whether some rule tests the field that one of the hooks may reach, in one table or in any.
fn tests_field_in_hooks(
    ruleset: &Ruleset,
    of: Option<TableName>,
    hooks: &[Hook],
    field: Field,
) -> bool {
    let is_it = |t: &Test| matches!(t, Test::Field { field: f, .. } if *f == field);
    let tables = ruleset.tables.iter().filter(|t| of.is_none_or(|name| t.name == name));
    let names = || hooks.iter().map(|h| h.chain_name());
    tables.flat_map(|table| table.chains_reachable_from_names(names())).any(|chain| {
        chain.rules.iter().any(|rule| lower_to_tests(rule, ruleset.family).iter().any(is_it))
    })
}
