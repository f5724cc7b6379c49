//! The content key of a rule stays when other rules are inserted or deleted.

use std::collections::HashSet;

use proptest::prelude::*;
use weir_model::{
    Chain, Family, Policy, Rule, RuleContentKey, RuleId, Ruleset, Table, TableName, Target,
    compute_rule_content_keys,
};

/// A ruleset of two tables of two chains, with rules that are told apart by a number.
fn ruleset(rules: &[(usize, u8)]) -> Ruleset {
    let table = |name: TableName, first: usize| {
        let chain = |at: usize, name: &str, policy: Option<Policy>| {
            let mut chain = Chain::new(name, policy);
            let own = rules.iter().filter(|(chain, _)| *chain == first + at);
            chain.rules =
                own.map(|(_, n)| Rule::unconditional(Target::Jump(text_of(*n).into()))).collect();
            chain
        };
        let chains = vec![chain(0, "FORWARD", Some(Policy::Accept)), chain(1, "web", None)];
        Table { name, chains, leading_comments: Vec::new(), trailing_comments: Vec::new() }
    };
    let mut ruleset = Ruleset::new(Family::V4);
    ruleset.tables = vec![table(TableName::Mangle, 0), table(TableName::Filter, 2)];
    ruleset
}

fn text_of(n: u8) -> String {
    format!("rule-{n}")
}

fn text(rule: &Rule) -> String {
    rule.target.jump_target().map(ToString::to_string).unwrap_or_default()
}

/// The keys with the chain, of 0 to 3, and the text that they stand for.
fn keys(rules: &[(usize, u8)]) -> Vec<(RuleContentKey, (TableName, String), String)> {
    let ruleset = ruleset(rules);
    let keys = compute_rule_content_keys(&ruleset, text);
    keys.map(|(key, id, rule)| (key, (id.table, id.chain.to_string()), text(rule))).collect()
}

/// Rules of few texts, so that equal ones occur.
fn rules() -> impl Strategy<Value = Vec<(usize, u8)>> {
    prop::collection::vec((0..4_usize, 0..5_u8), 0..20)
}

proptest! {
    #[test]
    fn a_rule_keeps_its_key_when_others_are_inserted(
        rules in rules(),
        others in prop::collection::vec((any::<prop::sample::Index>(), 0..4_usize, 5..9_u8), 0..9),
    ) {
        let before = keys(&rules);
        let mut more = rules;
        for (at, chain, n) in others {
            more.insert(at.index(more.len() + 1), (chain, n));
        }
        let after: Vec<_> =
            keys(&more).into_iter().filter(|k| before.iter().any(|b| b.2 == k.2)).collect();
        // In reverse, the inserted rules are deleted.
        prop_assert_eq!(before, after);
    }

    #[test]
    fn equal_rules_are_distinguished_only_by_their_order(rules in rules(), gone in 0..20_usize) {
        let before = keys(&rules);
        let distinct: HashSet<RuleContentKey> = before.iter().map(|k| k.0).collect();
        prop_assert_eq!(distinct.len(), rules.len());
        // Of equal rules the last ordinal goes, whichever of them is deleted.
        if gone < rules.len() {
            let mut fewer = rules.clone();
            fewer.remove(gone);
            let after: HashSet<RuleContentKey> = keys(&fewer).into_iter().map(|k| k.0).collect();
            prop_assert!(after.is_subset(&distinct));
            prop_assert_eq!(after.len() + 1, distinct.len());
        }
    }
}

#[test]
fn a_key_is_the_same_in_every_version() {
    let rules = ruleset(&[(2, 1), (2, 1)]);
    let all: Vec<String> =
        compute_rule_content_keys(&rules, text).map(|(key, ..)| key.to_string()).collect();
    let digest = "dca3ce38a3364b7141dcf5f900bbea2c";
    assert_eq!(all, [digest.to_owned(), format!("{digest}+1")]);
}

#[test]
fn family_table_and_chain_are_part_of_a_key() {
    let key = |chain| keys(&[(chain, 1)])[0].0;
    let four: HashSet<RuleContentKey> = (0..4).map(key).collect();
    assert_eq!(four.len(), 4);
    let mut v6 = ruleset(&[(2, 1)]);
    v6.family = Family::V6;
    let (other, id, rule) = compute_rule_content_keys(&v6, text).next().expect("a rule");
    assert_ne!(other, key(2));
    assert_eq!(id, RuleId::for_rule_at_index(Family::V6, TableName::Filter, &"FORWARD".into(), 0));
    assert_eq!(
        (id.to_string().as_str(), text(rule).as_str()),
        ("ip6tables/filter/FORWARD/1", "rule-1")
    );
}
