//! Tables of a report.

use super::report::{Report, Row, Rung, Section};
use super::subject::power;
use super::{cuart, memory, psa_figure, psa_widths};
use comfy_table::{CellAlignment, Table, presets};
use lanetree::DeviceKind;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// A column: its head, and a row's cell.
pub(super) type Column = (&'static str, fn(&Row) -> String);

/// Writes all tables, what was skipped, and what went wrong.
pub(super) fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    for section in SECTIONS {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.section == section).collect();
        if rows.is_empty() {
            continue;
        }
        writeln!(out, "\n{}", title(section, report.machine.kind))?;
        writeln!(out, "{}", table(columns(section), &rows))?;
        if !BY_THE_CPU.contains(&section) {
            writeln!(out, "  {}", clock(report.machine.kind))?;
        }
        for line in footnotes(section) {
            writeln!(out, "  {line}")?;
        }
        match section {
            Section::HarmoniaNtg => profiles(&rows, out)?,
            Section::HarmoniaLadder => tops(&rows, out)?,
            Section::HarmoniaPsa => psa_figure::print(&rows, out)?,
            Section::HarmoniaPsaWidths => psa_widths::print(&rows, out)?,
            _ => {}
        }
    }
    for row in report.rows.iter().filter(|_| report.machine.kind == DeviceKind::Cuda) {
        if let Some(part) = row.above_ceiling() {
            let (operation, order) = (&row.operation, row.order.unwrap_or("-"));
            writeln!(out, "above its ceiling: {operation}, {order}, n = {}: {part:.2} of it", power(row.n))?;
        }
    }
    if let Some(figure) = &report.memory {
        memory::print(figure, out)?;
    }
    writeln!(out)?;
    for line in &report.skipped {
        writeln!(out, "skipped: {line}")?;
    }
    match &report.failure {
        None if report.memory.is_some() => writeln!(out, "bench: counted, every output compared with what is right"),
        None => writeln!(out, "bench: {} rows, every output compared with what is right", report.rows.len()),
        Some(failure) => writeln!(out, "bench: {} rows before it ended: {failure}", report.rows.len()),
    }
}

/// What is timed by the CPU's clock, as the footnotes say.
const BY_THE_CPU: [Section; 11] = [
    Section::Latency,
    Section::Cpu,
    Section::EndToEnd,
    Section::Build,
    Section::Updates,
    Section::CuartBatches,
    Section::CuartLong,
    Section::CuartBuilds,
    Section::CuartInserts,
    Section::CuartCpu,
    Section::CuartReal,
];

const SECTIONS: [Section; 23] = [
    Section::Ceilings,
    Section::Lookups,
    Section::HarmoniaNtg,
    Section::HarmoniaLadder,
    Section::HarmoniaPsa,
    Section::HarmoniaPsaWidths,
    Section::CuartLookups,
    Section::CuartLanes,
    Section::CuartBatches,
    Section::CuartLong,
    Section::CuartUpdates,
    Section::CuartBuilds,
    Section::CuartInserts,
    Section::CuartCpu,
    Section::CuartReal,
    Section::Neighbors,
    Section::Ranges,
    Section::Build,
    Section::Updates,
    Section::Primitives,
    Section::EndToEnd,
    Section::Latency,
    Section::Cpu,
];

fn title(section: Section, kind: DeviceKind) -> String {
    let title = match section {
        Section::Ceilings => "Ceilings of the hardware",
        Section::Lookups => "Look-ups, queries and results on the device",
        Section::HarmoniaNtg => "Harmonia: fanout, lanes per query (NTG), child region; all hits, on the device",
        Section::HarmoniaLadder => "Harmonia: the paper's optimisations one after another; all hits, on the device",
        Section::HarmoniaPsa => {
            "Harmonia: random queries not sorted, partially sorted (PSA) and sorted (the paper's figure 8); all hits"
        }
        Section::HarmoniaPsaWidths => "Harmonia: lanes per query for queries sorted by their top bits; all hits",
        Section::CuartLookups => cuart::layout::LOOKUPS.title,
        Section::CuartLanes => cuart::layout::LANES.title,
        Section::CuartBatches => cuart::layout::BATCHES.title,
        Section::CuartLong => cuart::layout::LONG.title,
        Section::CuartUpdates => cuart::layout::UPDATES.title,
        Section::CuartBuilds => cuart::layout::BUILDS.title,
        Section::CuartInserts => cuart::layout::INSERTS.title,
        Section::CuartCpu => cuart::layout::CPU.title,
        Section::CuartReal => cuart::layout::REAL.title,
        Section::Neighbors => "Ranks and predecessors, queries and results on the device",
        Section::Ranges => "Ranges, bounds and results on the device",
        Section::Build => "Build from sorted pairs in host memory, upload included",
        Section::Updates => "Builds and batches of updates, pairs on the device",
        Section::Primitives => "Primitives, input and output on the device",
        Section::EndToEnd => "Look-ups and ranges, queries and results in host memory, transfers included",
        Section::Latency => "Latency of small batches, queries and results in host memory, one call after another",
        Section::Cpu => "CPU look-ups",
    };
    match (kind, section) {
        (DeviceKind::Cuda, _) | (_, Section::Cpu | Section::CuartCpu) => title.into(),
        (DeviceKind::Host, _) => format!("{title} [CPU: the device is the host]"),
        (DeviceKind::Emulated, _) => format!("{title} [EMULATED: times are the emulator's, and say nothing of a GPU]"),
    }
}

fn columns(section: Section) -> &'static [Column] {
    match section {
        Section::Ceilings => &[
            ("operation", |row| row.operation.clone()),
            ("footprint MiB", |row| mebibytes(row.footprint_bytes)),
            ("batch", batch),
            ("ms", ms),
            ("G/s", rate),
            ("GB/s", |row| optional(row.bytes_moved, |bytes| figure(row.giga_per_second_of(bytes)))),
        ],
        Section::Lookups => {
            &[INDEX, WORDS, KEYS, N, FANOUT, LANES, CHILD, ORDER, HITS, BATCH, MS, RATE, BASELINE, CEILING, SIZE]
        }
        Section::HarmoniaNtg => &[WORDS, KEYS, N, FANOUT, LANES, CHILD, ORDER, BATCH, MS, RATE, BASELINE, SIZE],
        Section::HarmoniaLadder => &[
            N,
            FANOUT,
            ("rung", |row| row.rung.map_or("-", Rung::name).into()),
            CHILD,
            LANES,
            ("Q", |row| optional(row.in_flight, |queries| queries.to_string())),
            TOP_BITS,
            BATCH,
            MS,
            RATE,
            ("x first rung", |row| optional(row.ratio_to_baseline, figure)),
            ("sort ms", |row| optional(row.sort_ms, |ms| format!("{ms:.3}"))),
            ("G/s with sort", |row| optional(with_sort(row), figure)),
            SIZE,
        ],
        Section::HarmoniaPsa => psa_figure::COLUMNS,
        Section::HarmoniaPsaWidths => {
            &[N, FANOUT, TOP_BITS, ("look-up", |row| row.operation.clone()), LANES, BATCH, MS, RATE]
        }
        Section::CuartLookups => cuart::layout::LOOKUPS.columns,
        Section::CuartLanes => cuart::layout::LANES.columns,
        Section::CuartBatches => cuart::layout::BATCHES.columns,
        Section::CuartLong => cuart::layout::LONG.columns,
        Section::CuartUpdates => cuart::layout::UPDATES.columns,
        Section::CuartBuilds => cuart::layout::BUILDS.columns,
        Section::CuartInserts => cuart::layout::INSERTS.columns,
        Section::CuartCpu => cuart::layout::CPU.columns,
        Section::CuartReal => cuart::layout::REAL.columns,
        Section::Neighbors => &[
            INDEX,
            ("operation", |row| row.operation.clone()),
            WORDS,
            KEYS,
            N,
            FANOUT,
            ORDER,
            HITS,
            BATCH,
            MS,
            RATE,
            CEILING,
            SIZE,
        ],
        Section::Ranges => &[
            INDEX,
            ("operation", |row| row.operation.clone()),
            WORDS,
            KEYS,
            N,
            FANOUT,
            ORDER,
            BATCH,
            MS,
            ("G ranges/s", rate),
            ("G pairs/s", |row| optional(row.pairs, |pairs| figure(row.giga_per_second_of(pairs)))),
            ("GB/s", |row| optional(row.bytes_moved, |bytes| figure(row.giga_per_second_of(bytes)))),
            CEILING,
        ],
        Section::Build => &[INDEX, WORDS, KEYS, N, FANOUT, THREADS, MS, ("M keys/s", mega), SIZE],
        Section::Updates => {
            &[("operation", |row| row.operation.clone()), WORDS, KEYS, N, FANOUT, BATCH, MS, RATE, SIZE]
        }
        Section::Primitives => &[("operation", |row| row.operation.clone()), WORDS, N, MS, RATE],
        Section::EndToEnd => &[
            ("operation", |row| row.operation.clone()),
            WORDS,
            KEYS,
            N,
            FANOUT,
            ORDER,
            HITS,
            BATCH,
            THREADS,
            MS,
            ("G pairs/s", |row| optional(row.pairs, |pairs| figure(row.giga_per_second_of(pairs)))),
            ("p99 ms", |row| optional(row.p99_ms, |ms| format!("{ms:.3}"))),
            RATE,
            ("of the bus", CEILING.1),
        ],
        Section::Latency => &[
            INDEX,
            OPERATION,
            WORDS,
            N,
            BATCH,
            ("calls", |row| optional(row.calls, |calls| calls.to_string())),
            ("median µs", |row| format!("{:.2}", row.timing.median_ms * 1e3)),
            ("p99 µs", |row| optional(row.p99_ms, |ms| format!("{:.2}", ms * 1e3))),
            ("fewest µs", |row| format!("{:.2}", row.timing.min_ms * 1e3)),
        ],
        Section::Cpu => &[
            INDEX,
            WORDS,
            KEYS,
            N,
            ORDER,
            HITS,
            BATCH,
            THREADS,
            MS,
            ("M/s", mega),
            ("x BTreeMap", |row| optional(row.ratio_to_baseline, figure)),
            SIZE,
        ],
    }
}

pub(super) const TOP_BITS: Column = ("top bits", |row| optional(row.sorted_bits, |bits| bits.to_string()));
pub(super) const OPERATION: Column = ("operation", |row| row.operation.clone());
pub(super) const INDEX: Column = ("index", |row| row.index.into());
pub(super) const WORDS: Column = ("key/value", |row| format!("{}/{}", row.key, row.value));
pub(super) const KEYS: Column = ("keys", |row| row.keys.clone());
pub(super) const N: Column = ("n", |row| power(row.n));
pub(super) const FANOUT: Column = ("F", |row| optional(row.fanout, |fanout| fanout.to_string()));
pub(super) const LANES: Column = ("G", |row| optional(row.group, |group| group.to_string()));
const CHILD: Column = ("child", |row| row.child_region.unwrap_or("-").into());
const ORDER: Column = ("order", |row| row.order.unwrap_or("-").into());
pub(super) const HITS: Column = ("hits", |row| optional(row.hit_rate, |rate| format!("{:.0} %", rate * 100.0)));
pub(super) const BATCH: Column = ("batch", batch);
pub(super) const THREADS: Column = ("threads", |row| optional(row.threads, |threads| threads.to_string()));
pub(super) const MS: Column = ("ms", ms);
pub(super) const RATE: Column = ("G/s", rate);
pub(super) const BASELINE: Column = ("x binary search", |row| optional(row.ratio_to_baseline, figure));
pub(super) const CEILING: Column = ("of ceiling", |row| {
    optional(row.ceiling_giga_per_second, |ceiling| format!("{:.0} %", 100.0 * row.giga_per_second / ceiling))
});
pub(super) const SIZE: Column = ("bytes/key", |row| optional(row.bytes_per_key, |bytes| format!("{bytes:.2}")));

fn batch(row: &Row) -> String {
    power(row.batch)
}

fn ms(row: &Row) -> String {
    format!("{:.3}", row.timing.median_ms)
}

fn rate(row: &Row) -> String {
    figure(row.giga_per_second)
}

pub(super) fn mega(row: &Row) -> String {
    figure(row.giga_per_second * 1e3)
}

/// Three digits that count, or those before the point.
pub(super) fn figure(number: f64) -> String {
    match number {
        number if number >= 100.0 => format!("{number:.0}"),
        number if number >= 10.0 => format!("{number:.1}"),
        number if number >= 1.0 => format!("{number:.2}"),
        number if number >= 0.01 => format!("{number:.4}"),
        number => format!("{number:.6}"),
    }
}

pub(super) fn mebibytes(bytes: u64) -> String {
    if bytes >= 1 << 20 { (bytes >> 20).to_string() } else { format!("{:.3}", bytes as f64 / f64::from(1 << 20)) }
}

pub(super) fn optional<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or("-".into(), text)
}

/// What the times of rows on the device are.
fn clock(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Cuda => "Kernels only, by the device's events: median of the runs.",
        DeviceKind::Host => "Native code, no kernels, by the CPU's clock: median of the runs.",
        DeviceKind::Emulated => "Emulated kernels, by the CPU's clock: these times and ratios say nothing of a GPU.",
    }
}

fn footnotes(section: Section) -> &'static [&'static str] {
    match section {
        Section::Ceilings => &[
            "GB/s: copy counts bytes read and written; gather the bytes asked for. Gathers are of random aligned",
            "chunks, 8 in flight per thread, from a table of the tree's size rounded up to a power of two.",
        ],
        Section::Lookups => &[
            "Values come back, with a sentinel for misses, without found bits.",
            "G: lanes per query. Ceiling, random order: gathers of 128 B from a table of the tree's size, since a look-up",
            "must touch at least its leaf's line. Ceiling, other orders: copy bandwidth, over the bytes of the queries,",
            "the results, and each leaf needed once.",
        ],
        Section::HarmoniaNtg => {
            &["G: lanes per query. slot: first child from the node itself; prefix sum: from the paper's array."]
        }
        Section::HarmoniaLadder => &[
            "HB+-style: a plain GPU B+tree with child references as wide as keys, thread groups as wide as a node (32 lanes at",
            "most), in device memory; after the regular HB+-tree, but without its lines of indexes, and not its code.",
            "Q: queries in flight per group. PSA: the queries sorted by their top bits (equation 2); the times are without",
            "that sort, which is shown apart where it was timed. NTG: the width that the paper's profile of a sample",
            "chooses (it may be the widest), and the one that was measured best on an H200 where that is another.",
        ],
        Section::HarmoniaPsa => psa_figure::FOOTNOTES,
        Section::HarmoniaPsaWidths => &[
            "Look-ups alone, of queries that are sorted already. G: lanes per query. leaves: the look-up of sorted batches,",
            "which brings whole leaves to shared memory, over queries that are sorted by their top bits only.",
        ],
        Section::CuartLookups => cuart::layout::LOOKUPS.footnotes,
        Section::CuartLanes => cuart::layout::LANES.footnotes,
        Section::CuartBatches => cuart::layout::BATCHES.footnotes,
        Section::CuartLong => cuart::layout::LONG.footnotes,
        Section::CuartUpdates => cuart::layout::UPDATES.footnotes,
        Section::CuartBuilds => cuart::layout::BUILDS.footnotes,
        Section::CuartInserts => cuart::layout::INSERTS.footnotes,
        Section::CuartCpu => cuart::layout::CPU.footnotes,
        Section::CuartReal => cuart::layout::REAL.footnotes,
        Section::Neighbors => {
            &["Ceiling, random order: as for look-ups; the hit rate is that of a look-up of the same queries."]
        }
        Section::Ranges => &[
            "Locate, prefix sums and copy, with all memory allocated beforehand; batch: ranges. GB/s: each pair read once",
            "and written once. Ceiling, at copy bandwidth: bounds and offsets, each pair written, and those of the tree that lie",
            "in any range read once.",
        ],
        Section::Build => &["One run, without warm-up; checked by look-ups."],
        Section::Updates => &[
            "By the CPU's clock, from the call to its return: builds with the allocation of the tree, batches with the",
            "decision where they go. Trees for inserts are filled to 0.7; each batch has new keys, and is removed again, untimed, before the next.",
            "G/s: pairs built, or keys inserted. Checked by looking up all of a build's, or the last batch's keys.",
        ],
        Section::Primitives => &["Uniform keys. The sorts' n pairs in random order; the merge's n pairs in all."],
        Section::EndToEnd => &[
            "By the CPU's clock; ms: the median; p99: of small batches, one call after another. Bus: as many keys to the device and values back, both at once, from and",
            "to page-locked memory, and nothing else. get_many_into writes Options, twice the bytes of get_many_or;",
            "get_many_pinned is given page-locked memory, and copies nothing on the CPU. range_many makes its vectors,",
            "range_many_into uses them again, range_between_many_into is given slices of bounds; G/s: ranges; bus: bounds",
            "to the device, and offsets, keys and values back.",
        ],
        Section::Latency => {
            &["By the CPU's clock, from the call to its return; all hits, other queries in every call."]
        }
        Section::Cpu => &["By the CPU's clock. BTreeMap does not tell its size."],
    }
}

/// The heads of columns of words; the others have figures, and are aligned to the right.
const TEXT: [&str; 13] = [
    "index",
    "operation",
    "key/value",
    "keys",
    "order",
    "child",
    "rung",
    "queries",
    "look-up",
    "plan",
    "way",
    "longer keys",
    "on",
];

fn table(columns: &[Column], rows: &[&Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(columns.iter().map(|(head, _)| *head));
    for row in rows {
        table.add_row(columns.iter().map(|(_, cell)| cell(row)));
    }
    for (column, (head, _)) in table.column_iter_mut().zip(columns) {
        if !TEXT.contains(head) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A table of cells, the first `words` columns of which are words.
pub(super) fn plain(head: Vec<String>, rows: impl Iterator<Item = Vec<String>>, words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(head);
    rows.for_each(|row| {
        table.add_row(row);
    });
    table.column_iter_mut().skip(words).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// For each fanout and order, the width that the paper's profile chooses, and the one that is fastest.
fn profiles(rows: &[&Row], out: &mut impl Write) -> io::Result<()> {
    let mut seen = Vec::new();
    for row in rows {
        let of = (row.n, row.fanout, row.order);
        if seen.contains(&of) {
            continue;
        }
        seen.push(of);
        let same = rows.iter().filter(|other| (other.n, other.fanout, other.order) == of);
        let Some(best) = same.max_by(|a, b| a.giga_per_second.total_cmp(&b.giga_per_second)) else { continue };
        writeln!(
            out,
            "  fanout {}, {}: the paper's profile chooses {} lanes; measured best: {} ({}), {} G/s",
            row.fanout.unwrap_or(0),
            row.order.unwrap_or("-"),
            row.profile_group.unwrap_or(0),
            best.group.unwrap_or(0),
            best.child_region.unwrap_or("-"),
            figure(best.giga_per_second)
        )?;
    }
    Ok(())
}

/// Operations of a row in 10^9 per second, the sort of its queries included; if that was timed.
fn with_sort(row: &Row) -> Option<f64> {
    row.sort_ms.map(|sort| row.batch as f64 / (row.timing.median_ms + sort).max(1e-9) / 1e6)
}

/// For each size, the fastest rung, beside the paper's.
fn tops(rows: &[&Row], out: &mut impl Write) -> io::Result<()> {
    let sizes: BTreeSet<u64> = rows.iter().map(|row| row.n).collect();
    for n in sizes {
        let same = rows.iter().filter(|row| row.n == n);
        let Some(top) = same.max_by(|a, b| a.giga_per_second.total_cmp(&b.giga_per_second)) else { continue };
        writeln!(
            out,
            "  n = {}: the fastest is {}, {}, fanout {}: {} G/s, {} x the HB+-style tree of the same fanout",
            power(n),
            top.rung.map_or("-", Rung::name),
            top.child_region.unwrap_or("-"),
            top.fanout.unwrap_or(0),
            figure(top.giga_per_second),
            optional(top.ratio_to_baseline, figure),
        )?;
    }
    writeln!(out, "  The paper, on a TITAN V, 64-bit keys, n = 2^23 to 2^26: up to 3.6 G/s, about 3.4 x HB+-tree.")
}

#[cfg(test)]
mod tests {
    use super::super::report::Timing;
    use super::*;
    use lanetree_baselines::Checksum;

    #[test]
    fn figures_have_digits_that_count() {
        let figures = [1234.5, 17.26, 1.234, 0.1234, 0.000_123].map(figure);
        assert_eq!(figures, ["1234", "17.3", "1.23", "0.1234", "0.000123"]);
    }

    #[test]
    fn what_is_absent_is_a_dash_in_every_table() {
        // These have nothing that can be absent.
        let complete = [Section::Primitives, Section::CuartInserts];
        for section in SECTIONS.into_iter().filter(|section| !complete.contains(section)) {
            let row = Row::new(section, "harmonia", "get", 1 << 20, Timing::of(vec![1.0]), Checksum::default());
            let text = table(columns(section), &[&row]).to_string();
            assert!(text.contains('-'), "{text}");
        }
    }
}
