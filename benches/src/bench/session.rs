//! A run in progress: how it measures, checks and keeps count.

use crate::bench::ceilings::Ceilings;
use crate::bench::data::mix;
use crate::bench::error::{Error, Result};
use crate::bench::output::Output;
use crate::bench::plan::Plan;
use crate::bench::report::Report;
use crate::bench::row::Row;
use bytemuck::Pod;
use core::fmt::Display;
use core::ops::{DerefMut, Range};
use core::time::Duration;
use indicatif::{ProgressBar, ProgressStyle};
use lanetree::{Buffer, Device, DeviceKind, Event, Stream, Word};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_console::choice;
use lanetree_record::Timing;
use std::time::Instant;

/// A row's runs end early once they have taken so long, but not before there are [`FEWEST_RUNS`].
const LONG: Duration = Duration::from_secs(3);
const FEWEST_RUNS: usize = 3;

/// Elements that are read back and checked at a time.
const PIECE: usize = 1 << 24;

pub(crate) struct Session {
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    pub(crate) plan: Plan,
    pub(crate) seed: u64,
    /// The hardware's speed, as far as it was measured; and whether it is to be measured.
    pub(crate) ceilings: Ceilings,
    pub(crate) wants_ceilings: bool,
    pub(crate) report: Report,
    deadline: Option<Instant>,
    events: (Event, Event),
    progress: ProgressBar,
}

impl Session {
    pub(crate) fn new(
        device: Device,
        plan: Plan,
        wants_ceilings: bool,
        deadline: Option<Instant>,
        report: Report,
    ) -> Result<Self> {
        // Not drawn where stderr is no terminal.
        let progress = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{elapsed}] {pos} measured; {msg}") {
            progress.set_style(style);
        }
        progress.enable_steady_tick(Duration::from_millis(200));
        Ok(Self {
            stream: device.stream()?,
            events: (device.event()?, device.event()?),
            ceilings: Ceilings::default(),
            seed: report.record.seed,
            device,
            plan,
            wants_ceilings,
            report,
            deadline,
            progress,
        })
    }

    pub(crate) fn runs_kernels(&self) -> bool {
        self.device.kind() != DeviceKind::Host
    }

    /// `cuda`, `host` or `emulated`.
    pub(crate) fn device_name(&self) -> &'static str {
        choice::name(self.device.kind())
    }

    /// What decides the keys of a tree of a size: every size has keys of its own.
    pub(crate) fn seed_of(&self, size: u32) -> u64 {
        mix(self.seed ^ u64::from(size) << 56)
    }

    /// Says what is being done.
    pub(crate) fn doing(&self, what: impl Display) {
        self.progress.set_message(what.to_string());
    }

    /// Whether there is time for one more row; if not, says so in the report.
    pub(crate) fn has_time(&mut self, what: impl Display) -> bool {
        let in_time = self.deadline.is_none_or(|deadline| Instant::now() < deadline);
        if in_time {
            self.doing(&what);
        } else {
            self.skip(format_args!("{what}: the time of --max-seconds is over"));
        }
        in_time
    }

    pub(crate) fn skip(&mut self, what: impl Display) {
        self.report.record.skipped.push(what.to_string());
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.report.record.rows.push(row);
        self.progress.inc(1);
    }

    pub(crate) fn finish(self) -> Report {
        self.progress.finish_and_clear();
        self.report
    }

    /// Times what `launch` puts into the stream, by the device's events: once for nothing, then as often as
    /// planned. Before each, `prepare` is called, outside of the time.
    pub(crate) fn time_on_stream<O>(
        &self,
        out: &mut O,
        mut prepare: impl FnMut(&mut O) -> Result<()>,
        mut launch: impl FnMut(&mut O) -> Result<()>,
    ) -> Result<Timing> {
        let (start, end) = &self.events;
        self.repeat(|| {
            prepare(out)?;
            start.record(&self.stream)?;
            launch(out)?;
            end.record(&self.stream)?;
            self.stream.synchronize()?;
            Ok(f64::from(Event::elapsed_ms(start, end)?))
        })
    }

    /// [`Session::time_on_stream`] of a call that writes `out`, which is cleared before each run: it is then unlike any
    /// answer, but for some first keys and ranks.
    pub(crate) fn time_call<O: Output, E>(
        &self,
        out: &mut O,
        mut call: impl FnMut(&mut O) -> core::result::Result<(), E>,
    ) -> Result<Timing>
    where
        Error: From<E>,
    {
        self.time_on_stream(out, |out| Ok(out.clear(&self.stream)?), |out| Ok(call(out)?))
    }

    /// Times a call that writes a slice by the CPU's clock, as [`Session::time_call`].
    pub(crate) fn time_into<T: Clone + Default, O: DerefMut<Target = [T]>, E>(
        &self,
        out: &mut O,
        mut call: impl FnMut(&mut O) -> core::result::Result<(), E>,
    ) -> Result<Timing>
    where
        Error: From<E>,
    {
        self.time_on_cpu(out, |out| out.fill(T::default()), |out| Ok(call(out)?))
    }

    /// Times `work` by the CPU's clock, as [`Session::time_on_stream`].
    pub(crate) fn time_on_cpu<O>(
        &self,
        out: &mut O,
        mut prepare: impl FnMut(&mut O),
        work: impl FnMut(&mut O) -> Result<()>,
    ) -> Result<Timing> {
        let prepare = |out: &mut O| {
            prepare(out);
            Ok(())
        };
        self.time_prepared(out, prepare, work)
    }

    /// [`Session::time_on_cpu`], if what is to be done before each run may fail.
    pub(crate) fn time_prepared<O>(
        &self,
        out: &mut O,
        mut prepare: impl FnMut(&mut O) -> Result<()>,
        mut work: impl FnMut(&mut O) -> Result<()>,
    ) -> Result<Timing> {
        self.repeat(|| {
            prepare(out)?;
            let start = Instant::now();
            work(out)?;
            Ok(start.elapsed().as_secs_f64() * 1e3)
        })
    }

    /// Times, in the same way, what makes something. The last of it is returned; each one before is dropped outside of the time.
    pub(crate) fn time_making<T, E>(&self, mut make: impl FnMut() -> core::result::Result<T, E>) -> Result<(Timing, T)>
    where
        Error: From<E>,
    {
        let mut made = None;
        let timing = self.time_on_cpu(
            &mut made,
            |made| *made = None,
            |made| {
                *made = Some(make()?);
                Ok(())
            },
        )?;
        Ok((timing, made.expect("made at least once")))
    }

    /// Times work by the CPU's clock. Before each run, what it works on is made again, which is not timed. Returns the last of these,
    /// and what the last run returned.
    pub(crate) fn time_on_fresh<T, R, E>(
        &self,
        mut make: impl FnMut() -> core::result::Result<T, E>,
        mut work: impl FnMut(&mut T) -> Result<R>,
    ) -> Result<(Timing, T, R)>
    where
        Error: From<E>,
    {
        let mut state = (None, None);
        let timing = self.time_prepared(
            &mut state,
            |(made, _)| {
                // One at a time: the memory may not be enough for two.
                *made = None;
                *made = Some(make()?);
                Ok(())
            },
            |(made, result)| {
                *result = Some(work(made.as_mut().expect("made before"))?);
                Ok(())
            },
        )?;
        let (made, result) = state;
        Ok((timing, made.expect("made before"), result.expect("at least one run")))
    }

    /// Times the parts of a batch by the CPU's clock, all at the same time: a thread each, if there are several.
    pub(crate) fn time_parts<P: Send>(
        &self,
        parts: &mut [P],
        clear: impl Fn(&mut P) -> Result<()>,
        ask: impl Fn(&mut P) -> Result<()> + Sync,
    ) -> Result<Timing> {
        self.time_prepared(
            &mut &mut *parts,
            |parts| parts.iter_mut().try_for_each(&clear),
            |parts| match parts {
                [part] => ask(part),
                parts => std::thread::scope(|scope| {
                    let threads: Vec<_> = parts.iter_mut().map(|part| scope.spawn(|| ask(part))).collect();
                    threads.into_iter().try_for_each(|thread| thread.join().expect("a part has an outcome"))
                }),
            },
        )
    }

    fn repeat(&self, run: impl FnMut() -> Result<f64>) -> Result<Timing> {
        self.repeat_self_timed(run).map(Timing::of)
    }

    /// Does something that times itself: once for nothing, then as often as planned; gives all that came of it.
    pub(crate) fn repeat_self_timed<T>(&self, mut run: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
        // The emulator's time means nothing, and there is none to lose on it.
        if self.device.kind() != DeviceKind::Emulated {
            run()?;
        }
        let mut runs = Vec::with_capacity(self.plan.runs);
        let start = Instant::now();
        while runs.len() < self.plan.runs && (runs.len() < FEWEST_RUNS || start.elapsed() < LONG) {
            runs.push(run()?);
        }
        Ok(runs)
    }

    /// Compares the first `len` elements of an output with what is right, one by one. The stream must be
    /// done. The checksum counts `miss` as a miss.
    ///
    /// # Errors
    /// [`Error::Wrong`] with the first difference.
    pub(crate) fn check<T: Word>(
        &self,
        row: &dyn Display,
        what: &'static str,
        out: &Buffer<T>,
        len: usize,
        miss: T,
        expected: impl Fn(usize) -> T + Sync,
    ) -> Result<Checksum> {
        if let Some(slice) = out.as_slice() {
            return self.check_slice(row, what, &slice[..len], 0..len, miss, expected);
        }
        let mut piece = vec![T::zeroed(); len.min(PIECE)];
        let mut checksum = Checksum::default();
        for first in (0..len).step_by(PIECE) {
            let piece = &mut piece[..PIECE.min(len - first)];
            out.copy_range_to(first, piece)?;
            checksum = checksum.and(self.check_slice(row, what, piece, first..first + piece.len(), miss, &expected)?);
        }
        Ok(checksum)
    }

    /// [`Session::check`] of a slice whose elements have these indexes: all of them, and no more.
    pub(crate) fn check_slice<T: Word>(
        &self,
        row: &dyn Display,
        what: &'static str,
        out: &[T],
        range: Range<usize>,
        miss: T,
        expected: impl Fn(usize) -> T + Sync,
    ) -> Result<Checksum> {
        let first = range.start;
        if out.len() != range.len() {
            return Err(Error::Length { row: row.to_string(), what, expected: range.len(), found: out.len() });
        }
        let differs = out.par_iter().enumerate().find_first(|&(i, &found)| found != expected(first + i));
        match differs {
            None => Ok(Checksum::of(out, miss, first as u64)),
            Some((i, found)) => Err(Error::Wrong {
                row: row.to_string(),
                what,
                index: first + i,
                expected: expected(first + i).to_string(),
                found: found.to_string(),
                seed: self.seed,
            }),
        }
    }

    /// [`Session::check_slice`] of the values of `len` queries, of which `None` counts as `miss`.
    pub(crate) fn check_found<T: Word>(
        &self,
        row: &dyn Display,
        found: &[Option<T>],
        len: usize,
        miss: T,
        expected: impl Fn(usize) -> T + Sync,
    ) -> Result<Checksum> {
        let found: Vec<T> = found.par_iter().map(|value| value.unwrap_or(miss)).collect();
        self.check_slice(row, "values", &found, 0..len, miss, expected)
    }

    /// Compares one number with what is right, as [`Session::check`] does many.
    pub(crate) fn expect(&self, row: &dyn Display, what: &'static str, found: u64, expected: u64) -> Result<()> {
        self.check_slice(row, what, &[found], 0..1, u64::MAX, |_| expected).map(drop)
    }

    /// Fills an output with zeros before a run: no answer is zero, but for some first keys and ranks.
    pub(crate) fn poison<T: Pod>(&self, out: &mut Buffer<T>) -> Result<()> {
        Ok(out.fill_zero(&self.stream)?)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bench::small;

    /// A session of few runs over little data.
    pub(crate) fn session(device: Device) -> Session {
        small::session(device).unwrap()
    }

    #[test]
    fn a_wrong_answer_is_named_and_gives_no_checksum() {
        let session = session(Device::host());
        let out = session.device.upload(&[2_u64, 4, 6, 9]).unwrap();
        let right = session.check(&"doubles", "values", &out, 3, 4, |i| 2 * (i as u64 + 1)).unwrap();
        assert_eq!((right.sum, right.misses), (12, 1));
        let error = session.check(&"doubles", "values", &out, 4, 0, |i| 2 * (i as u64 + 1)).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        assert_eq!(
            error.to_string(),
            "wrong answer: doubles: values[3] is 9, and 8 is right (seed 1); no figure is given"
        );
    }

    #[test]
    fn an_output_that_is_too_short_is_wrong() {
        let session = session(Device::host());
        for len in [0, 2, 4] {
            let outcome = session.check_slice(&"spans", "ranks", &vec![7_u64; len], 0..3, 0, |_| 7);
            let error = outcome.unwrap_err();
            assert_eq!(error.exit_code(), 1);
            assert!(error.to_string().contains(&format!("{len} ranks, and 3 are right")), "{error}");
        }
    }

    #[test]
    fn time_that_is_over_is_reported() {
        let mut session = session(Device::host());
        session.deadline = Some(Instant::now());
        assert!(!session.has_time("sorted look-ups"));
        assert_eq!(session.report.record.skipped, ["sorted look-ups: the time of --max-seconds is over"]);
    }
}
