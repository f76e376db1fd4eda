//! The results as CSV and as a picture that says what was measured and what was simulated. No simulation.

use std::fmt::Write;

use crate::Point;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 30.0;
const PLOT: (f64, f64) = (440.0, 420.0);
const COLOURS: [&str; 5] = ["#1b6ca8", "#2a9d5c", "#c77d0a", "#8a4fbf", "#b8323a"];

/// One line a point.
pub fn csv(points: &[Point]) -> String {
    let mut out = String::from(
        "load,ranks,requests_per_s,p50_us,p99_us,busy_mean,busy_most,peer_messages_per_request,redirects,migrations\n",
    );
    for p in points {
        // Writing into a string cannot fail.
        let _ = writeln!(
            out,
            "{},{},{:.0},{:.1},{:.1},{:.3},{:.3},{:.4},{},{}",
            p.load,
            p.ranks,
            p.ops_per_s,
            p.p50_us,
            p.p99_us,
            p.busy.0,
            p.busy.1,
            p.peer_per_op,
            p.redirects,
            p.migrations
        );
    }
    out
}

/// Speed beside one rank over the number of ranks, both in doublings.
pub fn svg(points: &[Point], measured: &str) -> String {
    let one = points.first().map_or(1.0, |p| p.ops_per_s);
    let most = points.iter().map(|p| p.ranks).max().unwrap_or(1).max(2) as f64;
    let doublings = most.log2();
    let x = |ranks: f64| LEFT + ranks.log2() / doublings * PLOT.0;
    let y = |speed: f64| TOP + PLOT.1 - speed.max(0.5).log2() / doublings * PLOT.1;
    let mut out = loligo_lab::svg::head(WIDTH, HEIGHT);
    let mut put = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let mut ranks = 1.0;
    while ranks <= most {
        put(format!(
            "<line x1=\"{:.1}\" y1=\"{TOP}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>",
            x(ranks),
            x(ranks),
            TOP + PLOT.1
        ));
        put(format!(
            "<line x1=\"{LEFT}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>",
            y(ranks),
            LEFT + PLOT.0,
            y(ranks)
        ));
        put(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{ranks}</text>",
            x(ranks),
            TOP + PLOT.1 + 20.0
        ));
        put(format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{ranks}</text>", LEFT - 8.0, y(ranks) + 4.0));
        ranks *= 2.0;
    }
    for (share, dash, label) in [(1.0, "", "N times one rank"), (0.9, "6 4", "the target, 0.9 N")] {
        put(format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#999\" stroke-dasharray=\"{dash}\"><title>{label}</title></line>",
            x(1.0),
            y(share),
            x(most),
            y(most * share)
        ));
    }
    let mut names: Vec<&str> = points.iter().map(|p| p.load).collect();
    names.dedup();
    for (at, name) in names.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let of_it: Vec<&Point> = points.iter().filter(|p| p.load == *name).collect();
        let line: Vec<String> =
            of_it.iter().map(|p| format!("{:.1},{:.1}", x(p.ranks as f64), y(p.ops_per_s / one))).collect();
        put(format!("<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>", line.join(" ")));
        for p in &of_it {
            put(format!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                x(p.ranks as f64),
                y(p.ops_per_s / one)
            ));
        }
        let row = TOP + 20.0 + 22.0 * at as f64;
        put(format!("<line x1=\"525\" y1=\"{row}\" x2=\"545\" y2=\"{row}\" stroke=\"{colour}\" stroke-width=\"2\"/>"));
        put(format!("<text x=\"552\" y=\"{}\">{name}</text>", row + 4.0));
    }
    put(format!(
        "<text x=\"525\" y=\"{}\" fill=\"#777\">grey: N, dashed: 0.9 N</text>",
        TOP + 28.0 + 22.0 * names.len() as f64
    ));
    put(format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">ranks</text>",
        LEFT + PLOT.0 / 2.0,
        TOP + PLOT.1 + 42.0
    ));
    put(format!(
        "<text transform=\"translate(22 {}) rotate(-90)\" text-anchor=\"middle\">requests per second, to one rank</text>",
        TOP + PLOT.1 / 2.0
    ));
    let measured = measured.replace('&', "and").replace('<', "");
    put(format!(
        "<text x=\"{LEFT}\" y=\"{}\" fill=\"#555\" font-size=\"11\">Simulated in virtual time with the production metadata machines; each rank has a core and a journal disk of its own.</text>",
        HEIGHT - 38.0
    ));
    put(format!(
        "<text x=\"{LEFT}\" y=\"{}\" fill=\"#555\" font-size=\"11\">Measured: CPU of a rank's thread for each request, syncs, messages: {measured}.</text>",
        HEIGHT - 22.0
    ));
    put(format!(
        "<text x=\"{LEFT}\" y=\"{}\" fill=\"#555\" font-size=\"11\">Not in it: the clients' time, networks that are full, a table that many ranks share.</text>",
        HEIGHT - 6.0
    ));
    out.push_str("</svg>\n");
    out
}
