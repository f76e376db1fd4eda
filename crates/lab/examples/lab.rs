//! A workload on several ranks in virtual time:
//! `cargo run --release -p loligo-lab --example lab -- --workload SPEC [--ranks 1,2,4] [--spread one|even|hashed] [--placement subtree|giga|replicated|table] [--by-path yes] [--split-entries N] [--rest-ms N] [--slower X] [--seed N]
//! [--policy NAME|FILE] [--tick-ms N] [--log yes] [--costs FILE] [--seconds N] [--csv FILE] [--parts FILE] [--svg FILE] [--json FILE]`. Without a workload it says which there are.
//!
//! Writes a Markdown table with a line for each number of ranks. With several of them the picture is of the last one, and JSON has
//! a list. Without a policy (NAME: one that comes with Loligo) nothing is balanced: directories stay where they are at the
//! beginning. `--log` writes to stderr what led to each decision that moves something. How long each took is told on a terminal only:
//! what else is on stderr is a complaint.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;

use loligo_lab::{Costs, Decider, Plan, PolicyDecider, Report, Spread, run};
use loligo_types::{LookupLease, Placement};
use loligo_workload::Spec;

struct Args {
    plan: Plan,
    ranks: Vec<usize>,
    csv: Option<String>,
    parts: Option<String>,
    svg: Option<String>,
    json: Option<String>,
    policy: Option<String>,
    log: bool,
}

fn args() -> Result<Args, String> {
    let (mut workload, mut costs, mut ranks) = (None, None, vec![1]);
    let (mut seed, mut seconds, mut spread) = (1, 3600, Spread::One);
    let (mut csv, mut parts, mut svg, mut json) = (None, None, None, None);
    let (mut placement, mut by_path, mut split_entries, mut rest_ms, mut slower) = (None, false, None, 0, 1.0);
    let (mut policy, mut log, mut tick_ms) = (None, false, None);
    let mut lease = LookupLease::NONE;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} wants a value"))?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        match word.as_str() {
            "--workload" => workload = Some(value.parse::<Spec>()?),
            "--costs" => {
                let text = std::fs::read_to_string(&value).map_err(|e| format!("{value}: {e}"))?;
                costs = Some(Costs::parse(&text).map_err(|e| format!("{value}: {e}"))?);
            }
            "--ranks" => {
                let all: Result<Vec<u64>, String> = value.split(',').map(number).collect();
                ranks = all?.into_iter().map(|n| n as usize).collect();
            }
            "--spread" => spread = value.parse()?,
            "--placement" => placement = Some(placed(&value)?),
            "--by-path" => by_path = value == "yes",
            "--lookup-lease" => {
                lease = LookupLease::named(value.as_bytes()).ok_or(format!("{value}: 1ms to 1s, depth, or rate"))?;
            }
            "--rest-ms" => rest_ms = number(&value)?,
            "--slower" => slower = value.parse().map_err(|_| format!("{value} is no number"))?,
            "--split-entries" => split_entries = Some(number(&value)?),
            "--seed" => seed = number(&value)?,
            "--seconds" => seconds = number(&value)?,
            "--policy" => policy = Some(value).filter(|name| name != "none"),
            "--tick-ms" => tick_ms = Some(number(&value)?),
            "--log" => log = value == "yes",
            "--csv" => csv = Some(value),
            "--parts" => parts = Some(value),
            "--svg" => svg = Some(value),
            "--json" => json = Some(value),
            _ => {
                return Err(format!(
                    "{word} is not understood: --workload, --ranks, --spread, --placement, --by-path, --lookup-lease, --split-entries, --rest-ms, --slower, --policy, --tick-ms, --log, --seed, --costs, --seconds, --csv, --parts, --svg, --json"
                ));
            }
        }
    }
    let workload = workload.ok_or(format!("--workload is one of\n{}", Spec::HELP))?;
    let placement = placement.unwrap_or_default();
    let mut plan = Plan {
        seed,
        seconds,
        spread,
        placement,
        by_path,
        lookup_lease: lease,
        split_entries,
        rest_ms,
        ..Plan::new(1, workload)?
    };
    plan.costs = costs.unwrap_or(plan.costs).slower(slower);
    plan.balance_ms = tick_ms.unwrap_or(plan.balance_ms).max(1);
    Ok(Args { plan, ranks, csv, parts, svg, json, policy, log })
}

fn placed(name: &str) -> Result<Placement, String> {
    Placement::named(name.as_bytes())
        .ok_or(format!("there is no placement `{name}`: subtree, giga, replicated, table, table-inherit"))
}

/// One that comes with Loligo, or the text in a file.
fn decider(name: &str, log: bool) -> Result<PolicyDecider, String> {
    let read = || {
        let text =
            std::fs::read_to_string(name).map_err(|e| format!("no policy {name} comes with Loligo, and: {e}"))?;
        PolicyDecider::new(name, &text)
    };
    let mut decider = PolicyDecider::shipped(name).unwrap_or_else(read)?;
    decider.log = log.then(|| Box::new(|line: &str| eprintln!("{line}")) as Box<dyn FnMut(&str)>);
    Ok(decider)
}

fn work(args: &Args) -> Result<(), String> {
    println!("{}; service times measured: {}.\n", args.plan.workload, args.plan.costs.measured);
    println!("{}", Report::table_head());
    let mut reports = Vec::new();
    for ranks in &args.ranks {
        let begun = Instant::now();
        let mut decider = args.policy.as_deref().map(|name| decider(name, args.log)).transpose()?;
        let given = decider.as_mut().map(|decider| decider as &mut dyn Decider);
        let report = run(&Plan { ranks: *ranks, ..args.plan.clone() }, given, &mut |_| {})?;
        println!("{}", report.row());
        if let Some(failure) = &report.first_failure {
            eprintln!("{} calls failed, the first one: {failure}", report.failed);
        }
        if let Some(fault) = &report.first_fault {
            eprintln!("the policy failed {} times, first at {fault}", report.faults);
        }
        let real = begun.elapsed().as_secs_f64();
        if std::io::stderr().is_terminal() {
            eprintln!(
                "{ranks} ranks: {real:.1} s of real time, set-up and all, {:.3} a virtual second",
                real / report.length_s
            );
        }
        reports.push(report);
    }
    let csv = || reports.iter().fold(Report::csv_head().to_owned(), |text, report| text + &report.csv());
    let json = || serde_json::Value::from(reports.iter().map(Report::json).collect::<Vec<_>>()).to_string();
    let svg = || reports.last().map(Report::svg).unwrap_or_default();
    let parts = || reports.iter().fold(Report::parts_csv_head().to_owned(), |text, report| text + &report.parts_csv());
    let texts: [(&Option<String>, &dyn Fn() -> String); 4] =
        [(&args.csv, &csv), (&args.parts, &parts), (&args.json, &json), (&args.svg, &svg)];
    for (path, text) in texts {
        if let Some(path) = path {
            std::fs::write(path, text()).map_err(|e| format!("{path}: {e}"))?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match args().and_then(|args| work(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}
