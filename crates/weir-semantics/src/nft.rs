//! Evaluates an nftables ruleset for a packet.
//!
//! This evaluator of [`weir_model::nft`] shares with the iptables interpreter only the effects of
//! targets on fields, so that the nft form can be checked against the interpreter before it is
//! written. It follows nf_tables, not iptables: a value that a packet lacks stops the rule, negated
//! or not; a transport load reads the bytes at that position, also in later fragments
//! (net/netfilter/nf_tables_core.c); a counter counts at its position in the rule; a base chain
//! without a decision ends with its policy.

use std::collections::HashMap;

use weir_model::nft::{
    BaseChain, Credit, ElementKey, Key, Load, Map, OpaqueStatement, Ruleset, Statement, Table,
    Test, Verdict, With, ct_state, ct_status,
};
use weir_model::{CtState, Effect, Family, Hook, NatTarget, Packet, Policy, TableName};
use weir_packet::{PktType, Transport};

use crate::effects;

/// What a walk of one base chain does in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Accepted: the next base chain sees the packet.
    Accept,
    /// Dropped.
    Drop,
    /// Dropped and answered, by iptables' word.
    Reject(&'static str),
    /// Translated.
    Nat,
}

/// The result of a walk.
#[derive(Clone, Debug, PartialEq)]
pub struct NftWalk<'n> {
    /// How it ended.
    pub end: End,
    /// The originals counted, in order, each as often as it counted.
    pub credits: Vec<Credit>,
    /// What was done, in order.
    pub effects: Vec<Done<'n>>,
    /// Rules begun.
    pub tried: u32,
    /// Deepest call, the base chain being 0.
    pub depth: usize,
}

/// Something done to a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Done<'n> {
    /// An effect.
    Effect(&'n Effect),
    /// An answer.
    Reject(&'static str),
    /// A translation.
    Nat(&'n NatTarget),
}

/// A ruleset with its chains and maps indexed.
#[derive(Debug)]
pub struct Evaluator<'n> {
    tables: Vec<NftTableIndex<'n>>,
}

#[derive(Debug)]
struct NftTableIndex<'n> {
    table: &'n Table,
    chains: HashMap<&'n str, usize>,
    maps: HashMap<&'n str, MapIndex<'n>>,
}

#[derive(Debug)]
struct MapIndex<'n> {
    map: &'n Map,
    exact: HashMap<Vec<ElementKey>, usize>,
    /// Elements of an interval map with one part, by their first value.
    sorted: Vec<(u128, u128, usize)>,
}

impl<'n> Evaluator<'n> {
    /// Indexes a ruleset.
    ///
    /// # Panics
    /// If an interval map has more than one part: weir writes none.
    pub fn new(ruleset: &'n Ruleset) -> Self {
        Evaluator { tables: ruleset.tables.iter().map(NftTableIndex::new).collect() }
    }

    /// Traverses the base chain that replaces an iptables table at a hook; `None` if there is no
    /// such chain.
    ///
    /// `packet` is changed by the rules, translations aside. `answer` is called for
    /// [`Statement::Opaque`]; it returns whether the original match is true.
    ///
    /// # Panics
    /// If a verdict names a chain or a lookup names a map that is not there, or chains call
    /// each other in a circle.
    pub fn walk(
        &self,
        table: TableName,
        hook: Hook,
        packet: &mut Packet,
        answer: &mut dyn FnMut(&OpaqueStatement, &Packet) -> bool,
    ) -> Option<NftWalk<'n>> {
        let index = self
            .tables
            .iter()
            .find(|t| t.table.family == packet.family && t.table.stands_for == table)?;
        let is_at = |b: &BaseChain| b.hook == hook;
        let base = index.table.chains.iter().position(|c| c.base.as_ref().is_some_and(is_at))?;
        let mut run = NftWalker {
            index,
            packet,
            answer,
            walk: NftWalk {
                end: End::Accept,
                credits: vec![],
                effects: vec![],
                tried: 0,
                depth: 0,
            },
        };
        run.base(base);
        Some(run.walk)
    }
}

impl<'n> NftTableIndex<'n> {
    fn new(table: &'n Table) -> Self {
        NftTableIndex {
            table,
            chains: table.chains.iter().enumerate().map(|(i, c)| (c.name.as_str(), i)).collect(),
            maps: table.maps.iter().map(|m| (m.name.as_str(), MapIndex::new(m))).collect(),
        }
    }
}

impl<'n> MapIndex<'n> {
    fn new(map: &'n Map) -> Self {
        let mut index = MapIndex { map, exact: HashMap::new(), sorted: Vec::new() };
        for (i, e) in map.elements.iter().enumerate() {
            if map.interval {
                let [ElementKey::Span(lo, hi)] = e.key[..] else { panic!("interval of one part") };
                index.sorted.push((lo, hi, i));
            } else {
                index.exact.insert(e.key.clone(), i);
            }
        }
        index.sorted.sort_unstable();
        index
    }

    fn find(&self, key: &[ElementKey]) -> Option<usize> {
        if !self.map.interval {
            return self.exact.get(key).copied();
        }
        let [ElementKey::Span(value, _)] = *key else { return None };
        let after = self.sorted.partition_point(|&(lo, ..)| lo <= value);
        let &(_, hi, i) = self.sorted[..after].last()?;
        (value <= hi).then_some(i)
    }
}

struct NftWalker<'n, 'p> {
    index: &'p NftTableIndex<'n>,
    packet: &'p mut Packet,
    answer: &'p mut dyn FnMut(&OpaqueStatement, &Packet) -> bool,
    walk: NftWalk<'n>,
}

/// How a rule ended.
enum Stop {
    Next,
    Verdict(Verdict),
    End(End),
}

impl<'n> NftWalker<'n, '_> {
    fn base(&mut self, base: usize) {
        let table = self.index.table;
        let Some(BaseChain { policy, .. }) = table.chains[base].base else {
            panic!("no base chain")
        };
        // Where to continue: chain, next rule.
        let mut stack: Vec<(usize, usize)> = vec![(base, 0)];
        let mut level = 0;
        while let Some((chain, at)) = stack.pop() {
            let Some(rule) = table.chains[chain].rules.get(at) else { continue };
            self.walk.tried += 1;
            let verdict = match self.rule(&rule.statements) {
                Stop::Next => Verdict::Continue,
                Stop::Verdict(v) => v,
                Stop::End(end) => {
                    self.walk.end = end;
                    return;
                }
            };
            match verdict {
                Verdict::Accept => return,
                Verdict::Drop => {
                    self.walk.end = End::Drop;
                    return;
                }
                Verdict::Continue => stack.push((chain, at + 1)),
                Verdict::Return => {}
                Verdict::Jump(to) => {
                    stack.push((chain, at + 1));
                    stack.push((self.chain(&to), 0));
                }
                Verdict::Goto(to) => stack.push((self.chain(&to), 0)),
            }
            level = level.max(stack.len().saturating_sub(1));
            assert!(stack.len() < 1000 && self.walk.tried < 10_000_000, "chains in a circle");
        }
        self.walk.depth = level;
        if policy == Policy::Drop {
            self.walk.end = End::Drop;
        }
    }

    fn chain(&self, name: &str) -> usize {
        *self.index.chains.get(name).unwrap_or_else(|| panic!("chain {name} is not there"))
    }

    fn rule(&mut self, statements: &'n [Statement]) -> Stop {
        for statement in statements {
            match statement {
                Statement::Test(t) => {
                    if !holds(t, self.packet) {
                        return Stop::Next;
                    }
                }
                Statement::Opaque(o) => {
                    if o.needs_entry() && !self.packet.ct.has_entry() {
                        return Stop::Next;
                    }
                    if (self.answer)(o, self.packet) == o.inverted {
                        return Stop::Next;
                    }
                }
                Statement::Counter(credit) => self.walk.credits.extend(credit),
                Statement::Verdict(v) => return Stop::Verdict(v.clone()),
                Statement::Vmap { key, map } => return self.lookup(key, map),
                Statement::Effect(e) => {
                    self.walk.effects.push(Done::Effect(e));
                    effects::apply(e, self.packet);
                }
                Statement::Reject(word) => {
                    self.walk.effects.push(Done::Reject(word));
                    return Stop::End(End::Reject(word));
                }
                Statement::Nat(target) => {
                    self.walk.effects.push(Done::Nat(target));
                    return Stop::End(End::Nat);
                }
            }
        }
        Stop::Next
    }

    fn lookup(&mut self, key: &[Key], map: &str) -> Stop {
        let Some(values) = key_of(key, self.packet) else { return Stop::Next };
        let map = self.index.maps.get(map).unwrap_or_else(|| panic!("map {map} is not there"));
        let Some(found) = map.find(&values) else { return Stop::Next };
        let element = &map.map.elements[found];
        self.walk.credits.extend(&element.credit);
        Stop::Verdict(element.verdict.clone())
    }
}

fn key_of(key: &[Key], packet: &Packet) -> Option<Vec<ElementKey>> {
    key.iter()
        .map(|k| match k.load {
            Load::Iifname => Some(ElementKey::Device(packet.iif.as_str().into())),
            Load::Oifname => Some(ElementKey::Device(packet.oif.as_str().into())),
            load => {
                let value = load_value(load, packet)? & k.mask.unwrap_or(u128::MAX);
                Some(ElementKey::Span(value, value))
            }
        })
        .collect()
}

fn holds(test: &Test, packet: &Packet) -> bool {
    let device = match test.load {
        Load::Iifname => Some(&packet.iif),
        Load::Oifname => Some(&packet.oif),
        _ => None,
    };
    if let Some(device) = device {
        let With::Device { name, prefix } = &test.with else { return false };
        let equal = if *prefix { device.starts_with(&**name) } else { device.as_str() == &**name };
        return equal != test.negated;
    }
    let Some(value) = load_value(test.load, packet) else { return false };
    let equal = match &test.with {
        With::Spans(spans) => spans.iter().any(|&(lo, hi)| (lo..=hi).contains(&value)),
        With::Masked { mask, wanted } => value & mask == *wanted,
        With::AnyBit(mask) => value & mask != 0,
        With::Device { .. } => return false,
    };
    equal != test.negated
}

/// What nft loads; `None` stops the rule.
fn load_value(load: Load, packet: &Packet) -> Option<u128> {
    let ct = packet.ct;
    Some(match load {
        Load::Iifname | Load::Oifname => return None,
        Load::Saddr => packet.saddr.0,
        Load::Daddr => packet.daddr.0,
        Load::L4proto => packet.proto.into(),
        Load::FragmentOffset => packet.fragment.offset.into(),
        Load::HeaderStart if packet.fragment.offset != 0 => return None,
        Load::HeaderStart => transport_value(packet, 0, 3)?,
        Load::Sport => transport_value(packet, 0, 2)?,
        Load::Dport => transport_value(packet, 2, 2)?,
        Load::TcpFlags => transport_value(packet, 13, 1)?,
        Load::IcmpType => transport_value(packet, 0, 1)?,
        Load::IcmpTypeCode => transport_value(packet, 0, 2)?,
        Load::EtherSaddr => packet.smac?.iter().fold(0, |n, b| n << 8 | u128::from(*b)),
        Load::CtState => u128::from(match ct.state {
            CtState::Invalid => ct_state::INVALID,
            CtState::New => ct_state::NEW,
            CtState::Related => ct_state::RELATED,
            CtState::Established => ct_state::ESTABLISHED,
            CtState::Untracked => ct_state::UNTRACKED,
        }),
        Load::CtStatus if ct.has_entry() => {
            let snat = if ct.snat { ct_status::SNAT } else { 0 };
            let dnat = if ct.dnat { ct_status::DNAT } else { 0 };
            (snat | dnat).into()
        }
        Load::CtMark if ct.has_entry() => ct.mark.into(),
        Load::CtStatus | Load::CtMark => return None,
        Load::Mark => packet.mark.into(),
        Load::Length => packet.len() as u128,
        Load::Ttl => packet.ttl.into(),
        Load::Tos => packet.tos.into(),
        Load::PktType => match packet.pkttype {
            PktType::Unicast => 0,
            PktType::Broadcast => 1,
            PktType::Multicast => 2,
        },
    })
}

/// Bytes of the transport header as the fast path of nft_payload reads them: without a fragment
/// check.
fn transport_value(packet: &Packet, offset: usize, len: usize) -> Option<u128> {
    if packet.family == Family::V6 && packet.fragment.offset != 0 {
        return network_value(packet, offset, len);
    }
    let mut header = Vec::with_capacity(20);
    match &packet.transport {
        Transport::Tcp { sport, dport, seq, ack, flags, options } => {
            header.extend(sport.to_be_bytes());
            header.extend(dport.to_be_bytes());
            header.extend(seq.to_be_bytes());
            header.extend(ack.to_be_bytes());
            header.push((5 + options.len() as u8 / 4) << 4);
            header.push(*flags);
        }
        Transport::Udp { sport, dport }
        | Transport::Sctp { sport, dport, .. }
        | Transport::Dccp { sport, dport } => {
            header.extend(sport.to_be_bytes());
            header.extend(dport.to_be_bytes());
        }
        // No test reads the checksum, so it has no representation.
        Transport::Icmp { kind, code, rest } => {
            header.extend([*kind, *code, 0, 0]);
            header.extend(rest);
        }
        Transport::None | Transport::Truncated => header.extend(packet.payload.iter().take(20)),
    }
    let bytes = header.get(offset..offset + len)?;
    Some(bytes.iter().fold(0, |n, b| n << 8 | u128::from(*b)))
}

/// A later fragment of IPv6 leaves the transport offset at 0 (nft_set_pktinfo_ipv6 keeps what
/// ipv6_find_hdr did not set): the load reads the network header.
fn network_value(packet: &Packet, offset: usize, len: usize) -> Option<u128> {
    let mut header = [0; 40];
    header[0] = 0x60 | packet.tos >> 4;
    header[1] = packet.tos << 4;
    header[8..24].copy_from_slice(&packet.saddr.0.to_be_bytes());
    header[24..40].copy_from_slice(&packet.daddr.0.to_be_bytes());
    let bytes = header.get(offset..offset + len)?;
    Some(bytes.iter().fold(0, |n, b| n << 8 | u128::from(*b)))
}
