//! Packets that are compared together.

use weir_model::Family;
use weir_semantics::Entry;

use crate::batch::{Batch, PacketPath};
use crate::differ::Expected;

/// Packets that are sent between two readings of the counters.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub batches: Vec<(Batch, Vec<Expected>)>,
}

impl Round {
    pub fn len(&self) -> usize {
        self.batches.iter().map(|(b, _)| b.packets.len()).sum()
    }

    pub fn push(&mut self, batch: &Batch, some: Vec<(usize, Expected)>) {
        if !some.is_empty() {
            let only = batch.only(some.iter().map(|(at, _)| *at));
            self.batches.push((only, some.into_iter().map(|(_, e)| e).collect()));
        }
    }

    pub fn halves(self) -> [Round; 2] {
        let (half, mut before) = (self.len() / 2, 0);
        let mut out = [Round::default(), Round::default()];
        for (batch, expected) in self.batches {
            let cut = half.saturating_sub(before).min(expected.len());
            before += expected.len();
            let mut first: Vec<_> = expected.into_iter().enumerate().collect();
            let second = first.split_off(cut);
            out[0].push(&batch, first);
            out[1].push(&batch, second);
        }
        out
    }
}

/// `ipv4 forward`.
pub(crate) fn path_name(path: &PacketPath) -> String {
    let family = match path.family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    };
    let entry = match path.entry {
        Entry::Forward => "forward",
        Entry::Input => "input",
        Entry::Output => "output",
    };
    format!("{family} {entry}")
}
