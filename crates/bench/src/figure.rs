//! The numbers of a figure: several runs each ([`Sample`]), a row for each point ([`Row`]), as Markdown and as CSV ([`Figure`]). Not how they are
//! measured, nor drawn.

use std::fmt::Write;

/// Results of several runs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sample(pub Vec<f64>);

impl Sample {
    /// The mean; not a number if there was no run.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// The standard deviation of the runs (over n - 1); 0 for a single one.
    pub fn sd(&self) -> f64 {
        if self.0.len() < 2 {
            return 0.0;
        }
        let mean = self.mean();
        (self.0.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / (self.0.len() - 1) as f64).sqrt()
    }

    /// Each run turned into something else.
    pub fn map(&self, how: impl Fn(f64) -> f64) -> Sample {
        Sample(self.0.iter().copied().map(how).collect())
    }

    /// Another run.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }
}

/// A point of a figure.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Row {
    /// Which line or bar it is of.
    pub series: String,
    /// Value of the x axis: clients, seconds, files.
    pub x: f64,
    /// Seconds.
    pub seconds: Sample,
    /// Files a second, of all clients.
    pub rate: Sample,
    /// Microseconds of the clients' processors for a file.
    pub client_us: Sample,
    /// Microseconds of the rank's thread for a file.
    pub rank_us: Sample,
    /// Value of the y axis.
    pub value: Sample,
    /// The same, as it was published.
    pub paper: Option<f64>,
    /// Further values, in the order of [`Figure::more`].
    pub more: Vec<Sample>,
}

/// A figure.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Figure {
    /// Its number: the name of its files.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Label of `x`.
    pub x: String,
    /// Label of `value`.
    pub value: String,
    /// Names of what else is told.
    pub more: Vec<String>,
    /// All points.
    pub rows: Vec<Row>,
    /// Sentences below the table.
    pub notes: Vec<String>,
}

/// A number with as many digits as it deserves.
fn digits(number: f64) -> String {
    match number.abs() {
        _ if number.is_nan() => String::new(),
        size if size >= 1000.0 => {
            let whole = format!("{:.0}", number.abs());
            let mut text = String::from(if number < 0.0 { "-" } else { "" });
            for (at, digit) in whole.chars().enumerate() {
                if at > 0 && (whole.len() - at).is_multiple_of(3) {
                    text.push(',');
                }
                text.push(digit);
            }
            text
        }
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

fn cell(sample: &Sample) -> String {
    match (sample.0.len(), sample.sd()) {
        (0, _) => String::new(),
        (1, _) => digits(sample.mean()),
        (_, sd) => format!("{} ± {}", digits(sample.mean()), digits(sd)),
    }
}

impl Figure {
    /// The columns besides series, `x` and what was published.
    fn samples<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = &'a Sample> {
        let fixed = [&row.seconds, &row.rate, &row.client_us, &row.rank_us, &row.value];
        fixed.into_iter().chain(&row.more)
    }

    fn columns(&self) -> Vec<String> {
        let fixed = ["seconds", "files/s", "client, us a file", "rank, us a file"].map(str::to_owned);
        fixed.into_iter().chain([self.value.clone()]).chain(self.more.iter().cloned()).collect()
    }

    /// As Markdown: mean and standard deviation. Columns in which nothing stands are left out.
    pub fn markdown(&self) -> String {
        let columns = self.columns();
        let used: Vec<bool> = (0..columns.len())
            .map(|at| self.rows.iter().any(|row| self.samples(row).nth(at).is_some_and(|sample| !sample.0.is_empty())))
            .collect();
        let is_known = self.rows.iter().any(|row| row.paper.is_some());
        let has_x = !self.x.is_empty();
        let mut head = vec!["".to_owned()];
        head.extend(has_x.then(|| self.x.clone()));
        head.extend(columns.into_iter().zip(&used).filter(|(_, used)| **used).map(|(name, _)| name));
        head.extend(is_known.then(|| "the thesis".to_owned()));
        let mut out = format!("**{}**\n\n| {} |\n|---|", self.title, head.join(" | "));
        out.push_str(&"---:|".repeat(head.len() - 1));
        out.push('\n');
        for row in &self.rows {
            let mut cells = vec![row.series.clone()];
            cells.extend(has_x.then(|| digits(row.x).trim_end_matches('0').trim_end_matches('.').to_owned()));
            if has_x && row.x.fract() == 0.0 {
                cells.pop();
                cells.push(format!("{:.0}", row.x));
            }
            cells.extend(self.samples(row).zip(&used).filter(|(_, used)| **used).map(|(sample, _)| cell(sample)));
            cells.extend(is_known.then(|| row.paper.map(digits).unwrap_or_default()));
            // Writing into a string cannot fail.
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        for note in &self.notes {
            let _ = write!(out, "\n- {note}");
        }
        out.push_str("\n\n");
        out
    }

    /// As CSV: of each number its mean and its standard deviation.
    pub fn csv(&self) -> String {
        let quoted = |text: &str| match text.contains([',', '"']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        };
        let mut out = format!("series,{}", quoted(if self.x.is_empty() { "x" } else { &self.x }));
        for name in self.columns() {
            let _ = write!(out, ",{},{}", quoted(&name), quoted(&format!("{name}: sd")));
        }
        out.push_str(",runs,thesis\n");
        for row in &self.rows {
            let _ = write!(out, "{},{}", quoted(&row.series), row.x);
            for at in 0..self.columns().len() {
                match self.samples(row).nth(at).filter(|sample| !sample.0.is_empty()) {
                    Some(sample) => _ = write!(out, ",{:.6},{:.6}", sample.mean(), sample.sd()),
                    None => out.push_str(",,"),
                }
            }
            let paper = row.paper.map(|paper| paper.to_string()).unwrap_or_default();
            let _ = writeln!(out, ",{},{paper}", row.seconds.0.len().max(row.value.0.len()));
        }
        out
    }

    /// The point of a series at `x`.
    pub fn at(&self, series: &str, x: f64) -> Option<&Row> {
        self.rows.iter().find(|row| row.series == series && row.x == x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let sample = Sample(vec![2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(sample.mean(), 5.0);
        assert!((sample.sd() - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!((Sample(vec![3.0]).sd(), Sample::default().mean().is_nan()), (0.0, true));
    }

    fn figure() -> Figure {
        let row = |series: &str, x, paper| Row {
            series: series.into(),
            x,
            seconds: Sample(vec![1.0, 2.0]),
            rate: Sample(vec![123_456.0]),
            value: Sample(vec![0.5, 0.7]),
            paper,
            more: vec![Sample::default(), Sample(vec![7.0])],
            ..Row::default()
        };
        Figure {
            id: "6.2".into(),
            title: "A title".into(),
            x: "clients".into(),
            value: "slower, times".into(),
            more: vec!["none".into(), "seven".into()],
            rows: vec![row("a, b", 1.0, Some(1.5)), row("c", 20.0, None)],
            notes: vec!["A note.".into()],
        }
    }

    #[test]
    fn a_table_has_the_columns_that_are_used_and_as_many_in_each_line() {
        let text = figure().markdown();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        let pipes = |line: &&str| line.matches('|').count();
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| pipes(line) == pipes(&lines[0])), "{text}");
        assert_eq!(lines[0], "|  | clients | seconds | files/s | slower, times | seven | the thesis |");
        assert_eq!(lines[2], "| a, b | 1 | 1.50 ± 0.71 | 123,456 | 0.60 ± 0.14 | 7.00 | 1.50 |");
        assert!(lines[3].starts_with("| c | 20 |") && lines[3].ends_with("|  |"));
    }

    #[test]
    fn the_csv_has_as_many_fields_in_each_line_and_quotes_what_has_commas() {
        let text = figure().csv();
        let lines: Vec<&str> = text.lines().collect();
        let fields = |line: &&str| line.split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| fields(line) == fields(&lines[0])), "{text}");
        assert!(lines[1].starts_with("\"a, b\",1,1.500000,0.707107,123456.000000,0.000000,,,"), "{text}");
        assert!(lines[1].ends_with(",2,1.5") && lines[2].ends_with(",2,"));
    }
}
