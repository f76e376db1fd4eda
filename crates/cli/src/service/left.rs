//! Clients that are there when a server is to stop: mounts that were just unmounted are waited for, so that their sessions end before it does;
//! of all others it is said that they go on without it. Not here: stopping (`down.rs`).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use loligo_types::link::{Method, Question};

use super::mount::{host, session_name};
use super::presence::Presence;
use super::state::ServerState;
use crate::at::Store;
use crate::look::ask;
use crate::mounts;
use crate::output::{human_count, note};
use crate::service::admin::doc::SessionDoc;
use crate::target::Admin;

/// Time limit for a server to list its clients. One that hangs is stopped all the same.
const ASK: Duration = Duration::from_secs(5);
/// Time limit for a mount that is gone to end its session. Without that the next start waits longer, but nothing is lost.
const ENDS: Duration = Duration::from_secs(15);
/// Clients that are named.
const SHOWN: usize = 20;

/// Waits for mounts that were just unmounted, and names the clients that go on without the server.
pub fn tell(data: &Path, state: &ServerState) {
    let Some(mut sessions) = clients(state) else { return };
    let there = mounts::all().unwrap_or_default();
    let ours = host();
    let is_gone = |session: &SessionDoc| {
        // As the mount has named it.
        let at = session.name.strip_prefix("mount ").and_then(|rest| rest.strip_suffix(&format!(" of {ours}")));
        at.is_some_and(|at| mounts::at(&there, Path::new(at)).is_none_or(|line| line.server().is_none()))
    };
    if sessions.iter().any(is_gone) {
        let until = Instant::now() + ENDS;
        let ended: Vec<bool> = Presence::ending().iter_mut().map(|process| process.wait(until)).collect();
        if !ended.is_empty() {
            sessions = clients(state).unwrap_or_default();
        }
    }
    let own = state.mount.as_deref().map(session_name);
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for session in sessions.iter().filter(|session| Some(&session.name) != own.as_ref()) {
        // With several ranks it has a session with each.
        *all.entry(&session.name).or_default() += session.opens;
    }
    if all.is_empty() {
        return;
    }
    let waits = match Store::of(data) {
        Ok(Store::Rados { .. }) => "they go on at another server, or wait until there is one",
        _ => "they stay, and their calls wait until a server runs again, by default for a minute (give_up_ms)",
    };
    note(format_args!("loligo: these clients are without the server of {} from now on: {waits}", data.display()));
    for (name, opens) in all.iter().take(SHOWN) {
        let files = if *opens == 1 { "1 file open".to_string() } else { format!("{} files open", human_count(*opens)) };
        note(format_args!("  {}, {files}", name.replace(char::is_control, "?")));
    }
    if all.len() > SHOWN {
        note(format_args!("  and {} more", human_count((all.len() - SHOWN) as u64)));
    }
}

/// Clients of other processes that have a connection. `None`: the server does not say.
fn clients(state: &ServerState) -> Option<Vec<SessionDoc>> {
    let question = Question { method: Method::Get, path: "/api/v1/sessions".into(), text: String::new() };
    let reply = ask::raw(&Admin::Unix(state.admin_socket.clone()), ASK, &question).ok()?;
    let all: Vec<SessionDoc> = serde_json::from_str(&reply.text).ok()?;
    Some(all.into_iter().filter(|session| session.connected && !session.local && !session.ending).collect())
}
