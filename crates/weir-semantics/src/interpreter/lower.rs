//! A table's rules as flat arrays of compact tests.
//!
//! Each [`Test`] of the model becomes one [`Compact`] of sixteen bytes; what does not fit is in a
//! separate pool. Rules of a chain are contiguous, so that a traversal reads memory forward.

use std::collections::HashMap;

use weir_model::matching::{Neg, SetMatch};
use weir_model::{
    Chain, ChainGraph, ChangingSets, Family, Field, FieldSet, Hook, Hotdrop, Match, Name,
    Predicate, Rule, Table, TableName, Target, Test, located_tests_of, match_effects,
};

use super::view::{MULTIPORT_DPORT, MULTIPORT_SPORT, is_narrow, wide_slot};
use crate::digest::content;

/// One test. `slot` is a field's place in the view, `at` a place in a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Compact {
    Masked {
        slot: u8,
        negated: bool,
        value: u32,
        mask: u32,
    },
    Span {
        slot: u8,
        negated: bool,
        lo: u32,
        hi: u32,
    },
    Spans {
        slot: u8,
        negated: bool,
        count: u16,
        first: u32,
    },
    AnyBit {
        slot: u8,
        negated: bool,
        mask: u32,
    },
    Present {
        slot: u8,
    },
    WideMasked {
        slot: u8,
        negated: bool,
        at: u32,
    },
    WideSpan {
        slot: u8,
        negated: bool,
        at: u32,
    },
    /// Any other predicate, evaluated as the model says.
    Other {
        slot: u8,
        negated: bool,
        at: u32,
    },
    Device {
        out: bool,
        negated: bool,
        at: u32,
    },
    EitherPort {
        negated: bool,
        count: u16,
        first: u32,
    },
    Set {
        index: u16,
        at: u32,
    },
    Conntrack {
        index: u16,
        at: u32,
    },
    Opaque {
        index: u16,
        at: u32,
    },
    Never,
}

/// What a rule does once its tests hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Count,
    Accept,
    Drop,
    Return,
    Jump(u32),
    Goto(u32),
    /// The rule's own target says.
    Target,
}

/// A rule: the positions of its tests, and its action.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactRule {
    pub first: u32,
    pub count: u16,
    pub action: Action,
}

/// A chain: the positions of its rules.
#[derive(Debug)]
pub(crate) struct ChainIndex<'f> {
    pub chain: &'f Chain,
    pub first: u32,
    pub end: u32,
}

/// A `-m set` test.
#[derive(Debug)]
pub(crate) struct SetTest<'f> {
    /// The set's index, `None` if its content is not known.
    pub set: Option<usize>,
    pub dirs: &'f [bool],
    pub negated: bool,
    pub return_nomatch: bool,
    /// Options that require more than membership.
    pub asks: bool,
    pub counts: bool,
    /// Rules may change its contents: the saved contents say nothing.
    pub changing: bool,
    pub content: u64,
}

/// A `-m conntrack` test with more than a state.
#[derive(Debug)]
pub(crate) struct ConntrackTest<'f> {
    pub state: Option<&'f Neg<u16>>,
    pub content: u64,
}

/// A test that the packet's fields do not answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpaqueTest {
    pub content: u64,
    pub stateful: bool,
    pub hotdrop: Hotdrop,
    /// Bytes of the transport header that it reads.
    pub header_bytes: u8,
    /// Fields that it writes if it matches.
    pub writes: FieldSet,
}

/// What is known of the ipsets that rules name.
#[derive(Clone, Copy)]
pub(crate) struct KnownSets<'a> {
    /// Where a set's content is, if it was given.
    pub at: &'a HashMap<&'a str, usize>,
    /// Sets whose content rules may change.
    pub changing: &'a ChangingSets,
}

/// A table, ready to be walked.
#[derive(Debug)]
pub(crate) struct TableIndex<'f> {
    pub name: TableName,
    pub chains: Vec<ChainIndex<'f>>,
    /// Chain of each hook.
    pub base: [Option<u32>; 5],
    pub rules: Vec<CompactRule>,
    pub tests: Vec<Compact>,
    pub spans: Vec<(u32, u32)>,
    pub wide: Vec<(u128, u128)>,
    /// Device names, and whether they are prefixes.
    pub devices: Vec<(Name, bool)>,
    pub predicates: Vec<Predicate>,
    pub sets: Vec<SetTest<'f>>,
    pub conntracks: Vec<ConntrackTest<'f>>,
    pub opaques: Vec<OpaqueTest>,
    /// Some jump leads back to its own chain: the kernel would not load it.
    pub loops: bool,
}

/// The chain's base index of a hook.
pub(crate) fn hook_index(hook: Hook) -> usize {
    match hook {
        Hook::Prerouting => 0,
        Hook::Input => 1,
        Hook::Forward => 2,
        Hook::Output => 3,
        Hook::Postrouting => 4,
    }
}

impl<'f> TableIndex<'f> {
    /// Indexes a table.
    ///
    /// # Panics
    /// Where a rule jumps to a chain that the table does not have.
    pub fn new(table: &'f Table, family: Family, sets: KnownSets<'_>) -> Self {
        let graph = table.graph();
        let mut index = TableIndex {
            name: table.name,
            chains: Vec::with_capacity(table.chains.len()),
            base: [None; 5],
            rules: Vec::new(),
            tests: Vec::new(),
            spans: Vec::new(),
            wide: Vec::new(),
            devices: Vec::new(),
            predicates: Vec::new(),
            sets: Vec::new(),
            conntracks: Vec::new(),
            opaques: Vec::new(),
            loops: graph.has_loop(),
        };
        for (chain, at) in table.chains.iter().zip(0..) {
            let hook = Hook::of_chain(&chain.name).filter(|h| table.name.hooks().contains(h));
            if let (Some(hook), Some(_)) = (hook, chain.policy) {
                index.base[hook_index(hook)] = Some(at);
            }
            let first = index.rules.len() as u32;
            for rule in &chain.rules {
                index.push_rule(rule, family, sets, &graph);
            }
            index.chains.push(ChainIndex { chain, first, end: index.rules.len() as u32 });
        }
        index
    }

    /// The chain of that name.
    pub fn chain_at(&self, name: &str) -> Option<u32> {
        self.chains.iter().position(|c| &*c.chain.name == name).map(|i| i as u32)
    }

    fn push_rule(
        &mut self,
        rule: &'f Rule,
        family: Family,
        sets: KnownSets<'_>,
        graph: &ChainGraph<'_>,
    ) {
        let first = self.tests.len() as u32;
        for (from, test) in located_tests_of(rule, family) {
            let test = self.lower(rule, from, test, family, sets);
            self.tests.push(test);
        }
        let chain = |name: &Name| match graph.chain(name) {
            Some(i) => i as u32,
            None => panic!("a rule jumps to {name}, which its table does not have"),
        };
        let action = match &rule.target {
            Target::None => Action::Count,
            Target::Accept => Action::Accept,
            Target::Drop => Action::Drop,
            Target::Return => Action::Return,
            Target::Jump(name) => Action::Jump(chain(name)),
            Target::Goto(name) => Action::Goto(chain(name)),
            Target::Reject(_)
            | Target::Divert(_)
            | Target::Nat(_)
            | Target::Effect(_)
            | Target::Opaque(_) => Action::Target,
        };
        let count = (self.tests.len() as u32 - first) as u16;
        self.rules.push(CompactRule { first, count, action });
    }

    fn lower(
        &mut self,
        rule: &'f Rule,
        from: Option<usize>,
        test: Test,
        family: Family,
        sets: KnownSets<'_>,
    ) -> Compact {
        match test {
            Test::Field { field, predicate, negated } => {
                let multiport =
                    from.is_some_and(|i| matches!(rule.matches[i], Match::Multiport { .. }));
                let slot = match field {
                    Field::Sport if multiport => MULTIPORT_SPORT,
                    Field::Dport if multiport => MULTIPORT_DPORT,
                    _ => field as u8,
                };
                self.lower_field(field, slot, predicate, negated, family)
            }
            Test::EitherPort { spans, negated } => {
                let (first, count) = self.push_spans(&spans);
                Compact::EitherPort { negated, count, first }
            }
            Test::Set { index } => {
                let Match::Set(m) = &rule.matches[index] else {
                    panic!("a set test stands for a match that is none")
                };
                let at = self.sets.len() as u32;
                self.sets.push(set_test(m, sets, content(&rule.matches[index])));
                Compact::Set { index: index as u16, at }
            }
            Test::Opaque { index, stateful, hotdrop } => {
                let digest = content(&rule.matches[index]);
                if let Match::Conntrack(c) = &rule.matches[index] {
                    let at = self.conntracks.len() as u32;
                    self.conntracks
                        .push(ConntrackTest { state: c.state.as_ref(), content: digest });
                    return Compact::Conntrack { index: index as u16, at };
                }
                let row = match_effects(&rule.matches[index], family);
                let (header_bytes, writes) = (row.header_bytes, row.writes);
                self.opaques.push(OpaqueTest {
                    content: digest,
                    stateful,
                    hotdrop,
                    header_bytes,
                    writes,
                });
                Compact::Opaque { index: index as u16, at: self.opaques.len() as u32 - 1 }
            }
            Test::Never => Compact::Never,
        }
    }

    fn lower_field(
        &mut self,
        field: Field,
        slot: u8,
        predicate: Predicate,
        negated: bool,
        family: Family,
    ) -> Compact {
        let narrow = is_narrow(field, family);
        match predicate {
            Predicate::Device { name, prefix } => {
                self.devices.push((name, prefix));
                let at = self.devices.len() as u32 - 1;
                Compact::Device { out: field == Field::Oif, negated, at }
            }
            Predicate::Present => Compact::Present { slot },
            Predicate::Masked { value, mask } if narrow => {
                Compact::Masked { slot, negated, value: value as u32, mask: mask as u32 }
            }
            Predicate::AnyBit(mask) if narrow => {
                Compact::AnyBit { slot, negated, mask: mask as u32 }
            }
            Predicate::In(spans) if narrow => match spans[..] {
                [(lo, hi)] => Compact::Span { slot, negated, lo: lo as u32, hi: hi as u32 },
                _ => {
                    let (first, count) = self.push_spans(&spans);
                    Compact::Spans { slot, negated, count, first }
                }
            },
            Predicate::Masked { value, mask } => {
                self.wide.push((value, mask));
                Compact::WideMasked { slot, negated, at: self.wide.len() as u32 - 1 }
            }
            Predicate::In(ref spans) if spans.len() == 1 => {
                self.wide.push(spans[0]);
                Compact::WideSpan { slot, negated, at: self.wide.len() as u32 - 1 }
            }
            other => {
                debug_assert!(wide_slot(field).is_some(), "{field:?} is narrow");
                self.predicates.push(other);
                Compact::Other { slot, negated, at: self.predicates.len() as u32 - 1 }
            }
        }
    }

    fn push_spans(&mut self, spans: &[(u128, u128)]) -> (u32, u16) {
        let first = self.spans.len() as u32;
        self.spans.extend(spans.iter().map(|&(lo, hi)| (lo as u32, hi as u32)));
        (first, spans.len() as u16)
    }
}

/// Options are words; `! --update-counters` is two of them.
fn set_test<'f>(m: &'f SetMatch, sets: KnownSets<'_>, content: u64) -> SetTest<'f> {
    let mut test = SetTest {
        set: sets.at.get(&*m.name).copied(),
        changing: sets.changing.contains(&m.name),
        dirs: &m.dirs,
        negated: m.negated,
        return_nomatch: false,
        asks: false,
        counts: true,
        content,
    };
    let mut negated = false;
    for word in m.options.iter().flat_map(|o| o.split_whitespace()) {
        match word.trim_start_matches('-') {
            "!" => {
                negated = true;
                continue;
            }
            "return-nomatch" => test.return_nomatch = true,
            "update-counters" => test.counts = !negated,
            "update-subcounters" => {}
            _ => test.asks = true,
        }
        negated = false;
    }
    test
}
