//! The page: one file of HTML that needs nothing else.

use crate::claims::{Claim, Claims, UNANSWERED, Verdict};
use crate::facts::Facts;
use crate::figures::{Figure, Figures};
use crate::html::{escape, prose, with_code};
use crate::machines;
use crate::plot;
use crate::provenance::{self, commit};
use crate::store::{Held, Store};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

const STYLE: &str = include_str!("style.css");

/// The page of all records of a store, as it stands in a file. `page` is that file's path, from which records are linked;
/// without it their names are no links.
pub(crate) fn html(claims: &Claims, figures: &Figures, store: &Store, page: Option<&Path>) -> String {
    let title = "Lanetree: the papers' evaluations, measured";
    let body = [
        format!(
            "<a class=\"skip\" href=\"#main\">To the claims and figures</a><header><h1>{title}</h1>{INTRO}</header>"
        ),
        contents(claims, figures),
        "<main id=\"main\">".into(),
        summary(claims),
        of_claims(claims, figures, store),
        of_figures(figures, store, page),
        of_others(figures, store),
        machines::html(store),
        "</main>".into(),
    ]
    .concat();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title><style>{STYLE}</style></head>\
         <body>{body}</body></html>\n"
    )
}

/// What the page is, and how its numbers are to be read.
const INTRO: &str = "<p>Lanetree has LaneTree, an index of its own for NVIDIA GPUs, and indexes of the research literature: \
     Harmonia, CuART with its competitor GRT, HB+-tree, and CUBPT. This page shows what was measured of them, from the \
     committed records, next to what the papers' texts say. First a summary, then every claim and whether it holds, then \
     every figure, LaneTree's first, and what it was measured on. G = 10<sup>9</sup>, Mi = 2<sup>20</sup>.</p>\
     <p>Numbers are medians of a row's runs. Two medians differ only if their spreads, from the fastest run to the slowest, \
     do not overlap; in the table of claims a ratio of two that do not differ has a ≈ before it, and plots draw the spread \
     wherever a record has the times of several runs. The output of a row's last run was compared with the right answers, one \
     by one, before its figure was written; the changes in the runs before it were not.</p>";

/// Counts of verdicts by paper, and what surprises most.
fn summary(claims: &Claims) -> String {
    let cell = |name: &str, count: usize| format!("<td role=\"cell\" data-name=\"{name}\">{count}</td>");
    let row = |head: &str, claims: usize, count: &dyn Fn(Verdict) -> usize, unanswered: usize| {
        let cells = Verdict::ALL.iter().map(|&verdict| cell(verdict.name(), count(verdict)));
        format!(
            "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">{head}</th>{}{}{}</tr>",
            cell("claims", claims),
            cells.collect::<String>(),
            cell(UNANSWERED, unanswered)
        )
    };
    let verdicts = Verdict::ALL.iter().map(|of| format!("<span class=\"verdict {}\">{}</span>", of.class(), of.name()));
    let columns = ["paper".into(), "claims".into()].into_iter().chain(verdicts).chain([UNANSWERED.into()]);
    let head: String =
        columns.map(|column: String| format!("<th role=\"columnheader\" scope=\"col\">{column}</th>")).collect();
    let papers = claims.0.iter().map(|paper| {
        let name = format!("<a href=\"#claims-{}\">{}</a>", paper.id, escape(&paper.name));
        row(&name, paper.claim.len(), &|verdict| paper.count(verdict), paper.unanswered.len())
    });
    let unanswered = claims.0.iter().map(|paper| paper.unanswered.len()).sum();
    let all = row("all", claims.all().count(), &|verdict| claims.count(verdict), unanswered);
    let rows: String = papers.chain([all]).collect();
    let surprises: String = claims
        .0
        .iter()
        .map(|paper| {
            let lines: String = paper
                .most_surprising()
                .map(|claim| {
                    format!(
                        "<li><a href=\"#claim-{}\">{}</a> <small>{}</small> <span class=\"verdict {}\">{}</span> {}</li>",
                        claim.id,
                        with_code(&claim.says),
                        escape(&claim.place()),
                        claim.verdict.class(),
                        claim.verdict.name(),
                        with_code(first_sentence(&claim.why))
                    )
                })
                .collect();
            format!("<h3>What surprises most: {}</h3><ul class=\"surprises\">{lines}</ul>", escape(&paper.name))
        })
        .collect();
    format!(
        "<section><h2 id=\"summary\">Summary</h2><p>Claims of the papers' texts, by verdict. A claim fails if what was measured \
         here contradicts it. That may be due to the machine, to the implementation, or to the paper, whose own numbers may \
         contradict it, too: its row says so. The last column counts what a paper also says, and no claim of the table is \
         for: the list below the paper's claims says why.</p><div class=\"scroll\" role=\"region\" aria-label=\"Verdicts by paper\" \
         tabindex=\"0\"><table class=\"summary\" role=\"table\"><thead role=\"rowgroup\"><tr role=\"row\">{head}</tr></thead>\
         <tbody role=\"rowgroup\">{rows}</tbody></table></div>{surprises}</section>"
    )
}

fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

fn contents(claims: &Claims, figures: &Figures) -> String {
    let papers: String = claims
        .0
        .iter()
        .map(|paper| format!("<li><a href=\"#claims-{}\">{}</a></li>", paper.id, escape(&paper.name)))
        .collect();
    let groups: String = figures
        .shown()
        .map(|group| {
            let figures: String = group
                .figure
                .iter()
                .map(|figure| format!("<li><a href=\"#{}\">{}</a></li>", figure.name, escape(&figure.title)))
                .collect();
            format!("<li><a href=\"#{}\">{}</a><ul>{figures}</ul></li>", anchor(&group.name), escape(&group.name))
        })
        .collect();
    format!(
        "<nav aria-label=\"Contents\"><details><summary>Contents</summary><ul class=\"contents\"><li><a href=\"#summary\">Summary</a></li><li><a href=\"#claims\">Claims</a>\
         <ul>{papers}</ul></li>{groups}<li><a href=\"#others\">Other records</a></li>\
         <li><a href=\"#machines\">Machines and records</a></li></ul></details></nav>"
    )
}

fn anchor(name: &str) -> String {
    let part = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("figures-{}", name.chars().map(part).collect::<String>())
}

fn of_claims(claims: &Claims, figures: &Figures, store: &Store) -> String {
    let mut out = format!(
        "<section><h2 id=\"claims\">Claims</h2><p>{} claims of the papers' texts. The verdicts were written for the records \
         that stand beneath each paper's name; numbers with a record's name after them are computed from it. A claim that fails is one that ours \
         contradicts, and the verdict says what explains it. Where a claim has several rows, those as in the paper do it as the \
         paper does, as far as records have it, and the last one as the library does by default.</p>",
        claims.all().count(),
    );
    for paper in &claims.0 {
        let rows: String = paper.claim.iter().map(|claim| row(claim, &paper.card, figures, store)).collect();
        let head: String =
            COLUMNS.iter().map(|name| format!("<th role=\"columnheader\" scope=\"col\">{name}</th>")).collect();
        let name = escape(&paper.name);
        // On narrow screens rows are cards; the roles keep it a table.
        write!(
            out,
            "<h3 id=\"claims-{}\">{name}</h3><p>{}</p><p>Records: {}.</p><div class=\"scroll\" role=\"region\" aria-label=\"Claims: {name}\" \
             tabindex=\"0\"><table class=\"claims\" role=\"table\"><thead role=\"rowgroup\"><tr role=\"row\">{head}</tr></thead>\
             <tbody role=\"rowgroup\">{rows}</tbody></table></div>",
            paper.id,
            with_code(&paper.about),
            escape(&provenance::lines(paper, store).join(". ")),
        )
        .expect("a string takes all");
        if !paper.unanswered.is_empty() {
            let lines: String = paper
                .unanswered
                .iter()
                .map(|of| {
                    format!(
                        "<li>{}: {} <small>{}</small></li>",
                        escape(&of.section),
                        with_code(&of.says),
                        with_code(&of.why)
                    )
                })
                .collect();
            write!(
                out,
                "<h4>Said in the paper, and answered by no row: {name}</h4><ul class=\"unanswered\">{lines}</ul>"
            )
            .expect("a string takes all");
        }
    }
    out + "</section>"
}

/// The columns of the table of claims.
const COLUMNS: [&str; 5] = ["Section", "The paper says", "Measured", "Verdict", "Why"];

fn row(claim: &Claim, card: &str, figures: &Figures, store: &Store) -> String {
    let mut measured: String = claim
        .lines(store, card)
        .iter()
        .map(|line| {
            let doubt = line.doubt.as_ref().map_or_else(String::new, |doubt| format!(" <em>{}</em>", escape(doubt)));
            let records: Vec<String> = line.records.iter().map(|record| linked(record, figures)).collect();
            format!("<li>{}{doubt} <small>{}</small></li>", escape(&line.text), records.join(", "))
        })
        .collect();
    for noted in &claim.noted {
        write!(measured, "<li>{} <small>{}</small></li>", escape(&noted.text), escape(&noted.source))
            .expect("a string takes all");
    }
    let measured = if measured.is_empty() { "—".into() } else { format!("<ul>{measured}</ul>") };
    let [section, says, of_measured, of_verdict, of_why] = COLUMNS;
    let cause = claim.cause.map_or_else(String::new, |cause| format!("<small>{}</small>", cause.describe()));
    format!(
        "<tr id=\"claim-{}\" role=\"row\"><td role=\"cell\" data-name=\"{}\">{}</td><th role=\"rowheader\" scope=\"row\" \
         data-name=\"{}\">{}</th><td role=\"cell\" data-name=\"{}\">{measured}</td><td role=\"cell\" data-name=\"{}\">\
         <span class=\"verdict {}\">{}</span>{cause}</td><td role=\"cell\" data-name=\"{}\">{}</td></tr>",
        claim.id,
        section,
        escape(&claim.place()),
        says,
        with_code(&claim.says),
        of_measured,
        of_verdict,
        claim.verdict.class(),
        claim.verdict.name(),
        of_why,
        with_code(&claim.why),
    )
}

/// A record's name, as a link to the first figure that shows it.
fn linked(record: &str, figures: &Figures) -> String {
    match figures.all().find(|figure| figure.records().contains(&record)) {
        Some(figure) => format!("<a href=\"#{}\">{}</a>", figure.name, escape(record)),
        None => escape(record),
    }
}

fn of_figures(figures: &Figures, store: &Store, page: Option<&Path>) -> String {
    let mut out = String::new();
    for group in figures.shown() {
        write!(out, "<section><h2 id=\"{}\">{}</h2>", anchor(&group.name), escape(&group.name))
            .expect("a string takes all");
        out.extend(group.figure.iter().map(|figure| of_figure(figure, store, page)));
        out.push_str("</section>");
    }
    out
}

fn of_figure(figure: &Figure, store: &Store, page: Option<&Path>) -> String {
    let mut out = format!("<article id=\"{}\"><h3>{}</h3>", figure.name, prose(&figure.title));
    if let Some(paper) = &figure.paper {
        write!(out, "<p class=\"of\">{}</p>", escape(paper)).expect("a string takes all");
    }
    if let Some(says) = &figure.says {
        write!(out, "<p>{}</p>", with_code(says)).expect("a string takes all");
    }
    let cards: Vec<&str> = store.cards().collect();
    let mut is_empty = true;
    for card in &cards {
        let drawn = drawn(figure, store, card, page);
        if drawn.is_empty() {
            continue;
        }
        is_empty = false;
        write!(out, "<h4>{}</h4>", escape(card)).expect("a string takes all");
        out.push_str(&drawn);
    }
    if is_empty {
        write!(out, "<p class=\"none\">No record yet: <code>{}</code></p>", escape(&figure.command()))
            .expect("a string takes all");
    }
    out + "</article>"
}

/// The plots of a card's records, and what those say was not measured; empty without a plot.
fn drawn(figure: &Figure, store: &Store, card: &str, page: Option<&Path>) -> String {
    let (mut plots, mut notes) = (String::new(), String::new());
    let all = store.rows_of(card, &figure.records());
    for plot in &figure.plot {
        let counted = plot.list.as_ref().map(|list| -> Vec<Facts> {
            figure.records().into_iter().filter_map(|name| store.counted(card, name, list)).flatten().collect()
        });
        plots.extend(plot::html(plot, counted.as_ref().unwrap_or(&all)));
    }
    if plots.is_empty() && !all.is_empty() && !figure.shares_its_record() {
        plots = format!(
            "<p class=\"none\">None of its rows is one that is drawn.</p>{}",
            plot::all_rows(&figure.title, &all)
        );
    }
    if plots.is_empty() {
        return plots;
    }
    let mut skipped: Vec<(&str, usize)> = Vec::new();
    for name in figure.records() {
        if let Some(Held::Bench { record, .. }) = store.get(card, name) {
            for line in &record.skipped {
                match skipped.iter_mut().find(|(other, _)| other == line) {
                    Some((_, count)) => *count += 1,
                    None => skipped.push((line, 1)),
                }
            }
            if let Some(failure) = &record.failure {
                write!(notes, "<li>the run ended early: {}</li>", escape(failure)).expect("a string takes all");
            }
        }
    }
    for (line, count) in skipped {
        let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
        write!(notes, "<li>not measured: {}{times}</li>", escape(line)).expect("a string takes all");
    }
    let notes = if notes.is_empty() { notes } else { format!("<ul class=\"notes\">{notes}</ul>") };
    let link = |&name: &&str| match page.zip(store.path(card, name)).and_then(|(page, path)| address(page, path)) {
        Some(address) => format!("<a href=\"{}\">{}.json</a>", escape(&address), escape(name)),
        None => format!("{}.json", escape(name)),
    };
    let records = figure.records();
    let links: Vec<String> = records.iter().filter(|name| store.get(card, name).is_some()).map(link).collect();
    let (plural, links) = (if links.len() == 1 { "" } else { "s" }, links.join(", "));
    let made = made_by(figure, store, card);
    format!("<div class=\"plots\">{plots}</div>{notes}<p class=\"source\">Record{plural}: {links}. {made}</p>")
}

/// The commands that made a figure's records, as far as those say them.
fn made_by(figure: &Figure, store: &Store, card: &str) -> String {
    let mut lines = Vec::new();
    for name in figure.records() {
        let Some(Held::Bench { record, .. }) = store.get(card, name) else { continue };
        for made in &record.made {
            let command = format!("cargo xtask bench {}", made.arguments.join(" "));
            let commit = made.built.as_ref().map_or_else(String::new, |built| format!(", commit {}", commit(built)));
            lines.push(format!("<code>{}</code> in {} s{}", escape(&command), made.seconds, escape(&commit)));
        }
    }
    let is_rivals = |name: &&str| matches!(store.get(card, name), Some(Held::Rivals(_)));
    if lines.is_empty() && figure.records().iter().any(is_rivals) {
        return "Made by the programs of <code>benches/rivals</code>.".into();
    }
    if lines.is_empty() && !figure.is_made() {
        return "From an earlier state of the code; it was not measured again.".into();
    }
    if lines.is_empty() {
        let command = escape(&figure.command());
        return format!("Made by <code>{command}</code>; sizes, batches and time limits are options of it.");
    }
    format!("Made by {}.", lines.join("; "))
}

/// Where a file is, seen from another; `None` if there is no such path.
fn address(from: &Path, to: &Path) -> Option<String> {
    let (from, to) = (std::path::absolute(from).ok()?, std::path::absolute(to).ok()?);
    let folder = from.parent()?;
    let common = folder.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = folder.components().skip(common).map(|_| Some(".."));
    let down = to.components().skip(common).map(|part| part.as_os_str().to_str());
    let parts: Option<Vec<&str>> = up.chain(down).collect();
    parts.map(|parts| parts.join("/"))
}

/// Records that no figure is for.
fn of_others(figures: &Figures, store: &Store) -> String {
    let known: BTreeSet<&str> = figures.all().flat_map(Figure::records).collect();
    let mut out = String::from("<section><h2 id=\"others\">Other records</h2>");
    let mut is_empty = true;
    for card in store.cards() {
        for (name, _) in store.records(card).filter(|(name, _)| !known.contains(name)) {
            if let Some(rows) = store.rows(card, name) {
                is_empty = false;
                write!(out, "<h3>{} <small>{}</small></h3>{}", escape(name), escape(card), plot::all_rows(name, rows))
                    .expect("a string takes all");
            }
        }
    }
    if is_empty {
        out.push_str("<p>None: every record has a figure above.</p>");
    }
    out + "</section>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::contrast;
    use crate::store::tests::store;
    use serde_json::json;

    fn page(store: &Store) -> String {
        html(&Claims::read().unwrap(), &Figures::read().unwrap(), store, None)
    }

    #[test]
    fn what_has_no_record_says_how_to_make_it() {
        let row = |index: &str, n: u64| json!({ "section": "cuart-lookups", "index": index, "value": "u32", "n": n, "key": "[u8; 32]" });
        let html = page(&store("cuart-sizes", &[row("cuart", 1024), row("grt", 1024)]));
        assert!(html.contains(
            "No record yet: <code>cargo xtask bench --figure harmonia-memory --json harmonia-memory.json</code>"
        ));
        assert!(!html.contains("No record yet: <code>cargo xtask bench --figure cuart-sizes "), "it has a record");
        assert!(html.contains("NVIDIA H200 (cuda:0)") && html.contains("580.1") && html.contains("60 MiB"));
        // Claims of other records say that theirs are not there.
        assert!(html.contains("no record `hbtree-sizes`"));
    }

    #[test]
    fn a_record_of_other_sizes_is_a_table() {
        let html = page(&store("harmonia-psa", &[json!({ "n": 512, "psa": { "sort": "none" } })]));
        let article = html.split("<article id=\"harmonia-psa\">").nth(1).unwrap().split("</article>").next().unwrap();
        assert!(
            article.contains("None of its rows is one that is drawn") && article.contains("<td>512</td>"),
            "{article}"
        );
        // A part of a record that several figures share may just not have been measured.
        let html = page(&store("bench", &[json!({ "section": "primitives" })]));
        let article = html.split("<article id=\"ranges\">").nth(1).unwrap().split("</article>").next().unwrap();
        assert!(article.contains("No record yet: <code>cargo xtask bench --only ranges"), "{article}");
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let html = page(&store("my own", &[json!({ "index": "<mine>" })]));
        assert!(html.contains("<h3>my own <small>nvidia-h200</small></h3>") && html.contains("&lt;mine&gt;"));
        for outside in ["<script", "src=", "<link", "@import", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
        // Links lead only within the page.
        assert!(html.split("href=\"").skip(1).all(|rest| rest.starts_with('#')));
    }

    /// The page of the committed records, as it is written to `target`.
    fn committed() -> String {
        let store = Store::of_folder(&crate::records()).unwrap();
        html(
            &Claims::read().unwrap(),
            &Figures::read().unwrap(),
            &store,
            Some(&crate::workspace().join("target/report.html")),
        )
    }

    /// The tags of a name, with what stands in them.
    fn tags<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
        let start = format!("<{name}");
        let rest = html.split(start.as_str()).skip(1);
        rest.filter(|rest| rest.starts_with([' ', '>'])).filter_map(|rest| rest.split('>').next()).collect()
    }

    #[test]
    fn the_page_is_html_without_errors_and_its_plots_are_xml() {
        use html5gum::Token;
        // Elements that have no end.
        const VOID: [&[u8]; 4] = [b"br", b"hr", b"img", b"meta"];
        let rows = [json!({ "index": "<mine> & \"yours\" -- 'theirs'" })];
        for html in [committed(), page(&store("my <own> --", &rows))] {
            let (mut open, mut is_svg) = (Vec::new(), false);
            for token in html5gum::Tokenizer::new(&html).flatten() {
                match token {
                    Token::Error(error) => panic!("{error:?}"),
                    Token::StartTag(tag) => {
                        is_svg |= &tag.name[..] == b"svg";
                        // Only elements of SVG end where they begin.
                        assert!(!tag.self_closing || is_svg, "{tag:?}");
                        if !tag.self_closing && !VOID.contains(&&tag.name[..]) {
                            open.push(tag.name.to_vec());
                        }
                    }
                    Token::EndTag(tag) => {
                        is_svg &= &tag.name[..] != b"svg";
                        assert_eq!(open.pop().as_deref(), Some(&tag.name[..]), "within {open:?}");
                    }
                    _ => {}
                }
            }
            assert!(open.is_empty(), "{open:?} have no end");
            let plots = html.split("<svg").skip(1).map(|rest| rest.split("</svg>").next().unwrap());
            for plot in plots {
                let plot = format!("<svg{plot}</svg>");
                roxmltree::Document::parse(&plot).unwrap_or_else(|error| panic!("{error}: {plot}"));
            }
        }
    }

    #[test]
    fn machines_of_a_card_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b", "c"].map(|name| folder.path().join(name).with_extension("json"));
        for (path, threads) in paths.iter().zip([16, 32, 16]) {
            let mut record: serde_json::Value = serde_json::from_str(&crate::store::tests::record(&[])).unwrap();
            record["machine"]["cpu_threads"] = json!(threads);
            std::fs::write(path, record.to_string()).unwrap();
        }
        let html = machines::html(&Store::of_files(&paths).unwrap());
        let of = |threads: &str| {
            let rest = html.split(threads).nth(1).unwrap().split("</dl>").next().unwrap();
            rest.contains("<dt>Records</dt><dd>2</dd>")
        };
        assert!(of("Xeon, 16 threads") && !of("Xeon, 32 threads"), "{html}");
    }

    #[test]
    fn a_record_that_says_how_it_was_made_is_shown_with_that() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cuart-sizes.json");
        let row = json!({ "section": "cuart-lookups", "index": "cuart", "value": "u32", "n": 1024, "key": "[u8; 32]" });
        let mut record: serde_json::Value = serde_json::from_str(&crate::store::tests::record(&[row])).unwrap();
        record["machine"]["host"] = json!({ "numa_nodes": 2, "kernel": "6.1", "cpu_mhz": 2100 });
        record["made"] = json!([{
            "arguments": ["--figure", "cuart-sizes", "--sizes", "<10>"], "began": "2026-11-26T07:30:00Z", "seconds": 41,
            "rows": 1, "checked": "all of them", "environment": [],
            "built": { "commit": "0123456789abcdef", "is_clean": false, "rustc": "rustc 1.95.0", "ptx_sha256": "ab" },
        }]);
        std::fs::write(&path, record.to_string()).unwrap();
        let html = page(&Store::of_files(&[path]).unwrap());
        for part in [
            "<code>cargo xtask bench --figure cuart-sizes --sizes &lt;10&gt;</code> in 41 s, commit 0123456789ab with changes",
            "<dt>Commit</dt><dd>0123456789ab with changes</dd>",
            "<dt>Compiler</dt><dd>rustc 1.95.0</dd>",
            "<dt>Outputs that were compared</dt><dd>all of them</dd>",
            "<dt>NUMA nodes</dt><dd>2</dd>",
            "<dt>Kernel</dt><dd>6.1</dd>",
        ] {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("2100"), "the clock of the moment tells no machines apart");
    }

    #[test]
    fn records_are_found_from_the_page() {
        let from = |page: &str| address(Path::new(page), Path::new("a/records/r.json")).unwrap();
        assert_eq!(from("a/target/page.html"), "../records/r.json");
        assert_eq!(from("a/records/page.html"), "r.json");
        assert_eq!(from("page.html"), "a/records/r.json");
    }

    #[test]
    fn every_link_leads_somewhere() {
        for html in [page(&Store::default()), committed()] {
            let ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
            let unique: BTreeSet<&&str> = ids.iter().collect();
            assert_eq!(unique.len(), ids.len(), "an id stands twice");
            for link in html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                match link.strip_prefix('#') {
                    Some(id) => assert!(ids.contains(&id), "{link}"),
                    None => assert!(crate::workspace().join("target").join(link).is_file(), "{link}"),
                }
            }
        }
    }

    #[test]
    fn headings_are_in_order_and_every_element_is_closed() {
        let html = committed();
        let mut level = 0;
        let mut open: Vec<&str> = Vec::new();
        let text = html.split("<style>").next().unwrap().to_owned() + html.split("</style>").nth(1).unwrap();
        for tag in text.split('<').skip(1) {
            let name = tag.split(|c: char| c.is_whitespace() || c == '>' || c == '/').next().unwrap();
            if let Some(closed) = tag.strip_prefix('/') {
                let closed = closed.split('>').next().unwrap();
                assert_eq!(open.pop(), Some(closed), "</{closed}> closes another element");
                continue;
            }
            if let Some(of) = name.strip_prefix('h').and_then(|of| of.parse::<usize>().ok()) {
                assert!(of <= level + 1, "h{of} after h{level}: {}", tag.chars().take(80).collect::<String>());
                level = of;
            }
            let is_empty = tag.split('>').next().unwrap().ends_with('/') || matches!(name, "meta" | "!DOCTYPE" | "br");
            if !is_empty {
                let end = tag.find(|c: char| c.is_whitespace() || c == '>').unwrap();
                open.push(&tag[..end]);
            }
        }
        assert_eq!(open, Vec::<&str>::new());
        assert_eq!(tags(&html, "h1").len(), 1);
        assert_eq!(tags(&html, "main").len(), 1);
    }

    #[test]
    fn what_is_seen_is_also_said() {
        let html = committed();
        for svg in tags(&html, "svg") {
            let is_named = svg.contains("role=\"img\"") && svg.contains("aria-label=\"");
            assert!(is_named || svg.contains("aria-hidden=\"true\""), "{svg}");
        }
        assert!(tags(&html, "th").iter().all(|th| th.contains("scope=\"")), "a header is of a row or a column");
        assert!(!html.contains("\"></th>"), "a header without a text");
        assert!(
            tags(&html, "div")
                .iter()
                .filter(|div| div.contains("class=\"scroll\""))
                .all(|div| { div.contains("tabindex=\"0\"") && div.contains("aria-label=\"") })
        );
        let figures = html.matches("<figure class=\"plot\">").count();
        assert!(figures > 60);
        assert_eq!(html.matches("<figure class=\"plot\"><figcaption><strong>").count(), figures, "all have captions");
        // A table beneath each; some figures have one of all their rows instead.
        assert!(html.matches("<details>").count() >= figures);
    }

    #[test]
    fn colours_stand_out_in_light_and_dark() {
        let schemes: Vec<&str> = STYLE.split(":root {").skip(1).map(|rest| rest.split('}').next().unwrap()).collect();
        assert_eq!(schemes.len(), 2);
        for scheme in schemes {
            let colours: Vec<(&str, &str)> = scheme
                .split(';')
                .filter_map(|line| line.trim().split_once(": "))
                .filter(|(name, value)| name.starts_with("--") && value.starts_with('#'))
                .collect();
            let of = |name: &str| colours.iter().find(|(other, _)| *other == name).unwrap().1;
            for (name, colour) in &colours {
                // Text needs 4.5, lines and marks 3.
                let least = match *name {
                    "--ground" | "--raised" | "--line" => continue,
                    name if name.starts_with("--c") && name.len() == 4 => 3.0,
                    _ => 4.5,
                };
                for ground in ["--ground", "--raised"] {
                    let contrast = contrast(colour, of(ground));
                    assert!(contrast >= least, "{name} {colour} on {ground}: {contrast:.2}");
                }
            }
        }
    }
}
