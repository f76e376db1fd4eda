//! Snapshots of the store that is served: made by order of the owner, for a command that reads one while the server goes on, and removed by
//! that command, or here if it does not do so. Not here: what a snapshot is (the store), and reading it (`care/moment.rs`).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use loligo_driver::ServerError;
use loligo_store::{SnapshotState, Snapshots, StoreError};
use serde::{Deserialize, Serialize};

use super::Source;
use super::pages::ask;

/// Most time between two looks at whether a snapshot is used.
const LOOK: Duration = Duration::from_secs(1);

/// `/api/v1/snapshot`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct SnapshotDoc {
    /// `none`, `making`, `whole`, or `broken`.
    pub state: String,
    /// Which one it is, of those that this server has made: who removes it says so.
    #[serde(default)]
    pub number: u64,
    /// Of an order to make one: whether this one was made by it. If not, another command has one.
    #[serde(default)]
    pub made: bool,
    /// Objects that are in it by now, while it is made.
    #[serde(default)]
    pub objects: u64,
    /// The data directory to read, when it is whole.
    #[serde(default)]
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub path: Option<PathBuf>,
    /// Why it is broken, or why the last one could not be made.
    #[serde(default)]
    pub cause: Option<String>,
}

/// The keeper of the snapshot of a server.
pub struct Keeper {
    /// A snapshot that nobody has open is removed after so long: the command that it was made for has ended without a word.
    idle: Duration,
    /// Of the last one. Locked while one is begun or removed by order.
    number: Mutex<u64>,
    /// Why the last one could not be made.
    failed: Mutex<Option<String>>,
}

impl Keeper {
    pub(super) fn new(idle: Duration) -> Keeper {
        Keeper { idle, number: Mutex::default(), failed: Mutex::default() }
    }

    fn failed(&self, cause: Option<String>) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = cause;
    }

    fn number(&self) -> MutexGuard<'_, u64> {
        self.number.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn doc(&self, snapshots: &dyn Snapshots, number: u64) -> SnapshotDoc {
        let cause = || self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let doc = |state: &str| SnapshotDoc { state: state.into(), number, ..SnapshotDoc::default() };
        match snapshots.state() {
            SnapshotState::None => SnapshotDoc { cause: cause(), ..doc("none") },
            SnapshotState::Making { objects } => SnapshotDoc { objects, ..doc("making") },
            SnapshotState::Whole { path } => SnapshotDoc { path: Some(path), ..doc("whole") },
            SnapshotState::Broken { cause } => SnapshotDoc { cause: Some(cause), ..doc("broken") },
        }
    }

    /// Begins to make one, unless there is one: then another command has it. What has to be of one moment is there when this returns.
    fn make(self: &Arc<Self>, snapshots: &Arc<dyn Snapshots>) -> Result<SnapshotDoc, ServerError> {
        let mut number = self.number();
        if snapshots.state() != SnapshotState::None {
            return Ok(self.doc(&**snapshots, *number));
        }
        let begun = snapshots.prepare().and_then(|()| snapshots.cut());
        begun.map_err(|error| ServerError::Refused(format!("no snapshot can be made: {error}")))?;
        *number += 1;
        self.failed(None);
        let (keeper, snapshots) = (self.clone(), snapshots.clone());
        let doc = SnapshotDoc { made: true, ..keeper.doc(&*snapshots, *number) };
        let kept = move || {
            match snapshots.complete() {
                Ok(path) => tracing::info!(path = %path.display(), "a snapshot was made"),
                Err(error) => {
                    tracing::warn!(%error, "a snapshot could not be made");
                    return keeper.failed(Some(error.to_string()));
                }
            }
            // Not held while nothing happens: the store is closed when the server ends.
            let weak = Arc::downgrade(&snapshots);
            drop(snapshots);
            keeper.keep(&weak);
        };
        let thread = std::thread::Builder::new().name("loligo-snapshot".into()).spawn(kept);
        thread.map_err(|error| ServerError::Refused(format!("no snapshot can be made: its thread: {error}")))?;
        Ok(doc)
    }

    /// Removes the snapshot of this number, if it is still there.
    fn remove(&self, snapshots: &dyn Snapshots, which: Option<u64>) -> Result<SnapshotDoc, ServerError> {
        let number = self.number();
        if which.is_none_or(|which| which == *number) {
            snapshots.remove().map_err(|error| ServerError::Refused(format!("the snapshot stays: {error}")))?;
        }
        Ok(self.doc(snapshots, *number))
    }

    /// Removes the snapshot when nobody reads it any more. Ends with it, or with the store.
    fn keep(&self, snapshots: &Weak<dyn Snapshots>) {
        let mut idle = Idle { limit: self.idle, since: None };
        while let Some(snapshots) = snapshots.upgrade() {
            let state = snapshots.state();
            if state == SnapshotState::None {
                return;
            }
            if idle.is_over(Instant::now(), snapshots.is_used(), matches!(state, SnapshotState::Broken { .. })) {
                match snapshots.remove() {
                    Ok(()) => {
                        if let SnapshotState::Broken { cause } = state {
                            self.failed(Some(cause));
                        }
                        tracing::info!("a snapshot that nobody reads was removed");
                        return;
                    }
                    // Somebody has just opened it.
                    Err(StoreError::InUse { .. }) => {}
                    Err(error) => return tracing::warn!(%error, "a snapshot that nobody reads cannot be removed"),
                }
            }
            drop(snapshots);
            std::thread::sleep(LOOK.min(self.idle / 2));
        }
    }
}

/// Since when nobody has a snapshot open.
struct Idle {
    limit: Duration,
    since: Option<Instant>,
}

impl Idle {
    fn is_over(&mut self, now: Instant, is_used: bool, is_broken: bool) -> bool {
        if is_used {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        is_broken || now.duration_since(since) >= self.limit
    }
}

/// Pages that the owner may read.
pub(super) fn pages() -> Router<Arc<Source>> {
    Router::new().route("/api/v1/snapshot", get(show))
}

/// Orders of the owner.
pub(super) fn orders() -> Router<Arc<Source>> {
    Router::new().route("/api/v1/snapshot/make", post(make)).route("/api/v1/snapshot/remove", post(remove))
}

fn of(source: &Source) -> Result<Arc<dyn Snapshots>, ServerError> {
    source.server.snapshots().ok_or_else(|| {
        ServerError::Refused(
            "the store of this server makes no snapshots: they are made by the server that has a data directory of its own, and not on \
             RADOS; stop all servers of the file system, then copy it"
                .to_string(),
        )
    })
}

fn answer(doc: Result<SnapshotDoc, Response>) -> Response {
    doc.map_or_else(|response| response, |doc| Json(doc).into_response())
}

async fn show(State(source): State<Arc<Source>>) -> Response {
    answer(ask(&source, |source| Ok(source.snapshot.doc(&*of(source)?, *source.snapshot.number()))).await)
}

async fn make(State(source): State<Arc<Source>>) -> Response {
    answer(ask(&source, |source| source.snapshot.make(&of(source)?)).await)
}

/// The order's text is the number of the snapshot; none: whichever there is.
async fn remove(State(source): State<Arc<Source>>, which: String) -> Response {
    let which = match which.trim() {
        "" => None,
        text => match text.parse() {
            Ok(number) => Some(number),
            Err(_) => {
                return (StatusCode::BAD_REQUEST, format!("{text:?} is no number of a snapshot\n")).into_response();
            }
        },
    };
    answer(ask(&source, move |source| source.snapshot.remove(&*of(source)?, which)).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_removed_a_minute_after_its_last_reader_and_a_broken_one_at_once() {
        let (mut idle, begin) = (Idle { limit: Duration::from_secs(60), since: None }, Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!(!idle.is_over(at(0), false, false), "it may be opened yet");
        assert!(!idle.is_over(at(59), false, false));
        assert!(!idle.is_over(at(61), true, false), "it is read");
        assert!(!idle.is_over(at(500), true, true), "the reader finds out at its end");
        assert!(!idle.is_over(at(501), false, false));
        assert!(idle.is_over(at(561), false, false));
        assert!(idle.is_over(at(562), false, true));
    }
}
