//! Targets as diagrams: most are a single terminal, some test the packet first.

mod nat;

use weir_model::effect::{IpsetWrites, KnownWrite, UNKNOWN_TARGET_ROW, known_write};
use weir_model::rule_match::{OpaqueExtension, ct_state};
use weir_model::target::{Effect, ExtensionTarget};
use weir_model::{CtState, Field, FieldSet, Target, TargetTermination, target_effects};
use weir_packet::ConntrackInfo;
use weir_semantics::Verdict;
use weir_semantics::connmark::{ConnmarkOp, parse_connmark_target};
use weir_semantics::question_digest::{digest_debug_text, digest_drop_question};

use crate::bdd::node_store::DiagramRef;
use crate::packet_sets::free_variable::{
    FieldBit, FreeVariable, StatefulTestInput, UndeterminedTargetBit,
};
use crate::packet_sets::presence_and_field_predicates::{
    build_small_block_predicate, decode_ct_state,
};
use crate::packet_sets::variable_layout::ct_code_bit;
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::packet_change::{PacketChange, TtlTransform, XorBitSource};
use crate::rule_diagrams::rule_and_chain_diagrams::BuildError;
use crate::rule_diagrams::table_hook_context::TableHookContext;
use crate::rule_diagrams::terminal::{RuleExit, StatefulQuestion, Terminal};

impl DiagramContext<'_> {
    /// What a target does that is neither a jump nor a plain verdict.
    pub fn build_extension_target(
        &mut self,
        target: &Target,
        state_id: u64,
        place: TableHookContext,
    ) -> Result<DiagramRef, BuildError> {
        let own_effect_list =
            self.terminals.intern_single_effect_list(place.hook_or_forward(), place.table, target);
        let decided = |exit| Terminal { effects: own_effect_list, ..Terminal::from_exit(exit) };
        match target {
            Target::Reject(with) => {
                Ok(self.terminals.intern_leaf(decided(RuleExit::Verdict(Verdict::Reject(with)))))
            }
            Target::Divert(e) => {
                self.build_userspace_or_socket_target(target, e, own_effect_list, (state_id, place))
            }
            Target::Effect(effect) => match &**effect {
                Effect::Other(e) => self.build_target_from_effect_table(
                    target,
                    e,
                    own_effect_list,
                    (state_id, place),
                ),
                other => self.build_effect_target(other, target, own_effect_list),
            },
            Target::Nat(nat) => Ok(self.build_nat_target(nat, own_effect_list, place)?),
            Target::Opaque(opaque) => {
                self.build_opaque_target(opaque, own_effect_list, (state_id, place))
            }
            Target::None
            | Target::Accept
            | Target::Drop
            | Target::Return
            | Target::Jump(_)
            | Target::Goto(_) => Ok(DiagramRef::ZERO),
        }
    }

    /// A target that hands the packet to user space or a local socket, from where it may return.
    fn build_userspace_or_socket_target(
        &mut self,
        target: &Target,
        extension: &ExtensionTarget,
        own_effect_list: u32,
        (state_id, place): (u64, TableHookContext),
    ) -> Result<DiagramRef, BuildError> {
        let decided = |exit| Terminal { effects: own_effect_list, ..Terminal::from_exit(exit) };
        let digest = digest_debug_text(extension);
        let ask = make_whole_packet_question(state_id, digest, place);
        let asked = self.terminals.intern_single_question_list(ask);
        let row = target_effects(target);
        let mut change =
            PacketChange { unmodelled_targets: vec![digest], ..PacketChange::default() };
        self.write_stateful_unknown_fields(
            &mut change,
            row.unknown_value_writes,
            make_packet_independent_question(state_id, digest),
        );
        let change = self.terminals.intern_change(&change);
        let back = match row.termination {
            TargetTermination::Always => RuleExit::Verdict(Verdict::Accept),
            TargetTermination::Never | TargetTermination::Perhaps => RuleExit::Continue,
        };
        let back = Terminal { stateful_questions: asked, change, ..decided(back) };
        let back = self.terminals.intern_leaf(back);
        let gone = RuleExit::Verdict(Verdict::Divert(extension.module));
        let gone =
            self.terminals.intern_leaf(Terminal { stateful_questions: asked, ..decided(gone) });
        let variable = FreeVariable::StatefulTest {
            state_id,
            content_digest: digest,
            nth: 0,
            state_input: ask.state_input,
        };
        let comes_back = self.space.free_variable_without_match(variable)?;
        Ok(self.space.store.ite(comes_back, back, gone)?)
    }

    /// A target that weir does not know: it ends the traversal, or the packet continues with any
    /// values in the fields that it may write.
    fn build_opaque_target(
        &mut self,
        opaque: &OpaqueExtension,
        own_effect_list: u32,
        (state_id, place): (u64, TableHookContext),
    ) -> Result<DiagramRef, BuildError> {
        let decided = |exit| Terminal { effects: own_effect_list, ..Terminal::from_exit(exit) };
        let digest = digest_debug_text(opaque);
        let asked = self
            .terminals
            .intern_single_question_list(make_whole_packet_question(state_id, digest, place));
        let unmodelled = vec![digest];
        let mut change = PacketChange { unmodelled_targets: unmodelled, ..PacketChange::default() };
        self.write_stateful_unknown_fields(
            &mut change,
            UNKNOWN_TARGET_ROW.unknown_value_writes,
            make_packet_independent_question(state_id, digest),
        );
        let change = self.terminals.intern_change(&change);
        let go_on = Terminal { stateful_questions: asked, change, ..decided(RuleExit::Continue) };
        let go_on = self.terminals.intern_leaf(go_on);
        let end =
            Terminal { stateful_questions: asked, ..decided(RuleExit::Verdict(Verdict::Unknown)) };
        let end = self.terminals.intern_leaf(end);
        let state_input = make_whole_packet_question(state_id, digest, place).state_input;
        let variable =
            FreeVariable::StatefulTest { state_id, content_digest: digest, nth: 0, state_input };
        let number = self.space.free_variables.intern(variable, || None);
        Ok(self.space.store.make_node(self.space.layout.fields_end + number, go_on, end)?)
    }

    fn build_effect_target(
        &mut self,
        effect: &Effect,
        target: &Target,
        own_effect_list: u32,
    ) -> Result<DiagramRef, BuildError> {
        let only = Terminal { effects: own_effect_list, ..Terminal::from_exit(RuleExit::Continue) };
        let mut change = PacketChange::default();
        if target_effects(target).changes_unmodelled_state {
            change.unmodelled_targets.push(digest_debug_text(effect));
        }
        let mut untracks = false;
        self.apply_known_write(&mut change, target);
        match effect {
            Effect::Notrack | Effect::CtNotrack { .. } => {
                self.write_untracked_state(&mut change);
                untracks = true;
            }
            _ => {}
        }
        let changed = Terminal { change: self.terminals.intern_change(&change), ..only };
        let (only, changed) =
            (self.terminals.intern_leaf(only), self.terminals.intern_leaf(changed));
        if !untracks {
            return Ok(changed);
        }
        Ok(self.space.store.ite(self.space.presence.ct_entry, only, changed)?)
    }

    /// A target of a module whose row in the table of effects says what it does.
    fn build_target_from_effect_table(
        &mut self,
        target: &Target,
        extension: &ExtensionTarget,
        own_effect_list: u32,
        (state_id, place): (u64, TableHookContext),
    ) -> Result<DiagramRef, BuildError> {
        let row = target_effects(target);
        let digest = digest_debug_text(extension);
        let mut change = PacketChange::default();
        self.apply_known_write(&mut change, target);
        if row.changes_unmodelled_state {
            change.unmodelled_targets.push(digest);
        }
        let mut asked = 0;
        let entry = self.space.presence.ct_entry;
        // The packets that it changes.
        let mut where_changed = DiagramRef::ONE;
        match row.name {
            "CONNMARK" => {
                self.apply_connmark(&mut change, extension);
                where_changed = entry;
            }
            "CT" => {
                self.write_ct_code_and_clear_mark(&mut change, 1 << ct_code_bit::HAS_ENTRY);
                let ct = self.space.layout.field_levels(Field::CtState);
                where_changed = build_small_block_predicate(&mut self.space.store, ct, |code| {
                    decode_ct_state(code) == ct_state::INVALID
                })?;
            }
            _ => {}
        }
        if row.stateful || row.ipset_writes != IpsetWrites::None {
            asked = self
                .terminals
                .intern_single_question_list(make_whole_packet_question(state_id, digest, place));
        }
        if row.stateful {
            self.write_stateful_unknown_fields(
                &mut change,
                row.unknown_value_writes,
                make_whole_packet_question(state_id, digest, place),
            );
        } else {
            self.write_stateless_unknown_fields(
                &mut change,
                row.unknown_value_writes,
                digest,
                place,
            );
        }
        let only = Terminal {
            effects: own_effect_list,
            stateful_questions: asked,
            ..Terminal::from_exit(RuleExit::Continue)
        };
        let changed = Terminal { change: self.terminals.intern_change(&change), ..only };
        let (only, changed) =
            (self.terminals.intern_leaf(only), self.terminals.intern_leaf(changed));
        let out = self.space.store.ite(where_changed, changed, only)?;
        if !row.may_drop {
            return Ok(out);
        }
        let drop = Terminal {
            effects: own_effect_list,
            ..Terminal::from_exit(RuleExit::Verdict(Verdict::Drop))
        };
        let drop = self.terminals.intern_leaf(drop);
        let content_digest = digest_drop_question(digest);
        self.space.free_variables.record_module_of_drop_question(content_digest, row.name);
        let variable = FreeVariable::StatelessTest {
            content_digest,
            hook: Some(place.hook_or_forward()),
            change: 0,
        };
        let drops = self.space.free_variable_without_match(variable)?;
        Ok(self.space.store.ite(drops, drop, out)?)
    }

    /// Fields take values of which nothing is known, not even that two packets alike get the same.
    ///
    /// Variables are numbered in the order of the levels that they replace, so that a diagram keeps
    /// its shape.
    fn write_stateful_unknown_fields(
        &mut self,
        change: &mut PacketChange,
        fields: FieldSet,
        StatefulQuestion { state_id, content_digest, state_input }: StatefulQuestion,
    ) {
        self.write_free_variable_bits(change, fields, |bit| FreeVariable::StatefulTargetBit {
            state_id,
            content_digest,
            nth: 0,
            state_input,
            bit,
        });
    }

    /// Fields get values that the packet determines, in a way that is not modelled.
    pub fn write_stateless_unknown_fields(
        &mut self,
        change: &mut PacketChange,
        fields: FieldSet,
        content_digest: u64,
        place: TableHookContext,
    ) {
        let hook = place.hook_or_forward();
        self.write_free_variable_bits(change, fields, |bit| {
            let bit = UndeterminedTargetBit::OtherFieldBit(bit);
            FreeVariable::StatelessTargetBit { content_digest, hook, change: 0, bit }
        });
    }

    fn write_free_variable_bits(
        &mut self,
        change: &mut PacketChange,
        fields: FieldSet,
        variable: impl Fn(FieldBit) -> FreeVariable,
    ) {
        let mut bits: Vec<(u32, FieldBit)> = Vec::new();
        for field in fields.iter() {
            let levels = self.space.layout.field_levels(field);
            bits.extend(
                (0..levels.bit_count)
                    .map(|b| (levels.level_of_bit_from_lowest(b), FieldBit(field, b as u8))),
            );
        }
        bits.sort_unstable_by_key(|(level, _)| *level);
        for (level, bit) in bits {
            let number = self.space.free_variables.intern(variable(bit), || None);
            change.bit_sources.insert(
                level,
                XorBitSource::from_level(self.space.layout.fields_end + number, false),
            );
        }
        change.writes_ttl |= fields.contains(Field::Ttl);
    }

    fn apply_known_write(&self, change: &mut PacketChange, target: &Target) {
        let Target::Effect(effect) = target else { return };
        match known_write(effect) {
            None => {}
            Some(KnownWrite::ClearAndXor { field, clear_mask, xor_value }) => {
                self.clear_mask_and_xor_field(change, field, xor_value, clear_mask);
            }
            Some(KnownWrite::SetTtl(value)) => change.ttl_transform = TtlTransform::set_to(value),
            Some(KnownWrite::AddToTtl(value)) => {
                change.ttl_transform = TtlTransform::add_clamped(value.into());
            }
        }
    }

    /// `field = (field & !mask) ^ value`.
    fn clear_mask_and_xor_field(
        &self,
        change: &mut PacketChange,
        field: Field,
        value: u32,
        mask: u32,
    ) {
        let levels = self.space.layout.field_levels(field);
        for bit in 0..levels.bit_count {
            let level = levels.level_of_bit_from_lowest(bit);
            match (mask >> bit & 1 == 1, value >> bit & 1 == 1) {
                (true, set) => drop(change.bit_sources.insert(level, XorBitSource::constant(set))),
                (false, true) => {
                    drop(change.bit_sources.insert(level, XorBitSource::from_level(level, true)))
                }
                (false, false) => {}
            }
        }
    }

    /// The connection of an untracked packet: nothing is known of it.
    pub fn write_untracked_state(&self, change: &mut PacketChange) {
        let untracked = crate::packet_sets::packet_bit_codec::encode_ct_code_without_mark(
            ConntrackInfo::from_state(CtState::Untracked),
        );
        self.write_ct_code_and_clear_mark(change, untracked);
    }

    /// Another code for the connection, and no mark.
    pub fn write_ct_code_and_clear_mark(&self, change: &mut PacketChange, code: u32) {
        let ct = self.space.layout.field_levels(Field::CtState);
        for bit in 0..ct_code_bit::COUNT {
            change.bit_sources.insert(
                ct.level_of_bit_from_lowest(bit),
                XorBitSource::constant(code >> bit & 1 == 1),
            );
        }
        self.clear_mask_and_xor_field(change, Field::CtMark, 0, u32::MAX);
    }

    fn apply_connmark(&self, change: &mut PacketChange, extension: &ExtensionTarget) {
        let (mark, ct_mark) = (Field::Mark, Field::CtMark);
        match parse_connmark_target(extension) {
            None => {}
            Some(ConnmarkOp::Set { value, mask }) => {
                self.clear_mask_and_xor_field(change, ct_mark, value, mask)
            }
            Some(ConnmarkOp::Save { nfmask, ctmask }) => {
                self.copy_masked_mark(change, (mark, nfmask), (ct_mark, ctmask));
            }
            Some(ConnmarkOp::Restore { nfmask, ctmask }) => {
                self.copy_masked_mark(change, (ct_mark, ctmask), (mark, nfmask));
            }
        }
    }

    /// `to = (to & !to_mask) ^ (from & from_mask)`.
    fn copy_masked_mark(&self, change: &mut PacketChange, from: (Field, u32), to: (Field, u32)) {
        let (from_levels, to_levels) =
            (self.space.layout.field_levels(from.0), self.space.layout.field_levels(to.0));
        for bit in 0..32 {
            let level = to_levels.level_of_bit_from_lowest(bit);
            let kept = to.1 >> bit & 1 == 0;
            let mut source = if kept {
                XorBitSource::from_level(level, false)
            } else {
                XorBitSource::constant(false)
            };
            if from.1 >> bit & 1 == 1 {
                source.xor_with(&XorBitSource::from_level(
                    from_levels.level_of_bit_from_lowest(bit),
                    false,
                ));
            }
            if source != XorBitSource::from_level(level, false) {
                change.bit_sources.insert(level, source);
            }
        }
    }
}

/// What a target writes whatever the packet was before. Whether the packet returns is asked of
/// everything, so that values of packets that differ are never compared alone.
fn make_packet_independent_question(state_id: u64, content_digest: u64) -> StatefulQuestion {
    StatefulQuestion {
        state_id,
        content_digest,
        state_input: StatefulTestInput { hook: None, read_fields: FieldSet::NONE, change: 0 },
    }
}

/// A question of a target that may depend on every field.
fn make_whole_packet_question(
    state_id: u64,
    content_digest: u64,
    place: TableHookContext,
) -> StatefulQuestion {
    let state_input = StatefulTestInput {
        hook: Some(place.hook_or_forward()),
        read_fields: FieldSet::ALL,
        change: 0,
    };
    StatefulQuestion { state_id, content_digest, state_input }
}
