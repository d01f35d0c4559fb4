//! Barriers that a compiler has put on both sides of a branch. All threads of a warp must come to the same one, but the compiler does
//! not know that: where a kernel branches by one thing before a barrier and after it, it may write the barrier twice, and a warp
//! whose lanes part waits for itself. The emulator runs the kernel as it is written, so it cannot see it.

use std::collections::BTreeMap;

/// One line for each kernel that has two barriers of which neither can come after the other, but by the next iteration of a loop that
/// both are in.
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
    barriers.len() > 1 && are_on_both_sides(&successors(lines), &barriers)
}

/// Whether there are two of these lines of which neither can come after the other in one iteration of the loops that both are in.
fn are_on_both_sides(next: &[Vec<usize>], barriers: &[usize]) -> bool {
    let reached: Vec<Vec<bool>> = barriers.iter().map(|&at| reached(next, at)).collect();
    (0..barriers.len()).any(|a| {
        let follows = |b: usize| (reached[a][barriers[b]], reached[b][barriers[a]]);
        if (0..a).any(|b| follows(b) == (false, false)) {
            return true;
        }
        // Those in a loop with this one, which is the first of them.
        let in_loop: Vec<usize> = (a + 1..barriers.len()).filter(|&b| follows(b) == (true, true)).collect();
        let is_first = (0..a).all(|b| follows(b) != (true, true));
        is_first && !in_loop.is_empty() && {
            let of_loop: Vec<usize> = [a].into_iter().chain(in_loop).map(|at| barriers[at]).collect();
            are_on_both_sides(&iteration(next, &reached[a], barriers[a]), &of_loop)
        }
    })
}

/// The edges inside a loop, which a line is in from which `reached` are, without those that begin its next iteration.
fn iteration(next: &[Vec<usize>], reached: &[bool], line: usize) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); next.len()];
    for (from, after) in next.iter().enumerate() {
        for &to in after {
            before[to].push(from);
        }
    }
    let reaches = self::reached(&before, line);
    let is_inside = |at: usize| reached[at] && reaches[at];
    // The first line of the loop, or lines, if it is entered at several.
    let is_entry = |at: usize| at == 0 || before[at].iter().any(|&from| !is_inside(from));
    let inside = |(from, after): (usize, &Vec<usize>)| match is_inside(from) {
        true => after.iter().copied().filter(|&to| is_inside(to) && !is_entry(to)).collect(),
        false => Vec::new(),
    };
    next.iter().enumerate().map(inside).collect()
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
    fn barriers_on_both_sides_are_found_in_loops() {
        let both = "\t@%p1 bra $L1;\n\tbar.sync \t0;\n\tbra.uni $L2;\n$L1:\n\tbar.sync \t0;\n$L2:";
        let in_loop = format!("$L0:\n{both}\n\t@%p2 bra $L0;\n\tret;");
        assert_eq!(on_both_sides(&kernel(&in_loop)).len(), 1);
        let in_two = format!("$L0:\n\tbar.sync 0;\n$L9:\n{both}\n\t@%p2 bra $L9;\n\t@%p3 bra $L0;\n\tret;");
        assert_eq!(on_both_sides(&kernel(&in_two)).len(), 1);
    }

    #[test]
    fn barriers_one_after_another_and_in_loops_are_as_written() {
        let line = "\tbar.sync 0;\n\t@%p1 bra $L1;\n\tst.shared.b32 [%r1], 0;\n$L1:\n\tbar.sync 0;\n\tret;";
        assert!(on_both_sides(&kernel(line)).is_empty());
        let in_loop = "$L1:\n\tbar.sync 0;\n\t@%p1 bra $L2;\n\tbar.sync 0;\n\tbra.uni $L1;\n$L2:\n\tret;";
        assert!(on_both_sides(&kernel(in_loop)).is_empty());
        // The loop ends at its first line, and another barrier follows.
        let after_loop = "$L1:\n\t@%p1 bra $L2;\n\tbar.sync 0;\n\tbra.uni $L1;\n$L2:\n\tbar.sync 0;\n\tret;";
        assert!(on_both_sides(&kernel(after_loop)).is_empty());
        // A loop in a loop, with a barrier in each.
        let nested = format!("$L0:\n{}\n\t@%p3 bra $L0;\n\tret;", after_loop.trim_end_matches("\n\tret;"));
        assert!(on_both_sides(&kernel(&nested)).is_empty());
        assert!(on_both_sides(&kernel("\tret;")).is_empty());
    }
}
