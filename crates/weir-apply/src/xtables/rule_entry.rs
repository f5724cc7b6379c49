//! A rule as an entry: the header tests, the matches, the target.

use weir_model::{AddrMatch, BaseMatch, Effect, Family, Match, Rule, SharedName, Target};
use weir_syntax::iptables::{print_match, print_target};

use super::encoder::{matches, set_modules, targets};
use super::entry_offsets::EntryOffsets;
use super::entry_writer::{
    EntryWriter, XT_RETURN, verdict_of_policy, write_addr, write_device_name,
};
use super::set_indices::SetIndices;

/// What the verdict of an entry is to become when the table is laid out.
pub(crate) enum VerdictFixup<'r> {
    /// It is written.
    Complete,
    /// The offset of the next entry.
    NextRule,
    /// The offset of a chain.
    Chain(&'r str),
}

/// Why a rule cannot be written as an entry.
pub(crate) enum UnwritableRule {
    /// A match or target that the encoder does not know, as the tools write it.
    Extension(String),
    /// A set that there is not.
    MissingSet(SharedName),
}

/// Writes the entry of a rule.
pub(crate) fn write_rule_entry<'r>(
    out: &mut EntryWriter,
    rule: &'r Rule,
    sets: &SetIndices,
) -> Result<VerdictFixup<'r>, UnwritableRule> {
    let family = out.family();
    out.begin_match_all_entry();
    write_base_match(out.header_mut(), &rule.base, &rule.target, family);
    for m in &rule.matches {
        matches::push_match(out, m, sets).ok_or_else(|| explain_match(m, sets, family))?;
    }
    let verdict = match &rule.target {
        Target::None => {
            out.push_verdict(0);
            VerdictFixup::NextRule
        }
        Target::Jump(chain) | Target::Goto(chain) => {
            out.push_verdict(0);
            VerdictFixup::Chain(chain)
        }
        target => {
            push_target_without_fixup(out, target, sets)
                .ok_or_else(|| explain_target(target, sets, family))?;
            VerdictFixup::Complete
        }
    };
    // Offsets in an entry have 16 bits.
    match u16::try_from(out.bytes().len()) {
        Ok(_) => Ok(verdict),
        Err(_) => Err(UnwritableRule::Extension("a rule of more than 64 KiB".to_owned())),
    }
}

fn explain_match(m: &Match, sets: &SetIndices, family: Family) -> UnwritableRule {
    match m {
        Match::Set(set) if sets.find_index(&set.name).is_none() => {
            UnwritableRule::MissingSet(set.name.clone())
        }
        m => UnwritableRule::Extension(print_match(m, family)),
    }
}

fn explain_target(target: &Target, sets: &SetIndices, family: Family) -> UnwritableRule {
    if let Target::Effect(effect) = target
        && let Effect::Other(set) = &**effect
        && set.module == "SET"
        && let Some(missing) =
            set_modules::set_names_of_target(set).find(|name| sets.find_index(name).is_none())
    {
        return UnwritableRule::MissingSet(SharedName::from(missing));
    }
    UnwritableRule::Extension(print_target(target, family))
}

fn push_target_without_fixup(
    out: &mut EntryWriter,
    target: &Target,
    sets: &SetIndices,
) -> Option<()> {
    match target {
        Target::Accept => out.push_verdict(verdict_of_policy(false)),
        Target::Drop => out.push_verdict(verdict_of_policy(true)),
        Target::Return => out.push_verdict(XT_RETURN),
        target => return targets::push_module_target(out, target, sets),
    }
    Some(())
}

/// Offsets in struct ipt_ip and struct ip6t_ip6.
pub(crate) struct IptIpOffsets {
    pub(crate) addr_bytes: usize,
    pub(crate) devices_at: usize,
    pub(crate) protocol_at: usize,
    pub(crate) inverse_flags_at: usize,
}

const V4: IptIpOffsets =
    IptIpOffsets { addr_bytes: 4, devices_at: 16, protocol_at: 80, inverse_flags_at: 83 };
const V6: IptIpOffsets =
    IptIpOffsets { addr_bytes: 16, devices_at: 64, protocol_at: 128, inverse_flags_at: 132 };

impl IptIpOffsets {
    pub(crate) const fn of(family: Family) -> &'static IptIpOffsets {
        match family {
            Family::V4 => &V4,
            Family::V6 => &V6,
        }
    }
}

pub(crate) const FLAG_FRAGMENT: u8 = 1;
/// The protocol is tested (IPv6 only).
pub(crate) const FLAG_V6_PROTOCOL: u8 = 1;
pub(crate) const INVERSE_IN_DEVICE: u8 = 1;
pub(crate) const INVERSE_OUT_DEVICE: u8 = 2;
pub(crate) const INVERSE_SOURCE: u8 = 8;
pub(crate) const INVERSE_DESTINATION: u8 = 16;
pub(crate) const INVERSE_FRAGMENT: u8 = 32;
pub(crate) const INVERSE_PROTOCOL: u8 = 64;

fn write_base_match(header: &mut [u8], base: &BaseMatch, target: &Target, family: Family) {
    let layout = IptIpOffsets::of(family);
    let (mut flags, mut inverse) = (0, 0);
    let size = layout.addr_bytes;
    for (place, test, bit) in
        [(0, base.saddr, INVERSE_SOURCE), (1, base.daddr, INVERSE_DESTINATION)]
    {
        let Some(AddrMatch { negated, addr, mask }) = test else { continue };
        write_addr(&mut header[place * size..], addr, family);
        write_addr(&mut header[(2 + place) * size..], mask, family);
        inverse |= if negated { bit } else { 0 };
    }
    for (place, test, bit) in
        [(0, &base.iif, INVERSE_IN_DEVICE), (1, &base.oif, INVERSE_OUT_DEVICE)]
    {
        let Some(device) = test else { continue };
        let name_at = layout.devices_at + place * 16;
        write_device_name(header, name_at, name_at + 32, &device.name, device.is_prefix);
        inverse |= if device.negated { bit } else { 0 };
    }
    if let Some(protocol) = base.proto {
        let number = u16::from(protocol.proto).to_ne_bytes();
        header[layout.protocol_at..layout.protocol_at + 2].copy_from_slice(&number);
        flags |= if family == Family::V6 { FLAG_V6_PROTOCOL } else { 0 };
        inverse |= if protocol.negated { INVERSE_PROTOCOL } else { 0 };
    }
    if let Some(fragment) = base.fragment {
        flags |= FLAG_FRAGMENT;
        inverse |= if fragment.negated { INVERSE_FRAGMENT } else { 0 };
    }
    if matches!(target, Target::Goto(_)) {
        flags |= EntryOffsets::of(family).goto_flag;
    }
    header[EntryOffsets::of(family).flags_at] |= flags;
    header[layout.inverse_flags_at] |= inverse;
}
