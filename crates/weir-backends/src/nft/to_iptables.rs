//! Translates nft tables to iptables.
//!
//! [`super::compile_nft_form_without_passes`] translates from iptables to nft; this is the inverse.
//! The result is an ordinary ruleset of the model, so it can be compared and explained, and packets
//! can be generated for it, as for a file. It is exact, or refused by name:
//!
//! - A rule becomes a rule: its tests become matches, its action the target. A test of ports, TCP
//!   flags or the ICMP type applies to any protocol in nft and to one protocol in iptables: it is
//!   translated only if the rule, or every path to its chain, has tested the protocol
//!   (`find_chain_protocols`).
//! - A lookup becomes one rule per element, in its place. No two elements have the same key, so a
//!   packet that returns from one element's chain matches no other.
//! - Tests that are specific to nft (`limit`, `fib`) become the matches of the other ruleset that
//!   compile to the same text ([`OpaqueNftTextDictionary`]), or otherwise tests that only nft has.
//!
//! The deviations of `docs/semantics.md` are excluded: truncated headers, and fragments that are
//! not reassembled.

mod opaque_nft_text_dictionary;
mod protocol_set;
mod rule_draft;

use std::collections::HashMap;

use weir_model::nft::{self, CreditedRuleOrPolicy, LoadExpression, Statement, Verdict};
use weir_model::{
    Chain, CreditedOriginals, Family, Hook, Policy, Rule, Ruleset, SharedName, Table, TableName,
    Target,
};

pub use self::opaque_nft_text_dictionary::OpaqueNftTextDictionary;
use self::protocol_set::ProtocolSet;
use self::rule_draft::IptablesRuleDraft;

/// Why nft tables cannot be translated to iptables: the position and the construct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untranslatable {
    /// `weir_filter FORWARD rule 3`.
    pub location: String,
    /// What it is.
    pub construct: String,
}

impl std::fmt::Display for Untranslatable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.location, self.construct)
    }
}

/// The tables of one family as iptables' tables.
///
/// # Errors
/// All that iptables has no words for.
pub fn translate_tables_of_family(
    ruleset: &nft::Ruleset,
    family: Family,
    dictionary: &OpaqueNftTextDictionary,
) -> Result<Ruleset, Vec<Untranslatable>> {
    let normal = weir_syntax::nft::normalize_ruleset(ruleset);
    let mut out = Ruleset::new(family);
    let mut unsaid = Vec::new();
    let both = ruleset.tables.iter().zip(&normal.tables);
    for (credited, plain) in both.filter(|(t, _)| t.family == family) {
        let mut translator = TableTranslator::new(credited, plain, dictionary);
        out.tables.push(translator.translate_table());
        unsaid.append(&mut translator.untranslatable);
    }
    if unsaid.is_empty() { Ok(out) } else { Err(unsaid) }
}

/// Adds the tables of nft to a ruleset with the rules that stay in iptables. A hook is in one of
/// them.
///
/// # Errors
/// A hook that both decide.
pub fn add_translated_tables(rest: &mut Ruleset, said: Ruleset) -> Result<(), Untranslatable> {
    for table in said.tables {
        let Some(at) = rest.tables.iter().position(|t| t.name == table.name) else {
            rest.tables.push(table);
            continue;
        };
        let kept = &mut rest.tables[at];
        let mut renamed = table;
        let index: HashMap<SharedName, usize> =
            kept.chains.iter().map(|c| c.name.clone()).zip(0..).collect();
        rename_clashing_chains(&mut renamed, |name| index.contains_key(name));
        for chain in renamed.chains {
            match index.get(&chain.name).map(|at| &mut kept.chains[*at]) {
                None => kept.chains.push(chain),
                Some(old) if old.rules.is_empty() && old.policy == Some(Policy::Accept) => {
                    *old = chain;
                }
                Some(_) if chain.rules.is_empty() && chain.policy == Some(Policy::Accept) => {}
                Some(_) => {
                    let place = format!("{} {}", renamed.name, chain.name);
                    let what = "has rules in iptables and in nft".to_owned();
                    return Err(Untranslatable { location: place, construct: what });
                }
            }
        }
    }
    rest.tables.sort_by_key(|t| t.name);
    Ok(())
}

/// Renames user chains of `table` whose names are taken.
fn rename_clashing_chains(table: &mut Table, is_taken: impl Fn(&SharedName) -> bool) {
    let mut renamed: HashMap<SharedName, SharedName> = HashMap::new();
    for chain in table.chains.iter_mut().filter(|c| c.policy.is_none()) {
        if is_taken(&chain.name) {
            let name: SharedName = format!("nft:{}", chain.name).into();
            renamed.insert(std::mem::replace(&mut chain.name, name.clone()), name);
        }
    }
    for rule in table.chains.iter_mut().flat_map(|c| &mut c.rules) {
        if let Target::Jump(to) | Target::Goto(to) = &mut rule.target
            && let Some(name) = renamed.get(to)
        {
            *to = name.clone();
        }
    }
}

/// The protocols that a rule's tests leave of those that come to it.
fn restrict_protocol_set_by_tests(statements: &[Statement], mut of: ProtocolSet) -> ProtocolSet {
    for statement in statements {
        match statement {
            Statement::Test(t) if t.expression == LoadExpression::L4proto => {
                of = of.filter_by_test(t)
            }
            _ => {}
        }
    }
    of
}

/// Which protocols come to each chain.
fn find_chain_protocols(table: &nft::Table) -> HashMap<&str, ProtocolSet> {
    let mut of: HashMap<&str, ProtocolSet> =
        table.chains.iter().map(|c| (c.name.as_str(), ProtocolSet::NONE)).collect();
    let chains: HashMap<&str, &nft::Chain> =
        table.chains.iter().map(|c| (c.name.as_str(), c)).collect();
    let maps = index_verdict_maps_by_name(table);
    let mut open: Vec<&nft::Chain> = Vec::new();
    for chain in table.chains.iter().filter(|c| c.base.is_some()) {
        of.insert(&chain.name, ProtocolSet::ALL);
        open.push(chain);
    }
    while let Some(chain) = open.pop() {
        let here = of[chain.name.as_str()];
        for rule in &chain.rules {
            let left = restrict_protocol_set_by_tests(&rule.statements, here);
            for to in list_target_chains(&maps, rule) {
                let Some(known) = of.get_mut(to) else { continue };
                let more = known.union(left);
                if more != *known {
                    *known = more;
                    open.extend(chains.get(to));
                }
            }
        }
    }
    of
}

/// Maps by their names.
fn index_verdict_maps_by_name(table: &nft::Table) -> HashMap<&str, &nft::VerdictMap> {
    table.maps.iter().map(|m| (m.name.as_str(), m)).collect()
}

/// The chains that a rule leads to.
fn list_target_chains<'t>(
    maps: &HashMap<&str, &'t nft::VerdictMap>,
    rule: &'t nft::Rule,
) -> Vec<&'t str> {
    let mut out = Vec::new();
    for statement in &rule.statements {
        match statement {
            Statement::Verdict(v) => out.extend(v.jump_target()),
            Statement::Vmap { map, .. } => {
                out.extend(
                    maps.get(map.as_str())
                        .into_iter()
                        .flat_map(|m| &m.elements)
                        .filter_map(|e| e.verdict.jump_target()),
                );
            }
            _ => {}
        }
    }
    out
}

struct TableTranslator<'t> {
    credited_table: &'t nft::Table,
    normalized_table: &'t nft::Table,
    /// Maps of both by their names.
    credited_maps: HashMap<&'t str, &'t nft::VerdictMap>,
    normalized_maps: HashMap<&'t str, &'t nft::VerdictMap>,
    dictionary: &'t OpaqueNftTextDictionary,
    untranslatable: Vec<Untranslatable>,
    /// Marks change along the way.
    table_sets_marks: bool,
}

impl<'t> TableTranslator<'t> {
    fn new(
        credited: &'t nft::Table,
        plain: &'t nft::Table,
        dictionary: &'t OpaqueNftTextDictionary,
    ) -> Self {
        let rules = plain.chains.iter().flat_map(|c| &c.rules);
        let marks = rules.flat_map(|r| &r.statements).any(|s| match s {
            Statement::Effect(e) => !matches!(e, weir_model::Effect::Notrack),
            _ => false,
        });
        TableTranslator {
            credited_table: credited,
            normalized_table: plain,
            credited_maps: index_verdict_maps_by_name(credited),
            normalized_maps: index_verdict_maps_by_name(plain),
            dictionary,
            untranslatable: Vec::new(),
            table_sets_marks: marks,
        }
    }

    fn translate_table(&mut self) -> Table {
        let name = self.normalized_table.iptables_table;
        let (leading_comments, trailing_comments) = (Vec::new(), Vec::new());
        let mut out = Table { name, chains: Vec::new(), leading_comments, trailing_comments };
        let protocols = find_chain_protocols(self.normalized_table);
        for (chain, credited) in
            self.normalized_table.chains.iter().zip(&self.credited_table.chains)
        {
            let mut made = match &chain.base {
                Some(base) => Chain::new(base.hook.chain_name(), Some(base.policy)),
                None => Chain::new(chain.name.as_str(), None),
            };
            let here = protocols[chain.name.as_str()];
            for (i, (rule, credited)) in chain.rules.iter().zip(&credited.rules).enumerate() {
                let place =
                    || format!("{} {} rule {}", self.normalized_table.name, chain.name, i + 1);
                match self.translate_rule(rule, credited, here) {
                    Ok(rules) => made.rules.extend(rules),
                    Err(what) => self
                        .untranslatable
                        .push(Untranslatable { location: place(), construct: what }),
                }
            }
            out.chains.push(made);
        }
        add_missing_and_sort_built_in_chains(&mut out, name);
        out
    }

    /// A rule of nft as one of iptables, or as one for each element that it looks up.
    fn translate_rule(
        &self,
        rule: &nft::Rule,
        credited: &nft::Rule,
        here: ProtocolSet,
    ) -> Result<Vec<Rule>, String> {
        let family = self.normalized_table.family;
        let mut draft =
            IptablesRuleDraft::new(family, restrict_protocol_set_by_tests(&rule.statements, here));
        let (rest, taken) = self.dictionary.extract_multi_statement_matches(rule);
        draft.append_multi_statement_matches(taken);
        let mut target = None;
        let mut lookup = None;
        for statement in rest {
            if target.is_some() || lookup.is_some() {
                return Err("does two things in one rule".into());
            }
            match statement {
                Statement::Test(test) => draft.add_test(test)?,
                Statement::OpaqueTest(opaque) => {
                    draft.add_opaque_match(self.dictionary.known_or_nft_only_match(opaque)?)
                }
                Statement::Counter(_) => {}
                Statement::Vmap { key, map } => lookup = Some((key, map)),
                Statement::Verdict(v) => target = Some(self.verdict_to_target(v)),
                Statement::Effect(e) => {
                    target = Some(Target::Effect(Box::new(
                        self.dictionary.use_original_effect_spelling(e),
                    )))
                }
                Statement::Reject(word) => target = Some(Target::Reject(word)),
                Statement::Nat(nat) => target = Some(Target::Nat(Box::new(nat.clone()))),
            }
        }
        if draft.never_matches {
            return Ok(Vec::new());
        }
        let Some((key, map)) = lookup else {
            let credited_originals = credited.statements.iter().filter_map(|s| match s {
                Statement::Counter(credited_originals) => Some(credited_originals),
                _ => None,
            });
            let credited_originals = collect_credited_rule_indices(credited_originals.flatten());
            return Ok(vec![draft.build_rule(target.unwrap_or(Target::None), credited_originals)]);
        };
        self.translate_lookup(&draft, key, map)
    }

    fn translate_lookup(
        &self,
        draft: &IptablesRuleDraft,
        key: &[nft::MapKeyExpression],
        map: &str,
    ) -> Result<Vec<Rule>, String> {
        let missing = || format!("looks up {map}, which does not exist");
        let (plain, credited) =
            self.normalized_maps.get(map).zip(self.credited_maps.get(map)).ok_or_else(missing)?;
        let jumps = plain.elements.iter().any(|e| matches!(e.verdict, Verdict::Jump(_)));
        if jumps
            && self.table_sets_marks
            && key.iter().any(|k| k.expression == LoadExpression::Mark)
        {
            return Err("looks up a mark that changes after the lookup".into());
        }
        let credited_originals: HashMap<_, _> =
            credited.elements.iter().map(|e| (&e.key, &e.credited_originals)).collect();
        let mut out = Vec::with_capacity(plain.elements.len());
        for element in &plain.elements {
            let mut draft = draft.clone();
            for (key, part) in key.iter().zip(&element.key) {
                draft.add_key_part(key, part)?;
            }
            let credited_originals = credited_originals
                .get(&element.key)
                .map_or(CreditedOriginals::new(), |c| collect_credited_rule_indices(c.iter()));
            out.push(
                draft.build_rule(self.verdict_to_target(&element.verdict), credited_originals),
            );
        }
        Ok(out)
    }

    fn verdict_to_target(&self, verdict: &Verdict) -> Target {
        match verdict {
            Verdict::Accept => Target::Accept,
            Verdict::Drop => Target::Drop,
            Verdict::Return => Target::Return,
            Verdict::Jump(to) => Target::Jump(to.as_str().into()),
            Verdict::Goto(to) => Target::Goto(to.as_str().into()),
            Verdict::Continue => Target::None,
        }
    }
}

fn collect_credited_rule_indices<'c>(
    credited_originals: impl Iterator<Item = &'c CreditedRuleOrPolicy>,
) -> CreditedOriginals {
    let rules = credited_originals.filter_map(|c| match c {
        CreditedRuleOrPolicy::Rule(id) => Some(*id),
        CreditedRuleOrPolicy::Policy(_) => None,
    });
    rules.collect()
}

/// The built-in chains that nft has no base chain for.
fn add_missing_and_sort_built_in_chains(table: &mut Table, name: TableName) {
    for hook in name.hooks() {
        if table.chain(hook.chain_name()).is_none() {
            let at = count_built_in_chains(table);
            table.chains.insert(at, Chain::new(hook.chain_name(), Some(Policy::Accept)));
        }
    }
    let place = |c: &Chain| Hook::from_chain_name(&c.name).filter(|_| c.policy.is_some());
    table.chains.sort_by_key(|c| place(c).map_or(usize::MAX, |h| h as usize));
}

fn count_built_in_chains(table: &Table) -> usize {
    table.chains.iter().filter(|c| c.policy.is_some()).count().min(table.chains.len())
}
