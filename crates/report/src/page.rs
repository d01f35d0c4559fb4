//! The page: one file of HTML that needs nothing else.

use crate::claims::{CARD, Claim, Claims, Verdict};
use crate::facts::Facts;
use crate::figures::{Figure, Figures};
use crate::html::{escape, with_code};
use crate::plot;
use crate::store::{EMULATOR, Held, Store, described};
use std::collections::BTreeSet;
use std::fmt::Write as _;

const STYLE: &str = include_str!("style.css");

/// The page of all records of a store.
pub(crate) fn html(claims: &Claims, figures: &Figures, store: &Store) -> String {
    let title = "Lanetree: the papers' evaluations, measured";
    let body = [
        format!("<header><h1>{title}</h1>{}</header>", intro(store)),
        contents(claims, figures),
        of_claims(claims, figures, store),
        of_figures(figures, store),
        of_others(figures, store),
    ]
    .concat();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title><style>{STYLE}</style></head>\
         <body>{body}</body></html>\n"
    )
}

fn intro(store: &Store) -> String {
    let mut out = String::from(
        "<p>Lanetree implements indexes of the research literature for NVIDIA GPUs: Harmonia, CuART with its competitor GRT, \
         HB+-tree, and CUBPT. This page shows what was measured of them, \
         from the committed records, beside what the papers' texts say. First every claim and whether it holds, then \
         every figure. G = 10<sup>9</sup>, Mi = 2<sup>20</sup>. Our rates are medians of a record's runs; the output of \
         every run was compared with the right answers before its figure was written.</p>",
    );
    let mut cards: Vec<&str> = store.cards().collect();
    cards.sort_by_key(|&card| card == EMULATOR);
    for card in cards {
        let mut machines: Vec<Vec<(&str, String)>> = Vec::new();
        let (mut seeds, mut versions, mut verified, mut records) = (BTreeSet::new(), BTreeSet::new(), Vec::new(), 0);
        let mut dates: Vec<&str> = Vec::new();
        for (name, held) in store.records(card) {
            match held {
                Held::Bench { record, .. } => {
                    let machine = described(&record.machine);
                    if !machines.contains(&machine) {
                        machines.push(machine);
                    }
                    seeds.insert(record.seed.to_string());
                    dates.extend(record.date.as_deref());
                    versions.insert(record.version.clone());
                    records += 1;
                }
                Held::Verify { mode, passed, failed } => {
                    verified.push(format!("{mode}: {passed} cases passed, {failed} failed ({name}.json)"));
                }
                Held::Rivals(_) => records += 1,
            }
        }
        for mut machine in machines {
            machine.push(("Records", records.to_string()));
            machine.push(("Seed", seeds.iter().cloned().collect::<Vec<_>>().join(", ")));
            machine.push(("Lanetree", versions.iter().cloned().collect::<Vec<_>>().join(", ")));
            machine.push(("Date", spanned(&dates, records)));
            machine.extend(verified.iter().map(|line| ("Verified", line.clone())));
            let rows: String = machine
                .iter()
                .map(|(what, which)| format!("<div><dt>{what}</dt><dd>{}</dd></div>", escape(which)))
                .collect();
            write!(out, "<dl class=\"machine\">{rows}</dl>").expect("a string takes all");
        }
    }
    out
}

/// From the first day of the records to the last.
fn spanned(dates: &[&str], records: usize) -> String {
    let span = match (dates.iter().min(), dates.iter().max()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(day), _) => (*day).to_owned(),
        _ => return "the records have none; see the history of benches/record".into(),
    };
    match records - dates.len() {
        0 => span,
        without => format!("{span}; {without} records have none, see the history of benches/record"),
    }
}

fn contents(claims: &Claims, figures: &Figures) -> String {
    let papers: String = claims
        .0
        .iter()
        .map(|paper| format!("<li><a href=\"#claims-{}\">{}</a></li>", paper.id, escape(&paper.name)))
        .collect();
    let groups: String = figures
        .0
        .iter()
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
        "<nav aria-label=\"Contents\"><h2>Contents</h2><ul class=\"contents\"><li><a href=\"#claims\">Claims</a>\
         <ul>{papers}</ul></li>{groups}<li><a href=\"#others\">Other records</a></li></ul></nav>"
    )
}

fn anchor(name: &str) -> String {
    let part = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("figures-{}", name.chars().map(part).collect::<String>())
}

fn of_claims(claims: &Claims, figures: &Figures, store: &Store) -> String {
    let counts: String = Verdict::ALL
        .iter()
        .map(|&verdict| {
            format!(
                "<li><span class=\"verdict {}\">{}</span> {}</li>",
                verdict.class(),
                verdict.name(),
                claims.count(verdict)
            )
        })
        .collect();
    let mut out = format!(
        "<section><h2 id=\"claims\">Claims</h2><p>{} claims of the papers' texts. The verdicts were written for the records \
         of {}; numbers with a record's name beside them are computed from it. A claim that fails is one that ours \
         contradicts, and the verdict says what explains it.</p><ul class=\"counts\">{counts}</ul>",
        claims.all().count(),
        escape(CARD),
    );
    for paper in &claims.0 {
        let rows: String = paper.claim.iter().map(|claim| row(claim, figures, store)).collect();
        write!(
            out,
            "<h3 id=\"claims-{}\">{}</h3><p>{}</p><div class=\"scroll\"><table class=\"claims\"><thead><tr><th>Section</th>\
             <th>The paper says</th><th>Measured</th><th>Verdict</th><th>Why</th></tr></thead><tbody>{rows}</tbody></table>\
             </div>",
            paper.id,
            escape(&paper.name),
            with_code(&paper.about),
        )
        .expect("a string takes all");
    }
    out + "</section>"
}

fn row(claim: &Claim, figures: &Figures, store: &Store) -> String {
    let mut measured: String = claim
        .lines(store, CARD)
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
    let cause = claim.cause.map_or_else(String::new, |cause| format!("<small>{}</small>", cause.describe()));
    format!(
        "<tr id=\"claim-{}\"><td>{}</td><td>{}</td><td><ul>{measured}</ul></td><td><span class=\"verdict {}\">{}</span>{cause}</td>\
         <td>{}</td></tr>",
        claim.id,
        escape(&claim.place()),
        with_code(&claim.says),
        claim.verdict.class(),
        claim.verdict.name(),
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

fn of_figures(figures: &Figures, store: &Store) -> String {
    let mut out = String::new();
    for group in &figures.0 {
        write!(out, "<section><h2 id=\"{}\">{}</h2>", anchor(&group.name), escape(&group.name))
            .expect("a string takes all");
        out.extend(group.figure.iter().map(|figure| of_figure(figure, store)));
        out.push_str("</section>");
    }
    out
}

fn of_figure(figure: &Figure, store: &Store) -> String {
    let mut out = format!("<article id=\"{}\"><h3>{}</h3>", figure.name, escape(&figure.title));
    if let Some(paper) = &figure.paper {
        write!(out, "<p class=\"of\">{}</p>", escape(paper)).expect("a string takes all");
    }
    if let Some(says) = &figure.says {
        write!(out, "<p>{}</p>", with_code(says)).expect("a string takes all");
    }
    let cards: Vec<&str> = store.cards().collect();
    let mut is_empty = true;
    for card in &cards {
        let drawn = drawn(figure, store, card);
        if drawn.is_empty() {
            continue;
        }
        is_empty = false;
        if cards.len() > 1 {
            write!(out, "<h4>{}</h4>", escape(card)).expect("a string takes all");
        }
        out.push_str(&drawn);
    }
    if is_empty {
        write!(out, "<p class=\"none\">No record yet: <code>{}</code></p>", escape(&figure.command()))
            .expect("a string takes all");
    }
    out + "</article>"
}

/// The plots of a card's records, and what those say was not measured; empty without a plot.
fn drawn(figure: &Figure, store: &Store, card: &str) -> String {
    let (mut plots, mut notes) = (String::new(), String::new());
    let all = store.rows_of(card, &figure.records());
    for plot in &figure.plot {
        let counted = plot.list.as_ref().map(|list| -> Vec<Facts> {
            figure.records().into_iter().filter_map(|name| store.counted(card, name, list)).flatten().collect()
        });
        plots.extend(plot::html(plot, counted.as_ref().unwrap_or(&all)));
    }
    if plots.is_empty() && !all.is_empty() && !figure.shares_its_record() {
        plots = format!("<p class=\"none\">None of its rows is one that is drawn.</p>{}", plot::all_rows(&all));
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
    let records = figure.records().join(", ");
    format!("<div class=\"plots\">{plots}</div>{notes}<p class=\"source\">{}</p>", escape(&records))
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
                write!(out, "<h3>{} <small>{}</small></h3>{}", escape(name), escape(card), plot::all_rows(rows))
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
    use crate::store::tests::store;
    use serde_json::json;

    fn page(store: &Store) -> String {
        html(&Claims::read().unwrap(), &Figures::read().unwrap(), store)
    }

    #[test]
    fn what_has_no_record_says_how_to_make_it() {
        let row = |index: &str, n: u64| json!({ "section": "cuart-lookups", "index": index, "value": "u32", "n": n, "key": "[u8; 32]" });
        let html = page(&store("cuart-sizes", &[row("cuart", 1024), row("grt", 1024)]));
        assert!(html.contains(
            "No record yet: <code>cargo xtask bench --figure harmonia-memory --json harmonia-memory.json</code>"
        ));
        assert!(!html.contains("--figure cuart-sizes --json"), "it has a record");
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
        // The only addresses are those of the page.
        assert!(html.split("href=\"").skip(1).all(|rest| rest.starts_with('#')));
    }

    #[test]
    fn every_link_of_the_contents_leads_somewhere() {
        let html = page(&Store::default());
        let ids: Vec<&str> = html.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let unique: BTreeSet<&&str> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len(), "an id stands twice");
        for link in html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(ids.contains(&link), "{link}");
        }
    }
}
