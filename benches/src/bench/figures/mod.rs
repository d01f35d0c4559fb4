//! The figures, and the parts of what is measured unless less is asked for: what measures each is a file. A new one is an
//! entry of `benches/figures`, a file here, its `mod`, and a line of the list: rustfmt sees no modules that a macro makes of
//! the list.

mod aggregates;
mod asof;
mod build;
pub(crate) mod ceilings;
mod cliffs;
mod cpu;
mod cuart_batches;
mod cuart_builds;
mod cuart_cpu;
mod cuart_deletes;
mod cuart_grt;
mod cuart_grt_sizes;
mod cuart_inserts;
mod cuart_lanes;
mod cuart_long;
mod cuart_long_share;
mod cuart_ranges;
mod cuart_real;
mod cuart_sizes;
mod cuart_update_sizes;
mod cuart_updates;
mod cuart_updates_host;
mod cuart_urls;
mod cuart_widths;
mod cubpt_builds;
mod cubpt_crossover;
mod cubpt_inserts;
mod cubpt_orders;
mod end_to_end;
mod files;
pub(crate) mod first_answer;
mod harmonia_constant;
mod harmonia_cpu_updates;
mod harmonia_hbtree;
mod harmonia_ladder;
mod harmonia_memory;
mod harmonia_ntg;
mod harmonia_psa;
mod harmonia_psa_bits;
mod harmonia_psa_widths;
mod harmonia_ranges;
mod harmonia_skew;
mod harmonia_updates;
mod hbtree_balance;
mod hbtree_buckets;
mod hbtree_build;
mod hbtree_costs;
mod hbtree_cpu;
mod hbtree_device_leaves;
mod hbtree_distributions;
mod hbtree_large;
mod hbtree_latency;
mod hbtree_mixed;
mod hbtree_node_search;
mod hbtree_pages;
mod hbtree_paper;
mod hbtree_pipelining;
mod hbtree_ranges;
mod hbtree_sizes;
mod hbtree_strategies;
mod hbtree_updates;
mod host;
mod indexes;
mod intervals;
mod joins;
mod joins_output;
mod lanetree_adversaries;
mod lanetree_cpu;
mod lanetree_memory;
mod lanetree_queries;
mod lanetree_sets;
mod lanetree_updates;
mod latency;
mod lookups;
mod mirrored;
mod multimap;
mod neighbors;
mod primitives;
mod ranges;
mod sharded;
mod sharded_capacity;
mod updates;

use super::description;
use super::figure::{Figure, Measurement, Part, Run};
use std::sync::LazyLock;

/// All of them, in the order in which they are listed and printed.
pub(crate) static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| description::figures(&MEASUREMENTS));

static MEASUREMENTS: [Measurement; 84] = listed([
    ceilings::FIGURE,
    lookups::FIGURE,
    neighbors::FIGURE,
    ranges::FIGURE,
    build::FIGURE,
    updates::FIGURE,
    primitives::FIGURE,
    end_to_end::FIGURE,
    cpu::FIGURE,
    indexes::FIGURE,
    latency::FIGURE,
    host::FIGURE,
    first_answer::FIGURE,
    files::FIGURE,
    harmonia_ntg::FIGURE,
    harmonia_ladder::FIGURE,
    harmonia_hbtree::FIGURE,
    harmonia_memory::FIGURE,
    harmonia_psa::FIGURE,
    harmonia_psa_widths::FIGURE,
    harmonia_psa_bits::FIGURE,
    harmonia_skew::FIGURE,
    harmonia_ranges::FIGURE,
    harmonia_constant::FIGURE,
    harmonia_cpu_updates::FIGURE,
    harmonia_updates::FIGURE,
    mirrored::FIGURE,
    cuart_widths::FIGURE,
    cuart_sizes::FIGURE,
    cuart_urls::FIGURE,
    cuart_lanes::FIGURE,
    cuart_batches::FIGURE,
    cuart_grt::FIGURE,
    cuart_grt_sizes::FIGURE,
    cuart_long::FIGURE,
    cuart_long_share::FIGURE,
    cuart_updates::FIGURE,
    cuart_update_sizes::FIGURE,
    cuart_updates_host::FIGURE,
    cuart_builds::FIGURE,
    cuart_inserts::FIGURE,
    cuart_deletes::FIGURE,
    cuart_ranges::FIGURE,
    cuart_cpu::FIGURE,
    cuart_real::FIGURE,
    cubpt_builds::FIGURE,
    cubpt_inserts::FIGURE,
    cubpt_crossover::FIGURE,
    cubpt_orders::FIGURE,
    lanetree_queries::FIGURE,
    lanetree_sets::FIGURE,
    lanetree_cpu::FIGURE,
    lanetree_updates::FIGURE,
    lanetree_adversaries::FIGURE,
    lanetree_memory::FIGURE,
    cliffs::FIGURE,
    joins::FIGURE,
    joins_output::EQUI,
    joins_output::RANGE,
    aggregates::FIGURE,
    asof::FIGURE,
    asof::PINNED,
    intervals::FIGURE,
    multimap::FIGURE,
    sharded::FIGURE,
    sharded_capacity::FIGURE,
    hbtree_pages::FIGURE,
    hbtree_node_search::FIGURE,
    hbtree_pipelining::FIGURE,
    hbtree_cpu::FIGURE,
    hbtree_strategies::FIGURE,
    hbtree_buckets::FIGURE,
    hbtree_paper::FIGURE,
    hbtree_costs::FIGURE,
    hbtree_balance::FIGURE,
    hbtree_device_leaves::FIGURE,
    hbtree_distributions::FIGURE,
    hbtree_build::FIGURE,
    hbtree_sizes::FIGURE,
    hbtree_ranges::FIGURE,
    hbtree_latency::FIGURE,
    hbtree_large::FIGURE,
    hbtree_updates::FIGURE,
    hbtree_mixed::FIGURE,
]);

/// The list; for unit tests without what measures: their program would be the whole bench, compiled a second time. Tests that
/// measure link the library. The figures are constants for that reason too: rustc compiles what a static names, used or not.
const fn listed<const N: usize>(mut figures: [Measurement; N]) -> [Measurement; N] {
    if cfg!(test) {
        let mut i = 0;
        while i < N {
            figures[i].run = match figures[i].run {
                Run::Part(_) => Run::Part(Part::AfterTree(|_, _| Ok(()))),
                Run::Alone(_) | Run::OverKeys(..) => Figure::BASE.run,
            };
            i += 1;
        }
    }
    figures
}

/// The parts, which `--only` names.
pub(crate) fn parts() -> impl Iterator<Item = &'static Figure> {
    FIGURES.iter().filter(|figure| matches!(figure.run, Run::Part(_)))
}

/// All others, which `--figure` names.
pub(crate) fn alone() -> impl Iterator<Item = &'static Figure> {
    FIGURES.iter().filter(|figure| !matches!(figure.run, Run::Part(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::Row;
    use lanetree::DeviceKind;
    use lanetree_baselines::Checksum;
    use lanetree_record::Timing;
    use std::collections::BTreeSet;

    #[test]
    fn every_figure_has_a_name_of_its_own_and_a_line_of_help() {
        let names: BTreeSet<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), FIGURES.len());
        for figure in FIGURES.iter() {
            assert!(!figure.about.is_empty() && !figure.about.contains('\n'), "{}", figure.name);
        }
    }

    #[test]
    fn the_report_shows_every_figure_and_no_other() {
        let names: BTreeSet<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        let shown = lanetree_report::figure_names();
        assert_eq!(shown.iter().map(|name| &**name).collect::<BTreeSet<_>>(), names);
    }

    /// Every column of every table is of an extra that may be missing, or of something that each row has.
    #[test]
    fn every_table_can_be_printed() {
        for table in FIGURES.iter().filter_map(|figure| figure.table) {
            let row = Row::new(table.name, "harmonia", "get", 1 << 20, Timing::of(vec![1.0]), Checksum::default());
            let mut text = Vec::new();
            table.print(&[&row], DeviceKind::Cuda, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(
                text.contains(table.title) && table.columns.iter().all(|column| text.contains(column.head)),
                "{text}"
            );
        }
    }
}
