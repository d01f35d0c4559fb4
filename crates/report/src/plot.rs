//! Plots of the page: rows to lines or bars, with a legend and the numbers themselves.

use crate::chart::{self, Chart, Line, Right};
use crate::facts::{Facts, written};
use crate::figures::{Plot, X};
use crate::html::{escape, prose};
use crate::number::{self, Unit};
use std::fmt::Write as _;

/// A plot as HTML; `None` if none of the rows is for it.
pub(crate) fn html(plot: &Plot, rows: &[Facts]) -> Option<String> {
    let chosen = plot.choose(rows);
    if chosen.is_empty() {
        return None;
    }
    let body = match &plot.x {
        Some(x) => lines(plot, x, &chosen)?,
        None => bars(plot, &chosen),
    };
    let caption = caption(plot, chosen.iter().any(|facts| facts.spread(&plot.y).is_some()));
    Some(format!(
        "<figure class=\"plot\"><figcaption><strong>{}</strong> <span>{}</span></figcaption>{body}</figure>",
        prose(&plot.title),
        prose(&caption)
    ))
}

/// What a plot shows, in words.
fn caption(plot: &Plot, has_spreads: bool) -> String {
    let words = |fields: &[String]| {
        let words: Vec<String> = fields.iter().map(|field| field.replace(['_', '.'], " ")).collect();
        words.join(", ")
    };
    let shape = if plot.x.is_some() { "line" } else { "bar" };
    let mut out = plot.y_title.strip_prefix("× ").map_or_else(|| plot.y_title.clone(), |of| format!("times {of}"));
    if let Some(x) = &plot.x {
        write!(out, " by {}", x.title).expect("a string takes all");
    }
    if !plot.series.is_empty() {
        write!(out, "; a {shape} for each {}", words(&plot.series)).expect("a string takes all");
    }
    if !plot.groups.is_empty() {
        write!(out, ", in groups by {}", words(&plot.groups)).expect("a string takes all");
    }
    out.push('.');
    if has_spreads {
        let kind = if plot.x.is_some() { "Upright strokes" } else { "Strokes across the bars' ends" };
        write!(out, " Medians. {kind}: from the slowest run to the fastest.").expect("a string takes all");
    }
    if !plot.paper.is_empty() {
        let kind = if plot.x.is_some() { "Dashed" } else { "Hatched" };
        write!(out, " {kind}: what the paper's text says.").expect("a string takes all");
    }
    let mut rest = out.chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    first.chain(rest).collect()
}

/// A name and its rows, in the order in which names come first.
fn by_name<'a>(rows: &[&'a Facts], name: impl Fn(&Facts) -> String) -> Vec<(String, Vec<&'a Facts>)> {
    let mut all: Vec<(String, Vec<&Facts>)> = Vec::new();
    for &facts in rows {
        let name = name(facts);
        match all.iter_mut().find(|(other, _)| *other == name) {
            Some((_, rows)) => rows.push(facts),
            None => all.push((name, vec![facts])),
        }
    }
    all
}

fn lines(plot: &Plot, x: &X, rows: &[&Facts]) -> Option<String> {
    let scale = plot.unit.scale();
    let x_scale = if x.is_part { 100.0 } else { 1.0 };
    let mut named: Vec<(String, Line)> = Vec::new();
    for (name, rows) in by_name(rows, |facts| plot.name(facts)) {
        let point = |facts: &&Facts| Some((facts.number(&x.field)? * x_scale, facts.number(&plot.y)? * scale));
        let mut points: Vec<(f64, f64)> = rows.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let spread = |facts: &&Facts| {
            let (low, high) = facts.spread(&plot.y)?;
            Some((facts.number(&x.field)? * x_scale, low * scale, high * scale))
        };
        let spreads = rows.iter().filter_map(spread).collect();
        if !points.is_empty() {
            // Rows that nothing tells apart are called what they are.
            let name = if name.is_empty() { plot.y_title.clone() } else { name };
            named.push((name, Line { number: named.len(), is_paper: false, points, spreads }));
        }
    }
    let ends = named.iter().flat_map(|(_, line)| &line.points).map(|point| point.0);
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    for quoted in &plot.paper {
        let level = quoted.level.map(|level| vec![(low, level * scale), (high, level * scale)]);
        let points = || quoted.points.iter().map(|[x, y]| (x * x_scale, y * scale)).collect();
        let line =
            Line { number: named.len(), is_paper: true, points: level.unwrap_or_else(points), spreads: Vec::new() };
        let name = match quoted.level {
            Some(level) => format!("{}: {}", quoted.name, plot.unit.write(level)),
            None => quoted.name.clone(),
        };
        named.push((name, line));
    }
    let legend: String =
        named.iter().map(|(name, line)| format!("<li>{}{}</li>", chart::swatch(line), escape(name))).collect();
    let table = numbers(plot, x, &named);
    let chart = Chart {
        x_title: &x.title,
        x: if x.is_part { Right::Part } else { Right::Count },
        x_is_log: x.is_log,
        y_title: &plot.y_title,
        unit: plot.unit,
        y_is_log: plot.is_log,
        lines: named.into_iter().map(|(_, line)| line).collect(),
    };
    // The numbers are in the table beneath, for those who do not see the lines.
    let title =
        escape(&format!("{}: {} by {}. The numbers are in the table beneath.", plot.title, plot.y_title, x.title));
    let svg = chart.draw()?.replacen("<svg ", &format!("<svg aria-label=\"{title}\" "), 1);
    let svg = svg.replacen('>', &format!("><title>{title}</title>"), 1);
    Some(format!("<ul class=\"legend\">{legend}</ul>{svg}{table}"))
}

/// The numbers of lines: a row for each x.
fn numbers(plot: &Plot, x: &X, named: &[(String, Line)]) -> String {
    let unit = plot.unit;
    let mut xs: Vec<f64> = named.iter().flat_map(|(_, line)| &line.points).map(|point| point.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let head: String = named.iter().map(|(name, _)| format!("<th scope=\"col\">{}</th>", escape(name))).collect();
    let mut rows = String::new();
    for at in xs {
        let label = if x.is_part { Unit::Percent.write_scaled(at) } else { number::count(at) };
        let cell = |line: &Line| {
            let point = line.points.iter().find(|point| point.0 == at)?;
            let spread = line.spreads.iter().find(|spread| spread.0 == at);
            Some(with_spread(unit, point.1, spread.map(|&(_, low, high)| (low, high))))
        };
        let cells: String =
            named.iter().map(|(_, line)| format!("<td>{}</td>", cell(line).unwrap_or_default())).collect();
        write!(rows, "<tr><th scope=\"row\">{label}</th>{cells}</tr>").expect("a string takes all");
    }
    let head = format!("<tr><th scope=\"col\">{}</th>{head}</tr>", escape(&x.title));
    details("Numbers", &plot.title, &head, &rows)
}

/// A number in HTML, and the least and most of its runs.
fn with_spread(unit: Unit, number: f64, spread: Option<(f64, f64)>) -> String {
    let spread = spread.map_or_else(String::new, |(low, high)| {
        format!(" <small>{} – {}</small>", escape(&unit.write_scaled(low)), escape(&unit.write_scaled(high)))
    });
    escape(&unit.write_scaled(number)) + &spread
}

/// A table that is seen once it is asked for, and scrolls by itself.
fn details(summary: &str, of: &str, head: &str, rows: &str) -> String {
    let of = escape(of);
    format!(
        "<details><summary>{summary}<span class=\"unseen\"> of {of}</span></summary><div class=\"scroll\" role=\"group\" \
         aria-label=\"Table: {of}\" tabindex=\"0\"><table class=\"numbers\"><thead>{head}</thead><tbody>{rows}</tbody></table>\
         </div></details>"
    )
}

/// Bars with their numbers, by group.
fn bars(plot: &Plot, rows: &[&Facts]) -> String {
    let scale = plot.unit.scale();
    let of = |facts: &Facts| facts.number(&plot.y).unwrap_or(0.0) * scale;
    let quoted = plot.paper.iter().filter_map(|quoted| Some((&quoted.name, quoted.level? * scale)));
    let quoted: Vec<(&String, f64)> = quoted.collect();
    let spread = |facts: &Facts| facts.spread(&plot.y).map(|(low, high)| (low * scale, high * scale));
    let most = rows.iter().map(|facts| spread(facts).map_or_else(|| of(facts), |(_, high)| high));
    let most = most.fold(f64::MIN_POSITIVE, f64::max);
    let all = || rows.iter().map(|facts| of(facts)).chain(quoted.iter().map(|(_, level)| *level));
    let high = all().fold(most, f64::max);
    let low = all().filter(|&number| number > 0.0).fold(high, f64::min);
    // By logarithms the shortest bar still has some length.
    let is_log = plot.is_log.unwrap_or(high / low > 1000.0);
    let width = |number: f64| {
        let part = if is_log {
            0.05 + 0.95 * (number / low).ln() / (high / low).ln().max(f64::MIN_POSITIVE)
        } else {
            number / high
        };
        (part * 100.0).clamp(0.3, 100.0)
    };
    let bar = |name: &str, number: f64, class: &str, spread: Option<(f64, f64)>| {
        let stroke = spread.map_or_else(String::new, |(low, high)| {
            let (low, high) = (width(low), width(high));
            format!("<span class=\"spread\" style=\"left:{low:.1}%;width:{:.1}%\"></span>", high - low)
        });
        format!(
            "<li><span class=\"name\">{}</span><span class=\"track\"><span class=\"bar {class}\" style=\"width:{:.1}%\">\
             </span>{stroke}</span><span class=\"number\">{}</span></li>",
            escape(name),
            width(number),
            escape(&plot.unit.write_scaled(number)),
        )
    };
    let mut out =
        if is_log { "<p class=\"axis\">The bars' lengths are logarithms.</p>".to_owned() } else { String::new() };
    let mut table = String::new();
    for (group, rows) in by_name(rows, |facts| plot.group(facts)) {
        if !group.is_empty() {
            write!(out, "<p class=\"group\">{}</p>", escape(&group)).expect("a string takes all");
        }
        let bar = |facts: &&Facts| bar(&plot.name(facts), of(facts), "ours", spread(facts));
        let bars: String = rows.iter().map(bar).collect();
        write!(out, "<ul class=\"bars\">{bars}</ul>").expect("a string takes all");
        for facts in rows {
            let number = with_spread(plot.unit, of(facts), spread(facts));
            let names = [&group, &plot.name(facts)].map(|name| escape(name));
            let name = names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>().join("; ");
            write!(table, "<tr><th scope=\"row\">{name}</th><td>{number}</td></tr>").expect("a string takes all");
        }
    }
    if !quoted.is_empty() {
        let bars: String = quoted.iter().map(|(name, level)| bar(name, *level, "paper", None)).collect();
        write!(out, "<ul class=\"bars quoted\">{bars}</ul>").expect("a string takes all");
        for (name, level) in &quoted {
            let number = with_spread(plot.unit, *level, None);
            write!(table, "<tr><th scope=\"row\">{}</th><td>{number}</td></tr>", escape(name))
                .expect("a string takes all");
        }
    }
    let head = format!("<tr><th scope=\"col\">of</th><th scope=\"col\">{}</th></tr>", escape(&plot.y_title));
    out + &details("Numbers", &plot.title, &head, &table)
}

/// All that rows of a record say, as a table: of records that no figure is for.
pub(crate) fn all_rows(of: &str, rows: &[Facts]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(Facts::iter) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let head: String = names.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name))).collect();
    let body: String = rows
        .iter()
        .map(|facts| {
            let cells = names.iter().map(|name| {
                let value = facts.get(name).map_or_else(String::new, |value| match value {
                    lanetree_record::Extra::Number(number) => number::digits(*number),
                    other => written(other),
                });
                format!("<td>{}</td>", escape(&value))
            });
            format!("<tr>{}</tr>", cells.collect::<String>())
        })
        .collect();
    details(&format!("{} rows", rows.len()), of, &format!("<tr>{head}</tr>"), &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows() -> Vec<Facts> {
        let row = |index: &str, n: u64, rate: f64| json!({ "index": index, "n": n, "giga_per_second": rate });
        let rows = [row("cuart", 2048, 9.0), row("cuart", 1024, 6.0), row("grt", 1024, 3.0), row("x<y", 8, 1.0)];
        rows.iter().map(Facts::of_json).collect()
    }

    fn plot(toml: &str) -> Plot {
        toml::from_str(&format!("title = \"a & b\"\ny_title = \"look-ups per second\"\nseries = [\"index\"]\n{toml}"))
            .unwrap()
    }

    #[test]
    fn lines_have_a_legend_and_numbers() {
        let toml = r#"
            rows = { index = ["cuart", "grt"] }
            x = { field = "n", title = "keys", is_log = true }
            names = { cuart = "CuART" }
            paper = [{ name = "the paper", level = 0.12 }]"#;
        let html = html(&plot(toml), &rows()).unwrap();
        assert!(
            html.contains("a &amp; b") && html.contains("CuART</li>") && html.contains("the paper: 120 M/s</li>"),
            "{html}"
        );
        assert!(
            html.contains("<tr><th scope=\"row\">1 Ki</th><td>6 G/s</td><td>3 G/s</td><td>120 M/s</td></tr>"),
            "{html}"
        );
        // What the paper has lies at both ends; grt has one size only.
        assert!(html.contains("<tr><th scope=\"row\">2 Ki</th><td>9 G/s</td><td></td><td>120 M/s</td></tr>"), "{html}");
        assert!(!html.contains("x&lt;y"), "not chosen");
    }

    #[test]
    fn bars_are_as_long_as_their_numbers() {
        let html = html(&plot("groups = [\"n\"]"), &rows()).unwrap();
        assert!(
            html.contains("<p class=\"group\">n 2 Ki</p>") && html.contains("<p class=\"group\">n 8</p>"),
            "{html}"
        );
        assert!(html.contains("width:100.0%") && html.contains("width:33.3%") && html.contains("x&lt;y"), "{html}");
    }

    #[test]
    fn spreads_of_several_runs_are_drawn_and_written() {
        let row = |n: u64, runs: u64| {
            Facts::of_json(&json!({ "index": "cuart", "n": n, "giga_per_second": 6.0, "median_ms": 1.0, "min_ms": 0.75,
                "max_ms": 2.0, "timed_runs": runs }))
        };
        let x = "x = { field = \"n\", title = \"keys\", is_log = true }";
        let html_of = |toml: &str, runs| html(&plot(toml), &[row(1024, runs), row(2048, 1)]).unwrap();
        for toml in [x, ""] {
            let html = html_of(toml, 5);
            assert!(html.contains("6 G/s <small>3 G/s – 8 G/s</small>") && html.contains("<td>6 G/s</td>"), "{html}");
            assert!(html.contains("from the slowest run to the fastest"), "{html}");
            assert!(!html_of(toml, 1).contains("<small>"));
        }
        // A bar is as long as the fastest run lets it be.
        assert!(html_of("", 5).contains("left:37.5%;width:62.5%"), "{}", html_of("", 5));
        // Its two ends, and the stroke between them.
        let strokes = |runs| html_of(x, runs).matches("class=\"s0\"").count();
        assert_eq!(strokes(5), strokes(1) + 3);
        assert!(html_of(x, 5).contains("<span>Look-ups per second by keys; a line for each index. Medians."));
    }

    #[test]
    fn a_plot_without_rows_is_none() {
        assert_eq!(html(&plot("rows = { index = \"other\" }"), &rows()), None);
        assert!(all_rows("a record", &rows()).contains("<td>x&lt;y</td>"));
    }
}
