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
    let mut machines: BTreeMap<(bool, String), Vec<&Record>> = BTreeMap::new();
    for (is_other, card, name) in read {
        if let Some(Held::Bench { record, .. }) = store.get(card, name) {
            machines.entry((is_other, machine(record))).or_default().push(record);
        }
    }
    let line = |((_, machine), records): ((bool, String), Vec<&Record>)| {
        let cards = match cards(&records) {
            0 | 1 => String::new(),
            cards => format!(" ({cards} such machines)"),
        };
        format!("{machine}{cards}: {}", commits(&records))
    };
    machines.into_iter().map(line).collect()
}

/// How many cards records are of, by the numbers that cards have.
fn cards(records: &[&Record]) -> usize {
    let settings = records.iter().filter_map(|record| record.machine.gpu.as_ref()).flat_map(|gpu| &gpu.settings);
    settings.filter(|(name, _)| name == "uuid").map(|(_, uuid)| uuid).collect::<BTreeSet<_>>().len()
}

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
}
