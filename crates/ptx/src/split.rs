//! Takes the compiler's PTX apart: one text per module, the same on every machine.

use std::collections::{BTreeMap, HashSet};

/// One PTX module: the kernels of one file. The runtime takes it apart again, as kernels are loaded one by one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// Its name: what its symbols begin with, up to the double underscore.
    pub(crate) name: String,
    /// The symbols of its entries, sorted.
    pub(crate) kernels: Vec<String>,
    /// The PTX text.
    pub(crate) text: String,
}

/// Whether functions that were not inlined may stay in the PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    /// rustc's own target inlines all; a call left over is slow, and usually panic machinery.
    Refuse,
    /// rust-cuda's code generator gives no such guarantee.
    Keep,
}

/// Splits the PTX of a kernel crate into its modules, sorted by name.
///
/// Module-level declarations go to the modules that use them. Comments and blank lines go; labels and
/// parameters lose the prefixes that number the functions of the file, so that a kernel's text does
/// not depend on its neighbours.
pub(crate) fn split(ptx: &str, calls: Calls) -> Result<Vec<Module>, String> {
    let mut header = Vec::new();
    let mut shared = Vec::new();
    let mut entries: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut functions = Vec::new();
    for statement in statements(ptx)? {
        match Statement::of(&statement)? {
            Statement::Header => header.push(statement),
            Statement::Declaration(name) => shared.push((name, statement)),
            Statement::Function(name) => {
                if !functions.contains(&name) {
                    functions.push(name.clone());
                }
                shared.push((name, statement));
            }
            Statement::Entry(symbol) => {
                let Some((module, _)) = symbol.split_once("__") else {
                    return Err(format!("entry {symbol}: the symbol is not of the form MODULE__KERNEL"));
                };
                let text = statement.replace(&format!("{symbol}_param_"), "param_");
                if entries.entry(module.to_owned()).or_default().insert(symbol.clone(), text).is_some() {
                    return Err(format!("entry {symbol} is defined twice"));
                }
            }
        }
    }
    if calls == Calls::Refuse && !functions.is_empty() {
        return Err(format!(
            "functions that were not inlined into the kernels: {}. A bounds check, an overflow check or a \
             recursion keeps such a call: index unchecked, or mark the function #[inline(always)]",
            functions.join(", ")
        ));
    }
    let modules = entries.into_iter().map(|(name, kernels)| {
        let declarations = used(&shared, kernels.values());
        let parts = header.iter().map(String::as_str).chain(declarations).chain(kernels.values().map(String::as_str));
        let mut text: String = parts.collect::<Vec<_>>().join("\n");
        text.push('\n');
        Module { name, kernels: kernels.into_keys().collect(), text }
    });
    Ok(modules.collect())
}

/// The PTX version that a module's text states: `7.4`.
pub(crate) fn isa(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix(".version ")).map(str::trim)
}

/// The kernels of a module's text that keep variables in local memory: in DRAM, thread by thread.
pub(crate) fn kernels_with_local(text: &str) -> Vec<&str> {
    kernels_with(text, |line| line.trim_start().starts_with(".local"))
}

/// The kernels of a module's text that have such a line.
pub fn kernels_with(text: &str, is_sought: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut found = Vec::new();
    let mut kernel = "";
    for line in text.lines() {
        if let Some(rest) = line.split_once(".entry ") {
            kernel = rest.1.split(['(', ' ']).next().unwrap_or_default();
        } else if is_sought(line) && found.last() != Some(&kernel) {
            found.push(kernel);
        }
    }
    found
}

/// The declarations that the texts refer to, directly or through one another, in their order.
fn used<'a>(shared: &'a [(String, String)], texts: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut words: HashSet<&str> = texts.flat_map(|text| identifiers(text)).collect();
    let mut taken = vec![false; shared.len()];
    loop {
        let mut more = false;
        for ((name, text), taken) in shared.iter().zip(&mut taken) {
            if !*taken && words.contains(name.as_str()) {
                *taken = true;
                more = true;
                words.extend(identifiers(text));
            }
        }
        if !more {
            break;
        }
    }
    shared.iter().zip(taken).filter(|(_, taken)| *taken).map(|((_, text), _)| text.as_str()).collect()
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "_$%".contains(c)))
}

enum Statement {
    Header,
    Declaration(String),
    Function(String),
    Entry(String),
}

impl Statement {
    fn of(statement: &str) -> Result<Self, String> {
        let first = statement.lines().next().unwrap_or_default();
        let directive = first.split_whitespace().next().unwrap_or_default();
        let unnamed = || format!("cannot make out a name in the PTX statement `{first}`");
        if [".version", ".target", ".address_size"].contains(&directive) {
            return Ok(Self::Header);
        }
        if [".file", ".section", ".loc"].contains(&directive) {
            return Err(format!("debug information in the PTX (`{first}`): the profile `ptx` must not ask for it"));
        }
        let words: Vec<_> = first.split([' ', '(']).collect();
        if let Some((_, rest)) = statement.split_once(".entry ").filter(|_| words.contains(&".entry")) {
            return callable(rest).map(Self::Entry).ok_or_else(unnamed);
        }
        if let Some((_, rest)) = statement.split_once(".func").filter(|_| words.contains(&".func")) {
            return callable(rest).map(Self::Function).ok_or_else(unnamed);
        }
        let declared = statement.split(['[', '=', ';']).next().unwrap_or_default();
        let name = declared.split_whitespace().last().filter(|name| !name.starts_with('.'));
        name.map(|name| Self::Declaration(name.to_owned())).ok_or_else(unnamed)
    }
}

/// The name in what follows `.entry` or `.func`: after the return values, before the parameters.
fn callable(rest: &str) -> Option<String> {
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('(') {
        Some(results) => results.split_once(')')?.1.trim_start(),
        None => rest,
    };
    identifiers(rest).next().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The statements at the top level, normalised.
fn statements(ptx: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    let mut current = String::new();
    let (mut braces, mut parentheses) = (0, 0);
    for line in ptx.lines() {
        if let Some((_, bounds)) = line.split_once("// launch_bounds ") {
            bound_launches(&mut current, bounds)?;
            continue;
        }
        let code = line.split("//").next().unwrap_or_default();
        let code = code.split_whitespace().collect::<Vec<_>>().join(" ");
        if code.is_empty() {
            continue;
        }
        let outermost = braces == 0 && parentheses == 0;
        for c in code.chars() {
            match c {
                '{' => braces += 1,
                '}' => braces -= 1,
                '(' => parentheses += 1,
                ')' => parentheses -= 1,
                _ => {}
            }
        }
        if !current.is_empty() {
            current.push('\n');
        }
        let closes = braces == 0 && parentheses == 0 && (code.starts_with('}') || code.starts_with(')'));
        if !outermost && !closes && !code.ends_with(':') {
            current.push('\t');
        }
        current.push_str(&shorten_labels(&code));
        let header = [".version", ".target", ".address_size"].iter().any(|directive| code.starts_with(directive));
        if braces == 0 && parentheses == 0 && (header || code.ends_with(';') || code.ends_with('}')) {
            all.push(std::mem::take(&mut current));
        }
    }
    if current.is_empty() { Ok(all) } else { Err(format!("the PTX ends within the statement `{current}`")) }
}

/// Gives an entry the directives for its launch bounds, which rustc has no way to write: the kernel's
/// entry point says them in a comment, `// launch_bounds THREADS BLOCKS`.
fn bound_launches(entry: &mut String, bounds: &str) -> Result<(), String> {
    let mut numbers = bounds.split_whitespace().map(str::parse::<u32>);
    let (Some(Ok(threads)), Some(Ok(blocks)), None) = (numbers.next(), numbers.next(), numbers.next()) else {
        return Err(format!("`// launch_bounds {bounds}`: two numbers are expected, threads and blocks"));
    };
    let Some(body) = entry.find("\n{") else {
        return Err(format!("`// launch_bounds {bounds}` stands outside of an entry's body"));
    };
    entry.insert_str(body, &format!("\n.maxntid {threads}, 1, 1\n.minnctapersm {blocks}"));
    Ok(())
}

/// `$L__BB17_4`, the fourth label of the 17th function of the file, becomes `$L4`: labels are local to
/// their function.
fn shorten_labels(code: &str) -> String {
    let mut parts = code.split("$L__BB");
    let mut short = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let label = part.trim_start_matches(|c: char| c.is_ascii_digit());
        match label.strip_prefix('_') {
            Some(label) => short.extend(["$L", label]),
            None => short.extend(["$L__BB", part]),
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "//
// Generated by LLVM NVPTX Back-End
//
.version 7.4
.target sm_75
.address_size 64

.extern .shared .align 16 .b8 arena[];
.global .align 4 .b8 table[8] = {1, 0, 0, 0, 2};
\t// .globl\tb_f8__get

.visible .entry b_f8__get(
\t.param .align 8 .b8 b_f8__get_param_0[16]
)
{
\t.reg .b64 \t%rd<2>;

\tld.param.b64 \t%rd1, [b_f8__get_param_0+8];
\t// begin inline asm
\t{ .reg .u64 a; mov.u64 a, arena; }
\t// end inline asm
\t@%p1 bra \t$L__BB0_2;
$L__BB0_2:
\tret;

}
.visible .entry a_f8__rank(
\t.param .u32 a_f8__rank_param_0
)
.maxntid 256, 1, 1
{
\tmov.b64 \t%rd1, table;
\tbra.uni \t$L__BB31_12;
$L__BB31_12:
\tret;
}
.visible .entry a_f8__get()
{
\tret;
}
";

    #[test]
    fn one_module_per_prefix_with_its_entries_sorted() {
        let modules = split(PTX, Calls::Refuse).expect("the PTX is well formed");
        assert_eq!(modules.len(), 2);
        assert_eq!(modules[0].name, "a_f8");
        assert_eq!(modules[0].kernels, ["a_f8__get", "a_f8__rank"]);
        assert_eq!(modules[1].kernels, ["b_f8__get"]);
    }

    #[test]
    fn normalises_comments_space_labels_and_parameters() {
        let modules = split(PTX, Calls::Refuse).expect("the PTX is well formed");
        let expected = ".version 7.4
.target sm_75
.address_size 64
.extern .shared .align 16 .b8 arena[];
.visible .entry b_f8__get(
\t.param .align 8 .b8 param_0[16]
)
{
\t.reg .b64 %rd<2>;
\tld.param.b64 %rd1, [param_0+8];
\t{ .reg .u64 a; mov.u64 a, arena; }
\t@%p1 bra $L2;
$L2:
\tret;
}
";
        assert_eq!(modules[1].text, expected);
    }

    #[test]
    fn a_declaration_goes_only_where_it_is_used() {
        let modules = split(PTX, Calls::Refuse).expect("the PTX is well formed");
        assert!(modules[0].text.contains(".global .align 4 .b8 table[8] = {1, 0, 0, 0, 2};"));
        assert!(!modules[0].text.contains("arena"));
        assert!(modules[0].text.contains(".maxntid 256, 1, 1\n"));
    }

    #[test]
    fn the_order_of_entries_in_the_file_does_not_matter() {
        let swapped = PTX.replace("$L__BB0_", "$L__BB7_");
        assert_eq!(split(PTX, Calls::Refuse), split(&swapped, Calls::Refuse));
    }

    const CALL: &str = ".version 7.4
.func (.param .b32 func_retval0) _ZN4core9panicking
(
\t.param .b64 p
)
;
.visible .entry m__k(
)
{
\tcall.uni _ZN4core9panicking, (p);
}
";

    #[test]
    fn a_call_that_was_not_inlined_is_named() {
        let error = split(CALL, Calls::Refuse).expect_err("there is a function");
        assert!(error.contains("_ZN4core9panicking"), "{error}");
    }

    #[test]
    fn a_call_may_be_kept() {
        let modules = split(CALL, Calls::Keep).expect("calls are allowed");
        assert!(modules[0].text.contains(".func (.param .b32 func_retval0) _ZN4core9panicking"));
    }

    #[test]
    fn a_symbol_without_a_module_is_named() {
        let error = split(".visible .entry lonely(\n)\n{\n\tret;\n}\n", Calls::Refuse).expect_err("no module");
        assert!(error.contains("lonely"), "{error}");
    }

    #[test]
    fn launch_bounds_become_directives() {
        let text = ".visible .entry m__k(\n)\n{\n\t// begin inline asm\n\t// launch_bounds 256 6\n\tret;\n}\n";
        let modules = split(text, Calls::Refuse).expect("the PTX is well formed");
        assert_eq!(modules[0].text, ".visible .entry m__k(\n)\n.maxntid 256, 1, 1\n.minnctapersm 6\n{\n\tret;\n}\n");
        let error = split("// launch_bounds 256\n", Calls::Refuse).expect_err("one number");
        assert!(error.contains("launch_bounds 256"), "{error}");
    }

    #[test]
    fn a_truncated_text_is_an_error() {
        let error = split(".visible .entry m__k(\n)\n{\n\tret;\n", Calls::Refuse).expect_err("no closing brace");
        assert!(error.contains("ends within"), "{error}");
    }

    #[test]
    fn an_empty_text_has_no_modules() {
        assert_eq!(split("", Calls::Refuse), Ok(Vec::new()));
    }

    #[test]
    fn the_ptx_version_is_read() {
        assert_eq!(isa(PTX), Some("7.4"));
        assert_eq!(isa("// nothing\n"), None);
    }

    #[test]
    fn local_memory_is_found_by_kernel() {
        let text = ".visible .entry m__a(\n)\n{\n\tret;\n}\n.visible .entry m__b(\n)\n{\n\t\
            .local .align 8 .b8 __local_depot0[16];\n\t.local .b32 x;\n}\n";
        assert_eq!(kernels_with_local(text), ["m__b"]);
    }
}
