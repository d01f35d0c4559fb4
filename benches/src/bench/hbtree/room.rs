//! Room in host memory. Memory that the system has promised and does not have would end the process.

use crate::bench::session::Session;
use lanetree::Device;
use std::fs;

/// Whether host memory has room for that many more bytes; if not, says so in the report.
pub(crate) fn has_room(session: &mut Session, what: &str, bytes: u64) -> bool {
    let of_system = Device::host().memory().ok().map(|memory| memory.free).filter(|&free| free > 0);
    let Some(free) = of_system.into_iter().chain(of_group()).min() else { return true };
    let fits = bytes <= free - free / 16;
    if !fits {
        let gibibytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        session.skip(format_args!(
            "{what}: takes {:.1} GiB of host memory, and {:.1} GiB are free",
            gibibytes(bytes),
            gibibytes(free)
        ));
    }
    fits
}

/// What is left to the control group of a container, if it has a limit. Files' pages can be had back.
fn of_group() -> Option<u64> {
    let read = |file: &str| fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok();
    let number = |text: String| text.trim().parse::<u64>().ok();
    // Versions 2 and 1. No limit is the word "max", or a number close to the largest.
    let files = [
        ["memory.max", "memory.current", "memory.stat"],
        ["memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"],
    ];
    let [limit, used, stat] = files.into_iter().find(|[limit, ..]| read(limit).is_some())?;
    let (limit, used) = (read(limit).and_then(number)?, read(used).and_then(number)?);
    Some(limit.saturating_sub(used.saturating_sub(read(stat).map_or(0, |stat| files_bytes(&stat)))))
}

/// Bytes of files' pages that were not in use lately.
fn files_bytes(stat: &str) -> u64 {
    let line = stat.lines().find_map(|line| line.strip_prefix("inactive_file "));
    line.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::session::tests::session;

    #[test]
    fn what_does_not_fit_is_said() {
        let mut session = session(Device::host());
        assert!(has_room(&mut session, "a page", 4096));
        assert!(!has_room(&mut session, "n = 2^50", 1 << 60));
        let said = &session.report.record.skipped[0];
        assert!(said.starts_with("n = 2^50: takes 1073741824.0 GiB of host memory, and "), "{said}");
    }

    #[test]
    fn files_that_are_not_in_use_are_counted() {
        assert_eq!(files_bytes("anon 5\nactive_file 1\ninactive_file 4096\n"), 4096);
        assert_eq!(files_bytes(""), 0);
    }
}
