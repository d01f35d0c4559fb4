//! The parser of key files, over files that hold anything.

use lanetree_bench::keys::{Format, read};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use std::io::Write;

fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// Bytes that are nearly a file of keys.
fn bytes(rng: &mut StdRng, format: Format) -> Vec<u8> {
    let mut bytes: Vec<u8> = match format {
        Format::Sosd => {
            let count = rng.random_range(0..20_u64);
            let keys = (0..count).flat_map(|_| rng.random::<u64>().to_le_bytes()).collect::<Vec<_>>();
            let count = [count, count * 2, u64::MAX, u64::MAX / 8][rng.random_range(0..12_usize).saturating_sub(8)];
            [&count.to_le_bytes()[..], &keys].concat()
        }
        Format::Text => {
            let line = |rng: &mut StdRng| match rng.random_range(0..6) {
                0 => "# a comment\n".to_owned(),
                1 => "\r\n".to_owned(),
                2 => format!("{} # one\n", rng.random::<u64>()),
                _ => format!("{}\n", rng.random::<u32>()),
            };
            (0..rng.random_range(0..20)).map(|_| line(rng)).collect::<String>().into_bytes()
        }
    };
    // Often whole, and otherwise changed at a few places or cut.
    for _ in 0..[0, 0, 1, 3][rng.random_range(0..4)] {
        let len = bytes.len().max(1);
        match rng.random_range(0..3) {
            0 => bytes.truncate(rng.random_range(0..len)),
            1 => bytes.insert(rng.random_range(0..len).min(bytes.len()), rng.random()),
            _ => {
                let at = rng.random_range(0..len);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = rng.random();
                }
            }
        }
    }
    bytes
}

#[test]
fn any_file_is_read_or_refused() {
    let mut read_whole = [0; 2];
    for seed in 0..1000 {
        let mut rng = StdRng::seed_from_u64(seed);
        for (format, read_whole) in [Format::Sosd, Format::Text].into_iter().zip(&mut read_whole) {
            let bytes = bytes(&mut rng, format);
            let file = file(&bytes);
            let wide = read::<u64>(file.path(), format);
            let narrow = read::<u32>(file.path(), format);
            *read_whole += u32::from(wide.is_ok());
            match (format, wide, narrow) {
                (Format::Sosd, Ok(keys), _) => assert_eq!(8 + 8 * keys.len(), bytes.len()),
                (Format::Sosd, _, Ok(keys)) => assert_eq!(8 + 4 * keys.len(), bytes.len()),
                (Format::Text, Ok(keys), narrow) => {
                    assert!(keys.len() <= bytes.len());
                    let fits = keys.iter().all(|&key| key <= u32::MAX.into());
                    assert_eq!(narrow.is_ok(), fits);
                }
                (_, Err(error), Err(_)) => assert!(error.to_string().contains(&file.path().display().to_string())),
                (Format::Text, Err(_), Ok(_)) => panic!("narrow keys are wide ones, too"),
            }
        }
    }
    assert!(read_whole.iter().all(|&count| count > 100), "{read_whole:?}");
}

#[test]
fn bytes_of_any_kind_are_read_or_refused() {
    for seed in 0..500 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut bytes = vec![0; rng.random_range(0..100)];
        rng.fill_bytes(&mut bytes);
        for format in [Format::Sosd, Format::Text] {
            let file = file(&bytes);
            if let Ok(keys) = read::<u64>(file.path(), format) {
                assert!(!keys.is_empty());
            }
            drop(read::<u32>(file.path(), format));
        }
    }
}
