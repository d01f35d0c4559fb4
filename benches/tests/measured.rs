//! Figures measured by the library, over little data.

use lanetree::Device;
use lanetree::harmonia::FANOUTS;
use lanetree::hbtree::NodeSearch;
use lanetree::lane_tree::Simd;
use lanetree_baselines::Checksum;
use lanetree_bench::{measured, part_names};
use lanetree_kernels_harmonia::group_widths;
use lanetree_record::Record;
use std::collections::BTreeSet;

type Row = lanetree_record::Row<&'static str, Checksum>;

/// The rows of a figure on the emulator, at a size.
fn emulated(name: &str, size: u32) -> Vec<Row> {
    let record = measured(Device::emulated(), &[name], size, None).unwrap();
    assert_eq!(record.skipped, [""; 0]);
    record.rows
}

#[test]
fn every_part_gives_rows_on_the_emulator() {
    let parts: Vec<&str> = part_names().collect();
    let Record { rows, skipped, .. } = measured(Device::emulated(), &parts, 11, None).unwrap();
    for part in parts {
        assert!(rows.iter().any(|row| row.section == part), "{part}");
    }
    assert_eq!(skipped, [""; 0]);
    assert!(rows.iter().all(|row| row.giga_per_second > 0.0 && row.giga_per_second.is_finite()));
    let words: BTreeSet<&str> = rows.iter().map(|row| row.key).collect();
    assert!(words.contains("u32") && words.contains("u64"), "{words:?}");
}

#[test]
fn the_host_has_no_rows_of_kernels() {
    let parts: Vec<&str> = part_names().filter(|&part| part != "cpu").collect();
    let Record { rows, skipped, .. } = measured(Device::host(), &parts, 11, None).unwrap();
    assert!(!rows.is_empty());
    assert!(rows.iter().all(|row| row.index == "harmonia" && row.device == "host"));
    assert_eq!(skipped, ["updates: no GPU", "primitives: no GPU"]);
}

#[test]
fn every_cliff_is_measured_and_right() {
    assert_eq!(emulated("cliffs", 10).len(), 20);
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
            let of = move |row: &&Row| row.integer("fanout") == Some(fanout.into()) && row.text("rung") == Some(rung);
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
    let is_whole = |row: &&Row| row.extra("sorted_bits").is_some() && row.text("child_region") == Some("prefix sum");
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
    let names = ["cuart-widths", "cuart-sizes", "cuart-lanes", "cuart-batches", "cuart-builds", "cuart-long"];
    let rows = measured(Device::emulated(), &names, 8, None).unwrap().rows;
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

    let rows = measured(Device::emulated(), &["cuart-updates", "cuart-inserts"], 8, Some(14)).unwrap().rows;
    assert_eq!((of(&rows, "cuart-updates", "cuart"), of(&rows, "cuart-inserts", "cuart")), (22, 4));
    // Of 8 and 32 bytes, as many as CuART's.
    assert_eq!((of(&rows, "cuart-updates", "grt"), of(&rows, "cuart-lookups", "grt")), (2, 2));
}

#[test]
fn figures_of_cuart_beside_grt_and_the_cpu_are_checked() {
    let names = [
        "cuart-grt",
        "cuart-grt-sizes",
        "cuart-update-sizes",
        "cuart-updates-host",
        "cuart-deletes",
        "cuart-ranges",
        "cuart-long-share",
    ];
    let rows = measured(Device::emulated(), &names, 8, None).unwrap().rows;
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
    let is_whole = |row: &Row| row.number("p99_ms") >= Some(row.timing.median_ms) && row.integer("calls") == Some(3);
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
    let rows = measured(Device::host(), &["cuart-cpu"], 8, None).unwrap().rows;
    let of = |key: &str| rows.iter().filter(|row| row.key == key).map(|row| row.index).collect::<Vec<_>>();
    assert_eq!(of("[u8; 8]"), ["ART", "blart", "congee", "cuart", "cuart", "cuart"]);
    assert_eq!(of("[u8; 32]"), ["ART", "blart", "cuart", "cuart", "cuart"]);
    let is_whole = |row: &Row| row.device == "cpu" && row.number("cpu.build_ms").is_some();
    assert!(rows.iter().all(|row| is_whole(row) && row.number("ratio_to_baseline").is_some()));
    assert_eq!(rows[0].number("ratio_to_baseline"), Some(1.0));
}

#[test]
fn lanetree_takes_turns_with_other_indexes_on_the_cpu() {
    let rows = measured(Device::host(), &["lanetree-cpu"], 8, None).unwrap().rows;
    let of = |threads: u64| rows.iter().filter(move |row| row.integer("threads") == Some(threads));
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

#[test]
fn every_figure_of_hbtree_is_checked_on_the_emulator() {
    let Record { rows, skipped, .. } = measured(Device::emulated(), &OF_HBTREE, 9, None).unwrap();
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
    assert_eq!((on_both("hbtree-updates"), on_both("hbtree-mixed")), ((0, 2 * (2 * 2 + 2) * threads + 1), (0, 3 * 6)));
    let is_whole = |row: &Row| row.checksum.sum != 0 && row.checksum.misses == 0 && row.giga_per_second > 0.0;
    assert!(rows.iter().all(is_whole));
    let skipped = skipped.iter().filter(|why| !why.contains("reserved huge pages"));
    assert_eq!(skipped.collect::<Vec<_>>(), ["ranges of 1024, n = 2^9, u64 keys: fewer keys than that"; 2]);
}

#[test]
fn hbtree_is_measured_on_the_cpu_without_a_gpu() {
    let rows = measured(Device::host(), &OF_HBTREE, 9, None).unwrap().rows;
    assert!(rows.iter().all(|row| row.device == "cpu"));
    let sections: BTreeSet<&str> = rows.iter().map(|row| row.section).collect();
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
