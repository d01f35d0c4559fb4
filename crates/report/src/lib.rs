//! Lanetree's measurements compared with the papers' claims: one page of HTML, and the table of claims in Markdown,
//! from the records that the bench writes; the README's picture; and tables of figures in documents.
//!
//! What is drawn stands in `benches/figures` and `picture.toml`, what the papers claim in `claims/`, and what tables of
//! documents have in `tables/`. The program calls [`main`]; the library is there for it, and for tests here and of the
//! bench.

mod chart;
mod claims;
mod data;
mod facts;
mod figures;
mod html;
mod machines;
mod markdown;
mod measure;
mod number;
mod page;
mod picture;
mod plot;
mod provenance;
mod runs;
mod store;
mod tables;

use claims::Claims;
use clap::Parser;
use figures::Figures;
use picture::Picture;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use store::Store;
use tables::Tables;

/// Make a page of HTML from records: every figure, and every claim of the papers compared with what was measured
#[derive(Parser, Debug)]
#[command(
    name = "lanetree-report",
    version,
    after_help = "\
Examples:
  lanetree-report                              all committed records, to the workspace's target/report.html
  lanetree-report --out report.html --claims docs/claims.md --picture docs/look-ups.svg --tables
  lanetree-report --json cuart-sizes.json      a record of your own: its figure is known by the file's name

Exit codes: 0 written, 1 a claim's number is not found or outside of what its verdict is for, 2 could not run."
)]
struct Arguments {
    /// Where the page goes (default: target/report.html of the workspace)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Records, each named after its figure (default: all in benches/record)
    #[arg(long, value_name = "FILE", num_args = 1..)]
    json: Vec<PathBuf>,
    /// Also write the table of claims, as Markdown
    #[arg(long, value_name = "FILE")]
    claims: Option<PathBuf>,
    /// Also draw the README's picture, as SVG
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Also write the tables of figures in the workspace's documents
    #[arg(long)]
    tables: bool,
}

/// What keeps a page from being written.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Records(#[from] store::Error),
    #[error(transparent)]
    Data(#[from] data::Error),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Table(String),
    #[error("{}", .0.join("\n"))]
    Claims(Vec<String>),
}

/// Does what the program's arguments ask for; gives its exit code.
pub fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if matches!(error, Error::Claims(_)) { 1 } else { 2 })
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    let claims = Claims::read()?;
    let figures = Figures::read()?;
    let is_whole = arguments.json.is_empty();
    let store = if is_whole { Store::of_folder(&records())? } else { Store::of_files(&arguments.json)? };
    let out = arguments.out.clone().unwrap_or_else(|| workspace().join("target/report.html"));
    write(&out, &page::html(&claims, &figures, &store, Some(&out)))?;
    println!("{}", out.display());
    if let Some(path) = &arguments.claims {
        write(path, &markdown::page(&claims, &store))?;
        println!("{}", path.display());
    }
    if let Some(path) = &arguments.picture {
        write(path, &Picture::read()?.svg(&store))?;
        println!("{}", path.display());
    }
    if arguments.tables {
        write_tables(&claims, &figures, &store)?;
    }
    let doubts: Vec<String> = claims.doubts(&store, is_whole);
    // Of other records, the page says it next to the claim.
    if doubts.is_empty() || !is_whole { Ok(()) } else { Err(Error::Claims(doubts)) }
}

/// Writes the tables of all documents that have some.
fn write_tables(claims: &Claims, figures: &Figures, store: &Store) -> Result<(), Error> {
    for document in &Tables::read()?.0 {
        rewrite(&document.file, |text| document.written(text, store))?;
    }
    rewrite(runs::FILE, |text| runs::written(text, claims, figures, store))
}

/// Rewrites a document of the workspace.
fn rewrite(file: &str, written: impl FnOnce(&str) -> Result<String, String>) -> Result<(), Error> {
    let path = workspace().join(file);
    let text = fs::read_to_string(&path).map_err(|source| store::Error::Read { path: path.clone(), source })?;
    write(&path, &written(&text).map_err(Error::Table)?)?;
    println!("{}", path.display());
    Ok(())
}

/// The workspace's root folder.
fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// The committed records.
fn records() -> PathBuf {
    workspace().join("benches/record")
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written.map_err(|source| Error::Write { path: path.into(), source })
}

/// The names of the bench's figures and parts that the page shows.
///
/// # Panics
/// If the list of figures cannot be read; tests see to it that it can.
pub fn figure_names() -> Vec<String> {
    let figures = Figures::read().expect("the list is tested");
    figures.all().filter(|figure| !figure.is_comparison).map(|figure| figure.name.clone()).collect()
}

/// The names of the records of the page that the bench makes: one per figure, and the records that other options of the
/// bench make.
///
/// # Panics
/// As [`figure_names`].
pub fn record_names() -> Vec<String> {
    let figures = Figures::read().expect("the list is tested");
    let made = figures.all().filter(|figure| figure.is_made());
    made.flat_map(|figure| figure.records().into_iter().map(Into::into).collect::<Vec<String>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;

    fn arguments_of(words: &[&str]) -> Arguments {
        Arguments::parse_from([&["lanetree-report"], words].concat())
    }

    #[test]
    fn every_number_of_the_claims_is_found_and_as_its_verdict_says() {
        let (claims, store) = (Claims::read().unwrap(), Store::of_folder(&records()).unwrap());
        let doubts: Vec<String> = claims.doubts(&store, true);
        assert!(doubts.is_empty(), "{}", doubts.join("\n"));
    }

    #[test]
    fn the_committed_table_is_what_would_be_written() {
        let (claims, store) = (Claims::read().unwrap(), Store::of_folder(&records()).unwrap());
        let committed = fs::read_to_string(workspace().join("docs/claims.md")).unwrap();
        assert!(
            markdown::page(&claims, &store) == committed,
            "docs/claims.md is not what its sources say: cargo xtask report --claims docs/claims.md"
        );
    }

    #[test]
    fn every_record_has_a_figure_and_every_plot_of_a_record_has_rows() {
        let (figures, store) = (Figures::read().unwrap(), Store::of_folder(&records()).unwrap());
        for card in store.cards() {
            for (name, _) in store.records(card).filter(|(name, _)| store.rows(card, name).is_some()) {
                assert!(figures.all().any(|figure| figure.records().contains(&name)), "{name} has no figure");
            }
        }
        // Of one card at least: a record need not have all sizes.
        for figure in figures.all() {
            let rows: Vec<Facts> = store.cards().flat_map(|card| store.rows_of(card, &figure.records())).collect();
            for plot in figure.plot.iter().filter(|plot| plot.list.is_none() && !rows.is_empty()) {
                assert!(!plot.choose(&rows).is_empty(), "{}: {} has no row", figure.name, plot.title);
            }
        }
    }

    #[test]
    fn a_page_is_written_and_errors_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let (json, out) = (folder.path().join("cuart-sizes.json"), folder.path().join("new/page.html"));
        let (json, out) = (json.to_str().unwrap(), out.to_str().unwrap());
        let arguments = arguments_of(&["--out", out, "--json", json]);
        assert!(run(&arguments).unwrap_err().to_string().contains("cuart-sizes.json: No such file"));
        fs::write(json, store::tests::record(&[serde_json::json!({ "index": "cuart" })])).unwrap();
        run(&arguments).unwrap();
        assert!(fs::read_to_string(out).unwrap().starts_with("<!DOCTYPE html>"));
        // A folder that is none.
        let arguments = arguments_of(&["--out", json, "--json", json, "--claims", &format!("{json}/x")]);
        assert!(run(&arguments).unwrap_err().to_string().starts_with("cannot write"));
    }
}
