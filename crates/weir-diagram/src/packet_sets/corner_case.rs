//! Packets that reviewers of a change rarely consider.

use weir_model::Field;

use crate::bdd::node_store::{DiagramRef, LimitReached};
use crate::packet_sets::packet_space::PacketSpace;
use crate::packet_sets::presence_and_field_predicates::build_small_block_predicate;
use crate::packet_sets::variable_layout::ct_code_bit;

/// A kind of packet that is distinguished from ordinary ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CornerCaseKind {
    /// The transport header is truncated, or a fragment could overwrite it.
    UnreadableHeader,
    /// A later fragment.
    LaterFragment,
    /// Conntrack classifies it as invalid.
    InvalidCtState,
    /// A later packet of a connection that is still new and was translated: a repeated SYN. What
    /// starts a journey as the first packet of a connection is not translated yet.
    TranslatedNewConnection,
}

impl PacketSpace<'_> {
    /// The packets of each corner case; none is in two of them. `journey`: the packets are those of
    /// whole journeys, not of one hook.
    pub(crate) fn corner_case_sets(
        &mut self,
        journey: bool,
    ) -> Result<Vec<(CornerCaseKind, DiagramRef)>, LimitReached> {
        let (cut, later) = (self.presence.unreadable_header, self.presence.later_fragment);
        let state = self.layout.field_levels(Field::CtState);
        let invalid = |code: u32| {
            code >> ct_code_bit::HAS_ENTRY & 1 == 0 && code >> ct_code_bit::STATE_HIGH & 1 == 0
        };
        let store = &mut self.store;
        let fragment = store.minus(later, cut)?;
        let mut invalid = build_small_block_predicate(store, state, invalid)?;
        for other in [cut, fragment] {
            invalid = store.minus(invalid, other)?;
        }
        let mut out = vec![
            (CornerCaseKind::UnreadableHeader, cut),
            (CornerCaseKind::LaterFragment, fragment),
            (CornerCaseKind::InvalidCtState, invalid),
        ];
        if journey {
            let has = |code: u32, bit: u32| code >> bit & 1 == 1;
            let translated = |code: u32| {
                let new = has(code, ct_code_bit::HAS_ENTRY)
                    && !has(code, ct_code_bit::STATE_HIGH)
                    && !has(code, ct_code_bit::STATE_LOW);
                new && (has(code, ct_code_bit::SNAT) || has(code, ct_code_bit::DNAT))
            };
            let mut translated = build_small_block_predicate(store, state, translated)?;
            for other in [cut, fragment] {
                translated = store.minus(translated, other)?;
            }
            out.push((CornerCaseKind::TranslatedNewConnection, translated));
        }
        Ok(out)
    }
}
