//! Figure 6.6: what each mechanism costs one client, in units of the append of its journal, and what compositions of them cost together. Each is done as
//! a whole, on a file system of its own; the thesis adds up the parts.

use loligo_bench::figure::{Figure, Row, Sample};

use crate::crew::{Crew, Job, Journal};
use crate::{Plan, draw};

/// Repetitions in each run of mechanisms that take moments.
const REPEATS: usize = 5;
/// Requests at once in the second series.
const MANY: u64 = 64;

/// Measurements of one mechanism.
#[derive(Default)]
struct Parts {
    seconds: Sample,
    client: Sample,
    rank: Sample,
}

impl Parts {
    fn add(&mut self, job: &Job, files: u64) {
        let us = |seconds: f64| seconds * 1e6 / files as f64;
        self.seconds.push(job.seconds);
        self.client.push(us(job.cpu(1)));
        self.rank.push(us(job.rank));
    }

    fn row(&self, series: &str, unit: f64, files: u64, paper: Option<f64>) -> Row {
        Row {
            series: series.into(),
            seconds: self.seconds.clone(),
            rate: self.seconds.map(|seconds| files as f64 / seconds),
            client_us: self.client.clone(),
            rank_us: self.rank.clone(),
            value: self.seconds.map(|seconds| seconds / unit),
            paper,
            ..Row::default()
        }
    }
}

#[derive(Default)]
struct All {
    append: Parts,
    local: Parts,
    global: Parts,
    apply: Parts,
    into_table: Parts,
    /// Append and persist beside the append of the same job.
    with_local: Sample,
    with_global: Sample,
    /// By number of requests, without and with the journal.
    requests: [[Parts; 2]; 2],
    compositions: [Parts; 4],
}

/// With the steps behind the append, and what the thesis has.
const COMPOSITIONS: [(&str, &str, Option<f64>); 4] = [
    ("ramdisk: append", "", Some(1.0)),
    ("deltafs: append + local persist", "persist:{}", Some(1.21)),
    ("batchfs: append + local persist + volatile apply", "persist:{} merge", None),
    ("hdfs: append + global persist + volatile apply", "persist_global merge", Some(2.29)),
];

pub fn measure(plan: &Plan) -> Result<(), String> {
    let mut all = All::default();
    for run in 1..=plan.runs {
        plan.say(&format!("run {run} of {}", plan.runs));
        for (at, in_flight) in [1, MANY].into_iter().enumerate() {
            for (journaled, journal) in [Journal::Off, Journal::On].into_iter().enumerate() {
                all.requests[at][journaled].add(&requests(plan, journal, in_flight)?, plan.files);
            }
        }
        for _ in 0..REPEATS {
            all.mechanisms(plan)?;
            for ((_, steps, _), parts) in COMPOSITIONS.iter().zip(&mut all.compositions) {
                let mut crew = decoupled(plan, "block")?;
                let steps = steps.replace("{}", &journal_file(plan));
                parts.add(&crew.all(1, &format!("append:{}:file {steps}", plan.files))?, plan.files);
                remove_journal(plan);
            }
        }
    }
    let figure = all.figure(plan);
    draw::bars(plan, &figure, "time, in appends of the client's journal")
}

fn requests(plan: &Plan, journal: Journal, in_flight: u64) -> Result<Job, String> {
    let mut crew = Crew::start(&plan.place, journal, 1)?;
    crew.all(1, "mkdir:/own")?;
    crew.all(1, &format!("rpc:/own:{}:{in_flight}", plan.files))
}

fn decoupled(plan: &Plan, how: &str) -> Result<Crew, String> {
    let mut crew = Crew::start(&plan.place, Journal::On, 1)?;
    crew.all(1, &format!("mkdir:/own decouple:/own:{}:{how}", plan.files))?;
    Ok(crew)
}

fn journal_file(plan: &Plan) -> String {
    plan.place.dir.join("own.journal").display().to_string()
}

fn remove_journal(plan: &Plan) {
    // A merge has removed it; what persists only has not.
    let _ = std::fs::remove_file(journal_file(plan));
}

impl All {
    /// Each by itself.
    fn mechanisms(&mut self, plan: &Plan) -> Result<(), String> {
        let files = plan.files;
        let local = format!("persist:{}", journal_file(plan));
        let steps = [(&*local, "block"), ("persist_global", "block"), ("merge", "block"), ("merge", "table")];
        for (at, (step, how)) in steps.into_iter().enumerate() {
            let mut crew = decoupled(plan, how)?;
            let append = crew.all(1, &format!("append:{files}:file"))?;
            let then = crew.all(1, step)?;
            self.append.add(&append, files);
            let with = (append.seconds + then.seconds) / append.seconds;
            let parts = match at {
                0 => {
                    self.with_local.push(with);
                    &mut self.local
                }
                1 => {
                    self.with_global.push(with);
                    &mut self.global
                }
                2 => &mut self.apply,
                _ => &mut self.into_table,
            };
            parts.add(&then, files);
            remove_journal(plan);
        }
        Ok(())
    }

    fn figure(&self, plan: &Plan) -> Figure {
        let (files, unit) = (plan.files, self.append.seconds.mean());
        let row = |parts: &Parts, series: &str, paper| parts.row(series, unit, files, paper);
        let [[off, on], [many_off, many_on]] = &self.requests;
        let stream = Sample(on.seconds.0.iter().zip(&off.seconds.0).map(|(on, off)| (on - off) / unit).collect());
        let mut rows = vec![
            row(&self.append, "append client journal", Some(1.0)),
            row(off, "RPCs, no journal", Some(17.9)),
            Row { series: "stream: what it adds".into(), value: stream, paper: Some(2.4), ..Row::default() },
            row(&self.local, "local persist", Some(0.21)),
            row(&self.global, "global persist", Some(0.36)),
            row(&self.apply, "volatile apply, durable", Some(0.93)),
            row(&self.into_table, "nonvolatile apply", Some(78.0)),
            row(on, "posix: RPCs + stream", Some(20.3)),
        ];
        for ((name, _, paper), parts) in COMPOSITIONS.iter().zip(&self.compositions) {
            rows.push(row(parts, name, *paper));
        }
        rows.push(row(many_off, &format!("RPCs, no journal, {MANY} in flight"), None));
        rows.push(row(many_on, &format!("RPCs + stream, {MANY} in flight"), None));
        let ratio = |a: &Parts, b: &Parts| Sample(a.seconds.0.iter().zip(&b.seconds.0).map(|(a, b)| a / b).collect());
        let times = |sample: &Sample| format!("{:.2} ± {:.2}", sample.mean(), sample.sd());
        let apply_a_core = 1e6 / self.apply.rank.mean();
        let notes = vec![
            format!(
                "Stream: RPCs with the journal take {} times as long as without it with one in flight, {} times with {MANY} (target 1.15; thesis 1.13).",
                times(&ratio(on, off)),
                times(&ratio(many_on, many_off))
            ),
            format!(
                "Append with local persist: {} times the append (target 1.1; thesis 1.21).",
                times(&self.with_local)
            ),
            format!(
                "Append with global persist: {} times the append (target 1.3; thesis 1.36).",
                times(&self.with_global)
            ),
            format!(
                "Volatile apply here goes over the socket and is durable at its end; {apply_a_core:.0} files a second of the rank's core. The 0.93 of the thesis are 0.13 of work and 0.8 of a constant for a transfer."
            ),
            format!(
                "Nonvolatile apply takes {} times as long as volatile apply (target 3; thesis 84): its rows go into the table as files, past the rank's memory.",
                times(&ratio(&self.into_table, &self.apply))
            ),
        ];
        Figure {
            id: "6.6".into(),
            title: format!("Figure 6.6: mechanisms and compositions, one client, {files} files in a directory"),
            value: "times the append".into(),
            rows,
            notes,
            ..Figure::default()
        }
    }
}
