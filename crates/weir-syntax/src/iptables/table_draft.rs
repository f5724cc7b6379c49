//! A table while it is being read: its chains, and the commands that change their rules.

mod chain_commands;

use std::collections::HashMap;

use weir_model::effect::list_target_sets_with_write_flags;
use weir_model::ruleset::CHAIN_NAME_MAX_BYTES;
use weir_model::{
    Chain, Counters, CreditedOriginals, Family, Hook, IpSet, Match, Policy, Rule, SharedName, Span,
    Table, TableName,
};

use super::loop_and_hook_checks::{self, HookRestriction};
use super::scan::{CommandWithOperands, ParsedLine};
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::strtoul;

/// Rules that the lists of addresses of a table may stand for, altogether: two lists in a line of
/// 100 kB would stand for millions.
const EXPANDED_RULES_MAX: usize = 250_000;

/// A table that is being read.
pub(super) struct TableDraft {
    pub table: TableName,
    family: Family,
    /// Its `*TABLE` line.
    pub span: Span,
    chains: Vec<Chain>,
    /// The hooks that each rule requires, parallel to `chains[i].rules`.
    hook_restrictions: Vec<Vec<HookRestriction>>,
    chain_index_by_name: HashMap<SharedName, usize>,
    /// The chain of the last command: mostly that of the next one, too.
    last_command_chain_index: usize,
    leading_comments: Vec<String>,
    /// Rules that lists of addresses stood for so far.
    expanded_rule_count: usize,
}

/// Properties of a rule's line in addition to its words.
pub(super) struct RuleLineContext<'s> {
    pub span: Span,
    pub counters: Option<Counters>,
    pub leading_comments: Vec<String>,
    pub known_sets: Option<&'s [IpSet]>,
}

impl TableDraft {
    /// The table with its built-in chains, all empty. Their policies are those of an earlier block
    /// of the same table, else ACCEPT: iptables-restore removes rules and chains, not policies.
    pub fn new(
        table: TableName,
        family: Family,
        span: Span,
        comments: Vec<String>,
        earlier: Option<&Table>,
    ) -> Self {
        let mut draft = TableDraft {
            table,
            family,
            span,
            chains: Vec::new(),
            hook_restrictions: Vec::new(),
            chain_index_by_name: HashMap::new(),
            last_command_chain_index: 0,
            leading_comments: comments,
            expanded_rule_count: 0,
        };
        for hook in table.hooks() {
            let policy = earlier.and_then(|t| t.chain(hook.chain_name())).and_then(|c| c.policy);
            draft.add_chain(Chain::new(hook.chain_name(), Some(policy.unwrap_or(Policy::Accept))));
        }
        draft
    }

    fn add_chain(&mut self, chain: Chain) {
        self.chain_index_by_name.insert(chain.name.clone(), self.chains.len());
        self.chains.push(chain);
        self.hook_restrictions.push(Vec::new());
    }

    /// Whether the table has a chain of that name.
    pub fn has_chain(&self, name: &str) -> bool {
        self.chain_index_by_name.contains_key(name)
    }

    /// A `:CHAIN POLICY [p:b]` line.
    pub fn declare_chain_or_set_policy(
        &mut self,
        name: SharedName,
        word: Option<&str>,
        counters: Option<Counters>,
        span: Span,
        comments: Vec<String>,
    ) -> ParseResult<()> {
        if let Err(d) = refuse_reserved_or_long_chain_name(&name, span) {
            // Jumps to it are no further errors.
            self.add_chain(Chain::new(name, None));
            return Err(d);
        }
        let Some(word) = word else {
            if !self.has_chain(&name) {
                self.add_chain(Chain::new(name.clone(), None));
            }
            return Diagnostic::new(format!("chain {name} without a policy"), span)
                .with_help("write ACCEPT or DROP, or - for a user-defined chain")
                .into_err();
        };
        let at = self.chain_index_by_name.get(&name).copied();
        let built_in = at.is_some_and(|i| self.chains[i].policy.is_some());
        match (built_in, word) {
            (true, "-") => {}
            (true, _) => match (parse_accept_or_drop(word), at) {
                (Some(p), Some(i)) => self.chains[i].policy = Some(p),
                _ => return policy_error(&name, word, span).into_err(),
            },
            (false, _) if at.is_some() => {
                return Diagnostic::new(format!("chain {name} a second time"), span)
                    .with_help("declare it once")
                    .into_err();
            }
            (false, "-") => self.add_chain(Chain::new(name.clone(), None)),
            (false, _) => {
                self.add_chain(Chain::new(name.clone(), None));
                let d = Diagnostic::new(
                    format!("policy {word} of {name}, which is not a built-in chain"),
                    span,
                );
                let hooks: Vec<_> = self.table.hooks().iter().map(|h| h.chain_name()).collect();
                return d
                    .with_help(format!("only {} have a policy: write -", hooks.join(", ")))
                    .into_err();
            }
        }
        if let Some(&i) = self.chain_index_by_name.get(&name) {
            let chain = &mut self.chains[i];
            chain.counters = counters;
            // The line of a built-in chain is where its policy is given.
            if !built_in || word != "-" {
                chain.span = span;
            }
            chain.leading_comments.extend(comments);
        }
        Ok(())
    }

    /// Does what a line commands.
    pub fn apply_command(&mut self, line: ParsedLine, beside: RuleLineContext) -> ParseResult<()> {
        match line.command.letter {
            b'A' | b'I' | b'D' | b'R' | b'C' => self.apply_rule_command(line, beside),
            letter => self.apply_chain_command(letter, &line, beside),
        }
    }

    /// The chain that a command names.
    fn find_command_chain(&mut self, c: &CommandWithOperands) -> ParseResult<usize> {
        let Some(name) = c.chain else {
            return Diagnostic::new(format!("-{} without a chain", c.letter as char), c.span)
                .into_err();
        };
        if self.chains.get(self.last_command_chain_index).is_some_and(|last| *last.name == *name) {
            return Ok(self.last_command_chain_index);
        }
        match self.chain_index_by_name.get(name) {
            Some(i) => {
                self.last_command_chain_index = *i;
                Ok(*i)
            }
            None => {
                let d = Diagnostic::new(
                    format!("no chain {name} in table {}", self.table),
                    c.chain_span,
                );
                match Hook::from_chain_name(name) {
                    Some(_) => {
                        let hooks: Vec<_> =
                            self.table.hooks().iter().map(|h| h.chain_name()).collect();
                        d.with_help(format!("the table has {}", hooks.join(", "))).into_err()
                    }
                    None => d
                        .with_help(format!("declare it before the rules: :{name} - [0:0]"))
                        .into_err(),
                }
            }
        }
    }

    fn apply_rule_command(&mut self, line: ParsedLine, beside: RuleLineContext) -> ParseResult<()> {
        let at = self.find_command_chain(&line.command)?;
        check_devices_fit_hook(&line, &self.chains[at].name)?;
        self.refuse_jump_to_built_in_chain(&line)?;
        if let Some(sets) = beside.known_sets {
            check_sets_exist(&line, sets)?;
        }
        let letter = line.command.letter;
        let number = parse_rule_number(&line.command)?;
        if let (b'D' | b'R', Some(n)) = (letter, number)
            && (letter == b'R' || line.given_letters.iter().next().is_none())
        {
            let len = self.chains[at].rules.len();
            if n == 0 || n > len {
                return rule_number_beyond_chain_error(&line.command, n, len).into_err();
            }
            if letter == b'D' {
                self.chains[at].rules.remove(n - 1);
                self.hook_restrictions[at].remove(n - 1);
                return Ok(());
            }
        }
        self.apply_expanded_rules(at, line, number, beside)
    }

    fn apply_expanded_rules(
        &mut self,
        at: usize,
        line: ParsedLine,
        number: Option<usize>,
        beside: RuleLineContext,
    ) -> ParseResult<()> {
        let narrowing = HookRestriction {
            allowed_hooks: line.allowed_hooks,
            extension_name: line.restricting_extension,
        };
        let command = line.command;
        let rule = Rule {
            credited_originals: CreditedOriginals::new(),
            base: line.base,
            matches: line.matches,
            target: line.target,
            counters: line.counters.or(beside.counters),
            span: beside.span,
            match_and_target_spans: line.match_and_target_spans,
            leading_comments: beside.leading_comments,
        };
        // Nearly every rule is appended unchanged, without a copy.
        if command.letter == b'A'
            && line.extra_sources.is_empty()
            && line.extra_destinations.is_empty()
        {
            self.chains[at].rules.push(rule);
            self.hook_restrictions[at].push(narrowing);
            return Ok(());
        }
        self.count_and_limit_expanded_rules(&rule, &line.extra_sources, &line.extra_destinations)?;
        let expanded = expand_addr_lists(rule, &line.extra_sources, &line.extra_destinations);
        if command.letter == b'R' && expanded.len() > 1 {
            return Diagnostic::new("-R with several addresses", command.span)
                .with_help("a replacement is one rule")
                .into_err();
        }
        for rule in expanded {
            self.apply_one_rule(at, &command, rule, number, narrowing)?;
        }
        Ok(())
    }

    /// Counts the rules that lists of addresses expand to.
    fn count_and_limit_expanded_rules(
        &mut self,
        rule: &Rule,
        sources: &[weir_model::AddrMatch],
        destinations: &[weir_model::AddrMatch],
    ) -> ParseResult<()> {
        let count = (1 + sources.len()).saturating_mul(1 + destinations.len());
        let total = self.expanded_rule_count.saturating_add(count);
        if total > EXPANDED_RULES_MAX {
            let before = match self.expanded_rule_count {
                0 => String::new(),
                n => format!(", after {n} of lines before it"),
            };
            return Diagnostic::new(
                format!(
                    "the addresses of this line stand for {count} rules{before}: weir expands a \
                     table's lists of addresses to {EXPANDED_RULES_MAX} rules at most"
                ),
                rule.span,
            )
            .with_help("put the addresses into an ipset, and match it with -m set --match-set")
            .into_err();
        }
        self.expanded_rule_count = total;
        Ok(())
    }

    fn apply_one_rule(
        &mut self,
        at: usize,
        command: &CommandWithOperands,
        rule: Rule,
        number: Option<usize>,
        narrowing: HookRestriction,
    ) -> ParseResult<()> {
        let (chain, narrowings) = (&mut self.chains[at], &mut self.hook_restrictions[at]);
        let len = chain.rules.len();
        match command.letter {
            b'A' => {
                chain.rules.push(rule);
                narrowings.push(narrowing);
            }
            b'I' => {
                let n = number.unwrap_or(1);
                if n == 0 || n > len + 1 {
                    return rule_number_beyond_chain_error(command, n, len).into_err();
                }
                chain.rules.insert(n - 1, rule);
                narrowings.insert(n - 1, narrowing);
            }
            b'R' => {
                let n = number.unwrap_or(1);
                chain.rules[n - 1] = rule;
                narrowings[n - 1] = narrowing;
            }
            letter => {
                let same = |r: &Rule| {
                    r.base == rule.base && r.matches == rule.matches && r.target == rule.target
                };
                let Some(found) = chain.rules.iter().position(same) else {
                    return Diagnostic::new("no such rule in the chain", command.span)
                        .with_help("the line names a rule that must come before it in the text")
                        .into_err();
                };
                if letter == b'D' {
                    chain.rules.remove(found);
                    narrowings.remove(found);
                }
            }
        }
        Ok(())
    }

    /// Jumps go to chains of one's own.
    fn refuse_jump_to_built_in_chain(&self, line: &ParsedLine) -> ParseResult<()> {
        let Some(name) = line.target.jump_target() else { return Ok(()) };
        let built_in =
            self.chain_index_by_name.get(name).is_some_and(|i| self.chains[*i].policy.is_some());
        if !built_in {
            return Ok(());
        }
        let span = line.match_and_target_spans.last().copied().unwrap_or(line.command.span);
        Diagnostic::new(format!("jump to the built-in chain {name}"), span)
            .with_help("move its rules to a user-defined chain, and jump there from both")
            .into_err()
    }

    /// The table, chains in the order of printing, with what is wrong with it as a whole.
    pub fn finish_table(self, comments: Vec<String>) -> (Table, Vec<Diagnostic>) {
        let errors = loop_and_hook_checks::check_jumps_and_hooks(
            self.table,
            &self.chains,
            &self.hook_restrictions,
        );
        let mut chains = self.chains;
        let own = self.table.hooks().len();
        chains[own..].sort_by(|a, b| a.name.cmp(&b.name));
        let table = Table {
            name: self.table,
            chains,
            leading_comments: self.leading_comments,
            trailing_comments: comments,
        };
        (table, errors)
    }
}

/// The rules of a comma list: every source with every destination.
fn expand_addr_lists(
    rule: Rule,
    sources: &[weir_model::AddrMatch],
    destinations: &[weir_model::AddrMatch],
) -> Vec<Rule> {
    let all = |m: &weir_model::AddrMatch| !m.negated && m.mask.0 == 0;
    let saddrs: Vec<_> =
        std::iter::once(rule.base.saddr).chain(sources.iter().map(|m| Some(*m))).collect();
    let daddrs: Vec<_> =
        std::iter::once(rule.base.daddr).chain(destinations.iter().map(|m| Some(*m))).collect();
    let mut out = Vec::with_capacity(saddrs.len() * daddrs.len());
    for s in &saddrs {
        for d in &daddrs {
            let mut one = rule.clone();
            one.base.saddr = s.filter(|m| !all(m));
            one.base.daddr = d.filter(|m| !all(m));
            if !out.is_empty() {
                one.leading_comments.clear();
            }
            out.push(one);
        }
    }
    out
}

fn parse_rule_number(c: &CommandWithOperands) -> ParseResult<Option<usize>> {
    match c.operand_after_chain.map(|n| strtoul::parse_number_in_range(n, 1, i32::MAX as u64)) {
        None if c.letter == b'R' => Diagnostic::new("-R without a rule number", c.span)
            .with_help("write -R CHAIN NUMBER …")
            .into_err(),
        None => Ok(None),
        Some(Some(n)) => Ok(Some(n as usize)),
        Some(None) => {
            Diagnostic::new("no rule number from 1 on", c.operand_after_chain_span).into_err()
        }
    }
}

fn rule_number_beyond_chain_error(c: &CommandWithOperands, n: usize, len: usize) -> Diagnostic {
    Diagnostic::new(format!("no place {n} in a chain of {len} rules"), c.operand_after_chain_span)
}

/// The target that libxtables takes for verdicts and jumps (`XT_STANDARD_TARGET`).
const STANDARD_TARGET_NAME: &str = "standard";

fn refuse_reserved_or_long_chain_name(name: &str, span: Span) -> ParseResult<()> {
    if ["ACCEPT", "DROP", "QUEUE", "RETURN"].contains(&name) {
        return Diagnostic::new(format!("{name} is the name of a verdict"), span)
            .with_help("choose another name for the chain")
            .into_err();
    }
    // libxtables calls the target of verdicts and jumps so: `iptables-restore` 1.8.9 declares such
    // a chain, but refuses each jump to it, and a rule in it ends the tool with a signal.
    if name == STANDARD_TARGET_NAME {
        return Diagnostic::new(format!("chain {name} could have no rule and no jump"), span)
            .with_help("iptables has a target of that name: choose another name for the chain")
            .into_err();
    }
    if name.len() > CHAIN_NAME_MAX_BYTES {
        let message = format!("chain name {name} is longer than {CHAIN_NAME_MAX_BYTES} bytes");
        return Diagnostic::new(message, span)
            .with_help(format!(
                "the kernel keeps chain names of at most {CHAIN_NAME_MAX_BYTES} bytes"
            ))
            .into_err();
    }
    Ok(())
}

/// Devices that the hook of a built-in chain does not have.
fn check_devices_fit_hook(line: &ParsedLine, chain: &str) -> ParseResult<()> {
    let (letter, there) = match Hook::from_chain_name(chain) {
        Some(Hook::Prerouting | Hook::Input) => (b'o', "packets have no output device there"),
        Some(Hook::Output | Hook::Postrouting) => (b'i', "packets have no input device there"),
        _ => return Ok(()),
    };
    match line.given_letters.span_of_letter(letter) {
        Some(span) => Diagnostic::new(format!("-{} in {chain}", letter as char), span)
            .with_help(there)
            .into_err(),
        None => Ok(()),
    }
}

fn check_sets_exist(line: &ParsedLine, sets: &[IpSet]) -> ParseResult<()> {
    let check = |name: &str, span: Span| {
        if sets.iter().any(|s| &*s.name == name) {
            return Ok(());
        }
        Diagnostic::new(format!("no set {name}"), span)
            .with_help("the given ipset text has no such set: add its `create` line")
            .into_err()
    };
    for (m, span) in line.matches.iter().zip(&line.match_and_target_spans) {
        if let Match::Set(m) = m {
            check(&m.name, *span)?;
        }
    }
    let span = line.match_and_target_spans.last().copied().unwrap_or(line.command.span);
    for (name, _) in list_target_sets_with_write_flags(&line.target) {
        check(&name, span)?;
    }
    Ok(())
}

fn policy_error(name: &SharedName, word: &str, span: Span) -> Diagnostic {
    Diagnostic::new(format!("{word:?} is not a policy of {name}"), span)
        .with_help("write ACCEPT or DROP")
}

/// The policy of a chain's line.
fn parse_accept_or_drop(word: &str) -> Option<Policy> {
    match word {
        "ACCEPT" => Some(Policy::Accept),
        "DROP" => Some(Policy::Drop),
        _ => None,
    }
}
