//! Calls on paths, and what a workload consists of. Not which calls are made: that is the generators'.

use std::sync::Arc;

/// An absolute path: `/`, or names each with a `/` before it.
pub type Path = Arc<str>;

/// One call of a program. `ENOENT` is an ordinary outcome of [`Call::Stat`] and [`Call::Open`], and of nothing else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// `mkdir(path, 0755)`.
    Mkdir(Path),
    /// `mknod(path, S_IFREG | 0644)`: an empty file, not opened.
    Create(Path),
    /// `stat(path)`.
    Stat(Path),
    /// `open(path, O_RDONLY)`, `read` to the end, `close`.
    Open(Path),
    /// `open(path, O_DIRECTORY)`, `getdents` to the end, `close`.
    Readdir(Path),
    /// `unlink(path)`.
    Unlink(Path),
    /// `rmdir(path)`.
    Rmdir(Path),
    /// `rename(from, to)`.
    Rename(Path, Path),
    /// `open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644)`, one `write` of so many bytes, `close`.
    Write(Path, u32),
    /// `chmod(path, mode)`; the permission bits.
    Chmod(Path, u16),
    /// `utimensat(path)` with a modification time in the past.
    Utimens(Path),
}

impl Call {
    /// Its name in traces and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Call::Mkdir(_) => "mkdir",
            Call::Create(_) => "create",
            Call::Stat(_) => "stat",
            Call::Open(_) => "open",
            Call::Readdir(_) => "readdir",
            Call::Unlink(_) => "unlink",
            Call::Rmdir(_) => "rmdir",
            Call::Rename(..) => "rename",
            Call::Write(..) => "write",
            Call::Chmod(..) => "chmod",
            Call::Utimens(_) => "utimens",
        }
    }

    /// The path that it is about; of a rename the old one.
    pub fn path(&self) -> &Path {
        match self {
            Call::Mkdir(path)
            | Call::Create(path)
            | Call::Stat(path)
            | Call::Open(path)
            | Call::Readdir(path)
            | Call::Unlink(path)
            | Call::Rmdir(path)
            | Call::Rename(path, _)
            | Call::Write(path, _)
            | Call::Chmod(path, _)
            | Call::Utimens(path) => path,
        }
    }

    /// True if `ENOENT` is an ordinary outcome.
    pub fn may_miss(&self) -> bool {
        matches!(self, Call::Stat(_) | Call::Open(_))
    }
}

/// The next thing in a lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// Call, and wait for the answer.
    Call(Call),
    /// Do nothing before this time since the beginning, microseconds.
    Until(u64),
    /// Wait here until all lanes of all clients have come to a mark (or to their end); then a phase with this name begins.
    Mark(Arc<str>),
}

/// Calls that are made one after the other, as one thread of a program makes them.
pub type Lane = Box<dyn Iterator<Item = Item> + Send>;

/// All that is done.
pub struct Workload {
    /// Makes what is to exist before the clients begin, in this order.
    pub setup: Vec<Call>,
    /// Directories that `setup` makes and that may be dealt out one by one, those above first.
    pub spread: Vec<Path>,
    /// Directories that `setup` makes and in which many clients work at once: they may be dealt out in fragments.
    pub shared: Vec<Path>,
    /// For each client its lanes; they share what a client machine shares (caches, sessions).
    pub clients: Vec<Vec<Lane>>,
    /// A lane rests so long on average after each call, microseconds.
    pub think_us: u64,
}

impl Workload {
    /// One with nothing in it.
    pub fn empty() -> Workload {
        Workload { setup: Vec::new(), spread: Vec::new(), shared: Vec::new(), clients: Vec::new(), think_us: 0 }
    }
}

/// The path of a name in a directory.
pub(crate) fn join(dir: &str, name: &str) -> Path {
    if dir == "/" { format!("/{name}").into() } else { format!("{dir}/{name}").into() }
}
