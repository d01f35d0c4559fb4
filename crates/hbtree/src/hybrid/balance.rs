//! How much of the descent the CPU takes (section 5.5): the discovery algorithm, live.

use crate::options::Split;

/// Halvings of the share: the paper's steps 2 to 5.
const HALVINGS: u32 = 4;

/// A time that differs from the one before by this factor, or more, is another load.
const CHANGED: f64 = 1.5;

/// Batches in a row with another load, after which the discovery starts again.
const PATIENCE: u32 = 3;

/// The part of the time that the CPU may wait for the device before the device counts as the slower one: a pipeline always
/// waits for its first bucket.
const WAITING: f64 = 0.07;

/// How often the best candidates are sampled again.
const AGAIN: usize = 2;

/// Most samples.
const MOST_SAMPLES: u32 = 20;

/// A candidate that takes this many times as long as the best is not sampled again.
const HOPELESS: f64 = 8.0;

/// What a sample has taken, in nanoseconds per query.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// From its beginning to its end.
    pub all: f64,
    /// What of that the CPU's threads have waited for the device, on average. So the paper's Time_GPU is longer than its
    /// Time_CPU if this is not next to nothing.
    pub waiting: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// One level more at a time, until the device no longer takes longer than the CPU.
    Depth,
    /// Between that level and the one before.
    Share {
        halvings: u32,
        width: f64,
    },
    /// The CPU alone.
    CpuAlone,
    /// The candidates once more.
    Again,
    Settled,
}

/// The discovery algorithm (algorithm 1), a sample at a time.
///
/// From the device's doing everything it goes down level by level until the CPU takes as long as the device, and then
/// halves the share between the last two levels. (As printed, the algorithm moves R the other way: a larger R leaves the
/// device more.) Last it tries the CPU alone.
///
/// A sample takes a millisecond, and whatever else the machine does in it counts. So the device's doing everything, the CPU
/// alone and the best split between them are sampled again, and of each the shortest time counts. The best of all is chosen,
/// so the result is never worse than either end.
#[derive(Clone, Debug)]
pub struct Discovery {
    height: u32,
    step: Step,
    split: Split,
    /// The shortest time of each split that was tried.
    times: Vec<(Split, f64)>,
    /// Splits to be sampled again, the last one first.
    again: Vec<Split>,
    samples: u32,
    /// The time per query of the batches since, and how many in a row had another.
    settled: Option<f64>,
    others: u32,
}

impl Discovery {
    /// For a tree of some height.
    pub fn new(height: u32) -> Self {
        let split = Split::default();
        Self {
            height,
            step: Step::Depth,
            split,
            times: Vec::new(),
            again: Vec::new(),
            samples: 0,
            settled: None,
            others: 0,
        }
    }

    /// Starts again if the tree has another height now.
    pub fn set_height(&mut self, height: u32) {
        if height != self.height {
            *self = Self::new(height);
        }
    }

    /// The split of which a sample is wanted; `None` when the best is known.
    pub fn wanted(&self) -> Option<Split> {
        (self.step != Step::Settled).then_some(self.split)
    }

    /// The best split so far.
    pub fn best(&self) -> Split {
        self.fastest(|_| true).map_or(Split::default(), |best| best.0)
    }

    /// Samples so far.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Takes the sample of the split that was wanted.
    pub fn sample(&mut self, sample: Sample) {
        self.samples += 1;
        match self.times.iter_mut().find(|time| time.0 == self.split) {
            Some(time) => time.1 = time.1.min(sample.all),
            None => self.times.push((self.split, sample.all)),
        }
        let device_is_slower = sample.waiting > WAITING * sample.all;
        match self.step {
            Step::Depth if device_is_slower && self.split.depth + 1 < self.height => self.split.depth += 1,
            // The device has nothing to give, or is fast enough for all of it.
            Step::Depth if !device_is_slower && self.split.depth == 0 => self.try_cpu_alone(),
            Step::Depth => {
                // Either this level was too much for the CPU, or the last one is left.
                let depth = if device_is_slower { self.split.depth } else { self.split.depth - 1 };
                self.split = Split { depth, share: 0.5 };
                self.step = Step::Share { halvings: 1, width: 0.25 };
            }
            Step::Share { halvings, width } => {
                self.split.share += if device_is_slower { width } else { -width };
                self.step = Step::Share { halvings: halvings + 1, width: width / 2.0 };
                if halvings == HALVINGS {
                    self.try_cpu_alone();
                }
            }
            Step::CpuAlone => {
                self.again = self.candidates();
                self.next_again();
            }
            Step::Again | Step::Settled => self.next_again(),
        }
    }

    fn cpu_alone(&self) -> Split {
        Split { depth: self.height, share: 0.0 }
    }

    fn try_cpu_alone(&mut self) {
        self.split = self.cpu_alone();
        self.step = Step::CpuAlone;
    }

    /// What is to be sampled again: both ends, and the best split between them, in turn.
    fn candidates(&self) -> Vec<Split> {
        let ends = [Split::default(), self.cpu_alone()];
        let between = self.fastest(|split| !ends.contains(&split)).map(|best| best.0);
        let best = self.fastest(|_| true).map_or(f64::INFINITY, |best| best.1);
        let is_candidate = |split| ends.contains(&split) || between == Some(split);
        let has_hope = |&&(split, time): &&(Split, f64)| is_candidate(split) && time <= best * HOPELESS;
        let round: Vec<Split> = self.times.iter().filter(has_hope).map(|time| time.0).collect();
        match round.len() {
            ..=1 => Vec::new(),
            len => round.into_iter().cycle().take(len * AGAIN).collect(),
        }
    }

    fn next_again(&mut self) {
        let next = self.again.pop().filter(|_| self.samples < MOST_SAMPLES);
        self.step = if next.is_some() { Step::Again } else { Step::Settled };
        self.split = next.unwrap_or(self.split);
    }

    /// The fastest of some splits that were tried, and its time.
    fn fastest(&self, of: impl Fn(Split) -> bool) -> Option<(Split, f64)> {
        self.times.iter().copied().filter(|time| of(time.0)).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Takes what a query of a batch has taken with the best split, in nanoseconds. If several batches in a row take much more
    /// or less than those before, the load has changed, and the discovery starts again.
    pub fn watch(&mut self, now: f64) {
        let Some(before) = self.settled else {
            self.settled = Some(now);
            return;
        };
        if now < before * CHANGED && before < now * CHANGED {
            self.others = 0;
            return;
        }
        self.others += 1;
        if self.others == PATIENCE {
            *self = Self::new(self.height);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine's times per query, in nanoseconds.
    #[derive(Clone, Copy)]
    struct Machine {
        device_level: f64,
        device_fixed: f64,
        cpu_level: f64,
        leaf: f64,
        height: u32,
    }

    impl Machine {
        fn sample(self, Split { depth, share }: Split) -> Sample {
            let of_cpu = (f64::from(depth) + share).min(f64::from(self.height));
            let of_device = f64::from(self.height) - of_cpu;
            let fixed = if of_device > 0.0 { self.device_fixed } else { 0.0 };
            let device = fixed + of_device * self.device_level;
            let cpu = self.leaf + of_cpu * self.cpu_level;
            Sample { all: device.max(cpu), waiting: (device - cpu).max(0.0) }
        }

        /// The best time of any split.
        fn best(self) -> f64 {
            let steps = 0..=self.height * 64;
            let split = |step: u32| Split { depth: step / 64, share: f64::from(step % 64) / 64.0 };
            steps.map(|step| self.sample(split(step)).all).fold(f64::INFINITY, f64::min)
        }

        fn discover(self) -> (Discovery, f64) {
            let mut discovery = Discovery::new(self.height);
            while let Some(split) = discovery.wanted() {
                discovery.sample(self.sample(split));
            }
            let found = self.sample(discovery.best()).all;
            (discovery, found)
        }
    }

    const MACHINE: Machine =
        Machine { device_level: 10.0, device_fixed: 30.0, cpu_level: 40.0, leaf: 100.0, height: 10 };

    #[test]
    fn the_best_split_is_found_within_twenty_buckets_whoever_is_slow() {
        for (device, cpu) in [(1.0, 1.0), (4.0, 1.0), (1.0, 4.0), (100.0, 1.0), (1.0, 100.0), (10.0, 1.0), (25.0, 1.0)]
        {
            for height in 1..=11 {
                let machine = Machine {
                    device_level: MACHINE.device_level * device,
                    device_fixed: MACHINE.device_fixed * device,
                    cpu_level: MACHINE.cpu_level * cpu,
                    leaf: MACHINE.leaf * cpu,
                    height,
                };
                let (discovery, found) = machine.discover();
                assert!(discovery.samples() <= 20, "{device} {cpu} {height}: {} samples", discovery.samples());
                let ratio = machine.best() / found;
                assert!(ratio >= 0.95, "{device} {cpu} {height}: {ratio} of the best, by {:?}", discovery.best());
            }
        }
    }

    #[test]
    fn a_sample_that_was_interrupted_does_not_decide() {
        // Where one end is the best.
        let fast_device = Machine { device_fixed: 0.0, device_level: 1.0, ..MACHINE };
        let slow_device = Machine { device_fixed: 9000.0, ..MACHINE };
        for machine in [fast_device, slow_device] {
            for interrupted in 0..20 {
                let mut discovery = Discovery::new(machine.height);
                while let Some(split) = discovery.wanted() {
                    let mut sample = machine.sample(split);
                    if discovery.samples() == interrupted {
                        sample.all *= 6.0;
                    }
                    discovery.sample(sample);
                }
                assert_eq!(machine.sample(discovery.best()).all, machine.best(), "{interrupted}");
            }
        }
    }

    #[test]
    fn the_discovery_starts_again_when_the_load_changes_and_not_for_one_batch() {
        let (mut discovery, found) = MACHINE.discover();
        for _ in 0..10 {
            discovery.watch(found);
        }
        discovery.watch(found * 4.0);
        discovery.watch(found * 4.0);
        discovery.watch(found);
        assert_eq!(discovery.wanted(), None);
        for _ in 0..PATIENCE {
            discovery.watch(found * 4.0);
        }
        assert_eq!(discovery.wanted(), Some(Split::default()));
    }

    #[test]
    fn a_tree_without_inner_levels_is_the_cpus() {
        let machine = Machine { height: 0, ..MACHINE };
        let (discovery, found) = machine.discover();
        assert_eq!((found, discovery.best().depth), (machine.best(), 0));
    }
}
