//! Groups the rows of a batch by (slice, key), so that the state is touched once for each. Keeps its table between batches.

use dataflow::time::Timestamp;

/// The distinct (slice, key) pairs of a batch, in order of first appearance.
#[derive(Debug, Default)]
pub(super) struct Cells {
    /// Open addressing: index into `list` plus one, 0 where free. Always a power of two, at most half full.
    slots: Vec<u32>,
    list: Vec<Cell>,
}

/// One pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    /// End of the slice.
    pub(super) end: Timestamp,
    /// Index among the batch's distinct keys.
    pub(super) key: u32,
}

const SLOTS_MIN: usize = 64;

impl Cells {
    /// Forgets the last batch; there will be about `expected` pairs.
    pub(super) fn clear(&mut self, expected: usize) {
        self.list.clear();
        self.slots.clear();
        self.slots.resize((expected * 2).next_power_of_two().max(SLOTS_MIN), 0);
    }

    /// The pairs.
    pub(super) fn list(&self) -> &[Cell] {
        &self.list
    }

    /// The index of a pair.
    #[inline]
    pub(super) fn place(&mut self, end: Timestamp, key: u32) -> u32 {
        let cell = Cell { end, key };
        let mask = self.slots.len() - 1;
        let mut slot = slot_of(cell, mask);
        loop {
            match self.slots[slot] {
                0 => break,
                found if self.list[found as usize - 1] == cell => return found - 1,
                _ => slot = (slot + 1) & mask,
            }
        }
        self.list.push(cell);
        self.slots[slot] = self.list.len() as u32;
        if self.list.len() * 2 > self.slots.len() {
            self.grow();
        }
        self.list.len() as u32 - 1
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        let mask = size - 1;
        self.slots.clear();
        self.slots.resize(size, 0);
        for (index, &cell) in self.list.iter().enumerate() {
            let mut slot = slot_of(cell, mask);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = index as u32 + 1;
        }
    }
}

/// Fibonacci hashing (Knuth, volume 3, 6.4): the upper bits of a product are well mixed.
#[inline]
fn slot_of(cell: Cell, mask: usize) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = ((cell.end as u64).wrapping_mul(GOLDEN) ^ u64::from(cell.key)).wrapping_mul(GOLDEN);
    (mixed >> 32) as usize & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pairs_share_a_cell_however_many_there_are() {
        let mut cells = Cells::default();
        cells.clear(1);
        for _ in 0..2 {
            for number in 0..1_000u32 {
                assert_eq!(cells.place(i64::from(number % 10) * 60_000, number / 10), number);
            }
        }
        assert_eq!(cells.list()[999], Cell { end: 540_000, key: 99 });
    }
}
