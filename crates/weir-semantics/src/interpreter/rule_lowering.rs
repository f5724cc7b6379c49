//! A table's rules as flat arrays of compact tests.
//!
//! Each [`Test`] of the model becomes one [`CompactTest`] of sixteen bytes; what does not fit is in
//! a separate pool. Rules of a chain are contiguous, so that a traversal reads memory forward.

use std::collections::HashMap;

use weir_model::effect::reads_packet_route;
use weir_model::rule_match::{Negatable, SetMatch};
use weir_model::{
    Chain, ChainGraph, ChangingSets, Family, Field, FieldSet, Hook, Hotdrop, Match, Predicate,
    Rule, SharedName, Table, TableName, Target, Test, lower_to_tests_with_match_index,
    match_effects,
};

use super::packet_view::{
    MULTIPORT_DPORT_SLOT, MULTIPORT_SPORT_SLOT, find_wide_value_index, is_field_at_most_32_bits,
};
use crate::entered_chains_limit::max_entered_chains;
use crate::ipset_definition_digests::IpsetDefinitionDigests;
use crate::outcome::Verdict;
use crate::question_digest::digest_debug_text;

/// One test. `slot` is a field's place in the view, `at` a place in a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CompactTest {
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
    FieldPresent {
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
    WidePredicate {
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
    SetLookup {
        match_index: u16,
        set_test_index: u32,
    },
    ConntrackBeyondState {
        index: u16,
        at: u32,
    },
    Opaque {
        index: u16,
        at: u32,
    },
    NeverMatches,
}

/// What a rule does once its tests hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleAction {
    CountOnly,
    Accept,
    Drop,
    Return,
    Jump(u32),
    Goto(u32),
    /// The rule's own target says.
    EvaluateTarget,
}

/// A rule: the positions of its tests, and its action.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactRule {
    pub first_test: u32,
    pub test_count: u16,
    pub action: RuleAction,
}

/// A chain: the positions of its rules.
#[derive(Debug)]
pub(crate) struct ChainRuleRange<'f> {
    pub chain: &'f Chain,
    pub first_rule: u32,
    pub end_rule: u32,
}

/// A `-m set` test.
#[derive(Debug)]
pub(crate) struct SetTest<'f> {
    /// The set's index, `None` if its content is not known.
    pub set_index: Option<usize>,
    pub dirs: &'f [bool],
    pub negated: bool,
    pub return_nomatch: bool,
    /// Options that require more than membership.
    pub has_options_beyond_membership: bool,
    pub updates_counters: bool,
    /// Rules may change its contents: the saved contents say nothing.
    pub is_modified_by_rules: bool,
    pub content_digest: u64,
}

/// A `-m conntrack` test with more than a state.
#[derive(Debug)]
pub(crate) struct ConntrackBeyondStateTest<'f> {
    pub state: Option<&'f Negatable<u16>>,
    pub content_digest: u64,
}

/// A test that the packet's fields do not answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpaqueTestProperties {
    pub content_digest: u64,
    pub stateful: bool,
    pub hotdrop: Hotdrop,
    /// It reads the route of the packet.
    pub reads_route: bool,
    /// Bytes of the transport header that it reads.
    pub header_bytes: u8,
    /// Fields that it writes if it matches.
    pub writes: FieldSet,
}

/// What is known of the ipsets that rules name.
#[derive(Clone, Copy)]
pub(crate) struct KnownIpsets<'a> {
    /// Where a set's content is, if it was given.
    pub index_by_name: &'a HashMap<&'a str, usize>,
    /// Sets whose content rules may change.
    pub modified_by_rules: &'a ChangingSets,
    /// What each set is and holds.
    pub definitions: &'a IpsetDefinitionDigests<'a>,
}

/// A table, ready to be walked.
#[derive(Debug)]
pub(crate) struct LoweredTable<'f> {
    pub name: TableName,
    pub chains: Vec<ChainRuleRange<'f>>,
    /// Chain of each hook.
    pub base_chains: [Option<u32>; 5],
    pub rules: Vec<CompactRule>,
    pub tests: Vec<CompactTest>,
    pub spans: Vec<(u32, u32)>,
    pub wide_pairs: Vec<(u128, u128)>,
    /// Device names, and whether they are prefixes.
    pub devices: Vec<(SharedName, bool)>,
    pub predicates: Vec<Predicate>,
    pub set_tests: Vec<SetTest<'f>>,
    pub conntrack_tests: Vec<ConntrackBeyondStateTest<'f>>,
    pub opaque_tests: Vec<OpaqueTestProperties>,
    /// Some jump leads back to its own chain: the kernel would not load it.
    pub has_jump_loop: bool,
}

impl<'f> LoweredTable<'f> {
    /// Chains that a packet is followed into.
    pub fn max_entered_chains(&self) -> usize {
        match self.has_jump_loop {
            // The kernel refuses to load a loop; without this the walk would not end.
            true => self.rules.len(),
            false => max_entered_chains(self.rules.len()),
        }
    }

    /// The verdict for a packet that enters more.
    pub fn verdict_beyond_max_entered_chains(&self) -> Verdict {
        if self.has_jump_loop { Verdict::Drop } else { Verdict::Unknown }
    }

    /// Indexes a table.
    ///
    /// # Panics
    /// Where a rule jumps to a chain that the table does not have.
    pub fn new(table: &'f Table, family: Family, sets: KnownIpsets<'_>) -> Self {
        let graph = table.chain_graph();
        let mut index = LoweredTable {
            name: table.name,
            chains: Vec::with_capacity(table.chains.len()),
            base_chains: [None; Hook::ALL.len()],
            rules: Vec::new(),
            tests: Vec::new(),
            spans: Vec::new(),
            wide_pairs: Vec::new(),
            devices: Vec::new(),
            predicates: Vec::new(),
            set_tests: Vec::new(),
            conntrack_tests: Vec::new(),
            opaque_tests: Vec::new(),
            has_jump_loop: graph.has_loop(),
        };
        for (chain, at) in table.chains.iter().zip(0..) {
            let hook =
                Hook::from_chain_name(&chain.name).filter(|h| table.name.hooks().contains(h));
            if let (Some(hook), Some(_)) = (hook, chain.policy) {
                index.base_chains[hook.number()] = Some(at);
            }
            let first = index.rules.len() as u32;
            for rule in &chain.rules {
                index.push_rule(rule, family, sets, &graph);
            }
            let end = index.rules.len() as u32;
            index.chains.push(ChainRuleRange { chain, first_rule: first, end_rule: end });
        }
        index
    }

    /// The chain of that name.
    pub fn find_chain(&self, name: &str) -> Option<u32> {
        self.chains.iter().position(|c| &*c.chain.name == name).map(|i| i as u32)
    }

    fn push_rule(
        &mut self,
        rule: &'f Rule,
        family: Family,
        sets: KnownIpsets<'_>,
        graph: &ChainGraph<'_>,
    ) {
        let first = self.tests.len() as u32;
        for (from, test) in lower_to_tests_with_match_index(rule, family) {
            let test = self.lower_test(rule, from, test, family, sets);
            self.tests.push(test);
        }
        let chain = |name: &SharedName| match graph.chain_index(name) {
            Some(i) => i as u32,
            None => panic!("a rule jumps to {name}, which its table does not have"),
        };
        let action = match &rule.target {
            Target::None => RuleAction::CountOnly,
            Target::Accept => RuleAction::Accept,
            Target::Drop => RuleAction::Drop,
            Target::Return => RuleAction::Return,
            Target::Jump(name) => RuleAction::Jump(chain(name)),
            Target::Goto(name) => RuleAction::Goto(chain(name)),
            Target::Reject(_)
            | Target::Divert(_)
            | Target::Nat(_)
            | Target::Effect(_)
            | Target::Opaque(_) => RuleAction::EvaluateTarget,
        };
        let count = (self.tests.len() as u32 - first) as u16;
        self.rules.push(CompactRule { first_test: first, test_count: count, action });
    }

    fn lower_test(
        &mut self,
        rule: &'f Rule,
        from: Option<usize>,
        test: Test,
        family: Family,
        sets: KnownIpsets<'_>,
    ) -> CompactTest {
        match test {
            Test::Field { field, predicate, negated } => {
                let multiport =
                    from.is_some_and(|i| matches!(rule.matches[i], Match::Multiport { .. }));
                let slot = match field {
                    Field::Sport if multiport => MULTIPORT_SPORT_SLOT,
                    Field::Dport if multiport => MULTIPORT_DPORT_SLOT,
                    _ => field as u8,
                };
                self.lower_field_test(field, slot, predicate, negated, family)
            }
            Test::EitherPort { spans, negated } => {
                let (first, count) = self.push_spans(&spans);
                CompactTest::EitherPort { negated, count, first }
            }
            Test::Set { index } => {
                let Match::Set(m) = &rule.matches[index] else {
                    panic!("a set test stands for a match that is none")
                };
                let at = self.set_tests.len() as u32;
                self.set_tests.push(lower_set_match(m, sets));
                CompactTest::SetLookup { match_index: index as u16, set_test_index: at }
            }
            Test::Opaque { index, stateful, hotdrop } => {
                let digest = digest_debug_text(&rule.matches[index]);
                if let Match::Conntrack(c) = &rule.matches[index] {
                    let at = self.conntrack_tests.len() as u32;
                    self.conntrack_tests.push(ConntrackBeyondStateTest {
                        state: c.state.as_ref(),
                        content_digest: digest,
                    });
                    return CompactTest::ConntrackBeyondState { index: index as u16, at };
                }
                let row = match_effects(&rule.matches[index], family);
                let (header_bytes, writes) = (row.header_bytes, row.writes);
                self.opaque_tests.push(OpaqueTestProperties {
                    content_digest: digest,
                    stateful,
                    hotdrop,
                    reads_route: reads_packet_route(&rule.matches[index]),
                    header_bytes,
                    writes,
                });
                CompactTest::Opaque { index: index as u16, at: self.opaque_tests.len() as u32 - 1 }
            }
            Test::Never => CompactTest::NeverMatches,
        }
    }

    fn lower_field_test(
        &mut self,
        field: Field,
        slot: u8,
        predicate: Predicate,
        negated: bool,
        family: Family,
    ) -> CompactTest {
        let narrow = is_field_at_most_32_bits(field, family);
        match predicate {
            Predicate::Device { name, prefix } => {
                self.devices.push((name, prefix));
                let at = self.devices.len() as u32 - 1;
                CompactTest::Device { out: field == Field::Oif, negated, at }
            }
            Predicate::Present => CompactTest::FieldPresent { slot },
            Predicate::Masked { value, mask } if narrow => {
                CompactTest::Masked { slot, negated, value: value as u32, mask: mask as u32 }
            }
            Predicate::AnyBit(mask) if narrow => {
                CompactTest::AnyBit { slot, negated, mask: mask as u32 }
            }
            Predicate::InSpans(spans) if narrow => match spans[..] {
                [(lo, hi)] => CompactTest::Span { slot, negated, lo: lo as u32, hi: hi as u32 },
                _ => {
                    let (first, count) = self.push_spans(&spans);
                    CompactTest::Spans { slot, negated, count, first }
                }
            },
            Predicate::Masked { value, mask } => {
                self.wide_pairs.push((value, mask));
                CompactTest::WideMasked { slot, negated, at: self.wide_pairs.len() as u32 - 1 }
            }
            Predicate::InSpans(ref spans) if spans.len() == 1 => {
                self.wide_pairs.push(spans[0]);
                CompactTest::WideSpan { slot, negated, at: self.wide_pairs.len() as u32 - 1 }
            }
            other => {
                debug_assert!(find_wide_value_index(field).is_some(), "{field:?} is narrow");
                self.predicates.push(other);
                CompactTest::WidePredicate { slot, negated, at: self.predicates.len() as u32 - 1 }
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
fn lower_set_match<'f>(m: &'f SetMatch, sets: KnownIpsets<'_>) -> SetTest<'f> {
    let is_modified_by_rules = sets.modified_by_rules.contains(&m.name);
    let mut test = SetTest {
        set_index: sets.index_by_name.get(&*m.name).copied(),
        is_modified_by_rules,
        dirs: &m.src_directions,
        negated: m.negated,
        return_nomatch: false,
        has_options_beyond_membership: false,
        updates_counters: true,
        // The test of a set that nothing changes and its negation are the same question.
        content_digest: sets
            .definitions
            .digest_membership_question(m, is_modified_by_rules && m.negated),
    };
    let mut negated = false;
    for word in m.options.iter().flat_map(|o| o.split_whitespace()) {
        match word.trim_start_matches('-') {
            "!" => {
                negated = true;
                continue;
            }
            "return-nomatch" => test.return_nomatch = true,
            "update-counters" => test.updates_counters = !negated,
            "update-subcounters" => {}
            _ => test.has_options_beyond_membership = true,
        }
        negated = false;
    }
    test
}
