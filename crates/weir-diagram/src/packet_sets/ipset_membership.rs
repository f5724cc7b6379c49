//! Membership in ipsets as boolean functions: the counterpart of the interpreter's lookup.
//!
//! An element is a conjunction of its parts. Elements with the longest prefixes come first, and the
//! first that matches decides: it is an element or an exception. If a part cannot be read, the
//! packet is not a member; if the packet does not determine a part, membership is a free variable.

use std::cmp::Reverse;
use std::sync::Arc;

use weir_model::ipset::{SetDataType, SetStorage};
use weir_model::rule_match::SetMatch;
use weir_model::{Element, ElementPart, Family, Field, IpSet, Match};

use crate::PacketSpace;
use crate::bdd::node_store::{DiagramRef, LimitReached, NodeStore};
use crate::bdd::operators::FirstNonzeroOperator;
use crate::packet_sets::free_variable::FreeVariable;
use crate::packet_sets::hook_context::HookContext;
use crate::packet_sets::ipset_masks_and_leaves::{
    MEMBER_LEAF, NOMATCH_LEAF, find_ipset_mark_mask, find_ipset_netmask, select_address_field,
    select_element_terminal,
};
use crate::packet_sets::presence_and_field_predicates::{
    PacketPartPresence, build_device_predicate, build_masked_predicate, build_span_union_predicate,
    icmp_protocol,
};
use crate::packet_sets::set_match_options::parse_set_match_options;
use crate::packet_sets::sorted_ipset_elements::{
    build_multipart_ipset_membership, build_single_address_ipset_membership,
};
use crate::packet_sets::variable_layout::VariableLayout;

/// The packet does not determine whether it is in the set.
const UNKNOWN_MEMBERSHIP_LEAF: DiagramRef = DiagramRef::leaf(3);

impl PacketSpace<'_> {
    /// Packets that a `-m set` finds in its set, its negation aside.
    pub(crate) fn packets_matching_unnegated_ipset_match(
        &mut self,
        m: &SetMatch,
        at: HookContext,
    ) -> Result<DiagramRef, LimitReached> {
        let options = parse_set_match_options(m);
        let set =
            self.ipsets_by_firewall[self.active_firewall].iter().position(|s| s.name == m.name);
        // Lists hand --return-nomatch on to their members (ip_set_list_set.c): not modelled.
        let is_list = |set: &usize| {
            self.ipsets_by_firewall[self.active_firewall][*set].kind.storage == SetStorage::List
        };
        let known = set.filter(|s| {
            !(options.has_options_beyond_membership || options.return_nomatch && is_list(s))
        });
        let found = match known {
            None => UNKNOWN_MEMBERSHIP_LEAF,
            Some(set) => self.get_or_build_ipset_membership(set, &m.src_directions, at)?,
        };
        let can_hold_exceptions = |set: usize| {
            self.ipsets_by_firewall[self.active_firewall][set].kind.can_hold_exceptions()
        };
        let inverts = options.return_nomatch && known.is_some_and(can_hold_exceptions);
        if known.is_some_and(|set| self.has_only_member_terminals(set, &m.src_directions))
            && !inverts
        {
            return Ok(found);
        }
        let outcome = |leaf: DiagramRef| match leaf {
            MEMBER_LEAF => !inverts,
            NOMATCH_LEAF => inverts,
            _ => false,
        };
        let inside = self.select_leaves(found, &outcome)?;
        let unknown = self.select_leaves(found, &|leaf| leaf == UNKNOWN_MEMBERSHIP_LEAF)?;
        if unknown == DiagramRef::ZERO {
            return Ok(inside);
        }
        // The negated test and the plain one are the same question.
        let plain = Match::Set(SetMatch { negated: false, ..m.clone() });
        let variable = FreeVariable::StatelessTest {
            content_digest: self.digest_membership_question(m, false),
            hook: at.hook,
            change: 0,
        };
        let asked = self.free_variable_of_match(variable, || plain)?;
        let asked = self.store.and(unknown, asked)?;
        self.store.first_nonzero(inside, asked)
    }

    /// Whether the membership is boolean: no exceptions, nothing unknown.
    fn has_only_member_terminals(&self, set: usize, dirs: &[bool]) -> bool {
        let set = &self.ipsets_by_firewall[self.active_firewall][set];
        let parts = &mut set.kind.data_types.iter().zip(dirs);
        parts.all(|(part, src)| *part != SetDataType::Set && (*part != SetDataType::Mac || *src))
            && set.elements.iter().all(|element| !element.nomatch)
    }

    /// True where a diagram ends in a terminal for which `holds` says yes.
    fn select_leaves(
        &mut self,
        f: DiagramRef,
        holds: &dyn Fn(DiagramRef) -> bool,
    ) -> Result<DiagramRef, LimitReached> {
        let code = self.store.fresh_cache_code();
        self.store.map_terminals(code, f, &mut |leaf| {
            if holds(leaf) { DiagramRef::ONE } else { DiagramRef::ZERO }
        })
    }

    /// What a set says: made once.
    pub(crate) fn get_or_build_ipset_membership(
        &mut self,
        set: usize,
        dirs: &[bool],
        at: HookContext,
    ) -> Result<DiagramRef, LimitReached> {
        let key = (self.representative_firewall_for_ipsets(), set, dirs.to_vec(), at);
        if let Some(made) = self.ipset_memberships.get(&key) {
            return Ok(*made);
        }
        let all = self.ipsets_by_firewall[self.active_firewall];
        let set = &all[set];
        let fits = set.family.is_none_or(|f| f == self.layout.family);
        let made = if !fits || dirs.len() < set.kind.data_types.len() {
            DiagramRef::ZERO
        } else if set.kind.storage == SetStorage::List {
            self.build_list_set_membership(set, dirs, at)?
        } else {
            self.build_non_list_ipset_membership(set, dirs, at)?
        };
        self.ipset_memberships.insert(key, made);
        Ok(made)
    }

    /// In a list if in one of its sets.
    fn build_list_set_membership(
        &mut self,
        list: &IpSet,
        dirs: &[bool],
        at: HookContext,
    ) -> Result<DiagramRef, LimitReached> {
        let (mut inside, mut unknown) = (DiagramRef::ZERO, DiagramRef::ZERO);
        let all = self.ipsets_by_firewall[self.active_firewall];
        for element in list.elements.iter() {
            let member = match &element.parts[..] {
                [ElementPart::MemberSet(name)] => all.iter().position(|s| s.name == *name),
                _ => None,
            };
            // Lists do not nest (ip_set_list_set.c).
            let member = member.filter(|m| all[*m].kind.storage != SetStorage::List);
            let found = match member {
                Some(member) => self.get_or_build_ipset_membership(member, dirs, at)?,
                None => UNKNOWN_MEMBERSHIP_LEAF,
            };
            let found_in = self.select_leaves(found, &|leaf| leaf == MEMBER_LEAF)?;
            let found_unknown =
                self.select_leaves(found, &|leaf| leaf == UNKNOWN_MEMBERSHIP_LEAF)?;
            inside = self.store.first_nonzero(inside, found_in)?;
            unknown = self.store.first_nonzero(unknown, found_unknown)?;
        }
        let unknown = self.store.and(unknown, UNKNOWN_MEMBERSHIP_LEAF)?;
        self.store.first_nonzero(inside, unknown)
    }

    fn build_non_list_ipset_membership(
        &mut self,
        set: &IpSet,
        dirs: &[bool],
        at: HookContext,
    ) -> Result<DiagramRef, LimitReached> {
        let sample;
        let set = match self.ipset_sample_size() {
            Some(size) if set.elements.len() > size => {
                sample = sample_elements(set, size);
                &sample
            }
            _ => set,
        };
        // Parts are read in order: one that is missing ends it, also before one that is unknown.
        let mut readable = DiagramRef::ONE;
        for (part, src) in set.kind.data_types.iter().zip(dirs) {
            let there = self.packets_with_readable_dimension(set, *part, *src, at)?;
            readable = self.store.and(readable, there)?;
            if *part == SetDataType::Set || *part == SetDataType::Mac && !src {
                return self.store.and(readable, UNKNOWN_MEMBERSHIP_LEAF);
            }
        }
        let found = match self.build_ipset_membership_from_sorted_elements(set, dirs)? {
            Some(found) => found,
            None => self.merge_ipset_element_diagrams(set, dirs)?,
        };
        self.store.and(readable, found)
    }

    /// From the sorted elements, if they allow it.
    pub(crate) fn build_ipset_membership_from_sorted_elements(
        &mut self,
        set: &IpSet,
        dirs: &[bool],
    ) -> Result<Option<DiagramRef>, LimitReached> {
        let (store, layout) = (&mut self.store, &self.layout);
        match build_single_address_ipset_membership(store, layout, set, dirs)? {
            Some(found) => Ok(Some(found)),
            None => build_multipart_ipset_membership(store, layout, &self.presence, set, dirs),
        }
    }

    /// Elements that test devices, or one field twice: a diagram for each.
    pub(crate) fn merge_ipset_element_diagrams(
        &mut self,
        set: &IpSet,
        dirs: &[bool],
    ) -> Result<DiagramRef, LimitReached> {
        let mut order: Vec<_> = set.elements.iter().collect();
        // Stable: elements of equal prefixes, with other devices, stay in the order of the text.
        order.sort_by_cached_key(|e| {
            let lens: Vec<_> =
                e.parts.iter().map(|p| Reverse(get_part_prefix_len_or_zero(p))).collect();
            (lens, e.parts.iter().map(get_part_addr_or_zero).collect::<Vec<_>>())
        });
        let presence = self.presence;
        let layout = &self.layout;
        self.store.build_and_merge_diagrams(FirstNonzeroOperator, order.len(), |store, i| {
            let element = order[i];
            let mut out = select_element_terminal(element);
            for (part, src) in element.parts.iter().zip(dirs).rev() {
                let reader = IpsetElementPartLowering { layout, presence, set, is_source: *src };
                let holds = reader.lower_element_part(store, element, part)?;
                out = store.and(holds, out)?;
            }
            Ok(out)
        })
    }

    /// Where a part of the packet can be read at all; of ports, each element says more.
    fn packets_with_readable_dimension(
        &mut self,
        set: &IpSet,
        part: SetDataType,
        src: bool,
        at: HookContext,
    ) -> Result<DiagramRef, LimitReached> {
        match part {
            // hash_ip4_kadt in ip_set_hash_ip.c: the zero address is not an element.
            SetDataType::Ip
                if set.kind.storage == SetStorage::Hash && set.kind.data_types.len() == 1 =>
            {
                let levels = self.layout.field_levels(select_address_field(src));
                let zero = build_masked_predicate(
                    &mut self.store,
                    levels,
                    0,
                    find_ipset_netmask(set, self.layout.family),
                )?;
                self.store.minus(DiagramRef::ONE, zero)
            }
            SetDataType::Mac if at.has_mac => Ok(self.presence.source_mac),
            SetDataType::Mac => Ok(DiagramRef::ZERO),
            SetDataType::Iface => {
                let (field, seen) =
                    if src { (Field::Iif, at.has_iif) } else { (Field::Oif, at.has_oif) };
                self.lower_device_test(field, seen, |name| !name.is_empty())
            }
            SetDataType::Ip
            | SetDataType::Net
            | SetDataType::Port
            | SetDataType::Mark
            | SetDataType::Set => Ok(DiagramRef::ONE),
        }
    }
}

fn get_part_prefix_len_or_zero(part: &ElementPart) -> u8 {
    if let ElementPart::AddrOrPrefix { len, .. } = part { *len } else { 0 }
}

fn get_part_addr_or_zero(part: &ElementPart) -> u128 {
    if let ElementPart::AddrOrPrefix { addr, .. } = part { addr.0 } else { 0 }
}

/// The set with some of its elements, at equal distances.
fn sample_elements(set: &IpSet, count: usize) -> IpSet {
    let distance = set.elements.len().div_ceil(count.max(1));
    let elements = set.elements.iter().step_by(distance).cloned().collect();
    IpSet { elements: Arc::new(elements), ..set.clone() }
}

/// Reads the parts of a packet that an element needs.
struct IpsetElementPartLowering<'a> {
    layout: &'a VariableLayout,
    presence: PacketPartPresence,
    set: &'a IpSet,
    is_source: bool,
}

impl IpsetElementPartLowering<'_> {
    fn lower_element_part(
        &self,
        store: &mut NodeStore,
        element: &Element,
        part: &ElementPart,
    ) -> Result<DiagramRef, LimitReached> {
        let family = self.layout.family;
        match part {
            ElementPart::AddrOrPrefix { addr, len } => {
                let mask = find_ipset_netmask(self.set, family) & family.netmask((*len).into());
                build_masked_predicate(
                    store,
                    self.layout.field_levels(select_address_field(self.is_source)),
                    addr.0,
                    mask,
                )
            }
            ElementPart::ProtoAndPort { proto, port_or_icmp_type_and_code: port } => {
                self.lower_proto_port_part(store, *proto, *port)
            }
            ElementPart::Mac(mac) => {
                let value = mac.iter().fold(0, |n, b| n << 8 | u128::from(*b));
                build_masked_predicate(
                    store,
                    self.layout.field_levels(Field::SourceMac),
                    value,
                    (1 << 48) - 1,
                )
            }
            ElementPart::Mark(mark) => build_masked_predicate(
                store,
                self.layout.field_levels(Field::Mark),
                (*mark).into(),
                find_ipset_mark_mask(self.set),
            ),
            // Bridge ports never hold a routed packet.
            ElementPart::Iface { physdev: true, .. } | ElementPart::MemberSet(_) => {
                Ok(DiagramRef::ZERO)
            }
            ElementPart::Iface { physdev: false, name } => {
                let wildcard = element.other_words.iter().any(|w| w == "wildcard");
                let field = if self.is_source { Field::Iif } else { Field::Oif };
                build_device_predicate(store, self.layout, field, |n| match wildcard {
                    true => n.starts_with(&**name),
                    false => *n == **name,
                })
            }
        }
    }

    /// Protocol and port as one number (ip_set_getport.c, `get_port`).
    fn lower_proto_port_part(
        &self,
        store: &mut NodeStore,
        proto: Option<u8>,
        port: u16,
    ) -> Result<DiagramRef, LimitReached> {
        let protos = self.layout.field_levels(Field::Proto);
        // bitmap:port knows TCP and UDP, and which of the two does not matter.
        let numbers = match proto {
            Some(p) => vec![(u128::from(p), u128::from(p))],
            None => vec![(6, 6), (17, 17)],
        };
        let proto_is = build_span_union_predicate(store, protos, &numbers)?;
        let icmp = icmp_protocol(self.layout.family);
        let (there, field) = match proto {
            Some(p) if p == icmp => (self.presence.icmp, Field::IcmpTypeAndCode),
            None | Some(6 | 17 | 132 | 136) => (
                self.presence.complete_header_with_ports,
                if self.is_source { Field::Sport } else { Field::Dport },
            ),
            Some(_) if port != 0 => return Ok(DiagramRef::ZERO),
            // Any other protocol has port 0; in IPv6, only where a header is.
            Some(_) if self.layout.family == Family::V6 => {
                return store.minus(proto_is, self.presence.later_fragment);
            }
            Some(_) => return Ok(proto_is),
        };
        let value =
            build_masked_predicate(store, self.layout.field_levels(field), port.into(), 0xffff)?;
        let value = store.and(there, value)?;
        store.and(proto_is, value)
    }
}
