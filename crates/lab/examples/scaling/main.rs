//! Speed-up of many ranks over one, in virtual time:
//! `cargo run --release -p loligo-lab --example scaling -- [--costs FILE] [--ranks 1,2,4,..] [--ms N] [--csv FILE] [--svg FILE]`.
//!
//! The metadata machines are the production ones, all of them, with their messages, journals' order and migrations. What
//! an input costs, and how long syncs and messages take, was measured on a real machine (`bench/scaling.sh`) and is read
//! from a file. Clients are simple ones that take no time. Each rank has a core and a journal's disk to itself.

mod clients;
mod draw;

use std::process::ExitCode;
use std::time::Instant;

use loligo_lab::Costs;
use loligo_lab::world::World;
use loligo_mds::Config;

use clients::{CLIENTS, Clients, Load, WINDOW};

/// The loads that are drawn, with their names.
const LOADS: [(&str, Load); 6] = [
    ("own directories", Load::Own),
    ("1 % renames to another rank", Load::Renames(1)),
    ("10 % renames to another rank", Load::Renames(10)),
    ("a migration every 10 ms", Load::Moving(10)),
    ("one shared directory", Load::Shared),
    ("one shared directory over all ranks", Load::Spread),
];
/// Milliseconds of virtual time before it counts.
const WARM_MS: u64 = 40;

/// Result of one run.
pub struct Point {
    pub load: &'static str,
    pub ranks: usize,
    pub ops_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// Of each rank's thread: mean over the ranks, and the busiest.
    pub busy: (f64, f64),
    pub peer_per_op: f64,
    pub redirects: u64,
    pub migrations: u64,
}

struct Args {
    costs: Costs,
    ranks: Vec<usize>,
    ms: u64,
    csv: Option<String>,
    svg: Option<String>,
}

fn args() -> Result<Args, String> {
    let mut path = format!("{}/../../docs/scaling/costs.txt", env!("CARGO_MANIFEST_DIR"));
    let (mut ranks, mut ms, mut csv, mut svg) = (vec![1, 2, 4, 8, 16, 32, 64, 128], 60, None, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} wants a value"))?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        match word.as_str() {
            "--costs" => path = value,
            "--ranks" => {
                let all: Result<Vec<u64>, String> = value.split(',').map(number).collect();
                ranks = all?.into_iter().map(|n| n as usize).collect();
            }
            "--ms" => ms = number(&value)?.max(1),
            "--csv" => csv = Some(value),
            "--svg" => svg = Some(value),
            _ => return Err(format!("{word} is not understood: --costs, --ranks, --ms, --csv, --svg")),
        }
    }
    if ranks.is_empty() || ranks.iter().any(|n| !(1..=512).contains(n)) {
        return Err("--ranks wants numbers from 1 to 512".into());
    }
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let costs = Costs::parse(&text).map_err(|e| format!("{path}: {e}"))?;
    Ok(Args { costs, ranks, ms, csv, svg })
}

fn point(args: &Args, (name, load): (&'static str, Load), ranks: usize) -> Result<Point, String> {
    // Nothing is balanced.
    let mut world = World::new(ranks, args.costs.clone(), &Config::default())?;
    let settled = world.now + 3_000_000_000;
    while world.run(settled).is_some() {}
    let mut clients = Clients::start(&mut world, load)?;
    world.free = false;
    clients.begin(&mut world);
    let warm = world.now + WARM_MS * 1_000_000;
    clients.run(&mut world, warm);
    let (worked, before) =
        (world.worked(), (world.sum(|c| c.peer_messages), world.sum(|c| c.redirects), clients.migrations));
    clients.counts = true;
    let end = world.now + args.ms * 1_000_000;
    clients.run(&mut world, end);
    if let Some(error) = &clients.first_error {
        return Err(format!("{name}, {ranks} ranks: {} requests failed, first {error}", clients.errors));
    }
    let ns = args.ms as f64 * 1e6;
    let busy: Vec<f64> =
        world.worked().iter().zip(worked).map(|(after, before)| (after - before) as f64 / ns).collect();
    clients.latencies.sort_unstable();
    let quantile = |q: f64| {
        let at = (clients.latencies.len() as f64 * q) as usize;
        clients.latencies.get(at.min(clients.latencies.len().saturating_sub(1))).map_or(0.0, |ns| f64::from(*ns) / 1e3)
    };
    Ok(Point {
        load: name,
        ranks,
        ops_per_s: clients.done as f64 / ns * 1e9,
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
        busy: (busy.iter().sum::<f64>() / busy.len() as f64, busy.iter().copied().fold(0.0, f64::max)),
        peer_per_op: (world.sum(|c| c.peer_messages) - before.0) as f64 / clients.done.max(1) as f64,
        redirects: world.sum(|c| c.redirects) - before.1,
        migrations: clients.migrations - before.2,
    })
}

fn run(args: &Args) -> Result<(), String> {
    println!("Service times measured: {}.", args.costs.measured);
    println!(
        "{CLIENTS} clients for each rank with {WINDOW} requests in flight each; {WARM_MS} ms of virtual time before, {} ms that count.",
        args.ms
    );
    println!();
    println!(
        "| load | ranks | requests/s | to 1 rank | of N | p50, us | p99, us | busy, mean | busiest | messages between ranks a request | redirects | migrations | real s |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let mut points: Vec<Point> = Vec::new();
    for load in LOADS {
        for ranks in &args.ranks {
            if *ranks < 2 && matches!(load.1, Load::Renames(_) | Load::Moving(_)) {
                continue;
            }
            let begun = Instant::now();
            let point = point(args, load, *ranks)?;
            let one = points.first().map_or(point.ops_per_s, |first| first.ops_per_s);
            let speedup = point.ops_per_s / one;
            println!(
                "| {} | {} | {:.0} | {speedup:.2} | {:.3} | {:.0} | {:.0} | {:.2} | {:.2} | {:.3} | {} | {} | {:.1} |",
                point.load,
                point.ranks,
                point.ops_per_s,
                speedup / *ranks as f64,
                point.p50_us,
                point.p99_us,
                point.busy.0,
                point.busy.1,
                point.peer_per_op,
                point.redirects,
                point.migrations,
                begun.elapsed().as_secs_f64()
            );
            points.push(point);
        }
    }
    for (path, text) in [(&args.csv, draw::csv(&points)), (&args.svg, draw::svg(&points, &args.costs.measured))] {
        if let Some(path) = path {
            std::fs::write(path, text).map_err(|e| format!("{path}: {e}"))?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match args().and_then(|args| run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}
