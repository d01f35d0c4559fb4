//! Files of keys: SOSD's binary format, and plain text.

use bytemuck::Pod;
use core::str::FromStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// How a file holds its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A count of 8 bytes, then that number of keys, all little-endian (the data sets of "Search on Sorted Data")
    Sosd,
    /// One decimal number per line; `#` begins a comment
    Text,
}

/// An unsigned integer that files hold.
pub trait FileKey: Pod + FromStr {
    /// From the file's order of bytes to the machine's.
    fn from_le(key: Self) -> Self;
}

impl FileKey for u32 {
    fn from_le(key: Self) -> Self {
        u32::from_le(key)
    }
}

impl FileKey for u64 {
    fn from_le(key: Self) -> Self {
        u64::from_le(key)
    }
}

/// What is wrong with a file of keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system cannot open or read it.
    #[error("cannot read {}: {source}", path.display())]
    #[expect(missing_docs, reason = "the message says what the fields are")]
    Io { path: PathBuf, source: io::Error },

    /// A binary file that has no length.
    #[error("{} is not a regular file: a binary file of keys must have a known length", path.display())]
    #[expect(missing_docs, reason = "as above")]
    NotAFile { path: PathBuf },

    /// A binary file without a whole count.
    #[error("{} is truncated: it has {found} bytes, and the count of its keys alone takes 8", path.display())]
    #[expect(missing_docs, reason = "as above")]
    NoCount { path: PathBuf, found: u64 },

    /// Text that was to be read as a binary file.
    #[error("{} looks like text, not like a binary file of keys: it begins with \"{start}\"; read it with --format text", path.display())]
    #[expect(missing_docs, reason = "as above")]
    IsText { path: PathBuf, start: String },

    /// A binary file that ends before its last key.
    #[error(
        "{} is truncated: the count at offset 0 is {count}, so {expected} bytes are expected with keys of {} bits, \
         but there are {found}: the file ends inside or before key {}{hint}",
        path.display(), width * 8, (found - 8) / width
    )]
    #[expect(missing_docs, reason = "as above")]
    Truncated { path: PathBuf, count: u64, width: u64, expected: u128, found: u64, hint: &'static str },

    /// A binary file with something after its last key.
    #[error(
        "{} has bytes from offset {expected} on that its count does not account for: the count at offset 0 is {count}, \
         so {expected} bytes are expected with keys of {} bits, but there are {found}{hint}",
        path.display(), width * 8
    )]
    #[expect(missing_docs, reason = "as above")]
    TooLong { path: PathBuf, count: u64, width: u64, expected: u128, found: u64, hint: &'static str },

    /// A line of text that is no number.
    #[error("{}, line {line}: \"{value}\" is not a number", path.display())]
    #[expect(missing_docs, reason = "as above")]
    NotANumber { path: PathBuf, line: u64, value: String },

    /// A number that keys of the width do not reach.
    #[error("{}, line {line}: {value} is no key of {bits} bits: those go from 0 to {max}{hint}", path.display())]
    #[expect(missing_docs, reason = "as above")]
    OutOfRange { path: PathBuf, line: u64, value: String, bits: u32, max: u64, hint: &'static str },

    /// A file with a count of zero, or with comments alone.
    #[error("{} has no keys", path.display())]
    #[expect(missing_docs, reason = "as above")]
    NoKeys { path: PathBuf },
}

/// Reads the keys of a file, in its order, duplicates and all; at least one.
///
/// # Errors
/// What is wrong with the file, and where.
pub fn read<K: FileKey>(path: &Path, format: Format) -> Result<Vec<K>, Error> {
    let file = File::open(path).map_err(|source| Error::Io { path: path.into(), source })?;
    let keys = match format {
        Format::Sosd => binary(path, file)?,
        Format::Text => text(path, BufReader::with_capacity(1 << 20, file))?,
    };
    if keys.is_empty() { Err(Error::NoKeys { path: path.into() }) } else { Ok(keys) }
}

fn binary<K: FileKey>(path: &Path, mut file: File) -> Result<Vec<K>, Error> {
    let in_file = |source| Error::Io { path: path.into(), source };
    let metadata = file.metadata().map_err(in_file)?;
    if !metadata.is_file() {
        return Err(Error::NotAFile { path: path.into() });
    }
    let found = metadata.len();
    let mut count = [0; 8];
    let start = &mut count[..found.min(8) as usize];
    file.read_exact(start).map_err(in_file)?;
    // As a count, eight characters are more keys than any file has.
    if let Some(start) = as_text(start) {
        return Err(Error::IsText { path: path.into(), start });
    }
    if found < 8 {
        return Err(Error::NoCount { path: path.into(), found });
    }
    let count = u64::from_le_bytes(count);
    let width = size_of::<K>() as u64;
    let bytes = |width: u64| 8 + u128::from(count) * u128::from(width);
    // Before anything of the size that the file claims is allocated.
    let expected = bytes(width);
    if expected != u128::from(found) {
        let other = if width == 8 { 4 } else { 8 };
        let hint = match (bytes(other) == u128::from(found), width) {
            (true, 8) => "; the length is right for keys of 32 bits: --key-width 32",
            (true, _) => "; the length is right for keys of 64 bits: --key-width 64",
            (false, _) => "",
        };
        let path = path.into();
        return Err(if expected > u128::from(found) {
            Error::Truncated { path, count, width, expected, found, hint }
        } else {
            Error::TooLong { path, count, width, expected, found, hint }
        });
    }
    let mut keys = vec![K::zeroed(); count as usize];
    file.read_exact(bytemuck::cast_slice_mut(&mut keys)).map_err(in_file)?;
    for key in &mut keys {
        *key = K::from_le(*key);
    }
    Ok(keys)
}

/// The first line of bytes of which all are printable ASCII or space, if there are any.
fn as_text(bytes: &[u8]) -> Option<String> {
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    if bytes.is_empty() || !bytes.iter().all(is_text) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    Some(text.trim_start().lines().next().unwrap_or_default().to_owned())
}

fn text<K: FileKey>(path: &Path, mut input: impl BufRead) -> Result<Vec<K>, Error> {
    let mut keys = Vec::new();
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let read = input.read_until(b'\n', &mut bytes).map_err(|source| Error::Io { path: path.into(), source })?;
        if read == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&bytes);
        let number = text.split('#').next().unwrap_or_default().trim();
        if number.is_empty() {
            continue;
        }
        keys.push(number.parse().map_err(|_| refused::<K>(path, line, number))?);
    }
    Ok(keys)
}

/// The error for what is no key, by whether it is a number.
fn refused<K: FileKey>(path: &Path, line: u64, text: &str) -> Error {
    const SHOWN: usize = 40;
    let mut value: String = text.chars().take(SHOWN).collect();
    if value.len() < text.len() {
        value.push('…');
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Error::NotANumber { path: path.into(), line, value };
    }
    let bits = size_of::<K>() as u32 * 8;
    let fits_wider = bits == 32 && text.parse::<u64>().is_ok();
    let hint = if fits_wider { "; --key-width 64 would take it" } else { "" };
    Error::OutOfRange { path: path.into(), line, value, bits, max: u64::MAX >> (64 - bits), hint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use tempfile::NamedTempFile;

    fn file(bytes: &[u8]) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file.flush().unwrap();
        file
    }

    fn sosd<K: Pod>(count: u64, keys: &[K]) -> Vec<u8> {
        [&count.to_le_bytes()[..], bytemuck::cast_slice(keys)].concat()
    }

    fn read_bytes<K: FileKey>(bytes: &[u8], format: Format) -> Result<Vec<K>, String> {
        let file = file(bytes);
        let name = file.path().display().to_string();
        read(file.path(), format).map_err(|error| {
            let message = error.to_string();
            assert!(message.contains(&name), "{message}: without the file's name");
            message.replace(&name, "FILE")
        })
    }

    #[test]
    fn binary_files_of_both_widths() {
        assert_eq!(read_bytes::<u64>(&sosd(3, &[7_u64, 7, u64::MAX]), Format::Sosd).unwrap(), [7, 7, u64::MAX]);
        assert_eq!(read_bytes::<u32>(&sosd(2, &[9_u32, 0]), Format::Sosd).unwrap(), [9_u32, 0]);
    }

    #[test]
    fn text_with_comments_and_blank_lines() {
        let text = b"# keys\n3\n\n 18446744073709551615 \r\n1 # one\n   \n3";
        assert_eq!(read_bytes::<u64>(text, Format::Text).unwrap(), [3, u64::MAX, 1, 3]);
    }

    #[test]
    fn a_truncated_file_says_what_is_missing() {
        let mut bytes = sosd(5, &[1_u64, 2, 3]);
        assert_eq!(
            read_bytes::<u64>(&bytes, Format::Sosd).unwrap_err(),
            "FILE is truncated: the count at offset 0 is 5, so 48 bytes are expected with keys of 64 bits, but there \
             are 32: the file ends inside or before key 3"
        );
        bytes.truncate(7);
        assert_eq!(
            read_bytes::<u64>(&bytes, Format::Sosd).unwrap_err(),
            "FILE is truncated: it has 7 bytes, and the count of its keys alone takes 8"
        );
    }

    #[test]
    fn text_that_is_read_as_binary_is_told_to_be_text() {
        for (text, start) in
            [("10\n20\n30\n40\n", "10"), ("# keys\n1\n2\n", "# keys"), ("7\n9\n", "7"), ("123456789", "12345678")]
        {
            let error = read_bytes::<u64>(text.as_bytes(), Format::Sosd).unwrap_err();
            assert!(error.contains(&format!("begins with \"{start}\"")) && error.ends_with("--format text"), "{error}");
        }
        // A count of 0x2020 is plausible, and a binary file.
        let keys: Vec<u32> = (0..0x2020).collect();
        assert_eq!(read_bytes::<u32>(&sosd(0x2020, &keys), Format::Sosd).unwrap(), keys);
    }

    #[test]
    fn a_count_that_does_not_match_is_told_from_the_wrong_width() {
        let error = read_bytes::<u32>(&sosd(2, &[1_u64, 2]), Format::Sosd).unwrap_err();
        assert!(error.contains("bytes from offset 16 on") && error.ends_with("--key-width 64"), "{error}");
        let error = read_bytes::<u64>(&sosd(2, &[1_u32, 2]), Format::Sosd).unwrap_err();
        assert!(error.contains("24 bytes are expected") && error.ends_with("--key-width 32"), "{error}");
        // A count that no memory could hold is refused before anything is allocated.
        let error = read_bytes::<u64>(&sosd(u64::MAX, &[1_u64]), Format::Sosd).unwrap_err();
        assert!(error.contains("147573952589676412928 bytes are expected"), "{error}");
    }

    #[test]
    fn what_is_no_key_is_named_with_its_line() {
        let refused = |text: &str| read_bytes::<u32>(text.as_bytes(), Format::Text).unwrap_err();
        assert_eq!(refused("1\n# 2\nthree\n"), "FILE, line 3: \"three\" is not a number");
        assert_eq!(refused("1 2"), "FILE, line 1: \"1 2\" is not a number");
        assert_eq!(
            refused("\n4294967296"),
            "FILE, line 2: 4294967296 is no key of 32 bits: those go from 0 to 4294967295; --key-width 64 would take it"
        );
        assert_eq!(refused("-1"), "FILE, line 1: -1 is no key of 32 bits: those go from 0 to 4294967295");
        let error = read_bytes::<u64>(b"99999999999999999999", Format::Text).unwrap_err();
        assert!(error.ends_with("those go from 0 to 18446744073709551615"), "{error}");
        let error = read_bytes::<u64>(&[b'\xff'; 100], Format::Text).unwrap_err();
        assert!(error.starts_with("FILE, line 1: ") && error.ends_with("…\" is not a number"), "{error}");
    }

    #[test]
    fn files_without_keys_and_no_files_are_errors() {
        assert_eq!(read_bytes::<u64>(b"# none\n", Format::Text).unwrap_err(), "FILE has no keys");
        assert_eq!(read_bytes::<u64>(&sosd::<u64>(0, &[]), Format::Sosd).unwrap_err(), "FILE has no keys");
        let error = read::<u64>(Path::new("/nowhere/keys"), Format::Sosd).unwrap_err();
        assert!(error.to_string().starts_with("cannot read /nowhere/keys: "), "{error}");
        let error = read::<u64>(&std::env::temp_dir(), Format::Sosd).unwrap_err();
        assert!(matches!(error, Error::NotAFile { .. }), "{error}");
    }
}
