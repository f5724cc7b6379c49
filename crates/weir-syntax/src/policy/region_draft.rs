//! A region while its words are read, and what it has in fields that they do not give.

use weir_model::rule_match::ct_state;
use weir_model::{Family, Field, FieldCondition, FieldSet, PacketRegion, Predicate};
use weir_packet::tcp_flag;

use super::policy_types::PolicyTestPackets;
use super::statements::PolicyToken;
use crate::diagnostic::{Diagnostic, ParseResult};

/// Flags that `-m tcp --syn` looks at (libxt_tcp.c): SYN alone of these opens a connection.
pub(super) const OPENING_FLAGS_MASK: u128 =
    (tcp_flag::FIN | tcp_flag::SYN | tcp_flag::RST | tcp_flag::ACK) as u128;

/// ICMPv6 types that conntrack leaves untracked: MLD and neighbour discovery
/// (net/netfilter/nf_conntrack_proto_icmpv6.c).
const UNTRACKED_ICMPV6_TYPES: [u128; 8] = [130, 131, 132, 133, 134, 135, 136, 143];

/// The conditions so far.
#[derive(Debug, Default)]
pub(super) struct RegionDraft {
    family: Option<Family>,
    protocol: Option<u8>,
    conditions: Vec<FieldCondition>,
    /// Fields with values or `any`, and the words that gave them.
    given: Vec<(Field, weir_model::Span)>,
    allows_translated: bool,
}

impl RegionDraft {
    pub fn set_family(&mut self, word: &PolicyToken<'_>, family: Family) -> ParseResult<()> {
        if self.family.is_some_and(|known| known != family) {
            let help = "a region has one family if it has addresses: write a test for each";
            return Err(word.error(format!("{} is of the other family", word.text), help));
        }
        self.family = Some(family);
        Ok(())
    }

    pub fn set_protocol(&mut self, word: &PolicyToken<'_>, protocol: u8) -> ParseResult<()> {
        match self.protocol {
            Some(known) if known == protocol => return Ok(()),
            None if !self.is_given(Field::Proto) => {}
            _ => {
                let help = "`th dport` is the port of any protocol: proto { tcp, udp } th dport 53";
                return Err(word.error(format!("{} is a second protocol", word.text), help));
            }
        }
        self.protocol = Some(protocol);
        let number = u128::from(protocol);
        let alternatives = vec![Predicate::InSpans(vec![(number, number)])];
        self.push_condition(Field::Proto, alternatives, false, false);
        Ok(())
    }

    pub fn refuse_second_protocol(&self, word: &PolicyToken<'_>) -> ParseResult<()> {
        match self.protocol {
            None => Ok(()),
            Some(_) => Err(word.error("a second protocol", "give the protocol once")),
        }
    }

    /// Values of a field; none for `any`.
    pub fn add_condition(
        &mut self,
        word: &PolicyToken<'_>,
        field: Field,
        alternatives: Vec<Predicate>,
        negated: bool,
    ) -> ParseResult<()> {
        if let Some((_, first)) = self.given.iter().find(|(given, _)| *given == field) {
            return Diagnostic::new(format!("{} is given twice", word.text), word.span())
                .with_related_span(*first, "the first time")
                .with_help("several values stand in braces: { A, B }")
                .into_err();
        }
        self.given.push((field, word.span()));
        if !alternatives.is_empty() {
            self.push_condition(field, alternatives, negated, false);
        }
        Ok(())
    }

    /// A further condition on a field that may be given besides.
    pub fn add_further_condition(
        &mut self,
        field: Field,
        alternatives: Vec<Predicate>,
        negated: bool,
    ) {
        self.push_condition(field, alternatives, negated, false);
    }

    pub fn allow_translated_connections(&mut self) {
        self.allows_translated = true;
    }

    fn push_condition(
        &mut self,
        field: Field,
        alternatives: Vec<Predicate>,
        negated: bool,
        accepts_absent_field: bool,
    ) {
        let condition = FieldCondition { field, alternatives, negated, accepts_absent_field };
        self.conditions.push(condition);
    }

    fn is_given(&self, field: Field) -> bool {
        self.given.iter().any(|(given, _)| *given == field)
    }

    /// Whether all packets are ICMPv6 of types that conntrack never tracks.
    fn has_only_untracked_icmpv6_types(&self) -> bool {
        let mut types = self.conditions.iter().filter(|c| {
            self.protocol == Some(58) && c.field == Field::IcmpTypeAndCode && !c.negated
        });
        types.any(|condition| {
            let spans = condition.alternatives.iter().map(|predicate| match predicate {
                Predicate::InSpans(spans) => &spans[..],
                _ => &[(0, u128::MAX)],
            });
            spans.flatten().all(|(low, high)| {
                (low >> 8..=high >> 8).all(|kind| UNTRACKED_ICMPV6_TYPES.contains(&kind))
            })
        })
    }

    /// The region, with its conditions on fields that the words do not give.
    pub fn into_region_with_default_conditions(mut self) -> PolicyTestPackets {
        let opens_connections = !self.is_given(Field::CtState);
        if opens_connections {
            let state = match self.has_only_untracked_icmpv6_types() {
                true => ct_state::UNTRACKED,
                false => ct_state::NEW,
            };
            let state = Predicate::AnyBit(state.into());
            self.push_condition(Field::CtState, vec![state], false, false);
        }
        if !self.allows_translated {
            let mask = u128::from(ct_state::SNAT | ct_state::DNAT);
            let untranslated = Predicate::Masked { value: 0, mask };
            self.push_condition(Field::CtState, vec![untranslated], false, false);
        }
        let zero = || vec![Predicate::InSpans(vec![(0, 0)])];
        for (field, alternatives, is_usual) in [
            (Field::Mark, zero(), true),
            (Field::CtMark, zero(), opens_connections),
            (Field::PktType, zero(), true),
            (
                Field::TcpFlags,
                vec![Predicate::Masked { value: tcp_flag::SYN.into(), mask: OPENING_FLAGS_MASK }],
                opens_connections,
            ),
        ] {
            if is_usual && !self.is_given(field) {
                self.push_condition(field, alternatives, false, true);
            }
        }
        let fields: Vec<Field> = self.given.iter().map(|(field, _)| *field).collect();
        let given = FieldSet::from_fields(&fields);
        let region = PacketRegion { conditions: self.conditions };
        PolicyTestPackets::Region { region, family: self.family, given }
    }
}
