//! Address translation as diagrams: what a rule leaves open becomes free variables.

use weir_model::target::{NatRange, NatTarget};
use weir_model::{Addr, Field, Hook};
use weir_semantics::Verdict;
use weir_semantics::question_digest::digest_debug_text;

use crate::bdd::node_store::{DiagramRef, LimitReached};
use crate::packet_sets::free_variable::{FreeVariable, UndeterminedTargetBit};
use crate::packet_sets::presence_and_field_predicates::build_masked_predicate;
use crate::packet_sets::variable_layout::{VariableBlock, ct_code_bit};
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::packet_change::{PacketChange, XorBitSource};
use crate::rule_diagrams::table_hook_context::TableHookContext;
use crate::rule_diagrams::terminal::{RuleExit, Terminal};

impl DiagramContext<'_> {
    /// Address translation: `apply_nat_target` of the interpreter, for all packets.
    pub fn build_nat_target(
        &mut self,
        nat: &NatTarget,
        own_effect_list: u32,
        place: TableHookContext,
    ) -> Result<DiagramRef, LimitReached> {
        let accept = Terminal {
            effects: own_effect_list,
            ..Terminal::from_exit(RuleExit::Verdict(Verdict::Accept))
        };
        if matches!(place.hook_or_forward(), Hook::Input | Hook::Postrouting) {
            // The last table of every journey: nothing reads the packet any more.
            return Ok(self.terminals.intern_leaf(accept));
        }
        let source = match nat {
            NatTarget::Snat(_) | NatTarget::Masquerade(_) => true,
            NatTarget::Dnat(_) | NatTarget::Redirect(_) => false,
            // At INPUT and POSTROUTING, where it translates the source, it returned above.
            NatTarget::Netmap(..) => false,
        };
        let new = self.build_translated_endpoint(nat, source, place)?;
        let mut change = new.open_address_bits;
        let addr = self.space.layout.field_levels(if source { Field::Saddr } else { Field::Daddr });
        if let Some((value, mask)) = new.addr {
            for bit in (0..addr.bit_count).filter(|b| mask >> b & 1 == 1) {
                change.bit_sources.insert(
                    addr.level_of_bit_from_lowest(bit),
                    XorBitSource::constant(value >> bit & 1 == 1),
                );
            }
        }
        if matches!(nat, NatTarget::Redirect(_)) {
            let redirected = self.space.layout.block_levels(VariableBlock::Redirected).first;
            change.bit_sources.insert(redirected, XorBitSource::constant(true));
        }
        let without_port = change.clone();
        let port = self.space.layout.field_levels(if source { Field::Sport } else { Field::Dport });
        for bit in 0..16 {
            if let Some(value) = new.port {
                let set = XorBitSource::constant(value >> bit & 1 == 1);
                change.bit_sources.insert(port.level_of_bit_from_lowest(bit), set);
            } else if let Some(chosen) = new.port_bits.get(bit as usize) {
                change.bit_sources.insert(port.level_of_bit_from_lowest(bit), chosen.clone());
            }
        }
        // Where nothing becomes another, the connection is not taken as translated.
        let store = &mut self.space.store;
        let mut same_addr = DiagramRef::ONE;
        if let Some((value, mask)) = new.addr {
            same_addr = build_masked_predicate(store, addr, value, mask)?;
        }
        let mut same_port = DiagramRef::ONE;
        if let Some(value) = new.port {
            same_port = build_masked_predicate(store, port, value.into(), 0xffff)?;
        }
        if let Some(changed) = new.changed_variable {
            same_addr = store.make_node(changed, DiagramRef::ONE, DiagramRef::ZERO)?;
        }
        let same_both = store.and(same_addr, same_port)?;
        let with = self.build_nat_outcome(change, same_both, source, own_effect_list)?;
        if new.port.is_none() && new.port_bits.is_empty() {
            return Ok(with);
        }
        let without = self.build_nat_outcome(without_port, same_addr, source, own_effect_list)?;
        let there = self.space.presence.complete_header_with_ports;
        self.space.store.ite(there, with, without)
    }

    /// What a translation writes: fixed values, or variables where the rule leaves a choice.
    fn build_translated_endpoint(
        &mut self,
        nat: &NatTarget,
        source: bool,
        place: TableHookContext,
    ) -> Result<TranslatedEndpoint, LimitReached> {
        let mut new = TranslatedEndpoint::new(source);
        let everything = self.space.layout.family.max_addr();
        match nat {
            NatTarget::Netmap(Addr(to), Addr(mask)) => new.addr = Some((*to, mask | to)),
            NatTarget::Snat(r) | NatTarget::Dnat(r) if is_single_nat_result(r) => {
                new.addr = r.addrs.map(|(lo, _)| (lo.0, everything));
                new.port = r.ports.map(|(lo, _)| lo);
            }
            NatTarget::Snat(r) | NatTarget::Dnat(r) => {
                self.add_nat_choice_variables(nat, r, r.addrs, place, &mut new)?
            }
            NatTarget::Masquerade(r) | NatTarget::Redirect(r) => {
                let any = r.addrs.or(Some((Addr(0), Addr(everything))));
                self.add_nat_choice_variables(nat, r, any, place, &mut new)?;
            }
        }
        Ok(new)
    }

    /// The terminals of a translation, `same` or not.
    fn build_nat_outcome(
        &mut self,
        mut change: PacketChange,
        same: DiagramRef,
        source: bool,
        own_effect_list: u32,
    ) -> Result<DiagramRef, LimitReached> {
        let accept = Terminal {
            effects: own_effect_list,
            ..Terminal::from_exit(RuleExit::Verdict(Verdict::Accept))
        };
        let number = self.terminals.intern_change(&change);
        let kept = self.terminals.intern_leaf(Terminal { change: number, ..accept });
        let bit = if source { ct_code_bit::SNAT } else { ct_code_bit::DNAT };
        let level = self.space.layout.field_levels(Field::CtState).level_of_bit_from_lowest(bit);
        change.bit_sources.insert(level, XorBitSource::constant(true));
        let number = self.terminals.intern_change(&change);
        let changed = self.terminals.intern_leaf(Terminal { change: number, ..accept });
        self.space.store.ite(same, kept, changed)
    }

    /// Variables for what a translation leaves open, within the ranges that it names.
    fn add_nat_choice_variables(
        &mut self,
        nat: &NatTarget,
        range: &NatRange,
        addrs: Option<(Addr, Addr)>,
        place: TableHookContext,
        new: &mut TranslatedEndpoint,
    ) -> Result<(), LimitReached> {
        let digest = digest_debug_text(nat);
        let hook = place.hook_or_forward();
        let end = self.space.layout.fields_end;
        let questions = &mut self.space.free_variables;
        let mut ask = |bit| {
            let variable =
                FreeVariable::StatelessTargetBit { content_digest: digest, hook, change: 0, bit };
            end + questions.intern(variable, || None)
        };
        let bits = self.space.layout.family.addr_bits();
        let field = if new.is_source { Field::Saddr } else { Field::Daddr };
        let addr = self.space.layout.field_levels(field);
        if let Some((lo, hi)) = addrs {
            if lo == hi {
                new.addr = Some((lo.0, self.space.layout.family.max_addr()));
            } else {
                let fixed = (lo.0 ^ hi.0).checked_ilog2().map_or(0, |top| top + 1);
                for bit in 0..bits {
                    let source = match bit < fixed {
                        true => XorBitSource::from_level(
                            ask(UndeterminedTargetBit::AddrBit(bit as u8)),
                            false,
                        ),
                        false => XorBitSource::constant(lo.0 >> bit & 1 == 1),
                    };
                    new.open_address_bits
                        .bit_sources
                        .insert(addr.level_of_bit_from_lowest(bit), source);
                }
            }
        }
        if let Some((lo, hi)) = range.ports {
            if lo == hi {
                new.port = Some(lo);
            } else {
                new.port_bits = (0..16)
                    .map(|b| {
                        XorBitSource::from_level(ask(UndeterminedTargetBit::PortBit(b)), false)
                    })
                    .collect();
            }
        }
        new.changed_variable = Some(ask(UndeterminedTargetBit::NatChangedPacket));
        Ok(())
    }
}

/// What a translation makes of address and port.
struct TranslatedEndpoint {
    is_source: bool,
    /// Value and mask.
    addr: Option<(u128, u128)>,
    port: Option<u16>,
    port_bits: Vec<XorBitSource>,
    /// Bits of the address that are left open.
    open_address_bits: PacketChange,
    /// The variable that says whether anything changed, if that is open.
    changed_variable: Option<u32>,
}

impl TranslatedEndpoint {
    fn new(source: bool) -> TranslatedEndpoint {
        TranslatedEndpoint {
            is_source: source,
            addr: None,
            port: None,
            port_bits: Vec::new(),
            open_address_bits: PacketChange::default(),
            changed_variable: None,
        }
    }
}

/// Whether the rule alone says the result of the packet.
fn is_single_nat_result(r: &NatRange) -> bool {
    r.addrs.is_none_or(|(lo, hi)| lo == hi) && r.ports.is_none_or(|(lo, hi)| lo == hi)
}
