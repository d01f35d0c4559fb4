//! Rows: what was measured, and the conditions under which it was.

use super::timing::Timing;
use lanetree_baselines::Checksum;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// One measurement: columns that every figure has, and extras that some have.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The name of the table to which it belongs.
    pub(crate) section: &'static str,
    /// `harmonia`, or a competitor, or `ceiling`.
    pub(crate) index: &'static str,
    pub(crate) operation: String,
    /// Where it ran: `cuda`, `host`, `emulated`, or `cpu`.
    pub(crate) device: String,
    /// Where the keys come from.
    pub(crate) keys: String,
    pub(crate) key: &'static str,
    pub(crate) value: &'static str,
    pub(crate) n: u64,
    /// Operations of a run.
    pub(crate) batch: u64,
    #[serde(flatten)]
    pub(crate) timing: Timing,
    /// Operations, in 10^9 per second.
    pub(crate) giga_per_second: f64,
    /// Of the outputs of the last run: they were compared with what is right, one by one.
    #[serde(serialize_with = "checksum")]
    pub(crate) checksum: Checksum,
    #[serde(flatten)]
    extras: Extras,
}

/// What else a row says, by name and in the order in which it was said. A name with a dot, `psa.sort`, is a member of
/// an object in the JSON.
#[derive(Clone, Debug, Default)]
struct Extras(Vec<(&'static str, Extra)>);

/// A value of an extra.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Extra {
    Integer(u64),
    Number(f64),
    Text(String),
    Bool(bool),
}

/// What an extra can be set to; `None` leaves it out.
pub(crate) trait IntoExtra {
    fn into_extra(self) -> Option<Extra>;
}

macro_rules! into_extra {
    ($($of:ty: $value:ident => $extra:expr;)*) => {
        $(impl IntoExtra for $of {
            fn into_extra(self) -> Option<Extra> {
                let $value = self;
                Some($extra)
            }
        })*
    };
}

into_extra! {
    u32: value => Extra::Integer(value.into());
    u64: value => Extra::Integer(value);
    usize: value => Extra::Integer(value as u64);
    f64: value => Extra::Number(value);
    &str: value => Extra::Text(value.to_owned());
    String: value => Extra::Text(value);
    bool: value => Extra::Bool(value);
}

impl<T: IntoExtra> IntoExtra for Option<T> {
    fn into_extra(self) -> Option<Extra> {
        self.and_then(T::into_extra)
    }
}

impl Row {
    /// A row that says only what was measured, and how long it took.
    pub(crate) fn new(
        section: &'static str,
        index: &'static str,
        operation: impl Into<String>,
        batch: usize,
        timing: Timing,
        checksum: Checksum,
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
    pub(crate) fn on(mut self, device: &str) -> Self {
        self.device = device.into();
        self
    }

    /// Says what the index holds: `n` pairs of a key type and a value type, and where the keys come from.
    pub(crate) fn over(mut self, n: usize, words: (&'static str, &'static str), keys: impl Into<String>) -> Self {
        (self.key, self.value) = words;
        (self.keys, self.n) = (keys.into(), n as u64);
        self
    }

    /// Says more, under a name that no other extra of the row has.
    pub(crate) fn with(mut self, name: &'static str, value: impl IntoExtra) -> Self {
        self.set(name, value);
        self
    }

    /// [`Row::with`], of a row that stays where it is. An extra of that name is replaced.
    pub(crate) fn set(&mut self, name: &'static str, value: impl IntoExtra) {
        self.extras.0.retain(|(other, _)| *other != name);
        self.extras.0.extend(value.into_extra().map(|value| (name, value)));
    }

    /// An extra, if the row has it.
    pub(crate) fn extra(&self, name: &str) -> Option<&Extra> {
        self.extras.0.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// An extra that is a number.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        match self.extra(name)? {
            Extra::Integer(value) => Some(*value as f64),
            Extra::Number(value) => Some(*value),
            Extra::Text(_) | Extra::Bool(_) => None,
        }
    }

    /// An extra that is a whole number.
    pub(crate) fn integer(&self, name: &str) -> Option<u64> {
        if let Some(&Extra::Integer(value)) = self.extra(name) { Some(value) } else { None }
    }

    /// An extra that is text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        if let Some(Extra::Text(value)) = self.extra(name) { Some(value) } else { None }
    }

    /// Whether an extra is set and true.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.extra(name) == Some(&Extra::Bool(true))
    }

    /// The part of its ceiling that was reached, if that is more than clocks can be off by: then the ceiling is none.
    pub(crate) fn above_ceiling(&self) -> Option<f64> {
        let part = self.giga_per_second / self.number("ceiling_giga_per_second")?;
        (part > 1.03).then_some(part)
    }

    /// `count` of something per run, in 10^9 per second.
    pub(crate) fn giga_per_second_of(&self, count: f64) -> f64 {
        count / self.timing.median_ms.max(1e-9) / 1e6
    }
}

fn checksum<S: Serializer>(checksum: &Checksum, serializer: S) -> Result<S::Ok, S::Error> {
    let Checksum { sum, weighted, misses } = checksum;
    // As text: readers of JSON round large numbers.
    serializer.collect_str(&format_args!("{sum:016x}-{weighted:016x}-{misses}"))
}

impl Serialize for Extras {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut objects: Vec<(&str, serde_json::Map<String, serde_json::Value>)> = Vec::new();
        for (name, value) in &self.0 {
            let Some((object, member)) = name.split_once('.') else {
                map.serialize_entry(name, value)?;
                continue;
            };
            let value = serde_json::to_value(value).map_err(serde::ser::Error::custom)?;
            match objects.iter_mut().find(|(other, _)| *other == object) {
                Some((_, members)) => _ = members.insert(member.into(), value),
                None => objects.push((object, [(member.to_owned(), value)].into_iter().collect())),
            }
        }
        for (name, members) in objects {
            map.serialize_entry(name, &members)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let checksum = Checksum { sum: 1, weighted: u64::MAX, misses: 3 };
        Row::new("end-to-end", "harmonia", "get", 2_000_000, Timing::of(vec![2.0]), checksum)
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
        assert_eq!(json["checksum"], "0000000000000001-ffffffffffffffff-3");
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
