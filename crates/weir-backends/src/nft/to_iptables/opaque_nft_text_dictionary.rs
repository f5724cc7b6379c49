//! The meaning of nft-specific text: the matches and effects of another ruleset that compile to it.

use std::collections::{HashMap, HashSet};

use weir_model::nft::{self, Chain, OpaqueNftTest, Ruleset, Statement, Table};
use weir_model::rule_match::{
    ExtensionValue, StatefulMatch, TypedExtensionOption, UnmodelledInputMatch,
};
use weir_model::{
    Effect, Family, Firewall, Match, OriginalRuleIndex, TableName, Target, Test, lower_to_tests,
};
use weir_syntax::nft::print_effect;

use super::super::nft_condition::NftCondition;
use super::super::opaque_match;

/// The words of one family.
#[derive(Clone, Debug)]
pub struct OpaqueNftTextDictionary {
    /// Statements, and the match that becomes them; many statements first.
    match_statements: Vec<(Vec<Statement>, Match)>,
    /// Words that say the opposite of a match.
    inverted_texts: HashSet<String>,
    effects: HashMap<String, Effect>,
    family: Family,
}

impl OpaqueNftTextDictionary {
    /// The words that the rules of a firewall become.
    pub fn from_firewall(firewall: &Firewall, family: Family) -> OpaqueNftTextDictionary {
        let mut dictionary = OpaqueNftTextDictionary {
            match_statements: Vec::new(),
            inverted_texts: HashSet::new(),
            effects: HashMap::new(),
            family,
        };
        let mut seen = HashSet::new();
        for (_, _, rule) in
            firewall.ruleset(family).into_iter().flat_map(|r| r.rules_with_table_and_chain())
        {
            for (index, stateful) in lower_to_tests(rule, family).iter().filter_map(|t| match t {
                Test::Opaque { index, stateful, .. } => Some((*index, *stateful)),
                _ => None,
            }) {
                let m = &rule.matches[index];
                if seen.insert(format!("{m:?}")) {
                    dictionary.record_match_translation(m, index, stateful);
                }
            }
            if let Target::Effect(e) = &rule.target
                && let Ok(text) = print_effect(e, family)
            {
                dictionary.effects.entry(text).or_insert_with(|| (**e).clone());
            }
        }
        dictionary.match_statements.sort_by_key(|(words, _)| std::cmp::Reverse(words.len()));
        dictionary
    }

    fn record_match_translation(&mut self, m: &Match, index: usize, stateful: bool) {
        let place = opaque_match::OpaqueMatchContext {
            rule: OriginalRuleIndex(0),
            index,
            stateful,
            family: self.family,
        };
        let Ok(conds) = opaque_match::lower_opaque_match(m, place) else { return };
        let mut words = Vec::new();
        for cond in conds {
            match cond {
                NftCondition::Test(t) => words.push(Statement::Test(t)),
                NftCondition::Opaque(o) => words.push(Statement::OpaqueTest(o)),
                NftCondition::UnlessStatement(s) => {
                    if let Statement::OpaqueTest(o) = *s {
                        self.inverted_texts.insert(o.text);
                    }
                    return;
                }
                NftCondition::AnyTest(_) => return,
            }
        }
        self.match_statements.push((normalize_statements(words, self.family), m.clone()));
    }

    /// The rule's statements without those that represent matches, and these matches.
    pub fn extract_multi_statement_matches<'r>(
        &self,
        rule: &'r nft::Rule,
    ) -> (Vec<&'r Statement>, Vec<Match>) {
        let mut rest: Vec<&Statement> = rule.statements.iter().collect();
        let mut taken = Vec::new();
        let has_words = rest.iter().filter(|s| matches!(s, Statement::OpaqueTest(_))).count();
        if has_words == 0 {
            return (rest, taken);
        }
        for (words, m) in self.match_statements.iter().filter(|(words, _)| words.len() > 1) {
            if words.iter().all(|w| rest.contains(&w)) {
                rest.retain(|s| !words.contains(s));
                taken.push(m.clone());
            }
        }
        (rest, taken)
    }

    /// The match that the nft text represents; a match that only nft has if there is no other.
    pub fn known_or_nft_only_match(&self, opaque: &OpaqueNftTest) -> Result<Match, String> {
        if self.inverted_texts.contains(&opaque.text) {
            return Err(format!("{}: the other ruleset has only its opposite", opaque.text));
        }
        let is = |words: &[Statement]| match words {
            [Statement::OpaqueTest(o)] => o.text == opaque.text,
            _ => false,
        };
        if let Some((_, m)) = self.match_statements.iter().find(|(words, _)| is(words)) {
            return Ok(m.clone());
        }
        let value = ExtensionValue::Text(opaque.text.clone());
        let options = vec![TypedExtensionOption { negated: false, name: "test", value }];
        Ok(match opaque.stateful {
            true => Match::Stateful(Box::new(StatefulMatch { module: "nft", options })),
            false => {
                Match::UnmodelledInput(Box::new(UnmodelledInputMatch { module: "nft", options }))
            }
        })
    }

    /// The effect in the spelling of the other ruleset.
    pub fn use_original_effect_spelling(&self, effect: &Effect) -> Effect {
        let text = print_effect(effect, self.family);
        let known = text.ok().and_then(|text| self.effects.get(&text));
        known.unwrap_or(effect).clone()
    }
}

/// Statements in one spelling.
fn normalize_statements(statements: Vec<Statement>, family: Family) -> Vec<Statement> {
    let rule = nft::Rule { statements, comment: None };
    let chain =
        Chain { name: "c".into(), base: None, iptables_name_comment: None, rules: vec![rule] };
    let table = Table {
        family,
        name: "weir_filter".into(),
        iptables_table: TableName::Filter,
        maps: Vec::new(),
        chains: vec![chain],
    };
    let normal = weir_syntax::nft::normalize_ruleset(&Ruleset { tables: vec![table] });
    normal
        .tables
        .into_iter()
        .flat_map(|t| t.chains)
        .flat_map(|c| c.rules)
        .flat_map(|r| r.statements)
        .collect()
}
