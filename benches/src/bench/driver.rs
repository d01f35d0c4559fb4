//! Which trees are built, and what is measured over each.

use super::columns::power;
use super::data::{BenchWord, Data, MAX_LEN};
use super::error::{Error, Result};
use super::figure::{At, Figure, Keys, Needs, Part, Request, Run, Tree};
use super::plan::{STANDARD, main_of};
use super::session::Session;
use crate::keys::{self, FileKey, Format};
use core::fmt::Display;
use std::path::Path;

/// Reads a file of keys.
///
/// # Errors
/// What is wrong with the file; [`Error::Usage`] for one with too many keys.
pub(crate) fn read<W: BenchWord + FileKey>(session: &Session, path: &Path, format: Format) -> Result<Data<W>> {
    session.doing(format_args!("reading {}", path.display()));
    let keys = keys::read::<W>(path, format)?;
    if keys.len() > MAX_LEN {
        let (name, len) = (path.display(), keys.len());
        return Err(Error::Usage(format!(
            "{name} has {len} keys, and at most {} can be measured",
            power(MAX_LEN as u64)
        )));
    }
    let source = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(Data::distinct(keys, source))
}

/// Measures a figure that is no part: over these keys, or else over uniform ones.
///
/// # Errors
/// What ended it. The session keeps the rows before that.
pub(crate) fn figure(session: &mut Session, figure: &Figure, request: &Request, keys: Option<Keys>) -> Result<()> {
    let name = figure.name;
    if figure.needs == Needs::Kernels && !session.runs_kernels() {
        session.skip(format_args!("figure {name}: skipped: no GPU (--device emulated runs its kernels, slowly)"));
        return Ok(());
    }
    match (&figure.run, keys) {
        (Run::Alone(run), _) => run(session, request),
        (Run::OverKeys(_, run), Some(keys)) => run(session, keys),
        (Run::OverKeys(At::MainSize, run), None) => run(session, uniform(session, main_of(&request.sizes))),
        (Run::OverKeys(At::EverySize, run), None) => {
            for &size in &request.sizes {
                let what = format!("{name}, n = 2^{size}");
                if session.has_time(&what) {
                    let keys = uniform(session, size);
                    within_memory(run(session, keys), session, &what)?;
                }
            }
            Ok(())
        }
        (Run::Part(_), _) => unreachable!("a part is measured with the others"),
    }
}

/// Measures parts: of trees over these keys, or else over uniform ones.
///
/// # Errors
/// As [`figure`].
pub(crate) fn parts(session: &mut Session, parts: &[&Figure], keys: Option<Keys>) -> Result<()> {
    let mut run = Vec::with_capacity(parts.len());
    for figure in parts {
        if figure.needs == Needs::Kernels && !session.runs_kernels() {
            session.skip(format_args!("{}: no GPU", figure.name));
        } else if let Run::Part(part) = &figure.run {
            run.push((*figure, part));
        }
    }
    for (_, part) in &run {
        if let Part::Ceilings { first, .. } = part {
            first(session)?;
        }
    }
    if let Some(keys) = keys {
        for (_, part) in &run {
            if let Part::OnCpu(measure) = part {
                measure(session, &keys)?;
            }
        }
        return of_tree(session, &run, keys, At::MainSize);
    }
    let sizes = session.plan.sizes(&STANDARD);
    let main = main_of(&sizes);
    for size in sizes {
        let at = if size == main { At::MainSize } else { At::EverySize };
        let keys = |session: &Session| uniform(session, size);
        of_uniform(session, &run, size, "u64", at, keys)?;
    }
    let narrow = |session: &Session| Data::<u32>::uniform(1 << main, session.seed_of(main)).into();
    of_uniform(session, &run, main, "u32", At::EverySize, narrow)?;
    for (_, part) in &run {
        if let Part::OverUniform(measure) = part {
            measure(session, &Data::uniform(1 << main, session.seed_of(main)))?;
        }
    }
    for (figure, part) in &run {
        if let Part::OnCpu(measure) = part {
            for size in session.plan.sizes(figure.sizes) {
                if session.has_time(format_args!("CPU, n = 2^{size}")) {
                    let keys = uniform(session, size);
                    measure(session, &keys)?;
                }
            }
        }
    }
    Ok(())
}

/// Uniform keys of 64 bits.
fn uniform(session: &Session, size: u32) -> Keys {
    Data::<u64>::uniform(1 << size, session.seed_of(size)).into()
}

/// Builds a tree over uniform keys, if any part measures one and there is time, and measures it.
fn of_uniform(
    session: &mut Session,
    parts: &[(&Figure, &Part)],
    size: u32,
    word: &str,
    at: At,
    keys: impl FnOnce(&Session) -> Keys,
) -> Result<()> {
    let what = format!("n = 2^{size}, {word} keys");
    let is_of_tree = |part: &Part| matches!(part, Part::Ceilings { .. } | Part::OfTree(..) | Part::AfterTree(_));
    if !parts.iter().any(|(_, part)| is_of_tree(part)) || !session.has_time(&what) {
        return Ok(());
    }
    let keys = keys(session);
    within_memory(of_tree(session, parts, keys, at), session, &what)
}

/// Builds a tree, and measures what all trees are measured for, or what the main one is.
fn of_tree(session: &mut Session, parts: &[(&Figure, &Part)], keys: Keys, at: At) -> Result<()> {
    let tree = Tree::build(session, keys)?;
    for (_, part) in parts {
        match part {
            Part::Ceilings { of_tree, .. } => of_tree(session, &tree)?,
            Part::OfTree(of, measure) if *of == At::EverySize || at == At::MainSize => measure(session, &tree)?,
            _ => {}
        }
    }
    let keys = tree.into_keys();
    for (_, part) in parts {
        if let Part::AfterTree(measure) = part
            && at == At::MainSize
        {
            measure(session, &keys)?;
        }
    }
    Ok(())
}

/// A tree for which the device's memory is too small leaves the others to be measured.
pub(crate) fn within_memory(result: Result<()>, session: &mut Session, what: &dyn Display) -> Result<()> {
    match result {
        Err(error) if error.is_out_of_memory() => {
            session.skip(format_args!("{what}: {error}"));
            Ok(())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::FIGURES;
    use crate::bench::session::tests::session;
    use lanetree::Device;

    #[test]
    fn kernels_are_not_measured_on_the_host() {
        let mut session = session(Device::host());
        let request = Request { sizes: vec![9], input: None };
        let kernels: Vec<&Figure> = FIGURES
            .iter()
            .filter(|figure| figure.needs == Needs::Kernels && !matches!(figure.run, Run::Part(_)))
            .collect();
        for kernel in &kernels {
            figure(&mut session, kernel, &request, None).unwrap();
        }
        assert!(session.report.record.rows.is_empty());
        assert_eq!(session.report.record.skipped.len(), kernels.len());
        assert!(session.report.record.skipped.iter().all(|why| why.contains("no GPU")));
    }
}
