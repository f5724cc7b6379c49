//! The input of lints: a firewall whose rules are lowered once, and positions in it.

use weir_model::managing_programs::{
    ManagingProgram, attribute_rule_to_program, find_program_of_chain_in_table,
};
use weir_model::{Chain, Family, Firewall, Rule, RuleId, Ruleset, Span, Table};

use crate::chain_reachability::{
    CatchAllRule, find_catch_all_rules, find_chains_behind_catch_all, find_chains_packets_may_enter,
};
use crate::finding::{Finding, RelatedPlace, RulesetEdit};
use crate::lint::Lint;
use crate::lint_options::LintOptions;
use crate::packet_set_flow::{PacketSetFlow, RulePosition};

/// A firewall that is checked.
pub(crate) struct AnalyzedFirewall<'a> {
    pub firewall: &'a Firewall,
    pub options: &'a LintOptions,
    pub tables: Vec<AnalyzedTable<'a>>,
}

/// One table of it.
pub(crate) struct AnalyzedTable<'a> {
    pub ruleset: &'a Ruleset,
    pub table: &'a Table,
    pub packet_set_flow: PacketSetFlow<'a>,
    /// The rule of each chain that takes every packet, if there is one.
    pub catch_all_rules: Vec<Option<CatchAllRule>>,
    /// Which chains some packet may enter.
    pub reachable_chains: Vec<bool>,
    /// The chains that only rules after a catch-all lead to, with the chain of that catch-all.
    pub chains_behind_catch_all: Vec<Option<usize>>,
}

impl<'a> AnalyzedFirewall<'a> {
    /// Lowers every rule once.
    pub fn new(firewall: &'a Firewall, options: &'a LintOptions) -> Self {
        let tables = firewall.rulesets().flat_map(|r| r.tables.iter().map(move |t| (r, t)));
        let count_rules = |t: &Table| t.chains.iter().map(|c| c.rules.len() as u128).sum::<u128>();
        let all_rules: u128 = firewall.rulesets().flat_map(|r| &r.tables).map(count_rules).sum();
        let boxes_max = u128::from(options.examined_boxes_max_per_ruleset);
        let tables = tables.map(|(ruleset, table)| {
            let share = boxes_max * count_rules(table) / all_rules.max(1);
            let packet_set_flow = PacketSetFlow::new(firewall, ruleset, table, share as u64);
            let catch_all = find_catch_all_rules(ruleset, table, packet_set_flow.chain_graph());
            let reachable =
                find_chains_packets_may_enter(table, packet_set_flow.chain_graph(), &catch_all);
            AnalyzedTable {
                ruleset,
                table,
                chains_behind_catch_all: find_chains_behind_catch_all(
                    packet_set_flow.chain_graph(),
                    &catch_all,
                    &reachable,
                ),
                packet_set_flow,
                catch_all_rules: catch_all,
                reachable_chains: reachable,
            }
        });
        AnalyzedFirewall { firewall, options, tables: tables.collect() }
    }
}

impl<'a> AnalyzedTable<'a> {
    pub fn family(&self) -> Family {
        self.ruleset.family
    }

    pub fn chain_at(&self, at: usize) -> &'a Chain {
        &self.table.chains[at]
    }

    /// Every rule with its chain's and its own index.
    pub fn rules(&self) -> impl Iterator<Item = (usize, usize, &'a Rule)> + use<'a> {
        let chains = self.table.chains.iter().enumerate();
        chains.flat_map(|(c, chain)| chain.rules.iter().enumerate().map(move |(i, r)| (c, i, r)))
    }

    pub fn rule_or_policy_id(&self, chain: usize, rule: Option<usize>) -> RuleId {
        let name = &self.chain_at(chain).name;
        match rule {
            Some(rule) => RuleId::for_rule_at_index(self.family(), self.table.name, name, rule),
            None => RuleId::for_policy(self.family(), self.table.name, name),
        }
    }

    /// Says something of a rule.
    pub fn new_rule_finding(
        &self,
        lint: &'static Lint,
        chain: usize,
        rule: usize,
        message: impl Into<String>,
    ) -> Finding {
        let span = self.chain_at(chain).rules[rule].span;
        self.new_finding_at_place(
            lint,
            self.rule_or_policy_id(chain, Some(rule)),
            span,
            message.into(),
        )
        .with_blamed_program(self.program_of_rule((chain, rule)))
    }

    /// Says something of a chain.
    pub fn new_chain_finding(
        &self,
        lint: &'static Lint,
        chain: usize,
        message: impl Into<String>,
    ) -> Finding {
        self.new_finding_at_place(
            lint,
            self.rule_or_policy_id(chain, None),
            self.chain_at(chain).span,
            message.into(),
        )
        .with_blamed_program(self.program_of_chain(chain))
    }

    /// The program that wrote a rule.
    pub fn program_of_rule(&self, (chain, rule): RulePosition) -> Option<ManagingProgram> {
        let chain = self.chain_at(chain);
        attribute_rule_to_program(self.table, chain, &chain.rules[rule])
    }

    /// The program that keeps a chain.
    pub fn program_of_chain(&self, chain: usize) -> Option<ManagingProgram> {
        find_program_of_chain_in_table(self.table, self.chain_at(chain))
    }

    /// Whether a rule is after one of its chain that takes every packet.
    pub fn is_behind_catch_all(&self, (chain, rule): RulePosition) -> bool {
        self.catch_all_rules[chain].is_some_and(|by| by.rule < rule)
    }

    /// Whether some packet may come to a rule, as far as catch-alls and jumps go.
    pub fn is_reachable_rule(&self, at: RulePosition) -> bool {
        self.reachable_chains[at.0] && !self.is_behind_catch_all(at)
    }

    /// A rule, or a chain, as what is to blame.
    pub fn rule_or_chain_id_and_span(&self, chain: usize, rule: Option<usize>) -> (RuleId, Span) {
        let span = match rule {
            Some(rule) => self.chain_at(chain).rules[rule].span,
            None => self.chain_at(chain).span,
        };
        (self.rule_or_policy_id(chain, rule), span)
    }

    /// What a place of this table is known by among the causes of a lint.
    pub fn root_cause_key(&self, chain: usize, rule: Option<usize>) -> String {
        self.rule_or_policy_id(chain, rule).to_string()
    }

    fn new_finding_at_place(
        &self,
        lint: &'static Lint,
        place: RuleId,
        span: Span,
        message: String,
    ) -> Finding {
        Finding {
            place: Some(place),
            family: Some(self.family()),
            ..Finding::new_with_span_only(lint, span, message)
        }
    }

    /// The edit that removes a rule.
    pub fn edit_removing_rule(&self, chain: usize, rule: usize) -> RulesetEdit {
        RulesetEdit::RemoveRule { rule: self.rule_or_policy_id(chain, Some(rule)) }
    }

    /// Another rule that has to do with a finding.
    pub fn related_place_of_rule(
        &self,
        chain: usize,
        rule: usize,
        label: impl Into<String>,
    ) -> RelatedPlace {
        let span = self.chain_at(chain).rules[rule].span;
        RelatedPlace { place: self.rule_or_policy_id(chain, Some(rule)), span, label: label.into() }
    }
}
