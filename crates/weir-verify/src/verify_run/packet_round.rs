//! Packets that are compared together.

use weir_model::Family;
use weir_semantics::JourneyKind;

use crate::packet_batch::{PacketBatch, PacketPath};
use crate::result_difference::ExpectedResult;

/// Packets that are sent between two readings of the counters.
#[derive(Debug, Default)]
pub(crate) struct PacketRound {
    pub batches: Vec<(PacketBatch, Vec<ExpectedResult>)>,
}

impl PacketRound {
    pub fn packet_count(&self) -> usize {
        self.batches.iter().map(|(b, _)| b.packets.len()).sum()
    }

    pub fn push_batch_selection(
        &mut self,
        batch: &PacketBatch,
        some: Vec<(usize, ExpectedResult)>,
    ) {
        if !some.is_empty() {
            let only = batch.select_packets(some.iter().map(|(at, _)| *at));
            self.batches.push((only, some.into_iter().map(|(_, e)| e).collect()));
        }
    }

    pub fn split_in_half(self) -> [PacketRound; 2] {
        let (half, mut before) = (self.packet_count() / 2, 0);
        let mut out = [PacketRound::default(), PacketRound::default()];
        for (batch, expected) in self.batches {
            let cut = half.saturating_sub(before).min(expected.len());
            before += expected.len();
            let mut first: Vec<_> = expected.into_iter().enumerate().collect();
            let second = first.split_off(cut);
            out[0].push_batch_selection(&batch, first);
            out[1].push_batch_selection(&batch, second);
        }
        out
    }
}

/// `ipv4 forward`.
pub(crate) fn format_family_and_journey(path: &PacketPath) -> String {
    let family = match path.family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    };
    let entry = match path.journey_kind {
        JourneyKind::Forward => "forward",
        JourneyKind::Input => "input",
        JourneyKind::Output => "output",
    };
    format!("{family} {entry}")
}
