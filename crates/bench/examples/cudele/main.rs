//! The measurements of Cudele (M. Sevilla, *Scalable, Global Namespaces with Programmable Storage*, UC Santa Cruz 2018, chapter 6), of Loligo: real
//! servers, real clients, each a process with a session of its own, on a real disk. Started by `bench/cudele.sh`, which says what is needed. Each
//! figure is a file here; `client.rs` is what a client does, `crew.rs` starts and asks them, `draw.rs` writes what came out.
//!
//! Everything is measured but for the lines that are called simulated (`scale.rs`): nothing is multiplied, nothing waits without working, what is
//! merged goes over the socket, and is durable when it counts.

mod client;
mod crew;
mod draw;
mod fig62;
mod fig63;
mod fig66;
mod fig67;
mod fig69;
mod merge;
mod paced;
mod scale;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crew::Place;

const USAGE: &str = "usage: cudele --loligo PROGRAM --unjournaled PROGRAM --dir DIR --out DIR [--only FIGURES] [--files N] [--runs N] \
                     [--clients N,N,...] [--seconds S]; started by bench/cudele.sh";

/// Settings of a measurement.
pub struct Plan {
    pub place: Place,
    /// Where pictures and CSV go.
    pub out: PathBuf,
    /// Files of each client.
    pub files: u64,
    pub runs: usize,
    /// Numbers of clients, instead of those of the thesis.
    pub clients: Option<Vec<usize>>,
    /// A run of figure 6.9 takes so long, about.
    pub seconds: f64,
}

impl Plan {
    /// The numbers of clients of a figure.
    pub fn clients(&self, usual: &[usize]) -> Vec<usize> {
        self.clients.clone().unwrap_or_else(|| usual.to_vec())
    }

    /// Prints a line of progress.
    pub fn say(&self, text: &str) {
        eprintln!("cudele: {text}");
    }
}

/// A figure's name, and what measures it.
type Named = (&'static str, fn(&Plan) -> Result<(), String>);

const FIGURES: [Named; 8] = [
    ("6.6", fig66::measure),
    ("6.2", fig62::measure),
    ("6.3", fig63::requests),
    ("6.8", fig63::decoupled),
    ("6.7", fig67::measure),
    ("6.9", fig69::measure),
    ("merge", merge::measure),
    ("scale", scale::measure),
];

fn plan(words: &[String]) -> Result<(Plan, Vec<Named>), String> {
    let (mut loligo, mut unjournaled, mut dir, mut out) = (None, None, None, None);
    let (mut files, mut runs, mut clients, mut seconds) = (100_000, 3, None, 36.0);
    let mut figures = FIGURES.to_vec();
    for pair in words.chunks(2) {
        let [word, value] = pair else { return Err(USAGE.into()) };
        match word.as_str() {
            "--loligo" => loligo = Some(PathBuf::from(value)),
            "--unjournaled" => unjournaled = Some(PathBuf::from(value)),
            "--dir" => dir = Some(PathBuf::from(value)),
            "--out" => out = Some(PathBuf::from(value)),
            "--files" => files = client::number::<u64>(value)?.max(100),
            "--runs" => runs = client::number::<usize>(value)?.max(1),
            "--seconds" => seconds = client::number(value)?,
            "--clients" => clients = Some(value.split(',').map(client::number).collect::<Result<Vec<usize>, _>>()?),
            "--only" => {
                let wanted: Vec<&str> = value.split([',', ' ']).filter(|name| !name.is_empty()).collect();
                if let Some(unknown) = wanted.iter().find(|name| !FIGURES.iter().any(|(known, _)| known == *name)) {
                    let known: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
                    return Err(format!("unknown figure {unknown}; known are: {}", known.join(" ")));
                }
                figures.retain(|(name, _)| wanted.contains(name));
            }
            _ => return Err(USAGE.into()),
        }
    }
    let (Some(loligo), Some(unjournaled), Some(dir), Some(out)) = (loligo, unjournaled, dir, out) else {
        return Err(USAGE.into());
    };
    if clients.as_ref().is_some_and(|all: &Vec<usize>| all.is_empty() || all.contains(&0)) {
        return Err("--clients wants numbers from 1 on".into());
    }
    Ok((Plan { place: Place { loligo, unjournaled, dir }, out, files, runs, clients, seconds }, figures))
}

fn run(words: &[String]) -> Result<(), String> {
    match words {
        [first, address] if first == "client" => return client::run(address),
        [first, program, rest @ ..] if first == "beneath" => {
            let signal = Some(rustix::process::Signal::KILL);
            rustix::process::set_parent_process_death_signal(signal).map_err(|error| error.to_string())?;
            return Err(format!("{program}: {}", Command::new(program).args(rest).exec()));
        }
        _ => {}
    }
    let (plan, figures) = plan(words)?;
    std::fs::create_dir_all(&plan.out).map_err(|error| format!("{}: {error}", plan.out.display()))?;
    for (name, measure) in figures {
        plan.say(&format!("figure {name}, {} files a client, {} runs", plan.files, plan.runs));
        measure(&plan).map_err(|text| format!("figure {name}: {text}"))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("cudele: {text}");
            ExitCode::FAILURE
        }
    }
}
