//! Numbers as pictures: lines over numbers ([`Lines`]), and bars one below the other ([`Bars`]), with standard deviations and, in grey,
//! what others have published. Not where the numbers are from, nor the report of a run (crate `lab`).

use std::fmt::Write;

use loligo_lab::svg::{COLOURS, clean, head, step};

const WIDTH: f64 = 860.0;
const TOP: f64 = 44.0;
/// Below the plot: labels, the axis' name, notes.
const BELOW: f64 = 54.0;
const NOTE: f64 = 15.0;
/// A note is broken into lines of about so many letters.
const NOTE_LETTERS: usize = 145;
const GREY: &str = "#8a8a8a";
/// Marks are nearer to each other than those of a report, by this.
const DENSER: f64 = 0.7;
/// Where the names beside the lines stand.
const LEGEND: f64 = 570.0;

/// A point with its standard deviation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spot {
    /// Along.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// Of `y`; 0: none is drawn.
    pub sd: f64,
}

/// Style of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// Of our own measurements: with points.
    Measured,
    /// Simulated: dashed, without points.
    Simulated,
    /// Published by others: grey and dotted.
    Published,
}

/// A line.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Its name beside the picture.
    pub name: String,
    /// Its style.
    pub look: Look,
    /// From left to right.
    pub spots: Vec<Spot>,
}

/// Lines over numbers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Lines {
    /// Above all.
    pub title: String,
    /// Label of the x axis.
    pub x: String,
    /// Label of the y axis.
    pub y: String,
    /// In tenfolds, both ways: what is 0 or less is not drawn.
    pub log_x: bool,
    /// See `log_x`.
    pub log_y: bool,
    /// The lines.
    pub series: Vec<Series>,
    /// Below all.
    pub notes: Vec<String>,
}

/// One bar.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    /// Its label.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// Standard deviation.
    pub sd: f64,
    /// The published value.
    pub published: Option<f64>,
}

/// Bars, in tenfolds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bars {
    /// Above all.
    pub title: String,
    /// Label of the x axis.
    pub x: String,
    /// From above.
    pub bars: Vec<Bar>,
    /// Below all.
    pub notes: Vec<String>,
}

/// From numbers to places.
struct Axis {
    least: f64,
    most: f64,
    log: bool,
    at: f64,
    length: f64,
}

impl Axis {
    /// Over these numbers; in tenfolds it begins and ends at whole ones, otherwise it begins at 0.
    fn over(numbers: impl Iterator<Item = f64>, log: bool, (at, length): (f64, f64)) -> Axis {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for number in numbers.filter(|number| number.is_finite() && (!log || *number > 0.0)) {
            (least, most) = (least.min(number), most.max(number));
        }
        if most < least {
            (least, most) = (1.0, 1.0);
        }
        if log {
            (least, most) = (10f64.powf(least.log10().floor()), 10f64.powf(most.log10().ceil()));
            if most <= least {
                most = least * 10.0;
            }
        } else {
            least = least.min(0.0);
            most = if most > 0.0 { most * 1.05 } else { 1.0 };
        }
        Axis { least, most, log, at, length }
    }

    fn place(&self, number: f64) -> f64 {
        let share = if self.log {
            (number.max(self.least) / self.least).log10() / (self.most / self.least).log10()
        } else {
            (number - self.least) / (self.most - self.least)
        };
        self.at + share.clamp(0.0, 1.0) * self.length
    }

    fn marks(&self) -> Vec<f64> {
        let mut marks = Vec::new();
        let by = step((self.most - self.least) * DENSER);
        let mut mark = if self.log { self.least } else { (self.least / by).ceil() * by };
        while mark <= self.most * 1.000_001 {
            marks.push(mark);
            mark = if self.log { mark * 10.0 } else { mark + by };
        }
        marks
    }

    fn shows(&self, number: f64) -> bool {
        number.is_finite() && (!self.log || number > 0.0)
    }
}

/// A number as short as it can be read.
fn short(number: f64) -> String {
    // Not "-0".
    let number = number + 0.0;
    let (size, rounded) = (number.abs(), |n: f64| ((n * 1000.0).round() / 1000.0).to_string());
    match size {
        size if size >= 1e6 => format!("{}M", rounded(number / 1e6)),
        size if size >= 1e4 => format!("{}k", rounded(number / 1e3)),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => rounded((number * 10.0).round() / 10.0),
        size if size >= 0.01 || size == 0.0 => rounded((number * 100.0).round() / 100.0),
        _ => format!("{number:.1e}"),
    }
}

/// Notes in lines that fit.
fn broken(notes: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for note in notes {
        let mut line = String::new();
        for word in clean(note).split_whitespace() {
            if !line.is_empty() && line.len() + word.len() > NOTE_LETTERS {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

struct Page(String);

impl Page {
    fn begin(title: &str, height: f64) -> Page {
        let mut page = Page(head(WIDTH, height));
        page.put(format_args!("<text x=\"20\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{}</text>", clean(title)));
        page
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.0, "{text}");
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), how: &str) {
        self.put(format_args!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {how}/>"));
    }

    fn text(&mut self, (x, y): (f64, f64), how: &str, text: &str) {
        self.put(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {how}>{}</text>", clean(text)));
    }

    fn end(mut self, notes: &[String], mut at: f64) -> String {
        for note in notes {
            self.text((20.0, at), "fill=\"#555\" font-size=\"11\"", note);
            at += NOTE;
        }
        self.0.push_str("</svg>\n");
        self.0
    }
}

impl Lines {
    /// As SVG.
    pub fn svg(&self) -> String {
        const PLOT: (f64, f64) = (460.0, 320.0);
        const LEFT: f64 = 82.0;
        let notes = broken(&self.notes);
        let bottom = TOP + PLOT.1;
        let mut page = Page::begin(&self.title, bottom + BELOW + NOTE * notes.len() as f64);
        let spots = || self.series.iter().flat_map(|series| &series.spots);
        let x = Axis::over(spots().map(|spot| spot.x), self.log_x, (LEFT, PLOT.0));
        let y = Axis::over(spots().flat_map(|spot| [spot.y, spot.y + spot.sd]), self.log_y, (0.0, PLOT.1));
        let up = |number: f64| bottom - y.place(number);
        for mark in y.marks() {
            page.line((LEFT, up(mark)), (LEFT + PLOT.0, up(mark)), "stroke=\"#ddd\"");
            page.text((LEFT - 8.0, up(mark) + 4.0), "text-anchor=\"end\"", &short(mark));
        }
        for mark in x.marks() {
            page.line((x.place(mark), bottom), (x.place(mark), bottom + 5.0), "stroke=\"#777\"");
            page.text((x.place(mark), bottom + 19.0), "text-anchor=\"middle\"", &short(mark));
        }
        page.line((LEFT, bottom), (LEFT + PLOT.0, bottom), "stroke=\"#777\"");
        page.text((LEFT + PLOT.0 / 2.0, bottom + 38.0), "text-anchor=\"middle\"", &self.x);
        let middle = TOP + PLOT.1 / 2.0;
        page.put(format_args!(
            "<text transform=\"translate(22 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            clean(&self.y)
        ));
        let (mut ours, mut theirs) = (0, 0);
        for (row, series) in self.series.iter().enumerate() {
            let (colour, dash) = match series.look {
                Look::Published => (GREY, ["2 3", "8 3", "1 6", "6 3 1 3"][theirs % 4]),
                Look::Simulated => (COLOURS[ours % COLOURS.len()], "7 4"),
                Look::Measured => (COLOURS[ours % COLOURS.len()], ""),
            };
            *(if series.look == Look::Published { &mut theirs } else { &mut ours }) += 1;
            let style = format!("stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\" fill=\"none\"");
            let shown: Vec<&Spot> = series.spots.iter().filter(|spot| x.shows(spot.x) && y.shows(spot.y)).collect();
            let path: Vec<String> =
                shown.iter().map(|spot| format!("{:.1},{:.1}", x.place(spot.x), up(spot.y))).collect();
            page.put(format_args!("<polyline points=\"{}\" {style}/>", path.join(" ")));
            for spot in shown.iter().filter(|_| series.look == Look::Measured) {
                let at = x.place(spot.x);
                page.put(format_args!(
                    "<circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"><title>{}: {}</title></circle>",
                    up(spot.y),
                    short(spot.x),
                    short(spot.y)
                ));
                if spot.sd > 0.0 {
                    let (high, low) = (up(spot.y + spot.sd), up(spot.y - spot.sd));
                    let thin = format!("stroke=\"{colour}\"");
                    page.line((at, high), (at, low), &thin);
                    page.line((at - 4.0, high), (at + 4.0, high), &thin);
                    page.line((at - 4.0, low), (at + 4.0, low), &thin);
                }
            }
            let at = TOP + 8.0 + 21.0 * row as f64;
            page.line((LEGEND - 10.0, at), (LEGEND + 18.0, at), &style);
            page.text((LEGEND + 25.0, at + 4.0), "font-size=\"12\"", &series.name);
        }
        page.end(&notes, bottom + BELOW + 6.0)
    }
}

impl Bars {
    /// As SVG.
    pub fn svg(&self) -> String {
        const ROW: f64 = 26.0;
        const LEFT: f64 = 345.0;
        const LENGTH: f64 = 390.0;
        let notes = broken(&self.notes);
        let bottom = TOP + 12.0 + ROW * self.bars.len() as f64;
        let mut page = Page::begin(&self.title, bottom + BELOW + NOTE * notes.len() as f64);
        let numbers = self.bars.iter().flat_map(|bar| [Some(bar.value), Some(bar.value + bar.sd), bar.published]);
        let x = Axis::over(numbers.flatten(), true, (LEFT, LENGTH));
        for mark in x.marks() {
            page.line((x.place(mark), TOP), (x.place(mark), bottom), "stroke=\"#ddd\"");
            page.text((x.place(mark), bottom + 18.0), "text-anchor=\"middle\"", &short(mark));
        }
        page.text((LEFT + LENGTH / 2.0, bottom + 38.0), "text-anchor=\"middle\"", &self.x);
        for (row, bar) in self.bars.iter().enumerate() {
            let at = TOP + 8.0 + ROW * row as f64;
            page.text((LEFT - 10.0, at + 13.0), "text-anchor=\"end\"", &bar.name);
            let end = x.place(bar.value);
            page.put(format_args!(
                "<rect x=\"{LEFT}\" y=\"{at:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                end - LEFT,
                ROW - 8.0,
                COLOURS[0]
            ));
            if bar.sd > 0.0 {
                let (low, high, middle) =
                    (x.place(bar.value - bar.sd), x.place(bar.value + bar.sd), at + (ROW - 8.0) / 2.0);
                page.line((low, middle), (high, middle), "stroke=\"black\"");
                page.line((low, middle - 4.0), (low, middle + 4.0), "stroke=\"black\"");
                page.line((high, middle - 4.0), (high, middle + 4.0), "stroke=\"black\"");
            }
            if let Some(published) = bar.published {
                let (to, middle) = (x.place(published), at + (ROW - 8.0) / 2.0);
                page.put(format_args!(
                    "<path d=\"M{to:.1} {:.1} l6 6 l-6 6 l-6 -6 z\" fill=\"white\" stroke=\"#555\" stroke-width=\"1.5\"/>",
                    middle - 6.0
                ));
            }
            let value = match bar.published {
                Some(published) => format!("{} ({})", short(bar.value), short(published)),
                None => short(bar.value),
            };
            page.text((LEFT + LENGTH + 14.0, at + 13.0), "", &value);
        }
        page.end(&notes, bottom + BELOW + 6.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, look: Look, spots: &[(f64, f64)]) -> Series {
        let spots = spots.iter().map(|(x, y)| Spot { x: *x, y: *y, sd: 0.5 }).collect();
        Series { name: name.into(), look, spots }
    }

    #[test]
    fn each_measured_point_is_drawn_with_its_deviation_and_nothing_outside_of_the_picture() {
        let lines = Lines {
            series: vec![
                series("measured", Look::Measured, &[(1.0, 3.0), (20.0, 400.0)]),
                series("simulated", Look::Simulated, &[(1.0, 5.0), (20.0, 60.0)]),
                series("published <b> & others", Look::Published, &[(1.0, 1.0), (18.0, 6.7)]),
            ],
            ..Lines::default()
        };
        for log_y in [false, true] {
            let svg = Lines { log_y, ..lines.clone() }.svg();
            assert_eq!((svg.matches("<circle").count(), svg.matches("<polyline").count()), (2, 3));
            assert!(svg.contains("published b> and others") && svg.ends_with("</svg>\n"));
            let numbers = svg.split("cy=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
            assert!(numbers.clone().count() == 2 && numbers.into_iter().all(|y| (TOP..TOP + 321.0).contains(&y)));
        }
    }

    #[test]
    fn what_cannot_be_drawn_in_tenfolds_is_left_out() {
        let none = Lines {
            log_y: true,
            series: vec![series("a", Look::Measured, &[(1.0, 0.0), (2.0, -4.0)])],
            ..Lines::default()
        };
        assert_eq!(none.svg().matches("<circle").count(), 0);
        assert!(!none.svg().contains("NaN") && !Lines::default().svg().contains("NaN"));
    }

    #[test]
    fn bars_are_as_long_as_their_numbers_in_tenfolds() {
        let bar = |value| Bar { name: "x".into(), value, sd: 0.0, published: Some(10.0) };
        let svg = Bars { bars: vec![bar(1.0), bar(10.0), bar(100.0)], ..Bars::default() }.svg();
        let widths: Vec<f64> =
            svg.split("width=\"").skip(2).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect();
        let lengths: Vec<f64> = widths.into_iter().filter(|width| *width != 1.5).collect();
        assert_eq!(lengths, [0.0, 195.0, 390.0]);
        assert_eq!(svg.matches("<path").count(), 3);
    }

    #[test]
    fn numbers_are_short_and_notes_are_broken_between_words() {
        let texts = [-0.0, 0.25, 1.0, 17.9, 103.2, 20_000.0, 1_500_000.0, 0.0004].map(short);
        assert_eq!(texts, ["0", "0.25", "1", "17.9", "103", "20k", "1.5M", "4.0e-4"]);
        let lines = broken(&["word ".repeat(70), "short".into()]);
        assert!(lines.len() == 4 && lines.iter().all(|line| line.len() <= NOTE_LETTERS + 1 && !line.starts_with(' ')));
    }
}
