//! Measures the stages of a pipeline alone, one after the other and at the same time, and prints one table. For a server that runs
//! already. Not the time of a merge (`subtree.rs`).
//!
//! usage: stages ADDRESS FILES RUNS DIR    DIR: on a disk, for what is persisted there

use std::sync::Arc;
use std::time::{Duration, Instant};

use loligo_driver::Address;
use loligo_driver::client::{Call, Client, Fs, Options, Subtree};
use loligo_types::{Cred, Op, XattrMode};

/// The pipelines, behind the client's journal.
const STAGES: [&str; 4] =
    ["local_persist", "global_persist", "local_persist + global_persist", "local_persist || global_persist"];

/// Makes files in a directory of its own and times its stages.
fn once(fs: &Fs, stages: &str, files: u64) -> Result<Duration, String> {
    let say = |what: &str, error: &dyn std::fmt::Display| format!("{stages}: {what}: {error}");
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let dir = format!("/stages-{}", since.as_nanos());
    let ino = fs.mkdir(&dir, 0o755).map_err(|error| say("mkdir", &error))?.ino;
    let text =
        format!("pipeline = 'append_client_journal + {stages}'\ninterfere = 'block'\nallocated_inodes = {files}\n");
    let set = Op::SetXattr {
        ino,
        name: b"loligo.policy.subtree"[..].into(),
        value: text.into_bytes().into(),
        mode: XattrMode::Set,
    };
    fs.client().call(fs.cred(), Call::Op(set)).map_err(|failed| say("policy", &failed.error))?;
    let mut job = Subtree::decouple_by_policy(fs, &dir).map_err(|error| say("decouple", &error))?;
    for n in 0..files {
        job.create(format!("file.{n:08}"), 0o644).map_err(|error| say("create", &error))?;
    }
    let begun = Instant::now();
    job.sync().map_err(|error| say("sync", &error))?;
    let took = begun.elapsed();
    job.abandon().map_err(|error| say("abandon", &error))?;
    Ok(took)
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() / 2).map_or(0.0, Duration::as_secs_f64)
}

fn run() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, files, runs, dir] = &args[..] else { return Err("usage: stages ADDRESS FILES RUNS DIR".into()) };
    let files: u64 = files.parse().map_err(|error| format!("FILES {files}: {error}"))?;
    let runs: usize = runs.parse().map_err(|error| format!("RUNS {runs}: {error}"))?;
    let address = address.parse::<Address>().map_err(|error| format!("{address}: {error}"))?;
    let options = Options { name: "stages".into(), keep: Some(dir.into()), ..Options::default() };
    let client = Client::connect(&address, options).map_err(|error| error.to_string())?;
    let fs = client.fs(Arc::new(Cred::root()));
    let mut times = vec![Vec::new(); STAGES.len()];
    // Round all of them in turn: whatever else the machine does meets all alike.
    for turn in 0..=runs {
        for (stages, times) in STAGES.iter().zip(&mut times) {
            let took = once(&fs, stages, files)?;
            if turn > 0 {
                times.push(took);
            }
        }
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    for (stages, time) in STAGES.iter().zip(&medians) {
        println!("{stages:<34} {:>9.2} ms", time * 1e3);
    }
    println!("at the same time, times the slower one: {:.2}", medians[3] / medians[0].max(medians[1]));
    client.stop(Duration::from_secs(10)).map_err(|error| error.to_string())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("stages: {error}");
        std::process::exit(1);
    }
}
