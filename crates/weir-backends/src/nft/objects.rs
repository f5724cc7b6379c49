//! Objects that rules share by name, if nft replaces some of these rules.

use weir_model::effect::named::{Objects, shares_objects};
use weir_model::{Chain, Firewall, Table};

use super::places::places;
use crate::form::Refusal;

/// Rules that nft cannot say, that no packet reaches, and that make or configure what rules that
/// stay in iptables use by name.
pub(super) fn lost(firewall: &Firewall, kept: &Firewall) -> Vec<Refusal> {
    let [before, after] = [firewall, kept].map(|f| Objects::of(f.rulesets()));
    let Some(object) = before.first_change(&after) else { return Vec::new() };
    let mut refusals = Vec::new();
    for ruleset in firewall.rulesets() {
        let family = ruleset.family;
        let stays = |table: &Table, chain: &Chain| {
            let table = kept.ruleset(family).and_then(|r| r.table(&table.name));
            table.is_some_and(|t| t.chain(&chain.name).is_some_and(|c| !c.rules.is_empty()))
        };
        let places = places(ruleset);
        for (table, chain, rule) in ruleset.rules() {
            if !shares_objects(rule, family) || stays(table, chain) {
                continue;
            }
            let place = rule.credit.first().and_then(|id| places.get(id));
            refusals.push(Refusal {
                family,
                place: place.cloned().unwrap_or_default(),
                what: format!(
                    "a rule that creates or configures the {object} of rules in iptables"
                ),
                cure: Some("move it to a chain that stays in iptables".to_owned()),
                span: rule.span,
            });
        }
    }
    refusals
}
