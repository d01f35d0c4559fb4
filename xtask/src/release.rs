//! `release`: whether everything names the version of a tag, and the order in which the crates are published. docs/release.md says
//! when to run it.

use crate::failure::{Failure, Result};
use crate::packages::{self, Listed};
use crate::paths;
use clap::Args;
use std::path::PathBuf;

/// Prints the published crates, each after those that it needs; checks the version of a release.
#[derive(Args)]
pub(crate) struct Options {
    /// The release's tag, such as v0.1.0: fails unless all manifests, CITATION.cff and the changelog name its version
    #[arg(long)]
    tag: Option<String>,
    /// Writes the version's section of the changelog there: the text of the release's page
    #[arg(long, value_name = "FILE", requires = "tag")]
    notes: Option<PathBuf>,
}

/// Workspaces whose packages have the version of the library.
const WORKSPACES: [&str; 3] = ["", "integrations", "python"];

/// Checks, then prints the crates in their order.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(tag) = &options.tag {
        let version = tag.strip_prefix('v').ok_or_else(|| {
            Failure::CannotRun(format!("--tag is {tag}, but a release's tag is v and a version, such as v0.1.0"))
        })?;
        let notes = check(version)?;
        if let Some(file) = &options.notes {
            paths::write(file, &notes)?;
        }
    }
    for name in order(&packages::published()?)? {
        println!("{name}");
    }
    Ok(())
}

/// The changelog's section of a version, if everything else names this version, too.
fn check(version: &str) -> Result<String> {
    let mut wrong = Vec::new();
    for workspace in WORKSPACES {
        let others = packages::listed_in(&paths::root().join(workspace))?;
        let others = others.iter().filter(|package| package.version != version);
        wrong.extend(others.map(|package| format!("{} has the version {}", package.name, package.version)));
    }
    let citation = paths::read(&paths::root().join("CITATION.cff"))?;
    if !citation.lines().any(|line| line.strip_prefix("version: ") == Some(version)) {
        wrong.push("CITATION.cff has another one".to_owned());
    }
    let notes = section(&paths::read(&paths::root().join("CHANGELOG.md"))?, version);
    if notes.is_none() {
        wrong.push(format!("CHANGELOG.md has no heading that begins with `## {version}`"));
    }
    match notes {
        Some(notes) if wrong.is_empty() => Ok(notes),
        _ => Err(Failure::Wrong(format!("the tag's version is {version}, but {}", wrong.join("; ")))),
    }
}

/// The text below the heading of a version, up to the next one's.
fn section(changelog: &str, version: &str) -> Option<String> {
    let mut lines = changelog.lines();
    lines.find(|line| line.strip_prefix("## ").and_then(|it| it.split(' ').next()) == Some(version))?;
    let text: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    Some(format!("{}\n", text.join("\n").trim()))
}

/// The packages' names, each after the names of those that the registry must have before it.
fn order(packages: &[Listed]) -> Result<Vec<&str>> {
    let mut left: Vec<&Listed> = packages.iter().collect();
    left.sort_by(|a, b| a.name.cmp(&b.name));
    let mut order = Vec::new();
    while !left.is_empty() {
        let waits = |package: &Listed| {
            package.needed().any(|name| name != package.name && left.iter().any(|other| other.name == name))
        };
        let (later, now): (Vec<_>, Vec<_>) = left.iter().copied().partition(|package| waits(package));
        if now.is_empty() {
            let names: Vec<_> = later.iter().map(|package| &*package.name).collect();
            return Err(Failure::Wrong(format!(
                "none of these can be published before the others: {}",
                names.join(", ")
            )));
        }
        order.extend(now.into_iter().map(|package| &*package.name));
        left = later;
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_comes_after_what_it_needs() {
        let packages = packages::published().unwrap();
        let order = order(&packages).unwrap();
        assert_eq!(order.len(), packages.len());
        let place = |name: &str| order.iter().position(|other| *other == name);
        for package in &packages {
            for needed in package.needed().filter(|name| place(name).is_some() && *name != package.name) {
                assert!(place(needed) < place(&package.name), "{needed} is needed by {}", package.name);
            }
        }
        assert!(
            place("lanetree-simt") < place("lanetree-lane-tree") && place("lanetree-lane-tree") < place("lanetree")
        );
        assert!(place("lanetree-verify").is_none() && place("xtask").is_none());
    }

    #[test]
    fn the_notes_are_the_section_of_the_version() {
        let text =
            "# Changelog\n\n## 0.1.10 (2027-01-02)\n\nLater.\n\n## 0.1.1\n\n### Fixed\n- One.\n\n## 0.1.0\n\nFirst.\n";
        assert_eq!(section(text, "0.1.1").as_deref(), Some("### Fixed\n- One.\n"));
        assert_eq!(section(text, "0.1.0").as_deref(), Some("First.\n"));
        assert_eq!((section(text, "0.1"), section("## Unreleased (0.1.0)\n", "0.1.0")), (None, None));
    }

    #[test]
    fn a_version_that_something_does_not_have_is_named() {
        let Err(Failure::Wrong(why)) = check("99.0.0") else { panic!("everything has the version 99.0.0") };
        for part in ["lanetree has the version", "lanetree-python", "lanetree-sql", "CITATION.cff", "CHANGELOG.md"] {
            assert!(why.contains(part), "{part}: {why}");
        }
    }
}
