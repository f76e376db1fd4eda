//! Runs many seeds, or one with its trace: `soak --seeds 0..1000 [--ranks A..B] [--ms N]
//! [--canary NAME] [--go-on]`, `soak --seed N --trace`.

use std::time::Instant;

use loligo_sim::{Canary, Options, run};

/// What to do.
struct Args {
    seeds: std::ops::Range<u64>,
    options: Options,
    go_on: bool,
}

fn args() -> Result<Args, String> {
    let mut args = Args { seeds: 0..100, options: Options::default(), go_on: false };
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
            "--trace" => (args.options.trace, args.options.print) = (true, true),
            "--go-on" => args.go_on = true,
            "--canary" => {
                let text = value()?;
                let found = Canary::ALL.into_iter().find(|canary| format!("{canary:?}") == text);
                args.options.canary = Some(found.ok_or(format!("{text} is none of {:?}", Canary::ALL))?);
            }
            _ => return Err(format!("{word} is not understood")),
        }
    }
    Ok(args)
}

fn main() -> std::process::ExitCode {
    let args = match args() {
        Ok(args) => args,
        Err(text) => {
            eprintln!("{text}");
            return std::process::ExitCode::from(2);
        }
    };
    let begun = Instant::now();
    let (mut events, mut calls, mut unchecked, mut failed, mut migrations) = (0, 0, 0, 0, 0);
    let mut faults = [0; 4];
    let (first, count) = (args.seeds.start, args.seeds.end - args.seeds.start);
    for seed in args.seeds {
        let outcome = run(seed, args.options.clone());
        events += outcome.events;
        calls += outcome.calls;
        migrations += outcome.migrations;
        unchecked += u64::from(outcome.unchecked);
        faults.iter_mut().zip(outcome.faults).for_each(|(all, one)| *all += one);
        if !outcome.findings.is_empty() {
            failed += 1;
            println!("seed {seed} fails:");
            outcome.findings.iter().for_each(|text| println!("  {text}"));
            if !args.go_on {
                if !args.options.trace {
                    let again = run(seed, Options { trace: true, ..args.options.clone() });
                    println!("the end of its trace:");
                    again.trace.iter().for_each(|line| println!("  {line}"));
                }
                break;
            }
        }
        if (seed + 1 - first).is_multiple_of(100) {
            println!("{} seeds, {:.0} s", seed + 1 - first, begun.elapsed().as_secs_f64());
        }
    }
    let [servers, clients, connections, sessions] = faults;
    println!(
        "{failed} of up to {count} seeds failed; {events} events, {calls} calls, {servers} server restarts, {clients} client \
         crashes, {connections} resets, {sessions} sessions ended, {unchecked} histories too wide, {migrations} migrations; {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    std::process::ExitCode::from(u8::from(failed > 0))
}
