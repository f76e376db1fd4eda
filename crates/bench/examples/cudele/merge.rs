//! Speed of a rank that merges decoupled work: journals of several sizes, with the pieces in which they are sent.

use loligo_bench::figure::{Figure, Row, Sample};
use loligo_chart::Lines;

use crate::crew::{Crew, Journal};
use crate::{Plan, draw};

/// The author's tool, decoding and inserting in memory, without transfer.
const PAPER: f64 = 85_000.0;

pub fn measure(plan: &Plan) -> Result<(), String> {
    let sizes = [plan.files / 10, plan.files, plan.files * 4, plan.files * 10];
    let mut rows: Vec<Row> = Vec::new();
    for files in sizes {
        let more = vec![Sample::default(); 4];
        rows.push(Row { series: "one merge".into(), x: files as f64, paper: Some(PAPER), more, ..Row::default() });
    }
    for run in 1..=plan.runs {
        for row in &mut rows {
            plan.say(&format!("run {run} of {}: {} files", plan.runs, row.x));
            let mut crew = Crew::start(&plan.place, Journal::On, 1)?;
            crew.all(1, &format!("mkdir:/own decouple:/own:{}:block", row.x))?;
            let bytes = crew.all(1, &format!("append:{}:file bytes", row.x))?.by[0][1].count;
            let job = crew.all(1, "merge")?;
            row.seconds.push(job.seconds);
            row.rate.push(row.x / job.seconds);
            row.client_us.push(job.cpu(1) * 1e6 / row.x);
            row.rank_us.push(job.rank * 1e6 / row.x);
            row.value.push(row.x / job.rank);
            row.more[0].push(job.by[0][0].count as f64);
            row.more[1].push(bytes as f64 / row.x);
            row.more[2].push(job.rank / job.seconds * 100.0);
            row.more[3].push(job.server * 1e6 / row.x);
        }
    }
    let figure = Figure {
        id: "merge".into(),
        title: "Merges of one client, by the files that they bring".into(),
        x: "files".into(),
        value: "files a second of the rank's core".into(),
        more: ["pieces", "bytes a file", "rank busy, %", "whole server, us a file"].map(str::to_owned).to_vec(),
        rows,
        notes: vec!["The thesis' tool decodes and inserts 85,000 a second, from a file, in memory; here they come over the socket and are durable.".into()],
    };
    let rate = |row: &Row| (row.rate.mean(), row.rate.sd());
    let mut series = draw::series(&figure, draw::value);
    series.iter_mut().for_each(|series| series.name = "a second of the rank's core".into());
    let mut second = draw::series(&figure, rate);
    second.iter_mut().for_each(|series| series.name = "a second, with transfer".into());
    series.extend(second);
    let ends = [sizes[0], sizes[3]].map(|files| (files as f64, PAPER));
    series.push(draw::published("thesis, in memory", &ends));
    let (x, y) = ("files in a merge".into(), "files merged a second".into());
    draw::lines(plan, &figure, Lines { x, y, log_x: true, series, ..Lines::default() })
}
