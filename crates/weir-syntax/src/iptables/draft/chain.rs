//! Commands that change chains: `-N`, `-P`, `-F`, `-Z`, `-X`, `-E`.

use weir_model::{Chain, Counters, Name, Policy, Span, TableName, Target};

use super::{Beside, TableDraft, bad_policy, check_chain_name, policy};
use crate::diagnostic::{Diagnostic, Fallible};
use crate::iptables::scan::{Line, RuleCommand};

impl TableDraft {
    pub(super) fn chain_command(
        &mut self,
        letter: u8,
        line: &Line,
        beside: Beside,
    ) -> Fallible<()> {
        let c = &line.command;
        if let Some((l, span)) = line.given.iter().find(|(l, _)| !(letter == b'P' && *l == b'c')) {
            return Diagnostic::new(format!("-{} beside -{}", l as char, letter as char), span)
                .help("remove it")
                .fail();
        }
        match letter {
            b'N' => {
                let Some(name) = c.chain else {
                    return Diagnostic::new("-N without a chain", c.span).fail();
                };
                self.new_chain(Name::from(name), c, beside)
            }
            b'P' => {
                let at = self.find(c)?;
                let name = self.chains[at].name.clone();
                let word = c.operand.unwrap_or("");
                match policy(word) {
                    Some(Policy::Drop) if self.table == TableName::Nat => {
                        Diagnostic::new("policy DROP in the nat table", c.operand_span)
                            .help("the nat table is not for filtering: drop in filter or raw")
                            .fail()
                    }
                    Some(p) if self.chains[at].policy.is_some() => {
                        self.chains[at].policy = Some(p);
                        self.chains[at].span = beside.span;
                        self.chains[at].counters = line.counters.or(self.chains[at].counters);
                        Ok(())
                    }
                    _ => bad_policy(&name, word, c.span).fail(),
                }
            }
            b'F' | b'Z' if c.chain.is_none() => {
                for i in 0..self.chains.len() {
                    self.empty(i, letter);
                }
                Ok(())
            }
            b'F' | b'Z' => {
                let at = self.find(c)?;
                self.empty(at, letter);
                Ok(())
            }
            b'X' | b'E' => self.remove_or_rename(letter, c),
            _ => Diagnostic::new(
                format!("-{} only prints; it is not part of a ruleset", letter as char),
                c.span,
            )
            .help("remove the line")
            .fail(),
        }
    }

    fn new_chain(&mut self, name: Name, c: &RuleCommand, beside: Beside) -> Fallible<()> {
        check_chain_name(&name, c.chain_span)?;
        refuse_blanks(&name, c.chain_span)?;
        if name.starts_with(['-', '!']) {
            return Diagnostic::new(
                format!("chain name {name} begins like an option"),
                c.chain_span,
            )
            .fail();
        }
        if self.has(&name) {
            return Diagnostic::new(format!("chain {name} a second time"), c.chain_span).fail();
        }
        let mut chain = Chain::new(name, None);
        (chain.span, chain.leading_comments) = (beside.span, beside.comments);
        self.add(chain);
        Ok(())
    }

    fn empty(&mut self, at: usize, letter: u8) {
        if letter == b'F' {
            self.chains[at].rules.clear();
            self.narrowings[at].clear();
        } else {
            self.chains[at].counters = Some(Counters::default());
            for rule in &mut self.chains[at].rules {
                rule.counters = Some(Counters::default());
            }
        }
    }

    fn remove_or_rename(&mut self, letter: u8, c: &RuleCommand) -> Fallible<()> {
        let used = |draft: &TableDraft, name: &Name| {
            draft.chains.iter().flat_map(|c| &c.rules).any(|r| r.target.chain() == Some(name))
        };
        let all: Vec<usize> = match c.chain {
            Some(_) => vec![self.find(c)?],
            None if letter == b'X' => {
                (0..self.chains.len()).filter(|i| self.chains[*i].policy.is_none()).collect()
            }
            None => return Diagnostic::new("-E without a chain", c.span).fail(),
        };
        for at in all.iter().rev() {
            let name = self.chains[*at].name.clone();
            if self.chains[*at].policy.is_some() {
                return Diagnostic::new(format!("chain {name} is a built-in chain"), c.chain_span)
                    .fail();
            }
            if letter == b'E' {
                return self.rename(*at, c);
            }
            if !self.chains[*at].rules.is_empty() || used(self, &name) {
                return Diagnostic::new(format!("chain {name} is in use"), c.chain_span)
                    .help("only an empty chain that nothing jumps to can be removed")
                    .fail();
            }
            self.chains.remove(*at);
            self.narrowings.remove(*at);
            self.index = self.chains.iter().enumerate().map(|(i, c)| (c.name.clone(), i)).collect();
        }
        Ok(())
    }

    fn rename(&mut self, at: usize, c: &RuleCommand) -> Fallible<()> {
        let Some(new) = c.operand.map(Name::from) else {
            return Diagnostic::new("-E without a new name", c.span).fail();
        };
        check_chain_name(&new, c.operand_span)?;
        refuse_blanks(&new, c.operand_span)?;
        if self.has(&new) {
            return Diagnostic::new(format!("chain {new} already exists"), c.operand_span).fail();
        }
        let old = std::mem::replace(&mut self.chains[at].name, new.clone());
        self.index.remove(&old);
        self.index.insert(new.clone(), at);
        for rule in self.chains.iter_mut().flat_map(|c| &mut c.rules) {
            if let Target::Jump(name) | Target::Goto(name) = &mut rule.target
                && *name == old
            {
                *name = new.clone();
            }
        }
        Ok(())
    }
}

/// A chain's line cannot quote its name: one with blanks could not be printed.
fn refuse_blanks(name: &str, span: Span) -> Fallible<()> {
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Diagnostic::new("chain name is empty or contains a blank", span)
            .help("iptables-save would print it in a form that cannot be read back")
            .fail();
    }
    Ok(())
}
