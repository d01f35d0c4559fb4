//! The table of `docs/reproduce.md`: what makes each record of the papers' figures, how long its runs took, and how far
//! apart they are.

use crate::claims::{Claims, Paper};
use crate::figures::{Figure, Figures};
use crate::number::digits;
use crate::store::{EMULATOR, Held, Store};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The document, from the workspace's root.
pub(crate) const FILE: &str = "docs/reproduce.md";

/// The document with its tables written; or what is wrong with it.
pub(crate) fn written(text: &str, claims: &Claims, figures: &Figures, store: &Store) -> Result<String, String> {
    let text = replaced(text, "records", &records(claims, figures, store))?;
    replaced(&text, "headlines", &headlines(claims, store)?)
}

fn replaced(text: &str, name: &str, table: &str) -> Result<String, String> {
    let begin = format!("<!-- table: {name} -->\n");
    let start = text.find(&begin).ok_or_else(|| format!("{FILE} has no line {begin:?}"))? + begin.len();
    let length = text[start..].find("<!-- end -->").ok_or_else(|| format!("{FILE}: {name} has no end"))?;
    Ok(format!("{}\n{table}\n{}", &text[..start], &text[start + length..]))
}

/// A row for each record of a paper's figure, of the card of the paper's claims.
fn records(claims: &Claims, figures: &Figures, store: &Store) -> String {
    let mut out = String::from(
        "| record | made by `cargo xtask bench` with | rows, not measured | timed runs | all of it | slowest over fastest run: \
         half of the rows, nine of ten |\n|---|---|---|---|---|---|\n",
    );
    let mut seen = BTreeSet::new();
    let (mut total, mut whole) = (0.0, 0);
    let papers = claims.0.iter().zip(&figures.0);
    for (card, figure) in papers.flat_map(|(paper, group)| group.figure.iter().map(move |figure| (&paper.card, figure)))
    {
        let name = figure.records()[0];
        if !seen.insert(name) {
            continue;
        }
        let options = options(figure);
        let Some(Held::Bench { record, .. }) = store.get(card, name) else {
            let has_counts = store.get(EMULATOR, name).is_some();
            let instead = if has_counts { "counted by the emulator" } else { "no record on this card" };
            writeln!(out, "| {name} | {options} | {instead} | | | |").expect("a string takes all");
            continue;
        };
        let timings = || record.rows.iter().map(|row| &row.timing);
        let seconds = timings().flat_map(|timing| &timing.runs_ms).fold(0.0, |sum, ms| sum + ms / 1000.0);
        total += seconds;
        let mut spreads: Vec<f64> = timings()
            .filter(|timing| timing.runs_ms.len() > 1 && timing.min_ms > 0.0)
            .map(|timing| timing.max_ms / timing.min_ms)
            .collect();
        spreads.sort_by(f64::total_cmp);
        let at = |part: f64| spreads.get(((spreads.len() as f64 * part) as usize).min(spreads.len().saturating_sub(1)));
        let spread = match (at(0.5), at(0.9)) {
            (Some(half), Some(most)) => format!("{} ×, {} ×", digits(*half), digits(*most)),
            _ => "one run each, or none kept".into(),
        };
        let rows = format!("{}, {}", record.rows.len(), record.skipped.len());
        let time = if seconds > 0.0 { format!("{} s", digits(seconds)) } else { "—".into() };
        let took = match record.made.iter().map(|made| made.seconds).sum::<u64>() {
            0 => "—".into(),
            seconds => {
                whole += seconds;
                format!("{seconds} s")
            }
        };
        writeln!(out, "| {name} | {options} | {rows} | {time} | {took} | {spread} |").expect("a string takes all");
    }
    let whole = if whole > 0 { format!("{whole} s") } else { "—".into() };
    writeln!(out, "| all | | | {} s | {whole} | |", digits(total)).expect("a string takes all");
    out
}

/// The options of the command that makes a figure's record, without the file.
fn options(figure: &Figure) -> String {
    // All parts of the bench, not only this one.
    if figure.records() == ["bench"] {
        return "no options".into();
    }
    let command = figure.command();
    let options = command.strip_prefix("cargo xtask bench ").unwrap_or(&command);
    format!("`{}`", options.split(" --json").next().unwrap_or(options))
}

/// The claims of the table of headlines.
const HEADLINES: [&str; 12] = [
    "harmonia-ladder",
    "harmonia-psa",
    "harmonia-narrow",
    "cuart-cpu",
    "cuart-over-grt-words",
    "cuart-over-grt-end-to-end",
    "cuart-updates-cpu",
    "hbtree-over-cpu-paper",
    "hbtree-over-cpu",
    "hbtree-double-buffering",
    "cubpt-build-pbi",
    "cubpt-insert-palm",
];

/// The first measure of each of these claims, and the range within which its verdict stays.
fn headlines(claims: &Claims, store: &Store) -> Result<String, String> {
    let mut out = String::from("| claim | measured | the verdict is for |\n|---|---|---|\n");
    let claim_of =
        |id: &str| claims.0.iter().find_map(|paper| Some((paper, paper.claim.iter().find(|claim| claim.id == id)?)));
    for id in HEADLINES {
        let (Paper { card, .. }, claim) = claim_of(id).ok_or_else(|| format!("no claim {id}"))?;
        let measure = claim.measured.first().ok_or_else(|| format!("{id} has no measure"))?;
        let measured = measure.of(store, card).map_err(|error| format!("{id}: {error}"))?;
        let (says, line, within) = (&claim.says, measure.describe(&measured), measure.describe_range());
        writeln!(out, "| {}: {says} | {line} | {within} |", claim.place()).expect("a string takes all");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{records, workspace};
    use std::fs;

    fn of(text: &str) -> Result<String, String> {
        let store = Store::of_folder(&records()).unwrap();
        written(text, &Claims::read().unwrap(), &Figures::read().unwrap(), &store)
    }

    #[test]
    fn the_committed_tables_are_what_would_be_written() {
        let committed = fs::read_to_string(workspace().join(FILE)).unwrap();
        assert!(
            of(&committed).unwrap() == committed,
            "tables of {FILE} are not what the records say: cargo xtask report --tables"
        );
    }

    #[test]
    fn a_document_without_the_marks_is_told() {
        assert!(of("").unwrap_err().contains("has no line"));
        let error = of("<!-- table: records -->\n").unwrap_err();
        assert_eq!(error, "docs/reproduce.md: records has no end");
    }

    #[test]
    fn a_figure_without_a_record_is_in_the_table() {
        let table = super::records(&Claims::read().unwrap(), &Figures::read().unwrap(), &Store::default());
        assert!(table.contains("| hbtree-build | `--figure hbtree-build` | no record on this card | | | |"), "{table}");
    }
}
