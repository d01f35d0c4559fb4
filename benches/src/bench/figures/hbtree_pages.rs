//! The paper's figure 7: which pages the inner levels and the leaves lie in.

use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::gathers::gathers;
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use lanetree::Device;
use lanetree::hbtree::{GrantedPages, HbTree, Pages};

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-pages", Run::Alone(measure));

/// For the inner levels, and for the leaves. The first is what the others relate to.
const CONFIGURATIONS: [(Pages, Pages); 4] = [
    (Pages::Small, Pages::Small),
    (Pages::Transparent, Pages::Small),
    (Pages::Transparent, Pages::Transparent),
    (Pages::Huge, Pages::Huge),
];

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let ceiling = gathers(session, FIGURE.name, 16 << size)?;
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
            let mut row = subject.look_up(session, FIGURE.name, Side::Cpu, &what)?;
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
