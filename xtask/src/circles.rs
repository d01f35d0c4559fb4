//! `imports`, a step of `ci`: no circle of imports among the files and folders of a crate.
//!
//! A crate is read from the bottom up only if imports have a direction. So of two modules in the same parent, each with
//! all that is in its folder, at most one imports from the other, directly or through others. A module and those inside
//! it belong together, and may import each other. Tests do not count. Packages need no check: cargo refuses circles.

use crate::failure::{Failure, Result};
use crate::{packages, paths};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// Checks all packages of the workspace; prints each circle with its imports.
pub(crate) fn run() -> Result<()> {
    let (mut files, mut found) = (0, 0);
    for folder in source_folders()? {
        let sources = read(&folder)?;
        files += sources.len();
        for circle in circles(&imports(&sources).map_err(|reason| wrong(&folder, &reason))?) {
            found += 1;
            println!("{}: {circle}", paths::shown(&folder));
        }
    }
    if found > 0 {
        return Err(Failure::Wrong(format!(
            "circles of imports: {found}; move what both sides need to a file that imports neither of them, or an `impl` \
             block to the file that it needs"
        )));
    }
    println!("{files} files, no circle of imports");
    Ok(())
}

fn wrong(folder: &Path, reason: &str) -> Failure {
    Failure::Wrong(format!("{}: {reason}", paths::shown(folder)))
}

/// The folders `src` of the workspace's packages.
fn source_folders() -> Result<Vec<PathBuf>> {
    let folders = packages::listed()?.into_iter().map(|package| package.manifest_path.with_file_name("src"));
    Ok(folders.filter(|folder| folder.is_dir()).collect())
}

/// A module of a crate: the names from the crate's root on; none for the root.
type Module = Vec<String>;

/// The modules in a folder that are files, with their texts.
fn read(folder: &Path) -> Result<Vec<(Module, String)>> {
    let mut sources = Vec::new();
    let mut folders = vec![(folder.to_owned(), Module::new())];
    while let Some((folder, module)) = folders.pop() {
        for path in paths::list(&folder) {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let is_own = name == "mod" || (module.is_empty() && (name == "lib" || name == "main"));
            let inner = if is_own { module.clone() } else { [&module[..], &[name]].concat() };
            if path.is_dir() {
                folders.push((path, inner));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push((inner, paths::read(&path)?));
            }
        }
    }
    Ok(sources)
}

/// That one file imports from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Import {
    from: Module,
    to: Module,
}

/// The imports among files, without those between a module and one inside it, and without tests.
fn imports(sources: &[(Module, String)]) -> std::result::Result<BTreeSet<Import>, String> {
    let mut scans = Vec::new();
    for (module, text) in sources {
        let tokens: TokenStream = text.parse().map_err(|error| format!("cannot read {}: {error}", shown(module)))?;
        let mut scan = Scan::default();
        scan.read(tokens, module);
        scans.push((module, scan));
    }
    let tests: Vec<_> = scans.iter().flat_map(|(_, scan)| scan.tests.clone()).collect();
    let counts = |module: &Module| !tests.iter().any(|test| module.starts_with(test));
    let files: BTreeSet<_> = sources.iter().map(|(module, _)| module.clone()).filter(|file| counts(file)).collect();
    let mut imports = BTreeSet::new();
    for (from, scan) in scans.into_iter().filter(|(from, _)| counts(from)) {
        for mut to in scan.paths {
            // What remains of the path names an item of that file.
            while !to.is_empty() && !files.contains(&to) {
                to.pop();
            }
            if !to.starts_with(from) && !from.starts_with(&to) {
                imports.insert(Import { from: from.clone(), to });
            }
        }
    }
    Ok(imports)
}

/// What a file says of other modules.
#[derive(Debug, Default)]
struct Scan {
    /// The paths that begin with `crate` or `super`, from the crate's root on. All others lead into the module itself
    /// or to another crate.
    paths: Vec<Module>,
    /// The modules that are compiled for tests only.
    tests: Vec<Module>,
}

impl Scan {
    /// Reads code of the module `here`.
    fn read(&mut self, tokens: TokenStream, here: &Module) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        while let [first, after @ ..] = rest {
            rest = after;
            match (first, after) {
                (TokenTree::Punct(sign), [TokenTree::Group(attribute), item @ ..])
                    if sign.as_char() == '#' && is_for_tests(attribute) =>
                {
                    rest = self.skip(item, here);
                }
                (TokenTree::Ident(word), [TokenTree::Ident(name), TokenTree::Group(body), after @ ..])
                    if word == "mod" && body.delimiter() == Delimiter::Brace =>
                {
                    self.read(body.stream(), &[&here[..], &[name.to_string()]].concat());
                    rest = after;
                }
                (TokenTree::Ident(word), _) if word == "crate" || word == "super" => {
                    rest = self.path(first, after, here.clone());
                }
                (TokenTree::Group(group), _) => self.read(group.stream(), here),
                _ => {}
            }
        }
    }

    /// Reads a path, or the tree of a `use`, that continues `base`; returns what follows it.
    fn path<'t>(&mut self, mut segment: &'t TokenTree, mut rest: &'t [TokenTree], mut base: Module) -> &'t [TokenTree] {
        let mut is_module_only = true;
        loop {
            match segment {
                TokenTree::Ident(word) if word == "crate" => base.clear(),
                TokenTree::Ident(word) if word == "super" => {
                    base.pop();
                }
                TokenTree::Ident(word) if word == "self" => {}
                TokenTree::Ident(word) => {
                    is_module_only = false;
                    base.push(word.to_string().trim_start_matches("r#").to_owned());
                }
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    let tokens: Vec<_> = group.stream().into_iter().collect();
                    for branch in tokens.split(|token| is_sign(token, ',')) {
                        if let [segment, rest @ ..] = branch {
                            let _renamed = self.path(segment, rest, base.clone());
                        }
                    }
                    return rest;
                }
                _ => break,
            }
            match rest {
                [first, second, next, after @ ..] if is_sign(first, ':') && is_sign(second, ':') => {
                    (segment, rest) = (next, after);
                }
                _ => break,
            }
        }
        // `pub(crate)` and `pub(super)` lead to nothing.
        if !is_module_only {
            self.paths.push(base);
        }
        rest
    }

    /// Skips an item for tests, and returns what follows it.
    fn skip<'t>(&mut self, item: &'t [TokenTree], here: &Module) -> &'t [TokenTree] {
        let mut rest = item;
        while let [token, after @ ..] = rest {
            rest = after;
            match (token, after) {
                (TokenTree::Ident(word), [TokenTree::Ident(name), ..]) if word == "mod" => {
                    self.tests.push([&here[..], &[name.to_string()]].concat());
                }
                // The braces of a `use` or a `const` are not the end of it.
                (TokenTree::Group(group), [next, ..])
                    if group.delimiter() == Delimiter::Brace && !is_sign(next, ';') =>
                {
                    break;
                }
                _ if is_sign(token, ';') => break,
                _ => {}
            }
        }
        rest
    }
}

fn is_sign(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// Whether an attribute is `cfg(test)`, or `cfg(all(…))` with `test` among the conditions.
fn is_for_tests(attribute: &Group) -> bool {
    let inner = |tokens: TokenStream, name: &str| {
        let tokens: Vec<_> = tokens.into_iter().collect();
        match &tokens[..] {
            [TokenTree::Ident(word), TokenTree::Group(group)] if word == name => Some(group.stream()),
            _ => None,
        }
    };
    let names_test = |tokens: TokenStream| {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut conditions = tokens.split(|token| is_sign(token, ','));
        conditions.any(|condition| matches!(condition, [TokenTree::Ident(word)] if word == "test"))
    };
    inner(attribute.stream(), "cfg").is_some_and(|condition| match inner(condition.clone(), "all") {
        Some(conditions) => names_test(conditions),
        None => names_test(condition),
    })
}

/// Modules of which each imports from each other, directly or through others.
#[derive(Debug, PartialEq, Eq)]
struct Circle {
    modules: BTreeSet<Module>,
    /// The imports among them.
    imports: Vec<Import>,
}

/// All circles among modules of the same parent.
fn circles(imports: &BTreeSet<Import>) -> Vec<Circle> {
    // Each import leads from one of two modules with the same parent to the other.
    let mut graph: BTreeMap<&[String], BTreeMap<&[String], Vec<&Import>>> = BTreeMap::new();
    for import in imports {
        let same = import.from.iter().zip(&import.to).take_while(|(from, to)| from == to).count();
        let imported = graph.entry(&import.from[..=same]).or_default();
        imported.entry(&import.to[..=same]).or_default().push(import);
    }
    let reached = |from: &[String]| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(imported) = next.pop().map(|module| graph.get(module)) {
            next.extend(imported.into_iter().flat_map(BTreeMap::keys).filter(|module| reached.insert(module.to_vec())));
        }
        reached
    };
    let reached: BTreeMap<_, _> = graph.keys().map(|module| (module.to_vec(), reached(module))).collect();
    let mut circles: Vec<Circle> = Vec::new();
    for (module, all) in reached.iter().filter(|(module, all)| all.contains(*module)) {
        if circles.iter().any(|circle| circle.modules.contains(module)) {
            continue;
        }
        let returns = |other: &&Module| reached.get(*other).is_some_and(|all| all.contains(module));
        let modules: BTreeSet<_> = all.iter().filter(returns).cloned().collect();
        let among = graph.iter().filter(|(from, _)| modules.contains(**from)).flat_map(|(_, imported)| imported);
        let among = among.filter(|(to, _)| modules.contains(**to)).flat_map(|(_, imports)| imports);
        let imports = among.map(|&import| import.clone()).collect();
        circles.push(Circle { modules, imports });
    }
    circles
}

/// A module as its file's path in the folder of sources, without the extension.
fn shown(module: &Module) -> String {
    if module.is_empty() { "the root".to_owned() } else { module.join("/") }
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modules: Vec<_> = self.modules.iter().map(shown).collect();
        write!(f, "{} import each other", modules.join(", "))?;
        self.imports.iter().try_for_each(|Import { from, to }| write!(f, "\n    {} imports {}", shown(from), shown(to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files by their paths in the folder of sources, without the extension; `""` for the root.
    fn imports_of(files: &[(&str, &str)]) -> Vec<String> {
        let imports = imports(&sources(files)).expect("Rust");
        imports.iter().map(|Import { from, to }| format!("{} {}", shown(from), shown(to))).collect()
    }

    fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
        circles(&imports(&sources(files)).expect("Rust")).iter().map(Circle::to_string).collect()
    }

    fn sources(files: &[(&str, &str)]) -> Vec<(Module, String)> {
        let module = |path: &str| path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        files.iter().map(|&(path, text)| (module(path), text.to_owned())).collect()
    }

    #[test]
    fn a_circle_is_shown_with_its_imports() {
        let files = [("a", "use super::b::B;"), ("b", "fn f() { crate::c::f() }"), ("c", "use crate::{a::A, d};")];
        let found = "a, b, c import each other\n    a imports b\n    b imports c\n    c imports a";
        assert_eq!(circles_of(&files), [found]);
        // No circle without each of the three.
        for missing in 0..3 {
            let mut files = files;
            files[missing].1 = "";
            assert_eq!(circles_of(&files), [""; 0], "{missing}");
        }
    }

    #[test]
    fn circles_are_told_apart() {
        let (to_a, to_b) = ("use super::a;", "use super::b;");
        let files = [("x/a", to_b), ("x/b", to_a), ("y/a", to_b), ("y/b", "use super::a; use crate::x;"), ("x", "")];
        let found = circles_of(&files);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("x/a, x/b import") && found[1].starts_with("y/a, y/b import"), "{found:?}");
    }

    #[test]
    fn a_folder_counts_as_one_with_all_that_is_in_it() {
        let files = [("x", ""), ("x/a", "use crate::y::b;"), ("x/c", ""), ("y/b", ""), ("y/d", "use crate::x::c;")];
        let found = "x, y import each other\n    x/a imports y/b\n    y/d imports x/c";
        assert_eq!(circles_of(&files), [found]);
    }

    #[test]
    fn a_module_and_those_inside_it_may_import_each_other() {
        let files = [
            ("", "mod a; use a::A; fn f() { crate::a::f() }"),
            ("a", "mod b; use crate::Root; use self::b::B; use crate::a::b::C;"),
            ("a/b", "use super::A; use super::super::Root; pub(in crate::a) fn f() {} pub(crate) fn g() {}"),
        ];
        assert_eq!(imports_of(&files), [""; 0]);
    }

    #[test]
    fn trees_and_paths_are_followed() {
        let files = [
            ("a", "pub(crate) use crate::{b::{self, B as C, c::*}, d::D, r#e}; use {super::f, std::g};"),
            ("b", ""),
            ("b/c", ""),
            ("d", ""),
            ("e", ""),
            ("f", ""),
            ("g", "impl crate::d::D { fn f(x: Vec<crate::e::E>) -> u8 { m!(super::f::<crate::b::c::X>()) } }"),
        ];
        let found = ["a b", "a b/c", "a d", "a e", "a f", "g b/c", "g d", "g e", "g f"];
        assert_eq!(imports_of(&files), found);
    }

    #[test]
    fn modules_inside_a_file_are_levels_of_paths() {
        let files = [("a", "mod inner { use super::super::b; use super::c; mod deep { use crate::d; } }")];
        let others = [("b", ""), ("c", ""), ("d", "")];
        assert_eq!(imports_of(&[&files[..], &others].concat()), ["a b", "a d"]);
    }

    #[test]
    fn comments_strings_and_other_crates_are_no_imports() {
        let text = "//! [`crate::b::B`]\n// use crate::b;\n/* super::b */ const B: &str = \"use crate::b::B;\";\n\
                    use b::X; use std::b::Y; fn crate_b() { b::f(self::b) }";
        assert_eq!(imports_of(&[("a", text), ("b", "")]), [""; 0]);
    }

    #[test]
    fn tests_do_not_count() {
        let a = "#[cfg(test)] use crate::{b, c};\n#[cfg(all(test, feature = \"x\"))] #[allow(y)] mod t { use crate::b; }\n\
                 #[cfg(test)] mod tests;\n#[cfg(test)] const X: u8 = crate::b::Y { z: 0 };\n\
                 #[cfg(test)] impl crate::b::B { }\nuse crate::d;\n#[cfg(any(test, feature = \"x\"))] use crate::c;\n\
                 #[cfg(not(test))] use crate::e;";
        let test = "use crate::b; use crate::a;";
        let files = [("a", a), ("a/tests", test), ("a/tests/more", test), ("b", ""), ("c", ""), ("d", ""), ("e", "")];
        assert_eq!(imports_of(&files), ["a c", "a d", "a e"]);
    }

    #[test]
    fn what_is_not_rust_is_named() {
        let reason = imports(&sources(&[("x/a", "fn f( {")])).expect_err("the bracket is open");
        assert!(reason.contains("x/a"), "{reason}");
    }

    #[test]
    fn the_tasks_themselves_have_imports_and_no_circle() {
        let folder = paths::root().join("xtask/src");
        assert!(source_folders().expect("cargo runs").contains(&folder));
        let imports = imports(&read(&folder).expect("all files can be read")).expect("Rust");
        let module = |path: &str| path.split('/').map(str::to_owned).collect();
        for (from, to) in [("ci", "circles"), ("ptx", "nvvm"), ("nvvm", "paths")] {
            assert!(imports.contains(&Import { from: module(from), to: module(to) }), "{from} {to}: {imports:?}");
        }
        assert_eq!(circles(&imports), []);
    }
}
