//! Packets on and around the boundaries of a rule.

use std::collections::HashMap;

use weir_model::matching::ct_state;
use weir_model::{
    ElementPart, Family, Field, Hotdrop, IpSet, Match, Predicate, Rule, Test, tests_of,
};
use weir_random::Rng;

use crate::constraints::{HeaderCut, PacketConstraints};

/// A change to the packet that satisfies a rule.
#[derive(Clone, Debug)]
pub(crate) enum PacketVariant {
    /// None: the rule is satisfied.
    Satisfied,
    /// A field has this value.
    Value(Field, u128),
    /// A device has this name.
    Device(Field, String),
    /// The packet is cut.
    Shape(HeaderCut),
}

impl PacketVariant {
    /// Applies the change.
    pub fn apply(&self, constraints: &mut PacketConstraints) {
        match self {
            PacketVariant::Satisfied => {}
            PacketVariant::Value(field, value) => constraints.set(*field, *value),
            PacketVariant::Device(field, name) => constraints.set_device(*field, name),
            PacketVariant::Shape(shape) => constraints.shape = *shape,
        }
    }
}

/// Which shapes and states may be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllowedVariants {
    pub fragments: bool,
    pub truncated: bool,
    pub states: bool,
}

/// All changes worth trying on a rule, the unchanged packet first.
///
/// `hop`: what forwarding takes off the time to live before the rule sees it.
pub(crate) fn variants(
    rule: &Rule,
    family: Family,
    hop: u128,
    allowed: AllowedVariants,
    sets: &HashMap<&str, &IpSet>,
    rng: &mut Rng,
) -> Vec<PacketVariant> {
    let mut out = vec![PacketVariant::Satisfied];
    let mut header = false;
    for test in tests_of(rule, family) {
        match test {
            Test::Field { field, predicate, .. } => {
                header |=
                    matches!(field, Field::Sport | Field::Dport | Field::TcpFlags | Field::Icmp);
                push_field(&mut out, field, &predicate, family, hop, rng);
            }
            Test::EitherPort { spans, .. } => {
                header = true;
                let predicate = Predicate::In(spans);
                for field in [Field::Sport, Field::Dport] {
                    push_field(&mut out, field, &predicate, family, hop, rng);
                }
            }
            Test::Set { index } => push_set(&mut out, rule, index, family, sets, rng),
            // Also one that no field models: ESP, TCP options.
            Test::Opaque { hotdrop, .. } => header |= hotdrop != Hotdrop::Never,
            Test::Never => {}
        }
    }
    if allowed.fragments {
        out.extend([HeaderCut::First, HeaderCut::Later(185)].map(PacketVariant::Shape));
        if header {
            out.push(PacketVariant::Shape(HeaderCut::Later(1)));
        }
    }
    if allowed.truncated && header {
        out.extend([HeaderCut::Truncated(2), HeaderCut::Truncated(7)].map(PacketVariant::Shape));
    }
    if allowed.states {
        use ct_state::{DNAT, ESTABLISHED, INVALID, NEW, RELATED, UNTRACKED};
        let all = [NEW, ESTABLISHED, RELATED, INVALID, UNTRACKED, NEW | DNAT];
        out.extend(all.map(|s| PacketVariant::Value(Field::CtState, s.into())));
    }
    for proto in [6, 17, if family == Family::V4 { 1 } else { 58 }, 47] {
        out.push(PacketVariant::Value(Field::Proto, proto));
    }
    out
}

fn push_field(
    out: &mut Vec<PacketVariant>,
    field: Field,
    predicate: &Predicate,
    family: Family,
    hop: u128,
    rng: &mut Rng,
) {
    let max = field.max(family);
    let mut values = Vec::new();
    match predicate {
        Predicate::Present => {}
        Predicate::In(spans) => {
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
            values.extend(rng.choose(&ones).map(|b| value ^ b));
        }
        Predicate::AnyBit(mask) if field == Field::CtState => {
            let states = (0..5).map(|i| 1u128 << i);
            values.extend(states.filter(|b| mask & b != 0));
        }
        Predicate::AnyBit(mask) => {
            values.extend((0..128).map(|i| 1 << i).filter(|b| mask & b != 0));
            values.push(!mask & max);
        }
        Predicate::Device { name, prefix } => {
            out.push(PacketVariant::Device(field, name.to_string()));
            out.push(PacketVariant::Device(field, format!("{name}0")));
            if *prefix || name.len() > 1 {
                let shorter: String = name.chars().take(name.chars().count() - 1).collect();
                if !shorter.is_empty() {
                    out.push(PacketVariant::Device(field, shorter));
                }
            }
            return;
        }
    }
    let hop = if field == Field::Ttl { hop } else { 0 };
    values.retain(|v| *v <= max);
    out.extend(values.into_iter().map(|v| PacketVariant::Value(field, (v + hop).min(max))));
}

/// A few elements' edges; each call takes others.
fn push_set(
    out: &mut Vec<PacketVariant>,
    rule: &Rule,
    index: usize,
    family: Family,
    sets: &HashMap<&str, &IpSet>,
    rng: &mut Rng,
) {
    let Match::Set(m) = &rule.matches[index] else { return };
    let Some(set) = sets.get(&*m.name) else { return };
    for _ in 0..set.elements.len().min(8) {
        let Some(element) = rng.choose(&set.elements) else { return };
        for (part, src) in element.parts.iter().zip(&m.dirs) {
            let side = |s: Field, d: Field| if *src { s } else { d };
            let (field, predicate) = match part {
                ElementPart::Net { addr, len } => {
                    let mask = family.mask((*len).into());
                    let predicate = Predicate::Masked { value: addr.0 & mask, mask };
                    (side(Field::Saddr, Field::Daddr), predicate)
                }
                ElementPart::Port { port, .. } => {
                    let port = u128::from(*port);
                    (side(Field::Sport, Field::Dport), Predicate::In(vec![(port, port)]))
                }
                ElementPart::Mark(mark) => {
                    (Field::Mark, Predicate::In(vec![((*mark).into(), (*mark).into())]))
                }
                ElementPart::Mac(_) | ElementPart::Iface { .. } | ElementPart::Set(_) => continue,
            };
            push_field(out, field, &predicate, family, 0, rng);
        }
    }
}
