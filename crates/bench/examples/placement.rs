//! Figure 6 of *ShardFS vs. IndexFS* (Xiao and others, SoCC 2015) with Loligo's placements: three trees are made and their files looked at, by uniform
//! choice and by Zipf's law; throughput, requests a call, and how evenly ranks had them. Real servers, real clients, on this machine's disk: `loligo
//! bench workload` does each run, with a server of its own. Started by `bench/placement.sh`, which says what is needed.
//!
//! Not here: what the workloads do (`loligo_workload`), more ranks than a machine can show.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use loligo_bench::figure::{Figure, Row, Sample};
use loligo_chart::{Bar, Bars};
use serde_json::Value;

const USAGE: &str = "usage: placement --loligo PROGRAM --dir DIR --out DIR [--ranks N] [--files N] [--stats N] [--runs N] [--placements P,P,...]; \
                     started by bench/placement.sh";

/// Directories of the lowest level of the trees that have levels: 10 in each, 3 levels.
const LEAVES: u64 = 1000;
const TREES: [&str; 3] = ["balanced", "zipf", "synthetic"];
const CHOICES: [&str; 2] = ["uniform", "zipf"];

struct Plan {
    loligo: PathBuf,
    /// Where servers have their data, while they run.
    dir: PathBuf,
    /// Where pictures and CSV go.
    out: PathBuf,
    ranks: u32,
    files: u64,
    stats: u64,
    runs: u64,
    placements: Vec<String>,
}

/// Result of one phase of a run.
#[derive(Default, Clone)]
struct Phase {
    calls_per_s: Sample,
    server_us: Sample,
    client_us: Sample,
    per_call: Sample,
    variation: Sample,
    busiest: Sample,
    p50_us: Sample,
    p99_us: Sample,
}

impl Phase {
    fn add(&mut self, phase: &Value, call: &str) -> Result<(), String> {
        let number = |value: &Value, of: &str| value.as_f64().ok_or_else(|| format!("no {of} in {phase}"));
        let calls = number(&phase["calls"], "calls")?;
        self.calls_per_s.push(number(&phase["calls_per_s"], "calls_per_s")?);
        self.server_us.push(number(&phase["server_cpu_s"], "server_cpu_s")? * 1e6 / calls);
        self.client_us.push(number(&phase["client_cpu_s"], "client_cpu_s")? * 1e6 / calls);
        for (sample, of) in
            [(&mut self.per_call, "per_call"), (&mut self.variation, "variation"), (&mut self.busiest, "busiest")]
        {
            sample.push(number(&phase["served"][of], of)?);
        }
        let kinds = phase["kinds"].as_array().map_or(&[][..], Vec::as_slice);
        let kind = kinds.iter().find(|kind| kind["call"] == call).ok_or_else(|| format!("no {call} in {phase}"))?;
        self.p50_us.push(number(&kind["p50_us"], "p50_us")?);
        self.p99_us.push(number(&kind["p99_us"], "p99_us")?);
        Ok(())
    }
}

/// A run of a tree, a choice and a placement: its phases in their order, each with the call that it is about.
const PHASES: [(&str, &str); 4] = [("", "mkdir"), ("populate", "create"), ("stat", "stat"), ("readdir", "readdir")];

fn spec(plan: &Plan, tree: &str, choice: &str) -> String {
    let shape = match tree {
        "balanced" => format!("fan=10,height=3,files={}", plan.files / LEAVES),
        "zipf" => format!("fan=10,height=3,files={}", plan.files),
        // As many files in a directory on average as there.
        _ => format!("dirs={},files={}", (plan.files * 19 / 1280).max(1), plan.files),
    };
    // Each directory is listed about ten times.
    let lists = (plan.stats / 10).max(1);
    format!("tree-{tree}:clients=4,lanes=16,{shape},stats={},lists={lists},choice={choice}", plan.stats)
}

fn run(plan: &Plan, placement: &str, spec: &str, seed: u64) -> Result<Value, String> {
    let ranks = plan.ranks.to_string();
    let mut command = Command::new(&plan.loligo);
    command.args(["bench", "workload", "--json", "--quiet", "--keep", "--ranks", &ranks, "--seed", &seed.to_string()]);
    // By paths, with clients that cache nothing.
    let (placement, paths) = placement.strip_suffix("/paths").map_or((placement, false), |of| (of, true));
    if placement != "default" {
        command.args(["--placement", placement]);
    }
    if paths {
        command.arg("--by-path");
    }
    let done = command.arg(spec).current_dir(&plan.dir).stderr(Stdio::inherit()).output();
    let done = done.map_err(|error| format!("{}: {error}", plan.loligo.display()))?;
    if !done.status.success() {
        return Err(format!("{spec}, {placement}: {}", done.status));
    }
    serde_json::from_slice(&done.stdout).map_err(|error| format!("{spec}: {error}"))
}

/// One bar of each picture.
struct Point {
    placement: String,
    tree: &'static str,
    choice: &'static str,
    phases: [Phase; PHASES.len()],
}

fn measure(plan: &Plan) -> Result<Vec<Point>, String> {
    let mut points = Vec::new();
    for tree in TREES {
        for choice in CHOICES {
            for placement in &plan.placements {
                points.push(Point { placement: placement.clone(), tree, choice, phases: Default::default() });
            }
        }
    }
    for seed in 1..=plan.runs {
        for point in &mut points {
            let spec = spec(plan, point.tree, point.choice);
            eprintln!("placement: run {seed} of {}: {}, {spec}", plan.runs, point.placement);
            let result = run(plan, &point.placement, &spec, seed)?;
            let phases = result["phases"].as_array().ok_or("no phases in the result")?;
            for ((name, call), sum) in PHASES.iter().zip(&mut point.phases) {
                let phase = phases.iter().find(|phase| phase["name"] == *name);
                sum.add(phase.ok_or_else(|| format!("no phase `{name}` in {result}"))?, call)?;
            }
        }
    }
    Ok(points)
}

/// Title of a phase, once for each tree and placement where choice does not matter.
fn title(phase: usize, point: &Point) -> Option<String> {
    let what = match (phase, point.choice) {
        (0, "uniform") => "mkdir".to_owned(),
        (1, "uniform") => "create".to_owned(),
        (2, choice) => format!("stat, {choice}"),
        (3, "uniform") => "readdir".to_owned(),
        _ => return None,
    };
    Some(format!("{what}: {}, {}", point.tree, point.placement))
}

fn figure(plan: &Plan, points: &[Point], id: &str, value: &str, of: fn(&Phase) -> &Sample) -> Figure {
    let mut rows = Vec::new();
    for phase in 0..PHASES.len() {
        for point in points {
            let Some(series) = title(phase, point) else { continue };
            let of_it = &point.phases[phase];
            let more = [&of_it.per_call, &of_it.variation, &of_it.busiest, &of_it.p50_us, &of_it.p99_us];
            rows.push(Row {
                series,
                rate: of_it.calls_per_s.clone(),
                client_us: of_it.client_us.clone(),
                rank_us: of_it.server_us.clone(),
                value: of(of_it).clone(),
                more: more.into_iter().cloned().collect(),
                ..Row::default()
            });
        }
    }
    Figure {
        id: id.into(),
        title: format!("{value}, {} ranks, {} files", plan.ranks, plan.files),
        value: value.into(),
        more: ["requests a call", "variation", "busiest, times the mean", "p50, us", "p99, us"]
            .map(str::to_owned)
            .into(),
        rows,
        ..Figure::default()
    }
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The name of its file, what it shows, and where that is.
type Picture = (&'static str, &'static str, fn(&Phase) -> &Sample);

fn draw(plan: &Plan, points: &[Point]) -> Result<(), String> {
    let how = format!(
        "Measured on {} cores that all ranks and clients share; mean and standard deviation of {} run{}.",
        std::thread::available_parallelism().map_or(0, usize::from),
        plan.runs,
        if plan.runs == 1 { "" } else { "s" }
    );
    let pictures: [Picture; 3] = [
        ("rate", "Calls a second and rank", |phase| &phase.calls_per_s),
        ("requests", "Requests a call", |phase| &phase.per_call),
        ("variation", "Variation of the ranks' requests", |phase| &phase.variation),
    ];
    for (id, value, of) in pictures {
        let mut figure = figure(plan, points, id, value, of);
        if id == "rate" {
            let ranks = f64::from(plan.ranks);
            figure.rows.iter_mut().for_each(|row| row.value = row.value.map(|rate| rate / ranks));
            println!("{}", table(&figure));
            put(&plan.out.join("placement-6.csv"), &figure.csv())?;
        }
        let bar =
            |row: &Row| Bar { name: row.series.clone(), value: row.value.mean(), sd: row.value.sd(), published: None };
        let bars = figure.rows.iter().map(bar).collect();
        let bars = Bars { title: figure.title.clone(), x: value.to_lowercase(), bars, notes: vec![how.clone()] };
        put(&plan.out.join(format!("placement-6-{id}.svg")), &bars.svg())?;
    }
    Ok(())
}

/// As Markdown. Not the figure's own: calls are no files here, and its CPU is the server's.
fn table(figure: &Figure) -> String {
    let mut out = String::from(
        "| call: tree, placement | calls/s | server, us a call | clients, us a call | requests a call | variation | busiest / mean | p50, us | p99, us |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in &figure.rows {
        let numbers = [&row.rate, &row.rank_us, &row.client_us].into_iter().chain(&row.more);
        let cells = numbers.map(|sample| match sample.mean() {
            large if large >= 1000.0 => format!("{large:.0}"),
            some if some >= 10.0 => format!("{some:.1}"),
            small => format!("{small:.2}"),
        });
        out.push_str(&format!("| {} | {} |\n", row.series, cells.collect::<Vec<_>>().join(" | ")));
    }
    out
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is no number that can be used here"))
}

fn plan(words: &[String]) -> Result<Plan, String> {
    let (mut loligo, mut dir, mut out) = (None, None, None);
    let (mut ranks, mut files, mut stats, mut runs) = (4, 100_000, 200_000, 3);
    let mut placements = vec!["subtree".to_owned(), "giga".to_owned()];
    for pair in words.chunks(2) {
        let [word, value] = pair else { return Err(USAGE.into()) };
        match word.as_str() {
            "--loligo" => loligo = Some(PathBuf::from(value)),
            "--dir" => dir = Some(PathBuf::from(value)),
            "--out" => out = Some(PathBuf::from(value)),
            "--ranks" => ranks = number(value)?,
            "--files" => files = number::<u64>(value)?.max(LEAVES),
            "--stats" => stats = number::<u64>(value)?.max(1),
            "--runs" => runs = number::<u64>(value)?.max(1),
            "--placements" => placements = value.split(',').map(str::to_owned).collect(),
            _ => return Err(USAGE.into()),
        }
    }
    let (Some(loligo), Some(dir), Some(out)) = (loligo, dir, out) else { return Err(USAGE.into()) };
    Ok(Plan { loligo, dir, out, ranks, files, stats, runs, placements })
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = plan(&words).and_then(|plan| {
        std::fs::create_dir_all(&plan.out).map_err(|error| format!("{}: {error}", plan.out.display()))?;
        draw(&plan, &measure(&plan)?)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("placement: {text}");
            ExitCode::FAILURE
        }
    }
}
