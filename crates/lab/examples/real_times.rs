//! Real times of a rank: to show a balancer's policy what it has, over the number of pieces that it shows, and to do a step of a
//! migration's look at memory. Run it with `cargo run --release -p loligo-lab --example real_times`. The first are the defaults of
//! `snapshot` and `piece` in `Costs`; the second can be held beside `step`. The tick that shows is timed as a whole: it does what
//! every tick does, too. Last, the times of a rank's machine for requests and messages of a workload under each placement, without the
//! server around it (sockets, bytes, threads): `name`, `entry` and `letter` are derived from these.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Instant;

use loligo_lab::{Decider, Lab, Plan, Spread};
use loligo_types::{Decision, Move, Placement, Rank, Snapshot, Weighed};

/// Moves nothing, or the first piece that it can to the other rank.
struct Simple {
    moves: bool,
}

impl Decider for Simple {
    fn decide(&mut self, rank: Rank, snapshot: &Snapshot) -> Decision {
        let weighed = Some(Weighed { policy: snapshot.policy, ..Weighed::default() });
        let (to, load) = (Rank(1 - rank.0), 1.0);
        let first = snapshot.pieces.iter().find(|piece| self.moves && !piece.fixed);
        let moves = first.map(|piece| Move { piece: piece.piece, to, load }).into_iter().collect();
        Decision { tick: snapshot.tick, weighed, moves }
    }
}

fn clock() -> u64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn work(spec: &str, moves: bool, seconds: u64) -> Result<Lab, String> {
    let plan = Plan { spread: Spread::One, seconds, balance_ms: 100, ..Plan::new(2, spec.parse()?)? };
    let mut lab = Lab::new(&plan, &mut |path| Err(format!("{path} is not there")))?;
    lab.world.clock = Some(clock);
    lab.run(Some(&mut Simple { moves }), &mut |_| {})?;
    Ok(lab)
}

/// Pieces, and nanoseconds of the tick that shows them; the median of those that show nearly all.
fn snapshot(dirs: u64) -> Result<(usize, u64), String> {
    let mut lab = work(&format!("create-own:clients={dirs},files=100,think={}", dirs * 1000), false, 60)?;
    let mut shown = std::mem::take(&mut lab.world.shown);
    let most = shown.iter().map(|(pieces, _)| *pieces).max().unwrap_or(0);
    shown.retain(|(pieces, _)| *pieces > 1 && *pieces * 10 >= most * 9);
    shown.sort_by_key(|(_, ns)| *ns);
    shown.get(shown.len() / 2).copied().ok_or("nothing was shown".into())
}

/// Number of steps, their median, their mean without the longest hundredth (in those the machine did something else), and the longest,
/// nanoseconds.
fn steps() -> Result<(usize, u64, f64, u64), String> {
    let lab = work("create-own:clients=20,files=10000,lanes=4", true, 20)?;
    let mut steps = lab.world.steps.clone();
    steps.sort_unstable();
    let most = &steps[..steps.len() - steps.len() / 100];
    let mean = most.iter().sum::<u64>() as f64 / most.len().max(1) as f64;
    let of = |at: Option<usize>| at.and_then(|at| steps.get(at)).copied().unwrap_or(0);
    Ok((steps.len(), of(Some(steps.len() / 2)), mean, of(steps.len().checked_sub(1))))
}

/// By kind of input, and names or entries: how many there were, and their mean without the longest hundredth, nanoseconds.
type Times = BTreeMap<(&'static str, usize), (usize, f64)>;

/// Fewer of a kind are not shown.
const FEW: usize = 200;

/// Time of each kind of input, and of each number of names or hundred entries.
fn requests(placement: Placement, ranks: usize) -> Result<Times, String> {
    let spec = "tree-synthetic:clients=4,lanes=16,dirs=2000,files=134000,stats=100000,lists=10000";
    let plan = Plan { placement, by_path: true, ..Plan::new(ranks, spec.parse()?)? };
    let mut lab = Lab::new(&plan, &mut |path| Err(format!("{path} is not there")))?;
    lab.world.clock = Some(clock);
    lab.run(None, &mut |_| {})?;
    let mut took: BTreeMap<(&'static str, usize), Vec<u64>> = BTreeMap::new();
    for ((name, size), ns) in lab.world.took.drain(..) {
        let size = if name == "readdir" { size.div_ceil(100) * 100 } else { size };
        took.entry((name, size)).or_default().push(ns);
    }
    took.retain(|_, all| all.len() >= FEW);
    let mean = |mut all: Vec<u64>| {
        all.sort_unstable();
        let most = &all[..all.len() - all.len() / 100];
        (all.len(), most.iter().sum::<u64>() as f64 / most.len().max(1) as f64)
    };
    Ok(took.into_iter().map(|(key, all)| (key, mean(all))).collect())
}

fn run() -> Result<(), String> {
    println!("| placement, ranks | what | names or entries | how many | machine, us |\n|---|---|---:|---:|---:|");
    for (placement, ranks) in [(Placement::Subtree, 1), (Placement::Giga, 4), (Placement::Replicated, 4)] {
        for ((what, size), (count, ns)) in requests(placement, ranks)? {
            println!("| {}, {ranks} | {what} | {size} | {count} | {:.2} |", placement.name(), ns / 1e3);
        }
    }
    println!();
    println!("| pieces shown | us |\n|---:|---:|");
    for dirs in [1, 10, 100, 1000] {
        let (pieces, ns) = snapshot(dirs)?;
        println!("| {pieces} | {:.1} |", ns as f64 / 1e3);
    }
    let (count, median, mean, most) = steps()?;
    println!(
        "\n{count} steps of migrations: median {:.1} us, mean without the longest hundredth {:.1} us, the longest {:.1} us",
        median as f64 / 1e3,
        mean / 1e3,
        most as f64 / 1e3
    );
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}
