//! The papers' claims: what they say, what was measured, and whether it holds.
//!
//! They are kept in `claims/`, a file for each paper, so that the page and `docs/claims.md` cannot differ. A claim that can
//! be put to the test in the paper's way and in the library's has a row for each (`way`); `unanswered` lists what a paper
//! says and no row answers, and `surprising` the three claims that the summary names. `measured`
//! is computed from records: `of` divided by `over`, each a sum of terms. A term is one row of a record (or, with `by`,
//! one row for each value of that field), and one of its fields, `giga_per_second` by default; `rows` of a measure hold
//! for all its terms; `list` names a list of what was counted instead of rows, by a run on the card or else by the
//! emulator; `card` is for one whose record another card than the paper's has. `within` is what the verdict was written for: if a new record leaves it, someone must look at the verdict.
//! `claimed` is what the paper's words say of a measure's numbers: each agrees with it or contradicts it if all of its spread
//! does, and else leaves it open. A claim whose numbers are all open is `inconclusive`, and only one that some contradict,
//! and none agrees with, `fails`; `Claim::doubts` tells of others.
//! `noted` is a number that stands in a text. A claim that is not measured may read a record that is still to be made,
//! or fields and rows that the next record of that name will have; its `within` is then what is expected.

use crate::measure::{self, Answer, Measure};
use crate::store::Store;
use serde::Deserialize;

/// A file for each paper.
const PAPERS: [(&str, &str); 4] = [
    ("claims/harmonia.toml", include_str!("../claims/harmonia.toml")),
    ("claims/cuart.toml", include_str!("../claims/cuart.toml")),
    ("claims/hbtree.toml", include_str!("../claims/hbtree.toml")),
    ("claims/cubpt.toml", include_str!("../claims/cubpt.toml")),
];

/// All claims, by paper.
#[derive(Debug)]
pub(crate) struct Claims(pub(crate) Vec<Paper>);

/// A paper, and what it claims.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paper {
    /// Starts the ids of its claims.
    pub(crate) id: String,
    /// Of the system.
    pub(crate) name: String,
    /// The card for whose records the verdicts were written, but for measures that name another.
    pub(crate) card: String,
    /// Where it was published, and what it was measured on.
    pub(crate) about: String,
    /// The ids of the claims whose verdicts surprise most.
    pub(crate) surprising: Vec<String>,
    pub(crate) claim: Vec<Claim>,
    /// What no claim of the list answers.
    #[serde(default)]
    pub(crate) unanswered: Vec<Unanswered>,
}

/// What tables call the number of [`Paper::unanswered`].
pub(crate) const UNANSWERED: &str = "also said, without a row";

/// What a paper says and no record answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unanswered {
    /// Where the paper says it.
    pub(crate) section: String,
    pub(crate) says: String,
    pub(crate) why: String,
}

impl Paper {
    /// How many of its claims have a verdict.
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        self.claim.iter().filter(|claim| claim.verdict == verdict).count()
    }

    /// The claims whose verdicts surprise most.
    pub(crate) fn most_surprising(&self) -> impl Iterator<Item = &Claim> {
        self.surprising.iter().filter_map(|id| self.claim.iter().find(|claim| claim.id == *id))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    /// In the page's addresses.
    pub(crate) id: String,
    /// Where the paper says it.
    pub(crate) section: String,
    /// Which of two ways to do it the row is of.
    pub(crate) way: Option<Way>,
    pub(crate) says: String,
    pub(crate) verdict: Verdict,
    /// What explains the difference; a claim that fails has one.
    pub(crate) cause: Option<Cause>,
    pub(crate) why: String,
    /// Computed from records.
    #[serde(default)]
    pub(crate) measured: Vec<Measure>,
    /// Measured, but not in a record that can be read here.
    #[serde(default)]
    pub(crate) noted: Vec<Noted>,
}

/// A number that stands in a text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Noted {
    pub(crate) text: String,
    /// Where.
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Way {
    /// As the paper does it, as far as records have it.
    Paper,
    /// As the library does it by default.
    Ours,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Holds,
    InPart,
    Fails,
    Inconclusive,
    NotComparable,
    NotMeasured,
}

impl Verdict {
    pub(crate) const ALL: [Self; 6] =
        [Self::Holds, Self::InPart, Self::Fails, Self::Inconclusive, Self::NotComparable, Self::NotMeasured];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::InPart => "holds in part",
            Self::Fails => "fails",
            Self::Inconclusive => "inconclusive",
            Self::NotComparable => "not comparable",
            Self::NotMeasured => "not measured",
        }
    }

    /// Whether it follows from what numbers say of what is claimed.
    fn is_of(self, answers: &[Answer]) -> bool {
        let has = |answer| answers.contains(&answer);
        match (has(Answer::Agrees), has(Answer::Contradicts)) {
            (false, false) => self == if answers.is_empty() { self } else { Self::Inconclusive },
            (true, true) => self == Self::InPart,
            (true, false) => matches!(self, Self::Holds | Self::InPart),
            (false, true) => matches!(self, Self::Fails | Self::InPart),
        }
    }

    /// In classes of the page.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::InPart => "in-part",
            Self::Fails => "fails",
            Self::Inconclusive => "inconclusive",
            Self::NotComparable => "not-comparable",
            Self::NotMeasured => "not-measured",
        }
    }
}

/// What explains a difference from the paper.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cause {
    Machine,
    Implementation,
    MachineAndImplementation,
    Workload,
    Paper,
    Unknown,
}

impl Cause {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Machine => "the machine explains it",
            Self::Implementation => "the implementation explains it",
            Self::MachineAndImplementation => "machine and implementation explain it",
            Self::Workload => "the keys and queries explain it",
            Self::Paper => "the paper's own numbers or model explain it",
            Self::Unknown => "what explains it is unknown",
        }
    }
}

impl Claims {
    /// The claims of this crate.
    ///
    /// # Errors
    /// The TOML's, with the file.
    pub(crate) fn read() -> Result<Self, crate::data::Error> {
        PAPERS.iter().map(|(file, text)| crate::data::read(file, text)).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Claim> {
        self.0.iter().flat_map(|paper| &paper.claim)
    }

    /// What is wrong with their numbers; see [`Claim::doubts`].
    pub(crate) fn doubts(&self, store: &Store, is_whole: bool) -> Vec<String> {
        let of = |paper: &Paper| -> Vec<String> {
            paper.claim.iter().flat_map(|claim| claim.doubts(store, &paper.card, is_whole)).collect()
        };
        self.0.iter().flat_map(of).collect()
    }

    /// How many have a verdict.
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        self.0.iter().map(|paper| paper.count(verdict)).sum()
    }
}

/// What a claim's measure gave: the line that says it.
pub(crate) struct Line {
    pub(crate) text: String,
    /// The records that it is from.
    pub(crate) records: Vec<String>,
    /// Why there is no number, or why the verdict may not hold for it.
    pub(crate) doubt: Option<String>,
}

impl Claim {
    /// Where the paper says it, and which way to do it the row is of.
    pub(crate) fn place(&self) -> String {
        let way = match self.way {
            Some(Way::Paper) => "; as in the paper",
            Some(Way::Ours) => "; as ours",
            None => "",
        };
        self.section.clone() + way
    }

    /// The lines of the records of its paper's card.
    pub(crate) fn lines(&self, store: &Store, card: &str) -> Vec<Line> {
        let line = |measure: &Measure| {
            let records = measure.records().into_iter().map(Into::into).collect();
            match measure.of(store, card) {
                Ok(measured) => Line { text: measure.describe(&measured), records, doubt: measured.outside },
                Err(error) => Line { text: measure.what.clone(), records, doubt: Some(error.to_string()) },
            }
        };
        self.measured.iter().map(line).collect()
    }

    /// What is wrong with its numbers; a record that is not there counts only if `is_whole`, and not for a claim that is
    /// still to be measured.
    pub(crate) fn doubts(&self, store: &Store, card: &str, is_whole: bool) -> Vec<String> {
        let doubt = |measure: &Measure| match measure.of(store, card) {
            Ok(measured) => measured.outside,
            Err(_) if self.verdict == Verdict::NotMeasured => None,
            Err(measure::Error::NoRecord(_)) if !is_whole => None,
            Err(error) => Some(error.to_string()),
        };
        let doubts = self.measured.iter().filter_map(doubt).chain(self.doubt(store, card));
        doubts.map(|doubt| format!("claim {}: {doubt}", self.id)).collect()
    }

    /// Whether some of its numbers decide on its verdict.
    #[cfg(test)]
    fn is_decided(&self) -> bool {
        self.measured.iter().any(Measure::decides)
    }

    /// That its verdict does not follow from its numbers.
    fn doubt(&self, store: &Store, card: &str) -> Option<String> {
        let answers = self.measured.iter().filter_map(|measure| measure.of(store, card).ok());
        let answers: Vec<Answer> = answers.flat_map(|measured| measured.answers).collect();
        (!self.verdict.is_of(&answers)).then(|| {
            let count = |answer| answers.iter().filter(|other| **other == answer).count();
            let [agree, contradict, open] = [Answer::Agrees, Answer::Contradicts, Answer::Open].map(count);
            let verdict = self.verdict.name();
            format!("{verdict}, but {agree} of its numbers agree, {contradict} contradict, and {open} are open")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_done_in_two_ways_has_a_row_for_each() {
        let claims = Claims::read().unwrap();
        let of = |way| -> BTreeSet<(&str, &str)> {
            let claims = claims.all().filter(|claim| claim.way == Some(way));
            claims.map(|claim| (&*claim.section, &*claim.says)).collect()
        };
        assert_eq!(of(Way::Paper), of(Way::Ours));
        assert!(of(Way::Paper).len() > 10);
    }

    #[test]
    fn only_a_claim_without_a_verdict_may_wait_for_its_record() {
        let doubts = |verdict: &str, record: &str| {
            let toml = format!(
                "id = \"x\"\nsection = \"1\"\nsays = \"s\"\nwhy = \"w\"\nverdict = {verdict:?}\n[[measured]]\nwhat = \"m\"\n\
                 unit = \"times\"\nof = [{{ record = {record:?} }}]\nwithin = [0.0, 4.0]"
            );
            let store = crate::store::tests::store("made", &[serde_json::json!({ "giga_per_second": 5.0 })]);
            toml::from_str::<Claim>(&toml).unwrap().doubts(&store, "nvidia-h200", true).len()
        };
        assert_eq!((doubts("holds", "coming"), doubts("not-measured", "coming")), (1, 0));
        assert_eq!((doubts("holds", "made"), doubts("not-measured", "made")), (1, 1), "once it is there, it counts");
    }

    #[test]
    fn a_verdict_that_does_not_follow_from_its_numbers_is_told() {
        use Answer::{Agrees, Contradicts, Open};
        let of =
            |answers: &[Answer]| Verdict::ALL.into_iter().filter(|verdict| verdict.is_of(answers)).collect::<Vec<_>>();
        assert_eq!(of(&[]), Verdict::ALL, "no number decides");
        assert_eq!(of(&[Open, Open]), [Verdict::Inconclusive]);
        assert_eq!(of(&[Open, Contradicts]), [Verdict::InPart, Verdict::Fails]);
        assert_eq!(of(&[Open, Agrees]), [Verdict::Holds, Verdict::InPart]);
        assert_eq!(of(&[Agrees, Open, Contradicts]), [Verdict::InPart]);

        let runs =
            json!({ "median_ms": 2.0, "min_ms": 1.0, "max_ms": 4.0, "runs_ms": [1.0, 4.0], "giga_per_second": 5.0 });
        let store = crate::store::tests::store("made", &[runs]);
        let doubts = |claimed: &str| {
            let toml = format!(
                "id = \"x\"\nsection = \"1\"\nsays = \"s\"\nwhy = \"w\"\nverdict = \"fails\"\n[[measured]]\nwhat = \"m\"\n\
                 unit = \"giga-per-second\"\nof = [{{ record = \"made\" }}]\nwithin = [0.0, 9.0]\nclaimed = {claimed}"
            );
            toml::from_str::<Claim>(&toml).unwrap().doubts(&store, "nvidia-h200", true)
        };
        // From 2.5 to 10.
        assert!(doubts("[0.0, 2.0]").is_empty());
        assert_eq!(doubts("[0.0, 4.0]"), ["claim x: fails, but 0 of its numbers agree, 0 contradict, and 1 are open"]);
    }

    #[test]
    fn the_claims_can_be_read_and_are_whole() {
        let claims = Claims::read().unwrap();
        let ids: BTreeSet<&str> = claims.all().map(|claim| &*claim.id).collect();
        assert_eq!(ids.len(), claims.all().count(), "ids are of one claim each");
        for paper in &claims.0 {
            assert_eq!((paper.surprising.len(), paper.most_surprising().count()), (3, 3), "{}", paper.id);
            for claim in &paper.claim {
                assert!(claim.id.starts_with(&paper.id), "{}", claim.id);
                let is_measured = !claim.measured.is_empty() || !claim.noted.is_empty();
                match claim.verdict {
                    Verdict::Holds => assert!(is_measured && claim.cause.is_none(), "{}", claim.id),
                    Verdict::Fails => assert!(claim.is_decided() && claim.cause.is_some(), "{}", claim.id),
                    Verdict::Inconclusive => assert!(claim.is_decided() && claim.cause.is_none(), "{}", claim.id),
                    // The cause of what does not hold, if it is known.
                    Verdict::InPart => assert!(is_measured, "{}", claim.id),
                    // Something near it may have been measured.
                    Verdict::NotComparable | Verdict::NotMeasured => {}
                }
                assert!(!claim.why.is_empty() && !claim.says.is_empty() && !claim.section.is_empty(), "{}", claim.id);
            }
        }
        assert_eq!(Verdict::ALL.map(|verdict| claims.count(verdict)).iter().sum::<usize>(), ids.len());
    }
}
