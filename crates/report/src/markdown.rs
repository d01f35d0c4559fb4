//! The table of claims as Markdown: `docs/claims.md`.

use crate::claims::{Claim, Claims, Paper, UNANSWERED, Unanswered, Verdict};
use crate::provenance;
use crate::store::Store;
use std::fmt::Write as _;

const HEAD: &str = "\
<!-- Written by `cargo xtask report --claims docs/claims.md` from crates/report/claims and the records. -->

# The papers' claims

What the papers of the implemented systems say of speed and memory, and what was measured here. Numbers after a record's \
name in brackets are computed from that record in [`benches/record`](../benches/record) when this page is written. \
Conditions and reasons: [figures.md](figures.md), [performance.md](performance.md). To measure on a card of your own: [reproduce.md](reproduce.md). With plots: `cargo xtask report`.

* **holds**: ours does what the paper says, in kind, and in size at least about as much.
* **holds in part**: some of what it says does, or at some of the sizes; the reason says which.
* **fails**: ours contradicts it. The reason says whether the machine, the implementation or the paper's own numbers explain \
that, or that it is unknown.
* **inconclusive**: the runs are too far apart to tell.
* **not comparable**: what was measured differs in something that decides.
* **not measured**: there is no number for it yet; where there is a figure, its record is to come.

Several rows of one claim: as in the paper, with the paper's way of doing it as far as records have it (and where these do \
not have all of its conditions, a row that waits for such a record), and as ours, with the library's default. Numbers are medians. Two medians differ only if their spreads, from the fastest run to the slowest, do \
not overlap: a ratio of two that do not differ has a ≈ before it. (Ratios that a record has as one number are not marked, \
nor what one run measured.)

Of numbers on which a verdict rests, \"claimed\" says which would be as in the paper. A number contradicts the claim only \
if all of its spread does, from its slowest to its fastest run. What some numbers contradict, and none agrees with, fails; \
a claim with numbers of both kinds holds in part; one whose numbers neither agree nor contradict is inconclusive. A test \
holds verdicts to this rule.
";

/// The page, from a card's records.
pub(crate) fn page(claims: &Claims, store: &Store) -> String {
    let mut out = String::from(HEAD);
    let counts: Vec<String> =
        Verdict::ALL.iter().map(|&verdict| format!("{} {}", claims.count(verdict), verdict.name())).collect();
    let head = "| section | the paper says | measured | verdict | why |\n|---|---|---|---|---|\n";
    write!(out, "\nOf {} claims: {}.\n", claims.all().count(), counts.join(", ")).expect("a string takes all");
    let names = Verdict::ALL.map(Verdict::name).join(" | ");
    write!(out, "\n| paper | claims | {names} | {UNANSWERED} |\n|{}\n", "---|".repeat(Verdict::ALL.len() + 3))
        .expect("a string takes all");
    for paper in &claims.0 {
        let counts = Verdict::ALL.map(|verdict| paper.count(verdict).to_string()).join(" | ");
        let Paper { name, claim, unanswered, .. } = paper;
        writeln!(out, "| {name} | {} | {counts} | {} |", claim.len(), unanswered.len()).expect("a string takes all");
    }
    for paper in &claims.0 {
        let records = provenance::lines(paper, store).join(". ");
        write!(out, "\n## {}\n\n{}\n\nRecords: {records}.\n\n{head}", paper.name, paper.about)
            .expect("a string takes all");
        for claim in &paper.claim {
            let cells =
                [&claim.place(), &claim.says, &measured(claim, store, &paper.card), &verdict(claim), &claim.why];
            let cells = cells.map(|cell| cell.trim().replace('|', "\\|").replace('\n', " "));
            writeln!(out, "| {} |", cells.join(" | ")).expect("a string takes all");
        }
        if !paper.unanswered.is_empty() {
            out.push_str("\nWhat the paper also says, and no row answers:\n\n");
            for Unanswered { section, says, why } in &paper.unanswered {
                writeln!(out, "* {section}: {says} ({why})").expect("a string takes all");
            }
        }
    }
    out
}

fn verdict(claim: &Claim) -> String {
    let name = claim.verdict.name();
    match claim.cause {
        Some(cause) => format!("**{name}**: {}", cause.describe()),
        None => format!("**{name}**"),
    }
}

fn measured(claim: &Claim, store: &Store, card: &str) -> String {
    let mut lines = Vec::new();
    for line in claim.lines(store, card) {
        let doubt = line.doubt.map_or_else(String::new, |doubt| format!(" ({doubt})"));
        lines.push(format!("{}{doubt} [{}]", line.text, line.records.join(", ")));
    }
    lines.extend(claim.noted.iter().map(|noted| format!("{} ({})", noted.text, noted.source)));
    if lines.is_empty() { "—".into() } else { lines.join("; ") }
}
