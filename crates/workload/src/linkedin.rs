//! Metadata calls as of a day of an HDFS installation like LinkedIn's, with which the ShardFS paper (SoCC 2015, section 4) compares
//! placements: a synthetic tree is made with all its files empty, then calls are made in sub-traces of 200 that clients do
//! independently of each other. It is not that trace, which is not public, nor its percentages, which the paper only draws.
//!
//! The mix by default. Known is that `open` is most of it, `readdir` comes second and one or two kinds dominate. So 80 % are these
//! two, as jobs list directories and read what is in them. The rest is ours: `stat` of inputs (9 %), `create` of outputs (5 %), a
//! fifth of which is renamed into its place and a fifth of which is temporary and goes (1 % each), and what changes directories,
//! `mkdir` and `chmod` (2 % each): few beside the lookups, but with 64 servers a call that goes to each of them is more than half
//! of all requests, which is where the paper sees the placements part.
//!
//! A job reads many files of one directory. So calls stay in a directory for a while (`runs`), and the next one is that of a file
//! that is chosen: directories come up as often as they have files.
//!
//! Sub-traces are done in any order and at once, and no call in them may fail. So each renames and removes only files that it has
//! created, and its names are its own.
//!
//! Strong scaling is `scale=1` with more and more clients. For weak scaling `scale` grows with the servers: each file is there in so
//! many variants, which differ in a suffix, and for each a sub-trace does its calls on files. Directories, and calls on them
//! (`readdir`, `mkdir`, `chmod`), remain as many as they were: one of the variants has them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::call::join;
use crate::choice::{Choice, Chooser};
use crate::rng::Scatter;
use crate::tree::{Crew, Tree};
use crate::tree_synthetic::Synthetic;
use crate::{Call, Item, Lane, Path, Rng, Workload};

/// Calls of a sub-trace; the last one may have fewer.
pub(crate) const SUB_TRACE: u64 = 200;

/// Sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Linkedin {
    pub crew: Crew,
    pub tree: Synthetic,
    /// Of all clients together, with `scale` 1.
    pub calls: u64,
    /// Calls in the same directory, one after the other, on average.
    pub runs: u64,
    /// Of the file whose directory is next.
    pub choice: Choice,
    pub mix: Mix,
    /// Variants of each file.
    pub scale: u64,
}

/// Kinds of calls, most frequent first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Open,
    Readdir,
    Stat,
    Create,
    Mkdir,
    Chmod,
    Rename,
    Unlink,
}

const KINDS: [(Kind, &str); 8] = [
    (Kind::Open, "open"),
    (Kind::Readdir, "readdir"),
    (Kind::Stat, "stat"),
    (Kind::Create, "create"),
    (Kind::Mkdir, "mkdir"),
    (Kind::Chmod, "chmod"),
    (Kind::Rename, "rename"),
    (Kind::Unlink, "unlink"),
];

/// Relative frequency of each of [`KINDS`]: `open:60/readdir:20`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mix([u32; KINDS.len()]);

impl Default for Mix {
    fn default() -> Mix {
        Mix([60, 20, 9, 5, 2, 2, 1, 1])
    }
}

impl Mix {
    fn of(&self, kind: Kind) -> u64 {
        u64::from(self.0[kind as usize])
    }

    fn draw(&self, rng: &mut Rng) -> Kind {
        let mut at = rng.below(self.0.iter().copied().map(u64::from).sum());
        for (kind, _) in KINDS {
            match at.checked_sub(self.of(kind)) {
                None => return kind,
                Some(rest) => at = rest,
            }
        }
        // What is drawn is below the sum, so it was one of them.
        Kind::Open
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let mut mix = Mix([0; KINDS.len()]);
        for word in text.split('/') {
            let (name, count) = word.split_once(':').ok_or(format!("mix={text}: `{word}` is not `call:number`"))?;
            let names = || KINDS.map(|(_, name)| name).join(", ");
            let at = KINDS.iter().position(|(_, known)| *known == name);
            let at = at.ok_or_else(|| format!("mix={text}: `{name}` is not among {}", names()))?;
            let count = count.parse().ok().filter(|count| *count <= 1_000_000);
            mix.0[at] = count.ok_or(format!("mix={text}: `{word}` does not end with a number up to 1000000"))?;
        }
        if mix.0.iter().all(|count| *count == 0) {
            return Err(format!("mix={text}: there is no call in it"));
        }
        if mix.of(Kind::Unlink) > mix.of(Kind::Create) || mix.of(Kind::Rename) > 0 && mix.of(Kind::Create) == 0 {
            return Err(format!(
                "mix={text}: what is renamed and unlinked was created before: more of create is wanted"
            ));
        }
        Ok(mix)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((_, name), count) in KINDS.iter().zip(self.0) {
            write!(f, "{}{name}:{count}", if *name == "open" { "" } else { "/" })?;
        }
        Ok(())
    }
}

/// See [`Rng::new`].
const STREAM_ORDER: u64 = 0x1141_ED00;
/// One more for each sub-trace.
const STREAM_CALLS: u64 = 0x1141_0000_0000;

impl Linkedin {
    pub fn workload(&self, seed: u64) -> Workload {
        let tree = Arc::new(self.tree.tree(seed));
        let chooser = Chooser::new(self.choice, seed, tree.files());
        let trace = Arc::new(Trace { sizes: *self, seed, tree: Arc::clone(&tree), chooser });
        let count = self.calls.div_ceil(SUB_TRACE) * self.scale;
        // In a drawn order: one after the other the variants with calls on directories would all come to a few clients, or at once.
        let order = Scatter::new(seed, STREAM_ORDER, count);
        let replay = |share: u64| -> Lane {
            let (trace, order) = (Arc::clone(&trace), order.clone());
            let mine = (share..count).step_by(self.crew.shares() as usize);
            Box::new(mine.flat_map(move |place| trace.sub_trace(order.at(place)).into_iter().map(Item::Call)))
        };
        self.crew.workload(&tree, self.scale, &[("replay", &replay)])
    }
}

/// Source of sub-traces.
struct Trace {
    sizes: Linkedin,
    seed: u64,
    tree: Arc<Tree>,
    chooser: Chooser,
}

/// One that is being made.
struct Sub<'a> {
    trace: &'a Trace,
    rng: Rng,
    number: u64,
    variant: u64,
    /// Where it is.
    dir: u64,
    dir_path: Path,
    /// Files that it has created and not removed.
    own: Vec<Path>,
    /// Names that it has given.
    names: u64,
}

impl Trace {
    /// All variants of a sub-trace draw the same.
    fn sub_trace(&self, number: u64) -> Vec<Call> {
        let (number, variant) = (number / self.sizes.scale, number % self.sizes.scale);
        let mut rng = Rng::new(self.seed, STREAM_CALLS + number);
        let count = SUB_TRACE.min(self.sizes.calls - number * SUB_TRACE);
        let mut kinds: Vec<Kind> = (0..count).map(|_| self.sizes.mix.draw(&mut rng)).collect();
        let dir = self.tree.dir_of(self.chooser.choose(&mut rng));
        let dir_path = self.tree.dir_path(dir);
        let mut sub = Sub { trace: self, rng, number, variant, dir, dir_path, own: Vec::new(), names: 0 };
        let mut calls = Vec::with_capacity(kinds.len());
        for at in 0..kinds.len() {
            if matches!(kinds[at], Kind::Rename | Kind::Unlink) && sub.own.is_empty() {
                // The next create comes first, so that the mix stays as it is. If there is none, something else must stand here.
                match kinds[at..].iter().position(|kind| *kind == Kind::Create) {
                    Some(later) => kinds.swap(at, at + later),
                    None => kinds[at] = Kind::Open,
                }
            }
            calls.push(sub.call(kinds[at]));
        }
        let is_of_file = |call: &Call| !matches!(call, Call::Readdir(_) | Call::Mkdir(_) | Call::Chmod(..));
        calls.retain(|call| variant == 0 || is_of_file(call));
        calls
    }
}

impl Sub<'_> {
    fn call(&mut self, kind: Kind) -> Call {
        let (tree, runs) = (&self.trace.tree, self.trace.sizes.runs);
        if self.rng.below(runs) == 0 {
            self.dir = tree.dir_of(self.trace.chooser.choose(&mut self.rng));
            self.dir_path = tree.dir_path(self.dir);
        }
        match kind {
            Kind::Open => Call::Open(self.file()),
            Kind::Stat => Call::Stat(self.file()),
            Kind::Readdir => Call::Readdir(Path::clone(&self.dir_path)),
            Kind::Mkdir => Call::Mkdir(self.name('m')),
            Kind::Chmod => Call::Chmod(Path::clone(&self.dir_path), [0o755, 0o775][self.rng.below(2) as usize]),
            Kind::Create => {
                let path = self.name('n');
                self.own.push(Path::clone(&path));
                Call::Create(path)
            }
            Kind::Rename => {
                let from = self.take();
                let to = self.name('n');
                self.own.push(Path::clone(&to));
                Call::Rename(from, to)
            }
            Kind::Unlink => Call::Unlink(self.take()),
        }
    }

    /// One of the files of the tree in the directory, which has some: it is that of a file.
    fn file(&mut self) -> Path {
        let files = self.trace.tree.files_of(self.dir);
        let file = files.start + self.rng.below(files.end - files.start);
        self.trace.tree.file_path(file, self.variant)
    }

    /// A new name in the directory.
    fn name(&mut self, what: char) -> Path {
        self.names += 1;
        let name = format!("{what}{}.{}", self.number, self.names);
        let variant = if self.variant == 0 { String::new() } else { format!(".{}", self.variant) };
        join(&self.dir_path, &(name + &variant))
    }

    /// One of those that it has created, of which there are some.
    fn take(&mut self) -> Path {
        let at = self.rng.below(self.own.len() as u64) as usize;
        self.own.swap_remove(at)
    }
}
