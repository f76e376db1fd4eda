//! How long it really takes a rank to show a balancer's policy what it has, over the number of pieces it shows:
//! `cargo run --release -p loligo-lab --example snapshot`. The numbers are the defaults of `snapshot` and `piece` in `Costs`.
//! The tick that shows is timed as a whole: it does what every tick does, too.

use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Instant;

use loligo_lab::{Decider, Lab, Plan, Spread};
use loligo_types::{Decision, Rank, Snapshot};

/// Moves nothing.
struct Idle;

impl Decider for Idle {
    fn decide(&mut self, _: Rank, snapshot: &Snapshot) -> Decision {
        Decision { tick: snapshot.tick, ..Decision::default() }
    }
}

fn clock() -> u64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn measure(dirs: u64) -> Result<(usize, u64), String> {
    let spec = format!("create-own:clients={dirs},files=100,think={}", dirs * 1000).parse()?;
    let plan = Plan { spread: Spread::One, seconds: 60, balance_ms: 100, ..Plan::new(2, spec)? };
    let mut lab = Lab::new(&plan, &mut |path| Err(format!("{path} is not there")))?;
    lab.world.clock = Some(clock);
    lab.run(Some(&mut Idle), &mut |_| {})?;
    let mut shown = std::mem::take(&mut lab.world.shown);
    shown.retain(|(pieces, _)| *pieces > 1);
    let most = shown.iter().map(|(pieces, _)| *pieces).max().unwrap_or(0);
    shown.retain(|(pieces, _)| *pieces * 10 >= most * 9);
    shown.sort_by_key(|(_, ns)| *ns);
    shown.get(shown.len() / 2).copied().ok_or("nothing was shown".into())
}

fn main() -> ExitCode {
    println!("| pieces | us |\n|---:|---:|");
    for dirs in [1, 10, 100, 1000] {
        match measure(dirs) {
            Ok((pieces, ns)) => println!("| {pieces} | {:.1} |", ns as f64 / 1e3),
            Err(text) => {
                eprintln!("{text}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}
