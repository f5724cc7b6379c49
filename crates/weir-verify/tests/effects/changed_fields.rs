//! The fields in which two observations of a packet differ.

use std::collections::BTreeSet;

use weir_model::{Family, Field};
use weir_verify::rule_effect_tester::RuleObservation;

use super::targets::Probe;

/// Fields whose probes, or bytes at the end, differ.
pub fn find_changed_fields(
    probes: &[Probe],
    one: &RuleObservation,
    other: &RuleObservation,
    family: Family,
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
        for (field, from, to) in locate_fields(family, a, b) {
            if a.get(from..to) != b.get(from..to) {
                out.insert(field);
            }
        }
        let tos = |b: &[u8]| match family {
            Family::V4 => b[1],
            Family::V6 => b[0] << 4 | b[1] >> 4,
        };
        if tos(a) != tos(b) {
            out.insert(Field::Tos);
        }
    }
    if one.is_local != other.is_local {
        // What comes to the host keeps its time to live.
        out.remove(&Field::Ttl);
    }
    out
}

/// Where fields lie in both packets, from the network header on; nothing where they have options.
fn locate_fields(family: Family, one: &[u8], other: &[u8]) -> Vec<(Field, usize, usize)> {
    use Field::{Daddr, Dport, Length, Saddr, Sport, TcpFlags, Ttl};
    let (mut fields, transport) = match family {
        Family::V4 if one[0] != 0x45 => return Vec::new(),
        Family::V4 => (vec![(Length, 2, 4), (Ttl, 8, 9), (Saddr, 12, 16), (Daddr, 16, 20)], 20),
        Family::V6 => (vec![(Length, 4, 6), (Ttl, 7, 8), (Saddr, 8, 24), (Daddr, 24, 40)], 40),
    };
    let proto = |b: &[u8]| match family {
        // Later fragments have no header.
        Family::V4 if b[6] & 0x1f != 0 || b[7] != 0 => 0,
        Family::V4 => b[9],
        Family::V6 => b[6],
    };
    if proto(one) == proto(other) && matches!(proto(one), 6 | 17) {
        fields.push((Sport, transport, transport + 2));
        fields.push((Dport, transport + 2, transport + 4));
    }
    if proto(one) == proto(other) && proto(one) == 6 {
        fields.push((TcpFlags, transport + 13, transport + 14));
    }
    fields
}
