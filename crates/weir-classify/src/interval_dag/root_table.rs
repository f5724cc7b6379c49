//! Roots of searches: a table of children by the first bits of a word.
//!
//! The top nodes of a search are the same for every key, and a table replaces them: an address of
//! 100,000 filters takes one step instead of three. A cell with several pieces leads to a node that
//! tells them apart. A table has 1024 cells, or at most four for each piece, so it stays small next
//! to the buckets. A search without nodes is a table of one cell.

use super::search_node::{NodeRef, NodeTable};

/// The most bits of a word that a table reads.
const TABLE_BITS_MAX: u32 = 16;
/// Cells for each piece, rounded down to a power of two.
const CELLS_PER_PIECE: usize = 4;
/// A table of fewer cells would save no memory that counts.
const CELLS_MIN: usize = 1024;

/// A table of `2^n` cells.
#[derive(Clone, Debug)]
pub(super) struct RootTable {
    /// The word of the key.
    pub(super) word: usize,
    /// How far the word is shifted: what remains is the cell.
    pub(super) shift: u32,
    pub(super) cells: Vec<NodeRef>,
}

impl RootTable {
    /// The table of a search that has one end.
    pub(super) fn with_single_cell(child: NodeRef) -> RootTable {
        RootTable { word: 0, shift: 0, cells: vec![child] }
    }

    /// The search on a word of `bits` bits for the piece that contains a value. `pieces`: as
    /// [`NodeTable::add_search_levels`] takes them.
    pub(super) fn of_pieces(
        nodes: &mut NodeTable,
        word: usize,
        bits: u32,
        mut pieces: Vec<(u32, NodeRef)>,
    ) -> RootTable {
        pieces.dedup_by(|next, before| next.1 == before.1);
        if let [(_, only)] = pieces[..] {
            return RootTable::with_single_cell(only);
        }
        let wanted_bits = (CELLS_PER_PIECE * pieces.len()).max(CELLS_MIN).ilog2();
        let table_bits = wanted_bits.min(TABLE_BITS_MAX).min(bits);
        let shift = bits - table_bits;
        let mut first = 0;
        let mut next = 0;
        let cells = (0..1_u32 << table_bits).map(|cell| {
            let last_value = u64::from(cell + 1) << shift;
            while next < pieces.len() && u64::from(pieces[next].0) <= u64::from(cell) << shift {
                first = next;
                next += 1;
            }
            while next < pieces.len() && u64::from(pieces[next].0) < last_value {
                next += 1;
            }
            let child = nodes.add_search_levels(word, pieces[first..next].to_vec());
            first = next - 1;
            child
        });
        let cells = cells.collect();
        RootTable { word, shift, cells }
    }
}

#[cfg(test)]
mod tests {
    use super::super::search_node::{FANOUT, LEAF_FLAG};
    use super::*;

    /// What a search from a table finds.
    fn find_leaf(table: &RootTable, nodes: &NodeTable, value: u32) -> u32 {
        let mut child = table.cells[(value >> table.shift) as usize];
        while child & LEAF_FLAG == 0 {
            let node = nodes.nodes[child as usize];
            let above = node[1..FANOUT].iter().filter(|key| **key <= value).count();
            child = node[FANOUT + above];
        }
        child & !LEAF_FLAG
    }

    #[test]
    fn a_root_table_finds_the_piece_of_every_value() {
        for (bits, step) in [(8, 1), (16, 1), (16, 300), (32, 1), (32, 50_000_000)] {
            let max = u32::MAX >> (32 - bits);
            let starts: Vec<u32> = (0..80).map(|piece| piece * step).collect();
            let pieces = starts.iter().zip(0..).map(|(start, piece)| (*start, LEAF_FLAG | piece));
            let mut nodes = NodeTable::default();
            let table = RootTable::of_pieces(&mut nodes, 0, bits, pieces.collect());
            for value in starts.iter().flat_map(|s| [*s, s + 1, s + step / 2]).chain([max]) {
                let piece = starts.iter().rposition(|start| *start <= value).unwrap();
                assert_eq!(find_leaf(&table, &nodes, value), piece as u32, "{value} of {bits}");
            }
        }
    }
}
