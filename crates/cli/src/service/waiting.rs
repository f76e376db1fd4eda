//! Changes of decoupled directories that are in a file on this machine's disk alone, of a mount that has ended: said when a file system is
//! stopped and when it is started, as its owner has to merge them in time, and shown with the directory. Not here: merging (`policy/kept.rs`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use loligo_driver::client::subtree::{Kept, Waiting};
use loligo_types::link::{Method, Question};

use super::node;
use super::state::ServerState;
use crate::look::{ask, decoupled};
use crate::output::{note, quoted};
use crate::service::admin::decoupled::DecoupledDoc;
use crate::service::admin::doc::StatusDoc;
use crate::settings::{Given, Settings};
use crate::target::{Admin, Found};

/// Time limit for a server to list its decoupled directories.
const ASK: Duration = Duration::from_secs(2);

/// The directories that are decoupled at a running server, and which file system that is.
pub struct Decoupled {
    fs_id: String,
    all: Vec<DecoupledDoc>,
    /// There may be more.
    more: bool,
}

impl Decoupled {
    /// Asks a server of this machine. `None`: it does not say.
    pub fn at(state: &ServerState) -> Option<Decoupled> {
        Decoupled::of(&Admin::Unix(state.admin_socket.clone()))
    }

    /// Asks a server. `None`: it does not say.
    pub fn of(admin: &Admin) -> Option<Decoupled> {
        let question = Question { method: Method::Get, path: "/api/v1/status".into(), text: String::new() };
        let reply = ask::raw(admin, ASK, &question).ok()?;
        let status: StatusDoc = serde_json::from_str(&reply.text).ok()?;
        let count: u64 = status.ranks.iter().map(|rank| rank.decoupled_subtrees).sum();
        let all: Vec<DecoupledDoc> = status.ranks.into_iter().flat_map(|rank| rank.decoupled).collect();
        let more = count > all.len() as u64 || !status.unreached.is_empty();
        Some(Decoupled { fs_id: status.fs_id, all, more })
    }

    /// The directories.
    pub fn all(&self) -> &[DecoupledDoc] {
        &self.all
    }

    /// Finds the paths that their ranks do not know by heart.
    pub fn name(&mut self, found: &Found) {
        decoupled::paths(found, self.all.iter_mut().map(|one| (one.dir, &mut one.path)));
    }
}

/// Names each file of the file system with what can be done: it is merged as long as its directory is decoupled for it still, and of no use
/// to the server after that.
pub fn tell(data: &Path, settings: &Settings, now: &Decoupled) {
    for (file, waiting) in files(&now.fs_id, settings) {
        let name = file.display();
        if now.more || now.all.iter().any(|one| is_of(one, &waiting)) {
            note(format_args!(
                "loligo: {name} holds changes of a decoupled directory that are not merged, and nobody else has them\n  merge them  loligo merge {} --data {}   \
                 (within the lease of the directory, a minute by default, once the server runs)",
                quoted(&file),
                quoted(data)
            ));
        } else {
            note(format_args!(
                "loligo: {name} holds changes of a directory that is not decoupled for them any more (its lease was over, or it was given up): they \
                 cannot be merged\n  look at them  loligo journal inspect {0}\n  remove them   loligo abandon --remove {0} --data {1}",
                quoted(&file),
                quoted(data)
            ));
        }
    }
}

/// Says of each subtree which file of this machine holds changes of it.
pub fn name_files<'a>(
    fs_id: &str,
    given: &Given,
    data: Option<&Path>,
    all: impl IntoIterator<Item = &'a mut DecoupledDoc>,
) {
    let mut all = all.into_iter().peekable();
    if all.peek().is_none() {
        return;
    }
    let Ok(settings) = Settings::load(given, data, &[]) else { return };
    let files = files(fs_id, &settings);
    for one in all {
        let of = files.iter().find(|(_, waiting)| is_of(one, waiting));
        one.kept_file = of.map(|(file, _)| file.display().to_string());
    }
}

fn is_of(one: &DecoupledDoc, waiting: &Waiting) -> bool {
    one.dir == waiting.dir.0 && one.epoch == waiting.epoch
}

fn files(fs_id: &str, settings: &Settings) -> Vec<(PathBuf, Waiting)> {
    let Some(keep) = node::keep_dir(settings) else { return Vec::new() };
    let all = std::fs::read_dir(keep).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<(PathBuf, Waiting)> =
        all.filter_map(|path| Some((path.clone(), Kept::waiting(&path)?))).collect();
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    files.retain(|(_, waiting)| hex(&waiting.fs) == fs_id);
    files.sort_by(|one, other| one.0.cmp(&other.0));
    files
}
