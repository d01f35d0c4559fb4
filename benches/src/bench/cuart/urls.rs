//! Keys in the manner of the CuART paper's figure 12, which has 15.4 M strings of 32 bytes out of a semantic web
//! dump (BTC-2019). These are synthetic: the dump is not to be had here. They are URLs `http://HOST/PATH/NAME`, of
//! hosts and of each host's paths so distributed that the `k`-th most frequent comes about as often as `1 / k`
//! says, with a name that no other has. Keys of one path share beginnings of 18 to 26 bytes.

use crate::bench::data::mix;

/// Bytes of a key.
pub(crate) const WIDTH: usize = 32;

/// Different keys.
pub(crate) const MOST: usize = 1 << (BITS * DIGITS);

/// Number of characters that tell a key from all others.
const DIGITS: usize = 6;
const BITS: usize = 5;

/// Of the octaves of hosts, and of a host's paths: there are 2^12 - 1 and 2^8 - 1.
const HOSTS: u64 = 12;
const PATHS: u64 = 8;

/// Number of different beginnings of the names in a path, where there is room.
const STEMS: u64 = 16;

/// The URL of a number. No two of the first [`MOST`] numbers have the same.
pub(crate) fn url(number: u64, seed: u64) -> [u8; WIDTH] {
    let word = mix(number ^ seed);
    let host = mix(seed ^ by_rank(word, HOSTS));
    let path = mix(host ^ by_rank(word >> 24, PATHS));
    let stem = mix(path ^ ((word >> 48) % STEMS));
    let mut text = Text { bytes: [0; WIDTH], len: 0 };
    text.push(b"http://");
    text.word(host, 3 + host % 5);
    text.push(b".org/");
    text.word(path, 2 + path % 5);
    text.push(b"/");
    text.word(stem, (WIDTH - DIGITS - text.len) as u64);
    // An odd factor and a shift move numbers about, and leave them different.
    let mask = MOST as u64 - 1;
    let moved = number.wrapping_add(seed).wrapping_mul(0x2545_f491_4f6c_dd1d) & mask;
    let digits = moved ^ (moved >> (BITS * DIGITS / 2));
    for digit in (0..DIGITS).rev() {
        text.push(&[b"0123456789abcdefghijklmnopqrstuv"[(digits >> (BITS * digit)) as usize % 32]]);
    }
    text.bytes
}

/// A rank from 1 on and below 2^octaves, that falls into each octave equally often.
fn by_rank(random: u64, octaves: u64) -> u64 {
    let octave = ((random & 0xff) * octaves) >> 8;
    (1 << octave) | ((random >> 8) & ((1 << octave) - 1))
}

/// A key as far as it is written.
struct Text {
    bytes: [u8; WIDTH],
    len: usize,
}

impl Text {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Consonants and vowels in turns.
    fn word(&mut self, random: u64, len: u64) {
        for i in 0..len {
            let letter = (random >> (4 * i % 61)) as usize;
            self.push(if i % 2 == 0 { &b"bcdfghklmnprstvz"[letter % 16..][..1] } else { &b"aeio"[letter % 4..][..1] });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn urls_look_like_it_and_share_beginnings() {
        let mut urls: Vec<[u8; WIDTH]> = (0..1 << 14).map(|number| url(number, 7)).collect();
        urls.sort_unstable();
        let whole = |url: &[u8; WIDTH]| url.is_ascii() && url.starts_with(b"http://") && !url.contains(&0);
        assert!(urls.iter().all(whole));
        assert!(urls.iter().all(|url| url.iter().filter(|&&byte| byte == b'/').count() == 4));
        let common = |pair: &[[u8; WIDTH]]| (0..WIDTH).take_while(|&i| pair[0][i] == pair[1][i]).count();
        let mean = urls.windows(2).map(common).sum::<usize>() as f64 / urls.len() as f64;
        assert!((17.0..30.0).contains(&mean), "{mean}");
        let hosts: BTreeSet<&[u8]> = urls.iter().map(|url| &url[7..11]).collect();
        assert!(hosts.len() > 100, "{}", hosts.len());
    }

    #[test]
    fn the_last_characters_are_a_permutation() {
        let tails: BTreeSet<[u8; DIGITS]> =
            (0..1 << 16).map(|number| url(number << 8, 1)[WIDTH - DIGITS..].try_into().unwrap()).collect();
        assert_eq!(tails.len(), 1 << 16);
    }

    #[test]
    fn frequent_hosts_are_as_frequent_as_the_law_says() {
        let ranks = (0..1 << 16).map(|number| by_rank(mix(number), HOSTS));
        let first = ranks.clone().filter(|&rank| rank == 1).count() as f64 / f64::from(1 << 16);
        assert!((first - 1.0 / HOSTS as f64).abs() < 0.01, "{first}");
        assert!(ranks.into_iter().all(|rank| (1..1 << HOSTS).contains(&rank)));
    }
}
