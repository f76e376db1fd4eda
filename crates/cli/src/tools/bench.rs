//! `loligo bench md`: runs the shapes of `loligo_bench` against a server that runs, one started for the run, or a mount.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use loligo_bench::{Config, Phase, PhaseResult, Target};
use loligo_driver::Address;
use loligo_driver::client::{Client, Options};

use crate::args::BenchMd;
use crate::output::{Context, Failure, Outcome, put};
use crate::progress::{Bar, Unit};
use crate::service::daemon::Told;
use crate::target;

/// `loligo bench md`.
pub fn run(args: &BenchMd) -> Outcome {
    let phases = args.phases.iter().map(|text| text.trim().parse::<Phase>());
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
        keep: args.keep,
    };
    config.check().map_err(Failure::usage)?;
    match &args.mount {
        Some(dir) => mounted(dir, config, args.json),
        None => native(args, &mut config),
    }
}

fn mounted(dir: &Path, mut config: Config, json: bool) -> Outcome {
    if config.server_pids.is_empty()
        && let Some(server) = target::served_by(dir)?
        && let Ok(found) = target::by_address(&server)
    {
        config.server_pids.extend(found.state.map(|state| state.pid));
    }
    measure(&config, Target::Mounted(dir.to_path_buf()), json)
}

fn native(args: &BenchMd, config: &mut Config) -> Outcome {
    let found = match (&args.data, target::named(args.server.as_deref())) {
        (Some(data), _) => Some(target::by_data(data)?),
        (None, Some(server)) => Some(target::by_address(server)?),
        (None, None) => None,
    };
    let own = if found.is_none() { Some(OwnServer::start()?) } else { None };
    let address = match (&found, &own) {
        (Some(found), _) => found.address()?.clone(),
        (None, Some(own)) => own.address(),
        (None, None) => unreachable!("without a server that was found one is started"),
    };
    if config.server_pids.is_empty() {
        let pid = own.as_ref().map(|own| own.child.id()).or(found.and_then(|found| found.state.map(|state| state.pid)));
        config.server_pids.extend(pid);
    }
    let connect = || {
        let options = Options { name: "bench".into(), ..Options::default() };
        Client::connect(&address, options).map_err(|e| e.to_string())
    };
    let measured = measure(config, Target::Native(&connect), args.json);
    own.map_or(Ok(()), OwnServer::stop).and(measured)
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

/// A server on a new directory below the current one, so that its syncs are those of a real disk. It is removed with
/// the directory at the end.
pub(super) struct OwnServer {
    pub(super) child: Child,
    data: PathBuf,
}

impl OwnServer {
    pub(super) fn start() -> Result<OwnServer, Failure> {
        let here = std::env::current_dir().context(|| "the current directory".into())?;
        let data = here.join(format!("loligo-bench.{}", std::process::id()));
        crate::service::format::make(&data)?;
        let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).context(|| "a pipe".into())?;
        let program = std::env::current_exe().context(|| "this program's own file".into())?;
        let fd = to.as_raw_fd();
        let mut command = Command::new(program);
        command.arg("serve").arg("--data").arg(&data).args(["--admin", "off", "--log", "warn"]);
        command.arg(format!("--ready-fd={fd}")).stdin(Stdio::null());
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe {
            command.pre_exec(move || {
                // It ends with this process, whatever happens, and its end of the pipe survives the exec.
                rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
                rustix::io::fcntl_setfd(rustix::fd::BorrowedFd::borrow_raw(fd), rustix::io::FdFlags::empty())?;
                Ok(())
            });
        }
        let child = command.spawn().context(|| "starting a server".into())?;
        drop(to);
        let own = OwnServer { child, data };
        match Told::wait(from).context(|| "waiting for the server".into())? {
            Told::Ready(_) => Ok(own),
            Told::Failed(code, text) => Err(Failure::told(format!("the server for the run: {text}"), code)),
            Told::Nothing => Err(Failure::new("the server for the run did not start; its words are above")),
        }
    }

    pub(super) fn address(&self) -> Address {
        loligo_driver::socket_in(&self.data)
    }

    pub(super) fn stop(mut self) -> Outcome {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).context(|| "stopping the server".into())?;
        let status = self.child.wait().context(|| "waiting for the server's end".into())?;
        if !status.success() {
            return Err(Failure::new(format!("the server for the run did not end well ({status})")));
        }
        Ok(())
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // After a clean stop it has ended and these do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
