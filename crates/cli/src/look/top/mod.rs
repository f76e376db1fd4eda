//! `loligo top`: rates and latencies of the last interval, on a screen with keys; plain text when stdout is no terminal. Here: the looks at
//! the server. `tables` has the tables of the screen, `screen` draws it and takes keys, `page` is the plain text, `rates` the difference
//! of two looks.

mod page;
mod rates;
mod screen;
mod tables;

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use super::status::at_once;
use super::{ask, decoupled};
use crate::args::Target;
use crate::output::{Failure, Outcome, written};
use crate::service::admin::doc::{OpDoc, SessionDoc, StatusDoc};
use crate::target::{self, Found};

type Ops = BTreeMap<String, OpDoc>;

/// One look.
struct Look {
    at: Instant,
    status: StatusDoc,
    ops: Ops,
    /// Asked for only where they are shown.
    sessions: Vec<SessionDoc>,
}

/// Gives directories their paths that their ranks know by number alone. Each is looked for once, so that looking is not what makes them hot.
fn name(found: &Found, names: &mut BTreeMap<u64, Option<String>>, status: &mut StatusDoc) {
    let all = status.ranks.iter().flat_map(|rank| &rank.hottest);
    let mut new: Vec<(u64, Option<String>)> = all.map(|hot| (hot.dir, hot.path.clone())).collect();
    new.retain(|(dir, path)| path.is_none() && !names.contains_key(dir));
    decoupled::paths(found, new.iter_mut().map(|(dir, path)| (*dir, path)));
    names.extend(new);
    for hot in status.ranks.iter_mut().flat_map(|rank| &mut rank.hottest) {
        if hot.path.is_none() {
            hot.path = names.get(&hot.dir).cloned().flatten();
        }
    }
}

impl Look {
    /// Seconds since an earlier look; never 0.
    fn since(&self, earlier: &Look) -> f64 {
        self.at.duration_since(earlier.at).as_secs_f64().max(1e-3)
    }
}

/// Looks again and again.
struct Looker {
    found: Found,
    names: BTreeMap<u64, Option<String>>,
}

impl Looker {
    /// One look. `clients`: also at the sessions.
    fn look(&mut self, clients: bool) -> Result<Look, Failure> {
        let mut look = look(&self.found, clients)?;
        name(&self.found, &mut self.names, &mut look.status);
        Ok(look)
    }
}

/// Shows it, `count` times (0: until it is told to end).
pub fn run(target: &Target, interval: f64, count: u64) -> Outcome {
    if !(0.05..=3600.0).contains(&interval) {
        return Err(Failure::usage(format!("--interval {interval}: this must be from 0.05 to 3600 seconds")));
    }
    let mut looker = Looker { found: target::find(target)?, names: BTreeMap::new() };
    let interval = Duration::from_secs_f64(interval);
    // With keys only where there is somebody to press them.
    if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        return screen::run(looker, interval, count);
    }
    let mut last = looker.look(false)?;
    let mut shown = 0;
    loop {
        pause(last.at + interval);
        let now = looker.look(false)?;
        let mut out = std::io::stdout();
        writeln!(out, "{}", page::page(&last, &now))
            .and_then(|()| out.flush())
            .map_err(|e| written("standard output", &e))?;
        last = now;
        shown += 1;
        if shown == count {
            return Ok(());
        }
    }
}

/// Waits until the time for the next look.
fn pause(until: Instant) {
    if let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::sleep(left);
    }
}

fn look(found: &Found, clients: bool) -> Result<Look, Failure> {
    let (status, ops) = at_once(|| ask::json(found, "/api/v1/status"), || ask::json(found, "/api/v1/ops"));
    let sessions = if clients { ask::json(found, "/api/v1/sessions")? } else { Vec::new() };
    Ok(Look { at: Instant::now(), status: status?, ops: ops?, sessions })
}
