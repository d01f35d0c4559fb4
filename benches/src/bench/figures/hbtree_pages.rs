//! The paper's figure 7: which pages the inner levels and the leaves lie in.

use crate::bench::columns::{BATCH, CEILING, Column, DEVICE, Format, MEGA, MS, N, OPERATION, THREADS, WORDS};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Needs, Request, Run, Takes};
use crate::bench::hbtree::columns::{CHILDREN, RATIO};
use crate::bench::hbtree::gathers::gathers;
use crate::bench::hbtree::plan::{MOST, at_each, several};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::Device;
use lanetree::hbtree::{GrantedPages, HbTree, Pages};

pub(crate) const FIGURE: Figure = Figure {
    name: "hbtree-pages",
    about: "HB+-tree's paper, figure 7: small and huge pages for inner levels and leaves, on the CPU alone; needs no GPU",
    table: Some(&TABLE),
    needs: Needs::Nothing,
    takes: Takes::SIZES,
    sizes: several,
    most: MOST,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "hbtree-pages",
    title: "HB+-tree on the CPU alone, by the pages of its inner levels and leaves (the paper's figure 7)",
    columns: &[
        OPERATION,
        DEVICE,
        WORDS,
        N,
        CHILDREN,
        Column::words("inner levels", "pages.inner"),
        Column::extra("huge MiB", "pages.inner_huge_bytes", Format::Mebibytes),
        Column::words("leaves", "pages.leaves"),
        Column::extra("huge MiB", "pages.leaves_huge_bytes", Format::Mebibytes),
        BATCH,
        THREADS,
        MS,
        MEGA,
        RATIO.headed("x small pages"),
        CEILING.headed("of gathers"),
    ],
    clock: Clock::Cpu,
    notes: &[
        "get_many_or, ordinary host memory, random hits, other ones in each run; medians. Pages: what the system granted;",
        "huge MiB: bytes that were in huge pages after the build. of gathers: relative to the most random 64-byte lines per",
        "second that all threads get from host memory, in the same run. The paper gives no numbers: all on small pages is",
        "the slowest, all on huge pages the fastest, with pages of 1 GiB.",
    ],
    summary: None,
};

/// For the inner levels, and for the leaves. The first is what the others relate to.
const CONFIGURATIONS: [(Pages, Pages); 4] = [
    (Pages::Small, Pages::Small),
    (Pages::Transparent, Pages::Small),
    (Pages::Transparent, Pages::Transparent),
    (Pages::Huge, Pages::Huge),
];

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let ceiling = gathers(session, TABLE.name, 16 << size)?;
        let mut baseline = None;
        for (inner, leaves) in CONFIGURATIONS {
            let builder = HbTree::<u64, u64>::builder().pages(inner, leaves);
            let Some(subject) = Subject::build(session, &Device::host(), size, &builder)? else { continue };
            let (inner, leaves) = (subject.stats.inner_pages, subject.stats.leaf_pages);
            if leaves.asked == Pages::Huge && leaves.granted != Pages::Huge {
                session.skip(format_args!("{}: {leaves}", subject.keys.describe()));
                continue;
            }
            let what = format!("look-ups, {inner}, {leaves}");
            let mut row = subject.look_up(session, TABLE.name, Side::Cpu, &what)?;
            let rate = *baseline.get_or_insert(row.giga_per_second);
            row.set("ratio_to_baseline", row.giga_per_second / rate);
            row.set("ceiling_giga_per_second", ceiling);
            row.set("pages.asked", format!("{}; {}", inner.asked, leaves.asked));
            row.set("pages.inner", granted(inner));
            row.set("pages.inner_huge_bytes", inner.huge_bytes);
            row.set("pages.leaves", granted(leaves));
            row.set("pages.leaves_huge_bytes", leaves.huge_bytes);
            session.push(row);
        }
        Ok(())
    })
}

fn granted(pages: GrantedPages) -> String {
    pages.granted.to_string().trim_end_matches(" pages").into()
}
