//! An entry as a rule: the header tests, the matches, the target.

use std::fmt;

use weir_model::rule_match::{AddrMatch, BaseMatch, FragmentMatch, IfaceMatch, ProtoMatch};
use weir_model::{Addr, Counters, Family, Rule, SharedName, Target};

use super::extension_bytes::read_addr;
use super::{matches, targets};
use crate::xtables::entry_comparison::{
    clear_device_names_under_empty_masks, clear_meaningless_bytes,
};
use crate::xtables::entry_offsets::{
    EXTENSION_HEADER_BYTES, EXTENSION_NAME_BYTES, EntryOffsets, read_text, read_u16, read_u32,
    read_u64,
};
use crate::xtables::entry_writer::{EntryWriter, XT_RETURN};
use crate::xtables::rule_entry::{
    FLAG_FRAGMENT, FLAG_V6_PROTOCOL, INVERSE_DESTINATION, INVERSE_FRAGMENT, INVERSE_IN_DEVICE,
    INVERSE_OUT_DEVICE, INVERSE_PROTOCOL, INVERSE_SOURCE, IptIpOffsets, VerdictFixup,
    write_rule_entry,
};
use crate::xtables::set_indices::SetIndices;

/// Which part of an entry it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelExtensionKind {
    /// The header: addresses, devices, protocol. It has no module.
    Header,
    /// A match.
    Match,
    /// A target.
    Target,
}

/// A match or target of an entry, as the kernel names it; or its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelExtension {
    /// What it is.
    pub kind: KernelExtensionKind,
    /// Its module's name.
    pub name: String,
    /// The revision of its structure.
    pub revision: u8,
}

impl fmt::Display for KernelExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            KernelExtensionKind::Header => return f.write_str("header of the entry"),
            KernelExtensionKind::Match => "match",
            KernelExtensionKind::Target => "target",
        };
        write!(f, "{kind} {:?} of revision {}", self.name, self.revision)
    }
}

/// One match or target in an entry.
struct ExtensionOfEntry<'e> {
    kind: KernelExtensionKind,
    name: &'e str,
    revision: u8,
    data: &'e [u8],
}

impl<'e> ExtensionOfEntry<'e> {
    /// The extension at the beginning of these bytes, and its length; `None` if they are truncated.
    fn read(bytes: &'e [u8], kind: KernelExtensionKind) -> Option<(ExtensionOfEntry<'e>, usize)> {
        let length = usize::from(read_u16(bytes.get(..EXTENSION_HEADER_BYTES)?, 0));
        let data = bytes.get(EXTENSION_HEADER_BYTES..length)?;
        let name = read_text(&bytes[2..2 + EXTENSION_NAME_BYTES])?;
        let revision = bytes[EXTENSION_HEADER_BYTES - 1];
        Some((ExtensionOfEntry { kind, name, revision, data }, length))
    }

    fn to_kernel_extension(&self) -> KernelExtension {
        let name = self.name.to_owned();
        KernelExtension { kind: self.kind, name, revision: self.revision }
    }
}

/// Decodes entries of one family; its buffer is used again for each.
#[derive(Debug)]
pub(crate) struct RuleDecoder {
    family: Family,
    written_again: EntryWriter,
    compared: Vec<u8>,
}

/// What the verdict of an entry names.
#[derive(Clone)]
pub(crate) enum VerdictTarget {
    /// The next entry: the rule only counts.
    NextRule,
    /// A chain.
    Chain(SharedName),
}

impl RuleDecoder {
    pub(crate) fn new(family: Family) -> RuleDecoder {
        RuleDecoder { family, written_again: EntryWriter::new(family), compared: Vec::new() }
    }

    /// The rule of an entry; `resolve_verdict` says what an offset names.
    ///
    /// # Errors
    /// The match or target that the decoder does not know, or whose bytes the model does not hold.
    pub(crate) fn decode_rule(
        &mut self,
        entry: &[u8],
        sets: &SetIndices,
        resolve_verdict: impl Fn(u32) -> Option<VerdictTarget>,
    ) -> Result<Rule, KernelExtension> {
        let layout = EntryOffsets::of(self.family);
        let target_offset = usize::from(read_u16(entry, layout.target_offset_at));
        let mut rule = Rule::unconditional(Target::None);
        rule.base = decode_base_match(entry, self.family);
        let mut at = layout.header_bytes;
        while at < target_offset {
            let read =
                ExtensionOfEntry::read(&entry[at..target_offset], KernelExtensionKind::Match);
            let (extension, length) = read.ok_or_else(header_extension)?;
            let ExtensionOfEntry { name, revision, data, .. } = extension;
            let decoded = matches::decode_match(self.family, name, revision, data, sets);
            rule.matches.push(decoded.ok_or_else(|| extension.to_kernel_extension())?);
            at += length;
        }
        let read = ExtensionOfEntry::read(&entry[target_offset..], KernelExtensionKind::Target);
        let (extension, _) = read.ok_or_else(header_extension)?;
        let is_goto = entry[layout.flags_at] & layout.goto_flag != 0;
        let target = self.decode_target(&extension, is_goto, sets, resolve_verdict);
        rule.target = target.ok_or_else(|| extension.to_kernel_extension())?;
        if let Some(differing) = self.find_extension_encoded_differently(&rule, entry, sets) {
            return Err(differing);
        }
        rule.counters = Some(Counters {
            packets: read_u64(entry, layout.counters_at),
            bytes: read_u64(entry, layout.counters_at + 8),
        });
        Ok(rule)
    }

    fn decode_target(
        &self,
        extension: &ExtensionOfEntry,
        is_goto: bool,
        sets: &SetIndices,
        resolve_verdict: impl Fn(u32) -> Option<VerdictTarget>,
    ) -> Option<Target> {
        let ExtensionOfEntry { name, revision, data, .. } = extension;
        if !name.is_empty() {
            return targets::decode_target(self.family, name, *revision, data, sets);
        }
        match read_u32(data.get(..4)?, 0).cast_signed() {
            -1 => Some(Target::Drop),
            -2 => Some(Target::Accept),
            XT_RETURN => Some(Target::Return),
            verdict => match resolve_verdict(u32::try_from(verdict).ok()?)? {
                VerdictTarget::NextRule => Some(Target::None),
                VerdictTarget::Chain(chain) if is_goto => Some(Target::Goto(chain)),
                VerdictTarget::Chain(chain) => Some(Target::Jump(chain)),
            },
        }
    }

    /// Encodes the rule again, and compares: the extension in which the bytes differ first.
    fn find_extension_encoded_differently(
        &mut self,
        rule: &Rule,
        entry: &[u8],
        sets: &SetIndices,
    ) -> Option<KernelExtension> {
        let layout = EntryOffsets::of(self.family);
        let target_offset = usize::from(read_u16(entry, layout.target_offset_at));
        self.compared.clear();
        self.compared.extend_from_slice(entry);
        clear_meaningless_bytes(&mut self.compared, self.family);
        let verdict = write_rule_entry(&mut self.written_again, rule, sets);
        if !matches!(verdict, Ok(VerdictFixup::Complete)) {
            // The offset of a jump is of the table, not of the rule.
            let verdict_at = target_offset + EXTENSION_HEADER_BYTES;
            self.compared[verdict_at..verdict_at + 4].fill(0);
        }
        clear_device_names_under_empty_masks(self.written_again.header_mut(), self.family);
        let written = self.written_again.bytes();
        if verdict.is_ok() && written == self.compared {
            return None;
        }
        let differs_at = written
            .iter()
            .zip(&self.compared)
            .position(|(a, b)| a != b)
            .unwrap_or(written.len().min(entry.len() - 1));
        let mut at = layout.header_bytes;
        if differs_at < at {
            return Some(header_extension());
        }
        while at < target_offset {
            let read =
                ExtensionOfEntry::read(&entry[at..target_offset], KernelExtensionKind::Match);
            let Some((extension, length)) = read else { break };
            if differs_at < at + length {
                return Some(extension.to_kernel_extension());
            }
            at += length;
        }
        let read = ExtensionOfEntry::read(&entry[target_offset..], KernelExtensionKind::Target);
        Some(read.map_or_else(header_extension, |(extension, _)| extension.to_kernel_extension()))
    }
}

/// Where the lengths in an entry do not add up, or its header has what the model does not hold.
fn header_extension() -> KernelExtension {
    KernelExtension { kind: KernelExtensionKind::Header, name: String::new(), revision: 0 }
}

fn decode_base_match(header: &[u8], family: Family) -> BaseMatch {
    let layout = IptIpOffsets::of(family);
    let flags = header[EntryOffsets::of(family).flags_at];
    let inverse = header[layout.inverse_flags_at];
    let size = layout.addr_bytes;
    let addr_match = |place: usize, bit: u8| {
        let addr = read_addr(&header[place * size..], family);
        let mask = read_addr(&header[(2 + place) * size..], family);
        let negated = inverse & bit != 0;
        (mask != Addr(0) || negated).then_some(AddrMatch { negated, addr, mask })
    };
    let device = |place: usize, bit: u8| {
        let name_at = layout.devices_at + place * 16;
        let (name, mask) = (&header[name_at..name_at + 16], &header[name_at + 32..name_at + 48]);
        decode_device(name, mask, inverse & bit != 0)
    };
    let protocol = header[layout.protocol_at];
    let negated_protocol = inverse & INVERSE_PROTOCOL != 0;
    let tests_protocol = match family {
        Family::V4 => protocol != 0,
        Family::V6 => flags & FLAG_V6_PROTOCOL != 0 && (protocol != 0 || negated_protocol),
    };
    let tests_fragment = family == Family::V4 && flags & FLAG_FRAGMENT != 0;
    BaseMatch {
        saddr: addr_match(0, INVERSE_SOURCE),
        daddr: addr_match(1, INVERSE_DESTINATION),
        iif: device(0, INVERSE_IN_DEVICE),
        oif: device(1, INVERSE_OUT_DEVICE),
        proto: tests_protocol.then_some(ProtoMatch { negated: negated_protocol, proto: protocol }),
        fragment: tests_fragment
            .then_some(FragmentMatch { negated: inverse & INVERSE_FRAGMENT != 0 }),
    }
}

/// A name under its mask: the mask covers the zero byte after a whole name.
fn decode_device(name: &[u8], mask: &[u8], negated: bool) -> Option<IfaceMatch> {
    let masked = mask.iter().take_while(|byte| **byte != 0).count();
    if masked == 0 && !negated {
        return None;
    }
    let text = name[..masked].split(|byte| *byte == 0).next().unwrap_or_default();
    let is_prefix = text.len() == masked;
    let name = SharedName::from(String::from_utf8_lossy(text).as_ref());
    Some(IfaceMatch { negated, name, is_prefix })
}
