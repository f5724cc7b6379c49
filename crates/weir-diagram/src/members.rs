//! Membership in ipsets as boolean functions: the counterpart of the interpreter's lookup.
//!
//! An element is a conjunction of its parts. Elements with the longest prefixes come first, and the
//! first that matches decides: it is an element or an exception. If a part cannot be read, the
//! packet is not a member; if the packet does not determine a part, membership is a free variable.

use std::cmp::Reverse;

use weir_model::matching::SetMatch;
use weir_model::set::{Method, Part};
use weir_model::{Element, ElementPart, Family, Field, IpSet, Match, SetOption};
use weir_semantics::digest::content;

use crate::Space;
use crate::at::At;
use crate::layout::Layout;
use crate::operators::Over;
use crate::presence::{Presence, devices, icmp_of, masked, spans_in};
use crate::store::{Full, Ref, Store};
use crate::variable::FreeVariable;

/// Terminals of a membership diagram; 0 is *not in it*.
const IN: Ref = Ref::leaf(1);
const EXCEPT: Ref = Ref::leaf(2);
const UNKNOWN: Ref = Ref::leaf(3);

/// What the options of a `-m set` require.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    return_nomatch: bool,
    /// More than membership.
    asks: bool,
}

fn options(m: &SetMatch) -> Options {
    let mut options = Options::default();
    for word in m.options.iter().flat_map(|o| o.split_whitespace()) {
        match word.trim_start_matches('-') {
            "return-nomatch" => options.return_nomatch = true,
            "!" | "update-counters" | "update-subcounters" => {}
            _ => options.asks = true,
        }
    }
    options
}

impl Space<'_> {
    /// Packets that a `-m set` finds in its set, its negation aside.
    pub(crate) fn set_members(&mut self, m: &SetMatch, at: At) -> Result<Ref, Full> {
        let options = options(m);
        let set = self.sides[self.side].iter().position(|s| s.name == m.name);
        // Lists hand --return-nomatch on to their members (ip_set_list_set.c): not modelled.
        let is_list = |set: &usize| self.sides[self.side][*set].kind.method == Method::List;
        let known = set.filter(|s| !(options.asks || options.return_nomatch && is_list(s)));
        let found = match known {
            None => UNKNOWN,
            Some(set) => self.membership(set, &m.dirs, at)?,
        };
        let outcome = |leaf: Ref| match leaf {
            IN => !options.return_nomatch,
            EXCEPT => options.return_nomatch,
            _ => false,
        };
        let inside = self.where_leaf(found, &outcome)?;
        let unknown = self.where_leaf(found, &|leaf| leaf == UNKNOWN)?;
        if unknown == Ref::ZERO {
            return Ok(inside);
        }
        // The negated test and the plain one are the same question.
        let plain = Match::Set(SetMatch { negated: false, ..m.clone() });
        let variable =
            FreeVariable::Stateless { content: content(&plain), hook: at.hook, change: 0 };
        let asked = self.ask(variable, || plain)?;
        let asked = self.store.and(unknown, asked)?;
        self.store.over(inside, asked)
    }

    /// True where a diagram ends in a terminal for which `holds` says yes.
    fn where_leaf(&mut self, f: Ref, holds: &dyn Fn(Ref) -> bool) -> Result<Ref, Full> {
        let code = self.store.fresh_code();
        self.store.map(code, f, &mut |leaf| if holds(leaf) { Ref::ONE } else { Ref::ZERO })
    }

    /// What a set says: made once.
    pub(crate) fn membership(&mut self, set: usize, dirs: &[bool], at: At) -> Result<Ref, Full> {
        let key = (self.sets_of(), set, dirs.to_vec(), at);
        if let Some(made) = self.sets.get(&key) {
            return Ok(*made);
        }
        let all = self.sides[self.side];
        let set = &all[set];
        let fits = set.family.is_none_or(|f| f == self.layout.family);
        let made = if !fits || dirs.len() < set.kind.parts.len() {
            Ref::ZERO
        } else if set.kind.method == Method::List {
            self.list(set, dirs, at)?
        } else {
            self.elements(set, dirs, at)?
        };
        self.sets.insert(key, made);
        Ok(made)
    }

    /// In a list if in one of its sets.
    fn list(&mut self, list: &IpSet, dirs: &[bool], at: At) -> Result<Ref, Full> {
        let (mut inside, mut unknown) = (Ref::ZERO, Ref::ZERO);
        let all = self.sides[self.side];
        for element in &list.elements {
            let member = match &element.parts[..] {
                [ElementPart::Set(name)] => all.iter().position(|s| s.name == *name),
                _ => None,
            };
            // Lists do not nest (ip_set_list_set.c).
            let member = member.filter(|m| all[*m].kind.method != Method::List);
            let found = match member {
                Some(member) => self.membership(member, dirs, at)?,
                None => UNKNOWN,
            };
            let found_in = self.where_leaf(found, &|leaf| leaf == IN)?;
            let found_unknown = self.where_leaf(found, &|leaf| leaf == UNKNOWN)?;
            inside = self.store.over(inside, found_in)?;
            unknown = self.store.over(unknown, found_unknown)?;
        }
        let unknown = self.store.and(unknown, UNKNOWN)?;
        self.store.over(inside, unknown)
    }

    fn elements(&mut self, set: &IpSet, dirs: &[bool], at: At) -> Result<Ref, Full> {
        // Parts are read in order: one that is missing ends it, also before one that is unknown.
        let mut readable = Ref::ONE;
        for (part, src) in set.kind.parts.iter().zip(dirs) {
            let there = self.readable(set, *part, *src, at)?;
            readable = self.store.and(readable, there)?;
            if *part == Part::Set || *part == Part::Mac && !src {
                return self.store.and(readable, UNKNOWN);
            }
        }
        let mut order: Vec<_> = set.elements.iter().collect();
        // Stable: elements of equal prefixes, with other devices, stay in the order of the text.
        order.sort_by_cached_key(|e| {
            let lens: Vec<_> = e.parts.iter().map(|p| Reverse(len_of(p))).collect();
            (lens, e.parts.iter().map(addr_of).collect::<Vec<_>>())
        });
        let presence = self.presence;
        let layout = &self.layout;
        let found = self.store.merge(Over, order.len(), |store, i| {
            let element = order[i];
            let mut out = if element.nomatch { EXCEPT } else { IN };
            for (part, src) in element.parts.iter().zip(dirs).rev() {
                let reader = ElementReader { layout, presence, set, src: *src };
                let holds = reader.holds(store, element, part)?;
                out = store.and(holds, out)?;
            }
            Ok(out)
        })?;
        self.store.and(readable, found)
    }

    /// Where a part of the packet can be read at all; of ports, each element says more.
    fn readable(&mut self, set: &IpSet, part: Part, src: bool, at: At) -> Result<Ref, Full> {
        match part {
            // hash_ip4_kadt in ip_set_hash_ip.c: the zero address is not an element.
            Part::Ip if set.kind.method == Method::Hash && set.kind.parts.len() == 1 => {
                let levels = self.layout.field(address(src));
                let zero = masked(&mut self.store, levels, 0, mask_of(set, self.layout.family))?;
                self.store.minus(Ref::ONE, zero)
            }
            Part::Mac if at.mac => Ok(self.presence.mac),
            Part::Mac => Ok(Ref::ZERO),
            Part::Iface => {
                let (field, seen) = if src { (Field::Iif, at.iif) } else { (Field::Oif, at.oif) };
                self.device_test(field, seen, |name| !name.is_empty())
            }
            Part::Ip | Part::Net | Part::Port | Part::Mark | Part::Set => Ok(Ref::ONE),
        }
    }
}

const fn address(src: bool) -> Field {
    if src { Field::Saddr } else { Field::Daddr }
}

fn len_of(part: &ElementPart) -> u8 {
    if let ElementPart::Net { len, .. } = part { *len } else { 0 }
}

fn addr_of(part: &ElementPart) -> u128 {
    if let ElementPart::Net { addr, .. } = part { addr.0 } else { 0 }
}

/// Bits of an address that the set tests.
fn mask_of(set: &IpSet, family: Family) -> u128 {
    let netmask = set.options.iter().find_map(|o| match o {
        SetOption::Netmask(len) => Some(family.mask((*len).into())),
        _ => None,
    });
    netmask.unwrap_or(family.max())
}

/// Reads the parts of a packet that an element needs.
struct ElementReader<'a> {
    layout: &'a Layout,
    presence: Presence,
    set: &'a IpSet,
    src: bool,
}

impl ElementReader<'_> {
    fn holds(&self, store: &mut Store, element: &Element, part: &ElementPart) -> Result<Ref, Full> {
        let family = self.layout.family;
        match part {
            ElementPart::Net { addr, len } => {
                let mask = mask_of(self.set, family) & family.mask((*len).into());
                masked(store, self.layout.field(address(self.src)), addr.0, mask)
            }
            ElementPart::Port { proto, port } => self.port(store, *proto, *port),
            ElementPart::Mac(mac) => {
                let value = mac.iter().fold(0, |n, b| n << 8 | u128::from(*b));
                masked(store, self.layout.field(Field::SourceMac), value, (1 << 48) - 1)
            }
            ElementPart::Mark(mark) => {
                let mask = self.set.options.iter().find_map(|o| match o {
                    SetOption::MarkMask(mask) => Some(*mask),
                    _ => None,
                });
                let mask = mask.unwrap_or(u32::MAX).into();
                masked(store, self.layout.field(Field::Mark), (*mark).into(), mask)
            }
            // Bridge ports never hold a routed packet.
            ElementPart::Iface { physdev: true, .. } | ElementPart::Set(_) => Ok(Ref::ZERO),
            ElementPart::Iface { physdev: false, name } => {
                let wildcard = element.rest.iter().any(|w| w == "wildcard");
                let field = if self.src { Field::Iif } else { Field::Oif };
                devices(store, self.layout, field, |n| match wildcard {
                    true => n.starts_with(&**name),
                    false => *n == **name,
                })
            }
        }
    }

    /// Protocol and port as one number (ip_set_getport.c, `get_port`).
    fn port(&self, store: &mut Store, proto: Option<u8>, port: u16) -> Result<Ref, Full> {
        let protos = self.layout.field(Field::Proto);
        // bitmap:port knows TCP and UDP, and which of the two does not matter.
        let numbers = match proto {
            Some(p) => vec![(u128::from(p), u128::from(p))],
            None => vec![(6, 6), (17, 17)],
        };
        let proto_is = spans_in(store, protos, &numbers)?;
        let icmp = icmp_of(self.layout.family);
        let (there, field) = match proto {
            Some(p) if p == icmp => (self.presence.icmp, Field::Icmp),
            None | Some(6 | 17 | 132 | 136) => {
                (self.presence.ports, if self.src { Field::Sport } else { Field::Dport })
            }
            Some(_) if port != 0 => return Ok(Ref::ZERO),
            // Any other protocol has port 0; in IPv6, only where a header is.
            Some(_) if self.layout.family == Family::V6 => {
                return store.minus(proto_is, self.presence.later);
            }
            Some(_) => return Ok(proto_is),
        };
        let value = masked(store, self.layout.field(field), port.into(), 0xffff)?;
        let value = store.and(there, value)?;
        store.and(proto_is, value)
    }
}
