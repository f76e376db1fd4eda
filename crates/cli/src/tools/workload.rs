//! `loligo bench workload`: generated workloads and traces, natively against a server that runs or one started for the run, or below
//! a directory. Not how they are carried out: `loligo_bench::workload`.

use std::path::Path;
use std::time::Duration;

use loligo_bench::workload::{self, Config, Requests, Target, Told, Watch, WorkloadResult};
use loligo_driver::client::{Client, Options};
use loligo_workload::{Spec, Workload};

use super::server::Server;
use crate::args::BenchWorkload;
use crate::look::ask;
use crate::output::{Failure, Outcome, put, quoted, written};
use crate::progress::{Bar, Unit};
use crate::suggest;
use crate::target::{self, Found};

/// `loligo bench workload`.
pub fn run(args: &BenchWorkload) -> Outcome {
    let spec = spec(&args.spec)?;
    let workload = made(&spec, args.seed)?;
    let record = args.record.as_deref().map(Record::open).transpose()?;
    let mut config = Config {
        text: spec.to_string(),
        seed: args.seed,
        limit: args.seconds.map(Duration::from_secs),
        server_pids: args.server_pid.clone(),
        name: format!("workload.{}", std::process::id()),
        placement: args.placement.clone(),
        keep: args.keep,
        record: record.is_some(),
    };
    let done = match &args.dir {
        Some(dir) => below(dir, &mut config, workload),
        None => native(args, &mut config, workload),
    };
    let (result, trace) = done?;
    if let (Some(record), Some(trace)) = (record, trace) {
        record.write(&trace)?;
    }
    put(if args.json { result.to_json() } else { result.to_text() })?;
    if args.keep {
        crate::output::note(format_args!("left in place: {}", config.name));
    }
    match (result.errors, result.first_error) {
        (0, _) => Ok(()),
        (n, first) => Err(Failure::found(format!(
            "{n} calls failed, so the numbers do not count; the first: {}",
            first.unwrap_or_default()
        ))),
    }
}

/// The workload that is meant; `replay:FILE` is short for `replay:file=FILE`.
fn spec(text: &str) -> Result<Spec, Failure> {
    let short = text.strip_prefix("replay:").filter(|rest| !rest.contains('='));
    let whole = short.map_or(text.to_string(), |file| format!("replay:file={file}"));
    let word = whole.split(':').next().unwrap_or_default();
    // The lines of the help begin with the names; those of their remarks with a blank.
    let name =
        |line: &'static str| line.split_once(':').filter(|(name, rest)| !name.contains(' ') && !rest.starts_with(' '));
    let names: Vec<&str> = Spec::HELP.lines().filter_map(name).map(|(name, _)| name).collect();
    let hint = if names.contains(&word) { String::new() } else { suggest::hint(word, names) };
    whole.parse().map_err(|why| Failure::usage(format!("workload `{text}`: {why}{hint}")))
}

fn made(spec: &Spec, seed: u64) -> Result<Workload, Failure> {
    let mut read = |path: &str| std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
    let workload = spec.workload(seed, &mut read).map_err(Failure::usage)?;
    workload::check(&workload).map_err(|why| Failure::usage(format!("workload `{spec}`: {why}")))?;
    Ok(workload)
}

/// Where the trace goes. Opened before the run, so that it is not in vain.
struct Record<'a> {
    path: &'a Path,
    file: std::fs::File,
}

impl Record<'_> {
    fn open(path: &Path) -> Result<Record<'_>, Failure> {
        // What is there is kept until there is something else: it may be the trace that is run.
        let opened = std::fs::File::options().create(true).truncate(false).write(true).open(path);
        Ok(Record { path, file: opened.map_err(|e| written(&quoted(path), &e))? })
    }

    fn write(mut self, text: &str) -> Outcome {
        let whole = std::io::Write::write_all(&mut self.file, text.as_bytes());
        // A pipe or a device cannot be cut.
        let cut = match self.file.metadata().is_ok_and(|meta| meta.is_file()) {
            true => self.file.set_len(text.len() as u64),
            false => Ok(()),
        };
        whole.and(cut).map_err(|e| written(&quoted(self.path), &e))
    }
}

type Ran = Result<(WorkloadResult, Option<String>), Failure>;

fn below(dir: &Path, config: &mut Config, workload: Workload) -> Ran {
    if !dir.is_dir() {
        return Err(Failure::usage(format!("{} is no directory", dir.display())));
    }
    let found = match target::served_by(dir)? {
        Some(server) => target::by_address(&server).ok(),
        None => None,
    };
    if config.server_pids.is_empty() {
        config.server_pids.extend(found.as_ref().and_then(|found| found.state.as_ref()).map(|state| state.pid));
    }
    measure(config, workload, Target::Mounted(dir.to_path_buf()), found.as_ref())
}

fn native(args: &BenchWorkload, config: &mut Config, workload: Workload) -> Ran {
    let server = Server::of(args.data.as_deref(), args.server.as_deref(), args.ranks)?;
    let address = server.address()?;
    if config.server_pids.is_empty() {
        config.server_pids.extend(server.pid());
    }
    let identity = args.who.read()?;
    let connect = |options: Options| {
        let options = Options { identity: identity.clone(), ..options };
        Client::connect(&address, options).map_err(|e| e.to_string())
    };
    let target = if args.by_path { Target::ByPath(&connect) } else { Target::Native(&connect) };
    let ran = measure(config, workload, target, Some(server.found()));
    server.stop().and(ran)
}

fn measure(config: &Config, workload: Workload, target: Target<'_>, found: Option<&Found>) -> Ran {
    let mut shown = Bar::start("setting up", 0, Unit::Count);
    shown.alive();
    let mut at = "setting up";
    let mut progress = |what: &'static str, calls: u64| {
        if what != at {
            at = what;
            shown.message(what);
        }
        shown.set(calls);
    };
    let mut ask = || found.map_or_else(Told::default, told);
    let mut watch = Watch { progress: &mut progress, ask: &mut ask };
    workload::run(config, workload, target, &mut watch).map_err(Failure::new)
}

/// Counters of the server; empty if it does not tell them, as they are no part of what is measured.
fn told(found: &Found) -> Told {
    let Ok(page) = ask::text(found, "/metrics") else { return Told::default() };
    Told {
        sessions: sum(&page, "loligo_sessions", "state=\"connected\""),
        redirects: sum(&page, "loligo_redirects_total", ""),
        recalls: sum(&page, "loligo_recalls_total", ""),
        requests: requests(&page),
    }
}

/// The sum over all ranks of what a page of metrics says, if it does; only lines with this label.
fn sum(page: &str, name: &str, label: &str) -> Option<u64> {
    let values = page.lines().filter_map(|line| {
        let labels = line.strip_prefix(name)?.strip_prefix('{')?;
        let (labels, value) = labels.split_once("} ")?;
        labels.contains(label).then(|| value.trim().parse::<f64>().ok()).flatten()
    });
    values.fold(None, |sum, value| Some(sum.unwrap_or(0) + value as u64))
}

/// Number of requests that ranks have answered so far, by rank and operation.
fn requests(page: &str) -> Requests {
    let line = |line: &str| {
        let (labels, value) = line.strip_prefix("loligo_ops_total{")?.split_once("} ")?;
        let label = |name: &str| {
            let of_it =
                labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'));
            of_it.map(String::from)
        };
        Some(((label("rank")?.parse().ok()?, label("op")?), value.trim().parse::<f64>().ok()? as u64))
    };
    page.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_to_replay_needs_no_name_of_its_parameter() {
        let of = |text: &str| spec(text).map(|spec| spec.to_string()).map_err(|e| e.code());
        assert_eq!(of("replay:/a/b"), of("replay:file=/a/b"));
        assert_eq!(of("replay"), Err(2));
    }

    #[test]
    fn requests_are_told_apart_by_rank_and_operation() {
        let page = "loligo_ops_total{rank=\"0\",op=\"create\"} 3\nloligo_ops_total{rank=\"1\",op=\"create\"} 4\nloligo_op_errors_total{rank=\"1\",op=\"create\"} 1\n";
        let found = requests(page);
        assert_eq!(found, Requests::from([((0, "create".into()), 3), ((1, "create".into()), 4)]));
    }

    #[test]
    fn metrics_of_ranks_are_summed() {
        let page = "# HELP a_total b\na_total{rank=\"0\"} 3\na_total{rank=\"1\"} 4\na_totals{rank=\"1\"} 9\n";
        assert_eq!((sum(page, "a_total", ""), sum(page, "a_total", "rank=\"1\"")), (Some(7), Some(4)));
        assert_eq!(sum(page, "b_total", ""), None);
    }
}
