//! The operations of a transaction.
//!
//! [`Transaction::init`] reads a table. Changes act on a [`DraftTable`] in memory, whose untouched
//! entries keep the bytes that the kernel gave. [`Transaction::commit`] reads the table again,
//! refuses if it differs, and replaces it in one step. What is kept, and what happens if others
//! change the table, is described in the head of the parent module.

use std::io;

use weir_kernel::KernelError;
use weir_kernel::xtables::{PacketByteCount, XtablesLock, XtablesSocket};
use weir_model::ruleset::CHAIN_NAME_MAX_BYTES;
use weir_model::{Counters, Family, Policy, Rule, SharedName, TableName};

use super::draft_table::{DraftRule, DraftTable, DraftVerdict, RuleOrigin};
use super::draft_table_layout::DraftTableLayout;
use super::table_difference::find_chain_differences;
use crate::ApplyError;
use crate::xtables::decoder::rule_decoder::{RuleDecoder, VerdictTarget};
use crate::xtables::entry_comparison::EntryComparison;
use crate::xtables::entry_writer::EntryWriter;
use crate::xtables::rule_entry::{VerdictFixup, write_rule_entry};
use crate::xtables::{KernelExtension, KernelTable, SetIndices};

/// Rules that jump in a loop (include/uapi/asm-generic/errno.h).
const ELOOP: i32 = 40;

/// A rule as [`Transaction::list_rules`] gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum ListedRule {
    /// A rule, with what it had counted when the table was read.
    Known(Box<Rule>),
    /// A rule with a match or target that weir does not know; its bytes are kept.
    Unknown(KernelExtension),
}

/// Changes of one table, in memory until they are [committed](Transaction::commit).
#[derive(Debug)]
pub struct Transaction<'s> {
    socket: &'s XtablesSocket,
    sets: SetIndices<'s>,
    table: TableName,
    draft: DraftTable,
    writer: EntryWriter,
    decoder: RuleDecoder,
    is_changed: bool,
}

impl<'s> Transaction<'s> {
    /// Reads a table. One that is not in use is put in use, empty.
    ///
    /// # Errors
    /// If the kernel has no such table.
    pub fn init(
        socket: &'s XtablesSocket,
        table: TableName,
    ) -> Result<Transaction<'s>, ApplyError> {
        let family = socket.family();
        Ok(Transaction {
            socket,
            sets: SetIndices::of_socket(socket),
            table,
            draft: DraftTable::new(KernelTable::read(socket, table)?)?,
            writer: EntryWriter::new(family),
            decoder: RuleDecoder::new(family),
            is_changed: false,
        })
    }

    /// Whose table it is.
    pub fn family(&self) -> Family {
        self.socket.family()
    }

    /// Whether there is a chain of that name, built-in or not. Its time does not depend on how
    /// many chains there are.
    pub fn is_chain(&self, chain: &str) -> bool {
        self.draft.find_chain(chain).is_some()
    }

    /// The names of all chains: built-in ones by hook, then the others by name.
    pub fn list_chains(&self) -> Vec<&str> {
        let alive = self.draft.chains.iter().filter(|chain| !chain.is_deleted);
        let (built_in, mut user): (Vec<_>, Vec<_>) = alive.partition(|c| c.hook.is_some());
        user.sort_by(|a, b| a.name.cmp(&b.name));
        built_in.into_iter().chain(user).map(|chain| &*chain.name).collect()
    }

    /// Creates a chain.
    ///
    /// # Errors
    /// If there is one of that name, or the name is none that iptables takes.
    pub fn create_chain(&mut self, chain: &str) -> Result<(), ApplyError> {
        let invalid = chain.is_empty()
            || chain.len() > CHAIN_NAME_MAX_BYTES
            || chain.starts_with(['-', '!'])
            || chain.contains(|c: char| c.is_whitespace() || c.is_control())
            || ["ACCEPT", "DROP", "RETURN", "QUEUE"].contains(&chain);
        if invalid {
            return Err(ApplyError::InvalidChainName { chain: chain.to_owned() });
        }
        if self.is_chain(chain) {
            return Err(ApplyError::ChainExists { table: self.table, chain: chain.into() });
        }
        self.draft.add_chain(SharedName::from(chain));
        self.is_changed = true;
        Ok(())
    }

    /// Deletes a chain that is empty and that no rule jumps to.
    ///
    /// # Errors
    /// If there is no such chain, or it is built in, in use or not empty.
    pub fn delete_chain(&mut self, chain: &str) -> Result<(), ApplyError> {
        let index = self.find_chain(chain)?;
        let found = &self.draft.chains[index];
        if found.hook.is_some() || !found.rules.is_empty() || self.draft.is_referenced(index) {
            return Err(ApplyError::ChainNotDeletable { table: self.table, chain: chain.into() });
        }
        self.draft.delete_chain(index);
        self.is_changed = true;
        Ok(())
    }

    /// Reads the words after `-A CHAIN`: `-s 192.0.2.1 -p tcp --dport 22 -j ACCEPT`.
    ///
    /// # Errors
    /// What is wrong with the words. A word after `-j` that is neither a chain of the table nor a
    /// target is read as a target that weir does not know.
    pub fn parse_rule(&self, words: &str) -> Result<Rule, ApplyError> {
        let is_chain = |name: &str| self.is_chain(name);
        let parsed = weir_syntax::iptables::parse_rule(words, self.family(), self.table, &is_chain);
        parsed.map_err(|diagnostic| ApplyError::UnreadableRule {
            words: words.to_owned(),
            diagnostic: Box::new(diagnostic),
        })
    }

    /// Appends a rule. Its counts, if it has any, are what it begins with.
    ///
    /// # Errors
    /// If there is no such chain, or a chain or set that the rule names, or weir does not know a
    /// match or target of it.
    pub fn append_rule(&mut self, chain: &str, rule: &Rule) -> Result<(), ApplyError> {
        let index = self.find_chain(chain)?;
        self.encode_and_insert(index, self.draft.chains[index].rules.len(), rule)
    }

    /// Inserts a rule as number `number` of its chain, from 1.
    ///
    /// # Errors
    /// As [`append_rule`](Self::append_rule); where the chain has fewer than `number - 1` rules.
    pub fn insert_rule(
        &mut self,
        chain: &str,
        number: usize,
        rule: &Rule,
    ) -> Result<(), ApplyError> {
        let index = self.find_chain(chain)?;
        let length = self.draft.chains[index].rules.len();
        match number.checked_sub(1).filter(|position| *position <= length) {
            Some(position) => self.encode_and_insert(index, position, rule),
            None => Err(ApplyError::NoRuleOfNumber { chain: chain.into(), number, length }),
        }
    }

    /// Deletes the first rule that says the same, whatever it has counted.
    ///
    /// # Errors
    /// If there is no such chain or no such rule.
    pub fn delete_rule(&mut self, chain: &str, rule: &Rule) -> Result<(), ApplyError> {
        let index = self.find_chain(chain)?;
        let verdict = self.encode_rule(index, usize::MAX, rule)?;
        let comparison = EntryComparison::with(self.writer.bytes(), self.family());
        let has_own_verdict = verdict == DraftVerdict::Own;
        let position = self.draft.chains[index].rules.iter().position(|present| {
            present.verdict == verdict
                && comparison.is_same(self.draft.entry(present.origin), has_own_verdict)
        });
        match position {
            Some(position) => {
                self.draft.remove_rule(index, position);
                self.is_changed = true;
                Ok(())
            }
            None => Err(ApplyError::NoSuchRule {
                chain: chain.into(),
                rule: weir_syntax::iptables::print_rule(rule, self.family()),
            }),
        }
    }

    /// Deletes the rule of a number, from 1.
    ///
    /// # Errors
    /// If there is no such chain or no rule of that number.
    pub fn delete_rule_of_number(&mut self, chain: &str, number: usize) -> Result<(), ApplyError> {
        let index = self.find_chain(chain)?;
        let length = self.draft.chains[index].rules.len();
        match number.checked_sub(1).filter(|position| *position < length) {
            Some(position) => {
                self.draft.remove_rule(index, position);
                self.is_changed = true;
                Ok(())
            }
            None => Err(ApplyError::NoRuleOfNumber { chain: chain.into(), number, length }),
        }
    }

    /// Deletes all rules of a chain.
    ///
    /// # Errors
    /// If there is no such chain.
    pub fn flush_entries(&mut self, chain: &str) -> Result<(), ApplyError> {
        let index = self.find_chain(chain)?;
        self.is_changed |= !self.draft.chains[index].rules.is_empty();
        self.draft.remove_all_rules(index);
        Ok(())
    }

    /// The policy of a built-in chain; none for another chain.
    ///
    /// # Errors
    /// If there is no such chain.
    pub fn find_policy(&self, chain: &str) -> Result<Option<Policy>, ApplyError> {
        let found = &self.draft.chains[self.find_chain(chain)?];
        let policy = if found.policy_drops { Policy::Drop } else { Policy::Accept };
        Ok(found.hook.map(|_| policy))
    }

    /// Sets the policy of a built-in chain. Its counts begin at zero if that changes the policy.
    ///
    /// # Errors
    /// If there is no such chain, or it is not built in.
    pub fn set_policy(&mut self, chain: &str, policy: Policy) -> Result<(), ApplyError> {
        let index = self.find_chain(chain)?;
        let found = &mut self.draft.chains[index];
        if found.hook.is_none() {
            return Err(ApplyError::PolicyOfUserDefinedChain {
                table: self.table,
                chain: chain.into(),
            });
        }
        let drops = policy == Policy::Drop;
        if found.policy_drops != drops {
            (found.policy_drops, found.policy_entry_number) = (drops, None);
            self.is_changed = true;
        }
        Ok(())
    }

    /// The rules of a chain, in order.
    ///
    /// # Errors
    /// If there is no such chain.
    pub fn list_rules(&mut self, chain: &str) -> Result<Vec<ListedRule>, ApplyError> {
        let index = self.find_chain(chain)?;
        let (draft, decoder, sets) = (&self.draft, &mut self.decoder, &self.sets);
        let mut list_rule = |rule: &DraftRule| {
            let verdict = match rule.verdict {
                DraftVerdict::Own => None,
                DraftVerdict::NextRule => Some(VerdictTarget::NextRule),
                DraftVerdict::Chain(chain) => {
                    Some(VerdictTarget::Chain(draft.chains[chain as usize].name.clone()))
                }
            };
            match decoder.decode_rule(draft.entry(rule.origin), sets, |_| verdict.clone()) {
                Ok(mut decoded) => {
                    if let RuleOrigin::New(new_rule) = rule.origin {
                        let PacketByteCount { packets, bytes } = draft.initial_count(new_rule);
                        decoded.counters = Some(Counters { packets, bytes });
                    }
                    ListedRule::Known(Box::new(decoded))
                }
                Err(extension) => ListedRule::Unknown(extension),
            }
        };
        Ok(draft.chains[index].rules.iter().map(&mut list_rule).collect())
    }

    /// Puts the changes in force as one replacement of the table. Without changes nothing is
    /// replaced.
    ///
    /// The lock is that of the tools: hold it from here to the end of the call at least. A program
    /// that holds it from before [`init`](Self::init) is never refused because of the tools.
    ///
    /// # Errors
    /// - [`ApplyError::TableChanged`]: the table is not what it was at `init`.
    /// - [`ApplyError::SetDestroyedOrRecreated`]: a set that a rule names was replaced by another
    ///   of its name.
    /// - [`ApplyError::ChainLoop`] and other refusals of the kernel: the table has not changed.
    /// - [`ApplyError::CountersNotAdded`]: the table was replaced, but its counts are lost.
    pub fn commit(self, _lock: &XtablesLock) -> Result<(), ApplyError> {
        if !self.is_changed {
            return Ok(());
        }
        let mut layout = DraftTableLayout::lay_out(&self.draft)?;
        let (table, before) = (self.table, &self.draft.kernel_table);
        let present = KernelTable::read(self.socket, table)?;
        let differences = find_chain_differences(before, &present);
        if !differences.is_empty() {
            return Err(ApplyError::TableChanged { table, differences });
        }
        if let Some(set) = self.sets.find_renumbered_set() {
            return Err(ApplyError::SetDestroyedOrRecreated { table, set });
        }
        let (name, entry_count) = (table.as_str(), present.entry_count());
        let replaced = self.socket.replace_table(name, &mut layout.replacement, entry_count);
        let replaced = replaced.map_err(|refused| explain_refusal(refused, table))?;
        let counts = layout.counts_to_add(&self.draft, &replaced);
        if counts.iter().all(|count| *count == PacketByteCount::default()) {
            return Ok(());
        }
        let added = self.socket.add_counters(name, &counts);
        added.map_err(|source| ApplyError::CountersNotAdded { table, source })
    }

    fn find_chain(&self, chain: &str) -> Result<usize, ApplyError> {
        let missing = || ApplyError::NoSuchChain { table: self.table, chain: chain.into() };
        self.draft.find_chain(chain).ok_or_else(missing)
    }

    fn encode_and_insert(
        &mut self,
        chain: usize,
        position: usize,
        rule: &Rule,
    ) -> Result<(), ApplyError> {
        let verdict = self.encode_rule(chain, position, rule)?;
        let Counters { packets, bytes } = rule.counters.unwrap_or_default();
        let count = PacketByteCount { packets, bytes };
        let origin = self.draft.add_entry(self.writer.bytes(), count);
        self.draft.insert_rule(chain, position, DraftRule { origin, verdict });
        self.is_changed = true;
        Ok(())
    }

    /// Writes the entry of a rule into the writer.
    fn encode_rule(
        &mut self,
        chain: usize,
        position: usize,
        rule: &Rule,
    ) -> Result<DraftVerdict, ApplyError> {
        let name = &self.draft.chains[chain].name;
        let number = position.wrapping_add(1);
        let written = write_rule_entry(&mut self.writer, rule, &self.sets);
        let fixup = written.map_err(|unwritable| {
            ApplyError::of_unwritable_rule(unwritable, self.table, name, number)
        })?;
        match fixup {
            VerdictFixup::Complete => Ok(DraftVerdict::Own),
            VerdictFixup::NextRule => Ok(DraftVerdict::NextRule),
            VerdictFixup::Chain(target) => {
                let missing = || ApplyError::MissingChain {
                    table: self.table,
                    missing_chain: SharedName::from(target),
                };
                let index = self.draft.find_chain(target).ok_or_else(missing)?;
                match self.draft.chains[index].hook {
                    None => Ok(DraftVerdict::Chain(index as u32)),
                    Some(_) => {
                        let (table, chain) = (self.table, target.into());
                        Err(ApplyError::JumpToBuiltIn { table, built_in_chain: chain })
                    }
                }
            }
        }
    }
}

/// What the kernel means by errors that it has for few reasons (`xt_replace_table`,
/// `mark_source_chains`).
fn explain_refusal(refused: KernelError, table: TableName) -> ApplyError {
    let KernelError::Io { source, .. } = &refused else { return refused.into() };
    match source.kind() {
        io::ErrorKind::WouldBlock => ApplyError::TableChanged { table, differences: Vec::new() },
        // `ErrorKind::FilesystemLoop` is not stable.
        _ if source.raw_os_error() == Some(ELOOP) => ApplyError::ChainLoop { table },
        _ => refused.into(),
    }
}
