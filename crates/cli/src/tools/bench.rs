//! `loligo bench md`: runs the shapes of `loligo_bench` against a server that runs, one started for the run, or a mount.

use std::path::Path;

use loligo_bench::{Config, Phase, PhaseResult, Target};
use loligo_driver::client::{Client, Options};

use super::server::Server;
use crate::args::BenchMd;
use crate::output::{Failure, Outcome, put};
use crate::progress::{Bar, Unit};
use crate::suggest;
use crate::target;

/// `loligo bench md`.
pub fn run(args: &BenchMd) -> Outcome {
    let phases = args.phases.iter().map(|text| {
        let hint = || suggest::hint(text.trim(), Phase::ALL.iter().map(|phase| phase.name()));
        text.trim().parse::<Phase>().map_err(|what| what + &hint())
    });
    let phases = phases.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
    let mut config = Config {
        clients: args.clients,
        in_flight: args.in_flight.max(args.clients),
        files: args.files,
        small_bytes: args.small_bytes as usize,
        shared: args.shared,
        phases,
        server_pids: args.server_pid.clone(),
        name: args.name.clone(),
        found: args.found,
        keep: args.keep,
    };
    config.check().map_err(Failure::usage)?;
    match &args.mount {
        Some(dir) => mounted(dir, config, args.json),
        None => native(args, &mut config),
    }
}

fn mounted(dir: &Path, mut config: Config, json: bool) -> Outcome {
    if !dir.is_dir() {
        return Err(Failure::usage(format!("--mount {}: there is no such directory", dir.display())));
    }
    if config.server_pids.is_empty()
        && let Some(server) = target::served_by(dir)?
        && let Ok(found) = target::by_address(&server)
    {
        config.server_pids.extend(found.state.map(|state| state.pid));
    }
    measure(&config, Target::Mounted(dir.to_path_buf()), json)
}

fn native(args: &BenchMd, config: &mut Config) -> Outcome {
    let server = Server::of(args.data.as_deref(), args.server.as_deref(), 1)?;
    let address = server.address()?;
    if config.server_pids.is_empty() {
        config.server_pids.extend(server.pid());
    }
    let identity = args.who.read()?;
    let connect = || {
        let options = Options { name: "bench".into(), identity: identity.clone(), ..Options::default() };
        Client::connect(&address, options).map_err(|e| e.to_string())
    };
    let measured = measure(config, Target::Native(&connect), args.json);
    server.stop().and(measured)
}

fn measure(config: &Config, target: Target<'_>, json: bool) -> Outcome {
    let names: Vec<_> = config.phases.iter().map(|phase| phase.name()).collect();
    let mut bar = Bar::start(&format!("measuring {}", names.first().unwrap_or(&"")), names.len() as u64, Unit::Count);
    bar.alive();
    let (mut done, mut errors, mut told) = (0, 0, Ok(()));
    let run = loligo_bench::run(config, target, |result| {
        errors += result.errors;
        let head = if json || done > 0 { String::new() } else { PhaseResult::head() + "\n" };
        let row = if json { result.to_json() } else { result.row() };
        let put = bar.beside(|| put(format_args!("{head}{row}")));
        told = std::mem::replace(&mut told, Ok(())).and(put);
        done += 1;
        bar.message(&names.get(done).map_or("cleaning up".to_string(), |name| format!("measuring {name}")));
        bar.add(1);
    });
    drop(bar);
    run.map_err(Failure::new)?;
    told?;
    match errors {
        0 => Ok(()),
        n => Err(Failure::found(format!("{n} operations failed; the numbers do not count"))),
    }
}
