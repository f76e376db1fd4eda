//! Figure 6.7: how many files a second all clients make together, in directories of their own: by requests, decoupled and kept on their disk, and merged
//! besides. All begin at once, so all journals arrive at once.

use loligo_bench::figure::{Figure, Row, Sample};
use loligo_chart::Lines;

use crate::crew::{Crew, Journal};
use crate::{Plan, draw};

const CLIENTS: [usize; 5] = [1, 5, 10, 15, 20];

/// Name, what a client does (`{}` is its number, `%` its files), and what was published.
type Way = (&'static str, &'static str, &'static [(f64, f64)]);

const WAYS: [Way; 4] = [
    ("RPCs, one in flight", "rpc:/own-{}:%:1", &[(1.0, 1.145), (5.0, 4.15), (10.0, 4.51), (15.0, 4.58), (20.0, 4.45)]),
    ("RPCs, 16 in flight", "rpc:/own-{}:%:16", &[]),
    (
        "create: append, local persist",
        "append:%:file persist:@",
        &[(1.0, 20.4), (5.0, 102.0), (10.0, 204.0), (15.0, 306.0), (20.0, 408.0)],
    ),
    (
        "create + merge",
        "append:%:file persist:@ merge",
        &[(1.0, 5.85), (5.0, 12.0), (10.0, 13.9), (15.0, 14.6), (20.0, 15.0)],
    ),
];

pub fn measure(plan: &Plan) -> Result<(), String> {
    let clients = plan.clients(&CLIENTS);
    let mut rows: Vec<(Way, Row)> = Vec::new();
    for way in WAYS {
        for n in &clients {
            let paper = way.2.iter().find(|(x, _)| *x == *n as f64).map(|(_, y)| *y);
            rows.push((way, Row { series: way.0.into(), x: *n as f64, paper, ..Row::default() }));
        }
    }
    for run in 1..=plan.runs {
        for ((name, work, _), row) in &mut rows {
            let n = row.x as usize;
            plan.say(&format!("run {run} of {}: {name}, {n} clients", plan.runs));
            let mut crew = Crew::start(&plan.place, Journal::On, n)?;
            crew.all(n, "mkdir:/own-{}")?;
            if work.starts_with("append") {
                crew.all(n, &format!("decouple:/own-{{}}:{}:block", plan.files))?;
            }
            let kept = plan.place.dir.join("own-{}.journal").display().to_string();
            let job = crew.all(n, &work.replace('@', &kept).replace('%', &plan.files.to_string()))?;
            let files = (n as u64 * plan.files) as f64;
            row.seconds.push(job.seconds);
            row.rate.push(files / job.seconds);
            row.client_us.push(job.cpu(n) * 1e6 / files);
            row.rank_us.push(job.rank * 1e6 / files);
            for client in 0..n {
                // A merge has removed it.
                let _ = std::fs::remove_file(kept.replace("{}", &client.to_string()));
            }
        }
    }
    let base = rows.first().map_or(f64::NAN, |(_, row)| row.rate.mean());
    let rows = rows.into_iter().map(|(_, row)| Row { value: row.rate.map(|rate| rate / base), ..row }).collect();
    let mut figure = Figure {
        id: "6.7".into(),
        title: format!("Figure 6.7: files a second of all clients, {} files each", plan.files),
        x: "clients".into(),
        value: "times one client by RPC".into(),
        rows,
        ..Figure::default()
    };
    figure.notes = notes(&figure, clients.last().copied().unwrap_or(1));
    let mut series = draw::series(&figure, draw::value);
    for ((_, _, paper), name) in WAYS.iter().filter(|way| !way.2.is_empty()).zip(["RPCs", "create", "create + merge"]) {
        series.push(draw::published(&format!("thesis, {name}"), paper));
    }
    let y = "files a second, times one client by RPC".into();
    draw::lines(plan, &figure, Lines { x: "clients".into(), y, log_y: true, series, ..Lines::default() })
}

fn notes(figure: &Figure, most: usize) -> Vec<String> {
    let rate = |at: usize| figure.at(WAYS[at].0, most as f64).map(|row| row.rate.clone()).unwrap_or_default();
    let ratio = |a: Sample, b: Sample| Sample(a.0.iter().zip(&b.0).map(|(a, b)| a / b).collect());
    let told = |sample: Sample| format!("{:.2} ± {:.2}", sample.mean(), sample.sd());
    vec![
        format!(
            "At {most} clients create + merge is {} times RPCs with one in flight, {} times those with 16 (target 25; thesis 3.37, with 10 s of sleep after each merge).",
            told(ratio(rate(3), rate(0))),
            told(ratio(rate(3), rate(1)))
        ),
        format!(
            "Create alone is {} times RPCs with one in flight (thesis 91.7: one client's rate multiplied by their number).",
            told(ratio(rate(2), rate(0)))
        ),
        "Each client begins as soon as all are ready; transfer, the disk of the clients and the durability of the merge are in it.".into(),
    ]
}
