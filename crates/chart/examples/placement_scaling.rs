//! Figures 7 and 8 of *ShardFS vs. IndexFS* (Xiao and others, SoCC 2015) with Loligo's placements, simulated: the production machines in
//! virtual time, with the costs of `docs/scaling`. Strong scaling (the same calls with more ranks and as many clients; the same without listings), weak scaling (files
//! and calls on files grow with ranks, directories do not), and the runs that were also made for real (docs/placement.md), to hold the
//! simulation beside them. Started by `bench/placement-scaling.sh`. Writes Markdown tables, and CSV and pictures; nothing here is measured.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use loligo_chart::{Lines, Look, Series, Spot};
use loligo_lab::{Costs, Part, Plan, Report, run};
use loligo_types::{LookupLease, Placement};

const USAGE: &str = "usage: placement_scaling --out DIR [--costs FILE] [--ranks N,N,...] [--only real,strong,lookups,weak] [--ways NAME+NAME+...] [--jobs N] [--seed N]; \
                     started by bench/placement-scaling.sh";
/// Calls that a client has under way, as in the real runs.
const LANES: usize = 16;
/// Ranks with `scale=1` of weak scaling.
const LEAST: usize = 8;
/// Entries with which a directory is cut in strong and weak scaling: see docs/placement-scaling.md.
const SPLIT: u64 = 250;
/// Rest before each phase, milliseconds: longer than a rank remembers that several have worked in a directory.
const REST_MS: u64 = 2000;
/// A lane rests so long between calls where the real runs are done again, microseconds: about as many calls a second as there.
const REAL_THINK_US: u64 = 7000;

/// Placements of trees, ways of asking, and the time for which clients that ask by path may cache directories: as in docs/placement.md.
const WAYS: [(&str, Placement, bool, Option<&str>); 9] = [
    ("subtree", Placement::Subtree, false, None),
    ("giga", Placement::Giga, false, None),
    ("giga/paths", Placement::Giga, true, None),
    ("giga/paths, 50 ms", Placement::Giga, true, Some("50ms")),
    ("giga/paths, 250 ms", Placement::Giga, true, Some("250ms")),
    ("giga/paths, 1 s", Placement::Giga, true, Some("1s")),
    ("replicated/paths", Placement::Replicated, true, None),
    ("replicated/paths, by rate", Placement::Replicated, true, Some("rate")),
    ("table/paths", Placement::Table, true, None),
];

struct Args {
    out: String,
    costs: Costs,
    ranks: Vec<usize>,
    only: Vec<String>,
    /// Names of [`WAYS`].
    ways: Vec<String>,
    jobs: usize,
    seed: u64,
}

/// A run.
#[derive(Clone)]
struct Job {
    experiment: &'static str,
    way: usize,
    ranks: usize,
}

impl Job {
    fn spec(&self) -> String {
        let (clients, scale) = (self.ranks, self.ranks.div_ceil(LEAST));
        match self.experiment {
            "real" => {
                format!("linkedin:clients=4,lanes={LANES},dirs=3000,files=18000,calls=40000,think={REAL_THINK_US}")
            }
            "lookups" => format!(
                "linkedin:clients={clients},lanes={LANES},dirs=6000,files=36000,calls=409600,mix=open:80/readdir:0/stat:9/create:5/mkdir:2/chmod:2/rename:1/unlink:1"
            ),
            "strong" => format!("linkedin:clients={clients},lanes={LANES},dirs=6000,files=36000,calls=409600"),
            _ => format!("linkedin:clients={clients},lanes={LANES},dirs=1500,files=9000,calls=25600,scale={scale}"),
        }
    }

    fn plan(&self, args: &Args) -> Result<Plan, String> {
        let (_, placement, by_path, lease) = WAYS[self.way];
        let (seed, costs) = (args.seed, args.costs.clone());
        let lookup_lease = match lease {
            Some(text) => LookupLease::named(text.as_bytes()).ok_or(format!("{text}: no lookup lease"))?,
            None => LookupLease::NONE,
        };
        let plan =
            Plan { placement, by_path, lookup_lease, seed, costs, ..Plan::new(self.ranks, self.spec().parse()?)? };
        Ok(match self.experiment {
            "real" => plan,
            "lookups" => Plan { rest_ms: REST_MS, ..plan },
            _ => Plan { rest_ms: REST_MS, split_entries: Some(SPLIT), ..plan },
        })
    }

    fn do_it(&self, args: &Args) -> Result<Report, String> {
        let report = run(&self.plan(args)?, None, &mut |_| {})?;
        if !report.is_complete || report.failed > 0 {
            return Err(format!(
                "{}, {} ranks, {}: {:?}",
                self.experiment, self.ranks, WAYS[self.way].0, report.first_failure
            ));
        }
        Ok(report)
    }
}

/// A run that was made.
struct Point {
    job: Job,
    report: Report,
}

impl Point {
    fn replay(&self) -> Result<&Part, String> {
        self.report.parts.iter().find(|part| part.name == "replay").ok_or("there was no replay".into())
    }
}

fn jobs(args: &Args) -> VecDeque<Job> {
    let mut jobs = VecDeque::new();
    for experiment in
        ["real", "strong", "lookups", "weak"].into_iter().filter(|name| args.only.iter().any(|only| only == name))
    {
        let ranks: Vec<usize> =
            if experiment == "real" { vec![8, 4, 2] } else { args.ranks.iter().rev().copied().collect() };
        for ranks in ranks {
            let ways = (0..WAYS.len()).filter(|way| args.ways.iter().any(|name| name == WAYS[*way].0));
            jobs.extend(ways.map(|way| Job { experiment, way, ranks }));
        }
    }
    let mut jobs: Vec<Job> = jobs.into();
    // Few ranks are soon done, and what there is is shown after each run.
    jobs.sort_by_key(|job| job.ranks);
    jobs.into()
}

fn do_all(args: &Args) -> Result<Vec<Point>, String> {
    let (todo, done) = (Mutex::new(jobs(args)), Mutex::new(Vec::new()));
    let work = || -> Result<(), String> {
        loop {
            let next = todo.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(job) = next else { return Ok(()) };
            let report = job.do_it(args)?;
            eprintln!("placement_scaling: {}, {} ranks, {} is done", job.experiment, job.ranks, WAYS[job.way].0);
            let point = Point { job, report };
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push(point);
            done.sort_by_key(|point: &Point| (point.job.experiment, point.job.ranks, point.job.way));
            put(&format!("{}/placement-scaling.tables.md", args.out), &show(args, &done)?)?;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.jobs).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a run ended with a panic".to_owned())?)
    })?;
    Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn put(path: &str, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{path}: {error}"))
}

fn csv(points: &[Point]) -> String {
    let mut text = format!("experiment,{}", Report::parts_csv_head());
    for point in points {
        for line in point.report.parts_csv().lines() {
            text += &format!("{},{line}\n", point.job.experiment);
        }
    }
    text
}

/// As short as it can be read.
fn short(number: f64) -> String {
    match number {
        large if large >= 1000.0 => format!("{large:.0}"),
        some if some >= 10.0 => format!("{some:.1}"),
        small => format!("{small:.2}"),
    }
}

fn times(part: &Part, call: &str) -> String {
    part.kind(call).map_or("-".into(), |k| format!("{} / {} / {}", short(k.p50_us), short(k.p70_us), short(k.p99_us)))
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// A Markdown table of an experiment.
fn table(points: &[&Point]) -> Result<String, String> {
    let mut out = String::from(
        "| ranks | placement | calls | calls/s | calls/s to 9/10 | requests a call | variation | busy: mean | busiest | for other ranks | \
         messages between ranks a call | stat p50 / p70 / p99, us | chmod p50 / p70 / p99, us | readdir p50 / p70 / p99, us | requests a listing |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---|---|---:|\n",
    );
    for point in points {
        let part = point.replay()?;
        let listings = part.kind("readdir").map_or(0, |kind| kind.calls).max(1) as f64;
        let cells = [
            point.job.ranks.to_string(),
            WAYS[point.job.way].0.to_owned(),
            part.calls.to_string(),
            format!("{:.0}", part.calls_per_s()),
            format!("{:.0}", part.most_per_s),
            format!("{:.2}", part.per_call()),
            format!("{:.2}", part.variation()),
            format!("{:.2}", mean(&part.busy)),
            format!("{:.2}", part.busy.iter().copied().fold(0.0, f64::max)),
            format!("{:.2}", mean(&part.busy_for_peers)),
            format!("{:.2}", part.peer_messages as f64 / part.calls.max(1) as f64),
            times(part, "stat"),
            times(part, "chmod"),
            times(part, "readdir"),
            format!("{:.2}", part.ops.get("readdir").copied().unwrap_or(0) as f64 / listings),
        ];
        out += &format!("| {} |\n", cells.join(" | "));
    }
    Ok(out)
}

/// Work of the busiest ranks.
fn busiest(points: &[&Point]) -> Result<String, String> {
    let mut out =
        String::from("| ranks | placement | busiest rank | its requests, most frequent first |\n|---:|---|---:|---|\n");
    for point in points {
        let part = point.replay()?;
        let mut ops: Vec<(&&str, &u64)> = part.busiest_ops.iter().collect();
        ops.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let ops: Vec<String> = ops.iter().take(5).map(|(name, count)| format!("{name} {count}")).collect();
        out +=
            &format!("| {} | {} | {} | {} |\n", point.job.ranks, WAYS[point.job.way].0, part.busiest(), ops.join(", "));
    }
    Ok(out)
}

/// Lines over the number of ranks, one for each way, or for each way and name of `of`.
fn draw(points: &[&Point], title: &str, y: &str, log_y: bool, of: &[(&str, Number)]) -> Result<String, String> {
    let mut series = Vec::new();
    for (way, (name, ..)) in WAYS.iter().enumerate() {
        for (what, number) in of {
            let mut spots = Vec::new();
            for point in points.iter().filter(|point| point.job.way == way) {
                spots.push(Spot { x: point.job.ranks as f64, y: number(point.replay()?), sd: 0.0 });
            }
            let name = if what.is_empty() { (*name).to_owned() } else { format!("{name}, {what}") };
            series.push(Series { name, look: Look::Simulated, spots });
        }
    }
    let notes = vec![
        "Simulated in virtual time with the production machines and the costs of docs/scaling/costs.txt, one run a point. subtree and giga: clients that \
         cache under leases; with /paths: clients that ask by path, and cache nothing or, where a time stands, where \
         directories are for so long. subtree has all at one rank."
            .into(),
    ];
    let lines =
        Lines { title: title.into(), x: "ranks, and clients".into(), y: y.into(), log_x: false, log_y, series, notes };
    Ok(lines.svg())
}

type Number = fn(&Part) -> f64;

fn us(part: &Part, call: &str, of: fn(&loligo_lab::KindTimes) -> f64) -> f64 {
    part.kind(call).map_or(0.0, of)
}

/// Writes CSV and pictures of all that was done; the tables.
fn show(args: &Args, points: &[Point]) -> Result<String, String> {
    let mut text = String::new();
    put(&format!("{}/placement-scaling.csv", args.out), &csv(points))?;
    for (experiment, figure, title) in [
        ("real", "", "Held beside the real runs of docs/placement.md"),
        ("strong", "7a", "Strong scaling: figures 7a, 8a, 8c"),
        ("lookups", "7a-lookups", "Strong scaling without listings, nothing cut"),
        ("weak", "7b", "Weak scaling: figures 7b, 8b, 8d"),
    ] {
        let of: Vec<&Point> = points.iter().filter(|point| point.job.experiment == experiment).collect();
        let Some(first) = of.first() else { continue };
        text += &format!(
            "### {title}: simulated\n\n`{}` (of {} ranks)\n\n{}",
            first.job.spec(),
            first.job.ranks,
            table(&of)?
        );
        text += &format!("\n{}\n", busiest(&of)?);
        if figure.is_empty() {
            continue;
        }
        let name = |what: &str| format!("{}/placement-{figure}-{what}.svg", args.out);
        let rate: [(&str, Number); 1] = [("", |part| part.most_per_s)];
        put(&name("rate"), &draw(&of, &format!("{title}: calls a second"), "calls a second", false, &rate)?)?;
        let requests: [(&str, Number); 1] = [("", Part::per_call)];
        put(&name("requests"), &draw(&of, &format!("{title}: requests a call"), "requests a call", false, &requests)?)?;
        let stat: [(&str, Number); 2] =
            [("p50", |part| us(part, "stat", |k| k.p50_us)), ("p99", |part| us(part, "stat", |k| k.p99_us))];
        put(&name("stat"), &draw(&of, &format!("{title}: stat"), "microseconds", true, &stat)?)?;
        let chmod: [(&str, Number); 2] =
            [("p50", |part| us(part, "chmod", |k| k.p50_us)), ("p99", |part| us(part, "chmod", |k| k.p99_us))];
        put(&name("chmod"), &draw(&of, &format!("{title}: chmod of a directory"), "microseconds", true, &chmod)?)?;
    }
    Ok(text)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is no number that can be used here"))
}

fn args() -> Result<Args, String> {
    let (mut out, mut costs, mut ranks) = (None, Costs::measured()?, vec![8, 16, 32, 64, 128]);
    let (mut only, mut jobs, mut seed) = (["real", "strong", "lookups", "weak"].map(str::to_owned).to_vec(), 1, 1);
    let mut ways: Vec<String> = WAYS.iter().map(|way| way.0.to_owned()).collect();
    let words: Vec<String> = std::env::args().skip(1).collect();
    for pair in words.chunks(2) {
        let [word, value] = pair else { return Err(USAGE.into()) };
        match word.as_str() {
            "--out" => out = Some(value.clone()),
            "--costs" => {
                let text = std::fs::read_to_string(value).map_err(|error| format!("{value}: {error}"))?;
                costs = Costs::parse(&text).map_err(|error| format!("{value}: {error}"))?;
            }
            "--ranks" => ranks = value.split(',').map(number).collect::<Result<_, _>>()?,
            "--only" => only = value.split(',').map(str::to_owned).collect(),
            "--ways" => ways = value.split('+').map(str::to_owned).collect(),
            "--jobs" => jobs = number::<usize>(value)?.max(1),
            "--seed" => seed = number(value)?,
            _ => return Err(USAGE.into()),
        }
    }
    if let Some(name) = ways.iter().find(|name| !WAYS.iter().any(|way| way.0 == **name)) {
        return Err(format!("{name}: there is no such way; there are {:?}", WAYS.map(|way| way.0)));
    }
    Ok(Args { out: out.ok_or(USAGE)?, costs, ranks, only, ways, jobs, seed })
}

fn main() -> ExitCode {
    match args().and_then(|args| show(&args, &do_all(&args)?)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("placement_scaling: {text}");
            ExitCode::from(2)
        }
    }
}
