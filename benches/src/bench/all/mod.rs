//! `--figure all`: a record for every figure, each made by processes of its own. `--figure readme`: one record of all that
//! README and its picture say, of one machine; `--figure sorted-windows`: the same of sorted batches. What stands already is
//! passed over, so that the command can be given again until all is there.

mod plan;
mod rivals;

use crate::bench::args::Args;
use crate::bench::error::{Error, Result};
use crate::bench::figure::Takes;
use crate::bench::figures::alone;
use crate::bench::machine;
use crate::bench::made::Making;
use lanetree::{Device, DeviceKind};
use lanetree_console::choice::{Chosen, name};
use lanetree_console::output::{JsonFile, say};
use lanetree_record::{Built, Machine, Record};
use plan::{Piece, Planned};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Seconds that a piece has beyond its own, for the row that it has begun; then it is ended.
const GRACE: u64 = 90;

/// How often a running piece is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What all runs have in common.
struct Campaign<'a> {
    args: &'a Args,
    built: Option<Built>,
    kind: DeviceKind,
    machine: Machine,
    folder: &'a Path,
    deadline: Option<Instant>,
}

/// A run that is to write a record: its arguments but for the file, and the seconds after which it begins no row.
struct Run {
    arguments: Vec<String>,
    seconds: u64,
}

/// Runs the bench with arguments, which writes the record to a path; or says why it could not, and with which exit code.
type Start<'a> = dyn FnMut(&Run, &Path) -> core::result::Result<(), (String, u8)> + 'a;

/// Makes all records that are not there.
///
/// # Errors
/// [`Error::Usage`] for options that do not go together, and for a folder with another card's records; [`Error::All`] if
/// figures failed, or if time was over.
pub(crate) fn run(args: &Args, built: Option<Built>) -> Result<()> {
    let Some(folder) = args.json.as_deref() else {
        return Err(Error::Usage("all and readme write records into a folder: name it with --json DIR".into()));
    };
    let device = match args.device.open()? {
        Chosen::Device(device) => device,
        Chosen::NoGpu(reason) => {
            let ask = "--figure all is for a GPU; ask for --device host or emulated if you want another device";
            return Err(Error::Usage(format!("{ask} ({reason})")));
        }
    };
    fs::create_dir_all(folder).map_err(|error| Error::Usage(format!("cannot make {}: {error}", folder.display())))?;
    let campaign = Campaign::new(args, built, &device, folder)?;
    // The children have the card for themselves.
    drop(device);
    let Some(planned) =
        plan::with_rivals().find(|planned| args.figure.is_some_and(|figure| figure.name == planned.record))
    else {
        return campaign.make(&plan::plan(&args.paper, args.full), &mut start);
    };
    let Some(rivals) = args.rivals.as_deref() else {
        let record = planned.record;
        let needs =
            format!("{record} compares with rivals: name the folder of their programs or sources with --rivals DIR");
        return Err(Error::Usage(needs));
    };
    campaign.make(&[planned], &mut |run, file| {
        if run.arguments[0] != plan::RIVALS {
            return start(run, file);
        }
        let mut making = Making::begin(campaign.built.clone());
        making.arguments.clone_from(&run.arguments);
        let made = serde_json::to_value(making.end(0)).map_err(|error| (error.to_string(), 2))?;
        rivals::run(rivals, &run.arguments[1..], &campaign.machine, args.seed, &made, file)
    })
}

impl<'a> Campaign<'a> {
    fn new(args: &'a Args, built: Option<Built>, device: &Device, folder: &'a Path) -> Result<Self> {
        let seconds = args.max_seconds.map(Duration::from_secs);
        let deadline = seconds.and_then(|seconds| Instant::now().checked_add(seconds));
        Ok(Self { args, built, kind: device.kind(), machine: machine::of(device)?, folder, deadline })
    }

    /// Makes the records of a plan.
    fn make(&self, planned: &[Planned], start: &mut Start<'_>) -> Result<()> {
        say(|out| writeln!(out, "{}", machine::header(&self.machine)))?;
        match &self.built {
            None => eprintln!("warning: not built by cargo xtask: records name no commit, and none is passed over"),
            Some(built) if !built.is_clean => {
                eprintln!("warning: built from changes that are in no commit: records say so, and none is passed over");
            }
            Some(_) => {}
        }
        let (mut failed, mut left) = (Vec::new(), 0);
        let mut code = 0;
        for planned in planned {
            let path = self.folder.join(planned.record).with_extension("json");
            let runs = self.runs(planned);
            if let Some(record) = read(&path) {
                if record.machine.device != self.machine.device {
                    return Err(Error::Usage(format!(
                        "{} is a record of {}, and this is {}: name another folder",
                        path.display(),
                        record.machine.device,
                        self.machine.device
                    )));
                }
                if self.stands(&record, &runs) {
                    say(|out| writeln!(out, "{}: stands", planned.record))?;
                    continue;
                }
            }
            match self.make_one(planned.record, &runs, &path, start)? {
                Made::Whole => {}
                Made::NoTime => left += 1,
                Made::Failed(why, of) => {
                    eprintln!("{}: {why}", planned.record);
                    failed.push(planned.record);
                    code = if of == 1 || code == 1 { 1 } else { of };
                }
            }
        }
        if failed.is_empty() && left == 0 {
            return Ok(());
        }
        let mut what = Vec::new();
        what.extend((!failed.is_empty()).then(|| format!("failed: {}", failed.join(", "))));
        what.extend((left > 0).then(|| format!("{left} records are left: give the command again")));
        Err(Error::All { what: what.join("; "), code: if code == 0 { 2 } else { code } })
    }

    /// Makes a record: makes the runs that have no piece yet, and puts all pieces together.
    fn make_one(&self, name: &str, runs: &[Run], path: &Path, start: &mut Start<'_>) -> Result<Made> {
        let mut pieces = Vec::new();
        for (i, run) in runs.iter().enumerate() {
            let file = self.piece(name, i);
            let standing = read(&file).filter(|record| {
                let is_here = record.machine.is_same_as(&self.machine);
                is_here && self.stands(record, std::slice::from_ref(run))
            });
            let record = match standing {
                Some(record) => record,
                None => {
                    let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                    if left.is_some_and(|left| left < Duration::from_secs(run.seconds)) {
                        return Ok(Made::NoTime);
                    }
                    let folder = file.parent().unwrap_or(self.folder);
                    let made = fs::create_dir_all(folder);
                    made.map_err(|error| Error::Usage(format!("cannot make {}: {error}", folder.display())))?;
                    let begin = Instant::now();
                    if let Err((why, code)) = start(run, &file) {
                        return Ok(Made::Failed(why, code));
                    }
                    let Some(record) = read(&file) else {
                        return Ok(Made::Failed(format!("{} is no record", file.display()), 2));
                    };
                    let (rows, skipped, seconds) = (record.rows.len(), record.skipped.len(), begin.elapsed().as_secs());
                    say(|out| {
                        writeln!(out, "{name}: {rows} rows, {skipped} not measured, {seconds} s of {}", run.seconds)
                    })?;
                    record
                }
            };
            pieces.push(record);
        }
        let Some(whole) = pieces.into_iter().reduce(joined) else { return Ok(Made::Whole) };
        // A file that is there is whole.
        let temporary = self.piece(name, runs.len());
        JsonFile::create(&temporary)?.write(&whole)?;
        fs::rename(&temporary, path)
            .map_err(|error| Error::Usage(format!("cannot write {}: {error}", path.display())))?;
        for i in 0..runs.len() {
            // One that stays is made again or read again; nothing is lost.
            let _ = fs::remove_file(self.piece(name, i));
        }
        let _ = fs::remove_dir(self.folder.join(PIECES));
        Ok(Made::Whole)
    }

    /// The file of a piece, until the record is whole.
    fn piece(&self, name: &str, i: usize) -> PathBuf {
        self.folder.join(PIECES).join(format!("{name}.{i}.json"))
    }

    /// Whether a record is what these runs would make: by the same program, from the same seed.
    fn stands(&self, record: &Record, runs: &[Run]) -> bool {
        let is_known = self.built.as_ref().is_some_and(|built| built.is_clean);
        is_known
            && record.failure.is_none()
            && record.machine.device == self.machine.device
            && record.made.len() == runs.len()
            && record
                .made
                .iter()
                .zip(runs)
                .all(|(made, run)| made.built == self.built && made.arguments == run.arguments)
    }

    /// The runs of a record. On a GPU sizes are the plan's; on other devices, in quick runs and where the caller has
    /// named some, they are the caller's or else each figure's own.
    fn runs(&self, planned: &Planned) -> Vec<Run> {
        let args = self.args;
        let is_planned =
            self.kind == DeviceKind::Cuda && !args.quick && args.sizes.is_empty() && args.queries.is_none();
        let mut runs: Vec<Run> = Vec::new();
        for piece in &planned.pieces {
            let arguments = self.arguments(piece, is_planned);
            // Pieces differ in their sizes.
            match runs.iter_mut().find(|run| run.arguments == arguments) {
                Some(run) => run.seconds = run.seconds.max(piece.seconds),
                None => runs.push(Run { arguments, seconds: piece.seconds }),
            }
        }
        for run in &mut runs {
            run.arguments.extend(["--max-seconds".into(), run.seconds.to_string()]);
        }
        runs
    }

    fn arguments(&self, piece: &Piece, is_planned: bool) -> Vec<String> {
        let args = self.args;
        let words = piece.words();
        if words.first() == Some(&plan::RIVALS) {
            return words.into_iter().map(Into::into).collect();
        }
        let figure = alone().find(|figure| words.get(1) == Some(&figure.name));
        let takes = figure.map_or(Takes::SIZES, |figure| figure.takes);
        let mut arguments: Vec<String> = match (is_planned, figure) {
            (true, _) => words.into_iter().map(Into::into).collect(),
            (false, Some(figure)) => vec!["--figure".into(), figure.name.into()],
            (false, None) => Vec::new(),
        };
        if takes.sizes && !args.sizes.is_empty() {
            let sizes: Vec<String> = args.sizes.iter().map(ToString::to_string).collect();
            arguments.extend(["--sizes".into(), sizes.join(",")]);
        }
        if let Some(queries) = args.queries {
            arguments.extend(["--queries".into(), queries.to_string()]);
        }
        if let Some(input) = args.input.as_ref().filter(|_| takes.input) {
            arguments.extend(["--input".into(), input.display().to_string()]);
        }
        arguments.extend(args.quick.then(|| "--quick".into()));
        arguments.extend(["--device".into(), name(self.kind).into()]);
        arguments.extend(["--seed".into(), args.seed.to_string()]);
        arguments
    }
}

/// Where pieces of records lie until these are whole.
const PIECES: &str = "pieces";

/// What came of a record.
enum Made {
    Whole,
    NoTime,
    Failed(String, u8),
}

/// A record; `None` if the file is not there, or is none.
fn read(path: &Path) -> Option<Record> {
    Record::parse(&fs::read_to_string(path).ok()?).ok()
}

/// Two pieces as one record, of the machine and the day of the first.
fn joined(mut first: Record, second: Record) -> Record {
    first.rows.extend(second.rows);
    first.counts.extend(second.counts);
    first.skipped.extend(second.skipped);
    first.made.extend(second.made);
    first.failure = first.failure.or(second.failure);
    first
}

/// Starts the bench and waits for it; what it says goes to stderr alone. One that goes on for too long is ended.
fn start(run: &Run, file: &Path) -> core::result::Result<(), (String, u8)> {
    let failed = |error: std::io::Error| (format!("the bench did not start: {error}"), 2);
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(&run.arguments).arg("--json").arg(file).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let end = Instant::now() + Duration::from_secs(run.seconds + GRACE);
    loop {
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2);
                return Err((format!("`{}` ended with {status}", run.arguments.join(" ")), code));
            }
            None if Instant::now() > end => {
                // It may have ended by itself in between.
                let _ = child.kill();
                let _ = child.wait();
                return Err((format!("`{}` took more than {} s", run.arguments.join(" "), run.seconds + GRACE), 2));
            }
            None => std::thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::args::Paper::Cubpt;
    use crate::bench::report::Report;
    use clap::Parser;

    fn built(commit: &str, is_clean: bool) -> Built {
        Built { commit: commit.into(), is_clean, rustc: "rustc 1".into(), ptx_sha256: "ab".into() }
    }

    fn asked_by(line: &str) -> Args {
        Args::try_parse_from(["bench", "--figure", "all"].into_iter().chain(line.split_whitespace())).unwrap()
    }

    /// Makes the records of CUBPT by runs that only write what they were asked for; gives the arguments of those.
    fn make(
        folder: &Path,
        args: &Args,
        built: Built,
        kind: DeviceKind,
        fail: Option<&str>,
    ) -> (Vec<String>, Result<()>) {
        let mut campaign = Campaign::new(args, Some(built.clone()), &Device::host(), folder).unwrap();
        campaign.kind = kind;
        let machine = campaign.machine.clone();
        let mut asked = Vec::new();
        let outcome = campaign.make(&plan::plan(&[Cubpt], false), &mut |run, file| {
            let line = run.arguments.join(" ");
            asked.push(line.clone());
            if fail.is_some_and(|fail| line.contains(fail)) {
                return Err(("wrong".into(), 1));
            }
            let mut record = Report::new(machine.clone(), DeviceKind::Host, args.seed).record;
            record.made.push(lanetree_record::Made {
                arguments: run.arguments.clone(),
                began: String::new(),
                seconds: 1,
                rows: 0,
                built: Some(built.clone()),
                checked: String::new(),
                environment: Vec::new(),
            });
            JsonFile::create(file).unwrap().write(&record).unwrap();
            Ok(())
        });
        (asked, outcome)
    }

    #[test]
    fn what_stands_at_the_same_commit_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let args = asked_by("--json x");
        let (asked, outcome) = make(folder, &args, built("a", true), DeviceKind::Cuda, None);
        outcome.unwrap();
        // Inserts are made in two pieces, and are one record.
        assert_eq!((asked.len(), asked.iter().filter(|line| line.contains("cubpt-inserts")).count()), (5, 2));
        let whole = read(&folder.join("cubpt-inserts.json")).unwrap();
        assert!(whole.made[0].arguments.contains(&"23".into()) && whole.made[1].arguments.contains(&"22".into()));
        assert!(!folder.join(PIECES).exists());
        assert_eq!(make(folder, &args, built("a", true), DeviceKind::Cuda, None).0, [""; 0]);
        // Another commit, one with changes, and another seed are something else.
        assert_eq!(make(folder, &args, built("b", true), DeviceKind::Cuda, None).0.len(), 5);
        assert_eq!(make(folder, &args, built("b", false), DeviceKind::Cuda, None).0.len(), 5);
        assert_eq!(make(folder, &args, built("b", false), DeviceKind::Cuda, None).0.len(), 5);
        let other_seed = asked_by("--json x --seed 2");
        assert_eq!(make(folder, &other_seed, built("b", true), DeviceKind::Cuda, None).0.len(), 5);
    }

    #[test]
    fn a_piece_that_is_missing_is_made_and_a_failure_leaves_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let args = asked_by("--json x");
        let (asked, outcome) = make(folder, &args, built("a", true), DeviceKind::Cuda, Some("--sizes 22"));
        let error = outcome.unwrap_err();
        assert_eq!((asked.len(), error.exit_code()), (5, 1));
        assert_eq!(error.to_string(), "failed: cubpt-inserts");
        assert!(folder.join("cubpt-orders.json").is_file() && !folder.join("cubpt-inserts.json").exists());
        let (asked, outcome) = make(folder, &args, built("a", true), DeviceKind::Cuda, None);
        outcome.unwrap();
        assert!(asked.len() == 1 && asked[0].contains("--sizes 22"), "{asked:?}");
    }

    #[test]
    fn time_that_is_over_is_told_and_another_card_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (asked, outcome) =
            make(folder, &asked_by("--json x --max-seconds 45"), built("a", true), DeviceKind::Cuda, None);
        let error = outcome.unwrap_err();
        // Those that may take longer are not begun.
        assert_eq!((asked.len(), error.exit_code()), (2, 2));
        assert_eq!(error.to_string(), "2 records are left: give the command again");
        let path = folder.join("cubpt-orders.json");
        let text = fs::read_to_string(&path).unwrap().replace(&Device::host().to_string(), "NVIDIA H100 (cuda:0)");
        fs::write(&path, text).unwrap();
        let error = make(folder, &asked_by("--json x"), built("a", true), DeviceKind::Cuda, None).1.unwrap_err();
        assert!(error.to_string().contains("is a record of NVIDIA H100 (cuda:0)"), "{error}");
    }

    #[test]
    fn sizes_of_the_caller_replace_those_of_the_plan() {
        let folder = tempfile::tempdir().unwrap();
        let args = asked_by("--json x --sizes 8,9 --queries 7 --quick");
        let (asked, _) = make(folder.path(), &args, built("a", true), DeviceKind::Emulated, None);
        let builds = &asked[0];
        assert!(
            builds.starts_with("--figure cubpt-builds --sizes 8,9 --queries 7 --quick --device emulated"),
            "{builds}"
        );
        assert!(builds.ends_with(" --max-seconds 110"), "{builds}");
        assert_eq!(asked.len(), 4, "pieces that are the same are one");
    }
}
