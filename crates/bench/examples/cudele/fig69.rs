//! Figure 6.9: what it costs a job in a decoupled directory to let others see how far it is, by how often it does; and how old what they see is.
//!
//! A job that only made files would be over in two seconds. So each file is preceded by a piece of computing, always the same, that keeps the job's core busy
//! and makes the run without merges as long as is asked for: what merges take from that core shows in the run time. The merges are real ones. Another
//! client looks at the directory's attributes every 5 ms; what it sees is compared with when each file was made.
//!
//! Two ways: the client merges by itself, as a mount does by `sync_interval`, while the job goes on; and a program calls the library's merge, and waits for it.

use std::path::Path;

use loligo_bench::figure::{Figure, Row, Sample};
use loligo_chart::Lines;

use crate::crew::{Crew, Job, Journal};
use crate::{Plan, draw};

/// Seconds; 0: never.
const INTERVALS: [f64; 7] = [0.0, 1.0, 5.0, 10.0, 15.0, 20.0, 25.0];
const PAPER: [(f64, f64); 6] = [(1.0, 8.8), (5.0, 2.8), (10.0, 1.6), (15.0, 1.9), (20.0, 2.9), (25.0, 3.2)];
/// Approximate time of making a file besides computing, seconds: only to plan the length of a run.
const MAKE: f64 = 2e-6;
/// Rounds by which the speed of computing is found.
const TRIAL: u64 = 200_000_000;

const WAYS: [&str; 2] = ["sync_interval, by the client", "merge, by the program"];

struct Run {
    job: Job,
    merges: u64,
    /// Of what others see, seconds: mean and most.
    stale: (f64, f64),
}

fn once(plan: &Plan, way: usize, interval: f64, (files, rounds): (u64, u64)) -> Result<Run, String> {
    let mut crew = Crew::start(&plan.place, Journal::On, 2)?;
    let log = |name: &str| plan.place.dir.join(name).display().to_string();
    let (made, seen) = (log("made"), log("seen"));
    crew.one(0, "mkdir:/own")?;
    crew.one(1, "look:/own")?;
    let (decouple, work) = match way {
        0 => (format!("own:/own:{}:{:.0}", files + 1, interval * 1e3), format!("paced:/own:{files}:{rounds}:{made}")),
        _ => {
            (format!("decouple:/own:{}:block", files + 1), format!("paced_merging:{files}:{rounds}:{interval}:{made}"))
        }
    };
    crew.one(0, &decouple)?;
    crew.one(1, "watch:/own")?;
    let job = crew.one(0, &work)?;
    crew.one(1, &format!("unwatch:{seen}"))?;
    let merges = match way {
        0 => crew.one(0, "merges:/own")?.by[0][0].count,
        _ => job.by[0][0].count,
    };
    let stale = staleness(&read(&made)?, &read(&seen)?);
    for file in [made, seen] {
        std::fs::remove_file(&file).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(Run { job, merges, stale })
}

fn read(path: impl AsRef<Path>) -> Result<Vec<(f64, u64)>, String> {
    let text = std::fs::read_to_string(path.as_ref()).map_err(|error| error.to_string())?;
    let line = |line: &str| {
        let (time, count) = line.split_once(' ')?;
        Some((time.parse().ok()?, count.parse().ok()?))
    };
    text.lines().map(|text| line(text).ok_or(format!("not understood: {text}"))).collect()
}

/// Age of the oldest file that a look did not see, mean and maximum over the looks while files were made.
fn staleness(made: &[(f64, u64)], seen: &[(f64, u64)]) -> (f64, f64) {
    let (Some(first), Some(last)) = (made.first(), made.last()) else { return (0.0, 0.0) };
    let mut ages = Vec::new();
    for (time, size) in seen.iter().filter(|(time, _)| *time >= first.0 && *time <= last.0) {
        // The first note after which there was more than this.
        let at = made.partition_point(|(_, count)| count <= size);
        ages.push(made.get(at).map_or(0.0, |(of, _)| (time - of).max(0.0)));
    }
    let mean = ages.iter().sum::<f64>() / ages.len().max(1) as f64;
    (mean, ages.iter().copied().fold(0.0, f64::max))
}

/// Number of rounds of computing for the wanted length of a run.
fn rounds(plan: &Plan, files: u64) -> Result<u64, String> {
    let mut crew = Crew::start(&plan.place, Journal::On, 1)?;
    let job = crew.one(0, &format!("compute:{TRIAL}"))?;
    let round = job.seconds / TRIAL as f64;
    Ok(((plan.seconds / files as f64 - MAKE).max(0.0) / round) as u64)
}

pub fn measure(plan: &Plan) -> Result<(), String> {
    let files = plan.files * 10;
    let rounds = rounds(plan, files)?;
    let intervals: Vec<f64> = INTERVALS.into_iter().filter(|interval| *interval < plan.seconds).collect();
    let mut rows: Vec<(usize, Row)> = Vec::new();
    for (way, name) in WAYS.into_iter().enumerate() {
        for interval in &intervals {
            let paper = PAPER.iter().find(|(x, _)| x == interval).map(|(_, y)| *y);
            let more = vec![Sample::default(); 4];
            rows.push((way, Row { series: name.into(), x: *interval, paper, more, ..Row::default() }));
        }
    }
    for run in 1..=plan.runs {
        let mut base: Option<(f64, f64)> = None;
        for (way, row) in &mut rows {
            plan.say(&format!("run {run} of {}: {}, every {} s", plan.runs, row.series, row.x));
            let Run { job, merges, stale } = once(plan, *way, row.x, (files, rounds))?;
            let (seconds, cpu) = (job.seconds, job.cpu(1));
            row.seconds.push(seconds);
            row.rate.push(files as f64 / seconds);
            row.client_us.push(cpu * 1e6 / files as f64);
            row.rank_us.push(job.rank * 1e6 / files as f64);
            row.more[0].push(merges as f64);
            if row.x == 0.0 {
                base = Some((seconds, cpu));
                continue;
            }
            let Some((alone, cpu_alone)) = base else { continue };
            row.value.push((1.0 - alone / seconds) * 100.0);
            row.more[1].push((cpu / cpu_alone - 1.0) * 100.0);
            row.more[2].push(stale.0);
            row.more[3].push(stale.1);
        }
    }
    let figure = Figure {
        id: "6.9".into(),
        title: format!("Figure 6.9: merges while the work goes on, {files} files, {:.0} s without", plan.seconds),
        x: "every, s (0: never)".into(),
        value: "overhead, %".into(),
        more: ["merges", "client's processor, % more", "age of what others do not see, s: mean", "most"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        notes: vec![
            "Overhead: 1 - time without merges / time, of the same way in the same run; targets 3 % at 1 s and 1 % at 10 s. The thesis' merges were written to a local file and never merged.".into(),
            format!("Each file is preceded by {rounds} rounds of computing, so that the job's core is busy all the time; another client looks every 5 ms."),
        ],
    };
    let mut series = draw::series(&figure, draw::value);
    series.push(draw::published("thesis, a local write", &PAPER));
    let (x, y) = ("seconds between merges".into(), "overhead, % of the run time".into());
    draw::lines(plan, &figure, Lines { x, y, series, ..Lines::default() })
}
