//! The input of lints: a firewall whose rules are lowered once, and positions in it.

use weir_model::programs::{Program, keeper_of, writer_of};
use weir_model::{Chain, Family, Firewall, Rule, RuleId, Ruleset, Span, Table};

use crate::chains::{CatchAll, catch_alls, cut_off, reachable};
use crate::finding::{Also, Edit, Finding};
use crate::flow::{Flow, FlowPosition};
use crate::lint::Lint;
use crate::options::LintOptions;

/// A firewall that is checked.
pub(crate) struct LintContext<'a> {
    pub firewall: &'a Firewall,
    pub options: &'a LintOptions,
    pub tables: Vec<TableContext<'a>>,
}

/// One table of it.
pub(crate) struct TableContext<'a> {
    pub ruleset: &'a Ruleset,
    pub table: &'a Table,
    pub flow: Flow<'a>,
    /// The rule of each chain that takes every packet, if there is one.
    pub catch_all: Vec<Option<CatchAll>>,
    /// Which chains some packet may enter.
    pub reachable: Vec<bool>,
    /// The chains that only rules after a catch-all lead to, with the chain of that catch-all.
    pub cut_off: Vec<Option<usize>>,
}

impl<'a> LintContext<'a> {
    /// Lowers every rule once.
    pub fn new(firewall: &'a Firewall, options: &'a LintOptions) -> Self {
        let tables = firewall.rulesets().flat_map(|r| r.tables.iter().map(move |t| (r, t)));
        let tables = tables.map(|(ruleset, table)| {
            let flow = Flow::new(firewall, ruleset, table);
            let catch_all = catch_alls(ruleset, table, flow.graph());
            let reachable = reachable(table, flow.graph(), &catch_all);
            TableContext {
                ruleset,
                table,
                cut_off: cut_off(flow.graph(), &catch_all, &reachable),
                flow,
                catch_all,
                reachable,
            }
        });
        LintContext { firewall, options, tables: tables.collect() }
    }
}

impl<'a> TableContext<'a> {
    pub fn family(&self) -> Family {
        self.ruleset.family
    }

    pub fn chain(&self, at: usize) -> &'a Chain {
        &self.table.chains[at]
    }

    /// Every rule with its chain's and its own index.
    pub fn rules(&self) -> impl Iterator<Item = (usize, usize, &'a Rule)> + use<'a> {
        let chains = self.table.chains.iter().enumerate();
        chains.flat_map(|(c, chain)| chain.rules.iter().enumerate().map(move |(i, r)| (c, i, r)))
    }

    pub fn place(&self, chain: usize, rule: Option<usize>) -> RuleId {
        let name = &self.chain(chain).name;
        match rule {
            Some(rule) => RuleId::rule(self.family(), self.table.name, name, rule),
            None => RuleId::policy(self.family(), self.table.name, name),
        }
    }

    /// Says something of a rule.
    pub fn rule(
        &self,
        lint: &'static Lint,
        chain: usize,
        rule: usize,
        message: impl Into<String>,
    ) -> Finding {
        let span = self.chain(chain).rules[rule].span;
        self.say(lint, self.place(chain, Some(rule)), span, message.into())
            .by(self.writer((chain, rule)))
    }

    /// Says something of a chain.
    pub fn of_chain(
        &self,
        lint: &'static Lint,
        chain: usize,
        message: impl Into<String>,
    ) -> Finding {
        self.say(lint, self.place(chain, None), self.chain(chain).span, message.into())
            .by(self.keeper(chain))
    }

    /// The program that wrote a rule.
    pub fn writer(&self, (chain, rule): FlowPosition) -> Option<Program> {
        let chain = self.chain(chain);
        writer_of(self.table, chain, &chain.rules[rule])
    }

    /// The program that keeps a chain.
    pub fn keeper(&self, chain: usize) -> Option<Program> {
        keeper_of(self.table, self.chain(chain))
    }

    /// Whether a rule is after one of its chain that takes every packet.
    pub fn is_behind_catch_all(&self, (chain, rule): FlowPosition) -> bool {
        self.catch_all[chain].is_some_and(|by| by.rule < rule)
    }

    /// Whether some packet may come to a rule, as far as catch-alls and jumps go.
    pub fn is_met(&self, at: FlowPosition) -> bool {
        self.reachable[at.0] && !self.is_behind_catch_all(at)
    }

    /// A rule, or a chain, as what is to blame.
    pub fn at(&self, chain: usize, rule: Option<usize>) -> (RuleId, Span) {
        let span = match rule {
            Some(rule) => self.chain(chain).rules[rule].span,
            None => self.chain(chain).span,
        };
        (self.place(chain, rule), span)
    }

    /// What a place of this table is known by among the causes of a lint.
    pub fn key(&self, chain: usize, rule: Option<usize>) -> String {
        self.place(chain, rule).to_string()
    }

    fn say(&self, lint: &'static Lint, place: RuleId, span: Span, message: String) -> Finding {
        Finding {
            place: Some(place),
            family: Some(self.family()),
            ..Finding::about(lint, span, message)
        }
    }

    /// The edit that removes a rule.
    pub fn removal(&self, chain: usize, rule: usize) -> Edit {
        Edit::RemoveRule { rule: self.place(chain, Some(rule)) }
    }

    /// Another rule that has to do with a finding.
    pub fn beside(&self, chain: usize, rule: usize, label: impl Into<String>) -> Also {
        let span = self.chain(chain).rules[rule].span;
        Also { place: self.place(chain, Some(rule)), span, label: label.into() }
    }
}
