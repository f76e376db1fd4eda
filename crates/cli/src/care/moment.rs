//! A file system as it is at one moment, to be read: of one that nobody serves its store, and of one that is served a snapshot of that, which
//! is made now and removed when this is dropped. Not here: how a snapshot is made (the store), and who removes one that was forgotten (the
//! server's admin plane).

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loligo_store::{Backend, Lease, StoreError};

use super::offline;
use crate::at::{Opening, Store};
use crate::look::ask;
use crate::output::{Failure, note};
use crate::progress::{Bar, Unit};
use crate::service::admin::snapshot::SnapshotDoc;
use crate::service::format;
use crate::service::state::ServerState;
use crate::target::{self, Admin, Found};

/// Between two looks at how far a snapshot is.
const LOOK: Duration = Duration::from_millis(100);

/// A store that does not change while it is read. All handles that [`Moment::store`] gives out are dropped before this.
pub struct Moment {
    store: Option<Arc<dyn Backend>>,
    /// Where a snapshot was made, and its number there.
    served: Option<(Found, u64)>,
}

impl Moment {
    /// Of a file system, served or not.
    pub fn of(at: &Store) -> Result<Moment, Failure> {
        format::require(at)?;
        match (at.open(Opening::offline_to(false)), at) {
            (Err(StoreError::InUse { .. }), Store::Local(data)) if ServerState::read(data)?.is_some() => served(data),
            (Err(error @ StoreError::InUse { .. }), at) => Err(offline::in_use(at, &error)),
            (Ok(store), at) => {
                format::refuse_half_copy(at, |key| store.table().get(key))?;
                Ok(Moment { store: Some(store), served: None })
            }
            (Err(error), _) => Err(Failure::new(error.to_string())),
        }
    }

    /// To be read.
    pub fn store(&self) -> Result<Arc<dyn Backend>, Failure> {
        self.store.clone().ok_or_else(|| Failure::new("the snapshot is not open; this is a bug"))
    }

    /// Why what was read is not of one moment: the snapshot ended meanwhile. An error that was met then may come of that.
    pub fn lost(&self) -> Option<Failure> {
        let lease = self.served.as_ref().and_then(|_| self.store.as_ref()?.lease());
        lost(&*lease?)
    }
}

/// Says of a snapshot that it has ended.
pub fn lost(lease: &dyn Lease) -> Option<Failure> {
    let cause = lease.lost()?;
    Some(Failure::new(format!("what was read is not of one moment: {cause}")).remedy("do it again"))
}

impl Drop for Moment {
    fn drop(&mut self) {
        drop(self.store.take());
        if let Some((found, number)) = &self.served {
            // The server removes a snapshot that is left here.
            let _ = ask::order_with::<SnapshotDoc>(found, "/api/v1/snapshot/remove", &number.to_string());
        }
    }
}

/// The admin socket of a server takes connections.
fn is_there(found: &Found) -> bool {
    matches!(&found.admin, Some(Admin::Unix(socket)) if UnixStream::connect(socket).is_ok())
}

/// The server has ended before its snapshot was whole.
fn ended(data: &Path) -> Failure {
    Failure::new(format!(
        "the server of {} was stopped, or ended, while it made a snapshot for this command",
        data.display()
    ))
    .remedy("do it again: without a server no snapshot is needed")
}

/// Has the server make a snapshot.
fn served(data: &Path) -> Result<Moment, Failure> {
    let found = target::by_data(data)?;
    let mut waits = false;
    let number = loop {
        let doc: SnapshotDoc = ask::order(&found, "/api/v1/snapshot/make")?;
        if doc.made {
            break doc.number;
        }
        if !std::mem::replace(&mut waits, true) {
            note(format_args!(
                "loligo: another command reads a snapshot of {}, or was killed less than a minute ago: waiting for it",
                data.display()
            ));
        }
        std::thread::sleep(LOOK);
    };
    // From here on it is removed, whatever happens.
    let mut moment = Moment { store: None, served: Some((found, number)) };
    let (found, _) = moment.served.as_ref().expect("it was put there");
    let mut bar = Bar::start("making a snapshot", 0, Unit::Count);
    let path = loop {
        let asked = ask::json::<SnapshotDoc>(found, "/api/v1/snapshot");
        let doc = asked.map_err(|failure| if is_there(found) { failure } else { ended(data) })?;
        match (doc.state.as_str(), doc.path) {
            _ if doc.number != number => {
                return Err(
                    Failure::new(format!("the snapshot of {} was removed", data.display())).remedy("do it again")
                );
            }
            ("whole", Some(path)) => break path,
            ("making", _) => bar.set(doc.objects),
            _ => {
                if !is_there(found) {
                    return Err(ended(data));
                }
                let cause = doc.cause.unwrap_or_else(|| "it was removed".to_string());
                let what = format!("a snapshot of {} could not be made: {cause}", data.display());
                return Err(
                    Failure::new(what).remedy("do it again; with the server stopped (loligo down) none is needed")
                );
            }
        }
        std::thread::sleep(LOOK);
    };
    drop(bar);
    let opened = Store::Local(path).open(Opening { snapshot: true, ..Opening::offline() });
    moment.store = Some(opened.map_err(|error| Failure::new(error.to_string()))?);
    Ok(moment)
}
