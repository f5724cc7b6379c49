//! Values that `--packet` does not give, although a rule on the journey tests them.
//!
//! The result of such a rule would depend on an invented value. Some values can be assumed if they
//! are reported (a new connection, a TTL of 64); an address or a device cannot.

use serde::Serialize;
use weir_model::effect::match_effects;
use weir_model::field::FIELDS;
use weir_model::{
    Field, FieldReading, FieldSet, Hook, Match, Packet, Rule, TableName, Test,
    lower_to_tests_with_match_index,
};
use weir_semantics::trace::{Trace, TraceStep};

/// A field that the words of a packet do not give, with the first rule that tested it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnspecifiedField {
    /// The field.
    #[serde(skip)]
    pub field: Field,
    /// Its name in nft: `oif`, `ct state`.
    #[serde(rename = "name")]
    pub nft_name: &'static str,
    /// The value that was assumed.
    pub assumed: String,
    /// The rule: `filter/FORWARD/3`.
    pub rule: String,
}

impl UnspecifiedField {
    /// Whether no value can be assumed: an address, a device, a port, a protocol, an ICMP type.
    pub fn must_be_given(&self) -> bool {
        const REQUIRED_FIELDS: FieldSet = FieldSet::from_fields(&[
            Field::Iif,
            Field::Oif,
            Field::Saddr,
            Field::Daddr,
            Field::Proto,
            Field::Sport,
            Field::Dport,
            Field::IcmpTypeAndCode,
        ]);
        REQUIRED_FIELDS.contains(self.field)
    }
}

/// The fields of a packet that are not `given` and that rules of the trace tested, in the order of
/// the journey. A field that a rule wrote before is not open, nor is one that the packet cannot
/// have (a port of an ICMP packet, a device that no packet has at that hook).
pub fn find_unspecified_fields(
    trace: &Trace<'_>,
    packet: &Packet,
    given: FieldSet,
) -> Vec<UnspecifiedField> {
    let mut found: Vec<UnspecifiedField> = Vec::new();
    let mut hook_now = Hook::Forward;
    for step in &trace.steps {
        let (table, chain, number, rule, failed) = match step {
            TraceStep::EnterTable { hook, .. } => {
                hook_now = *hook;
                continue;
            }
            TraceStep::TryRule { table, chain, number, rule, failed, .. } => {
                (table, chain, number, rule, failed)
            }
            TraceStep::LeaveTable { .. } => continue,
        };
        let tests = failed.as_ref().map_or(usize::MAX, |f| f.test_index + 1);
        // A rule that matched does not carry the packet; it tested the packet as given.
        let met = failed.as_ref().map_or(packet, |f| &f.packet);
        for field in fields_read_by_first_tests(rule, packet, tests) {
            let is_known = given.contains(field) || found.iter().any(|open| open.field == field);
            if is_known
                || !has_field_at_hook(field, packet, hook_now)
                || is_field_overwritten(field, packet, met)
            {
                continue;
            }
            found.push(new_unspecified_field(field, packet, *table, chain, *number));
        }
    }
    found
}

fn new_unspecified_field(
    field: Field,
    packet: &Packet,
    table: TableName,
    chain: &str,
    number: u32,
) -> UnspecifiedField {
    let assumed = match field.read(packet) {
        FieldReading::Value(value) => field.display_value(value, packet.family),
        FieldReading::Absent | FieldReading::Truncated => String::new(),
    };
    let name = field.row().name;
    UnspecifiedField { field, nft_name: name, assumed, rule: format!("{table}/{chain}/{number}") }
}

/// The fields that the first tests of a rule read.
fn fields_read_by_first_tests(rule: &Rule, packet: &Packet, tests: usize) -> Vec<Field> {
    let mut fields = Vec::new();
    for (_, test) in lower_to_tests_with_match_index(rule, packet.family).into_iter().take(tests) {
        match test {
            Test::Field { field, .. } => fields.push(field),
            Test::EitherPort { .. } => fields.extend([Field::Sport, Field::Dport]),
            Test::Set { index } => {
                fields.extend(fields_read_by_set_match(&rule.matches[index], packet))
            }
            // Its answer is assumed as a whole (--assume).
            Test::Opaque { .. } | Test::Never => {}
        }
    }
    fields
}

fn fields_read_by_set_match(set: &Match, packet: &Packet) -> impl Iterator<Item = Field> {
    let reads = match_effects(set, packet.family).reads;
    FIELDS.iter().map(|row| row.field).filter(move |field| reads.contains(*field))
}

/// Whether a packet has the field at that hook.
fn has_field_at_hook(field: Field, packet: &Packet, hook: Hook) -> bool {
    match field {
        Field::Iif => matches!(hook, Hook::Prerouting | Hook::Input | Hook::Forward),
        Field::Oif => matches!(hook, Hook::Forward | Hook::Output | Hook::Postrouting),
        Field::SourceMac => false,
        _ => matches!(field.read(packet), FieldReading::Value(_)),
    }
}

/// Whether a rule before wrote the field: it has another value than the packet was given.
fn is_field_overwritten(field: Field, given: &Packet, met: &Packet) -> bool {
    let value = |packet| match field.read(packet) {
        FieldReading::Value(value) => Some(value),
        FieldReading::Absent | FieldReading::Truncated => None,
    };
    value(given) != value(met)
}
