//! `loligo down`: stops the server of a data directory, and waits for its end.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;

use super::format;
use super::left;
use super::node::data_dir;
use super::state::ServerState;
use super::waiting;
use crate::args::Down;
use crate::at::Store;
use crate::output::{Context, Failure, Outcome, put};
use crate::settings::{Given, Settings};

/// Stops it.
pub fn run(args: &Down, given: &Given) -> Outcome {
    let data = data_dir(&args.data.find()?)?;
    if let at @ Store::Local(_) = Store::of(&data)? {
        format::require(&at)?;
    }
    let Some(state) = ServerState::read(&data)? else {
        return Err(Failure::new(format!("no server runs on {}", data.display())));
    };
    let gone = || state.killed(&data);
    let pid = i32::try_from(state.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    // First a hold on the process, then the check that it is the server: the number cannot change hands in between.
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| gone())?;
    // One that runs no rank listens for questions only.
    if ![&state.socket, &state.admin_socket].iter().any(|socket| serves(socket, pid)) {
        return Err(gone());
    }
    left::tell(&data, &state);
    let decoupled = waiting::Decoupled::at(&state);
    let begun = Instant::now();
    pidfd_send_signal(&process, Signal::TERM).context(|| format!("stopping process {}", state.pid))?;
    let until = begun + Duration::from_secs(args.timeout);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::new(format!(
                "process {} has not ended within {} s; it goes on stopping",
                state.pid, args.timeout
            ))
            .remedy(format!("wait longer with --timeout, and read {}", data.join("loligo.log").display())));
        }
        let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)) {
            Ok(n) if n > 0 => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failure::new(format!("waiting for process {}: {error}", state.pid))),
        }
    }
    // It takes the file away at a clean end only.
    if ServerState::read(&data)?.is_some_and(|left| left.pid == state.pid) {
        return Err(Failure::new(format!(
            "process {} ended, but not cleanly; nothing acknowledged is lost, but for the last moment of relaxed directories",
            state.pid
        ))
        .remedy(format!("its log says why ({}, or the terminal it ran in)", data.join("loligo.log").display())));
    }
    let seconds = begun.elapsed().as_secs_f64();
    if args.json {
        put(json!({ "data": data.display().to_string(), "process": state.pid, "seconds": seconds }))?;
    } else {
        put(format_args!("stopped the server of {} (process {}) in {:.1} s", data.display(), state.pid, seconds))?;
    }
    if let (Ok(settings), Some(decoupled)) = (Settings::load(given, Some(&data), &[]), &decoupled) {
        waiting::tell(&data, &settings, decoupled);
    }
    Ok(())
}

/// True if this process is the one that listens on the socket.
fn serves(socket: &Path, pid: Pid) -> bool {
    let Ok(stream) = UnixStream::connect(socket) else { return false };
    rustix::net::sockopt::socket_peercred(&stream).is_ok_and(|peer| peer.pid == pid)
}
