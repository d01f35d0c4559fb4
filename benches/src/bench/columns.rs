//! Columns of tables: what stands at their head, and a row's cell.

use super::row::Row;
use lanetree_record::Extra;

/// A column.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) head: &'static str,
    /// Words are aligned to the left, numbers to the right.
    pub(crate) is_words: bool,
    cell: Cell,
}

#[derive(Clone, Copy)]
enum Cell {
    /// The extra of that name.
    Extra(&'static str, Format),
    /// Anything that follows from the row; `None` where it does not.
    Of(fn(&Row) -> Option<String>),
}

/// How a number is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    /// As it is.
    Plain,
    /// As [`figure`] does.
    Figure,
    /// With this number of digits after the point.
    Digits(usize),
    /// A part of one, in per cent, with this number of digits after the point.
    Percent(usize),
    /// Bytes, in MiB.
    Mebibytes,
    /// As [`power`] does.
    Power,
}

impl Format {
    /// The format of a name and a number of digits, each of which may be missing.
    ///
    /// # Panics
    /// At a name of none.
    pub(crate) fn named(name: Option<&str>, digits: Option<usize>) -> Self {
        match (name, digits) {
            (None, None) => Self::Plain,
            (None, Some(digits)) => Self::Digits(digits),
            (Some("percent"), digits) => Self::Percent(digits.unwrap_or(0)),
            (Some("figure"), None) => Self::Figure,
            (Some("mebibytes"), None) => Self::Mebibytes,
            (Some("power"), None) => Self::Power,
            (Some(name), digits) => panic!("no format {name} with digits {digits:?}"),
        }
    }
}

impl Column {
    /// The extra of a name, a number.
    pub(crate) const fn extra(head: &'static str, name: &'static str, format: Format) -> Self {
        Self { head, is_words: false, cell: Cell::Extra(name, format) }
    }

    /// The extra of a name, text.
    pub(crate) const fn words(head: &'static str, name: &'static str) -> Self {
        Self { head, is_words: true, cell: Cell::Extra(name, Format::Plain) }
    }

    /// A number that follows from the row.
    pub(crate) const fn of(head: &'static str, cell: fn(&Row) -> Option<String>) -> Self {
        Self { head, is_words: false, cell: Cell::Of(cell) }
    }

    /// Words that follow from the row.
    pub(crate) const fn words_of(head: &'static str, cell: fn(&Row) -> Option<String>) -> Self {
        Self { head, is_words: true, cell: Cell::Of(cell) }
    }

    /// The same column under another head.
    pub(crate) const fn headed(self, head: &'static str) -> Self {
        Self { head, ..self }
    }

    /// A row's cell: `-` for what the row does not say.
    pub(crate) fn cell(&self, row: &Row) -> String {
        let cell = match self.cell {
            Cell::Extra(name, format) => row.extra(name).map(|extra| written(extra, format)),
            Cell::Of(cell) => cell(row),
        };
        cell.unwrap_or_else(|| "-".into())
    }
}

fn written(extra: &Extra, format: Format) -> String {
    let number = match extra {
        Extra::Text(text) => return text.clone(),
        Extra::Bool(is_so) => return is_so.to_string(),
        Extra::Integer(number) => *number as f64,
        Extra::Number(number) => *number,
    };
    match format {
        Format::Plain => number.to_string(),
        Format::Figure => figure(number),
        Format::Digits(digits) => format!("{number:.digits$}"),
        Format::Percent(digits) => percent(number, digits),
        Format::Mebibytes => mebibytes(number),
        Format::Power => power(number as u64),
    }
}

/// Columns that are computed, by name; of those that are extras, `benches/figures/columns.toml` has the ones that many
/// figures have.
pub(crate) static COMPUTED: [(&str, Column); 16] = [
    ("index", Column::words_of("index", |row| Some(row.index.into()))),
    ("operation", Column::words_of("operation", |row| Some(row.operation.clone()))),
    ("device", Column::words_of("on", |row| Some(row.device.clone()))),
    ("words", Column::words_of("key/value", |row| Some(format!("{}/{}", row.key, row.value)))),
    ("keys", Column::words_of("keys", |row| Some(row.keys.clone()))),
    ("n", Column::of("n", |row| Some(power(row.n)))),
    ("batch", Column::of("batch", |row| Some(power(row.batch)))),
    ("ms", Column::of("ms", |row| Some(format!("{:.3}", row.timing.median_ms)))),
    // How far apart a row's runs are: rows that differ by less are not told apart.
    (
        "spread",
        Column::of("slowest/fastest", |row| {
            (row.timing.min_ms > 0.0).then(|| format!("{:.2}", row.timing.max_ms / row.timing.min_ms))
        }),
    ),
    // Operations, in 10^9 and in 10^6 per second.
    ("rate", Column::of("G/s", |row| Some(figure(row.giga_per_second)))),
    ("mega", Column::of("M/s", |row| Some(figure(row.giga_per_second * 1e3)))),
    (
        "pairs_rate",
        Column::of("G pairs/s", |row| row.number("pairs").map(|pairs| figure(row.giga_per_second_of(pairs)))),
    ),
    (
        "bytes_rate",
        Column::of("GB/s", |row| row.number("bytes_moved").map(|bytes| figure(row.giga_per_second_of(bytes)))),
    ),
    (
        "ceiling",
        Column::of("of ceiling", |row| {
            row.number("ceiling_giga_per_second").map(|ceiling| percent(row.giga_per_second / ceiling, 0))
        }),
    ),
    ("median_micros", Column::of("median µs", |row| Some(micros(row.timing.median_ms)))),
    ("p99_micros", Column::of("p99 µs", |row| row.number("p99_ms").map(micros))),
];

/// An extra as it is, as a cell says it.
pub(crate) fn plain(row: &Row, name: &'static str) -> String {
    Column::extra("", name, Format::Plain).cell(row)
}

/// Three digits that count, or those before the point.
pub(crate) fn figure(number: f64) -> String {
    match number {
        number if number >= 100.0 => format!("{number:.0}"),
        number if number >= 10.0 => format!("{number:.1}"),
        number if number >= 1.0 => format!("{number:.2}"),
        number if number >= 0.01 => format!("{number:.4}"),
        number => format!("{number:.6}"),
    }
}

/// A number, as a power of two where it is one.
pub(crate) fn power(number: u64) -> String {
    if number.is_power_of_two() && number > 1 { format!("2^{}", number.ilog2()) } else { number.to_string() }
}

fn percent(part: f64, digits: usize) -> String {
    format!("{:.digits$} %", part * 100.0)
}

/// Milliseconds, in µs.
pub(crate) fn micros(ms: f64) -> String {
    format!("{:.2}", ms * 1e3)
}

fn mebibytes(bytes: f64) -> String {
    let mebibytes = bytes / f64::from(1 << 20);
    if mebibytes >= 1.0 { mebibytes.floor().to_string() } else { format!("{mebibytes:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_baselines::Checksum;
    use lanetree_record::Timing;

    #[test]
    fn figures_have_digits_that_count() {
        let figures = [1234.5, 17.26, 1.234, 0.1234, 0.000_123].map(figure);
        assert_eq!(figures, ["1234", "17.3", "1.23", "0.1234", "0.000123"]);
    }

    #[test]
    fn an_extra_is_written_in_its_format_and_a_missing_one_is_a_dash() {
        let row = Row::new("ranges", "harmonia", "range", 1000, Timing::of(vec![1.0]), Checksum::default());
        let computed = |name| COMPUTED.iter().find(|(other, _)| *other == name).expect("it is there").1;
        let columns = [
            Column::extra("F", "fanout", Format::Plain),
            Column::words("child", "child_region"),
            Column::extra("hits", "hit_rate", Format::Percent(0)),
            computed("ceiling"),
        ];
        assert_eq!(columns.map(|column| column.cell(&row)), ["-"; 4]);
        assert_eq!(computed("bytes_rate").cell(&row), "-");
        let row = row.with("fanout", 16_u32).with("child_region", "slot").with("hit_rate", 0.5);
        let ceiling = 2.0 * row.giga_per_second;
        let row = row.with("ceiling_giga_per_second", ceiling);
        assert_eq!(columns.map(|column| column.cell(&row)), ["16", "slot", "50 %", "50 %"]);
        let footprint = Column::extra("MiB", "footprint_bytes", Format::Mebibytes);
        let cells = [3_u64 << 19, 1 << 19].map(|bytes| footprint.cell(&row.clone().with("footprint_bytes", bytes)));
        assert_eq!(cells, ["1", "0.500"]);
    }
}
