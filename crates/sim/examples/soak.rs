//! Runs many seeds on all cores, or one with its trace.
//!
//! `soak --seeds A..B [--ranks A..B] [--threads N] [--state FILE] [--ms N] [--canary NAME] [--members]
//! [--balance] [--removers] [--handles] [--clocks] [--direct] [--subtrees] [--stored] [--readers] [--allow] [--relaxed] [--scattered] [--paths] [--full] [--calm] [--go-on]`, `soak --seed N --trace`.
//!
//! Tells every few seconds how far it is and how long it will take; each seed that fails is one line. With `--state` what
//! is done is put down in a file, and the same command goes on from there after it was stopped. Ends with 1 if any seed
//! failed, also one of an earlier part of the run, and with 2 if it cannot run.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use loligo_sim::relaxed::Counts as Relaxed;
use loligo_sim::shared::Counts as Shared;
use loligo_sim::subtrees::Counts;
use loligo_sim::{Canary, Options, Outcome, run};

/// Seeds that a thread takes at a time, and that are put down as done together.
const CHUNK: u64 = 50;
/// Time between two words on how far it is.
const TELL: Duration = Duration::from_secs(5);

/// Arguments of the command line.
struct Args {
    seeds: Range<u64>,
    options: Options,
    go_on: bool,
    threads: usize,
    state: Option<PathBuf>,
}

fn args() -> Result<Args, String> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut args = Args { seeds: 0..100, options: Options::default(), go_on: false, threads, state: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} wants a value"));
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        match word.as_str() {
            "--seeds" => {
                let text = value()?;
                let (from, to) = text.split_once("..").ok_or("--seeds wants A..B")?;
                args.seeds = number(from)?..number(to)?;
            }
            "--seed" => {
                let seed = number(&value()?)?;
                args.seeds = seed..seed + 1;
            }
            "--ranks" => {
                let text = value()?;
                let (from, to) = text.split_once("..").unwrap_or((&text, &text));
                args.options.ranks = (number(from)?, number(to)?);
            }
            "--ms" => args.options.duration_ms = number(&value()?)?,
            "--threads" => args.threads = number(&value()?)?.clamp(1, 1024) as usize,
            "--state" => args.state = Some(value()?.into()),
            "--trace" => (args.options.trace, args.options.print) = (true, true),
            "--members" => args.options.members = true,
            "--balance" => args.options.balance = true,
            "--removers" => args.options.removers = true,
            "--handles" => args.options.handles = true,
            "--clocks" => args.options.clocks = true,
            "--direct" => args.options.direct = true,
            "--subtrees" => args.options.subtrees = true,
            "--stored" => (args.options.subtrees, args.options.stored) = (true, true),
            "--readers" => (args.options.subtrees, args.options.readers) = (true, true),
            "--allow" => args.options.allow = true,
            "--relaxed" => args.options.relaxed = true,
            "--scattered" => args.options.scattered = true,
            "--paths" => args.options.paths = true,
            "--leases" => (args.options.paths, args.options.leases) = (true, true),
            "--full" => args.options.full = true,
            "--calm" => args.options.calm = true,
            "--go-on" => args.go_on = true,
            "--canary" => {
                let text = value()?;
                let found = Canary::ALL.into_iter().find(|canary| format!("{canary:?}") == text);
                args.options.canary = Some(found.ok_or(format!("{text} is none of {:?}", Canary::ALL))?);
            }
            _ => return Err(format!("{word} is not understood")),
        }
    }
    if args.options.trace {
        args.threads = 1;
    }
    Ok(args)
}

/// Sums over runs.
#[derive(Default, Clone)]
struct Sums {
    seeds: u64,
    events: u64,
    calls: u64,
    migrations: u64,
    drains: u64,
    removed: u64,
    direct: u64,
    refused: u64,
    led: u64,
    unchecked: u64,
    subtrees: Counts,
    shared: Shared,
    relaxed: Relaxed,
    faults: [u64; 4],
    /// Seeds that failed, with what was found first.
    failed: BTreeMap<u64, String>,
}

impl Sums {
    fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.seeds += 1;
        self.events += outcome.events;
        self.calls += outcome.calls;
        self.migrations += outcome.migrations;
        self.drains += outcome.drains;
        self.removed += outcome.removed;
        self.direct += outcome.direct;
        self.refused += outcome.refused;
        self.led += outcome.led;
        self.unchecked += u64::from(outcome.unchecked);
        self.subtrees.add(&outcome.subtrees);
        self.shared.add(&outcome.shared);
        self.relaxed.add(&outcome.relaxed);
        self.faults.iter_mut().zip(outcome.faults).for_each(|(all, one)| *all += one);
        if let Some(first) = outcome.findings.first() {
            self.failed.insert(seed, first.replace('\n', " "));
        }
    }

    fn merge(&mut self, other: Sums) {
        self.seeds += other.seeds;
        self.events += other.events;
        self.calls += other.calls;
        self.migrations += other.migrations;
        self.drains += other.drains;
        self.removed += other.removed;
        self.direct += other.direct;
        self.refused += other.refused;
        self.led += other.led;
        self.unchecked += other.unchecked;
        self.subtrees.add(&other.subtrees);
        self.shared.add(&other.shared);
        self.relaxed.add(&other.relaxed);
        self.faults.iter_mut().zip(other.faults).for_each(|(all, one)| *all += one);
        self.failed.extend(other.failed);
    }
}

/// First line of the state file: the arguments, to tell the files of different runs apart.
fn title(args: &Args) -> String {
    let Range { start, end } = args.seeds;
    let (from, to) = args.options.ranks;
    format!(
        "seeds {start}..{end} ranks {from}..{to} ms {} canary {:?} members {} balance {} removers {}{}{}{}{}{}{}{}{}{}{}{}{}",
        args.options.duration_ms,
        args.options.canary,
        args.options.members,
        args.options.balance,
        args.options.removers,
        if args.options.handles { " handles" } else { "" },
        if args.options.clocks { " clocks" } else { "" },
        if args.options.direct { " direct" } else { "" },
        if args.options.subtrees { " subtrees" } else { "" },
        if args.options.stored { " stored" } else { "" },
        if args.options.readers { " readers" } else { "" },
        if args.options.allow { " allow" } else { "" },
        if args.options.relaxed { " relaxed" } else { "" },
        if args.options.scattered { " scattered" } else { "" },
        if args.options.paths { " paths" } else { "" },
        if args.options.full { " full" } else { "" },
        if args.options.calm { " calm" } else { "" }
    )
}

/// Results that an earlier part of the run has put down: first seeds of the chunks that are done, and the seeds that failed.
fn earlier(args: &Args) -> Result<(Vec<u64>, BTreeMap<u64, String>), String> {
    let Some(path) = args.state.as_ref().filter(|path| path.exists()) else { return Ok(Default::default()) };
    let named = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
    let mut lines = text.lines();
    if lines.next() != Some(title(args).as_str()) {
        return Err(named(&"is of another run: name another file, or remove it"));
    }
    let (mut done, mut failed) = (Vec::new(), BTreeMap::new());
    for line in lines {
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next().and_then(|n| n.parse().ok())) {
            (Some("done"), Some(start)) => done.push(start),
            (Some("failed"), Some(seed)) => drop(failed.insert(seed, words.next().unwrap_or_default().to_owned())),
            // The last line may be half of one.
            _ => {}
        }
    }
    Ok((done, failed))
}

/// A thread's work: chunks, one after another.
fn work(args: &Args, chunks: &[Range<u64>], next: &AtomicUsize, stop: &AtomicBool, to: &Sender<(u64, Sums)>) {
    while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
        let mut sums = Sums::default();
        for seed in chunk.clone() {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            sums.add(seed, &run(seed, args.options.clone()));
            if !sums.failed.is_empty() && !args.go_on {
                stop.store(true, Ordering::Relaxed);
                break;
            }
        }
        if to.send((chunk.start, sums)).is_err() {
            return;
        }
    }
}

/// Puts down and tells what comes, until all is done.
fn gather(args: &Args, left: u64, from: &std::sync::mpsc::Receiver<(u64, Sums)>, all: &mut Sums) -> Result<(), String> {
    let mut file = None;
    if let Some(path) = &args.state {
        let is_new = !path.exists();
        let named = |e| format!("{}: {e}", path.display());
        let mut open = std::fs::File::options().create(true).append(true).open(path).map_err(named)?;
        let head = if is_new { title(args) } else { String::new() };
        writeln!(open, "{head}").map_err(named)?;
        file = Some((open, path));
    }
    let (begun, mut told) = (Instant::now(), Instant::now());
    while let Ok((start, sums)) = from.recv() {
        let mut lines = String::new();
        for (seed, text) in &sums.failed {
            println!("seed {seed} fails: {text}");
            lines.push_str(&format!("failed {seed} {text}\n"));
        }
        if sums.seeds == CHUNK.min(args.seeds.end - start) {
            lines.push_str(&format!("done {start}\n"));
        }
        if let Some((file, path)) = &mut file {
            file.write_all(lines.as_bytes()).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        all.merge(sums);
        if told.elapsed() >= TELL {
            told = Instant::now();
            let rate = all.seeds as f64 / begun.elapsed().as_secs_f64();
            let minutes = (left - all.seeds) as f64 / rate / 60.0;
            eprintln!("{} of {left} seeds, {} failed, {rate:.0}/s, {minutes:.1} min left", all.seeds, all.failed.len());
        }
    }
    Ok(())
}

fn soak(args: &Args) -> Result<bool, String> {
    let (done, failed_before) = earlier(args)?;
    let starts = (args.seeds.start..args.seeds.end).step_by(CHUNK as usize).filter(|start| !done.contains(start));
    let chunks: Vec<Range<u64>> = starts.map(|start| start..(start + CHUNK).min(args.seeds.end)).collect();
    let left: u64 = chunks.iter().map(|chunk| chunk.end - chunk.start).sum();
    if !done.is_empty() {
        println!("goes on: {left} seeds are left; {} of those before failed", failed_before.len());
    }
    let (begun, next, stop) = (Instant::now(), AtomicUsize::new(0), AtomicBool::new(false));
    let mut all = Sums::default();
    let (to, from) = channel();
    std::thread::scope(|scope| {
        for _ in 0..args.threads {
            let (to, chunks, next, stop) = (to.clone(), &chunks, &next, &stop);
            scope.spawn(move || work(args, chunks, next, stop, &to));
        }
        drop(to);
        let gathered = gather(args, left, &from, &mut all);
        if gathered.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        gathered
    })?;
    let [servers, clients, connections, sessions] = all.faults;
    println!(
        "{} of {} seeds failed; {} events, {} calls, {servers} server restarts, {clients} client crashes, {connections} \
         resets, {sessions} sessions ended, {} histories too wide, {} migrations, {} drains begun and {} ranks removed, \
         {} operations straight in the store and {} pieces of them refused, {} names found by lookup leases; {:.1} s on {} threads",
        all.failed.len(),
        all.seeds,
        all.events,
        all.calls,
        all.unchecked,
        all.migrations,
        all.drains,
        all.removed,
        all.direct,
        all.refused,
        all.led,
        begun.elapsed().as_secs_f64(),
        args.threads
    );
    if args.options.subtrees {
        let Counts { decoupled, resumed, merged, again, lost, kept, taken, busy, seen, read } = all.subtrees;
        println!(
            "{decoupled} directories decoupled, {resumed} gone on with, {merged} merges, {again} sent again, {lost} taken back; \
             {kept} journals kept, {taken} of them merged by others; {seen} looks at them, {busy} refused, {read} while somebody had them"
        );
    }
    if args.options.allow {
        let Shared { merged, conflicts, wanted, made, looks } = all.shared;
        println!(
            "{merged} merges where others worked, {conflicts} things that did not go together; {made} things made, {wanted} of which had \
             to be there at the end, {looks} looks at them"
        );
    }
    if args.options.relaxed {
        let Relaxed { early, answered, lost, synced, told, policies, cached } = all.relaxed;
        println!(
            "{early} answers left early; {answered} changes in and beside relaxed directories, {lost} of them lost; {synced} syncs, {told} that told of a loss; \
             {policies} policies set, {cached} looks into caches"
        );
    }
    if let (Some((seed, _)), false, false) = (all.failed.first_key_value(), args.go_on, args.options.trace) {
        println!("the end of the trace of seed {seed}:");
        let again = run(*seed, Options { trace: true, ..args.options.clone() });
        again.findings.iter().chain(&again.trace).for_each(|line| println!("  {line}"));
    }
    failed_before.iter().for_each(|(seed, text)| println!("seed {seed} failed before: {text}"));
    Ok(all.failed.is_empty() && failed_before.is_empty())
}

fn main() -> ExitCode {
    match args().and_then(|args| soak(&args)) {
        Ok(clean) => ExitCode::from(u8::from(!clean)),
        Err(text) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}
