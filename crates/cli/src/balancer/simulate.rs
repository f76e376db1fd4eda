//! `loligo balancer simulate`: what a policy would do to a workload, beside another policy or none, in virtual time. The
//! ranks are the real machines, the times are those in docs/scaling/costs.txt (crate `lab`). No server is needed.

use std::path::{Path, PathBuf};

use clap::Args;
use loligo_lab::{Decider, Plan, PolicyDecider, Report, run as run_plan};
use loligo_workload::Spec;
use serde_json::json;

use super::text;
use crate::args::Target;
use crate::look::ask;
use crate::output::{Context, Failure, Outcome, counted, human_count, put};
use crate::progress::{Bar, Unit};
use crate::service::admin::balancer::{BalancerDoc, TextDoc};
use crate::target;

/// Columns of the line of throughput over time.
const COLUMNS: usize = 60;
/// From nothing to the most that there was.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Differences of less than this many percent count as none.
const SAME_PERCENT: f64 = 1.0;
/// Height of one picture.
const PICTURE: usize = 420;

/// Simulation to run.
#[derive(Args, Clone)]
pub struct Simulate {
    /// One that comes with Loligo, or a file.
    pub policy: String,
    /// Metadata ranks; all is at the first one at the beginning.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub ranks: u16,
    /// Workload of the clients; a wrong one is answered with those that there are.
    #[arg(long, value_name = "SPEC", default_value = "create-shared:clients=4,files=50000,lanes=4")]
    pub workload: String,
    /// Virtual seconds after which it ends, if the clients have not.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Seed of randomness; the same one gives the same results.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Policy to compare with: one that comes with Loligo, a file, or `none`. Without it, the one in force at the
    /// server, if one is named.
    #[arg(long, value_name = "NAME|FILE")]
    pub against: Option<String>,
    /// Virtual milliseconds between two decisions of a rank.
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    pub tick_ms: u64,
    /// Picture of both to write.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    pub target: Target,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Does it and prints what came out.
pub fn run(args: &Simulate) -> Outcome {
    let workload: Spec = args.workload.parse().map_err(|what: String| {
        Failure::usage(format!("--workload: {what}")).remedy(format!("one of\n{}", Spec::HELP))
    })?;
    let plan = Plan::new(usize::from(args.ranks), workload).context(|| "costs".to_string())?;
    let plan = Plan { seed: args.seed, seconds: args.seconds, balance_ms: args.tick_ms, ..plan };
    let tried = policy(&args.policy)?;
    let other = other(args)?;
    let mut bar = Bar::start(&format!("simulating {}", args.policy), 2 * args.seconds, Unit::Count);
    bar.alive();
    let tried = one(&plan, Some(tried), &mut bar, 0)?;
    bar.message(&format!("simulating {}", other.as_ref().map_or("none".into(), Decider::name)));
    let other = one(&plan, other, &mut bar, args.seconds)?;
    drop(bar);
    if let Some(path) = &args.svg {
        std::fs::write(path, picture(&tried, &other)).context(|| format!("picture {}", path.display()))?;
    }
    match args.json {
        true => put(json!({ "runs": [tried.json(), other.json()], "better_percent": better(&tried, &other) }))?,
        false => show(&tried, &other)?,
    }
    match &tried.first_fault {
        Some(fault) => Err(Failure::found(format!("{} failed {} times, first at {fault}", tried.policy, tried.faults))
            .remedy("nothing moves when it fails; loligo balancer lint tries it on small models")),
        None => Ok(()),
    }
}

/// By a name of those that come with Loligo, or from a file.
fn policy(name: &str) -> Result<PolicyDecider, Failure> {
    let (name, text) = match loligo_balancer::shipped(name) {
        Some((name, text)) => (name.to_string(), text.to_string()),
        None if loligo_driver::is_name(name) && !Path::new(name).exists() => (name.to_string(), text::of(name, None)?),
        None => {
            let file = Path::new(name);
            let stem = file.file_stem().map_or("policy".into(), |stem| stem.to_string_lossy().into_owned());
            let text = text::of(&stem, Some(file))?;
            (stem, text)
        }
    };
    read(&name, &text)
}

fn read(name: &str, text: &str) -> Result<PolicyDecider, Failure> {
    let remedy = "what a policy can use stands in docs/policies.md; loligo balancer lint FILE tells more";
    PolicyDecider::new(name, text).map_err(|what| Failure::found(what).remedy(remedy))
}

/// The policy to compare with; `None`: no balancing.
fn other(args: &Simulate) -> Result<Option<PolicyDecider>, Failure> {
    match args.against.as_deref() {
        Some("none") => return Ok(None),
        Some(name) => return policy(name).map(Some),
        None => {}
    }
    let Target { data, server, path } = &args.target;
    if data.is_none() && target::named(server.as_deref()).is_none() && path.is_none() {
        return Ok(None);
    }
    let found = target::find(&args.target)?;
    let Some(now) = ask::json::<BalancerDoc>(&found, "/api/v1/balancer")?.in_force else { return Ok(None) };
    let text: TextDoc = ask::json(&found, &format!("/api/v1/balancer/text/{}", now.policy))?;
    read(&format!("{} (in force)", now.name), &text.text).map(Some)
}

fn one(plan: &Plan, decider: Option<PolicyDecider>, bar: &mut Bar, before: u64) -> Result<Report, Failure> {
    let mut decider = decider;
    let given = decider.as_mut().map(|decider| decider as &mut dyn Decider);
    let mut done = before;
    let report = run_plan(plan, given, &mut |_| {
        done += 1;
        bar.set(done);
    });
    let report = report.map_err(|what| Failure::new(format!("simulation: {what}")))?;
    match &report.first_failure {
        Some(failure) => Err(Failure::new(format!("simulation: {} calls failed, first {failure}", report.failed))),
        None => Ok(report),
    }
}

/// By how many percent the first one does more.
fn better(tried: &Report, other: &Report) -> f64 {
    (tried.calls_per_s() / other.calls_per_s().max(f64::MIN_POSITIVE) - 1.0) * 100.0
}

/// Title of a line of the table, and the text of its cell for a report.
type Row = (&'static str, fn(&Report) -> String);

fn show(tried: &Report, other: &Report) -> Outcome {
    put(format_args!(
        "{} on {}, seed {}; simulated in virtual time",
        tried.workload,
        counted(tried.ranks as u64, "rank"),
        tried.seed
    ))?;
    put(format_args!("times taken as given were measured {}\n", tried.measured))?;
    let both = [tried, other];
    let width = both.iter().map(|report| report.policy.chars().count()).max().unwrap_or(0).max(12);
    let most = both.iter().flat_map(|report| rates(report, report.length_s)).fold(1.0, f64::max);
    let longest = tried.length_s.max(other.length_s);
    put(format_args!("calls a second over {longest:.0} s, at most {}; ^: something moved", human_count(most as u64)))?;
    for report in both {
        put(format_args!("{:>width$} |{}|", report.policy, plot(&rates(report, longest), most)))?;
        put(format_args!("{:>width$} |{}|", "", marks(report, longest)))?;
    }
    put(format_args!("\n{:<24} {:>width$} {:>width$}", "", tried.policy, other.policy))?;
    let rows: [Row; 11] = [
        ("seconds", |r| format!("{:.2}{}", r.length_s, if r.is_complete { "" } else { "+" })),
        ("calls a second", |r| human_count(r.calls_per_s() as u64)),
        ("latency, p50 / p99, us", |r| format!("{:.0} / {:.0}", r.p50_us, r.p99_us)),
        ("clients took, s", |r| if r.is_complete { format!("{:.2}", r.run_time().0) } else { "-".into() }),
        ("  standard deviation", |r| if r.is_complete { format!("{:.3}", r.run_time().1) } else { "-".into() }),
        ("moves", |r| human_count(r.moves.len() as u64)),
        ("  in the last quarter", |r| human_count(r.late_moves() as u64)),
        ("requests sent on", |r| human_count(r.redirects)),
        ("leases asked back", |r| human_count(r.recalls)),
        ("sessions", |r| human_count(r.sessions)),
        ("work, most / mean", |r| format!("{:.2}", r.busy_balance())),
    ];
    for (what, of) in rows {
        put(format_args!("{what:<24} {:>width$} {:>width$}", of(tried), of(other)))?;
    }
    let percent = better(tried, other);
    put("")?;
    match percent {
        percent if percent.abs() < SAME_PERCENT => put(format_args!(
            "{} and {} are equally fast, within {SAME_PERCENT} % ({percent:+.1} %)",
            tried.policy, other.policy
        )),
        percent if percent > 0.0 => put(format_args!("{} is better by {percent:.1} %", tried.policy)),
        _ => put(format_args!("{} is better by {:.1} %", other.policy, better(other, tried))),
    }
}

/// Calls a second in each of the columns.
fn rates(report: &Report, longest: f64) -> Vec<f64> {
    let (mut calls, column) = (vec![0.0; COLUMNS], longest.max(f64::MIN_POSITIVE) / COLUMNS as f64);
    let mut from = 0.0;
    for second in &report.seconds {
        let until = from + second.length;
        for (at, sum) in calls.iter_mut().enumerate() {
            let (left, right) = (column * at as f64, column * (at + 1) as f64);
            let both = (until.min(right) - f64::max(from, left)).max(0.0);
            *sum += second.calls as f64 * both / second.length.max(f64::MIN_POSITIVE);
        }
        from = until;
    }
    calls.into_iter().map(|calls| calls / column).collect()
}

fn plot(rates: &[f64], most: f64) -> String {
    let block = |rate: &f64| {
        let eighth = (rate / most * (BLOCKS.len() - 1) as f64).round() as usize;
        BLOCKS[if *rate > 0.0 { eighth.clamp(1, BLOCKS.len() - 1) } else { 0 }]
    };
    rates.iter().map(block).collect()
}

fn marks(report: &Report, longest: f64) -> String {
    let mut line = [' '; COLUMNS];
    for moved in &report.moves {
        let at = (moved.at_s / longest.max(f64::MIN_POSITIVE) * COLUMNS as f64) as usize;
        line[at.min(COLUMNS - 1)] = '^';
    }
    line.iter().collect()
}

/// Both, one above the other.
fn picture(tried: &Report, other: &Report) -> String {
    let inner = |report: &Report, y: usize| {
        report.svg().replacen("<svg ", &format!("<svg y=\"{y}\" width=\"760\" height=\"{PICTURE}\" "), 1)
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 {}\">\n{}{}</svg>\n",
        2 * PICTURE,
        inner(tried, 0),
        inner(other, PICTURE)
    )
}
