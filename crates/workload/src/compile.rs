//! Clients that compile and link a tree like a kernel's. It is made up after what is known of such traces: most calls look for
//! headers, many where they are not; few headers are in almost every unit; `arch`, `kernel`, `fs` and `mm` have most of the
//! work; objects are written under a temporary name and renamed; at the end everybody lists, looks at and reads all objects
//! at once. It is not a trace of a real compiler: [`crate::trace`] replays those.

use crate::call::join;
use crate::{Call, Item, Lane, Path, Rng, Workload};

/// Sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Compile {
    pub clients: u64,
    /// Directories with sources, of each tree.
    pub dirs: u64,
    /// Sources in a directory; in those of `arch`, `kernel`, `fs` and `mm` twice as many.
    pub units: u64,
    /// Headers of each tree.
    pub headers: u64,
    /// Headers that a unit includes.
    pub includes: u64,
    /// Units that a client compiles at a time.
    pub jobs: u64,
    /// Of an object.
    pub bytes: u64,
    /// All clients compile one tree together, instead of one each.
    pub one_tree: bool,
}

/// Where sources are, hottest first; more are made below `drivers`.
const SOURCES: [&str; 14] = [
    "kernel",
    "mm",
    "fs",
    "arch/x86/kernel",
    "kernel/sched",
    "fs/ext4",
    "arch/x86/mm",
    "drivers/base",
    "net/core",
    "lib",
    "block",
    "drivers/tty",
    "net/ipv4",
    "security",
];
/// Those whose directories have twice as many.
const HOT: [&str; 4] = ["arch", "kernel", "fs", "mm"];
/// Where headers are, in the order in which they are searched.
const HEADERS: [&str; 3] = ["arch/x86/include/asm", "include/asm-generic", "include/linux"];
/// Bytes of a header, a source and a makefile.
const TEXT_BYTES: u32 = 3000;

/// Tree below one top.
struct Tree {
    top: Path,
    /// Directories with sources, and how many are in each.
    sources: Vec<(Path, u64)>,
    /// Directories with headers.
    headers: Vec<Path>,
    /// For each header the number of its directory.
    homes: Vec<usize>,
}

impl Compile {
    pub fn workload(&self, seed: u64) -> Workload {
        let trees = if self.one_tree { 1 } else { self.clients };
        let mut workload = Workload::empty();
        let mut lanes: Vec<Vec<Lane>> = (0..self.clients).map(|_| Vec::new()).collect();
        for number in 0..trees {
            let tree = self.tree(number, seed);
            tree.make(&mut workload);
            let mine = if self.one_tree { 0..self.clients } else { number..number + 1 };
            let jobs: Vec<u64> = mine.flat_map(|client| (0..self.jobs).map(move |_| client)).collect();
            for (job, calls) in self.jobs_of(&tree, jobs.len(), Rng::new(seed, number)).into_iter().enumerate() {
                lanes[jobs[job] as usize].push(Box::new(calls.into_iter()));
            }
        }
        workload.clients = lanes;
        workload
    }

    fn tree(&self, number: u64, seed: u64) -> Tree {
        let top = join("/", &format!("linux{number}"));
        let source = |at: u64| {
            let name = SOURCES.get(at as usize).map_or_else(|| format!("drivers/d{at}"), |name| name.to_string());
            let is_hot = HOT.iter().any(|hot| name.starts_with(hot));
            (join(&top, &name), if is_hot { self.units * 2 } else { self.units })
        };
        let mut rng = Rng::new(seed, u64::MAX);
        // Most are in the last directory that is searched.
        let home = |_| HEADERS.len() - 1 - rng.skewed(HEADERS.len() as u64) as usize;
        Tree {
            sources: (0..self.dirs).map(source).collect(),
            headers: HEADERS.iter().map(|dir| join(&top, dir)).collect(),
            homes: (0..self.headers).map(home).collect(),
            top,
        }
    }

    /// Calls of each of so many jobs.
    fn jobs_of(&self, tree: &Tree, jobs: usize, mut rng: Rng) -> Vec<Vec<Item>> {
        let mut all: Vec<Vec<Item>> = vec![Vec::new(); jobs];
        let mut turn = 0;
        for (dir, units) in &tree.sources {
            let first = turn % jobs;
            all[first].extend([Call::Readdir(Path::clone(dir)), Call::Open(join(dir, "Makefile"))].map(Item::Call));
            for unit in 0..*units {
                let calls = self.unit(tree, dir, unit, &mut rng);
                all[turn % jobs].extend(calls.into_iter().map(Item::Call));
                turn += 1;
            }
        }
        let link = self.link(tree);
        for job in &mut all {
            job.push(Item::Mark("link".into()));
            job.extend(link.iter().cloned().map(Item::Call));
        }
        all
    }

    fn unit(&self, tree: &Tree, dir: &Path, unit: u64, rng: &mut Rng) -> Vec<Call> {
        let source = join(dir, &format!("u{unit}.c"));
        let mut calls = vec![Call::Stat(Path::clone(&source)), Call::Open(source)];
        for _ in 0..self.includes {
            let header = rng.skewed(self.headers);
            let name = format!("h{header}.h");
            let home = tree.homes[header as usize];
            // Beside the source first, then where headers are, up to where it is.
            calls.push(Call::Stat(join(dir, &name)));
            calls.extend(tree.headers[..home].iter().map(|dir| Call::Stat(join(dir, &name))));
            calls.push(Call::Open(join(&tree.headers[home], &name)));
        }
        let temporary = join(dir, &format!(".tmp_u{unit}.o"));
        let bytes = 1 + rng.below(2 * self.bytes.max(1) - 1);
        calls.push(Call::Write(Path::clone(&temporary), bytes.min(u64::from(u32::MAX)) as u32));
        calls.push(Call::Rename(temporary, join(dir, &format!("u{unit}.o"))));
        calls
    }

    fn link(&self, tree: &Tree) -> Vec<Call> {
        let of = |(dir, units): &(Path, u64)| {
            let objects = (0..*units).flat_map(|unit| {
                let path = join(dir, &format!("u{unit}.o"));
                [Call::Stat(Path::clone(&path)), Call::Open(path)]
            });
            [Call::Readdir(Path::clone(dir))].into_iter().chain(objects).collect::<Vec<Call>>()
        };
        tree.sources.iter().flat_map(of).collect()
    }
}

impl Tree {
    /// All directories and files before anything is compiled.
    fn make(&self, workload: &mut Workload) {
        let mut dirs = vec![Path::clone(&self.top)];
        for dir in self.sources.iter().map(|(dir, _)| dir).chain(&self.headers) {
            let ends = dir.match_indices('/').map(|(at, _)| at).skip(2).chain([dir.len()]);
            for end in ends {
                let above = &dir[..end];
                if !dirs.iter().any(|known| **known == *above) {
                    dirs.push(above.into());
                }
            }
        }
        workload.setup.extend(dirs.iter().cloned().map(Call::Mkdir));
        for (dir, units) in &self.sources {
            workload.setup.push(Call::Write(join(dir, "Makefile"), TEXT_BYTES));
            let sources = (0..*units).map(|unit| Call::Write(join(dir, &format!("u{unit}.c")), TEXT_BYTES));
            workload.setup.extend(sources);
        }
        for (header, home) in self.homes.iter().enumerate() {
            workload.setup.push(Call::Write(join(&self.headers[*home], &format!("h{header}.h")), TEXT_BYTES));
        }
        workload.spread.extend(dirs);
    }
}
