//! Growth of decoupled file creation with the clients: measured with as many processes as this machine is asked to run, and simulated up to
//! 100 clients that each have a core of their own, with the times that one client and its merge took here ([`loligo_lab::Many`]).

use loligo_bench::figure::{Figure, Row, Sample};
use loligo_chart::Lines;
use loligo_lab::Many;

use crate::crew::{Crew, Job, Journal};
use crate::{Plan, draw};

const MEASURED: [usize; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const SIMULATED: [usize; 9] = [1, 2, 4, 8, 16, 32, 50, 75, 100];
/// Parts of a merge that a client has on their way at once.
const WINDOW: u64 = 4;

/// The times that are given to the simulation, of runs with one client, but for the rank's.
#[derive(Default)]
struct Costs {
    make_ns: Sample,
    send_ns: Sample,
    /// Of the runs with the most clients: what a rank does when much has come together is in it, as a single client's merge may be over before.
    rank_ns: Sample,
    end_ns: Sample,
    parts: Sample,
}

impl Costs {
    fn add(&mut self, append: &Job, merge: &Job, files: f64) {
        let (send, rank) = (merge.cpu(1), merge.rank);
        // Its own core would not be shared with others.
        self.make_ns.push(append.cpu(1) * 1e9 / files);
        self.send_ns.push(send * 1e9 / files);
        // What is left of its time when client and rank have worked side by side.
        self.end_ns.push((merge.seconds - send.max(rank)).max(0.0) * 1e9);
        self.parts.push(merge.by[0][0].count as f64);
    }

    fn many(&self, clients: usize, files: u64) -> Many {
        Many {
            clients,
            files,
            parts: self.parts.mean() as u64,
            window: WINDOW,
            make_ns: self.make_ns.mean(),
            send_ns: self.send_ns.mean(),
            rank_ns: self.rank_ns.mean(),
            end_ns: self.end_ns.mean(),
        }
    }
}

pub fn measure(plan: &Plan) -> Result<(), String> {
    let clients = plan.clients(&MEASURED);
    let row = |series: &str, n: usize| Row { series: series.into(), x: n as f64, ..Row::default() };
    let mut rows: Vec<Row> = clients.iter().map(|n| row("create, measured", *n)).collect();
    rows.extend(clients.iter().map(|n| row("create + merge, measured", *n)));
    let mut costs = Costs::default();
    for run in 1..=plan.runs {
        plan.say(&format!("run {run} of {}: what one client costs", plan.runs));
        let mut crew = start(plan, 1)?;
        let append = crew.all(1, &format!("append:{}:file", plan.files))?;
        costs.add(&append, &crew.all(1, "merge")?, plan.files as f64);
        for row in &mut rows {
            let n = row.x as usize;
            plan.say(&format!("run {run} of {}: {}, {n} clients", plan.runs, row.series));
            let merge = if row.series.contains("merge") { "merge" } else { "" };
            let job = start(plan, n)?.all(n, &format!("append:{}:file {merge}", plan.files))?;
            let files = (n as u64 * plan.files) as f64;
            row.seconds.push(job.seconds);
            row.rate.push(files / job.seconds);
            row.client_us.push(job.cpu(n) * 1e6 / files);
            row.rank_us.push(job.rank * 1e6 / files);
        }
    }
    let most = rows.iter().filter(|row| row.series.contains("merge")).max_by(|a, b| a.x.total_cmp(&b.x));
    costs.rank_ns = most.map(|row| row.rank_us.map(|us| us * 1e3)).unwrap_or_default();
    let most = most.map_or(0.0, |row| row.x);
    for (at, series) in ["create, simulated", "create + merge, simulated"].into_iter().enumerate() {
        for n in SIMULATED {
            let many = costs.many(n, plan.files);
            let (seconds, rate) = match at {
                0 => (many.made_ns() / 1e9, many.rates().0),
                _ => (many.merged_ns() / 1e9, many.rates().1),
            };
            let (seconds, rate) = (Sample(vec![seconds]), Sample(vec![rate]));
            rows.push(Row { series: series.into(), x: n as f64, seconds, rate, ..Row::default() });
        }
    }
    let base = rows.first().map_or(f64::NAN, |row| row.rate.mean());
    let rows = rows.into_iter().map(|row| Row { value: row.rate.map(|rate| rate / base), ..row }).collect();
    let told = |sample: &Sample| format!("{:.0} ± {:.0}", sample.mean(), sample.sd());
    let given = format!(
        "Given to the simulation, nanoseconds a file: made {} and sent {} by one client, at the rank {} with {most} clients; {} us for a merge besides, in {} parts. Each simulated client has a core of its own, and so has the rank; who waits for the rank is simulated, nothing else.",
        told(&costs.make_ns),
        told(&costs.send_ns),
        told(&costs.rank_ns),
        told(&costs.end_ns.map(|ns| ns / 1e3)),
        told(&costs.parts)
    );
    let figure = Figure {
        id: "scale".into(),
        title: format!("Files made decoupled, {} by each client: measured, and simulated", plan.files),
        x: "clients".into(),
        value: "times one client's create".into(),
        rows,
        notes: vec![given.clone()],
        ..Figure::default()
    };
    let series = draw::series(&figure, |row| (row.rate.mean(), row.rate.sd()));
    let (x, y) = ("clients".into(), "files a second, of all clients".into());
    draw::lines(plan, &figure, Lines { x, y, log_x: true, log_y: true, series, notes: vec![given], ..Lines::default() })
}

fn start(plan: &Plan, clients: usize) -> Result<Crew, String> {
    let mut crew = Crew::start(&plan.place, Journal::On, clients)?;
    crew.all(clients, &format!("mkdir:/own-{{}} decouple:/own-{{}}:{}:block", plan.files))?;
    Ok(crew)
}
