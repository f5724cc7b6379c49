//! The fields in which two observations of a packet differ.

use std::collections::BTreeSet;

use weir_model::field::{FIELDS, Layer};
use weir_model::{Family, Field, Packet};
use weir_verify::rule_effect_tester::RuleObservation;

use super::flips::flips;
use super::targets::Probe;

/// Fields whose probes, or values at the end, differ.
pub fn find_changed_fields(
    probes: &[Probe],
    one: &RuleObservation,
    other: &RuleObservation,
) -> BTreeSet<Field> {
    let mut out = BTreeSet::new();
    let mut see = |a: &[bool], b: &[bool]| {
        let differs = probes.iter().zip(a.iter().zip(b)).filter(|(_, (a, b))| a != b);
        out.extend(differs.filter_map(|(p, _)| p.field));
    };
    if one.reached_next_rule && other.reached_next_rule {
        see(&one.probe_hits, &other.probe_hits);
    }
    if let (Some(a), Some(b)) = (&one.final_probe_hits, &other.final_probe_hits) {
        see(a, b);
    }
    if let (Some(a), Some(b)) = (&one.observed_bytes, &other.observed_bytes) {
        if one.mark != other.mark {
            out.insert(Field::Mark);
        }
        out.extend(find_fields_that_differ(a, b));
    }
    if one.is_delivered_locally != other.is_delivered_locally {
        // What comes to the host keeps its time to live.
        out.remove(&Field::Ttl);
    }
    out
}

/// The fields of the table that two packets, from their network headers on, have different values
/// of; none if the model cannot hold one of them.
fn find_fields_that_differ(one: &[u8], other: &[u8]) -> Vec<Field> {
    let (Ok(one), Ok(other)) = (parse_start(one), parse_start(other)) else { return Vec::new() };
    FIELDS
        .iter()
        // Bytes do not say the rest.
        .filter(|row| matches!(row.layer, Layer::Network | Layer::Transport))
        .map(|row| row.field)
        .filter(|field| field.read(&one) != field.read(&other))
        .collect()
}

/// The packet that begins with these bytes: the kernel logs no more of it.
fn parse_start(bytes: &[u8]) -> Result<Packet, weir_packet::ParseError> {
    match Packet::parse(bytes) {
        Err(weir_packet::ParseError::TooShort { wanted, .. }) => {
            let mut whole = bytes.to_vec();
            whole.resize(wanted, 0);
            Packet::parse(&whole)
        }
        parsed => parsed,
    }
}

#[test]
fn a_field_that_differs_in_the_bytes_of_two_packets_is_found() {
    for family in [Family::V4, Family::V6] {
        for pairs in flips(family) {
            let base = pairs.base.packet.as_ref().expect("of a packet");
            assert!(find_fields_that_differ(&base.to_bytes(), &base.to_bytes()).is_empty());
            for (field, other) in &pairs.flipped {
                if !matches!(field.row().layer, Layer::Network | Layer::Transport) {
                    continue;
                }
                let other = other.packet.as_ref().expect("of a packet");
                let found = find_fields_that_differ(&base.to_bytes(), &other.to_bytes());
                assert_eq!(found, [*field], "{family:?} {}", base.proto);
            }
        }
    }
}
