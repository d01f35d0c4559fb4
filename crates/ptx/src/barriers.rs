//! Barriers that a compiler has put on both sides of a branch. All threads of a warp must come to the same one, but the compiler does
//! not know that: where a kernel branches by one thing before a barrier and after it, it may write the barrier twice, and a warp
//! whose lanes part waits for itself. The emulator runs the kernel as it is written, so it cannot see it. In a loop, barriers can follow
//! one another by the next iteration: there, this is not found.

use std::collections::BTreeMap;

/// One line for each kernel that has two barriers of which neither can come after the other.
pub(crate) fn on_both_sides(text: &str) -> Vec<String> {
    let kernels = kernels(text).into_iter().filter(|(_, lines)| has_on_both_sides(lines));
    kernels
        .map(|(name, _)| {
            format!(
                "kernel {name} has barriers on both sides of a branch: what it branches by before a barrier is not to be branched by \
                 after it (see `Simt::opaque`)"
            )
        })
        .collect()
}

/// The lines of each kernel's body, by its name.
fn kernels(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut kernels: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once(".entry ") {
            kernels.push((rest.split('(').next().unwrap_or(rest).trim(), Vec::new()));
            is_inside = true;
        } else if line.starts_with('}') {
            is_inside = false;
        } else if let Some((_, lines)) = kernels.last_mut().filter(|_| is_inside) {
            lines.push(line.trim());
        }
    }
    kernels
}

fn has_on_both_sides(lines: &[&str]) -> bool {
    let is_barrier = |line: &str| line.contains("bar.sync") || line.contains("barrier.sync");
    let barriers: Vec<usize> = (0..lines.len()).filter(|&at| is_barrier(lines[at])).collect();
    if barriers.len() < 2 {
        return false;
    }
    let next = successors(lines);
    let reached: Vec<Vec<bool>> = barriers.iter().map(|&at| reached(&next, at)).collect();
    let mut pairs = (0..barriers.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    pairs.any(|(a, b)| !reached[a][barriers[b]] && !reached[b][barriers[a]])
}

/// The lines that may follow each line.
fn successors(lines: &[&str]) -> Vec<Vec<usize>> {
    let labels: BTreeMap<&str, usize> =
        lines.iter().enumerate().filter_map(|(at, line)| Some((line.split_once(':')?.0, at))).collect();
    let labels_in = |text: &str| -> Vec<usize> {
        text.split([' ', '\t', ',', ';']).filter_map(|word| labels.get(word).copied()).collect()
    };
    // A table of jumps: its label, and labels up to a semicolon.
    let targets_of_table = |table: usize| -> Vec<usize> {
        let end = (table..lines.len()).find(|&at| lines[at].ends_with(';')).map_or(lines.len(), |at| at + 1);
        lines[table..end].iter().flat_map(|line| labels_in(line)).collect()
    };
    let after = |at: usize| {
        let line = lines[at];
        let instruction = line.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
        let mut next = match instruction {
            _ if instruction.starts_with("brx") => labels_in(line).into_iter().flat_map(targets_of_table).collect(),
            _ if instruction.starts_with("bra") => labels_in(line),
            _ => Vec::new(),
        };
        let ends = ["bra", "brx", "ret", "exit", "trap"].iter().any(|end| instruction.starts_with(end));
        if (!ends || line.starts_with('@')) && at + 1 < lines.len() {
            next.push(at + 1);
        }
        next
    };
    (0..lines.len()).map(after).collect()
}

/// Which lines may come after one.
fn reached(next: &[Vec<usize>], from: usize) -> Vec<bool> {
    let mut reached = vec![false; next.len()];
    let mut open = next[from].clone();
    while let Some(at) = open.pop() {
        if !core::mem::replace(&mut reached[at], true) {
            open.extend(&next[at]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with these lines.
    fn kernel(lines: &str) -> String {
        format!(".visible .entry own(\n\t.param .u64 x\n)\n{{\n{lines}\n}}\n")
    }

    #[test]
    fn barriers_on_both_sides_of_a_branch_are_found() {
        let both = "\t@%p1 bra $L1;\n\tbar.sync \t0;\n\tbra.uni $L2;\n$L1:\n\tbar.sync \t0;\n$L2:\n\tret;";
        let problems = on_both_sides(&kernel(both));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("kernel own has barriers on both sides"), "{problems:?}");
        let table = "$L_brx:\t.branchtargets $L1, $L2;\n\tbrx.idx %r1, $L_brx;\n$L1:\n\tbar.sync 0;\n\tbra.uni $L3;\n$L2:\n\tbar.sync 0;\n$L3:\n\tret;";
        assert_eq!(on_both_sides(&kernel(table)).len(), 1);
    }

    #[test]
    fn barriers_one_after_another_and_in_loops_are_as_written() {
        let line = "\tbar.sync 0;\n\t@%p1 bra $L1;\n\tst.shared.b32 [%r1], 0;\n$L1:\n\tbar.sync 0;\n\tret;";
        assert!(on_both_sides(&kernel(line)).is_empty());
        let in_loop = "$L1:\n\tbar.sync 0;\n\t@%p1 bra $L2;\n\tbar.sync 0;\n\tbra.uni $L1;\n$L2:\n\tret;";
        assert!(on_both_sides(&kernel(in_loop)).is_empty());
        assert!(on_both_sides(&kernel("\tret;")).is_empty());
    }
}
