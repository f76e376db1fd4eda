//! Output of a figure: Markdown to standard output, CSV and a picture into the directory of the figures. No measuring.

use std::path::Path;

use loligo_bench::figure::{Figure, Row};
use loligo_chart::{Bar, Bars, Lines, Look, Series, Spot};

use crate::Plan;

/// A line that others have published.
pub fn published(name: &str, spots: &[(f64, f64)]) -> Series {
    let spots = spots.iter().map(|(x, y)| Spot { x: *x, y: *y, sd: 0.0 }).collect();
    Series { name: name.into(), look: Look::Published, spots }
}

/// One line for each series, in the order in which they come first.
pub fn series(figure: &Figure, up: impl Fn(&Row) -> (f64, f64)) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for row in &figure.rows {
        let (y, sd) = up(row);
        if !y.is_finite() {
            continue;
        }
        let spot = Spot { x: row.x, y, sd };
        match all.iter_mut().find(|series| series.name == row.series) {
            Some(series) => series.spots.push(spot),
            None => {
                let look = if row.series.contains("simulated") { Look::Simulated } else { Look::Measured };
                all.push(Series { name: row.series.clone(), look, spots: vec![spot] });
            }
        }
    }
    all
}

/// Value of the y axis, with its deviation.
pub fn value(row: &Row) -> (f64, f64) {
    (row.value.mean(), row.value.sd())
}

/// Description of the measurement: a line below each picture.
pub fn how(plan: &Plan) -> String {
    format!(
        "Measured on {} cores that all processes share; mean and standard deviation of {} run{}.",
        std::thread::available_parallelism().map_or(0, usize::from),
        plan.runs,
        if plan.runs == 1 { "" } else { "s" }
    )
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(plan: &Plan, figure: &Figure, svg: &str) -> Result<(), String> {
    // As it stands in docs/performance.md.
    println!("{}![{}](figures/cudele-{}.svg)\n", figure.markdown(), figure.title, figure.id);
    put(&plan.out.join(format!("cudele-{}.csv", figure.id)), &figure.csv())?;
    put(&plan.out.join(format!("cudele-{}.svg", figure.id)), svg)
}

/// As lines.
pub fn lines(plan: &Plan, figure: &Figure, lines: Lines) -> Result<(), String> {
    let is_known = lines.series.iter().any(|series| series.look == Look::Published);
    let grey = if is_known { " Grey: the thesis, of CephFS." } else { "" };
    let mut notes = vec![how(plan) + grey];
    notes.extend(lines.notes);
    let svg = Lines { title: figure.title.clone(), notes, ..lines }.svg();
    write(plan, figure, &svg)
}

/// As bars of what the figure has up.
pub fn bars(plan: &Plan, figure: &Figure, x: &str) -> Result<(), String> {
    let bar =
        |row: &Row| Bar { name: row.series.clone(), value: row.value.mean(), sd: row.value.sd(), published: row.paper };
    let bars = figure.rows.iter().filter(|row| !row.value.0.is_empty()).map(bar).collect();
    let notes = vec![how(plan), "Diamonds and numbers in brackets: the thesis, of CephFS.".to_owned()];
    write(plan, figure, &Bars { title: figure.title.clone(), x: x.into(), bars, notes }.svg())
}
