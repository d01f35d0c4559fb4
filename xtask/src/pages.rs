//! `documentation`, a step of `ci`, once the pages are built: no link on the library's pages is left as its source text.
//!
//! rustdoc itself reports only what it cannot resolve in a crate's own pages. It is silent about links with `$crate`, and about
//! names that an item of another crate imports under `cfg(doc)` alone.

use crate::failure::{Failure, Result};
use crate::{packages, paths};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes the folder of each package's pages. rustdoc links to the pages of a crate only if their folder exists, and cargo documents
/// crates in any order.
pub(crate) fn prepare() -> Result<()> {
    for package in packages::listed()? {
        let folder = paths::target().join("doc").join(package.name.replace('-', "_"));
        fs::create_dir_all(&folder)
            .map_err(|error| Failure::CannotRun(format!("{}: {error}", paths::shown(&folder))))?;
    }
    Ok(())
}

/// Reads all pages of the crate `lanetree`, the one that users read.
pub(crate) fn run() -> Result<()> {
    let (mut pages, mut found) = (0, 0);
    for (path, page) in html(&paths::target().join("doc/lanetree"))? {
        pages += 1;
        for link in dead(&page) {
            found += 1;
            println!("{}: {link}", paths::shown(&path));
        }
    }
    if found > 0 {
        return Err(Failure::Wrong(format!(
            "links of the documentation that lead nowhere: {found}; name what they lead to by a path, in a macro not by `$crate`"
        )));
    }
    println!("{pages} pages, every link resolved");
    Ok(())
}

/// All pages in a folder and below it, with their texts.
pub(crate) fn html(folder: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in paths::list(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "html") {
                let page = paths::read(&path)?;
                pages.insert(path, page);
            }
        }
    }
    Ok(pages)
}

/// The links of a page that rustdoc has left as they are in the source: to `$crate`, or names in brackets.
fn dead(page: &str) -> Vec<&str> {
    let targets = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let names = page.split("[<code>").skip(1).filter_map(|rest| {
        let (name, after) = rest.split_once("</code>")?;
        (!name.contains('<') && after.starts_with(']')).then_some(name)
    });
    targets.filter(|target| target.starts_with('$')).chain(names).collect()
}

#[test]
fn links_that_are_left_as_text_are_told() {
    let page = r#"<a href="$crate::Error">Error</a> <a href="struct.Error.html"><code>Error</code></a>
        [<code>Error::Lost</code>]; [<code>a</code>, <code>b</code>] [<a href="x.html"><code>c</code></a>]"#;
    assert_eq!(dead(page), ["$crate::Error", "Error::Lost"]);
}
