//! What is done with an index, whatever its keys are.

use arbitrary::{Arbitrary, Result, Unstructured};
use lanetree::{AsOf, Closed, Direction, JoinKind, Ties};

/// Most steps of a case.
const MOST_STEPS: usize = 16;

/// Most steps of a case in which nodes are merged again and again.
const MOST_STEPS_WITH_HOLES: usize = 64;

/// A build, and steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Where the index lives.
    pub place: Place,
    /// Chooses among an index's options, whatever they are.
    pub options: u8,
    /// The keys that it is built from.
    pub keys: Keys,
    /// What is done with it then.
    pub steps: Vec<Step>,
}

/// Where an index lives.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the host.
    Host,
    /// On an emulated device with this seed.
    Emulated(u8),
}

/// One step.
#[derive(Arbitrary, Clone, Debug, PartialEq)]
pub enum Step {
    /// A batch of changes.
    Change(Change, Keys, Form),
    /// A batch of changes in which the device fails, if it comes to that.
    FailingChange(Failing, Change, Keys, Form),
    /// A batch of queries.
    Ask(Ask, Form),
    /// What else there is.
    Upkeep(Upkeep),
}

/// What a batch does with its keys.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Inserts all.
    Insert,
    /// Updates all.
    Update,
    /// Removes all.
    Remove,
    /// For the `i`-th key by bits `2 * (i % 8)` and the next: 1 updates, 2 removes, 0 and 3 insert.
    Mixed(u16),
}

/// Queries.
#[derive(Arbitrary, Clone, Debug, PartialEq)]
pub enum Ask {
    /// Values.
    Get(Keys),
    /// Ranks.
    Rank(Keys, Side),
    /// Joins by key: the numbers of the pairs of those keys that are present.
    Join(Keys, Joining),
    /// Joins by what as-of look-ups find.
    AsOfJoin(Keys, Near, Joining),
    /// Joins of ranges.
    RangeJoin(Keys, Keys, Open, Joining),
    /// Joins with all keys within a distance.
    BandJoin(Keys, u8, Joining),
    /// All pairs of a new index made of this one and of another one with these keys.
    Combine(Combination, Keys),
    /// Neighbours: the last pair not above (`Upper`) or the first not below (`Lower`).
    Neighbor(Keys, Side),
    /// As-of look-ups.
    AsOf(Keys, Near),
    /// At most this number of the nearest pairs.
    Nearest(Keys, u8, Near),
    /// Pairs of ranges.
    Range(Vec<Span>, Keys, Keys),
    /// At most this number of the last pairs of ranges.
    Last(Keys, Keys, u8),
    /// Pairs of ranges, counted.
    Count(Vec<Span>, Keys, Keys),
    /// Aggregates of the values of ranges.
    Aggregate(Keys, Keys, Folding),
    /// At most this number of pairs from each key on.
    Scan(Keys, u8),
    /// Keys that begin with these, cut to a length, where keys are strings.
    Prefix(Keys, u8),
}

/// What is computed of the values of a range: an aggregate of unsigned integers.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folding {
    /// Their sum.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The first one.
    First,
    /// The last one.
    Last,
}

impl Folding {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Min, Self::Max, Self::First, Self::Last];

    /// As the library's calls take it.
    pub fn aggregate(self) -> lanetree::Aggregate {
        match self {
            Self::Sum => lanetree::Aggregate::Sum,
            Self::Min => lanetree::Aggregate::Min,
            Self::Max => lanetree::Aggregate::Max,
            Self::First => lanetree::Aggregate::First,
            Self::Last => lanetree::Aggregate::Last,
        }
    }

    /// Of these values.
    pub fn of(self, values: &[u64]) -> Option<u64> {
        match self {
            Self::Sum => values.iter().copied().reduce(|sum, value| sum + value),
            Self::Min => values.iter().min().copied(),
            Self::Max => values.iter().max().copied(),
            Self::First => values.first().copied(),
            Self::Last => values.last().copied(),
        }
    }
}

/// How two indexes are combined.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    /// The pairs of both; of a key that both have, the other's value.
    Union,
    /// The pairs whose keys both have.
    Intersection,
    /// The pairs whose keys the other does not have.
    Difference,
}

/// Which neighbours an as-of look-up finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near {
    /// On which side.
    pub direction: Direction,
    /// Whether an equal key is passed over.
    pub is_strict: bool,
    /// The largest distance.
    pub tolerance: Option<u64>,
    /// Which of two at the same distance.
    pub ties: Ties,
}

impl Near {
    /// Every look-up on this side.
    pub fn new(direction: Direction) -> Self {
        Self { direction, is_strict: false, tolerance: None, ties: Ties::Backward }
    }

    /// As the library's calls take it.
    pub fn as_of(&self) -> AsOf {
        let how = AsOf::new(self.direction).strict(self.is_strict).ties(self.ties);
        self.tolerance.map_or(how, |most| how.tolerance(most))
    }

    /// Whether keys without a distance have no such look-ups.
    pub fn needs_distance(&self) -> bool {
        self.direction == Direction::Nearest || self.tolerance.is_some()
    }

    /// Whether two pairs may be found.
    pub fn takes_both(&self) -> bool {
        self.direction == Direction::Nearest && self.ties == Ties::Both
    }
}

/// Which rows a join has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joining {
    /// Its kind.
    pub kind: JoinKind,
    /// Of every `nulls` probes the last one is null; 0 if there are no nulls.
    pub nulls: u8,
    /// Where the validity bitmap begins.
    pub first_bit: u8,
}

impl Joining {
    /// Without null probes.
    pub fn new(kind: JoinKind) -> Self {
        Self { kind, nulls: 0, first_bit: 0 }
    }

    /// Whether a probe is there.
    pub fn is_valid(&self, probe: usize) -> bool {
        self.nulls == 0 || !(probe + 1).is_multiple_of(self.nulls.into())
    }

    /// The validity bitmap of a number of probes, if some may be null.
    pub fn bitmap(&self, probes: usize) -> Option<Vec<u32>> {
        let first = usize::from(self.first_bit);
        let mut words = vec![0; (first + probes).div_ceil(32)];
        let valid = (0..probes).filter(|&probe| self.is_valid(probe)).map(|probe| first + probe);
        valid.for_each(|bit| words[bit / 32] |= 1 << (bit % 32));
        (self.nulls > 0).then_some(words)
    }
}

/// Which bounds do not belong to a join's ranges.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Their starts.
    pub low: bool,
    /// Their ends.
    pub high: bool,
}

impl Open {
    /// As the library's calls take it.
    pub fn closed(self) -> Closed {
        match (self.low, self.high) {
            (false, false) => Closed::Both,
            (false, true) => Closed::Left,
            (true, false) => Closed::Right,
            (true, true) => Closed::Neither,
        }
    }
}

impl<'a> Arbitrary<'a> for Near {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self {
            direction: *u.choose(&[Direction::Backward, Direction::Forward, Direction::Nearest])?,
            is_strict: u.arbitrary()?,
            tolerance: *u.choose(&[None, None, Some(0), Some(3), Some(40), Some(u64::MAX)])?,
            ties: *u.choose(&[Ties::Backward, Ties::Forward, Ties::Both])?,
        })
    }
}

impl<'a> Arbitrary<'a> for Joining {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let kind = *u.choose(&[JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti])?;
        Ok(Self { kind, nulls: *u.choose(&[0, 0, 5, 2, 1])?, first_bit: u.int_in_range(0..=40)? })
    }
}

/// A bound of a search.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At the first key not below.
    Lower,
    /// Past the last key not above.
    Upper,
}

/// How a range of a batch is bounded. Its keys come from two batches of keys.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Of the start.
    pub start: Bounds,
    /// Of the end.
    pub end: Bounds,
    /// The most pairs of a range, if it is less than 200.
    pub limit: u8,
}

/// A bound of a range.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// The key, and it is inside.
    Included,
    /// The key, and it is not.
    Excluded,
    /// None.
    Unbounded,
}

/// Of a call with two forms.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Slices in and out.
    Host,
    /// Buffers in and out, where the index takes them; otherwise as [`Form::Host`].
    Device,
}

/// What is done with an index apart from changes and queries.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// All pairs are read.
    Iterate,
    /// The index is brought into order, if it is of a kind that loses it.
    RestoreOrder,
    /// It is rebuilt, if it can be.
    Compact,
    /// It goes to another device, or is taken apart, if it can be.
    Move,
}

/// How a device fails. The number of calls that succeed before the failure.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// A launch is refused.
    Launch(u8),
    /// A kernel fails on its way.
    Kernel(u8),
    /// A copy fails.
    Transfer(u8),
    /// There is no room.
    Allocation(u8),
}

/// A batch of keys: runs one after another.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys(pub Vec<KeyRun>);

/// Keys by their numbers, evenly spaced. An index says which keys the numbers stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRun {
    /// The first number.
    pub first: u16,
    /// From one number to the next; 0 for one key again and again.
    pub step: u8,
    /// How many.
    pub count: u8,
}

impl Keys {
    /// Their numbers.
    pub fn numbers(&self) -> Vec<u16> {
        let numbers = |run: &KeyRun| {
            let KeyRun { first, step, count } = *run;
            (0..u16::from(count)).map(move |i| first.wrapping_add(i.wrapping_mul(step.into())))
        };
        self.0.iter().flat_map(numbers).collect()
    }
}

impl Keys {
    fn of_runs(u: &mut Unstructured<'_>, most_runs: usize, most: u8) -> Result<Self> {
        let runs = u.int_in_range(0..=most_runs)?;
        (0..runs).map(|_| KeyRun::of(u, most)).collect::<Result<_>>().map(Self)
    }
}

impl KeyRun {
    fn of(u: &mut Unstructured<'_>, most: u8) -> Result<Self> {
        // Mostly neighbours.
        let step = *u.choose(&[1, 1, 1, 0, 2, 3, 17, 255])?;
        Ok(Self { first: u.arbitrary()?, step, count: u.int_in_range(1..=most)? })
    }
}

impl<'a> Arbitrary<'a> for Keys {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Self::of_runs(u, 3, 40)
    }
}

impl<'a> Arbitrary<'a> for Case {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let (place, options) = (u.arbitrary()?, u.arbitrary()?);
        if u.ratio(1, 8)? {
            return Self::with_holes(u, place, options);
        }
        let keys = Keys::of_runs(u, 4, 100)?;
        let mut steps = Vec::new();
        while !u.is_empty() && steps.len() < MOST_STEPS {
            steps.push(u.arbitrary()?);
        }
        Ok(Self { place, options, keys, steps })
    }
}

impl Case {
    /// A larger index, from which runs of neighbours are removed and where single keys are then inserted: so nodes become
    /// empty, are merged, are merged again, and are filled again.
    fn with_holes(u: &mut Unstructured<'_>, place: Place, options: u8) -> Result<Self> {
        const STEP: u8 = 3;
        let half = |first| KeyRun { first, step: STEP, count: 200 };
        let keys = Keys(vec![half(0), half(200 * u16::from(STEP))]);
        let mut steps = Vec::new();
        while !u.is_empty() && steps.len() < MOST_STEPS_WITH_HOLES {
            // Mostly a hole and a few keys in it, now and then a run that fills several.
            let (first, count) = (u.int_in_range(0..=399_u16)? * u16::from(STEP), u.int_in_range(1..=60_u8)?);
            let run = Keys(vec![KeyRun { first, step: STEP, count }]);
            if u.ratio(1, 4)? {
                steps.push(Step::Change(Change::Insert, run, u.arbitrary()?));
                continue;
            }
            steps.push(Step::Change(Change::Remove, run, u.arbitrary()?));
            let within = u.int_in_range(0..=u16::from(count) * u16::from(STEP))?;
            let few = KeyRun { first: first + within, step: 1, count: u.int_in_range(1..=3)? };
            steps.push(Step::Change(Change::Insert, Keys(vec![few]), u.arbitrary()?));
        }
        Ok(Self { place, options, keys, steps })
    }

    /// Cases that are like this one but for a part: each step left out, each batch shorter.
    pub(crate) fn simpler(&self) -> Vec<Self> {
        let mut cases = Vec::new();
        let len = self.steps.len();
        for part in [len / 2, len / 4, 1] {
            for at in (0..len).step_by(part.max(1)) {
                let mut case = self.clone();
                case.steps.drain(at..len.min(at + part));
                cases.push(case);
            }
        }
        cases.extend(self.keys.shorter().into_iter().map(|keys| Self { keys, ..self.clone() }));
        for (at, step) in self.steps.iter().enumerate() {
            for step in step.simpler() {
                let mut case = self.clone();
                case.steps[at] = step;
                cases.push(case);
            }
        }
        cases.retain(|case| case != self);
        cases
    }
}

impl Step {
    fn simpler(&self) -> Vec<Self> {
        match self {
            Self::Change(change, keys, form) => {
                simpler_changes(*change, keys).map(|(change, keys)| Self::Change(change, keys, *form)).collect()
            }
            Self::FailingChange(failing, change, keys, form) => {
                let fails = |(change, keys)| Self::FailingChange(*failing, change, keys, *form);
                let whole = Self::Change(*change, keys.clone(), *form);
                core::iter::once(whole).chain(simpler_changes(*change, keys).map(fails)).collect()
            }
            Self::Ask(ask, form) => ask.simpler().into_iter().map(|ask| Self::Ask(ask, *form)).collect(),
            Self::Upkeep(_) => Vec::new(),
        }
    }
}

/// The same change of fewer keys, and changes of one kind in place of one of several.
fn simpler_changes(change: Change, keys: &Keys) -> impl Iterator<Item = (Change, Keys)> {
    let plain = [Change::Insert, Change::Update, Change::Remove].into_iter();
    let plain = plain.filter(move |_| matches!(change, Change::Mixed(_))).map(|plain| (plain, keys.clone()));
    keys.shorter().into_iter().map(move |keys| (change, keys)).chain(plain)
}

impl Ask {
    fn simpler(&self) -> Vec<Self> {
        let with = |make: &dyn Fn(Keys) -> Self, keys: &Keys| keys.shorter().into_iter().map(make).collect();
        // Also without what a join does in addition to an inner one.
        let joins = |make: &dyn Fn(Keys, Joining) -> Self, keys: &Keys, of: Joining| -> Vec<Self> {
            let plain = make(keys.clone(), Joining::new(JoinKind::Inner));
            core::iter::once(plain).chain(keys.shorter().into_iter().map(|keys| make(keys, of))).collect()
        };
        match self {
            Self::Get(keys) => with(&Self::Get, keys),
            Self::Join(keys, of) => joins(&Self::Join, keys, *of),
            Self::AsOfJoin(keys, near, of) => joins(&|keys, of| Self::AsOfJoin(keys, *near, of), keys, *of),
            Self::RangeJoin(lows, highs, open, of) => {
                joins(&|lows, of| Self::RangeJoin(lows, highs.clone(), *open, of), lows, *of)
            }
            Self::BandJoin(keys, distance, of) => joins(&|keys, of| Self::BandJoin(keys, *distance, of), keys, *of),
            Self::AsOf(keys, near) => with(&|keys| Self::AsOf(keys, *near), keys),
            Self::Nearest(keys, k, near) => with(&|keys| Self::Nearest(keys, *k, *near), keys),
            Self::Combine(how, keys) => with(&|keys| Self::Combine(*how, keys), keys),
            Self::Rank(keys, side) => with(&|keys| Self::Rank(keys, *side), keys),
            Self::Neighbor(keys, side) => with(&|keys| Self::Neighbor(keys, *side), keys),
            Self::Scan(keys, limit) => with(&|keys| Self::Scan(keys, *limit), keys),
            Self::Prefix(keys, len) => with(&|keys| Self::Prefix(keys, *len), keys),
            Self::Aggregate(starts, ends, folding) => {
                with(&|starts| Self::Aggregate(starts, ends.clone(), *folding), starts)
            }
            Self::Last(starts, ends, k) => with(&|starts| Self::Last(starts, ends.clone(), *k), starts),
            Self::Range(spans, starts, ends) => {
                with(&|starts| Self::Range(spans.clone(), starts, ends.clone()), starts)
            }
            Self::Count(spans, starts, ends) => {
                with(&|starts| Self::Count(spans.clone(), starts, ends.clone()), starts)
            }
        }
    }
}

impl Keys {
    fn shorter(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for (at, run) in self.0.iter().enumerate() {
            let with = |run: Option<KeyRun>| {
                let mut runs = self.0.clone();
                runs.splice(at..=at, run);
                Self(runs)
            };
            all.push(with(None));
            if run.count > 1 {
                all.push(with(Some(KeyRun { count: run.count / 2, ..*run })));
                all.push(with(Some(KeyRun { count: run.count - 1, ..*run })));
                let first = run.first.wrapping_add(run.step.into());
                all.push(with(Some(KeyRun { first, count: run.count - 1, ..*run })));
            }
        }
        all
    }
}
