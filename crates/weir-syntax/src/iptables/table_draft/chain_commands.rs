//! Commands that change chains: `-N`, `-P`, `-F`, `-Z`, `-X`, `-E`.

use weir_model::{Chain, Counters, Policy, SharedName, Span, TableName, Target};

use super::{
    RuleLineContext, TableDraft, parse_accept_or_drop, policy_error,
    refuse_reserved_or_long_chain_name,
};
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::extension;
use crate::iptables::scan::{CommandWithOperands, ParsedLine};

impl TableDraft {
    pub(super) fn apply_chain_command(
        &mut self,
        letter: u8,
        line: &ParsedLine,
        beside: RuleLineContext,
    ) -> ParseResult<()> {
        let c = &line.command;
        if let Some((l, span)) =
            line.given_letters.iter().find(|(l, _)| !(letter == b'P' && *l == b'c'))
        {
            return Diagnostic::new(format!("-{} beside -{}", l as char, letter as char), span)
                .with_help("remove it")
                .into_err();
        }
        match letter {
            b'N' => {
                let Some(name) = c.chain else {
                    return Diagnostic::new("-N without a chain", c.span).into_err();
                };
                self.create_chain(SharedName::from(name), c, beside)
            }
            b'P' => {
                let at = self.find_command_chain(c)?;
                let name = self.chains[at].name.clone();
                let word = c.operand_after_chain.unwrap_or("");
                match parse_accept_or_drop(word) {
                    Some(Policy::Drop) if self.table == TableName::Nat => {
                        Diagnostic::new("policy DROP in the nat table", c.operand_after_chain_span)
                            .with_help("the nat table is not for filtering: drop in filter or raw")
                            .into_err()
                    }
                    Some(p) if self.chains[at].policy.is_some() => {
                        self.chains[at].policy = Some(p);
                        self.chains[at].span = beside.span;
                        self.chains[at].counters = line.counters.or(self.chains[at].counters);
                        Ok(())
                    }
                    _ => policy_error(&name, word, c.span).into_err(),
                }
            }
            b'F' | b'Z' if c.chain.is_none() => {
                for i in 0..self.chains.len() {
                    self.flush_or_zero_one_chain(i, letter);
                }
                Ok(())
            }
            b'F' | b'Z' => {
                let at = self.find_command_chain(c)?;
                self.flush_or_zero_one_chain(at, letter);
                Ok(())
            }
            b'X' | b'E' => self.remove_unused_or_rename_chain(letter, c),
            _ => Diagnostic::new(
                format!("-{} only prints; it is not part of a ruleset", letter as char),
                c.span,
            )
            .with_help("remove the line")
            .into_err(),
        }
    }

    fn create_chain(
        &mut self,
        name: SharedName,
        c: &CommandWithOperands,
        beside: RuleLineContext,
    ) -> ParseResult<()> {
        refuse_reserved_or_long_chain_name(&name, c.chain_span)?;
        refuse_chain_name_with_blanks(&name, c.chain_span)?;
        if name.starts_with(['-', '!']) {
            return Diagnostic::new(
                format!("chain name {name} begins like an option"),
                c.chain_span,
            )
            .into_err();
        }
        // `assert_valid_chain_name` of xshared.c, which `-N` alone calls: a line `:LOG -` is taken.
        if extension::has_target_library(&name, self.family) {
            return Diagnostic::new(
                format!("chain name {name} is the name of a target"),
                c.chain_span,
            )
            .with_help(format!("choose another name, or declare the chain: :{name} - [0:0]"))
            .into_err();
        }
        if self.has_chain(&name) {
            return Diagnostic::new(format!("chain {name} a second time"), c.chain_span).into_err();
        }
        let mut chain = Chain::new(name, None);
        (chain.span, chain.leading_comments) = (beside.span, beside.leading_comments);
        self.add_chain(chain);
        Ok(())
    }

    fn flush_or_zero_one_chain(&mut self, at: usize, letter: u8) {
        if letter == b'F' {
            self.chains[at].rules.clear();
            self.hook_restrictions[at].clear();
        } else {
            self.chains[at].counters = Some(Counters::default());
            for rule in &mut self.chains[at].rules {
                rule.counters = Some(Counters::default());
            }
        }
    }

    fn remove_unused_or_rename_chain(
        &mut self,
        letter: u8,
        c: &CommandWithOperands,
    ) -> ParseResult<()> {
        let used = |draft: &TableDraft, name: &SharedName| {
            draft.chains.iter().flat_map(|c| &c.rules).any(|r| r.target.jump_target() == Some(name))
        };
        let all: Vec<usize> = match c.chain {
            Some(_) => vec![self.find_command_chain(c)?],
            None if letter == b'X' => {
                (0..self.chains.len()).filter(|i| self.chains[*i].policy.is_none()).collect()
            }
            None => return Diagnostic::new("-E without a chain", c.span).into_err(),
        };
        for at in all.iter().rev() {
            let name = self.chains[*at].name.clone();
            if self.chains[*at].policy.is_some() {
                return Diagnostic::new(format!("chain {name} is a built-in chain"), c.chain_span)
                    .into_err();
            }
            if letter == b'E' {
                return self.rename_chain(*at, c);
            }
            if !self.chains[*at].rules.is_empty() || used(self, &name) {
                return Diagnostic::new(format!("chain {name} is in use"), c.chain_span)
                    .with_help("only an empty chain that nothing jumps to can be removed")
                    .into_err();
            }
            self.chains.remove(*at);
            self.hook_restrictions.remove(*at);
            self.chain_index_by_name =
                self.chains.iter().enumerate().map(|(i, c)| (c.name.clone(), i)).collect();
        }
        Ok(())
    }

    fn rename_chain(&mut self, at: usize, c: &CommandWithOperands) -> ParseResult<()> {
        let Some(new) = c.operand_after_chain.map(SharedName::from) else {
            return Diagnostic::new("-E without a new name", c.span).into_err();
        };
        refuse_reserved_or_long_chain_name(&new, c.operand_after_chain_span)?;
        refuse_chain_name_with_blanks(&new, c.operand_after_chain_span)?;
        if self.has_chain(&new) {
            return Diagnostic::new(
                format!("chain {new} already exists"),
                c.operand_after_chain_span,
            )
            .into_err();
        }
        let old = std::mem::replace(&mut self.chains[at].name, new.clone());
        self.chain_index_by_name.remove(&old);
        self.chain_index_by_name.insert(new.clone(), at);
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
fn refuse_chain_name_with_blanks(name: &str, span: Span) -> ParseResult<()> {
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Diagnostic::new("chain name is empty or contains a blank", span)
            .with_help("iptables-save would print it in a form that cannot be read back")
            .into_err();
    }
    Ok(())
}
