//! A report as a picture: what each rank answered over time, one above the other, and when something moved. Not the numbers.

use crate::report::Report;
use crate::svg::{COLOURS, clean, head, step};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 30.0;
const PLOT: (f64, f64) = (560.0, 290.0);
/// More ranks than this are not named beside the picture.
const NAMED_MAX: usize = 16;

impl Report {
    /// As SVG.
    pub fn svg(&self) -> String {
        let end = self.length_s.max(1e-3);
        let rate = |n: u64, length: f64| n as f64 / length.max(1e-3);
        let seconds: Vec<_> = self.seconds.iter().filter(|second| second.length > 0.05).collect();
        let sums = seconds.iter().map(|second| rate(second.replies.iter().sum(), second.length));
        let most = sums.fold(1.0, f64::max) * 1.05;
        let x = |s: f64| LEFT + s / end * PLOT.0;
        let y = |n: f64| TOP + PLOT.1 - n / most * PLOT.1;
        let mut out = head(WIDTH, HEIGHT);
        let mut put = |text: String| {
            out.push_str(&text);
            out.push('\n');
        };
        let mut below = vec![0.0; seconds.len()];
        for rank in 0..self.ranks {
            let colour = COLOURS[rank % COLOURS.len()];
            let (mut upper, mut lower, mut at) = (Vec::new(), Vec::new(), 0.0);
            for (second, base) in seconds.iter().zip(&mut below) {
                let top = *base + rate(second.replies.get(rank).copied().unwrap_or(0), second.length);
                for edge in [at, at + second.length] {
                    upper.push(format!("{:.1},{:.1}", x(edge), y(top)));
                    lower.push(format!("{:.1},{:.1}", x(edge), y(*base)));
                }
                (*base, at) = (top, at + second.length);
            }
            lower.reverse();
            put(format!(
                "<polygon points=\"{} {}\" fill=\"{colour}\" fill-opacity=\"0.8\"/>",
                upper.join(" "),
                lower.join(" ")
            ));
            if rank < NAMED_MAX {
                let row = TOP + 8.0 + 18.0 * rank as f64;
                put(format!("<rect x=\"655\" y=\"{}\" width=\"14\" height=\"10\" fill=\"{colour}\"/>", row - 5.0));
                put(format!("<text x=\"675\" y=\"{}\">rank {rank}</text>", row + 4.0));
            }
        }
        let mut line = 0.0;
        while line <= most {
            put(format!(
                "<line x1=\"{LEFT}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>",
                y(line),
                LEFT + PLOT.0,
                y(line)
            ));
            put(format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{line:.0}</text>",
                LEFT - 8.0,
                y(line) + 4.0
            ));
            line += step(most);
        }
        let (mut time, bottom) = (0.0, TOP + PLOT.1);
        while time <= end {
            let label = (time * 1000.0).round() / 1000.0;
            put(format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>", x(time), bottom + 18.0));
            time += step(end);
        }
        for moved in &self.moves {
            let at = x(moved.at_s);
            put(format!(
                "<path d=\"M{at:.1} {:.1} l-4 8 h8 z\" fill=\"black\"><title>{} to {}: {} {}</title></path>",
                bottom, moved.from, moved.to, moved.dir.0, moved.frag
            ));
        }
        for phase in &self.phases {
            let at = x(phase.at_s);
            put(format!(
                "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom:.1}\" stroke=\"#555\" stroke-dasharray=\"4 3\"/>"
            ));
            put(format!("<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", at + 4.0, TOP - 6.0, phase.name));
        }
        put(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">seconds (triangles: something moved)</text>",
            LEFT + PLOT.0 / 2.0,
            bottom + 38.0
        ));
        put(format!(
            "<text transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\">requests answered a second</text>",
            TOP + PLOT.1 / 2.0
        ));
        put(format!(
            "<text x=\"{LEFT}\" y=\"{}\" fill=\"#555\" font-size=\"11\">{}; at first: {}; policy: {}. Simulated in virtual time with the production machines.</text>",
            HEIGHT - 26.0,
            clean(&self.workload),
            self.spread,
            clean(&self.policy)
        ));
        put(format!(
            "<text x=\"{LEFT}\" y=\"{}\" fill=\"#555\" font-size=\"11\">Measured: CPU of a rank's thread for each request, syncs, messages: {}.</text>",
            HEIGHT - 10.0,
            clean(&self.measured)
        ));
        out.push_str("</svg>\n");
        out
    }
}
