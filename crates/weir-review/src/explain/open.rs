//! Values that `--packet` does not give, although a rule on the journey tests them.
//!
//! The result of such a rule would depend on an invented value. Some values can be assumed if they
//! are reported (a new connection, a TTL of 64); an address or a device cannot.

use serde::Serialize;
use weir_model::effect::match_effects;
use weir_model::field::FIELDS;
use weir_model::{
    Field, FieldSet, Hook, Match, Packet, Read, Rule, TableName, Test, located_tests_of,
};
use weir_semantics::trace::{Trace, TraceStep};

/// A field that the words of a packet do not give, with the first rule that tested it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenField {
    /// The field.
    #[serde(skip)]
    pub field: Field,
    /// Its name in nft: `oif`, `ct state`.
    pub name: &'static str,
    /// The value that was assumed.
    pub assumed: String,
    /// The rule: `filter/FORWARD/3`.
    pub rule: String,
}

impl OpenField {
    /// Whether no value can be assumed: an address, a device, a port, a protocol, an ICMP type.
    pub fn must_be_given(&self) -> bool {
        const REQUIRED: FieldSet = FieldSet::of(&[
            Field::Iif,
            Field::Oif,
            Field::Saddr,
            Field::Daddr,
            Field::Proto,
            Field::Sport,
            Field::Dport,
            Field::Icmp,
        ]);
        REQUIRED.contains(self.field)
    }
}

/// The fields of a packet that are not `given` and that rules of the trace tested, in the order of
/// the journey. A field that a rule wrote before is not open, nor is one that the packet cannot
/// have (a port of an ICMP packet, a device that no packet has at that hook).
pub fn open_fields(trace: &Trace<'_>, packet: &Packet, given: FieldSet) -> Vec<OpenField> {
    let mut found: Vec<OpenField> = Vec::new();
    let mut hook_now = Hook::Forward;
    for step in &trace.steps {
        let (table, chain, number, rule, failed) = match step {
            TraceStep::Table { hook, .. } => {
                hook_now = *hook;
                continue;
            }
            TraceStep::Rule { table, chain, number, rule, failed, .. } => {
                (table, chain, number, rule, failed)
            }
            TraceStep::Verdict { .. } => continue,
        };
        let tests = failed.as_ref().map_or(usize::MAX, |f| f.test + 1);
        // A rule that matched does not carry the packet; it tested the packet as given.
        let met = failed.as_ref().map_or(packet, |f| &f.packet);
        for field in tested(rule, packet, tests) {
            let is_known = given.contains(field) || found.iter().any(|open| open.field == field);
            if is_known || !is_there(field, packet, hook_now) || is_written(field, packet, met) {
                continue;
            }
            found.push(open_field(field, packet, *table, chain, *number));
        }
    }
    found
}

fn open_field(
    field: Field,
    packet: &Packet,
    table: TableName,
    chain: &str,
    number: u32,
) -> OpenField {
    let assumed = match field.read(packet) {
        Read::Value(value) => field.display_value(value, packet.family),
        Read::Absent | Read::Truncated => String::new(),
    };
    let name = field.row().name;
    OpenField { field, name, assumed, rule: format!("{table}/{chain}/{number}") }
}

/// The fields that the first tests of a rule read.
fn tested(rule: &Rule, packet: &Packet, tests: usize) -> Vec<Field> {
    let mut fields = Vec::new();
    for (_, test) in located_tests_of(rule, packet.family).into_iter().take(tests) {
        match test {
            Test::Field { field, .. } => fields.push(field),
            Test::EitherPort { .. } => fields.extend([Field::Sport, Field::Dport]),
            Test::Set { index } => fields.extend(set_fields(&rule.matches[index], packet)),
            // Its answer is assumed as a whole (--assume).
            Test::Opaque { .. } | Test::Never => {}
        }
    }
    fields
}

fn set_fields(set: &Match, packet: &Packet) -> impl Iterator<Item = Field> {
    let reads = match_effects(set, packet.family).reads;
    FIELDS.iter().map(|row| row.field).filter(move |field| reads.contains(*field))
}

/// Whether a packet has the field at that hook.
fn is_there(field: Field, packet: &Packet, hook: Hook) -> bool {
    match field {
        Field::Iif => matches!(hook, Hook::Prerouting | Hook::Input | Hook::Forward),
        Field::Oif => matches!(hook, Hook::Forward | Hook::Output | Hook::Postrouting),
        Field::SourceMac => false,
        _ => matches!(field.read(packet), Read::Value(_)),
    }
}

/// Whether a rule before wrote the field: it has another value than the packet was given.
fn is_written(field: Field, given: &Packet, met: &Packet) -> bool {
    let value = |packet| match field.read(packet) {
        Read::Value(value) => Some(value),
        Read::Absent | Read::Truncated => None,
    };
    value(given) != value(met)
}
