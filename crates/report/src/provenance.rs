//! What the records of a paper's claims were made on and from.

use crate::claims::Paper;
use crate::store::{Held, Store};
use lanetree_record::{Built, Record};
use std::collections::{BTreeMap, BTreeSet};

/// A line for each machine whose records the paper's claims read: of its own card first.
pub(crate) fn lines(paper: &Paper, store: &Store) -> Vec<String> {
    let read: BTreeSet<(bool, &str, &str)> = paper
        .claim
        .iter()
        .flat_map(|claim| &claim.measured)
        .flat_map(|measure| {
            let card = measure.card(&paper.card);
            measure.records().into_iter().map(move |name| (card != paper.card, card, name))
        })
        .collect();
    by_machine(read, store).map(|(line, _)| line).collect()
}

/// A line for each machine of records, which are given with whether their card comes last; and the records.
fn by_machine<'a>(
    read: BTreeSet<(bool, &str, &'a str)>,
    store: &'a Store,
) -> impl Iterator<Item = (String, Vec<&'a Record>)> {
    let mut machines: BTreeMap<(bool, String), Vec<(&str, &Record)>> = BTreeMap::new();
    for (is_other, card, name) in read {
        if let Some(Held::Bench { record, .. }) = store.get(card, name) {
            machines.entry((is_other, machine(record))).or_default().push((name, record));
        }
    }
    machines.into_iter().map(|((_, machine), named)| {
        let records: Vec<&Record> = named.iter().map(|&(_, record)| record).collect();
        (format!("{machine}{}: {}{}", cards(&records), commits(&records), cut(&named)), records)
    })
}

/// What records, given by card and name, were made on, from and when: a paragraph.
pub(crate) fn of_records(read: BTreeSet<(&str, &str)>, store: &Store) -> String {
    let rivals = read.iter().filter_map(|&(card, name)| {
        let Some(Held::Rivals(rows)) = store.get(card, name) else { return None };
        let first = rows.first()?;
        Some(format!("{}, driver {}: {name}, no date", first.words("card"), first.words("driver")))
    });
    let named = read.iter().map(|&(card, name)| (false, card, name)).collect();
    let machines = by_machine(named, store).map(|(line, records)| format!("{line}, {}", dates(&records)));
    let all: Vec<String> = machines.chain(rivals).collect();
    format!("Measured on: {}.", all.join(". "))
}

/// The commits and days of records of a card.
pub(crate) fn commits_and_dates(card: &str, names: &BTreeSet<&str>, store: &Store) -> String {
    let mut records: Vec<&Record> = Vec::new();
    let mut others: Vec<&str> = Vec::new();
    for name in names {
        match store.get(card, name) {
            Some(Held::Bench { record, .. }) => records.push(record),
            _ => others.push(name),
        }
    }
    let benched = (!records.is_empty()).then(|| format!("{}, {}", commits(&records), dates(&records)));
    let others = others.into_iter().map(|name| format!("{name}: no commit, no date"));
    benched.into_iter().chain(others).collect::<Vec<_>>().join("; ")
}

/// The first and the last day of records.
fn dates(records: &[&Record]) -> String {
    let dates: BTreeSet<&str> = records.iter().filter_map(|record| record.date.as_deref()).collect();
    let without = records.iter().filter(|record| record.date.is_none()).count();
    let known = match (dates.first(), dates.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(date), _) => (*date).to_owned(),
        _ => return "no date".into(),
    };
    if without == 0 { known } else { format!("{known}, {without} without a date") }
}

/// The cards that records are of, by the beginnings of the numbers that cards have.
fn cards(records: &[&Record]) -> String {
    let settings = records.iter().filter_map(|record| record.machine.gpu.as_ref()).flat_map(|gpu| &gpu.settings);
    let uuids: BTreeSet<&str> = settings.filter(|(name, _)| name == "uuid").map(|(_, uuid)| &**uuid).collect();
    if uuids.is_empty() {
        return String::new();
    }
    let short: Vec<String> = uuids.iter().map(|uuid| uuid.chars().take(12).collect()).collect();
    format!(" (card{} {})", if short.len() == 1 { "" } else { "s" }, short.join(", "))
}

/// What the limits of runs left out, by record.
fn cut(records: &[(&str, &Record)]) -> String {
    let over = |record: &Record| record.skipped.iter().filter(|line| line.ends_with(TIME_IS_OVER)).count();
    let cut = records.iter().map(|&(name, record)| (name, over(record))).filter(|&(_, count)| count > 0);
    let cut: Vec<String> = cut.map(|(name, count)| format!("{name} ({count})")).collect();
    if cut.is_empty() { cut.concat() } else { format!("; parts left out for time: {}", cut.join(", ")) }
}

/// How a line ends that says what the bench's limit left out.
const TIME_IS_OVER: &str = "the time of --max-seconds is over";

fn machine(record: &Record) -> String {
    let machine = &record.machine;
    let card = machine.device.split(" (").next().unwrap_or(&machine.device);
    let driver = machine.driver.as_ref().map_or_else(String::new, |driver| format!(", driver {driver}"));
    let model = machine.host.as_ref().and_then(|host| host.cpu_model.as_ref());
    let model = model.map_or_else(String::new, |model| format!(" (family, model, stepping: {model})"));
    format!("{card}{driver}; {}{model}, {} threads", machine.cpu, machine.cpu_threads)
}

/// The commits of records, and how many have none.
fn commits(records: &[&Record]) -> String {
    let built = |record: &Record| -> Vec<String> {
        record.made.iter().filter_map(|made| made.built.as_ref()).map(commit).collect()
    };
    let named: BTreeSet<String> = records.iter().flat_map(|record| built(record)).collect();
    let without = records.iter().filter(|record| built(record).is_empty()).count();
    let mut parts = Vec::new();
    if !named.is_empty() {
        let named = named.into_iter().collect::<Vec<_>>().join(", ");
        parts.push(format!("{} made at commit {named}", counted(records.len() - without)));
    }
    if without > 0 {
        parts.push(format!("{} without a commit; see the history of benches/record", counted(without)));
    }
    parts.join("; ")
}

fn counted(records: usize) -> String {
    format!("{records} record{}", if records == 1 { "" } else { "s" })
}

/// A commit, and whether there were uncommitted changes.
pub(crate) fn commit(built: &Built) -> String {
    let short: String = built.commit.chars().take(12).collect();
    if built.is_clean { short } else { format!("{short} with changes") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_paper_names_the_machines_and_commits_of_its_records() {
        let paper = |card: &str| -> Paper {
            let toml = format!(
                "id = \"x\"\nname = \"X\"\ncard = {card:?}\nabout = \"a\"\nsurprising = []\n[[claim]]\nid = \"x-1\"\nsection = \"1\"\n\
                 says = \"s\"\nwhy = \"w\"\nverdict = \"holds\"\n[[claim.measured]]\nwhat = \"m\"\nunit = \"times\"\n\
                 card = \"nvidia-h200\"\nof = [{{ record = \"made\" }}]\nwithin = [0.0, 4.0]"
            );
            toml::from_str(&toml).unwrap()
        };
        let store = crate::store::tests::store("made", &[json!({ "giga_per_second": 2.0 })]);
        let lines = lines(&paper("another"), &store);
        assert_eq!(lines.len(), 1, "the measure's card, not the paper's: {lines:?}");
        assert!(lines[0].starts_with("NVIDIA H200"), "{lines:?}");
        assert!(lines[0].contains("1 record without a commit"), "{lines:?}");
    }

    #[test]
    fn records_name_their_days() {
        let of = |date: Option<&str>| {
            let text = crate::store::tests::record(&[json!({})]);
            let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
            json["date"] = json!(date);
            Record::parse(&json.to_string()).unwrap()
        };
        let [first, last, none] = [Some("2026-11-26"), Some("2026-11-27"), None].map(of);
        assert_eq!(dates(&[&last, &first]), "2026-11-26 to 2026-11-27");
        assert_eq!(dates(&[&first, &none]), "2026-11-26, 1 without a date");
        assert_eq!(dates(&[&none]), "no date");
    }

    #[test]
    fn cards_are_named_and_what_time_left_out() {
        let one = |uuid: &str, skipped: &[&str]| {
            let text = crate::store::tests::record(&[json!({})]);
            let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
            json["machine"]["gpu"] = json!({ "settings": [["name", "NVIDIA H200"], ["uuid", uuid]] });
            json["skipped"] = json!(skipped);
            Record::parse(&json.to_string()).unwrap()
        };
        let (first, second) = (
            one("GPU-01234567-89", &[]),
            one("GPU-76543210-89", &["n = 4: none", "n = 8: the time of --max-seconds is over"]),
        );
        assert_eq!(cards(&[&first, &second, &first]), " (cards GPU-01234567, GPU-76543210)");
        assert_eq!(cards(&[&first]), " (card GPU-01234567)");
        assert_eq!(cut(&[("a", &first), ("b", &second)]), "; parts left out for time: b (1)");
        assert_eq!(cut(&[("a", &first)]), "");
    }
}
