//! Numbers as readers want them: three digits that count, prefixes, units.

use serde::Deserialize;

/// What a number of a record means, and how it is written.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unit {
    /// 10^9 per second.
    #[default]
    GigaPerSecond,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
    /// Relative to something.
    Times,
    /// A part of one.
    Percent,
    Bytes,
    /// Any count.
    Count,
}

impl Unit {
    /// What a record's number is in units without a prefix.
    pub(crate) fn scale(self) -> f64 {
        match self {
            Self::GigaPerSecond => 1e9,
            Self::Ms => 1e-3,
            Self::Us => 1e-6,
            Self::Ns => 1e-9,
            Self::Percent => 100.0,
            Self::Times | Self::Bytes | Self::Count => 1.0,
        }
    }

    /// Writes a number of a record: 12.5 becomes `12.5 G/s`.
    pub(crate) fn write(self, of_record: f64) -> String {
        self.write_scaled(of_record * self.scale())
    }

    /// Writes a number that was scaled: 1.25e10 becomes `12.5 G/s`.
    pub(crate) fn write_scaled(self, number: f64) -> String {
        if number == 0.0 {
            return "0".into();
        }
        let space = |text: String| if text.ends_with(|c: char| c.is_ascii_digit()) { text + " " } else { text };
        match self {
            Self::GigaPerSecond => space(prefixed(number)) + "/s",
            Self::Ms | Self::Us | Self::Ns => space(prefixed(number)) + "s",
            Self::Bytes => space(prefixed(number)) + "B",
            Self::Times => digits(number) + " ×",
            Self::Percent => digits(number) + " %",
            Self::Count => prefixed(number),
        }
    }
}

/// Three digits that count, and a prefix: `12.5 G`, `340`, `1.2 m`.
pub(crate) fn prefixed(number: f64) -> String {
    if number == 0.0 {
        return "0".into();
    }
    let prefixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")];
    // What would be written as 1000 belongs to the next prefix.
    let (scale, prefix) = prefixes.into_iter().find(|(scale, _)| number.abs() >= scale * 0.9995).unwrap_or((1e-9, "n"));
    let text = digits(number / scale);
    if prefix.is_empty() { text } else { format!("{text} {prefix}") }
}

/// Three digits that count, without zeros at the end of a fraction; whole numbers from 100 on.
pub(crate) fn digits(number: f64) -> String {
    let text = three_digits(number);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Three digits that count, zeros among them: numbers below one another are equally exact.
pub(crate) fn three_digits(number: f64) -> String {
    let places = match number.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    format!("{number:.places$}")
}

/// A count of keys or queries: powers of two with binary prefixes, others with decimal ones.
pub(crate) fn count(number: f64) -> String {
    if number.abs() < 1.0 {
        return digits(number);
    }
    for (scale, prefix) in [(1_u64 << 30, " Gi"), (1 << 20, " Mi"), (1 << 10, " Ki")] {
        let part = number / scale as f64;
        if part >= 1.0 && part.fract() == 0.0 {
            return format!("{part}{prefix}");
        }
    }
    prefixed(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_prefixes_and_units() {
        assert_eq!(Unit::GigaPerSecond.write(12.503), "12.5 G/s");
        assert_eq!(Unit::GigaPerSecond.write(0.0005), "500 k/s");
        assert_eq!(Unit::GigaPerSecond.write(1e-8), "10 /s");
        assert_eq!(Unit::Ms.write(1.5), "1.5 ms");
        assert_eq!(Unit::Us.write(1500.0), "1.5 ms");
        assert_eq!(Unit::Ns.write(53.5), "53.5 ns");
        assert_eq!(Unit::Times.write(3.415), "3.42 ×");
        assert_eq!(Unit::Percent.write(0.2812), "28.1 %");
        assert_eq!(Unit::Bytes.write(17.21), "17.2 B");
        assert_eq!(Unit::Ms.write(0.0), "0");
    }

    #[test]
    fn three_digits_count() {
        let written = [999.6, 99.96, 0.0421, 0.0, 7.0, 1234.0].map(digits);
        assert_eq!(written, ["1000", "100", "0.042", "0", "7", "1234"]);
        assert_eq!([999.6, 999_600.0].map(prefixed), ["1 k", "1 M"]);
        assert_eq!([24.0, 2.999, 120.4, 0.5].map(three_digits), ["24.0", "3.00", "120", "0.500"]);
    }

    #[test]
    fn powers_of_two_have_binary_prefixes() {
        let written = [65536.0, 27_262_976.0, 1e7, 2_147_483_648.0, 8.0, 16_148_070.0, 0.5, 0.0].map(count);
        assert_eq!(written, ["64 Ki", "26 Mi", "10 M", "2 Gi", "8", "16.1 M", "0.5", "0"]);
    }
}
