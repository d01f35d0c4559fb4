use core::fmt;
use datafusion::common::stats::Precision;

/// Probes that are looked up at a time, at least, while there are more: fewer would leave most of a GPU idle.
pub(crate) const BATCH: usize = 1 << 16;

/// The sizes of tables that [`Costs`] are of, as powers of two.
const SIZES: [u32; 4] = [10, 14, 18, 22];

/// Nanoseconds that joins and scans take, by which an index is chosen over a hash join, a nested-loop join or a scan of the whole table,
/// or not.
///
/// The example `crossover` measures them. The default was measured on two cores that others used, too: for look-ups, a `LaneTree`
/// on the CPU and the reading of one value for each row that was found; for hash joins and nested-loop joins, those of DataFusion 55.0
/// as its package for Python has them; for `scan` and `read`, the arrow kernels that those plans call, on one core, over two
/// columns, 2^22 rows in random order, one in 16 of which is found; for `hash_row`, a join with 3 * 10^8 pairs; for `row`, the
/// example's joins, whose times are scaled to those of the others by what `read` took beside them. A machine with a GPU needs its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// One batch of up to 2^16 look-ups, beside its probes.
    pub batch: f64,
    /// One probe that is looked up in a table of 2^10, 2^14, 2^18 or 2^22 rows. Costs of other sizes are interpolated over the
    /// logarithm of the size.
    pub look_up: [f64; 4],
    /// One row that is put into a hash table.
    pub build: f64,
    /// One row that is looked up in a hash table over 2^10, 2^14, 2^18 or 2^22 rows.
    pub hash: [f64; 4],
    /// One pair of rows that a nested-loop join tries.
    pub pair: f64,
    /// One row that a look-up finds after a probe's first one, in a table of 2^10, 2^14, 2^18 or 2^22 rows: it is read from anywhere.
    pub row: [f64; 4],
    /// One pair that a hash join finds after the first one of a row of its larger side.
    pub hash_row: f64,
    /// One row of a table that is read and filtered.
    pub scan: f64,
    /// One row that is read by its number from an index.
    pub read: f64,
}

impl Costs {
    /// Each join that can be a look-up is one, and each condition that an index answers goes through it.
    pub const ALWAYS: Self = Self {
        batch: 0.0,
        look_up: [0.0; 4],
        build: 0.0,
        hash: [0.0; 4],
        pair: 0.0,
        row: [0.0; 4],
        hash_row: 0.0,
        scan: 0.0,
        read: 0.0,
    };

    /// What joining so many probes with an indexed table takes, each of whose values has `copies` rows on the average, of which a hash
    /// join finds `joined`.
    pub(crate) fn compare(&self, probes: Precision<usize>, table: usize, copies: f64, joined: f64) -> Comparison {
        let Some(&probes) = probes.get_value() else { return Comparison::default() };
        let more = probes as f64 * (copies - 1.0).max(0.0);
        // Of a value with several rows both ends are looked up, among the values.
        let (ends, values) = if copies > 1.0 { (2.0, table as f64 / copies) } else { (1.0, table as f64) };
        let look_up = ends * self.look_ups(probes, values as usize) + more * at(&self.row, table);
        // The engine builds over the smaller side, and `hash` has one pair of each row of the larger one.
        let (small, large) = (probes.min(table), probes.max(table));
        let more = (probes as f64 * joined - large as f64).max(0.0);
        let hash_join = small as f64 * self.build + large as f64 * at(&self.hash, small) + more * self.hash_row;
        Comparison { costs: Some((look_up, hash_join)), ..Comparison::default() }
    }

    /// A comparison if the probes are made distinct before they are looked up, by a hash table.
    pub(crate) fn and_distinct(&self, mut compared: Comparison, probes: Precision<usize>) -> Comparison {
        if let (Some((look_up, _)), Some(&probes)) = (&mut compared.costs, probes.get_value()) {
            *look_up += probes as f64 * self.build;
        }
        compared.needs_sizes = true;
        compared
    }

    /// What joining so many probes with those rows of an indexed table takes that meet conditions: a hash join is of these, which are so many
    /// and are read by an index or not.
    pub(crate) fn compare_restricted(
        &self,
        probes: Precision<usize>,
        table: usize,
        copies: f64,
        (kept, by_index): (Precision<usize>, bool),
    ) -> Comparison {
        let (Some(&count), Some(&kept)) = (probes.get_value(), kept.get_value()) else {
            return Comparison { needs_sizes: true, ..Comparison::default() };
        };
        let joined = copies * kept as f64 / table.max(1) as f64;
        let (of_all, of_kept) = (self.compare(probes, table, copies, 1.0), self.compare(probes, kept, 1.0, joined));
        let reading = if by_index { kept as f64 * self.read } else { table as f64 * self.scan };
        let costs =
            of_all.costs.zip(of_kept.costs).map(|((look_up, _), (_, hash_join))| (look_up, reading + hash_join));
        self.and_filter(Comparison { costs, ..of_all }, Precision::Exact(count), copies)
    }

    /// A comparison if a filter is over the pairs that are looked up, which are made first.
    pub(crate) fn and_filter(&self, mut compared: Comparison, probes: Precision<usize>, copies: f64) -> Comparison {
        if let (Some((look_up, _)), Some(&probes)) = (&mut compared.costs, probes.get_value()) {
            *look_up += probes as f64 * copies.max(1.0) * (self.read + self.scan);
        }
        compared.needs_sizes = true;
        compared
    }

    /// What joining so many probes with an indexed table takes if each probe is a range.
    pub(crate) fn compare_ranges(&self, probes: Precision<usize>, table: usize) -> Comparison {
        let costs = probes.get_value().map(|&probes| {
            // Both ends are looked up.
            (2.0 * self.look_ups(probes, table), probes as f64 * table as f64 * self.pair)
        });
        Comparison { costs, is_of_ranges: true, needs_sizes: false }
    }

    /// Whether rows that an index finds are read sooner from the whole table, by a filter.
    pub(crate) fn prefers_full_scan(&self, found: usize, table: usize) -> bool {
        found as f64 * self.read > table as f64 * self.scan
    }

    fn look_ups(&self, probes: usize, table: usize) -> f64 {
        let batches = probes.div_ceil(BATCH) as f64;
        batches * self.batch + probes as f64 * at(&self.look_up, table)
    }
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            batch: 450.0,
            look_up: [165.0, 153.0, 125.0, 254.0],
            build: 47.0,
            hash: [5.0, 7.0, 17.0, 36.0],
            pair: 2.0,
            row: [2.9, 1.9, 2.8, 13.7],
            hash_row: 11.0,
            scan: 2.0,
            read: 33.0,
        }
    }
}

/// The cost at a table's size.
fn at(costs: &[f64; 4], rows: usize) -> f64 {
    let size = (rows.max(1) as f64).log2();
    let above = SIZES.iter().position(|known| size < f64::from(*known)).unwrap_or(SIZES.len());
    let (Some(&low), Some(&high)) = (above.checked_sub(1).and_then(|below| costs.get(below)), costs.get(above)) else {
        return if above == 0 { costs[0] } else { costs[SIZES.len() - 1] };
    };
    let step = f64::from(SIZES[above] - SIZES[above - 1]);
    low + (high - low) * (size - f64::from(SIZES[above - 1])) / step
}

/// Nanoseconds of a look-up, and of the join that it is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Comparison {
    /// `None` if it is not known how many probes there are.
    costs: Option<(f64, f64)>,
    /// Whether the other one is a nested-loop join, and not a hash join.
    is_of_ranges: bool,
    /// Whether more is done than a look-up of each probe: a hash table is built, or pairs are made that a filter leaves out.
    needs_sizes: bool,
}

impl Comparison {
    /// If sizes are not known, it does if it builds no hash table and tries no pairs.
    pub(crate) fn prefers_look_up(&self) -> bool {
        self.costs.map_or(!self.needs_sizes, |(look_up, other)| look_up <= other)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = if self.is_of_ranges { "nested_loop_cost" } else { "hash_join_cost" };
        match self.costs {
            Some((look_up, cost)) => write!(f, "cost={:.3} ms, {other}={:.3} ms", look_up / 1e6, cost / 1e6),
            None => f.write_str("cost=unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_between_sizes_are_interpolated() {
        let costs = [10.0, 20.0, 40.0, 80.0];
        let found = [0, 1, 1 << 10, 1 << 12, 1 << 14, 1 << 15, 1 << 22, 1 << 30].map(|rows| at(&costs, rows));
        assert_eq!(found, [10.0, 10.0, 10.0, 15.0, 20.0, 25.0, 80.0, 80.0]);
    }

    #[test]
    fn the_smaller_side_is_what_a_hash_join_builds_over() {
        let costs = Costs { batch: 1000.0, look_up: [10.0; 4], build: 30.0, hash: [2.0; 4], ..Costs::ALWAYS };
        let compared = |probes, table| costs.compare(Precision::Exact(probes), table, 1.0, 1.0);
        assert_eq!(compared(100, 1000).costs, Some((2000.0, 5000.0)));
        assert_eq!(compared(1000, 100).costs, Some((11_000.0, 5000.0)));
        assert_eq!(compared(0, 100).costs.unwrap().0, 0.0);
        assert!(compared(100, 1000).prefers_look_up() && !compared(1000, 100).prefers_look_up());
        assert!(costs.compare(Precision::Absent, 100, 1.0, 1.0).prefers_look_up());
        assert!(Costs::ALWAYS.compare(Precision::Exact(9), 9, 5.0, 5.0).prefers_look_up());
        assert_eq!(compared(100, 1000).to_string(), "cost=0.002 ms, hash_join_cost=0.005 ms");
    }

    #[test]
    fn pairs_cost_more_than_probes() {
        let costs = Costs { look_up: [10.0; 4], hash: [2.0; 4], row: [5.0; 4], hash_row: 3.0, ..Costs::ALWAYS };
        let compared = |probes, copies| costs.compare(Precision::Exact(probes), 1000, copies, copies);
        assert_eq!(compared(100, 1.0).costs, Some((1000.0, 2000.0)));
        assert_eq!(compared(100, 0.0).costs, compared(100, 1.0).costs);
        // One pair of each row of the table is a part of what that row costs; each probe is looked up at both ends.
        assert_eq!(compared(100, 10.0).costs, Some((2000.0 + 4500.0, 2000.0)));
        assert_eq!(compared(100, 30.0).costs, Some((2000.0 + 14_500.0, 2000.0 + 6000.0)));
        assert_eq!(compared(2000, 3.0).costs, Some((40_000.0 + 20_000.0, 4000.0 + 12_000.0)));
        assert!(compared(100, 1.0).prefers_look_up() && !compared(100, 10.0).prefers_look_up());
    }

    #[test]
    fn rows_of_large_tables_cost_more() {
        let costs = Costs { look_up: [0.0; 4], hash: [2.0; 4], row: [1.0, 1.0, 1.0, 9.0], ..Costs::ALWAYS };
        let compared = |rows| costs.compare(Precision::Exact(rows / 16), rows, 16.0, 16.0);
        assert!(compared(1 << 14).prefers_look_up() && !compared(1 << 22).prefers_look_up());
    }

    #[test]
    fn what_is_done_beside_look_ups_is_counted() {
        let costs =
            Costs { look_up: [10.0; 4], build: 30.0, hash: [2.0; 4], row: [1.0; 4], scan: 4.0, ..Costs::ALWAYS };
        let probes = Precision::Exact(100);
        let distinct = |probes| costs.and_distinct(costs.compare(probes, 1000, 3.0, 1.0), probes);
        assert_eq!(distinct(probes).costs, Some((2000.0 + 200.0 + 3000.0, 5000.0)));
        assert!(!distinct(Precision::Absent).prefers_look_up());
        assert!(!costs.and_filter(Comparison::default(), Precision::Absent, 3.0).prefers_look_up());
        let joined = costs.compare(probes, 1000, 3.0, 1.0);
        assert_eq!(costs.and_filter(joined, probes, 3.0).costs, Some((2200.0 + 1200.0, 5000.0)));
        // A hash join of fewer rows builds over those, once they are read.
        let restricted = |by_index| costs.compare_restricted(probes, 1000, 3.0, (Precision::Exact(10), by_index)).costs;
        assert_eq!(restricted(true), Some((3400.0, 300.0 + 200.0)));
        assert_eq!(restricted(false), Some((3400.0, 300.0 + 200.0 + 4000.0)));
    }

    #[test]
    fn most_of_a_table_is_read_by_a_full_scan() {
        let costs = Costs { scan: 1.0, read: 10.0, ..Costs::ALWAYS };
        assert!(!costs.prefers_full_scan(100, 1000) && costs.prefers_full_scan(101, 1000));
        assert!(!costs.prefers_full_scan(0, 0) && !Costs::ALWAYS.prefers_full_scan(1000, 1000));
    }

    #[test]
    fn a_nested_loop_join_tries_all_pairs() {
        let costs = Costs { batch: 1000.0, look_up: [10.0; 4], pair: 2.0, ..Costs::ALWAYS };
        let compared = |probes, table| costs.compare_ranges(Precision::Exact(probes), table);
        assert_eq!(compared(100, 1000).costs, Some((4000.0, 200_000.0)));
        assert!(compared(100, 1000).prefers_look_up() && !compared(100, 10).prefers_look_up());
        assert_eq!(compared(100, 1000).to_string(), "cost=0.004 ms, nested_loop_cost=0.200 ms");
        assert!(costs.compare_ranges(Precision::Absent, 9).prefers_look_up());
    }
}
