//! Real input: what Debian installs, or a folder of the same.

use crate::bench::error::{Error, Result};
use core::fmt;
use lanetree::ByteKeysBuf;
use std::fs;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

/// A kind of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Ranges of IPv6 addresses, of a country each.
    Addresses,
    Words,
    Paths,
}

impl Input {
    pub(crate) const ALL: [Self; 3] = [Self::Addresses, Self::Words, Self::Paths];

    /// The file's name in a folder of inputs.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Addresses => "geoip6",
            Self::Words => "words",
            Self::Paths => "paths",
        }
    }

    /// Where the system has it: a file, or for paths the folder of the package manager's lists.
    fn installed(self) -> (&'static str, &'static str) {
        match self {
            Self::Addresses => ("/usr/share/tor/geoip6", "apt-get install tor-geoipdb"),
            Self::Words => ("/usr/share/dict/words", "apt-get install wamerican"),
            Self::Paths => ("/var/lib/dpkg/info", "Debian's package manager has its lists there"),
        }
    }
}

/// Where inputs are looked for.
#[derive(Debug)]
pub(crate) struct Sources {
    /// The folder that was asked for.
    asked: Option<PathBuf>,
    /// The folder `input` next to the program, as `cargo xtask bundle` makes it.
    folder: Option<PathBuf>,
}

impl Sources {
    /// # Errors
    /// [`Error::Usage`] for a folder that has no input at all.
    pub(crate) fn new(asked: Option<&Path>) -> Result<Self> {
        if let Some(folder) = asked.filter(|folder| !Input::ALL.iter().any(|input| folder.join(input.file()).is_file()))
        {
            return Err(Error::Usage(format!(
                "--input {}: none of the files geoip6, words and paths is there",
                folder.display()
            )));
        }
        let program = std::env::current_exe().ok();
        let folder = program.and_then(|program| Some(program.parent()?.join("input")));
        Ok(Self { asked: asked.map(Path::to_path_buf), folder })
    }

    /// A file, or a folder of lists.
    pub(crate) fn find(&self, input: Input) -> Option<PathBuf> {
        if let Some(folder) = &self.asked {
            return Some(folder.join(input.file())).filter(|path| path.is_file());
        }
        let installed = PathBuf::from(input.installed().0);
        let is_there = if input == Input::Paths { !lists(&installed).is_empty() } else { installed.is_file() };
        if is_there {
            return Some(installed);
        }
        Some(self.folder.as_ref()?.join(input.file())).filter(|path| path.is_file())
    }

    /// Why an input is not there.
    pub(crate) fn missing(&self, input: Input) -> String {
        match &self.asked {
            Some(folder) => format!("no file {}", folder.join(input.file()).display()),
            None => {
                let (path, remedy) = input.installed();
                format!("no {path} ({remedy}), nor input/{} next to the program, nor --input", input.file())
            }
        }
    }
}

/// The lists of the package manager.
fn lists(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "list")).collect()
}

/// Ascending keys, each once.
#[derive(Debug)]
pub(crate) struct Strings {
    pub(crate) keys: ByteKeysBuf,
    /// Of addresses, which are the first ones of ranges: the last ones.
    pub(crate) ends: Vec<u128>,
}

impl Strings {
    /// # Errors
    /// [`Error::Usage`] for what cannot be read, or has nothing.
    pub(crate) fn read(input: Input, path: &Path) -> Result<Self> {
        let files = if path.is_dir() { lists(path) } else { vec![path.into()] };
        let mut text = Vec::new();
        for file in files {
            text.extend(fs::read(&file).map_err(|error| wrong(&file, error))?);
            text.push(b'\n');
        }
        let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let strings = if input == Input::Addresses {
            let mut ranges = Vec::new();
            for line in lines.filter(|line| !line.starts_with(b"#")) {
                let line = String::from_utf8_lossy(line);
                let range =
                    range(&line).ok_or_else(|| wrong(path, format_args!("`{line}` is no range of addresses")))?;
                ranges.push(range);
            }
            ranges.sort_unstable();
            ranges.dedup_by_key(|range| range.0);
            let (starts, ends): (Vec<u128>, Vec<u128>) = ranges.into_iter().unzip();
            Self { keys: ByteKeysBuf::encode(&starts), ends }
        } else {
            let mut lines: Vec<&[u8]> = lines.collect();
            lines.sort_unstable();
            lines.dedup();
            Self { keys: lines.into_iter().collect(), ends: Vec::new() }
        };
        if strings.keys.is_empty() {
            return Err(wrong(path, "nothing is in it"));
        }
        Ok(strings)
    }
}

fn wrong(path: &Path, what: impl fmt::Display) -> Error {
    Error::Usage(format!("{}: {what}", path.display()))
}

/// A line `start,end,country`.
fn range(line: &str) -> Option<(u128, u128)> {
    let mut fields = line.split(',');
    let mut address = || Some(u128::from(fields.next()?.parse::<Ipv6Addr>().ok()?));
    let (start, end) = (address()?, address()?);
    (start <= end).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_key_once_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let list = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        list("a.list", "/usr\n/usr/bin\n");
        list("b.list", "/.\n/usr\n");
        list("b.md5sums", "other\n");
        let paths = Strings::read(Input::Paths, folder.path()).unwrap();
        assert!(paths.keys.iter().eq([&b"/."[..], b"/usr", b"/usr/bin"]));

        list("geoip6", "# of whom\n2a00::,2a00::ff,NO\n2001::,2001::1,??\n");
        let addresses = Strings::read(Input::Addresses, &folder.path().join("geoip6")).unwrap();
        assert_eq!((addresses.keys.len(), addresses.ends[0]), (2, (0x2001 << 112) + 1));
        list("geoip6", "2a00::2,2a00::1,NO\n");
        let error = Strings::read(Input::Addresses, &folder.path().join("geoip6")).unwrap_err();
        assert!(error.to_string().ends_with("`2a00::2,2a00::1,NO` is no range of addresses"), "{error}");
    }

    #[test]
    fn a_folder_without_inputs_is_refused_and_a_missing_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Sources::new(Some(folder.path())).unwrap_err();
        assert!(error.to_string().contains("none of the files"), "{error}");
        fs::write(folder.path().join("words"), "a\n").unwrap();
        let sources = Sources::new(Some(folder.path())).unwrap();
        assert!(sources.find(Input::Words).is_some() && sources.find(Input::Paths).is_none());
        assert!(sources.missing(Input::Paths).ends_with("paths"));
        let missing = Sources { asked: None, folder: None }.missing(Input::Addresses);
        assert!(missing.contains("/usr/share/tor/geoip6") && missing.contains("tor-geoipdb"), "{missing}");
    }
}
