//! `site`: the documents as a book by mdBook, rustdoc's pages of the library, the page of figures, and the Python reference, in one
//! folder, with every link checked. `site/` says which documents, in which order. Nothing of it is committed.

use crate::failure::{Failure, Result};
use crate::markdown::{self, Link};
use crate::{packages, pages, paths, process, report, runner};
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the site.
#[derive(Args)]
pub(crate) struct Options {
    /// The folder to put it into, empty or with an earlier site (default: target/site)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where readers find the repository's files, such as `https://example.org/owner/lanetree/blob/main`. Without it, what would lead
    /// to a file that is no page of the book is text, and no link
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
    /// A Python in which the packages `lanetree` and `pdoc` are installed: makes the Python reference, too
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// The book alone, which compiles nothing: neither the library's pages nor the page of figures
    #[arg(long)]
    book: bool,
}

const INSTALL: &str = "cargo install mdbook --locked --version 0.5.4 --no-default-features --features search";
/// A file of the site by which it is known again.
const MARK: &str = ".lanetree-site";
/// The documents, and where mdBook reads them.
const FOLDER: &str = "site";
const SUMMARY: &str = "SUMMARY.md";
/// A folder whose documents follow its README as chapters of their own.
const LAB: &str = "docs/lab";
/// What each part of the site is called on the page that leads there, and where that is.
const RUST: (&str, &str) = ("The library in Rust: `lanetree`", "api/lanetree/index.html");
const PYTHON: (&str, &str) = ("The package for Python: `lanetree`", "python/lanetree.html");
const FIGURES: (&str, &str) = ("All figures and the papers' claims, drawn", "report.html");

/// Builds it, and checks its links.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mdbook = process::which("mdbook")
        .ok_or_else(|| Failure::CannotRun(format!("mdbook is not on the PATH; to install it: {INSTALL}")))?;
    let here = std::env::current_dir().unwrap_or_default();
    let out = options.out.as_ref().map_or_else(|| paths::target().join("site"), |out| here.join(out));
    make_empty(&out)?;
    let made = (!options.book).then_some(());
    let parts = [made.map(|()| RUST), options.python.as_ref().map(|_| PYTHON), made.map(|()| FIGURES)];
    let source = paths::target().join("site-source");
    write_source(&source, options.repository.as_deref(), &parts.into_iter().flatten().collect::<Vec<_>>())?;
    process::run(Command::new(mdbook).arg("build").arg(&source).arg("--dest-dir").arg(&out))?;
    // mdBook empties the folder.
    paths::write(&out.join(MARK), "")?;
    if !options.book {
        let arguments = vec![OsString::from("--out"), out.join(FIGURES.1).into_os_string()];
        report::run(&runner::Options { arguments })?;
        take_along(&out.join(FIGURES.1), &out)?;
    }
    if let Some(python) = &options.python {
        let mut command = Command::new(python);
        command.args(["-m", "pdoc", "--docformat", "numpy", "lanetree", "--output-directory"]);
        process::run(command.arg(out.join("python")))?;
    }
    // Without rustdoc's, which have a check of their own.
    let pages = pages::html(&out)?;
    if !options.book {
        document(&out.join("api"))?;
    }
    let broken: Vec<_> = pages.iter().flat_map(|(path, page)| broken(path, page, &pages, &out)).collect();
    if !broken.is_empty() {
        return Err(Failure::Wrong(format!("links of the site that lead nowhere:\n{}", broken.join("\n"))));
    }
    println!("{} pages, every link leads somewhere: {}", pages.len(), paths::shown(&out.join("index.html")));
    Ok(())
}

/// Removes an earlier site.
fn make_empty(out: &Path) -> Result<()> {
    let is_site = out.join(MARK).exists();
    if !is_site && !paths::list(out).is_empty() {
        let reason = "has files that are not of a site; name a folder that is empty or does not exist";
        return Err(Failure::CannotRun(format!("--out {} {reason}", out.display())));
    }
    remove(out)
}

fn remove(folder: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    fs::remove_dir_all(folder)
        .map_err(|error| Failure::CannotRun(format!("cannot remove {}: {error}", paths::shown(folder))))
}

/// Writes what mdBook reads: each page where it is in the repository.
fn write_source(source: &Path, repository: Option<&str>, parts: &[(&str, &str)]) -> Result<()> {
    remove(source)?;
    let root = paths::root();
    for file in ["book.toml", "site.css"] {
        paths::write(&source.join(file), &paths::read(&root.join(FOLDER).join(file))?)?;
    }
    let mut summary = summary()?;
    let pages = chapters(&summary);
    if !parts.is_empty() {
        let (page, links) = ("reference.md", parts.iter().map(|(name, target)| format!("* [{name}]({target})\n")));
        paths::write(
            &source.join("src").join(page),
            &format!("# Pages made from the sources\n\n{}", links.collect::<String>()),
        )?;
        // Below the first page.
        summary = summary.replacen(")\n", &format!(")\n[Rust, Python, and all figures]({page})\n"), 1);
    }
    paths::write(&source.join("src").join(SUMMARY), &summary)?;
    for page in &pages {
        let (text, pictures) = rewritten(page, &paths::read(&root.join(page))?, &pages, repository);
        paths::write(&source.join("src").join(page), &text)?;
        for picture in pictures {
            paths::write(&source.join("src").join(&picture), &paths::read(&root.join(&picture))?)?;
        }
    }
    Ok(())
}

/// The book's table of contents, with paths in the repository.
fn summary() -> Result<String> {
    let root = paths::root();
    let mut summary = String::new();
    for line in paths::read(&root.join(FOLDER).join(SUMMARY))?.lines() {
        summary += &(line.replace("](../", "](") + "\n");
        if line.ends_with(&format!("({}/README.md)", Path::new("..").join(LAB).display())) {
            for file in paths::list(&root.join(LAB)).into_iter().filter(|file| !file.ends_with("README.md")) {
                let text = paths::read(&file)?;
                let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
                summary += &format!("  - [{title}]({})\n", paths::shown(&file));
            }
        }
    }
    Ok(summary)
}

/// The pages that a table of contents names.
fn chapters(summary: &str) -> BTreeSet<PathBuf> {
    markdown::links(summary).into_iter().map(|link| PathBuf::from(&summary[link.target])).collect()
}

/// A page's text for the book, and the pictures that it shows. Links to files that are not in the book lead to the repository, or
/// become text.
fn rewritten(page: &Path, text: &str, pages: &BTreeSet<PathBuf>, repository: Option<&str>) -> (String, Vec<PathBuf>) {
    let (mut written, mut end, mut pictures) = (String::new(), 0, Vec::new());
    for Link { whole, text: name, target } in markdown::links(text) {
        let to = &text[target.clone()];
        let (file, anchor) = to.split_once('#').map_or((to, None), |(file, anchor)| (file, Some(anchor)));
        if file.is_empty() || markdown::is_web(to) {
            continue;
        }
        let file = paths::normal(&page.parent().unwrap_or(Path::new("")).join(file));
        let is_picture = text[..whole.start].ends_with('!');
        if is_picture || pages.contains(&file) {
            pictures.extend(is_picture.then_some(file));
            continue;
        }
        written += &text[end..whole.start];
        let name = &text[name];
        match (repository, anchor) {
            (None, _) => written += name,
            (Some(url), None) => written += &format!("[{name}]({}/{})", url.trim_end_matches('/'), file.display()),
            (Some(url), Some(anchor)) => {
                written += &format!("[{name}]({}/{}#{anchor})", url.trim_end_matches('/'), file.display());
            }
        }
        end = whole.end;
    }
    (written + &text[end..], pictures)
}

/// Makes rustdoc's pages of the crates that are published, and copies them.
fn document(to: &Path) -> Result<()> {
    pages::prepare()?;
    let packages = packages::published()?;
    let mut command = process::cargo();
    // As `package.metadata.docs.rs` of the library has them.
    command.args(["doc", "--no-deps", "--locked", "--features", "all-indexes,cuda,emulator,files,serde"]);
    command.args(packages.iter().flat_map(|package| ["--package", &package.name]));
    process::run(command.env("RUSTDOCFLAGS", "-D warnings"))?;
    pages::run()?;
    copy(&paths::target().join("doc"), to)
}

/// Copies the records that the page of figures leads to, and lets it lead to the copies.
fn take_along(page: &Path, out: &Path) -> Result<()> {
    let mut text = paths::read(page)?;
    let targets: BTreeSet<String> = targets(&text).filter(|to| !to.starts_with('#')).map(str::to_owned).collect();
    for target in targets {
        let file = paths::normal(&out.join(&target));
        let Ok(name) = file.strip_prefix(paths::root()) else { continue };
        paths::write(&out.join(name), &paths::read(&file)?)?;
        text = text.replace(&format!("\"{target}\""), &format!("\"{}\"", name.display()));
    }
    paths::write(page, &text)
}

/// What a page of HTML leads to and shows, but for the web and what a script makes.
fn targets(page: &str) -> impl Iterator<Item = &str> {
    let all = ["href=\"", "src=\""].into_iter().flat_map(|before| page.split(before).skip(1));
    let all = all.filter_map(|rest| rest.split('"').next());
    all.filter(|to| !markdown::is_web(to) && !["data:", "javascript:", "$"].iter().any(|it| to.starts_with(it)))
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let cannot =
        |error| Failure::CannotRun(format!("cannot copy {} to {}: {error}", paths::shown(from), paths::shown(to)));
    fs::create_dir_all(to).map_err(cannot)?;
    for path in paths::list(from) {
        let to = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &to)?;
        } else {
            fs::copy(&path, &to).map_err(cannot)?;
        }
    }
    Ok(())
}

/// The links of a page of the site that lead to no file of the site, or to no anchor of a page. Those of pdoc's pages are its own
/// affair.
fn broken(path: &Path, page: &str, pages: &BTreeMap<PathBuf, String>, out: &Path) -> Vec<String> {
    let is_ours = |path: &Path| !path.starts_with(out.join("python"));
    let leads = |target: &str| {
        let (file, anchor) = target.split_once('#').map_or((target, ""), |(file, anchor)| (file, anchor));
        let file = file.split('?').next().unwrap_or_default();
        let to = path.parent().unwrap_or(out).join(file);
        let to = if file.is_empty() { path.to_owned() } else { paths::normal(&to) };
        let Some(page) = pages.get(&to) else { return to.starts_with(out) && to.exists() };
        !is_ours(path) || !is_ours(&to) || anchor.is_empty() || page.contains(&format!("id=\"{anchor}\""))
    };
    let name = paths::shown(path);
    targets(page).filter(|target| !leads(target)).map(|target| format!("{name}: {target}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_is_a_chapter() {
        let pages = chapters(&summary().unwrap());
        let mut folders = vec![paths::root().join("docs")];
        while let Some(folder) = folders.pop() {
            for path in paths::list(&folder) {
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "md") {
                    let name = paths::shown(&path);
                    assert!(pages.contains(Path::new(&name)), "{name} is not in {FOLDER}/{SUMMARY}");
                }
            }
        }
        assert!(pages.iter().all(|page| paths::root().join(page).exists()), "{pages:?}");
    }

    #[test]
    fn links_out_of_the_book_lead_to_the_repository_or_become_text() {
        let pages = BTreeSet::from(["guide/a.md".into(), "README.md".into()]);
        let text = "![p](p.svg) [b](../README.md#c) [`d`](../crates/e.rs#f) [g](https://h.org) [i](#j)";
        let (with, pictures) = rewritten(Path::new("guide/a.md"), text, &pages, Some("https://r.org/x/"));
        assert_eq!(with, text.replace("../crates", "https://r.org/x/crates"));
        assert_eq!(pictures, [PathBuf::from("guide/p.svg")]);
        let (without, _) = rewritten(Path::new("guide/a.md"), text, &pages, None);
        assert_eq!(without, text.replace("[`d`](../crates/e.rs#f)", "`d`"));
    }

    #[test]
    fn links_of_the_site_that_lead_nowhere_are_told() {
        let out = paths::root().join("xtask");
        let (path, page) = (
            out.join("a.html"),
            "<h1 id=\"b\"> <a href=\"#b\"> <a href=\"#c\"> <a href=\"Cargo.toml?d#e\"> \
            <img src=\"none.svg\"> <a href=\"https://f.org\"> <a href=\"../Cargo.toml\">",
        );
        let pages = BTreeMap::from([(path.clone(), page.to_owned())]);
        let expected = ["#c", "../Cargo.toml", "none.svg"].map(|target| format!("xtask/a.html: {target}"));
        assert_eq!(broken(&path, page, &pages, &out), expected);
    }

    #[test]
    fn a_folder_with_other_files_is_not_emptied() {
        let Err(Failure::CannotRun(why)) = make_empty(&paths::root().join(FOLDER)) else { panic!("it was emptied") };
        assert!(why.contains("--out") && why.contains("site"), "{why}");
    }
}
