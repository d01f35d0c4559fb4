//! Whether links in Markdown files, and mentions of documents in sources, lead to something. Tests alone use it.

use crate::{markdown, paths};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Files with such an ending below the workspace, with their texts. Left out are build folders and compiled kernels.
fn files(endings: &[&str]) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![paths::root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            let is_hidden = name.starts_with('.') && name != ".github";
            // The README is in the package's folder, too, as a link.
            if entry.file_type().unwrap().is_symlink() {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                // The crate `ptx` is none of the folders of compiled kernels.
                let has_kernels = name == "ptx" && !path.join("Cargo.toml").exists();
                if !is_hidden && !has_kernels && !["target", "node_modules"].contains(&&*name) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|ending| endings.iter().any(|&wanted| ending == wanted)) {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(path, text);
            }
        }
    }
    found
}

/// The targets of a text's links, except links to the web.
fn targets(text: &str) -> Vec<String> {
    let targets = markdown::links(text).into_iter().map(|link| text[link.target].to_owned());
    targets.filter(|target| !markdown::is_web(target)).collect()
}

/// The anchors of a text's headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = markdown::prose(text).map(|(_, line)| line).filter(|line| line.starts_with('#'));
    let slug = |heading: &str| -> String {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(slug).collect()
}

/// The links of a file that lead nowhere.
fn broken(path: &Path, text: &str, all: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let leads = |target: &str| {
        let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
        let to = if file.is_empty() { path.to_owned() } else { paths::normal(&path.parent().unwrap().join(file)) };
        let has = |anchor: &str| all.get(&to).is_some_and(|text| anchors(text).iter().any(|other| other == anchor));
        (all.contains_key(&to) || to.exists()) && anchor.is_none_or(has)
    };
    let name = paths::shown(path);
    targets(text).into_iter().filter(|target| !leads(target)).map(|target| format!("{name}: {target}")).collect()
}

#[test]
fn links_of_markdown_files_lead_somewhere() {
    let all = files(&["md"]);
    assert!(all.len() > 20, "{} files", all.len());
    let broken: Vec<String> = all.iter().flat_map(|(path, text)| broken(path, text, &all)).collect();
    assert!(broken.is_empty(), "these links lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn documents_that_sources_name_exist() {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "/_.-".contains(c);
    let mut missing = Vec::new();
    for (path, text) in files(&["rs", "toml"]) {
        for (at, _) in text.match_indices("docs/") {
            let name: &str = text[at..].split(|c| !is_name(c)).next().unwrap();
            let name = name.trim_end_matches('.');
            if name.ends_with(".md") && !paths::root().join(name).exists() {
                missing.push(format!("{}: {name}", paths::shown(&path)));
            }
        }
    }
    assert!(missing.is_empty(), "these documents do not exist:\n{}", missing.join("\n"));
}

/// Lines that would have a reader install a package which is not published: whoever registers the name is installed.
fn installs(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| {
        let by_name = ["pip install", "cargo install", "cargo add"].map(|command| format!("{command} lanetree"));
        let is_dependency = line.contains("lanetree = \"") || line.contains("lanetree = { version");
        (by_name.iter().any(|command| line.contains(command.as_str())) && !line.contains("once it is published"))
            || is_dependency && !line.contains("path = ")
    })
}

#[test]
fn no_document_installs_what_is_not_published() {
    let mut found = Vec::new();
    for (path, text) in files(&["md", "ipynb", "py", "rs"]) {
        if !path.ends_with(file!()) {
            found.extend(installs(&text).map(|line| format!("{}: {line}", paths::shown(&path))));
        }
    }
    assert!(found.is_empty(), "these packages are not published; name a checkout:\n{}", found.join("\n"));
    let text = "pip install lanetree\n`cargo install lanetree-ptx`\npip install ./python\nlanetree = { version = \"0.1\" }\n\
                lanetree = { version = \"0.1\", path = \"a\" }\n`cargo install lanetree-ptx`, once it is published";
    assert_eq!(installs(text).count(), 3);
}

#[test]
fn every_svg_file_is_xml() {
    let all = files(&["svg"]);
    assert!(!all.is_empty());
    for (path, text) in all {
        let parsed =
            roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", paths::shown(&path)));
        assert!(parsed.root_element().has_tag_name(("http://www.w3.org/2000/svg", "svg")), "{}", paths::shown(&path));
    }
}

#[test]
fn links_that_lead_nowhere_are_told() {
    let path = paths::root().join("crates/page.md");
    let text = "# A page, of `code`\n[a](../README.md) [b](none.md) `[c](x.md)` [`d`](#a-page-of-code) [e](#none)\n\
                ```\n# no heading [f](y.md)\n```\n[g](https://example.com/z) [h](../README.md#none)";
    let all = BTreeMap::from([(path.clone(), text.to_owned())]);
    let name = "crates/page.md";
    assert_eq!(
        broken(&path, text, &all),
        ["none.md", "#none", "../README.md#none"].map(|target| format!("{name}: {target}"))
    );
}
