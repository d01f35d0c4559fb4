//! Pieces of a batch of probes whose rows take a limited part of the device's memory.

use core::ops::Range;

/// Rows that are on a device at a time: so many are written at its full speed, and take 1 GiB at most.
pub const MOST_ROWS: u64 = 1 << 27;

/// Pieces of probes, one after the other. How many rows a piece has is known once it was counted: one that has too many is divided,
/// unless it is a single probe.
#[derive(Debug)]
pub struct RowPieces {
    next: usize,
    probes: usize,
    /// Probes of the next piece, if there are as many, and of any piece at most.
    len: usize,
    largest: usize,
    most_rows: u64,
}

impl RowPieces {
    /// Pieces of at most `largest` of the probes, and of at most `most_rows` rows.
    ///
    /// # Panics
    /// If a piece is to have no probe.
    pub fn new(probes: usize, largest: usize, most_rows: u64) -> Self {
        assert!(largest > 0);
        Self { next: 0, probes, len: largest, largest, most_rows }
    }

    /// The piece to count next; `None` after the last one.
    pub fn piece(&self) -> Option<Range<usize>> {
        (self.next < self.probes).then(|| self.next..self.next.saturating_add(self.len).min(self.probes))
    }

    /// Whether a piece that has so many rows is small enough. If it is not, the next piece is the first part of it.
    pub fn takes(&mut self, piece: &Range<usize>, rows: u64) -> bool {
        let len = piece.len();
        if rows > self.most_rows && len > 1 {
            let share = len as u128 * u128::from(self.most_rows) / u128::from(rows);
            // At least halved, so that few pieces are counted in vain wherever the rows are.
            self.len = (share as usize).clamp(1, len / 2);
            return false;
        }
        self.next = piece.end;
        if rows < self.most_rows / 4 {
            self.len = self.len.saturating_mul(2).min(self.largest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces that are taken, and how many were counted.
    fn pieces(rows: &[u64], largest: usize, most: u64) -> (Vec<Range<usize>>, usize) {
        let (mut pieces, mut taken, mut counted) = (RowPieces::new(rows.len(), largest, most), Vec::new(), 0);
        while let Some(piece) = pieces.piece() {
            counted += 1;
            if pieces.takes(&piece, rows[piece.clone()].iter().sum()) {
                taken.push(piece);
            }
        }
        (taken, counted)
    }

    #[test]
    fn pieces_have_all_probes_in_order_and_few_rows() {
        let skewed: Vec<u64> = (0..1000).map(|i| if i % 97 == 3 { 1 << 33 } else { i % 5 }).collect();
        for rows in [&[][..], &[0; 100], &[1; 1000], &[7; 1000], &[1 << 40; 9], &skewed] {
            for (largest, most) in [(1, 1), (64, 1 << 32), (1000, 10), (5000, u64::MAX)] {
                let (taken, counted) = pieces(rows, largest, most);
                let all: Vec<usize> = taken.iter().cloned().flatten().collect();
                assert!(all.into_iter().eq(0..rows.len()));
                for piece in taken {
                    let total: u64 = rows[piece.clone()].iter().sum();
                    assert!(piece.len() <= largest && (piece.len() == 1 || total <= most), "{piece:?} has {total}");
                }
                assert!(counted <= 4 * rows.len(), "{counted}");
            }
        }
        // One key of very many rows does not leave small pieces for all others.
        let mut hot = vec![1; 1 << 16];
        hot[5] = 1 << 40;
        let (taken, counted) = pieces(&hot, 1 << 10, 1 << 20);
        assert!(taken.len() < 90 && counted < 120, "{} of {counted}", taken.len());
    }
}
