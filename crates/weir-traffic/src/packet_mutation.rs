//! Packets on and around the boundaries of a rule.

use std::collections::HashMap;

use weir_model::rule_match::ct_state;
use weir_model::{
    ElementPart, Family, Field, Hotdrop, IpSet, Match, Predicate, Rule, Test, lower_to_tests,
};
use weir_random::Rng;

use crate::packet_constraints::{FragmentOrTruncation, PacketConstraints};

/// A change to the packet that satisfies a rule.
#[derive(Clone, Debug)]
pub(crate) enum PacketMutation {
    /// None: the rule is satisfied.
    Unchanged,
    /// A field has this value.
    SetField(Field, u128),
    /// A device has this name.
    SetDevice(Field, String),
    /// The packet is truncated.
    FragmentOrTruncate(FragmentOrTruncation),
}

impl PacketMutation {
    /// Applies the change.
    pub fn apply_to_constraints(&self, constraints: &mut PacketConstraints) {
        match self {
            PacketMutation::Unchanged => {}
            PacketMutation::SetField(field, value) => constraints.force_value(*field, *value),
            PacketMutation::SetDevice(field, name) => constraints.force_device(*field, name),
            PacketMutation::FragmentOrTruncate(shape) => {
                constraints.fragment_or_truncation = *shape
            }
        }
    }
}

/// Which shapes and states may be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllowedShapesAndCtStates {
    pub include_fragments: bool,
    pub include_truncated: bool,
    pub include_untested_ct_states: bool,
}

/// All changes worth trying on a rule, the unchanged packet first.
///
/// `ttl_decrement`: what forwarding takes off the time to live before the rule sees it.
pub(crate) fn generate_mutations(
    rule: &Rule,
    family: Family,
    ttl_decrement: u128,
    allowed: AllowedShapesAndCtStates,
    sets: &HashMap<&str, &IpSet>,
    rng: &mut Rng,
) -> Vec<PacketMutation> {
    let mut out = vec![PacketMutation::Unchanged];
    let mut header = false;
    for test in lower_to_tests(rule, family) {
        match test {
            Test::Field { field, predicate, .. } => {
                header |= matches!(
                    field,
                    Field::Sport | Field::Dport | Field::TcpFlags | Field::IcmpTypeAndCode
                );
                push_predicate_boundary_mutations(
                    &mut out,
                    field,
                    &predicate,
                    family,
                    ttl_decrement,
                    rng,
                );
            }
            Test::EitherPort { spans, .. } => {
                header = true;
                let predicate = Predicate::InSpans(spans);
                for field in [Field::Sport, Field::Dport] {
                    push_predicate_boundary_mutations(
                        &mut out,
                        field,
                        &predicate,
                        family,
                        ttl_decrement,
                        rng,
                    );
                }
            }
            Test::Set { index } => {
                push_sampled_element_mutations(&mut out, rule, index, family, sets, rng)
            }
            // Also one that no field models: ESP, TCP options.
            Test::Opaque { hotdrop, .. } => header |= hotdrop != Hotdrop::Never,
            Test::Never => {}
        }
    }
    if allowed.include_fragments {
        out.extend(
            [FragmentOrTruncation::FirstFragment, FragmentOrTruncation::LaterFragment(185)]
                .map(PacketMutation::FragmentOrTruncate),
        );
        if header {
            out.push(PacketMutation::FragmentOrTruncate(FragmentOrTruncation::LaterFragment(1)));
        }
    }
    if allowed.include_truncated && header {
        out.extend(
            [
                FragmentOrTruncation::TruncatedTransportHeader(2),
                FragmentOrTruncation::TruncatedTransportHeader(7),
            ]
            .map(PacketMutation::FragmentOrTruncate),
        );
    }
    if allowed.include_untested_ct_states {
        use ct_state::{DNAT, ESTABLISHED, INVALID, NEW, RELATED, UNTRACKED};
        let all = [NEW, ESTABLISHED, RELATED, INVALID, UNTRACKED, NEW | DNAT];
        out.extend(all.map(|s| PacketMutation::SetField(Field::CtState, s.into())));
    }
    for proto in [6, 17, if family == Family::V4 { 1 } else { 58 }, 47] {
        out.push(PacketMutation::SetField(Field::Proto, proto));
    }
    out
}

fn push_predicate_boundary_mutations(
    out: &mut Vec<PacketMutation>,
    field: Field,
    predicate: &Predicate,
    family: Family,
    ttl_decrement: u128,
    rng: &mut Rng,
) {
    let max = field.max_value(family);
    let mut values = Vec::new();
    match predicate {
        Predicate::Present => {}
        Predicate::InSpans(spans) => {
            for (lo, hi) in spans {
                values.extend([lo.wrapping_sub(1), *lo, *hi, hi.wrapping_add(1)]);
            }
        }
        Predicate::Masked { value, mask } => {
            let last = value | (!mask & max);
            values.extend([*value, last]);
            if matches!(field, Field::Saddr | Field::Daddr) {
                values.extend([value.wrapping_sub(1), last.wrapping_add(1)]);
            }
            // Out by the lowest bit of the mask and by another one.
            values.push(value ^ (mask & mask.wrapping_neg()));
            let ones: Vec<u128> = (0..128).map(|i| 1 << i).filter(|b| mask & b != 0).collect();
            values.extend(rng.pick_if_any(&ones).map(|b| value ^ b));
        }
        Predicate::AnyBit(mask) if field == Field::CtState => {
            let states = (0..5).map(|i| 1u128 << i);
            values.extend(states.filter(|b| mask & b != 0));
        }
        Predicate::AnyBit(mask) => {
            values.extend((0..128).map(|i| 1 << i).filter(|b| mask & b != 0));
            values.push(!mask & max);
        }
        Predicate::Device { name, .. } => {
            // `+` alone is a prefix of all names, and no name itself.
            let shorter = name.char_indices().last().map_or("", |(end, _)| &name[..end]);
            let names = [name.to_string(), format!("{name}0"), shorter.to_owned()];
            let names = names.into_iter().filter(|name| !name.is_empty());
            out.extend(names.map(|name| PacketMutation::SetDevice(field, name)));
            return;
        }
    }
    let ttl_decrement = if field == Field::Ttl { ttl_decrement } else { 0 };
    values.retain(|v| *v <= max);
    out.extend(
        values.into_iter().map(|v| PacketMutation::SetField(field, (v + ttl_decrement).min(max))),
    );
}

/// A few elements' edges; each call takes others.
fn push_sampled_element_mutations(
    out: &mut Vec<PacketMutation>,
    rule: &Rule,
    index: usize,
    family: Family,
    sets: &HashMap<&str, &IpSet>,
    rng: &mut Rng,
) {
    let Match::Set(m) = &rule.matches[index] else { return };
    let Some(set) = sets.get(&*m.name) else { return };
    for _ in 0..set.elements.len().min(8) {
        let Some(element) = rng.pick_if_any(&set.elements) else { return };
        for (part, src) in element.parts.iter().zip(&m.src_directions) {
            let side = |s: Field, d: Field| if *src { s } else { d };
            let (field, predicate) = match part {
                ElementPart::AddrOrPrefix { addr, len } => {
                    let mask = family.netmask((*len).into());
                    let predicate = Predicate::Masked { value: addr.0 & mask, mask };
                    (side(Field::Saddr, Field::Daddr), predicate)
                }
                ElementPart::ProtoAndPort { port_or_icmp_type_and_code: port, .. } => {
                    let port = u128::from(*port);
                    (side(Field::Sport, Field::Dport), Predicate::InSpans(vec![(port, port)]))
                }
                ElementPart::Mark(mark) => {
                    (Field::Mark, Predicate::InSpans(vec![((*mark).into(), (*mark).into())]))
                }
                ElementPart::Mac(_) | ElementPart::Iface { .. } | ElementPart::MemberSet(_) => {
                    continue;
                }
            };
            push_predicate_boundary_mutations(out, field, &predicate, family, 0, rng);
        }
    }
}
