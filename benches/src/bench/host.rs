//! The computer and the card's settings, as Linux and `nvidia-smi` say them.

use lanetree_record::{Gpu, Host};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// The computer.
pub(crate) fn host() -> Host {
    let cpus = read("/proc/cpuinfo").unwrap_or_default();
    let of = |name: &'static str| field(&cpus, name);
    let model = ["cpu family", "model", "stepping"].map(of);
    let sockets: BTreeSet<&str> = fields(&cpus, "physical id").collect();
    Host {
        cpu_model: model.iter().all(Option::is_some).then(|| model.map(Option::unwrap_or_default).join(", ")),
        sockets: (!sockets.is_empty()).then_some(sockets.len() as u64),
        numa_nodes: numa_nodes(),
        last_cache_bytes: last_caches(),
        cpu_mhz: of("cpu MHz").and_then(|mhz| mhz.parse().ok()).map(|mhz: f64| mhz.round() as u64),
        memory_bytes: read("/proc/meminfo").and_then(|text| kibibytes(field(&text, "MemTotal")?)),
        kernel: read("/proc/sys/kernel/osrelease"),
        huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|text| chosen(&text)),
    }
}

/// What is asked of `nvidia-smi`: clocks as they can be and as they are, what limits them, and how the card is attached.
const SETTINGS: [&str; 13] = [
    "name",
    "uuid",
    "vbios_version",
    "clocks.max.sm",
    "clocks.max.mem",
    "clocks.sm",
    "clocks.mem",
    "power.limit",
    "persistence_mode",
    "ecc.mode.current",
    "mig.mode.current",
    "pcie.link.gen.max",
    "pcie.link.width.max",
];

/// The first card's settings; `None` if there is no such program.
pub(crate) fn gpu() -> Option<Gpu> {
    // The first of those that the program may use.
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let id = visible.split(',').next().filter(|id| !id.is_empty()).unwrap_or("0");
    let output = Command::new("nvidia-smi")
        .args(["--id", id, "--format=csv,noheader", &format!("--query-gpu={}", SETTINGS.join(","))])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(Gpu { settings: settings(&String::from_utf8_lossy(&output.stdout)) })
}

/// The settings of a line of values.
fn settings(line: &str) -> Vec<(String, String)> {
    let values = line.trim().split(',').map(str::trim);
    SETTINGS.iter().zip(values).map(|(&name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The values of all lines `name : value`.
fn fields<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.filter(move |(other, _)| other.trim() == name).map(|(_, value)| value.trim())
}

fn field<'a>(text: &'a str, name: &'a str) -> Option<&'a str> {
    fields(text, name).next()
}

/// `61440K` or `24000 kB`, as bytes.
fn kibibytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

/// The choice in brackets of `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn numa_nodes() -> Option<u64> {
    let is_node = |name: &str| {
        name.strip_prefix("node").is_some_and(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()))
    };
    let names = fs::read_dir("/sys/devices/system/node").ok()?.flatten();
    Some(names.filter(|entry| entry.file_name().to_str().is_some_and(is_node)).count() as u64)
}

/// The total size of the caches of the highest level; a cache that several CPUs share counts once.
fn last_caches() -> Option<u64> {
    let mut caches = BTreeSet::new();
    for cpu in fs::read_dir("/sys/devices/system/cpu").ok()?.flatten() {
        let folder = cpu.path().join("cache");
        let all = fs::read_dir(folder).into_iter().flatten().flatten();
        let of = |entry: &fs::DirEntry, name: &str| read(entry.path().join(name).to_str()?);
        caches.extend(all.filter_map(|entry| {
            let level: u64 = of(&entry, "level")?.parse().ok()?;
            Some((level, of(&entry, "shared_cpu_list")?, kibibytes(&of(&entry, "size")?)?))
        }));
    }
    let last = caches.iter().map(|(level, ..)| *level).max()?;
    Some(caches.iter().filter(|(level, ..)| *level == last).map(|(_, _, bytes)| bytes).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_computer_is_described() {
        let host = host();
        assert!(host.memory_bytes > Some(1 << 28) && host.kernel.is_some(), "{host:?}");
    }

    #[test]
    fn lines_of_the_system_are_understood() {
        let cpus = "processor : 0\nmodel\t: 143\nmodel name : Xeon\nphysical id : 0\n\nmodel : 143\nphysical id : 1\n";
        assert_eq!((field(cpus, "model"), fields(cpus, "physical id").count()), (Some("143"), 2));
        assert_eq!((kibibytes("61440K"), kibibytes("16 kB"), kibibytes("K")), (Some(60 << 20), Some(16384), None));
        assert_eq!((chosen("always [madvise] never").as_deref(), chosen("?")), (Some("madvise"), None));
        let settings = settings("NVIDIA H200, GPU-1, 96, 1980 MHz\n");
        assert_eq!(settings.len(), 4);
        assert_eq!(settings[3], ("clocks.max.sm".to_owned(), "1980 MHz".to_owned()));
    }
}
