//! Figures 6.3 and 6.8: clients make files in directories of their own, and another one comes and makes files in all of them. In 6.8 the directories are
//! decoupled, and their policy lets the other one in or not; in 6.3 all is done by requests.
//!
//! The other one begins with the owners and makes so many files in each directory, one after the other, whatever it is told. So that it comes while they work,
//! owners of decoupled directories make their files several times over, each time with a merge: how often is found by one run before, and is the
//! same for all lines of a number of clients. Times are for one such round.

use loligo_bench::figure::{Figure, Row, Sample};
use loligo_chart::Lines;

use crate::crew::{Crew, Job, Journal};
use crate::{Plan, draw};

const CLIENTS: [usize; 5] = [1, 5, 10, 15, 18];
/// Number of files that the interfering client makes in each directory; the thesis' number.
const OTHERS: u64 = 1000;
/// The rounds take longer than the other one, by this.
const LONGER: f64 = 1.3;
/// And so long at least, seconds.
const LEAST: f64 = 2.0;
/// In all rounds no more files than this are made: they have to fit into memory.
const FILES_MAX: u64 = 4_000_000;

const PAPER_NONE: [(f64, f64); 5] = [(1.0, 1.0), (5.0, 1.68), (10.0, 3.61), (15.0, 5.75), (18.0, 6.71)];
const PAPER_ALLOW: [(f64, f64); 5] = [(1.0, 1.88), (5.0, 2.73), (10.0, 5.16), (15.0, 7.39), (18.0, 8.57)];
const PAPER_BLOCK: [(f64, f64); 5] = [(1.0, 1.88), (5.0, 2.6), (10.0, 3.22), (15.0, 5.83), (18.0, 7.25)];

/// Subject of a line.
struct Way {
    name: &'static str,
    /// The policy of the directories; `None`: they are not decoupled.
    interfere: Option<&'static str>,
    /// Answer that the interfering client gets; `None`: there is no such client.
    told: Option<&'static str>,
    paper: &'static [(f64, f64)],
}

const fn way(
    name: &'static str,
    interfere: Option<&'static str>,
    told: Option<&'static str>,
    paper: &'static [(f64, f64)],
) -> Way {
    Way { name, interfere, told, paper }
}

const DECOUPLED: [Way; 4] = [
    way("block, nobody interferes", Some("block"), None, &PAPER_NONE),
    way("block, with interference", Some("block"), Some("busy"), &PAPER_BLOCK),
    way("allow, nobody interferes", Some("allow"), None, &[]),
    way("allow, with interference", Some("allow"), Some("made"), &PAPER_ALLOW),
];

const REQUESTS: [Way; 2] =
    [way("nobody interferes", None, None, &PAPER_NONE), way("with interference", None, Some("made"), &PAPER_ALLOW)];

/// Time of so many owners, and of the interfering client, if there is one: it is behind them in the job.
fn once(plan: &Plan, way: &Way, n: usize, rounds: u64) -> Result<Job, String> {
    let mut crew = Crew::start(&plan.place, Journal::On, n + 1)?;
    crew.all(n, "mkdir:/own-{}")?;
    let paths: Vec<String> = (0..n).map(|owner| format!("/own-{owner}")).collect();
    crew.one(n, &paths.iter().map(|path| format!("look:{path} ")).collect::<String>())?;
    let work = match way.interfere {
        Some(interfere) => {
            crew.all(n, &format!("decouple:/own-{{}}:{}:{interfere}", plan.files * rounds))?;
            (0..rounds).map(|round| format!("append:{}:round-{round} merge ", plan.files)).collect()
        }
        None => format!("rpc:/own-{{}}:{}:1", plan.files),
    };
    let mut lines: Vec<String> = (0..n).map(|owner| work.replace("{}", &owner.to_string())).collect();
    if let Some(told) = way.told {
        lines.push(format!("interfere:{}:{told}:{}", others(plan), paths.join(",")));
    }
    crew.run(&lines)
}

/// With few files of the owners' the other one makes fewer, too.
fn others(plan: &Plan) -> u64 {
    OTHERS.min(plan.files / 10).max(1)
}

/// Number of rounds that keep so many owners busy longer than the interfering client.
fn rounds(plan: &Plan, ways: &[Way], n: usize) -> Result<u64, String> {
    let Some(slowest) = ways.iter().rev().find(|way| way.told.is_some() && way.interfere.is_some()) else {
        return Ok(1);
    };
    let job = once(plan, slowest, n, 1)?;
    let wanted = ((job.seconds_of(n) * LONGER).max(LEAST) / job.slowest(n)).ceil() as u64;
    Ok(wanted.clamp(1, (FILES_MAX / (n as u64 * plan.files)).max(1)))
}

pub fn decoupled(plan: &Plan) -> Result<(), String> {
    let title = format!("Figure 6.8: decoupled directories, {} files and a merge a round", plan.files);
    figure(plan, "6.8", title, &DECOUPLED)
}

pub fn requests(plan: &Plan) -> Result<(), String> {
    let title = format!("Figure 6.3: interference where all is done by requests, {} files a client", plan.files);
    figure(plan, "6.3", title, &REQUESTS)
}

fn figure(plan: &Plan, id: &str, title: String, ways: &[Way]) -> Result<(), String> {
    let clients = plan.clients(&CLIENTS);
    let mut rows: Vec<(usize, &Way, u64, Row)> = Vec::new();
    for n in &clients {
        let rounds = rounds(plan, ways, *n)?;
        plan.say(&format!("{n} clients: {rounds} rounds"));
        for way in ways {
            let paper = way.paper.iter().find(|(x, _)| *x == *n as f64).map(|(_, y)| *y);
            let more = vec![Sample(vec![rounds as f64]), Sample::default(), Sample::default()];
            rows.push((*n, way, rounds, Row { series: way.name.into(), x: *n as f64, paper, more, ..Row::default() }));
        }
    }
    for run in 1..=plan.runs {
        for (n, way, rounds, row) in &mut rows {
            plan.say(&format!("run {run} of {}: {}, {n} clients", plan.runs, way.name));
            let job = once(plan, way, *n, *rounds)?;
            let files = (*n as u64 * plan.files * *rounds) as f64;
            let slowest = job.slowest(*n);
            row.seconds.push(slowest / *rounds as f64);
            row.rate.push(files / slowest);
            row.client_us.push(job.cpu(*n) * 1e6 / files);
            row.rank_us.push(job.rank * 1e6 / files);
            if let Some(other) = job.by.get(*n).and_then(|steps| steps.first()) {
                let until = job.by.iter().take(*n).flatten().map(|did| did.end).fold(0.0, f64::max);
                row.more[1].push(100.0 * (other.end.min(until) - other.begin) / other.seconds());
                row.more[2].push(other.count as f64 / other.seconds());
                if other.count != others(plan) * *n as u64 {
                    return Err(format!("the other one tried {} times", other.count));
                }
            }
        }
    }
    // The lines in one piece each, in the order of the ways.
    rows.sort_by_key(|(_, way, ..)| ways.iter().position(|of| of.name == way.name));
    let base = rows.first().map_or(1.0, |(.., row)| row.seconds.mean());
    let rows = rows.into_iter().map(|(.., row)| Row { value: row.seconds.map(|seconds| seconds / base), ..row });
    let mut figure = Figure {
        id: id.into(),
        title,
        x: "clients".into(),
        value: "slowest client, times one alone".into(),
        more: ["rounds", "of the other's work, % while owners work", "the other, files tried/s"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
        notes: vec![format!(
            "Another client makes {} files in each of their directories meanwhile. Seconds are those of the slowest owner for {} files{}.",
            others(plan),
            plan.files,
            if ways.len() > 2 { " with their merge" } else { "" }
        )],
    };
    figure.notes.extend(beside(&figure, ways, &clients));
    let mut series = draw::series(&figure, draw::value);
    series.push(draw::published("thesis, nobody interferes", &PAPER_NONE));
    if ways.len() > 2 {
        series.push(draw::published("thesis, block", &PAPER_BLOCK));
    }
    series.push(draw::published("thesis, allow", &PAPER_ALLOW));
    let lines = Lines { x: "clients".into(), y: "slowest client, times one alone".into(), series, ..Lines::default() };
    draw::lines(plan, &figure, lines)
}

/// Each line with interference beside the one without it, and how much each client more adds.
fn beside(figure: &Figure, ways: &[Way], clients: &[usize]) -> Vec<String> {
    let mut notes = Vec::new();
    for pair in ways.chunks(2) {
        let [alone, with] = pair else { continue };
        let mut each = Vec::new();
        for n in clients {
            let of = |way: &Way| figure.at(way.name, *n as f64).map_or(f64::NAN, |row| row.value.mean());
            each.push(format!("{n}: {:.3}", of(with) / of(alone)));
        }
        let target = if with.told == Some("busy") { " (target: 1.03 at most)" } else { "" };
        notes.push(format!("\"{}\" beside \"{}\", by clients{target}: {}.", with.name, alone.name, each.join(", ")));
    }
    if let (Some(first), Some(last)) = (clients.first(), clients.last())
        && first < last
    {
        let of = |way: &Way, n: &usize| figure.at(way.name, *n as f64).map_or(f64::NAN, |row| row.value.mean());
        let slope = |way: &Way| (of(way, last) - of(way, first)) / (*last as f64 - *first as f64);
        let each: Vec<String> = ways.iter().map(|way| format!("{}: {:.2}", way.name, slope(way))).collect();
        notes.push(format!(
            "What each client more adds (thesis: nobody 0.34, allow 0.39, block 0.32): {}.",
            each.join("; ")
        ));
    }
    notes
}
