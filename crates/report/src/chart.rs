//! Line charts as SVG, drawn by plotters; colours are classes, which the page's style fills in.

use crate::number::{self, Unit};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;

/// Colours of the style; more lines begin anew, with other marks.
pub(crate) const COLOURS: usize = 8;

/// Width and height, in the units of the SVG. The page scales it.
const SIZE: (u32, u32) = (560, 360);

/// A line.
pub(crate) struct Line {
    /// Its place in the legend.
    pub(crate) number: usize,
    /// Whether it is a paper's, to compare with, and drawn with dashes.
    pub(crate) is_paper: bool,
    /// In ascending order of x.
    pub(crate) points: Vec<(f64, f64)>,
    /// Of points whose runs are known: x, and the least and the most of y.
    pub(crate) spreads: Vec<(f64, f64, f64)>,
}

impl Line {
    /// Whether a paper has one number for all x; it has no marks, since the paper has no points of it.
    fn is_level(&self) -> bool {
        self.is_paper && self.points.len() == 2 && self.points[0].1 == self.points[1].1
    }
}

/// What numbers to the right are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    Count,
    Part,
}

/// What a chart is.
pub(crate) struct Chart<'a> {
    pub(crate) x_title: &'a str,
    pub(crate) x: Right,
    pub(crate) x_is_log: bool,
    pub(crate) y_title: &'a str,
    pub(crate) unit: Unit,
    /// `None`: if the numbers are further apart than is seen otherwise.
    pub(crate) y_is_log: Option<bool>,
    pub(crate) lines: Vec<Line>,
}

/// From the smallest to the largest number at which logarithmic axes are used without being asked for.
const FAR_APART: f64 = 20.0;

// Colours stand for classes: plotters knows numbers only. `classes` puts the classes in.
const TEXT: RGBColor = RGBColor(2, 0, 0);
const GRID: RGBColor = RGBColor(2, 0, 1);
const AXIS: RGBColor = RGBColor(2, 0, 2);

fn colour(line: &Line) -> RGBColor {
    RGBColor(1, 0, (line.number % COLOURS) as u8)
}

impl Chart<'_> {
    /// The chart, or `None` without a point.
    pub(crate) fn draw(&self) -> Option<String> {
        let all = || self.lines.iter().flat_map(|line| &line.points).copied();
        let x = extent(all().map(|(x, _)| x))?;
        let spreads = self.lines.iter().flat_map(|line| &line.spreads).flat_map(|&(_, low, high)| [low, high]);
        let (low, high) = extent(all().map(|(_, y)| y).chain(spreads))?;
        let y_is_log = self.y_is_log.unwrap_or(low > 0.0 && high / low > FAR_APART) && low > 0.0;
        let x_axis = Axis::new(x, if self.x_is_log { Scale::Binary } else { Scale::Linear }, self.x_label());
        let y_axis =
            Axis::new((low, high), if y_is_log { Scale::Decimal } else { Scale::FromZero }, Label::Unit(self.unit));
        let mut svg = String::new();
        self.draw_into(&mut svg, x_axis, y_axis).expect("a string takes all");
        Some(classes(&svg))
    }

    fn x_label(&self) -> Label {
        match self.x {
            Right::Count => Label::Count,
            Right::Part => Label::Unit(Unit::Percent),
        }
    }

    fn draw_into(&self, svg: &mut String, x: Axis, y: Axis) -> Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let text = |size: u32| ("sans-serif", size).into_font().color(&TEXT);
        let mut context = ChartBuilder::on(&root)
            .margin(12)
            .margin_right(24)
            .margin_bottom(0)
            .x_label_area_size(56)
            .y_label_area_size(96)
            .build_cartesian_2d(x, y)?;
        context
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(AXIS)
            .label_style(text(17))
            .axis_desc_style(text(17))
            .x_desc(self.x_title)
            .y_desc(self.y_title)
            .draw()?;
        for line in &self.lines {
            let style = colour(line).stroke_width(2);
            if line.is_paper {
                context.draw_series(DashedLineSeries::new(line.points.iter().copied(), 7, 5, style))?;
            } else {
                context.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
            }
            for &(x, low, high) in &line.spreads {
                context.draw_series([PathElement::new(vec![(x, low), (x, high)], style)])?;
                let caps =
                    [low, high].map(|y| EmptyElement::at((x, y)) + PathElement::new(vec![(-CAP, 0), (CAP, 0)], style));
                context.draw_series(caps)?;
            }
            if !line.is_level() {
                let style = colour(line).filled();
                let points = line.points.iter().copied();
                match MARKS[line.number % MARKS.len()] {
                    [] => context.draw_series(points.map(|at| Circle::new(at, 5, style)))?,
                    corners => context
                        .draw_series(points.map(|at| EmptyElement::at(at) + Polygon::new(corners.to_vec(), style)))?,
                };
            }
        }
        root.present()?;
        Ok(())
    }
}

/// Half the width of the strokes at the ends of a spread.
const CAP: i32 = 4;

/// Corners of the marks, about a point; the first is a circle, which has none.
const MARKS: [&[(i32, i32)]; 5] = [
    &[],
    &[(-5, -5), (5, -5), (5, 5), (-5, 5)],
    &[(0, -6), (6, 5), (-6, 5)],
    &[(0, -7), (7, 0), (0, 7), (-7, 0)],
    &[(0, 6), (6, -5), (-6, -5)],
];

/// The line and mark of a legend, as SVG.
pub(crate) fn swatch(line: &Line) -> String {
    let Line { number, is_paper, .. } = *line;
    let class = number % COLOURS;
    let dashes = if is_paper { " stroke-dasharray=\"5 4\"" } else { "" };
    let mark = match MARKS[number % MARKS.len()] {
        [] => format!("<circle cx=\"14\" cy=\"8\" r=\"5\" class=\"f{class}\"/>"),
        corners => {
            let points: Vec<String> = corners.iter().map(|(x, y)| format!("{},{}", x + 14, y + 8)).collect();
            format!("<polygon points=\"{}\" class=\"f{class}\"/>", points.join(" "))
        }
    };
    let mark = if line.is_level() { String::new() } else { mark };
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 28 16\" aria-hidden=\"true\"><path d=\"M0 8H28\" class=\"s{class}\" \
         stroke-width=\"2\"{dashes}/>{mark}</svg>"
    )
}

/// Puts classes in the place of the colours that stand for them, and leaves the size to the page.
fn classes(svg: &str) -> String {
    let mut svg =
        svg.replace(&format!("<svg width=\"{}\" height=\"{}\" ", SIZE.0, SIZE.1), "<svg class=\"chart\" role=\"img\" ");
    for (attribute, letter) in [("fill", 'f'), ("stroke", 's')] {
        for class in 0..COLOURS {
            svg = svg.replace(&format!("{attribute}=\"#0100{class:02X}\""), &format!("class=\"{letter}{class}\""));
        }
        for (colour, class) in [("020000", "t"), ("020001", "g"), ("020002", "a")] {
            svg = svg.replace(&format!("{attribute}=\"#{colour}\""), &format!("class=\"{letter}{class}\""));
        }
    }
    svg
}

fn extent(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    numbers.fold(None, |all, number| {
        let (low, high) = all.unwrap_or((number, number));
        Some((f64::min(low, number), f64::max(high, number)))
    })
}

#[derive(Clone, Copy)]
enum Scale {
    Linear,
    FromZero,
    /// Ticks at powers of two.
    Binary,
    /// Ticks at one, two and five times powers of ten.
    Decimal,
}

#[derive(Clone, Copy)]
enum Label {
    Count,
    Unit(Unit),
}

/// An axis with ticks of its own: plotters' logarithmic ones have none between powers of their base.
struct Axis {
    range: Range<f64>,
    ticks: Vec<f64>,
    is_log: bool,
    label: Label,
}

impl Axis {
    fn new((low, high): (f64, f64), scale: Scale, label: Label) -> Self {
        let is_log = matches!(scale, Scale::Binary | Scale::Decimal);
        let ticks = match scale {
            Scale::FromZero => linear(0.0, high),
            Scale::Linear => linear(low, high),
            Scale::Binary => binary(low, high),
            Scale::Decimal => decimal(low, high),
        };
        let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
        let range = match scale {
            // Points and ticks, and some room at the ends.
            Scale::Binary => low.min(first) / 1.2..high.max(last) * 1.2,
            Scale::Decimal => low.min(first) / 1.05..high.max(last) * 1.05,
            Scale::Linear => low.min(first)..high.max(last),
            Scale::FromZero => 0.0..high.max(last),
        };
        Self { range, ticks, is_log, label }
    }
}

/// Ticks at round numbers that take both ends in.
fn linear(low: f64, high: f64) -> Vec<f64> {
    let width = if high > low { high - low } else { high.abs().max(1.0) };
    let power = 10_f64.powf((width / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|of| of * power).into_iter().find(|step| width / step <= 6.0).unwrap_or(width);
    let first = (low / step).floor() as i64;
    let last = ((high / step).ceil() as i64).max(first + 1);
    (first..=last).map(|i| i as f64 * step).collect()
}

/// Ticks at powers of two: every one, or every few.
fn binary(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log2().floor() as i32, high.log2().ceil() as i32);
    let step = ((last - first) / 7 + 1) as usize;
    (first..=last).step_by(step).map(|exponent| 2_f64.powi(exponent)).collect()
}

/// Ticks at one, two and five times powers of ten; at the powers alone if these are many. One at least is on either side.
fn decimal(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let steps: &[f64] = if last - first > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let all: Vec<f64> =
        (first..=last).flat_map(|exponent| steps.iter().map(move |step| step * 10_f64.powi(exponent))).collect();
    let from = all.iter().rposition(|&tick| tick <= low * 1.000_1).unwrap_or(0);
    let to = all.iter().position(|&tick| tick * 1.000_1 >= high).unwrap_or(all.len() - 1);
    all[from..=to.max(from)].to_vec()
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let at = |number: f64| if self.is_log { number.ln() } else { number };
        let part = (at(*value) - at(self.range.start)) / (at(self.range.end) - at(self.range.start));
        start + (f64::from(end - start) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        match self.label {
            Label::Count => number::count(*value),
            Label::Unit(unit) => unit.write_scaled(*value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(lines: Vec<Line>) -> Chart<'static> {
        Chart {
            x_title: "keys",
            x: Right::Count,
            x_is_log: true,
            y_title: "look-ups per second",
            unit: Unit::GigaPerSecond,
            y_is_log: None,
            lines,
        }
    }

    #[test]
    fn a_chart_has_axes_with_units_and_no_colour_of_its_own() {
        let points = vec![(65536.0, 24e9), (1_048_576.0, 18e9)];
        let lines = vec![
            Line { number: 0, is_paper: false, points, spreads: vec![(65536.0, 23e9, 27e9)] },
            Line { number: 1, is_paper: true, points: vec![(65536.0, 5e9), (1_048_576.0, 5e9)], spreads: Vec::new() },
        ];
        let svg = chart(lines).draw().unwrap();
        for text in [
            "64 Ki",
            "1 Mi",
            "20 G/s",
            "30 G/s",
            "look-ups per second",
            "class=\"f0\"",
            "class=\"s1\"",
            "class=\"chart\"",
        ] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert!(!svg.contains("\"#"), "{svg}");
        assert!(!svg.contains("width=\"560\""), "{svg}");
        assert_eq!(chart(Vec::new()).draw(), None);
    }

    #[test]
    fn ticks_are_round_and_take_all_in() {
        assert_eq!(linear(0.0, 24.0), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]);
        assert_eq!(linear(0.0, 0.5), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5].map(|tick: f64| (tick * 10.0).round() * 0.1));
        assert_eq!(binary(8.0, 128.0), [8.0, 16.0, 32.0, 64.0, 128.0]);
        assert_eq!(binary(27_262_976.0, 27_262_976.0).len(), 2);
        assert_eq!(decimal(3.0, 70.0), [2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(decimal(1.0, 1e5), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
    }

    #[test]
    fn far_apart_is_drawn_by_logarithms() {
        let of = |high: f64| {
            let points = vec![(1.0, 1e9), (2.0, high)];
            let line = Line { number: 0, is_paper: false, points, spreads: Vec::new() };
            chart(vec![line]).draw().unwrap()
        };
        assert!(of(1e11).contains(">\n50 G/s") || of(1e11).contains("50 G/s"));
        assert!(!of(1.5e9).contains("50 G/s"));
    }
}
