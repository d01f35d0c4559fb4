//! Rows: what was measured, and the conditions under which it was.

use crate::extra::{Extra, Extras, IntoExtra};
use crate::timing::Timing;
use serde::{Serialize, Serializer};
use std::fmt::Display;

/// One measurement: columns that every figure has, and extras that some have. `W` holds names, `C` the checksum.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(bound(serialize = "W: Serialize, C: Display"))]
pub struct Row<W = String, C = String> {
    /// The name of the table to which it belongs.
    pub section: W,
    /// `harmonia`, or a competitor, or `ceiling`.
    pub index: W,
    /// What was done, such as `get`.
    pub operation: String,
    /// Where it ran: `cuda`, `host`, `emulated`, or `cpu`.
    pub device: String,
    /// Where the keys come from.
    pub keys: String,
    /// The keys' type.
    pub key: W,
    /// The values' type.
    pub value: W,
    /// Pairs in the index.
    pub n: u64,
    /// Operations of a run.
    pub batch: u64,
    /// How long the runs took.
    #[serde(flatten)]
    pub timing: Timing,
    /// Operations, in 10^9 per second.
    pub giga_per_second: f64,
    /// Of the outputs of the last run: they were compared with what is right, one by one. As text in the JSON, since
    /// readers of JSON round large numbers.
    #[serde(serialize_with = "as_text")]
    pub checksum: C,
    #[serde(flatten)]
    pub(crate) extras: Extras,
}

fn as_text<S: Serializer>(of: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(of)
}

impl<C> Row<&'static str, C> {
    /// A row that says only what was measured, and how long it took.
    pub fn new(
        section: &'static str,
        index: &'static str,
        operation: impl Into<String>,
        batch: usize,
        timing: Timing,
        checksum: C,
    ) -> Self {
        Self {
            section,
            index,
            operation: operation.into(),
            device: String::new(),
            keys: String::new(),
            key: "",
            value: "",
            n: 0,
            batch: batch as u64,
            giga_per_second: batch as f64 / timing.median_ms.max(1e-9) / 1e6,
            timing,
            checksum,
            extras: Extras::default(),
        }
    }

    /// Says where it ran.
    #[must_use]
    pub fn on(mut self, device: &str) -> Self {
        self.device = device.into();
        self
    }

    /// Says what the index holds: `n` pairs, the names of the types of `key` and `value`, and where the `keys` come from.
    #[must_use]
    pub fn over(mut self, n: usize, key: &'static str, value: &'static str, keys: impl Into<String>) -> Self {
        (self.key, self.value) = (key, value);
        (self.keys, self.n) = (keys.into(), n as u64);
        self
    }

    /// Says more, under a name that no other extra of the row has. A name with a dot, `psa.sort`, is a member of an
    /// object in the JSON.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl IntoExtra) -> Self {
        self.set(name, value);
        self
    }

    /// [`Row::with`], of a row that stays where it is. An extra of that name is replaced.
    pub fn set(&mut self, name: &'static str, value: impl IntoExtra) {
        self.extras.set(name, value.into_extra());
    }
}

impl<W, C> Row<W, C> {
    /// An extra, if the row has it.
    pub fn extra(&self, name: &str) -> Option<&Extra> {
        self.extras.get(name)
    }

    /// An extra that is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.extra(name)?.number()
    }

    /// An extra that is a whole number.
    pub fn integer(&self, name: &str) -> Option<u64> {
        if let Some(&Extra::Integer(value)) = self.extra(name) { Some(value) } else { None }
    }

    /// An extra that is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        if let Some(Extra::Text(value)) = self.extra(name) { Some(value) } else { None }
    }

    /// Whether an extra is set and true.
    pub fn is(&self, name: &str) -> bool {
        self.extra(name) == Some(&Extra::Bool(true))
    }

    /// The part of its ceiling that was reached, if that is more than clocks can be off by: then the ceiling is none.
    pub fn above_ceiling(&self) -> Option<f64> {
        let part = self.giga_per_second / self.number("ceiling_giga_per_second")?;
        (part > 1.03).then_some(part)
    }

    /// `count` of something per run, in 10^9 per second.
    pub fn giga_per_second_of(&self, count: f64) -> f64 {
        count / self.timing.median_ms.max(1e-9) / 1e6
    }
}

impl Row {
    /// All columns but the runs and the checksum, and all extras, by their names in the JSON.
    pub fn fields(&self) -> impl Iterator<Item = (&str, Extra)> {
        let texts = [
            ("section", &self.section),
            ("index", &self.index),
            ("operation", &self.operation),
            ("device", &self.device),
            ("keys", &self.keys),
            ("key", &self.key),
            ("value", &self.value),
        ];
        let numbers = [
            ("median_ms", self.timing.median_ms),
            ("min_ms", self.timing.min_ms),
            ("max_ms", self.timing.max_ms),
            ("giga_per_second", self.giga_per_second),
        ];
        let texts = texts.into_iter().map(|(name, text)| (name, Extra::Text(text.clone())));
        let counts = [("n", self.n), ("batch", self.batch)].map(|(name, count)| (name, Extra::Integer(count)));
        let numbers = numbers.map(|(name, number)| (name, Extra::Number(number)));
        let extras = self.extras.0.iter().map(|(name, extra)| (&**name, extra.clone()));
        texts.chain(counts).chain(numbers).chain(extras)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row<&'static str, u64> {
        Row::new("end-to-end", "harmonia", "get", 2_000_000, Timing::of(vec![2.0]), u64::MAX)
    }

    #[test]
    fn what_is_above_its_ceiling_is_told() {
        let mut row = row();
        assert_eq!(row.above_ceiling(), None);
        row.set("ceiling_giga_per_second", row.giga_per_second / 1.02);
        assert_eq!(row.above_ceiling(), None);
        row.set("ceiling_giga_per_second", row.giga_per_second / 1.5);
        assert!(row.above_ceiling().is_some_and(|part| (part - 1.5).abs() < 1e-9));
    }

    #[test]
    fn a_row_says_what_it_is_in_json() {
        let row = row().with("fanout", 16_u32).with("hit_rate", None::<f64>).with("psa.sort", "full");
        let row = row.with("psa.is_chosen", true).with("bytes_per_key", 16.5);
        assert_eq!(row.giga_per_second, 1.0);
        let json = serde_json::to_value(row).unwrap();
        assert_eq!(json["section"], "end-to-end");
        assert_eq!(json["median_ms"], 2.0);
        assert_eq!(json["checksum"], u64::MAX.to_string());
        assert_eq!((&json["fanout"], &json["bytes_per_key"]), (&16.into(), &16.5.into()));
        assert!(json.get("hit_rate").is_none());
        assert_eq!(json["psa"], serde_json::json!({ "sort": "full", "is_chosen": true }));
    }

    #[test]
    fn an_extra_is_what_it_was_set_to_last() {
        let mut row = row().with("group", 8_u32);
        row.set("group", 4_u32);
        assert_eq!((row.integer("group"), row.number("group"), row.text("group")), (Some(4), Some(4.0), None));
        row.set("group", None::<u32>);
        assert_eq!(row.extra("group"), None);
    }
}
