//! Which trees are built, and what is measured over each.

use super::data::{BenchWord, Data, MAX_LEN, mix};
use super::error::{Error, Result};
use super::report::Section;
use super::session::Session;
use super::subject::{Subject, power};
use super::{
    Args, Figure, KeyWidth, ceilings, cpu, cuart, host, host_ranges, ladder, latency, lookups, memory, primitives,
    psa_figure, psa_widths, ranges, rungs, updates,
};
use crate::keys::{self, FileKey, Format};
use std::path::Path;

/// What is measured unless less is asked for.
pub(super) const PARTS: [Section; 9] = [
    Section::Ceilings,
    Section::Lookups,
    Section::Neighbors,
    Section::Ranges,
    Section::Build,
    Section::Updates,
    Section::Primitives,
    Section::EndToEnd,
    Section::Cpu,
];

/// What is measured over a tree on the device.
const ON_DEVICE: [Section; 7] = [
    Section::Ceilings,
    Section::Lookups,
    Section::Neighbors,
    Section::Ranges,
    Section::Build,
    Section::Updates,
    Section::EndToEnd,
];

/// How much of a tree is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Look-ups, and the build.
    Lookups,
    All,
}

/// Runs all that was asked for.
///
/// # Errors
/// What ended it. The session keeps the rows before that.
pub(super) fn run(session: &mut Session, args: &Args) -> Result<()> {
    if args.figure == Some(Figure::Memory) {
        return memory::measure(session);
    }
    if let Some(path) = &args.keys {
        return match args.key_width {
            KeyWidth::B32 => over_file::<u32>(session, path, args.format),
            KeyWidth::B64 => over_file::<u64>(session, path, args.format),
        };
    }
    match args.figure {
        Some(Figure::Latency) => return latency::measure(session),
        Some(Figure::CuartWidths) => return cuart::by_width(session),
        Some(Figure::CuartSizes) => return cuart::by_size(session),
        Some(Figure::CuartLanes) => return cuart::by_lanes(session),
        Some(Figure::CuartBatches) => return cuart::batches(session),
        Some(Figure::CuartLong) => return cuart::long_keys(session),
        Some(Figure::CuartUpdates) => return cuart::updates(session),
        Some(Figure::CuartBuilds) => return cuart::builds(session),
        Some(Figure::CuartInserts) => return cuart::inserts(session),
        Some(Figure::CuartCpu) => return cuart::on_cpu(session),
        Some(Figure::CuartUrls) => return cuart::of_urls(session),
        Some(Figure::CuartReal) => return cuart::real(session, args.input.as_deref()),
        _ => {}
    }
    let (sizes, main) = (session.plan.sizes.clone(), session.plan.main_size());
    if session.wants(Section::HarmoniaNtg) {
        let data = Data::<u64>::uniform(1 << main, seed(session, main));
        return ladder::measure(session, data);
    }
    if session.wants(Section::HarmoniaLadder) {
        let sizes = session.plan.ladder.clone();
        return at_every_size(session, "ladder", sizes, rungs::measure);
    }
    if session.wants(Section::HarmoniaPsa) {
        let sizes = session.plan.psa.clone();
        return at_every_size(session, "PSA", sizes, psa_figure::measure);
    }
    if session.wants(Section::HarmoniaPsaWidths) {
        return psa_widths::measure(session, Data::<u64>::uniform(1 << main, seed(session, main)));
    }
    ceilings::copy(session)?;
    for size in sizes {
        let extent = if size == main { Extent::All } else { Extent::Lookups };
        over_uniform::<u64>(session, size, extent)?;
    }
    over_uniform::<u32>(session, main, Extent::Lookups)?;
    if session.wants(Section::Primitives) {
        primitives::measure(session, &Data::<u64>::uniform(1 << main, seed(session, main)))?;
    }
    for size in session.plan.cpu.clone() {
        if session.wants(Section::Cpu) && session.has_time(format_args!("CPU, n = 2^{size}")) {
            cpu::measure(session, &Data::<u64>::uniform(1 << size, seed(session, size)))?;
        }
    }
    Ok(())
}

/// A figure that has several sizes.
fn at_every_size(
    session: &mut Session,
    figure: &str,
    sizes: Vec<u32>,
    measure: fn(&mut Session, Data<u64>) -> Result<()>,
) -> Result<()> {
    if !session.runs_kernels() {
        return measure(session, Data::<u64>::uniform(0, 0));
    }
    for size in sizes {
        let what = format!("{figure}, n = 2^{size}");
        if session.has_time(&what) {
            let data = Data::<u64>::uniform(1 << size, seed(session, size));
            within_memory(measure(session, data), session, &what)?;
        }
    }
    Ok(())
}

/// Every size has keys of its own.
fn seed(session: &Session, size: u32) -> u64 {
    mix(session.seed ^ u64::from(size) << 56)
}

fn over_uniform<W: BenchWord>(session: &mut Session, size: u32, extent: Extent) -> Result<()> {
    let what = format!("n = 2^{size}, {} keys", <W as lanetree::Key>::NAME);
    if !ON_DEVICE.iter().any(|&section| session.wants(section)) || !session.has_time(&what) {
        return Ok(());
    }
    let data = Data::<W>::uniform(1 << size, seed(session, size));
    within_memory(over_data(session, data, extent), session, &what)
}

fn over_file<W: BenchWord + FileKey>(session: &mut Session, path: &Path, format: Format) -> Result<()> {
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
    let data = Data::distinct(keys, source);
    if session.wants(Section::HarmoniaNtg) {
        return ladder::measure(session, data);
    }
    if session.wants(Section::HarmoniaLadder) {
        return rungs::measure(session, data);
    }
    if session.wants(Section::HarmoniaPsa) {
        return psa_figure::measure(session, data);
    }
    if session.wants(Section::HarmoniaPsaWidths) {
        return psa_widths::measure(session, data);
    }
    ceilings::copy(session)?;
    cpu::measure(session, &data)?;
    over_data(session, data, Extent::All)
}

fn over_data<W: BenchWord>(session: &mut Session, data: Data<W>, extent: Extent) -> Result<()> {
    let subject = Subject::build(session, data)?;
    lookups::lookups(session, &subject)?;
    if extent == Extent::All {
        lookups::neighbors(session, &subject)?;
        ranges::measure(session, &subject)?;
        host::end_to_end(session, &subject)?;
        host_ranges::end_to_end(session, &subject)?;
        updates::measure(session, &subject.into_data())?;
    }
    Ok(())
}

/// A tree that a card is too small for leaves the others to be measured.
fn within_memory(result: Result<()>, session: &mut Session, what: &str) -> Result<()> {
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
    use super::super::report::{Row, Rung};
    use super::super::session::tests::session;
    use super::*;
    use lanetree::Device;

    #[test]
    fn every_part_gives_rows_on_the_emulator() {
        let mut session = session(Device::emulated(), &PARTS);
        ceilings::copy(&mut session).unwrap();
        over_uniform::<u64>(&mut session, 11, Extent::All).unwrap();
        over_uniform::<u32>(&mut session, 9, Extent::Lookups).unwrap();
        primitives::measure(&mut session, &Data::<u64>::uniform(700, 1)).unwrap();
        cpu::measure(&mut session, &Data::<u32>::uniform(500, 1)).unwrap();
        for part in PARTS {
            assert!(session.report.rows.iter().any(|row| row.section == part), "{part:?}");
        }
        assert_eq!(session.report.skipped, [""; 0]);
        let rates = session.report.rows.iter().map(|row| row.giga_per_second);
        assert!(rates.into_iter().all(|rate| rate > 0.0 && rate.is_finite()));
    }

    #[test]
    fn the_ladder_has_a_rung_for_every_kernel() {
        let mut session = session(Device::emulated(), &[Section::HarmoniaNtg]);
        ladder::measure(&mut session, Data::<u64>::uniform(600, 1)).unwrap();
        let widths = lanetree::harmonia::FANOUTS.map(|fanout| lanetree_kernels_harmonia::group_widths(fanout).len());
        // Two child regions, two orders.
        assert_eq!(session.report.rows.len(), 4 * widths.into_iter().sum::<usize>());
        assert!(session.report.rows.iter().all(|row| row.profile_group.is_some()));
    }

    #[test]
    fn every_rung_is_checked_at_every_fanout() {
        let mut session = session(Device::emulated(), &[Section::HarmoniaLadder]);
        at_every_size(&mut session, "ladder", vec![9], rungs::measure).unwrap();
        let rows = &session.report.rows;
        for fanout in lanetree::harmonia::FANOUTS {
            let rung = |rung: Rung| rows.iter().filter(move |row| row.fanout == Some(fanout) && row.rung == Some(rung));
            assert_eq!((rung(Rung::Baseline).count(), rung(Rung::BaselineInFlight).count()), (1, 1));
            // Each over both child regions.
            assert_eq!((rung(Rung::Structure).count(), rung(Rung::Psa).count(), rung(Rung::Ntg).count()), (2, 2, 2));
            assert_eq!(rung(Rung::Baseline).next().unwrap().ratio_to_baseline, Some(1.0));
            // The two are to differ in their trees alone.
            let widths = |wanted| rung(wanted).map(|row| (row.group, row.in_flight)).collect::<Vec<_>>();
            assert!(widths(Rung::Structure).iter().all(|row| *row == widths(Rung::BaselineInFlight)[0]));
        }
        let by_sort = |row: &&Row| row.sorted_bits.is_some();
        assert!(rows.iter().filter(by_sort).all(|row| row.sorted_bits == Some(5) && row.sort_ms.is_some()));
        // Each sum is that of the same values, whatever their order.
        assert!(rows.iter().all(|row| row.checksum.sum == rows[0].checksum.sum && row.checksum.misses == 0));
    }

    #[test]
    fn the_host_climbs_no_ladder() {
        let mut session = session(Device::host(), &[Section::HarmoniaLadder]);
        at_every_size(&mut session, "ladder", vec![9], rungs::measure).unwrap();
        psa_figure::measure(&mut session, Data::<u64>::uniform(600, 1)).unwrap();
        psa_widths::measure(&mut session, Data::<u64>::uniform(600, 1)).unwrap();
        assert!(session.report.rows.is_empty());
        assert!(session.report.skipped.len() == 3 && session.report.skipped.iter().all(|why| why.contains("no GPU")));
    }

    #[test]
    fn every_way_of_sorting_is_checked_at_every_fanout() {
        let mut session = session(Device::emulated(), &[Section::HarmoniaPsa]);
        at_every_size(&mut session, "PSA", vec![9], psa_figure::measure).unwrap();
        let rows = &session.report.rows;
        for fanout in lanetree::harmonia::FANOUTS {
            let of: Vec<&Row> = rows.iter().filter(|row| row.fanout == Some(fanout)).collect();
            let parts = || of.iter().map(|row| row.psa.as_ref().unwrap());
            assert!(parts().map(|parts| parts.sort).eq(["none", "partial", "full"]));
            // One is chosen, and one the fastest.
            assert_eq!(parts().filter(|parts| parts.is_chosen).count(), 1);
            assert_eq!(parts().filter(|parts| parts.is_fastest).count(), 1);
            assert!(of.iter().map(|row| row.sorted_bits).eq([None, Some(5), Some(64)]));
            assert_eq!((of[0].ratio_to_baseline, parts().next().unwrap().lookup_ratio), (Some(1.0), 1.0));
        }
        assert!(rows.iter().all(|row| row.checksum == rows[0].checksum), "all answer in the order of the queries");
    }

    #[test]
    fn every_width_is_measured_for_every_number_of_bits() {
        let mut session = session(Device::emulated(), &[Section::HarmoniaPsaWidths]);
        psa_widths::measure(&mut session, Data::<u64>::uniform(600, 1)).unwrap();
        let widths = lanetree::harmonia::FANOUTS.map(|fanout| lanetree_kernels_harmonia::group_widths(fanout).len());
        let bits: std::collections::BTreeSet<_> = session.report.rows.iter().map(|row| row.sorted_bits).collect();
        // And the look-up of sorted batches.
        assert_eq!(session.report.rows.len(), bits.len() * (widths.into_iter().sum::<usize>() + widths.len()));
    }

    #[test]
    fn every_figure_of_cuart_is_checked_on_the_emulator() {
        use Section::{CuartBatches, CuartBuilds, CuartInserts, CuartLanes, CuartLong, CuartLookups, CuartUpdates};
        let sections = [CuartLookups, CuartLanes, CuartBatches, CuartLong, CuartUpdates, CuartBuilds, CuartInserts];
        let mut session = session(Device::emulated(), &sections);
        session.plan.is_default = false;
        cuart::by_width(&mut session).unwrap();
        cuart::by_size(&mut session).unwrap();
        cuart::by_lanes(&mut session).unwrap();
        cuart::batches(&mut session).unwrap();
        cuart::builds(&mut session).unwrap();
        cuart::long_keys(&mut session).unwrap();
        session.plan.queries = 14;
        cuart::updates(&mut session).unwrap();
        cuart::inserts(&mut session).unwrap();
        let rows = &session.report.rows;
        let of = |section, index| rows.iter().filter(move |row| row.section == section && row.index == index).count();
        // By width: values of 64 and 32 bits, and without a table where there is one. GRT beside each.
        assert_eq!((of(CuartLookups, "cuart"), of(CuartLookups, "grt")), (10, 7));
        assert_eq!((of(CuartLanes, "cuart"), of(CuartBuilds, "cuart")), (20, 7));
        assert_eq!(of(CuartBatches, "cuart"), 0, "batches are larger than the plan's");
        // Six shares of long keys, three ways; three widths, two ways. Each share has a row that the others relate to.
        assert_eq!(of(CuartLong, "cuart"), 6 * 3 + 3 * 2);
        let ratios = || rows.iter().filter(|row| row.section == CuartLong).map(|row| row.ratio_to_baseline);
        assert_eq!((ratios().flatten().count(), ratios().filter(|&ratio| ratio == Some(1.0)).count() >= 9), (24, true));
        assert_eq!((of(CuartUpdates, "cuart"), of(CuartInserts, "cuart")), (22, 4));
    }

    #[test]
    fn latencies_are_those_of_harmonia_and_cuart() {
        let mut session = session(Device::emulated(), &[Section::Latency]);
        session.plan.is_default = false;
        latency::measure(&mut session).unwrap();
        let rows = &session.report.rows;
        // The pool is too small for the largest batches.
        let of = |index| rows.iter().filter(move |row| row.index == index).map(|row| row.batch).collect::<Vec<_>>();
        assert_eq!((of("harmonia"), of("cuart")), (vec![1, 1 << 10], vec![1, 1 << 10, 1, 1 << 10]));
        assert!(rows.iter().all(|row| row.p99_ms >= Some(row.timing.median_ms) && row.calls == Some(3)));
    }

    #[test]
    fn keys_that_begin_alike_are_looked_up_beside_grt() {
        let mut session = session(Device::emulated(), &[Section::CuartLookups]);
        cuart::of_urls(&mut session).unwrap();
        let rows = &session.report.rows;
        assert!(rows.iter().all(|row| row.keys == "URLs, synthetic" && row.key == "[u8; 32]"));
        assert!(rows.iter().map(|row| row.index).eq(["cuart", "cuart", "grt"]));
    }

    #[test]
    fn radix_trees_take_turns_on_the_cpu() {
        let mut session = session(Device::host(), &[Section::CuartCpu]);
        cuart::on_cpu(&mut session).unwrap();
        let rows = &session.report.rows;
        let of = |key: &str| rows.iter().filter(|row| row.key == key).map(|row| row.index).collect::<Vec<_>>();
        assert_eq!(of("[u8; 8]"), ["ART", "blart", "congee", "cuart", "cuart", "cuart"]);
        assert_eq!(of("[u8; 32]"), ["ART", "blart", "cuart", "cuart", "cuart"]);
        assert!(rows.iter().all(|row| row.device == "cpu" && row.cpu.is_some() && row.ratio_to_baseline.is_some()));
        assert_eq!(rows[0].ratio_to_baseline, Some(1.0));
    }

    #[test]
    fn the_host_has_no_rows_of_kernels() {
        let mut session = session(Device::host(), &PARTS);
        over_uniform::<u64>(&mut session, 11, Extent::All).unwrap();
        assert!(session.report.rows.iter().all(|row| row.index == "harmonia" && row.device == "host"));
    }

    #[test]
    fn a_file_of_keys_is_measured_like_any_other() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"7\n7\n1\n5\n6\n").unwrap();
        let mut session = session(Device::host(), &[Section::Lookups]);
        over_file::<u32>(&mut session, file.path(), Format::Text).unwrap();
        let name = file.path().file_name().unwrap().to_str().unwrap();
        assert!(session.report.rows.iter().all(|row| row.n == 4 && row.keys == name));
        // Three orders, all hits and half misses.
        assert_eq!(session.report.rows.len(), 6);
    }
}
