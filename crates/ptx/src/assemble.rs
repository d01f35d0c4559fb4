//! Assembles modules with ptxas for every architecture, and reads what their kernels need.

use crate::failure::{Failure, Result};
use crate::manifest::Resources;
use crate::ptxas::Ptxas;
use crate::{files, process};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The architectures that the PTX is assembled for: Turing to Blackwell.
pub const ARCHITECTURES: [u32; 7] = [75, 80, 86, 89, 90, 100, 120];

/// Kernels that may use local memory (a stack frame or spills), each with the reason.
pub(crate) const LOCAL_EXPECTED: [(&str, &str); 0] = [];

/// Whether a kernel may use local memory.
pub(crate) fn local_expected(kernel: &str) -> bool {
    LOCAL_EXPECTED.iter().any(|(expected, _)| *expected == kernel)
}

/// What ptxas says of every kernel, by module, architecture and symbol.
pub(crate) type Assembled = BTreeMap<String, BTreeMap<u32, BTreeMap<String, Resources>>>;

/// A file, of which ptxas is to assemble the module, and the architecture to do so for.
pub(crate) type Job = (PathBuf, u32);

/// Every file for every architecture.
pub(crate) fn jobs(files: impl IntoIterator<Item = PathBuf>, architectures: &[u32]) -> Vec<Job> {
    files.into_iter().flat_map(|file| architectures.iter().map(move |sm| (file.clone(), *sm))).collect()
}

/// Assembles modules, named as their files are, on all cores.
///
/// Returns what could be assembled, and one line for each module and architecture that could not.
pub(crate) fn assemble(ptxas: &Ptxas, jobs: &[Job]) -> Result<(Assembled, Vec<String>)> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(jobs.len()) {
            scope.spawn(|| {
                while let Some((file, sm)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = assemble_one(ptxas, file, *sm);
                    done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((module_of(file), *sm, result));
                }
            });
        }
    });
    let mut assembled = Assembled::new();
    let mut failed = Vec::new();
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(module, sm, _)| (*module, *sm));
    for (module, sm, result) in done {
        match result? {
            Ok(kernels) => {
                assembled.entry(module.to_owned()).or_default().insert(sm, kernels);
            }
            Err(reason) => failed.push(format!("module {module} does not assemble for sm_{sm}: {reason}")),
        }
    }
    Ok((assembled, failed))
}

/// The name of the module in a file.
pub(crate) fn module_of(file: &Path) -> &str {
    file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}

/// The outer error: ptxas could not be started. The inner one: what it said.
fn assemble_one(
    ptxas: &Ptxas,
    file: &Path,
    sm: u32,
) -> Result<std::result::Result<BTreeMap<String, Resources>, String>> {
    let mut command = Command::new(&ptxas.path);
    command.arg("-v").arg(format!("-arch=sm_{sm}")).arg(file).args(["-o", "/dev/null"]);
    let output = process::output(&mut command)?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let lines = text.lines().filter(|line| line.contains("error") || line.contains("fatal"));
        let reason: Vec<_> = lines.take(3).map(str::trim).collect();
        return Ok(Err(if reason.is_empty() { text.trim().to_owned() } else { reason.join("; ") }));
    }
    match parse(&text) {
        Some(kernels) => Ok(Ok(kernels)),
        None => {
            let file = files::shown(file);
            Err(Failure::CannotRun(format!("cannot read what ptxas {} says of {file}:\n{text}", ptxas.version)))
        }
    }
}

/// Reads the output of `ptxas -v`.
fn parse(text: &str) -> Option<BTreeMap<String, Resources>> {
    let mut kernels = BTreeMap::new();
    let mut symbol = String::new();
    let mut resources = Resources::default();
    for line in text.lines() {
        // `Compiling entry function 'NAME' for 'sm_90'`
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            symbol = rest.split('\'').next()?.to_owned();
            resources = Resources::default();
        } else if line.contains("bytes stack frame") {
            // `0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads`
            resources.stack = before(line, " bytes stack frame")?;
            resources.spill_stores = before(line, " bytes spill stores")?;
            resources.spill_loads = before(line, " bytes spill loads")?;
        } else if line.contains("Used ") && line.contains(" registers") && !symbol.is_empty() {
            // `Used 32 registers, used 1 barriers, 4096 bytes smem, 400 bytes cmem[0]`
            resources.registers = before(line, " registers")?;
            resources.shared = if line.contains(" bytes smem") { before(line, " bytes smem")? } else { 0 };
            kernels.insert(std::mem::take(&mut symbol), resources);
        }
    }
    (symbol.is_empty() && !kernels.is_empty()).then_some(kernels)
}

/// The number before `unit`.
fn before(line: &str, unit: &str) -> Option<u32> {
    let (head, _) = line.split_once(unit)?;
    head.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The architectures for which all of these modules could be assembled, without local memory that is not expected.
pub(crate) fn in_order_for(assembled: &Assembled, modules: &[&str], architectures: &[u32]) -> Vec<u32> {
    let is_in_order = |kernels: &BTreeMap<String, Resources>| {
        kernels.iter().all(|(kernel, need)| !need.is_in_local_memory() || local_expected(kernel))
    };
    let is_all_in_order = |sm: &u32| {
        let mut kernels = modules.iter().map(|module| assembled.get(*module)?.get(sm));
        kernels.all(|kernels| kernels.is_some_and(is_in_order))
    };
    architectures.iter().copied().filter(is_all_in_order).collect()
}

/// One line for each kernel with spills or a stack frame that are not expected.
pub(crate) fn local_memory(assembled: &Assembled) -> Vec<String> {
    let mut lines = Vec::new();
    for (sm, kernels) in assembled.values().flatten() {
        for (kernel, need) in kernels {
            if need.is_in_local_memory() && !local_expected(kernel) {
                lines.push(format!(
                    "kernel {kernel} uses local memory on sm_{sm}: stack frame {} bytes, spill stores {}, spill loads {}",
                    need.stack, need.spill_stores, need.spill_loads
                ));
            }
        }
    }
    lines
}

/// One line for each kernel that spills more than so many bytes, which no tuning of registers explains: a loop was unrolled
/// that should not be.
pub(crate) fn spilling(assembled: &Assembled, most: u32) -> Vec<String> {
    let mut lines = Vec::new();
    for (sm, kernels) in assembled.values().flatten() {
        for (kernel, need) in kernels.iter().filter(|(_, need)| need.spill_stores > most) {
            lines.push(format!(
                "kernel {kernel} spills {} bytes on sm_{sm}, more than {most}: pass the bound of the loop that was unrolled \
                 through `simt.opaque`",
                need.spill_stores
            ));
        }
    }
    lines
}

/// A table: a line per module, with the fewest and the most registers of its kernels on each
/// architecture that it was assembled for, and the bytes spilled.
pub(crate) fn table(assembled: &Assembled, architectures: &[u32]) -> String {
    let width = assembled.keys().map(String::len).max().unwrap_or(0).max("registers".len());
    let mut text = format!("{:width$}  kernels", "registers");
    for sm in architectures {
        text += &format!("  {:>7}", format!("sm_{sm}"));
    }
    text += "   spills\n";
    for (module, by_architecture) in assembled {
        let kernels = by_architecture.values().map(BTreeMap::len).max().unwrap_or(0);
        text += &format!("{module:width$}  {kernels:7}");
        for sm in architectures {
            let registers = || by_architecture.get(sm).into_iter().flatten().map(|(_, need)| need.registers);
            let cell = match (registers().min(), registers().max()) {
                (Some(fewest), Some(most)) if fewest == most => fewest.to_string(),
                (Some(fewest), Some(most)) => format!("{fewest}-{most}"),
                _ => "-".to_owned(),
            };
            text += &format!("  {cell:>7}");
        }
        let needs = by_architecture.values().flatten().map(|(_, need)| need.spill_stores + need.spill_loads);
        text += &format!("  {:7}\n", needs.sum::<u32>());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'm_f8__a' for 'sm_90'
ptxas info    : Function properties for m_f8__a
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 4096 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 40.707 ms
ptxas info    : Compiling entry function 'm_f8__b' for 'sm_90'
ptxas info    : Function properties for m_f8__b
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 16 bytes cumulative stack size
";

    fn example() -> Assembled {
        let kernels = parse(OUTPUT).expect("well formed");
        [("m_f8".to_owned(), [(90, kernels)].into())].into()
    }

    #[test]
    fn reads_resources() {
        let kernels = parse(OUTPUT).expect("well formed");
        let a = Resources { registers: 32, shared: 4096, ..Resources::default() };
        let b = Resources { registers: 255, shared: 0, stack: 16, spill_stores: 12, spill_loads: 8 };
        assert_eq!(kernels, BTreeMap::from([("m_f8__a".to_owned(), a), ("m_f8__b".to_owned(), b)]));
    }

    #[test]
    fn an_output_without_kernels_is_not_taken_for_success() {
        assert_eq!(parse("ptxas info    : 0 bytes gmem\n"), None);
    }

    #[test]
    fn local_memory_is_reported_by_kernel() {
        let lines = local_memory(&example());
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("m_f8__b") && lines[0].contains("sm_90"), "{lines:?}");
    }

    #[test]
    fn spills_are_told_above_a_number_of_bytes() {
        assert!(spilling(&example(), 12).is_empty());
        let lines = spilling(&example(), 11);
        assert!(lines.len() == 1 && lines[0].contains("m_f8__b spills 12 bytes"), "{lines:?}");
    }

    #[test]
    fn modules_are_in_order_where_all_assemble_without_local_memory() {
        let kernels = |stack| BTreeMap::from([("m__k".to_owned(), Resources { stack, ..Resources::default() })]);
        let mut assembled = Assembled::from([
            ("a".to_owned(), [(75, kernels(0)), (80, kernels(0)), (90, kernels(0))].into()),
            ("b".to_owned(), [(75, kernels(0)), (90, kernels(8))].into()),
        ]);
        assert_eq!(in_order_for(&assembled, &["a"], &[75, 90]), [75, 90]);
        assert_eq!(in_order_for(&assembled, &["a", "b"], &[75, 80, 90, 120]), [75]);
        assembled.remove("b");
        assert!(in_order_for(&assembled, &["a", "b"], &[75]).is_empty());
    }

    #[test]
    fn the_table_has_the_extremes() {
        let table = table(&example(), &[90]);
        let line = table.lines().nth(1).expect("a line for the module");
        assert!(line.starts_with("m_f8") && line.contains("32-255") && line.ends_with("20"), "{table}");
        let other = super::table(&example(), &[75]);
        assert!(other.lines().nth(1).is_some_and(|line| line.contains(" - ")), "not assembled: {other}");
    }
}
