//! A table while it is being read: its chains, and the commands that change their rules.

mod chain;

use std::collections::HashMap;

use weir_model::{Chain, Counters, Hook, IpSet, Match, Name, Policy, Rule, Span, Table, TableName};

use super::graph::{self, Narrowing};
use super::scan::{Line, RuleCommand};
use crate::diagnostic::{Diagnostic, Fallible};
use crate::number;

/// A table that is being read.
pub(super) struct TableDraft {
    pub table: TableName,
    /// Its `*TABLE` line.
    pub span: Span,
    chains: Vec<Chain>,
    /// The hooks that each rule requires, parallel to `chains[i].rules`.
    narrowings: Vec<Vec<Narrowing>>,
    index: HashMap<Name, usize>,
    comments: Vec<String>,
}

/// Properties of a rule's line in addition to its words.
pub(super) struct Beside<'s> {
    pub span: Span,
    pub counters: Option<Counters>,
    pub comments: Vec<String>,
    pub sets: Option<&'s [IpSet]>,
}

impl TableDraft {
    /// The table with its built-in chains, all empty. Their policies are those of an earlier block
    /// of the same table, else ACCEPT: iptables-restore removes rules and chains, not policies.
    pub fn new(
        table: TableName,
        span: Span,
        comments: Vec<String>,
        earlier: Option<&Table>,
    ) -> Self {
        let mut draft = TableDraft {
            table,
            span,
            chains: Vec::new(),
            narrowings: Vec::new(),
            index: HashMap::new(),
            comments,
        };
        for hook in table.hooks() {
            let policy = earlier.and_then(|t| t.chain(hook.chain())).and_then(|c| c.policy);
            draft.add(Chain::new(hook.chain(), Some(policy.unwrap_or(Policy::Accept))));
        }
        draft
    }

    fn add(&mut self, chain: Chain) {
        self.index.insert(chain.name.clone(), self.chains.len());
        self.chains.push(chain);
        self.narrowings.push(Vec::new());
    }

    /// Whether the table has a chain of that name.
    pub fn has(&self, name: &str) -> bool {
        self.index.contains_key(name)
    }

    /// A `:CHAIN POLICY [p:b]` line.
    pub fn declare(
        &mut self,
        name: Name,
        word: Option<&str>,
        counters: Option<Counters>,
        span: Span,
        comments: Vec<String>,
    ) -> Fallible<()> {
        if let Err(d) = check_chain_name(&name, span) {
            // Jumps to it are no further errors.
            self.add(Chain::new(name, None));
            return Err(d);
        }
        let Some(word) = word else {
            if !self.has(&name) {
                self.add(Chain::new(name.clone(), None));
            }
            return Diagnostic::new(format!("chain {name} without a policy"), span)
                .help("write ACCEPT or DROP, or - for a user-defined chain")
                .fail();
        };
        let at = self.index.get(&name).copied();
        let built_in = at.is_some_and(|i| self.chains[i].policy.is_some());
        match (built_in, word) {
            (true, "-") => {}
            (true, _) => match (policy(word), at) {
                (Some(p), Some(i)) => self.chains[i].policy = Some(p),
                _ => return bad_policy(&name, word, span).fail(),
            },
            (false, _) if at.is_some() => {
                return Diagnostic::new(format!("chain {name} a second time"), span)
                    .help("declare it once")
                    .fail();
            }
            (false, "-") => self.add(Chain::new(name.clone(), None)),
            (false, _) => {
                self.add(Chain::new(name.clone(), None));
                let d = Diagnostic::new(
                    format!("policy {word} of {name}, which is not a built-in chain"),
                    span,
                );
                let hooks: Vec<_> = self.table.hooks().iter().map(|h| h.chain()).collect();
                return d.help(format!("only {} have a policy: write -", hooks.join(", "))).fail();
            }
        }
        if let Some(&i) = self.index.get(&name) {
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
    pub fn apply(&mut self, line: Line, beside: Beside) -> Fallible<()> {
        match line.command.letter {
            0 => Ok(()),
            b'A' | b'I' | b'D' | b'R' | b'C' => self.rule(line, beside),
            letter => self.chain_command(letter, &line, beside),
        }
    }

    /// The chain that a command names.
    fn find(&self, c: &RuleCommand) -> Fallible<usize> {
        let Some(name) = c.chain else {
            return Diagnostic::new(format!("-{} without a chain", c.letter as char), c.span)
                .fail();
        };
        match self.index.get(name) {
            Some(i) => Ok(*i),
            None => {
                let d = Diagnostic::new(
                    format!("no chain {name} in table {}", self.table),
                    c.chain_span,
                );
                match Hook::of_chain(name) {
                    Some(_) => {
                        let hooks: Vec<_> = self.table.hooks().iter().map(|h| h.chain()).collect();
                        d.help(format!("the table has {}", hooks.join(", "))).fail()
                    }
                    None => d.help(format!("declare it before the rules: :{name} - [0:0]")).fail(),
                }
            }
        }
    }

    fn rule(&mut self, line: Line, beside: Beside) -> Fallible<()> {
        let at = self.find(&line.command)?;
        check_devices(&line, &self.chains[at].name)?;
        self.check_jump(&line)?;
        if let Some(sets) = beside.sets {
            check_sets(&line, sets)?;
        }
        let letter = line.command.letter;
        let number = rule_number(&line.command)?;
        if let (b'D' | b'R', Some(n)) = (letter, number)
            && (letter == b'R' || line.given.iter().next().is_none())
        {
            let len = self.chains[at].rules.len();
            if n == 0 || n > len {
                return no_rule(&line.command, n, len).fail();
            }
            if letter == b'D' {
                self.chains[at].rules.remove(n - 1);
                self.narrowings[at].remove(n - 1);
                return Ok(());
            }
        }
        self.place(at, line, number, beside)
    }

    fn place(
        &mut self,
        at: usize,
        line: Line,
        number: Option<usize>,
        beside: Beside,
    ) -> Fallible<()> {
        let narrowing = Narrowing { hooks: line.hooks, by: line.narrowed_by };
        let command = line.command;
        let rule = Rule {
            credit: Vec::with_capacity(1),
            base: line.base,
            matches: line.matches,
            target: line.target,
            counters: line.counters.or(beside.counters),
            span: beside.span,
            spans: line.spans,
            leading_comments: beside.comments,
        };
        // Nearly every rule is appended unchanged, without a copy.
        if command.letter == b'A' && line.sources.is_empty() && line.destinations.is_empty() {
            self.chains[at].rules.push(rule);
            self.narrowings[at].push(narrowing);
            return Ok(());
        }
        let expanded = expand(rule, &line.sources, &line.destinations);
        if command.letter == b'R' && expanded.len() > 1 {
            return Diagnostic::new("-R with several addresses", command.span)
                .help("a replacement is one rule")
                .fail();
        }
        for rule in expanded {
            self.put(at, &command, rule, number, narrowing)?;
        }
        Ok(())
    }

    fn put(
        &mut self,
        at: usize,
        command: &RuleCommand,
        rule: Rule,
        number: Option<usize>,
        narrowing: Narrowing,
    ) -> Fallible<()> {
        let (chain, narrowings) = (&mut self.chains[at], &mut self.narrowings[at]);
        let len = chain.rules.len();
        match command.letter {
            b'A' => {
                chain.rules.push(rule);
                narrowings.push(narrowing);
            }
            b'I' => {
                let n = number.unwrap_or(1);
                if n == 0 || n > len + 1 {
                    return no_rule(command, n, len).fail();
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
                        .help("the line names a rule that must come before it in the text")
                        .fail();
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
    fn check_jump(&self, line: &Line) -> Fallible<()> {
        let Some(name) = line.target.chain() else { return Ok(()) };
        let built_in = self.index.get(name).is_some_and(|i| self.chains[*i].policy.is_some());
        if !built_in {
            return Ok(());
        }
        let span = line.spans.last().copied().unwrap_or(line.command.span);
        Diagnostic::new(format!("jump to the built-in chain {name}"), span)
            .help("move its rules to a user-defined chain, and jump there from both")
            .fail()
    }

    /// The table, chains in the order of printing, with what is wrong with it as a whole.
    pub fn finish(self, comments: Vec<String>) -> (Table, Vec<Diagnostic>) {
        let errors = graph::check(self.table, &self.chains, &self.narrowings);
        let mut chains = self.chains;
        let own = self.table.hooks().len();
        chains[own..].sort_by(|a, b| a.name.cmp(&b.name));
        let table = Table {
            name: self.table,
            chains,
            leading_comments: self.comments,
            trailing_comments: comments,
        };
        (table, errors)
    }
}

/// The rules of a comma list: every source with every destination.
fn expand(
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

fn rule_number(c: &RuleCommand) -> Fallible<Option<usize>> {
    match c.operand.map(|n| number::whole(n, 1, i32::MAX as u64)) {
        None if c.letter == b'R' => Diagnostic::new("-R without a rule number", c.span)
            .help("write -R CHAIN NUMBER …")
            .fail(),
        None => Ok(None),
        Some(Some(n)) => Ok(Some(n as usize)),
        Some(None) => Diagnostic::new("no rule number from 1 on", c.operand_span).fail(),
    }
}

fn no_rule(c: &RuleCommand, n: usize, len: usize) -> Diagnostic {
    Diagnostic::new(format!("no place {n} in a chain of {len} rules"), c.operand_span)
}

fn check_chain_name(name: &str, span: Span) -> Fallible<()> {
    if ["ACCEPT", "DROP", "QUEUE", "RETURN"].contains(&name) {
        return Diagnostic::new(format!("{name} is the name of a verdict"), span)
            .help("choose another name for the chain")
            .fail();
    }
    if name.len() > 28 {
        return Diagnostic::new(format!("chain name {name} is longer than 28 bytes"), span)
            .help("the kernel keeps chain names of at most 28 bytes")
            .fail();
    }
    Ok(())
}

/// Devices that the hook of a built-in chain does not have.
fn check_devices(line: &Line, chain: &str) -> Fallible<()> {
    let (letter, there) = match Hook::of_chain(chain) {
        Some(Hook::Prerouting | Hook::Input) => (b'o', "packets have no output device there"),
        Some(Hook::Output | Hook::Postrouting) => (b'i', "packets have no input device there"),
        _ => return Ok(()),
    };
    match line.given.find(letter) {
        Some(span) => {
            Diagnostic::new(format!("-{} in {chain}", letter as char), span).help(there).fail()
        }
        None => Ok(()),
    }
}

fn check_sets(line: &Line, sets: &[IpSet]) -> Fallible<()> {
    let check = |name: &str, span: Span| {
        if sets.iter().any(|s| &*s.name == name) {
            return Ok(());
        }
        Diagnostic::new(format!("no set {name}"), span)
            .help("the given ipset text has no such set: add its `create` line")
            .fail()
    };
    for (m, span) in line.matches.iter().zip(&line.spans) {
        if let Match::Set(m) = m {
            check(&m.name, *span)?;
        }
    }
    let span = line.spans.last().copied().unwrap_or(line.command.span);
    for name in super::extension::sets_of(&line.target) {
        check(name, span)?;
    }
    Ok(())
}

fn bad_policy(name: &Name, word: &str, span: Span) -> Diagnostic {
    Diagnostic::new(format!("{word:?} is not a policy of {name}"), span)
        .help("write ACCEPT or DROP")
}

/// The policy of a chain's line.
fn policy(word: &str) -> Option<Policy> {
    match word {
        "ACCEPT" => Some(Policy::Accept),
        "DROP" => Some(Policy::Drop),
        _ => None,
    }
}
