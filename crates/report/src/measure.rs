//! Numbers of claims: chosen from records, divided, and held against what their verdicts were written for.

use crate::facts::{Facts, Filter, written};
use crate::number::{self, Unit};
use crate::store::{EMULATOR, Store};
use lanetree_record::Extra;
use serde::Deserialize;

/// A number, or one for each value of a field. It is a sum of terms, divided by another one if there is one.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measure {
    /// What it is, before the number.
    pub(crate) what: String,
    /// How it is written.
    pub(crate) unit: Unit,
    /// The card of its records, if not that of the paper's other claims.
    card: Option<String>,
    /// What all terms have in common.
    #[serde(default)]
    rows: Filter,
    of: Vec<Term>,
    #[serde(default)]
    over: Vec<Term>,
    /// One number for each value of this field. Without it each term is one row.
    by: Option<String>,
    /// What the verdict was written for: the smallest and the largest number.
    within: [f64; 2],
    /// What the paper's claim says of the numbers, from and to, if they decide on its verdict.
    claimed: Option<[f64; 2]>,
    /// Whether `claimed` is of each number relative to the first one, which then decides nothing.
    #[serde(default)]
    relative: bool,
}

/// What a number says of the range that is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// All of its spread lies in the range.
    Agrees,
    /// All of its spread lies outside of it.
    Contradicts,
    /// A part of its spread does.
    Open,
}

impl Answer {
    fn of((low, high): (f64, f64), [from, to]: [f64; 2]) -> Self {
        if from <= low && high <= to {
            Self::Agrees
        } else if high < from || to < low {
            Self::Contradicts
        } else {
            Self::Open
        }
    }
}

/// The spread of a quotient of two numbers; a number without one is its own.
fn quotient((low, high): (f64, f64), (under_low, under_high): (f64, f64)) -> (f64, f64) {
    (low / under_high, high / under_low)
}

/// Rows of a record, and which of their fields counts.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Term {
    record: String,
    /// Counted, and not timed: the path of a list in the record, instead of its rows.
    list: Option<String>,
    #[serde(default = "rate")]
    field: String,
    /// What it is multiplied by; negative to subtract.
    #[serde(default = "one")]
    times: f64,
    #[serde(default)]
    rows: Filter,
}

fn rate() -> String {
    "giga_per_second".into()
}

fn one() -> f64 {
    1.0
}

/// A sum of terms.
struct Of {
    /// The value of the measure's `by`.
    by: String,
    number: f64,
    /// From the least to the most of the runs, of a single term whose row has the times of several.
    spread: Option<(f64, f64)>,
}

impl Of {
    /// Its spread, or where that is not known itself.
    fn range(&self) -> (f64, f64) {
        self.spread.unwrap_or((self.number, self.number))
    }
}

/// Whether two spreads are known, and overlap: their medians then do not differ.
fn overlap(one: Option<(f64, f64)>, other: Option<(f64, f64)>) -> bool {
    let (Some((low, high)), Some((other_low, other_high))) = (one, other) else { return false };
    low <= other_high && other_low <= high
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    /// The numbers, each with the value of the measure's `by`; empty if it has none.
    pub(crate) numbers: Vec<(String, f64)>,
    /// Of each, whether it divides two numbers that do not differ: the spreads of their runs overlap.
    pub(crate) is_alike: Vec<bool>,
    /// What they say of the claim, if they decide on its verdict.
    pub(crate) answers: Vec<Answer>,
    /// Why the verdict may not hold for them.
    pub(crate) outside: Option<String>,
}

/// Why there is no number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("no record `{0}`")]
    NoRecord(String),
    #[error("record `{record}`: {found} rows with {filter}, where there should be {expected}")]
    Rows { record: String, found: usize, filter: String, expected: &'static str },
    #[error("record `{record}`: no number `{field}` in the row with {filter}")]
    NoField { record: String, field: String, filter: String },
    #[error("the terms have other values of `{0}`, so they cannot be divided")]
    Uneven(String),
}

impl Measure {
    /// The records that it needs, each once.
    pub(crate) fn records(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.of.iter().chain(&self.over).map(|term| &*term.record).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether the verdict rests on it.
    #[cfg(test)]
    pub(crate) fn decides(&self) -> bool {
        self.claimed.is_some()
    }

    /// The card of its records, where the paper's is this one.
    pub(crate) fn card<'a>(&'a self, papers: &'a str) -> &'a str {
        self.card.as_deref().unwrap_or(papers)
    }

    /// Computes it from the records of its card; `card` is the paper's.
    ///
    /// # Errors
    /// If a record is not there, or if not every term finds its rows.
    pub(crate) fn of(&self, store: &Store, card: &str) -> Result<Measured, Error> {
        let card = self.card(card);
        let mut sum = self.sum(&self.of, store, card)?;
        let mut is_alike = vec![false; sum.len()];
        if !self.over.is_empty() {
            let under = self.sum(&self.over, store, card)?;
            if !sum.iter().map(|of| &of.by).eq(under.iter().map(|of| &of.by)) {
                return Err(Error::Uneven(self.by.clone().unwrap_or_default()));
            }
            for ((of, under), is_alike) in sum.iter_mut().zip(&under).zip(&mut is_alike) {
                *is_alike = overlap(of.spread, under.spread);
                of.spread = Some(quotient(of.range(), under.range()));
                of.number /= under.number;
            }
        }
        let answers = self.claimed.map_or_else(Vec::new, |claimed| match (self.relative, &sum[..]) {
            (true, [first, others @ ..]) => {
                others.iter().map(|of| Answer::of(quotient(of.range(), first.range()), claimed)).collect()
            }
            _ => sum.iter().map(|of| Answer::of(of.range(), claimed)).collect(),
        });
        let numbers: Vec<(String, f64)> = sum.into_iter().map(|of| (of.by, of.number)).collect();
        let [low, high] = self.within;
        let outside = numbers.iter().find(|(_, number)| !(low..=high).contains(number)).map(|(by, number)| {
            let [low, high, number] = [low, high, *number].map(|number| self.unit.write(number));
            let by = if by.is_empty() { String::new() } else { format!(" at {by}") };
            format!("{number}{by} is outside of {low} to {high}, for which the verdict was written")
        });
        Ok(Measured { numbers, is_alike, answers, outside })
    }

    /// The sum of terms, by what they have of `by`, in ascending order.
    fn sum(&self, terms: &[Term], store: &Store, card: &str) -> Result<Vec<Of>, Error> {
        let mut sums: Vec<Of> = Vec::new();
        for (i, term) in terms.iter().enumerate() {
            let numbers = self.term(term, store, card)?;
            if i == 0 {
                sums = numbers;
                continue;
            }
            if !sums.iter().map(|of| &of.by).eq(numbers.iter().map(|of| &of.by)) {
                return Err(Error::Uneven(self.by.clone().unwrap_or_default()));
            }
            for (sum, of) in sums.iter_mut().zip(numbers) {
                sum.number += of.number;
                sum.spread = None;
            }
        }
        Ok(sums)
    }

    fn term(&self, term: &Term, store: &Store, card: &str) -> Result<Vec<Of>, Error> {
        let Term { record, list, field, times, rows } = term;
        let filter = rows.or(&self.rows);
        // The emulator counts the same for every card.
        let counted = list
            .as_ref()
            .and_then(|list| store.counted(card, record, list).or_else(|| store.counted(EMULATOR, record, list)));
        let all = if list.is_some() { counted.as_deref() } else { store.rows(card, record) };
        let all = all.ok_or_else(|| Error::NoRecord(record.clone()))?;
        let chosen: Vec<&Facts> = all.iter().filter(|facts| filter.takes(facts)).collect();
        let wrong =
            |expected| Error::Rows { record: record.clone(), found: chosen.len(), filter: filter.describe(), expected };
        let number = |facts: &Facts| {
            let missing = || Error::NoField { record: record.clone(), field: field.clone(), filter: filter.describe() };
            Ok(facts.number(field).ok_or_else(missing)? * times)
        };
        let Some(by) = &self.by else {
            let [facts] = chosen[..] else { return Err(wrong("one")) };
            return Ok(vec![Of { by: String::new(), number: number(facts)?, spread: facts.spread(field) }]);
        };
        if chosen.is_empty() {
            return Err(wrong("some"));
        }
        let mut numbers = Vec::new();
        for facts in &chosen {
            let value = facts.get(by).ok_or_else(|| wrong("some, each with the field by which they are told apart"))?;
            numbers.push((value, number(facts)?, facts.spread(field)));
        }
        if numbers.iter().enumerate().any(|(i, (value, ..))| numbers[..i].iter().any(|(other, ..)| other == value)) {
            return Err(wrong("one for each value of the field by which they are told apart"));
        }
        // Words stay in the record's order.
        numbers.sort_by(|(a, ..), (b, ..)| a.number().partial_cmp(&b.number()).expect("no NaN in a record"));
        let of = |(value, number, spread)| Of { by: label(value), number, spread };
        Ok(numbers.into_iter().map(of).collect())
    }

    /// For which numbers the verdict was written.
    pub(crate) fn describe_range(&self) -> String {
        let [low, high] = self.within.map(|number| self.unit.write(number));
        format!("{low} to {high}")
    }

    /// What the paper claims of the numbers, in brackets; nothing, if they do not decide.
    fn describe_claimed(&self) -> String {
        let Some([from, to]) = self.claimed else { return String::new() };
        // Relative numbers are ratios.
        let write = |number| if self.relative { Unit::Times } else { self.unit }.write(number);
        let range = match (from > 0.0, to.is_finite()) {
            (true, true) => format!("{} to {}", write(from), write(to)),
            (true, false) => format!("at least {}", write(from)),
            (false, _) => format!("at most {}", write(to)),
        };
        let of = if self.relative { " the first" } else { "" };
        format!(" (claimed: {range}{of})").replace(' ', "\u{a0}").replacen('\u{a0}', " ", 1)
    }

    /// What it is and the numbers: `x GRT: 2.7 × at 64 Ki, 3.2 × at 16 Mi`.
    pub(crate) fn describe(&self, measured: &Measured) -> String {
        let numbers = measured.numbers.iter().zip(&measured.is_alike).map(|((by, number), is_alike)| {
            // Nothing breaks a line between a number and its unit.
            let about = if *is_alike { "≈ " } else { "" };
            let number = format!("{about}{}", self.unit.write(*number)).replace(' ', "\u{a0}");
            if by.is_empty() { number } else { format!("{number} at {by}") }
        });
        let card = self.card.as_ref().map_or_else(String::new, |card| format!(" (records of {card})"));
        let claimed = self.describe_claimed();
        format!("{}{card}{claimed}: {}", self.what, numbers.collect::<Vec<_>>().join(", "))
    }
}

/// The value of a `by`: sizes with binary prefixes.
fn label(value: &Extra) -> String {
    match value.number() {
        Some(number) if number >= 1.0 => number::count(number),
        _ => written(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::store;
    use serde_json::json;

    fn rows() -> Store {
        let row = |index: &str, n: u64, rate: f64, ms: f64| json!({ "index": index, "n": n, "giga_per_second": rate, "median_ms": ms, "psa": { "sort_ms": 0.5 } });
        store(
            "sizes",
            &[
                row("cuart", 1024, 6.0, 1.0),
                row("cuart", 2048, 9.0, 2.0),
                row("grt", 2048, 3.0, 4.5),
                row("grt", 1024, 3.0, 3.0),
            ],
        )
    }

    fn measure(toml: &str) -> Measure {
        toml::from_str(&format!("what = \"x\"\nunit = \"times\"\nwithin = [0.0, 4.0]\n{toml}")).unwrap()
    }

    fn of(toml: &str) -> Result<Measured, Error> {
        measure(toml).of(&rows(), "nvidia-h200")
    }

    fn numbers(toml: &str) -> Vec<(String, f64)> {
        of(toml).unwrap().numbers
    }

    #[test]
    fn a_ratio_is_of_two_rows() {
        let toml = r#"
            rows = { n = 2048 }
            of = [{ record = "sizes", field = "giga_per_second", rows = { index = "cuart" } }]
            over = [{ record = "sizes", field = "giga_per_second", rows = { index = "grt" } }]"#;
        assert_eq!(numbers(toml), [(String::new(), 3.0)]);
        assert_eq!(measure(toml).describe(&of(toml).unwrap()), "x: 3\u{a0}×");
        assert_eq!(measure(toml).records(), ["sizes"]);
    }

    #[test]
    fn medians_whose_spreads_overlap_are_told() {
        let row = |index: &str, n: u64, ms: f64, runs: usize| {
            json!({ "index": index, "n": n, "median_ms": ms,
            "min_ms": ms * 0.9, "max_ms": ms * 1.1, "runs_ms": vec![ms; runs], "giga_per_second": 1.0 / ms })
        };
        let rows = [
            row("a", 1, 1.0, 5),
            row("b", 1, 1.1, 5),
            row("a", 2, 1.0, 5),
            row("b", 2, 2.0, 5),
            row("a", 4, 1.0, 5),
            row("b", 4, 1.1, 1),
        ];
        let store = store("sizes", &rows);
        for field in ["giga_per_second", "median_ms"] {
            let terms = ["a", "b"]
                .map(|index| format!("[{{ record = \"sizes\", field = {field:?}, rows = {{ index = {index:?} }} }}]"));
            let measure = measure(&format!("by = \"n\"\nof = {}\nover = {}", terms[0], terms[1]));
            let measured = measure.of(&store, "nvidia-h200").unwrap();
            // One run has no spread.
            assert_eq!(measured.is_alike, [true, false, false]);
            assert!(measure.describe(&measured).starts_with("x: ≈\u{a0}"), "{}", measure.describe(&measured));
        }
    }

    #[test]
    fn a_number_agrees_or_contradicts_only_with_all_of_its_spread() {
        let row = |index: &str, n: u64, ms: f64, around: f64| {
            json!({ "index": index, "n": n, "median_ms": ms, "min_ms": ms / around, "max_ms": ms * around,
                "runs_ms": [ms, ms], "giga_per_second": 1.0 / ms })
        };
        let rows = [1, 2].map(|n| [row("a", n, 1.0, 1.1), row("b", n, n as f64, 1.1)]).concat();
        let store = store("sizes", &rows);
        let term = |index: &str| format!("[{{ record = \"sizes\", rows = {{ index = {index:?} }} }}]");
        let of = |toml: &str| measure(toml).of(&store, "nvidia-h200").unwrap().answers;
        // 1 and 2 times, each to a factor of 1.21.
        let ratio = format!("by = \"n\"\nof = {}\nover = {}\n", term("a"), term("b"));
        assert_eq!(of(&ratio), []);
        for (claimed, answers) in [
            ("[1.0, inf]", [Answer::Open, Answer::Agrees]),
            ("[0.0, 1.0]", [Answer::Open, Answer::Contradicts]),
            ("[0.8, 2.5]", [Answer::Agrees, Answer::Agrees]),
            ("[1.3, 1.5]", [Answer::Contradicts, Answer::Contradicts]),
            ("[1.3, 2.0]", [Answer::Contradicts, Answer::Open]),
        ] {
            assert_eq!(of(&format!("{ratio}claimed = {claimed}")), answers, "{claimed}");
        }
        // Half of the first rate, to a factor of 1.21.
        let falls = format!("by = \"n\"\nof = {}\nrelative = true\n", term("b"));
        assert_eq!(of(&format!("{falls}claimed = [0.0, 1.0]")), [Answer::Agrees]);
        assert_eq!(of(&format!("{falls}claimed = [0.9, 1.1]")), [Answer::Contradicts]);
        assert_eq!(of(&format!("{falls}claimed = [0.5, 1.0]")), [Answer::Open]);
    }

    #[test]
    fn what_is_claimed_stands_before_the_numbers() {
        let described =
            |claimed: &str| measure(&format!("of = []\n{claimed}")).describe_claimed().replace('\u{a0}', " ");
        assert_eq!(described(""), "");
        assert_eq!(described("claimed = [1.5, 2.0]"), " (claimed: 1.5 × to 2 ×)");
        assert_eq!(described("claimed = [1.5, inf]"), " (claimed: at least 1.5 ×)");
        assert_eq!(described("claimed = [0.0, 1.0]\nrelative = true"), " (claimed: at most 1 × the first)");
    }

    #[test]
    fn a_ratio_can_be_by_a_field_and_of_sums() {
        let toml = r#"
            by = "n"
            of = [{ record = "sizes", field = "median_ms", rows = { index = "grt" } }]
            over = [
                { record = "sizes", field = "median_ms", rows = { index = "cuart" } },
                { record = "sizes", field = "psa.sort_ms", times = 2.0, rows = { index = "cuart" } },
            ]"#;
        // In the order of n, whatever that of the rows.
        assert_eq!(numbers(toml), [("1 Ki".into(), 1.5), ("2 Ki".into(), 1.5)]);
        assert_eq!(measure(toml).describe(&of(toml).unwrap()), "x: 1.5\u{a0}× at 1 Ki, 1.5\u{a0}× at 2 Ki");
    }

    #[test]
    fn what_was_counted_can_be_claimed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.json");
        let mut record: serde_json::Value = serde_json::from_str(&crate::store::tests::record(&[])).unwrap();
        record["memory"] = json!({ "levels": [{ "average": 4.0 }, { "average": 4.5 }] });
        std::fs::write(&path, record.to_string()).unwrap();
        let store = Store::of_files(&[path]).unwrap();
        let of = |list: &str, by: &str| {
            let toml = format!("{by}of = [{{ record = \"memory\", list = {list:?}, field = \"average\" }}]");
            measure(&toml).of(&store, "nvidia-h200").map(|measured| measured.numbers)
        };
        let numbers = of("memory.levels", "by = \"number\"\n").unwrap();
        assert_eq!(numbers.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [4.0, 4.5]);
        assert!(matches!(of("memory.levels", ""), Err(Error::Rows { found: 2, .. })));
        assert!(matches!(of("memory.others", ""), Err(Error::Rows { found: 0, .. })));
    }

    #[test]
    fn what_the_emulator_has_counted_holds_for_every_card() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.json");
        let mut record: serde_json::Value = serde_json::from_str(&crate::store::tests::record(&[json!({})])).unwrap();
        record["machine"]["device"] = json!("emulated (seed 0)");
        record["lines"] = json!([{ "average": 3.0 }]);
        std::fs::write(&path, record.to_string()).unwrap();
        let store = Store::of_files(&[path]).unwrap();
        let of = |toml: &str| measure(toml).of(&store, "nvidia-h200");
        let counted = of("of = [{ record = \"memory\", list = \"lines\", field = \"average\" }]").unwrap();
        assert_eq!(counted.numbers, [(String::new(), 3.0)]);
        // But what it has timed does not.
        assert_eq!(of("of = [{ record = \"memory\" }]"), Err(Error::NoRecord("memory".into())));
    }

    #[test]
    fn a_selector_that_does_not_find_its_row_says_so() {
        let rate = |record: &str, rows: &str| {
            of(&format!("of = [{{ record = {record:?}, field = \"giga_per_second\", rows = {rows} }}]"))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(rate("other", "{}"), "no record `other`");
        assert_eq!(rate("sizes", "{ n = 4 }"), "record `sizes`: 0 rows with n = 4, where there should be one");
        assert_eq!(rate("sizes", "{ n = 1024 }"), "record `sizes`: 2 rows with n = 1024, where there should be one");
        let field =
            of(r#"of = [{ record = "sizes", field = "rate", rows = { n = 1024, index = "grt" } }]"#).unwrap_err();
        assert_eq!(field.to_string(), "record `sizes`: no number `rate` in the row with index = \"grt\", n = 1024");
        let twice = of("by = \"n\"\nof = [{ record = \"sizes\", field = \"median_ms\" }]").unwrap_err().to_string();
        assert!(twice.contains("4 rows") && twice.contains("one for each value"), "{twice}");
        let uneven = r#"
            by = "n"
            of = [{ record = "sizes", field = "median_ms", rows = { index = "grt" } }]
            over = [{ record = "sizes", field = "median_ms", rows = { index = "grt", n = 1024 } }]"#;
        assert_eq!(of(uneven), Err(Error::Uneven("n".into())));
    }

    #[test]
    fn a_number_outside_of_what_its_verdict_is_for_is_told() {
        let toml =
            "by = \"n\"\nof = [{ record = \"sizes\", field = \"giga_per_second\", rows = { index = \"cuart\" } }]";
        let outside = of(toml).unwrap().outside.unwrap();
        assert_eq!(outside, "6 × at 1 Ki is outside of 0 to 4 ×, for which the verdict was written");
        assert!(toml::from_str::<Measure>("what = \"x\"").is_err(), "a range is needed");
    }
}
