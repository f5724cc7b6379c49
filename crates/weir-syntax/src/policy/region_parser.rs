//! The words of a region: conditions on fields in the words of `--packet`.
//!
//! Fields that the words do not give:
//!
//! - addresses, devices, protocol, ports, ICMP types, TOS, lengths and MAC addresses may be
//!   anything;
//! - the others are those of a packet that opens a connection: conntrack state NEW without
//!   translations (UNTRACKED if all packets are ICMPv6 of types that are never tracked), no marks,
//!   TCP flags SYN, sent to this host alone (unicast). `any` instead of a value allows everything.
//!
//! Packets are whole: a region has neither fragments nor truncated headers. The TTL is at least 2
//! where packets are forwarded; `weir-review` adds that condition, since it depends on the path.

use weir_model::field::Layer;
use weir_model::{Family, Field, Predicate};

use super::definitions::Definitions;
use super::field_values::{self, FieldValueKind};
use super::policy_types::PolicyTestPackets;
use super::region_draft::RegionDraft;
use super::statements::PolicyToken;
use crate::diagnostic::ParseResult;
use crate::packet::number_field_words::{find_number_field, join_with_or, list_ip_clause_words};

const CLAUSE_HELP: &str = "a region has iif, oif, ip, ip6, tcp, udp, sctp, dccp, th, icmp, icmpv6, \
                           proto, ether saddr, ct, mark, pkttype, length";

/// Reads a region.
pub(super) fn parse_region(
    tokens: &[PolicyToken<'_>],
    definitions: &Definitions,
) -> ParseResult<PolicyTestPackets> {
    let mut parser = RegionParser { tokens, definitions, draft: RegionDraft::default() };
    while let Some((word, rest)) = parser.tokens.split_first() {
        parser.tokens = rest;
        parser.parse_clause(word)?;
    }
    Ok(parser.draft.into_region_with_default_conditions())
}

struct RegionParser<'p, 't> {
    /// What is left.
    tokens: &'p [PolicyToken<'t>],
    definitions: &'p Definitions,
    draft: RegionDraft,
}

impl<'p, 't> RegionParser<'p, 't> {
    fn parse_clause(&mut self, word: &'p PolicyToken<'t>) -> ParseResult<()> {
        match word.text {
            "meta" => Ok(()),
            "iif" | "iifname" => self.parse_values(word, Field::Iif, FieldValueKind::Device),
            "oif" | "oifname" => self.parse_values(word, Field::Oif, FieldValueKind::Device),
            "ip" => self.parse_ip_clause(word, Family::V4),
            "ip6" => self.parse_ip_clause(word, Family::V6),
            "tcp" => self.parse_transport_clause(word, Some(6)),
            "udp" => self.parse_transport_clause(word, Some(17)),
            "sctp" => self.parse_transport_clause(word, Some(132)),
            "dccp" => self.parse_transport_clause(word, Some(33)),
            "th" => self.parse_transport_clause(word, None),
            "icmp" => self.parse_icmp_clause(word, Family::V4),
            "icmpv6" | "icmp6" => self.parse_icmp_clause(word, Family::V6),
            "proto" | "protocol" | "l4proto" => self.parse_protocols(word),
            "ether" => {
                let field = self.expect_field(word, "saddr")?;
                match field.text {
                    "saddr" => self.parse_values(field, Field::SourceMac, FieldValueKind::Mac),
                    _ => Err(field.error("unknown field", "rules test only ether saddr")),
                }
            }
            "ct" => self.parse_ct_clause(word),
            "mark" => self.parse_values(word, Field::Mark, FieldValueKind::MaskedNumber),
            "pkttype" => self.parse_values(word, Field::PktType, FieldValueKind::PktType),
            "length" => self.parse_values(word, Field::Length, FieldValueKind::Number),
            "via" => Err(word.misplaced_via_error()),
            "fragment" | "truncated" => {
                let help = "a region has whole packets; test fragments and truncated headers with \
                            `packet`";
                Err(word.error(format!("{} in a region", word.text), help))
            }
            _ => match find_number_field(word.text, Layer::Meta, Family::V4) {
                Some(field) => self.parse_values(word, field, FieldValueKind::Number),
                None => Err(word.error(format!("unknown word {}", word.text), CLAUSE_HELP)),
            },
        }
    }

    fn parse_ip_clause(&mut self, ip: &'p PolicyToken<'t>, family: Family) -> ParseResult<()> {
        let words = list_ip_clause_words(family);
        let field = self.expect_field(ip, &join_with_or(&words))?;
        self.draft.set_family(ip, family)?;
        let address = FieldValueKind::Address(family);
        match field.text {
            "saddr" => self.parse_values(field, Field::Saddr, address),
            "daddr" => self.parse_values(field, Field::Daddr, address),
            "dscp" => self.parse_values(field, Field::Tos, FieldValueKind::Dscp),
            "length" => self.parse_values(field, Field::Length, FieldValueKind::Number),
            "protocol" | "nexthdr" => self.parse_protocols(field),
            other => match find_number_field(other, Layer::Network, family) {
                Some(number) => self.parse_values(field, number, FieldValueKind::Number),
                None => {
                    let help = format!("after ip: {}", words.join(", "));
                    Err(field.error(format!("unknown field {other}"), help))
                }
            },
        }
    }

    /// Ports and TCP flags; `tcp` alone is the protocol.
    fn parse_transport_clause(
        &mut self,
        keyword: &'p PolicyToken<'t>,
        proto: Option<u8>,
    ) -> ParseResult<()> {
        if let Some(proto) = proto {
            self.draft.set_protocol(keyword, proto)?;
        }
        let Some((field, rest)) = self.tokens.split_first() else {
            return match proto {
                Some(_) => Ok(()),
                None => Err(keyword.error("th without a port", "write th sport or th dport")),
            };
        };
        let (number, kind) = match field.text {
            "sport" => (Field::Sport, FieldValueKind::Port),
            "dport" => (Field::Dport, FieldValueKind::Port),
            "flags" if proto == Some(6) => (Field::TcpFlags, FieldValueKind::TcpFlags),
            _ if proto.is_none() => {
                return Err(field.error("unknown field", "write th sport or th dport"));
            }
            _ => return Ok(()),
        };
        self.tokens = rest;
        match kind {
            FieldValueKind::TcpFlags => self.parse_tcp_flags(field),
            _ => self.parse_values(field, number, kind),
        }
    }

    /// `syn,ack`: of FIN, SYN, RST, ACK and those that are named, exactly these are set.
    /// `syn / fin,syn`: of those after the slash.
    fn parse_tcp_flags(&mut self, word: &'p PolicyToken<'t>) -> ParseResult<()> {
        let values = field_values::parse_value_list(&mut self.tokens, word, self.definitions)?;
        let mut flags = match values.is_any {
            true => Vec::new(),
            false => values.predicates(Field::TcpFlags, FieldValueKind::TcpFlags)?,
        };
        if let Some((slash, rest)) = self.tokens.split_first().filter(|(w, _)| w.text == "/") {
            self.tokens = rest;
            let tested = field_values::parse_value_list(&mut self.tokens, slash, self.definitions)?;
            flags = vec![values.tcp_flags_within(slash, &tested)?];
        }
        self.draft.add_condition(word, Field::TcpFlags, flags, values.negated)
    }

    fn parse_icmp_clause(
        &mut self,
        keyword: &'p PolicyToken<'t>,
        family: Family,
    ) -> ParseResult<()> {
        let proto = if family == Family::V4 { 1 } else { 58 };
        self.draft.set_family(keyword, family)?;
        self.draft.set_protocol(keyword, proto)?;
        let Some((field, rest)) = self.tokens.split_first() else { return Ok(()) };
        match field.text {
            "type" => {
                self.tokens = rest;
                self.parse_values(field, Field::IcmpTypeAndCode, FieldValueKind::IcmpType(proto))?;
                match self.tokens.split_first() {
                    Some((code, rest)) if code.text == "code" => {
                        self.tokens = rest;
                        self.parse_icmp_code(code)
                    }
                    _ => Ok(()),
                }
            }
            "code" => Err(field.error("a code without a type", "write the type before it")),
            _ => Ok(()),
        }
    }

    fn parse_icmp_code(&mut self, code: &'p PolicyToken<'t>) -> ParseResult<()> {
        let values = field_values::parse_value_list(&mut self.tokens, code, self.definitions)?;
        let codes = values.predicates(Field::IcmpTypeAndCode, FieldValueKind::IcmpCode)?;
        self.draft.add_further_condition(Field::IcmpTypeAndCode, codes, values.negated);
        Ok(())
    }

    fn parse_protocols(&mut self, word: &'p PolicyToken<'t>) -> ParseResult<()> {
        self.draft.refuse_second_protocol(word)?;
        self.parse_values(word, Field::Proto, FieldValueKind::Protocol)
    }

    fn parse_ct_clause(&mut self, ct: &'p PolicyToken<'t>) -> ParseResult<()> {
        let field = self.expect_field(ct, "state, status or mark")?;
        match field.text {
            "state" => self.parse_values(field, Field::CtState, FieldValueKind::CtState),
            "mark" => self.parse_values(field, Field::CtMark, FieldValueKind::MaskedNumber),
            "status" => {
                let values =
                    field_values::parse_value_list(&mut self.tokens, field, self.definitions)?;
                if values.is_any {
                    self.draft.allow_translated_connections();
                    return Ok(());
                }
                let status = values.predicates(Field::CtState, FieldValueKind::CtStatus)?;
                self.draft.allow_translated_connections();
                self.draft.add_further_condition(Field::CtState, status, values.negated);
                Ok(())
            }
            other => {
                let help = "after ct: state, status, mark";
                Err(field.error(format!("unknown field {other}"), help))
            }
        }
    }

    fn expect_field(
        &mut self,
        keyword: &'p PolicyToken<'t>,
        what: &str,
    ) -> ParseResult<&'p PolicyToken<'t>> {
        let Some((field, rest)) = self.tokens.split_first() else {
            let message = format!("nothing after {}", keyword.text);
            return Err(keyword.error(message, format!("write {what} after it")));
        };
        self.tokens = rest;
        Ok(field)
    }

    /// The values of a field.
    fn parse_values(
        &mut self,
        word: &'p PolicyToken<'t>,
        field: Field,
        kind: FieldValueKind,
    ) -> ParseResult<()> {
        let values = field_values::parse_value_list(&mut self.tokens, word, self.definitions)?;
        let predicates = match values.is_any {
            true => Vec::new(),
            false => values.predicates(field, kind)?,
        };
        let predicates: Vec<Predicate> = merge_span_predicates(predicates);
        self.draft.add_condition(word, field, predicates, values.negated)
    }
}

/// Spans of several values as one predicate.
fn merge_span_predicates(predicates: Vec<Predicate>) -> Vec<Predicate> {
    let (mut spans, mut others) = (Vec::new(), Vec::new());
    for predicate in predicates {
        match predicate {
            Predicate::InSpans(more) => spans.extend(more),
            other => others.push(other),
        }
    }
    if !spans.is_empty() {
        others.push(Predicate::InSpans(spans));
    }
    others
}
