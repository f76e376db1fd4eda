//! Figure 6.2: what the rank's journal costs, with more and more clients that each make files in a directory of their own by requests.

use loligo_bench::figure::{Figure, Row, Sample};
use loligo_chart::Lines;

use crate::crew::{Crew, Journal};
use crate::{Plan, draw};

const CLIENTS: [usize; 5] = [1, 5, 10, 15, 20];
/// Requests of each client at once.
const IN_FLIGHT: [u64; 2] = [1, 16];
/// Of the author's runs, divided by what they should have been divided by.
const PAPER_OFF: [(f64, f64); 5] = [(1.0, 1.0), (5.0, 1.36), (10.0, 2.51), (15.0, 3.75), (20.0, 5.07)];
const PAPER_ON: [(f64, f64); 5] = [(1.0, 1.1), (5.0, 1.55), (10.0, 2.66), (15.0, 3.96), (20.0, 5.67)];

fn name(in_flight: u64, journal: Journal) -> String {
    let flight = if in_flight == 1 { "one in flight".into() } else { format!("{in_flight} in flight") };
    format!("{flight}, {}", if journal == Journal::On { "journal" } else { "no journal" })
}

pub fn measure(plan: &Plan) -> Result<(), String> {
    let clients = plan.clients(&CLIENTS);
    let mut rows = Vec::new();
    for in_flight in IN_FLIGHT {
        for journal in [Journal::Off, Journal::On] {
            for n in &clients {
                let known = if journal == Journal::On { PAPER_ON } else { PAPER_OFF };
                let paper = known.iter().find(|(x, _)| in_flight == 1 && *x == *n as f64).map(|(_, y)| *y);
                rows.push((
                    in_flight,
                    journal,
                    Row { series: name(in_flight, journal), x: *n as f64, paper, ..Row::default() },
                ));
            }
        }
    }
    for run in 1..=plan.runs {
        for (in_flight, journal, row) in &mut rows {
            let n = row.x as usize;
            plan.say(&format!("run {run} of {}: {}, {n} clients", plan.runs, row.series));
            let mut crew = Crew::start(&plan.place, *journal, n)?;
            crew.all(n, "mkdir:/own-{}")?;
            let job = crew.all(n, &format!("rpc:/own-{{}}:{}:{in_flight}", plan.files))?;
            let files = (n as u64 * plan.files) as f64;
            row.seconds.push(job.slowest(n));
            row.rate.push(files / job.seconds);
            row.client_us.push(job.cpu(n) * 1e6 / files);
            row.rank_us.push(job.rank * 1e6 / files);
        }
    }
    let seconds = |in_flight: u64, journal: Journal, x: f64| -> Sample {
        let is = |(of, at, row): &&(u64, Journal, Row)| (*of, *at, row.x) == (in_flight, journal, x);
        rows.iter().find(is).map(|(.., row)| row.seconds.clone()).unwrap_or_default()
    };
    let least = clients.iter().copied().min().unwrap_or(1) as f64;
    let mut done = Vec::new();
    for (in_flight, journal, row) in &rows {
        let base = seconds(*in_flight, Journal::Off, least).mean();
        let without = seconds(*in_flight, Journal::Off, row.x);
        let pairs = row.seconds.0.iter().zip(&without.0);
        let ratio =
            if *journal == Journal::On { Sample(pairs.map(|(on, off)| on / off).collect()) } else { Sample::default() };
        done.push(Row { value: row.seconds.map(|seconds| seconds / base), more: vec![ratio], ..row.clone() });
    }
    let figure = Figure {
        id: "6.2".into(),
        title: format!("Figure 6.2: requests with and without a journal, {} files a client", plan.files),
        x: "clients".into(),
        value: "slowest client, times one without journal".into(),
        more: vec!["journal, times without (target 1.15)".into()],
        rows: done,
        notes: vec![
            "Seconds are those of the slowest client; times are beside one client without journal and with as many requests in flight.".into(),
            "The thesis' figure has seconds where it says times for two of its lines; what stands here is divided as it should be (base 617/s; ours is in the table). Its journal is that with one segment at once.".into(),
        ],
    };
    let mut series = draw::series(&figure, draw::value);
    series.push(draw::published("thesis, no journal", &PAPER_OFF));
    series.push(draw::published("thesis, journal", &PAPER_ON));
    let y = "slowest client, times one without journal".into();
    draw::lines(plan, &figure, Lines { x: "clients".into(), y, log_y: true, series, ..Lines::default() })
}
