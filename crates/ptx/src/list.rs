//! src/modules.rs of a kernel crate: the list of its modules, written by hand.

use crate::files;
use crate::source::Source;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// One line for each of the modules that the list lacks, and for each that it names beyond them.
pub(crate) fn problems<'a>(source: &Source, modules: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let path = path(source);
    let (name, shown) = (&source.name, files::shown(&path));
    let Some(listed) = files::read(&path).ok().and_then(|text| listed(&text)) else {
        return vec![format!("kernel crate {name}: there is no list `modules! {{ … }}` in {shown}")];
    };
    let modules: BTreeSet<_> = modules.into_iter().map(str::to_owned).collect();
    let forgotten = modules.difference(&listed);
    let forgotten = forgotten
        .map(|module| format!("kernel crate {name}: module {module} is compiled, but {shown} does not list it"));
    let idle = listed.difference(&modules);
    let idle =
        idle.map(|module| format!("kernel crate {name}: {shown} lists module {module}, but no kernel belongs to it"));
    forgotten.chain(idle).collect()
}

/// Where the list is.
pub(crate) fn path(source: &Source) -> PathBuf {
    source.folder.join("src/modules.rs")
}

/// The names in the macro's braces.
fn listed(text: &str) -> Option<BTreeSet<String>> {
    let code: String = text.lines().flat_map(|line| [line.split("//").next().unwrap_or_default(), "\n"]).collect();
    let (_, rest) = code.split_once("modules!")?;
    let (list, _) = rest.trim_start().strip_prefix('{')?.split_once('}')?;
    Some(list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Workspace;

    #[test]
    fn a_forgotten_and_an_idle_module_are_named() {
        let workspace = Workspace::new("list");
        let source = workspace.source("own");
        let list = "//! What modules! lists.\n\nlanetree_simt::modules! {\n    a, // the first\n    // c,\n    b,\n}\n";
        workspace.write("crates/own/kernels/src/modules.rs", list);
        assert!(problems(&source, ["b", "a"]).is_empty());
        let lines = problems(&source, ["a", "c"]);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("crate own: module c is compiled") && lines[0].contains("modules.rs"), "{lines:?}");
        assert!(lines[1].contains("modules.rs lists module b"), "{lines:?}");
    }

    #[test]
    fn a_crate_without_a_list_is_named() {
        let workspace = Workspace::new("no-list");
        let source = workspace.source("own");
        assert!(problems(&source, [])[0].contains("own/kernels/src/modules.rs"));
        workspace.write("crates/own/kernels/src/modules.rs", "macro_rules! modules {\n    () => {};\n}\n");
        assert!(problems(&source, ["a"])[0].contains("no list"));
    }
}
