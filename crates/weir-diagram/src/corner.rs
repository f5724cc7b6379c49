//! Packets that reviewers of a change rarely consider.

use weir_model::Field;

use crate::layout::ct_bit;
use crate::presence::codes;
use crate::space::Space;
use crate::store::{Full, Ref};

/// A kind of packet that is distinguished from ordinary ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Corner {
    /// The transport header is truncated, or a fragment could overwrite it.
    TruncatedHeader,
    /// A later fragment.
    Fragment,
    /// Conntrack classifies it as invalid.
    Invalid,
    /// A later packet of a connection that is still new and was translated: a repeated SYN. What
    /// starts a journey as the first packet of a connection is not translated yet.
    TranslatedNew,
}

impl Space<'_> {
    /// The packets of each corner case; none is in two of them. `journey`: the packets are those of
    /// whole journeys, not of one hook.
    pub(crate) fn corners(&mut self, journey: bool) -> Result<Vec<(Corner, Ref)>, Full> {
        let (cut, later) = (self.presence.cut, self.presence.later);
        let state = self.layout.field(Field::CtState);
        let invalid =
            |code: u32| code >> ct_bit::ENTRY & 1 == 0 && code >> ct_bit::STATE_HIGH & 1 == 0;
        let store = &mut self.store;
        let fragment = store.minus(later, cut)?;
        let mut invalid = codes(store, state, invalid)?;
        for other in [cut, fragment] {
            invalid = store.minus(invalid, other)?;
        }
        let mut out = vec![
            (Corner::TruncatedHeader, cut),
            (Corner::Fragment, fragment),
            (Corner::Invalid, invalid),
        ];
        if journey {
            let has = |code: u32, bit: u32| code >> bit & 1 == 1;
            let translated = |code: u32| {
                let new = has(code, ct_bit::ENTRY)
                    && !has(code, ct_bit::STATE_HIGH)
                    && !has(code, ct_bit::STATE_LOW);
                new && (has(code, ct_bit::SNAT) || has(code, ct_bit::DNAT))
            };
            let mut translated = codes(store, state, translated)?;
            for other in [cut, fragment] {
                translated = store.minus(translated, other)?;
            }
            out.push((Corner::TranslatedNew, translated));
        }
        Ok(out)
    }
}
