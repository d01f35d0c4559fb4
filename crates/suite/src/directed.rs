//! Cases that are written down: one for each thing that every index must do.

use crate::{
    Ask, Bounds, Case, Change, Combination, Folding, Form, Joining, KeyRun, Keys, Near, Numbered, Open, Place, Side,
    Span, Step, Upkeep,
};
use lanetree::{Direction, JoinKind, Ties};

/// The cases for keys of a type, each with what it is about. Their place and options are for the caller to set.
pub fn cases<K: Numbered>() -> Vec<(&'static str, Case)> {
    let ends = || Keys(vec![one(K::SMALLEST), one(K::LARGEST)]);
    let near_ends = || Keys(vec![run(K::SMALLEST, 1, 3), run(K::LARGEST, 1, 3), run(0, 1, 3)]);
    let many =
        || Keys(vec![run(0, 1, 250), run(250, 1, 250), run(11 << 12, 1, 40), run(12 << 12, 1, 8), one(K::LARGEST)]);
    let few = || Keys(vec![run(10, 2, 30)]);
    // Of four kinds that are hard to tell apart, and clusters at both ends.
    let hard = |step| Keys([7, 8, 9, 10, 13, 14].map(|kind| run(kind << 12, step, 50)).to_vec());
    let around = || Keys(vec![run(8, 1, 66), one(K::SMALLEST), one(K::LARGEST)]);
    // With gaps of one to a few keys, and far apart.
    let near_and_far = || Keys(vec![run(5, 1, 8), run(14, 3, 12), run(60, 2, 9), run(12 << 12, 1, 8), one(K::LARGEST)]);
    let between = || Keys(vec![run(4, 2, 33), one(K::SMALLEST), one(K::LARGEST)]);
    let again = || Keys(vec![run(20, 1, 20), run(20, 1, 20), run(25, 0, 9)]);
    vec![
        (
            "an empty index",
            steps(
                none(),
                [
                    asks(&around()),
                    changes(&none()),
                    changed(&few(), [Change::Update, Change::Remove]),
                    vec![Step::Upkeep(Upkeep::RestoreOrder)],
                    asks(&none()),
                ],
            ),
        ),
        (
            "one pair",
            steps(
                Keys(vec![one(20)]),
                [asks(&around()), changed(&Keys(vec![one(20)]), [Change::Update, Change::Remove]), asks(&around())],
            ),
        ),
        (
            "the smallest and the largest key",
            steps(
                ends(),
                [
                    asks(&near_ends()),
                    changed(&Keys(vec![one(K::SMALLEST)]), [Change::Remove]),
                    asks(&near_ends()),
                    changed(&Keys(vec![one(K::LARGEST)]), [Change::Remove]),
                    changed(&ends(), [Change::Update, Change::Insert, Change::Update]),
                    asks(&near_ends()),
                ],
            ),
        ),
        (
            "equal keys in the build",
            steps(Keys(vec![run(20, 1, 30), run(20, 1, 30), run(20, 0, 40)]), [asks(&around())]),
        ),
        ("equal keys in a batch", steps(few(), [changes(&again()), asks(&around())])),
        (
            "the last operation of a key wins",
            steps(
                few(),
                [
                    // In all orders: of a key that is there, and of one that is not.
                    [0b00_10_00, 0b10_00_10, 0b01_10_00, 0b10_01_00, 0b01_00_10, 0b00_01_10]
                        .into_iter()
                        .flat_map(|kinds| [20, 21].map(|key| (kinds, key)))
                        .flat_map(|(kinds, key)| {
                            let keys = Keys(vec![run(key, 0, 3), run(key + 6, 1, 4)]);
                            both_forms(|form| Step::Change(Change::Mixed(kinds), keys.clone(), form))
                        })
                        .collect(),
                ],
            ),
        ),
        (
            "updates and removals of absent keys",
            steps(
                few(),
                [
                    changed(
                        &Keys(vec![run(11, 2, 30)]),
                        [Change::Update, Change::Remove, Change::Mixed(0b01_10_01_10)],
                    ),
                    changed(&around(), [Change::Update, Change::Mixed(0b01_10_01_10)]),
                    asks(&around()),
                ],
            ),
        ),
        (
            "emptied and filled again",
            steps(
                few(),
                [
                    changed(&few(), [Change::Remove]),
                    asks(&around()),
                    changed(&few(), [Change::Remove, Change::Insert]),
                    asks(&around()),
                    changed(&around(), [Change::Remove]),
                    vec![Step::Upkeep(Upkeep::RestoreOrder), Step::Upkeep(Upkeep::Compact)],
                    changed(&around(), [Change::Insert]),
                    vec![Step::Upkeep(Upkeep::RestoreOrder)],
                    asks(&around()),
                ],
            ),
        ),
        (
            "back in order",
            steps(
                few(),
                [
                    changed(&around(), [Change::Insert]),
                    vec![Step::Upkeep(Upkeep::RestoreOrder), Step::Upkeep(Upkeep::RestoreOrder)],
                    asks(&around()),
                    changed(&few(), [Change::Remove]),
                    vec![Step::Upkeep(Upkeep::RestoreOrder)],
                    asks(&around()),
                    changed(&few(), [Change::Mixed(0b10_01_00)]),
                ],
            ),
        ),
        (
            "far more pairs than there were",
            steps(few(), [changed(&Keys(vec![run(40, 1, 150)]), [Change::Insert]), asks(&around())]),
        ),
        (
            // Where a batch of nothing but inserts may rebuild the index, one that is said to be of all kinds need not.
            "far more pairs than there were, of all kinds",
            steps(
                few(),
                [changed(&Keys(vec![run(40, 1, 150)]), [Change::Mixed(0), Change::Mixed(0b01_10_00)]), asks(&around())],
            ),
        ),
        (
            "many pairs",
            steps(
                many(),
                [
                    asks(&near_ends()),
                    changed(&Keys(vec![run(1, 2, 150)]), [Change::Remove, Change::Insert]),
                    changed(&Keys(vec![run(600, 1, 150), run(3, 3, 150)]), [Change::Mixed(0b10_00_01_00)]),
                    vec![Step::Upkeep(Upkeep::RestoreOrder)],
                    asks(&around()),
                ],
            ),
        ),
        (
            "most pairs removed, and laid out anew",
            steps(
                many(),
                [
                    changed(&Keys(vec![run(0, 1, 240), run(240, 1, 240)]), [Change::Remove]),
                    vec![Step::Upkeep(Upkeep::Compact)],
                    changed(&around(), [Change::Mixed(0b10_00_01)]),
                    vec![Step::Upkeep(Upkeep::Compact), Step::Upkeep(Upkeep::Compact)],
                    asks(&near_ends()),
                ],
            ),
        ),
        (
            "keys that are hard to tell apart",
            steps(
                hard(1),
                [
                    vec![
                        Step::Ask(Ask::Get(hard(2)), Form::Device),
                        Step::Ask(Ask::Rank(hard(2), Side::Lower), Form::Device),
                        Step::Ask(Ask::Neighbor(hard(2), Side::Upper), Form::Device),
                        Step::Ask(Ask::Range(spans(), hard(2), hard(3)), Form::Device),
                    ],
                    changed(&hard(3), [Change::Insert, Change::Mixed(0b10_00_01_10)]),
                    vec![
                        Step::Ask(Ask::Get(hard(2)), Form::Device),
                        Step::Ask(Ask::Join(hard(1), Joining::new(JoinKind::Inner)), Form::Host),
                    ],
                ],
            ),
        ),
        ("as-of look-ups", steps(near_and_far(), [neighbors(&between())])),
        ("joins", steps(near_and_far(), [joins(&between())])),
        (
            // Neighbours that are looked for one after another do not, nor do the ends of these ranges.
            "queries that ascend",
            steps(Keys(vec![run(1, 1, 2), one(K::LARGEST)]), [ascending(&Keys(vec![one(1), one(K::LARGEST)]))]),
        ),
        ("joins with nothing", steps(none(), [joins(&between()), joins(&none()), neighbors(&none())])),
        (
            "elsewhere",
            steps(
                few(),
                [
                    vec![Step::Upkeep(Upkeep::Move)],
                    asks(&around()),
                    changed(&again(), [Change::Mixed(0b10_00_01)]),
                    vec![Step::Upkeep(Upkeep::RestoreOrder), Step::Upkeep(Upkeep::Move)],
                    asks(&around()),
                ],
            ),
        ),
    ]
}

/// All queries around these keys, in both forms.
fn asks(keys: &Keys) -> Vec<Step> {
    let mut asks = vec![Ask::Get(keys.clone()), Ask::Prefix(keys.clone(), 3)];
    asks.push(Ask::Join(keys.clone(), Joining::new(JoinKind::Inner)));
    let near = Near { is_strict: true, tolerance: Some(3), ..Near::new(Direction::Nearest) };
    asks.extend([Ask::AsOf(keys.clone(), near), Ask::Nearest(keys.clone(), 3, near)]);
    let combinations = [Combination::Union, Combination::Intersection, Combination::Difference];
    asks.extend(combinations.map(|how| Ask::Combine(how, keys.clone())));
    for side in [Side::Lower, Side::Upper] {
        asks.push(Ask::Rank(keys.clone(), side));
        asks.push(Ask::Neighbor(keys.clone(), side));
    }
    // The same keys in another order, so that ranges have all lengths; of equal keys, every pair of bounds comes too.
    let mut turned = keys.clone();
    turned.0.reverse();
    let left = Joining { kind: JoinKind::Left, nulls: 5, first_bit: 31 };
    asks.push(Ask::RangeJoin(keys.clone(), turned.clone(), Open { low: true, high: false }, left));
    asks.push(Ask::Last(keys.clone(), turned.clone(), 5));
    asks.extend(Folding::ALL.map(|folding| Ask::Aggregate(keys.clone(), turned.clone(), folding)));
    for (spans, ends) in [(spans(), turned.clone()), (spans(), keys.clone()), (Vec::new(), turned)] {
        asks.push(Ask::Range(spans.clone(), keys.clone(), ends.clone()));
        asks.push(Ask::Count(spans, keys.clone(), ends));
    }
    let mut steps: Vec<Step> =
        asks.into_iter().flat_map(|ask| both_forms(|form| Step::Ask(ask.clone(), form))).collect();
    // They have one form; short ones, and such as few indexes are long enough for.
    steps.extend([0, 1, 8, 9, 100].map(|limit| Step::Ask(Ask::Scan(keys.clone(), limit), Form::Device)));
    steps
}

/// As-of look-ups in every way, and the pairs nearest to keys.
fn neighbors(keys: &Keys) -> Vec<Step> {
    // On one side there are no ties.
    let all_ties = [Ties::Both, Ties::Backward, Ties::Forward];
    let ways = [(Direction::Backward, 1, 1), (Direction::Forward, 0, 1), (Direction::Nearest, 2, 3)];
    let mut asks = Vec::new();
    for (direction, few, ties) in ways {
        for (is_strict, &ties) in
            [false, true].into_iter().flat_map(|is_strict| all_ties[..ties].iter().map(move |ties| (is_strict, ties)))
        {
            for tolerance in [None, Some(0), Some(3), Some(40), Some(u64::MAX)] {
                let near = Near { direction, is_strict, tolerance, ties };
                asks.push(Ask::AsOf(keys.clone(), near));
                asks.extend([few, 4].map(|k| Ask::Nearest(keys.clone(), k, near)));
            }
            // All of them take as many rounds.
            asks.push(Ask::Nearest(keys.clone(), 255, Near { ties, ..Near::new(direction) }));
        }
    }
    asks.into_iter().flat_map(|ask| both_forms(|form| Step::Ask(ask.clone(), form))).collect()
}

/// Joins of every kind, with null probes and without.
fn joins(keys: &Keys) -> Vec<Step> {
    let mut turned = keys.clone();
    turned.0.reverse();
    let both = Near { is_strict: true, ties: Ties::Both, ..Near::new(Direction::Nearest) };
    let kinds = [(JoinKind::Inner, 3), (JoinKind::Left, 40), (JoinKind::Semi, 0), (JoinKind::Anti, 31)];
    let mut asks = Vec::new();
    for (kind, first_bit) in kinds {
        for nulls in [0, 5, 1] {
            let of = Joining { kind, nulls, first_bit };
            asks.extend([Ask::Join(keys.clone(), of), Ask::AsOfJoin(keys.clone(), both, of)]);
            asks.push(Ask::AsOfJoin(keys.clone(), Near { tolerance: Some(5), ..both }, of));
            let distances = if nulls == 5 { &[0, 1, 7, 254, 255][..] } else { &[7] };
            asks.extend(distances.iter().map(|&distance| Ask::BandJoin(keys.clone(), distance, of)));
            for open in [(false, false), (false, true), (true, false), (true, true)] {
                let open = Open { low: open.0, high: open.1 };
                asks.push(Ask::RangeJoin(keys.clone(), turned.clone(), open, of));
            }
        }
    }
    asks.extend([0, 1, 5, 40, 255].map(|k| Ask::Last(keys.clone(), turned.clone(), k)));
    asks.into_iter().flat_map(|ask| both_forms(|form| Step::Ask(ask.clone(), form))).collect()
}

/// Twice each: an index may take every other batch for a sorted one.
fn ascending(keys: &Keys) -> Vec<Step> {
    let near = Near { is_strict: true, ..Near::new(Direction::Nearest) };
    let ends = || Keys(vec![one(9), one(2)]);
    let last = |k| Ask::Last(keys.clone(), ends(), k);
    let asks = [Ask::Nearest(keys.clone(), 3, near), last(1), last(4)];
    asks.iter().flat_map(|ask| [0, 1].map(|_| Step::Ask(ask.clone(), Form::Device))).collect()
}

/// Every pair of bounds with several limits.
fn spans() -> Vec<Span> {
    let bounds = [Bounds::Included, Bounds::Excluded, Bounds::Unbounded];
    let pairs = bounds.into_iter().flat_map(|start| bounds.map(|end| (start, end)));
    // Nine pairs and four limits take turns, so all 36 come.
    pairs
        .cycle()
        .zip([u8::MAX, 0, 1, 3].into_iter().cycle())
        .take(36)
        .map(|((start, end), limit)| Span { start, end, limit })
        .collect()
}

/// All changes of these keys, in both forms.
fn changes(keys: &Keys) -> Vec<Step> {
    changed(keys, [Change::Remove, Change::Insert, Change::Update, Change::Mixed(0b10_00_01_10), Change::Insert])
}

fn changed<const N: usize>(keys: &Keys, changes: [Change; N]) -> Vec<Step> {
    changes.into_iter().flat_map(|change| both_forms(|form| Step::Change(change, keys.clone(), form))).collect()
}

fn both_forms(step: impl Fn(Form) -> Step) -> [Step; 2] {
    [step(Form::Device), step(Form::Host)]
}

fn steps<const N: usize>(keys: Keys, steps: [Vec<Step>; N]) -> Case {
    Case { place: Place::Host, options: 0, keys, steps: steps.into_iter().flatten().collect() }
}

fn none() -> Keys {
    Keys(Vec::new())
}

fn one(number: u16) -> KeyRun {
    run(number, 0, 1)
}

fn run(first: u16, step: u8, count: u8) -> KeyRun {
    KeyRun { first, step, count }
}
