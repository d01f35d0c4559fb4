//! Which trees are built, and what is measured over each.

use super::columns::power;
use super::data::{BenchWord, Data, MAX_LEN};
use super::error::{Error, Result};
use super::figure::{At, Figure, Keys, Needs, Part, Request, Run, Tree};
use super::plan::{main_of, standard};
use super::session::Session;
use crate::keys::{self, FileKey, Format};
use core::fmt::Display;
use std::path::Path;

/// Reads a file of keys.
///
/// # Errors
/// What is wrong with the file; [`Error::Usage`] for one with too many keys.
pub(crate) fn read<W: BenchWord + FileKey>(session: &Session, path: &Path, format: Format) -> Result<Data<W>> {
    session.doing(format_args!("reading {}", path.display()));
    let keys = keys::read::<W>(path, format)?;
    if keys.len() > MAX_LEN {
        let (name, len) = (path.display(), keys.len());
        return Err(Error::Usage(format!(
            "{name} has {len} keys, and at most {} can be measured",
            power(MAX_LEN as u64)
        )));
    }
    let source = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(Data::distinct(keys, source))
}

/// Measures a figure that is no part: over these keys, or else over uniform ones.
///
/// # Errors
/// What ended it. The session keeps the rows before that.
pub(crate) fn figure(session: &mut Session, figure: &Figure, request: &Request, keys: Option<Keys>) -> Result<()> {
    let name = figure.name;
    if figure.needs == Needs::Kernels && !session.runs_kernels() {
        session.skip(format_args!("figure {name}: skipped: no GPU (--device emulated runs its kernels, slowly)"));
        return Ok(());
    }
    match (&figure.run, keys) {
        (Run::Alone(run), _) => run(session, request),
        (Run::OverKeys(_, run), Some(keys)) => run(session, keys),
        (Run::OverKeys(At::MainSize, run), None) => run(session, uniform(session, main_of(&request.sizes))),
        (Run::OverKeys(At::EverySize, run), None) => {
            for &size in &request.sizes {
                let what = format!("{name}, n = 2^{size}");
                if session.has_time(&what) {
                    let keys = uniform(session, size);
                    within_memory(run(session, keys), session, &what)?;
                }
            }
            Ok(())
        }
        (Run::Part(_), _) => unreachable!("a part is measured with the others"),
    }
}

/// Measures parts: of trees over these keys, or else over uniform ones.
///
/// # Errors
/// As [`figure`].
pub(crate) fn parts(session: &mut Session, parts: &[&Figure], keys: Option<Keys>) -> Result<()> {
    let mut run = Vec::with_capacity(parts.len());
    for figure in parts {
        if figure.needs == Needs::Kernels && !session.runs_kernels() {
            session.skip(format_args!("{}: no GPU", figure.name));
        } else if let Run::Part(part) = &figure.run {
            run.push((*figure, part));
        }
    }
    for (_, part) in &run {
        if let Part::Ceilings { first, .. } = part {
            first(session)?;
        }
    }
    if let Some(keys) = keys {
        for (_, part) in &run {
            if let Part::OnCpu(measure) = part {
                measure(session, &keys)?;
            }
        }
        return of_tree(session, &run, keys, At::MainSize);
    }
    let sizes = session.plan.sizes(standard);
    let main = main_of(&sizes);
    for size in sizes {
        let at = if size == main { At::MainSize } else { At::EverySize };
        let keys = |session: &Session| uniform(session, size);
        of_uniform(session, &run, size, "u64", at, keys)?;
    }
    let narrow = |session: &Session| Data::<u32>::uniform(1 << main, session.seed_of(main)).into();
    of_uniform(session, &run, main, "u32", At::EverySize, narrow)?;
    for (_, part) in &run {
        if let Part::OverUniform(measure) = part {
            measure(session, &Data::uniform(1 << main, session.seed_of(main)))?;
        }
    }
    for (figure, part) in &run {
        if let Part::OnCpu(measure) = part {
            for size in session.plan.sizes(figure.sizes) {
                if session.has_time(format_args!("CPU, n = 2^{size}")) {
                    let keys = uniform(session, size);
                    measure(session, &keys)?;
                }
            }
        }
    }
    Ok(())
}

/// Uniform keys of 64 bits.
fn uniform(session: &Session, size: u32) -> Keys {
    Data::<u64>::uniform(1 << size, session.seed_of(size)).into()
}

/// Builds a tree over uniform keys, if any part measures one and there is time, and measures it.
fn of_uniform(
    session: &mut Session,
    parts: &[(&Figure, &Part)],
    size: u32,
    word: &str,
    at: At,
    keys: impl FnOnce(&Session) -> Keys,
) -> Result<()> {
    let what = format!("n = 2^{size}, {word} keys");
    let is_of_tree = |part: &Part| matches!(part, Part::Ceilings { .. } | Part::OfTree(..) | Part::AfterTree(_));
    if !parts.iter().any(|(_, part)| is_of_tree(part)) || !session.has_time(&what) {
        return Ok(());
    }
    let keys = keys(session);
    within_memory(of_tree(session, parts, keys, at), session, &what)
}

/// Builds a tree, and measures what all trees are measured for, or what the main one is.
fn of_tree(session: &mut Session, parts: &[(&Figure, &Part)], keys: Keys, at: At) -> Result<()> {
    let tree = Tree::build(session, keys)?;
    for (_, part) in parts {
        match part {
            Part::Ceilings { of_tree, .. } => of_tree(session, &tree)?,
            Part::OfTree(of, measure) if *of == At::EverySize || at == At::MainSize => measure(session, &tree)?,
            _ => {}
        }
    }
    let keys = tree.into_keys();
    for (_, part) in parts {
        if let Part::AfterTree(measure) = part
            && at == At::MainSize
        {
            measure(session, &keys)?;
        }
    }
    Ok(())
}

/// A tree for which the device's memory is too small leaves the others to be measured.
pub(crate) fn within_memory(result: Result<()>, session: &mut Session, what: &dyn Display) -> Result<()> {
    match result {
        Err(error) if error.is_out_of_memory() => {
            session.skip(format_args!("{what}: {error}"));
            Ok(())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::{FIGURES, parts as all_parts};
    use crate::bench::row::Row;
    use crate::bench::session::tests::session;
    use lanetree::Device;
    use lanetree::harmonia::FANOUTS;
    use lanetree::hbtree::NodeSearch;
    use lanetree::lane_tree::Simd;
    use lanetree_kernels_harmonia::group_widths;
    use std::collections::BTreeSet;

    fn named(name: &str) -> &'static Figure {
        FIGURES.iter().find(|figure| figure.name == name).unwrap()
    }

    /// Measures a figure at a size, over a device and with the queries of the tests' plan or others.
    fn run(session: &mut Session, name: &str, size: u32) {
        let request = Request { sizes: vec![size], input: None };
        figure(session, named(name), &request, None).unwrap();
    }

    /// The rows of a figure on the emulator, at a size.
    fn emulated(name: &str, size: u32) -> Vec<Row> {
        let mut session = session(Device::emulated());
        run(&mut session, name, size);
        assert_eq!(session.report.record.skipped, [""; 0]);
        session.report.record.rows
    }

    #[test]
    fn every_part_gives_rows_on_the_emulator() {
        let mut session = session(Device::emulated());
        (session.wants_ceilings, session.plan.asked) = (true, vec![11]);
        let figures: Vec<&Figure> = all_parts().collect();
        parts(&mut session, &figures, None).unwrap();
        for part in all_parts() {
            assert!(session.report.record.rows.iter().any(|row| row.section == part.name), "{}", part.name);
        }
        assert_eq!(session.report.record.skipped, [""; 0]);
        let rates = session.report.record.rows.iter().map(|row| row.giga_per_second);
        assert!(rates.into_iter().all(|rate| rate > 0.0 && rate.is_finite()));
        let words: BTreeSet<&str> = session.report.record.rows.iter().map(|row| row.key).collect();
        assert!(words.contains("u32") && words.contains("u64"), "{words:?}");
    }

    #[test]
    fn the_host_has_no_rows_of_kernels() {
        let mut session = session(Device::host());
        session.plan.asked = vec![11];
        let figures: Vec<&Figure> = all_parts().filter(|part| part.name != "cpu").collect();
        parts(&mut session, &figures, None).unwrap();
        assert!(!session.report.record.rows.is_empty());
        assert!(session.report.record.rows.iter().all(|row| row.index == "harmonia" && row.device == "host"));
        assert_eq!(session.report.record.skipped, ["updates: no GPU", "primitives: no GPU"]);
    }

    #[test]
    fn a_file_of_keys_is_measured_like_any_other() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"7\n7\n1\n5\n6\n").unwrap();
        let mut session = session(Device::host());
        let keys = read::<u32>(&session, file.path(), Format::Text).unwrap();
        parts(&mut session, &[named("lookups")], Some(keys.into())).unwrap();
        let name = file.path().file_name().unwrap().to_str().unwrap();
        assert!(session.report.record.rows.iter().all(|row| row.n == 4 && row.keys == name));
        // Three orders, all hits and half misses.
        assert_eq!(session.report.record.rows.len(), 6);
    }

    #[test]
    fn kernels_are_not_measured_on_the_host() {
        let mut session = session(Device::host());
        let kernels: Vec<&Figure> = FIGURES
            .iter()
            .copied()
            .filter(|figure| figure.needs == Needs::Kernels && !matches!(figure.run, Run::Part(_)))
            .collect();
        for figure in &kernels {
            run(&mut session, figure.name, 9);
        }
        assert!(session.report.record.rows.is_empty());
        assert_eq!(session.report.record.skipped.len(), kernels.len());
        assert!(session.report.record.skipped.iter().all(|why| why.contains("no GPU")));
    }

    fn widths() -> usize {
        FANOUTS.map(|fanout| group_widths(fanout).len()).into_iter().sum()
    }

    #[test]
    fn every_kernel_has_a_row_of_ntg() {
        let rows = emulated("harmonia-ntg", 9);
        // Two child regions and the kernels that stop early, random and sorted; between these, one region less.
        assert_eq!(rows.len(), 8 * widths());
        assert!(rows.iter().all(|row| row.integer("profile_group").is_some()));
    }

    #[test]
    fn first_children_from_constant_memory_are_compared_at_both_orders() {
        let rows = emulated("harmonia-constant", 9);
        let of = |child| rows.iter().filter(|row| row.text("child_region") == Some(child)).count();
        // Two fanouts of two widths each.
        assert_eq!(["prefix sum", "slot", "constant"].map(of), [8; 3]);
        assert!(rows.iter().all(|row| row.checksum.sum == rows[0].checksum.sum && row.checksum.misses == 0));
    }

    #[test]
    fn every_rung_is_checked_at_every_fanout() {
        let rows = emulated("harmonia-ladder", 9);
        for fanout in FANOUTS {
            let rung = |rung: &'static str| {
                let of =
                    move |row: &&Row| row.integer("fanout") == Some(fanout.into()) && row.text("rung") == Some(rung);
                rows.iter().filter(of)
            };
            assert_eq!((rung("baseline").count(), rung("baseline-in-flight").count()), (1, 1));
            // Each over both child regions.
            assert_eq!((rung("structure").count(), rung("psa").count(), rung("ntg").count()), (2, 2, 2));
            // The paper's kernel over its child region.
            assert_eq!(rung("ntg-stopping").count(), 1);
            assert_eq!(rung("baseline").next().unwrap().number("ratio_to_baseline"), Some(1.0));
            // The two are to differ in their trees alone.
            let widths =
                |wanted| rung(wanted).map(|row| (row.integer("group"), row.integer("in_flight"))).collect::<Vec<_>>();
            assert!(widths("structure").iter().all(|row| *row == widths("baseline-in-flight")[0]));
        }
        let by_sort = |row: &&Row| row.extra("sorted_bits").is_some();
        let sorted = rows.iter().filter(by_sort);
        assert!(sorted.clone().count() > 0);
        assert!(sorted.clone().all(|row| row.integer("sorted_bits") == Some(8) && row.number("sort_ms").is_some()));
        // The sort makes a rung slower.
        assert!(sorted.into_iter().all(|row| row.number("ratio_with_sort") < row.number("ratio_to_baseline")));
        // From order to order over the paper's child region.
        let is_whole =
            |row: &&Row| row.extra("sorted_bits").is_some() && row.text("child_region") == Some("prefix sum");
        assert!(rows.iter().all(|row| row.extra("all_ms").is_some() == is_whole(&row)));
        // Each sum is over the same values, whatever their order.
        assert!(rows.iter().all(|row| row.checksum.sum == rows[0].checksum.sum && row.checksum.misses == 0));
    }

    #[test]
    fn every_way_of_sorting_is_checked_at_every_fanout() {
        let rows = emulated("harmonia-psa", 9);
        for fanout in FANOUTS {
            let of: Vec<&Row> = rows.iter().filter(|row| row.integer("fanout") == Some(fanout.into())).collect();
            assert!(of.iter().map(|row| row.text("psa.sort").unwrap()).eq(["none", "partial", "full"]));
            // One is chosen, and one the fastest.
            assert_eq!(of.iter().filter(|row| row.is("psa.is_chosen")).count(), 1);
            assert_eq!(of.iter().filter(|row| row.is("psa.is_fastest")).count(), 1);
            assert!(of.iter().map(|row| row.integer("sorted_bits")).eq([None, Some(8), Some(64)]));
            assert_eq!(["ratio_to_baseline", "psa.lookup_ratio"].map(|ratio| of[0].number(ratio)), [Some(1.0); 2]);
        }
        assert!(rows.iter().all(|row| row.checksum == rows[0].checksum), "all answer in the order of the queries");
    }

    #[test]
    fn every_width_is_measured_for_every_number_of_bits() {
        let rows = emulated("harmonia-psa-widths", 9);
        let bits: BTreeSet<_> = rows.iter().map(|row| row.integer("sorted_bits")).collect();
        // And the look-up of sorted batches.
        assert_eq!(rows.len(), bits.len() * (widths() + FANOUTS.len()));
    }

    #[test]
    fn the_total_is_swept_over_the_bits_at_every_fanout() {
        let rows = emulated("harmonia-psa-bits", 9);
        for fanout in FANOUTS {
            let of: Vec<&Row> = rows.iter().filter(|row| row.integer("fanout") == Some(fanout.into())).collect();
            let bits = |mark: &str| of.iter().find(|row| row.is(mark)).and_then(|row| row.integer("sorted_bits"));
            let layout = if fanout == 8 { 6 } else { 5 };
            assert_eq!(["is_equation", "is_layout", "is_rounded"].map(bits), [Some(5), Some(layout), Some(8)]);
            let best = of.iter().filter_map(|row| row.number("x_best")).fold(0.0, f64::max);
            assert_eq!(best, 1.0, "one is the best");
        }
    }

    #[test]
    fn changes_are_applied_by_every_way_and_checked() {
        let rows = emulated("mirrored", 9);
        // Two indexes and three ways; three kinds of changes of three sizes, and phases.
        assert_eq!(rows.len(), 2 * 3 * 10);
        let is_mirrored = |row: &Row| row.text("way") == Some("mirrored");
        assert!(rows.iter().all(|row| row.extra("bytes_sent").is_some() == is_mirrored(row)));
        // Four kinds of batches of four sizes.
        assert_eq!(emulated("harmonia-updates", 9).len(), 4 * 4);
        // Eight competitors, two of which have no updates.
        assert_eq!(emulated("harmonia-cpu-updates", 9).len(), 3 * 8 - 2);
    }

    #[test]
    fn the_ends_of_ranges_are_timed_apart() {
        let rows = emulated("harmonia-ranges", 9);
        // Four lengths of up to the number of keys, random and sorted.
        assert_eq!(rows.len(), 4 * 2);
        assert!(rows.iter().all(|row| row.number("one_ms").is_some() && row.number("two_ms").is_some()));
    }

    #[test]
    fn skewed_keys_are_asked_for_in_every_way() {
        let rows = emulated("harmonia-skew", 9);
        // Three kinds of keys, two of queries, sorted in three ways.
        assert_eq!(rows.len(), 3 * 2 * 3);
        let keys: BTreeSet<&str> = rows.iter().map(|row| &*row.keys).collect();
        assert_eq!(keys, BTreeSet::from(["uniform", "clustered", "log-normal"]));
    }

    #[test]
    fn harmonia_is_compared_with_both_hbtrees() {
        let rows = emulated("harmonia-hbtree", 9);
        let indexes: Vec<&str> = rows.iter().map(|row| row.index).collect();
        assert_eq!(indexes, ["hbtree", "hbtree_regular", "harmonia", "harmonia", "harmonia", "harmonia"]);
        assert!(rows.iter().all(|row| row.number("x_hybrid").is_some()));
        assert!(rows[3..].iter().all(|row| row.number("x_descent").is_some()));
    }

    #[test]
    fn every_figure_of_cuart_is_checked_on_the_emulator() {
        let mut session = session(Device::emulated());
        for name in ["cuart-widths", "cuart-sizes", "cuart-lanes", "cuart-batches", "cuart-builds", "cuart-long"] {
            run(&mut session, name, 8);
        }
        let rows = core::mem::take(&mut session.report.record.rows);
        let of = |rows: &[Row], section: &str, index: &str| {
            rows.iter().filter(|row| row.section == section && row.index == index).count()
        };
        // By width: values of 64 and 32 bits, and without a table where there is one. GRT with each.
        assert_eq!((of(&rows, "cuart-lookups", "cuart"), of(&rows, "cuart-lookups", "grt")), (10, 5));
        assert_eq!((of(&rows, "cuart-lanes", "cuart"), of(&rows, "cuart-builds", "cuart")), (20, 7));
        assert_eq!(of(&rows, "cuart-batches", "cuart"), 0, "batches are larger than the plan's");
        // Six shares of long keys, three ways; three widths, two ways. Each share has a row that the others relate to.
        assert_eq!(of(&rows, "cuart-long", "cuart"), 6 * 3 + 3 * 2);
        let long = rows.iter().filter(|row| row.section == "cuart-long");
        let ratios: Vec<f64> = long.filter_map(|row| row.number("ratio_to_baseline")).collect();
        assert_eq!((ratios.len(), ratios.iter().filter(|&&ratio| ratio == 1.0).count() >= 9), (24, true));

        session.plan.queries = 14;
        run(&mut session, "cuart-updates", 8);
        run(&mut session, "cuart-inserts", 8);
        let rows = &session.report.record.rows;
        assert_eq!((of(rows, "cuart-updates", "cuart"), of(rows, "cuart-inserts", "cuart")), (22, 4));
        // Of 8 and 32 bytes, as many as CuART's.
        assert_eq!((of(rows, "cuart-updates", "grt"), of(rows, "cuart-lookups", "grt")), (2, 2));
    }

    #[test]
    fn figures_of_cuart_beside_grt_and_the_cpu_are_checked() {
        let mut session = session(Device::emulated());
        let of_grt = ["cuart-grt", "cuart-grt-sizes"];
        let others = ["cuart-update-sizes", "cuart-updates-host", "cuart-deletes", "cuart-ranges", "cuart-long-share"];
        of_grt.into_iter().chain(others).for_each(|name| run(&mut session, name, 8));
        let rows = &session.report.record.rows;
        let of =
            |section: &str, index: &str| rows.iter().filter(|row| row.section == section && row.index == index).count();
        // Keys of 32 bytes from 1 to 16 threads, and of the other widths; of each kernels alone; and by size.
        let compared = ["cuart", "grt", "grt-words"].map(|index| of("cuart-beside-grt", index));
        assert_eq!(compared, [5 + 1 + 3 * 2 + 2; 3]);
        // Four widths, look-ups and four engines.
        assert_eq!(of("cuart-update-sizes", "cuart"), 4 * 5);
        // Two widths, look-ups and two engines; and two of those in four widths.
        let host = ["cuart", "grt"].map(|index| of("cuart-updates-host", index));
        assert_eq!(host, [2 * 3 + 4 * 2, 2 * 2]);
        assert_eq!(of("cuart-updates-host", "ART"), 2 * of("cuart-updates-host", "congee"));
        assert_eq!((of("cuart-deletes", "cuart"), of("cuart-long-share", "cuart")), (3 * 4, 4 + 2 + 3 * 2));
        // Three lengths of ranges, and prefixes of two lengths.
        assert_eq!((of("cuart-ranges", "cuart"), of("cuart-ranges", "grt")), (2 * (3 * 4 + 2 * 4), 2 * 3));
    }

    #[test]
    fn latencies_are_those_of_harmonia_and_cuart() {
        let rows = emulated("latency", 8);
        // The pool is too small for the largest batches.
        let of = |index| rows.iter().filter(move |row| row.index == index).map(|row| row.batch).collect::<Vec<_>>();
        assert_eq!((of("harmonia"), of("cuart")), (vec![1, 1 << 10], vec![1, 1 << 10, 1, 1 << 10]));
        let is_whole =
            |row: &Row| row.number("p99_ms") >= Some(row.timing.median_ms) && row.integer("calls") == Some(3);
        assert!(rows.iter().all(is_whole));
    }

    #[test]
    fn keys_that_begin_alike_are_looked_up_beside_grt() {
        let rows = emulated("cuart-urls", 8);
        assert!(rows.iter().all(|row| row.keys == "URLs, synthetic" && row.key == "[u8; 32]"));
        assert!(rows.iter().map(|row| row.index).eq(["cuart", "cuart", "grt"]));
    }

    #[test]
    fn radix_trees_take_turns_on_the_cpu() {
        let mut session = session(Device::host());
        run(&mut session, "cuart-cpu", 8);
        let rows = &session.report.record.rows;
        let of = |key: &str| rows.iter().filter(|row| row.key == key).map(|row| row.index).collect::<Vec<_>>();
        assert_eq!(of("[u8; 8]"), ["ART", "blart", "congee", "cuart", "cuart", "cuart"]);
        assert_eq!(of("[u8; 32]"), ["ART", "blart", "cuart", "cuart", "cuart"]);
        let is_whole = |row: &Row| row.device == "cpu" && row.number("cpu.build_ms").is_some();
        assert!(rows.iter().all(|row| is_whole(row) && row.number("ratio_to_baseline").is_some()));
        assert_eq!(rows[0].number("ratio_to_baseline"), Some(1.0));
    }

    #[test]
    fn lanetree_takes_turns_with_other_indexes_on_the_cpu() {
        let mut session = session(Device::host());
        run(&mut session, "lanetree-cpu", 8);
        let of =
            |threads: u64| session.report.record.rows.iter().filter(move |row| row.integer("threads") == Some(threads));
        let ways = Simd::ALL.into_iter().filter(|simd| simd.is_available()).count();
        for key in ["u64", "u32"] {
            let indexes = of(1).filter(|row| row.key == key).map(|row| row.index);
            assert!(indexes.eq(["BTreeMap", "harmonia", "hbtree"].into_iter().chain(vec!["lanetree"; ways])));
        }
        assert!(of(1).all(|row| (row.index == "lanetree") == row.text("simd").is_some()));
        assert!(of(1).all(|row| row.number("ratio_to_baseline").is_some() && row.number("x_harmonia").is_some()));
    }

    #[test]
    fn trees_of_every_order_are_looked_up_and_changed() {
        let rows = emulated("cubpt-orders", 8);
        let of = |order: u64| rows.iter().filter(move |row| row.integer("order") == Some(order));
        for order in [8, 40] {
            let operations = of(order).map(|row| row.operation.as_str());
            assert!(operations.eq(["build_on", "build_sorted_on", "get", "insert", "remove"]));
        }
        assert_eq!(rows.len(), 10);
    }

    #[test]
    fn cubpt_is_compared_with_trees_for_cpus_and_with_harmonia() {
        // Four CPU trees and CUBPT with two mappings, nodes and all, of two orders; and Harmonia once.
        let rows = emulated("cubpt-builds", 8);
        assert_eq!(rows.len(), 2 * 6 * 2 + 1);
        assert!(rows.iter().all(|row| row.number("over_single").is_some_and(f64::is_finite)));
        let rows = emulated("cubpt-inserts", 8);
        assert_eq!(rows.len(), 2 * 2 * 6 * 2);
        assert!(rows.iter().all(|row| row.number("over_palm").is_some_and(f64::is_finite)));
        let rows = emulated("cubpt-crossover", 8);
        assert_eq!(rows.len(), 2 * 3 * 2);
        assert!(rows.iter().all(|row| row.text("way") != Some("unchanged")));
    }

    const OF_HBTREE: [&str; 18] = [
        "hbtree-pages",
        "hbtree-node-search",
        "hbtree-pipelining",
        "hbtree-cpu",
        "hbtree-strategies",
        "hbtree-buckets",
        "hbtree-paper",
        "hbtree-costs",
        "hbtree-balance",
        "hbtree-device-leaves",
        "hbtree-distributions",
        "hbtree-build",
        "hbtree-sizes",
        "hbtree-ranges",
        "hbtree-latency",
        "hbtree-large",
        "hbtree-updates",
        "hbtree-mixed",
    ];

    fn of_hbtree(device: Device) -> Session {
        let mut session = session(device);
        for name in OF_HBTREE {
            run(&mut session, name, 9);
        }
        session
    }

    #[test]
    fn every_figure_of_hbtree_is_checked_on_the_emulator() {
        let session = of_hbtree(Device::emulated());
        let rows = &session.report.record.rows;
        let of = |section: &str, device: &str| {
            rows.iter().filter(|row| row.section == section && row.device == device && row.index == "hbtree").count()
        };
        let ways = 1 + NodeSearch::ALL.into_iter().filter(|way| way.is_available()).count();
        let on_cpu = |section| of(section, "cpu");
        assert!((3..=4).contains(&on_cpu("hbtree-pages")));
        assert_eq!((on_cpu("hbtree-node-search"), on_cpu("hbtree-pipelining")), (2 * ways, 6));
        // Two numbers of children, three of queries in flight.
        assert_eq!(on_cpu("hbtree-cpu"), 2 * 2 * 3);
        assert_eq!(of("hbtree-device-leaves", "emulated"), 1 + 2);
        let on_both = |section| (of(section, "cpu"), of(section, "emulated"));
        // One pipeline, and several; two ways to search, three sizes.
        assert_eq!((on_both("hbtree-strategies"), on_both("hbtree-buckets")), ((0, 2 * 4), (0, 2 * 3)));
        // Three strategies.
        assert_eq!(on_both("hbtree-costs"), (0, 3 * 3));
        // The CPU alone; two parts of each of three levels, the split that is found, and the best one again, whosever it is: by
        // two numbers of children, by one pipeline and several, for each throttle.
        let (alone, through_both) = on_both("hbtree-balance");
        assert_eq!(alone + through_both, (1 + 2 * 3 + 2) * 2 * 2 * 5);
        assert_eq!(on_both("hbtree-large"), (2, 3));
        // The CPU alone with both numbers of children and both widths, and with each of three throttles; four
        // strategies of both widths, two searches of three buckets, and two splits by three throttles.
        assert_eq!(on_both("hbtree-paper"), (2 * 2 + 3, 2 * 4 + 2 * 3 + 3 * 2));
        let under_way = rows.iter().filter(|row| row.number("bucket_latency_us") > Some(0.0)).count();
        // Three sizes and three strategies of both trees; four strategies of three trees, two searches of three sizes of both.
        assert_eq!(under_way, 2 * 3 * 3 + (2 + 1) * 4 + 2 * 2 * 3);
        // The regular tree is measured as often.
        let of_regular = |section: &str, device: &str| {
            let rows = rows.iter().filter(|row| row.section == section && row.device == device);
            rows.filter(|row| row.index == "hbtree_regular" && row.number("x_implicit").is_some()).count()
        };
        assert_eq!((of_regular("hbtree-sizes", "cpu"), of_regular("hbtree-sizes", "emulated")), (2, 2));
        assert_eq!((of_regular("hbtree-ranges", "cpu"), of_regular("hbtree-ranges", "emulated")), (6, 6));
        assert_eq!((of_regular("hbtree-cpu", "cpu"), of_regular("hbtree-strategies", "emulated")), (2 * 3, 2 * 4));
        assert_eq!(of_regular("hbtree-buckets", "emulated"), 2 * 3);
        assert_eq!((on_both("hbtree-distributions"), on_both("hbtree-build")), ((4, 4), (0, 2)));
        // Ranges of 1024 pairs are longer than the tree, and batches of 2^14 than the pool.
        assert_eq!(
            (on_both("hbtree-sizes"), on_both("hbtree-ranges"), on_both("hbtree-latency")),
            ((2, 2), (6, 6), (2, 2))
        );
        // Two sizes of batches, two methods, two ways to sort, and the paper's two methods; by one thread and by all. And a
        // tree that grows.
        let threads = rayon::current_num_threads().min(2);
        assert_eq!(
            (on_both("hbtree-updates"), on_both("hbtree-mixed")),
            ((0, 2 * (2 * 2 + 2) * threads + 1), (0, 3 * 6))
        );
        let is_whole = |row: &Row| row.checksum.sum != 0 && row.checksum.misses == 0 && row.giga_per_second > 0.0;
        assert!(rows.iter().all(is_whole));
        let skipped = session.report.record.skipped.iter().filter(|why| !why.contains("reserved huge pages"));
        assert_eq!(skipped.collect::<Vec<_>>(), ["ranges of 1024, n = 2^9, u64 keys: fewer keys than that"; 2]);
    }

    #[test]
    fn hbtree_is_measured_on_the_cpu_without_a_gpu() {
        let session = of_hbtree(Device::host());
        assert!(session.report.record.rows.iter().all(|row| row.device == "cpu"));
        let sections: BTreeSet<&str> = session.report.record.rows.iter().map(|row| row.section).collect();
        let missing: Vec<&str> = OF_HBTREE.into_iter().filter(|name| !sections.contains(name)).collect();
        assert_eq!(
            missing,
            [
                "hbtree-strategies",
                "hbtree-buckets",
                "hbtree-paper",
                "hbtree-costs",
                "hbtree-balance",
                "hbtree-device-leaves"
            ]
        );
    }
}
