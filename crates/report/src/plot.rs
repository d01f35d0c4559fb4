//! Plots of the page: rows to lines or bars, with a legend and the numbers themselves.

use crate::chart::{self, Chart, Line, Right};
use crate::facts::{Facts, written};
use crate::figures::{Plot, X};
use crate::html::escape;
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
    Some(format!("<figure class=\"plot\"><figcaption>{}</figcaption>{body}</figure>", escape(&plot.title)))
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
        if !points.is_empty() {
            named.push((name, Line { number: named.len(), is_paper: false, points }));
        }
    }
    let ends = named.iter().flat_map(|(_, line)| &line.points).map(|point| point.0);
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    for quoted in &plot.paper {
        let level = quoted.level.map(|level| vec![(low, level * scale), (high, level * scale)]);
        let points = || quoted.points.iter().map(|[x, y]| (x * x_scale, y * scale)).collect();
        let line = Line { number: named.len(), is_paper: true, points: level.unwrap_or_else(points) };
        let name = match quoted.level {
            Some(level) => format!("{}: {}", quoted.name, plot.unit.write(level)),
            None => quoted.name.clone(),
        };
        named.push((name, line));
    }
    let legend: String = named
        .iter()
        .map(|(name, line)| format!("<li>{}{}</li>", chart::swatch(line.number, line.is_paper), escape(name)))
        .collect();
    let table = numbers(plot.unit, x, &named);
    let chart = Chart {
        x_title: &x.title,
        x: if x.is_part { Right::Part } else { Right::Count },
        x_is_log: x.is_log,
        y_title: &plot.y_title,
        unit: plot.unit,
        y_is_log: plot.is_log,
        lines: named.into_iter().map(|(_, line)| line).collect(),
    };
    let svg = chart.draw()?.replacen("<svg ", &format!("<svg aria-label=\"{}\" ", escape(&plot.title)), 1);
    Some(format!("<ul class=\"legend\">{legend}</ul>{svg}{table}"))
}

/// The numbers of lines: a row for each x.
fn numbers(unit: Unit, x: &X, named: &[(String, Line)]) -> String {
    let mut xs: Vec<f64> = named.iter().flat_map(|(_, line)| &line.points).map(|point| point.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let head: String = named.iter().map(|(name, _)| format!("<th>{}</th>", escape(name))).collect();
    let mut rows = String::new();
    for at in xs {
        let label = if x.is_part { Unit::Percent.write_scaled(at) } else { number::count(at) };
        let cells: String = named
            .iter()
            .map(|(_, line)| {
                let point = line.points.iter().find(|point| point.0 == at);
                format!("<td>{}</td>", point.map_or_else(String::new, |point| escape(&unit.write_scaled(point.1))))
            })
            .collect();
        write!(rows, "<tr><th>{label}</th>{cells}</tr>").expect("a string takes all");
    }
    details("numbers", &format!("<tr><th>{}</th>{head}</tr>{rows}", escape(&x.title)))
}

/// A table that is seen once it is asked for, and scrolls by itself.
pub(crate) fn details(summary: &str, rows: &str) -> String {
    format!(
        "<details><summary>{summary}</summary><div class=\"scroll\"><table class=\"numbers\">{rows}</table></div></details>"
    )
}

/// Bars with their numbers, by group.
fn bars(plot: &Plot, rows: &[&Facts]) -> String {
    let scale = plot.unit.scale();
    let of = |facts: &Facts| facts.number(&plot.y).unwrap_or(0.0) * scale;
    let quoted = plot.paper.iter().filter_map(|quoted| Some((&quoted.name, quoted.level? * scale)));
    let quoted: Vec<(&String, f64)> = quoted.collect();
    let all = || rows.iter().map(|facts| of(facts)).chain(quoted.iter().map(|(_, level)| *level));
    let high = all().fold(f64::MIN_POSITIVE, f64::max);
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
    let bar = |name: &str, number: f64, class: &str| {
        format!(
            "<li><span class=\"name\">{}</span><span class=\"track\"><span class=\"bar {class}\" style=\"width:{:.1}%\">\
             </span></span><span class=\"number\">{}</span></li>",
            escape(name),
            width(number),
            escape(&plot.unit.write_scaled(number)),
        )
    };
    let mut out =
        format!("<p class=\"axis\">{}{}</p>", escape(&plot.y_title), if is_log { ", by logarithms" } else { "" });
    for (group, rows) in by_name(rows, |facts| plot.group(facts)) {
        if !group.is_empty() {
            write!(out, "<h5>{}</h5>", escape(&group)).expect("a string takes all");
        }
        let bars: String = rows.iter().map(|facts| bar(&plot.name(facts), of(facts), "ours")).collect();
        write!(out, "<ul class=\"bars\">{bars}</ul>").expect("a string takes all");
    }
    if !quoted.is_empty() {
        let bars: String = quoted.iter().map(|(name, level)| bar(name, *level, "paper")).collect();
        write!(out, "<ul class=\"bars quoted\">{bars}</ul>").expect("a string takes all");
    }
    out
}

/// All that rows say, as a table: of records that no figure is for.
pub(crate) fn all_rows(rows: &[Facts]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(Facts::iter) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let head: String = names.iter().map(|name| format!("<th>{}</th>", escape(name))).collect();
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
    details(&format!("{} rows", rows.len()), &format!("<tr>{head}</tr>{body}"))
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
        assert!(html.contains("<tr><th>1 Ki</th><td>6 G/s</td><td>3 G/s</td><td>120 M/s</td></tr>"), "{html}");
        // What the paper has lies at both ends; grt has one size only.
        assert!(html.contains("<tr><th>2 Ki</th><td>9 G/s</td><td></td><td>120 M/s</td></tr>"), "{html}");
        assert!(!html.contains("x&lt;y"), "not chosen");
    }

    #[test]
    fn bars_are_as_long_as_their_numbers() {
        let html = html(&plot("groups = [\"n\"]"), &rows()).unwrap();
        assert!(html.contains("<h5>n 2 Ki</h5>") && html.contains("<h5>n 8</h5>"), "{html}");
        assert!(html.contains("width:100.0%") && html.contains("width:33.3%") && html.contains("x&lt;y"), "{html}");
    }

    #[test]
    fn a_plot_without_rows_is_none() {
        assert_eq!(html(&plot("rows = { index = \"other\" }"), &rows()), None);
        assert!(all_rows(&rows()).contains("<td>x&lt;y</td>"));
    }
}
