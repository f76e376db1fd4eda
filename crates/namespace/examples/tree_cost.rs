//! Measures what the tree costs: bytes of memory per cached file, and time per operation. Prints; asserts nothing.
//!
//! `cargo run --release -p loligo-namespace --example tree_cost [FILES]`

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use loligo_namespace::{Config, Ctx, Loaded, Tree, apply, need, prepare, touches};
use loligo_types::{Cred, Ino, Name, Op, OpenFlags, Stamp, Time};

struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(rounded(layout.size()), Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        BYTES.fetch_sub(rounded(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Size that glibc's allocator takes for a request: a header of 8 bytes, a multiple of 16, at least 32.
fn rounded(size: usize) -> usize {
    (size + 8).next_multiple_of(16).max(32)
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Nanoseconds of CPU that this thread had; others on the machine do not count.
fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

struct Bench {
    tree: Tree,
    cred: Cred,
    now: i64,
}

impl Bench {
    fn run(&mut self, op: &Op) -> Ino {
        self.now += 1;
        assert!(need(&self.tree, op, &self.cred).is_empty(), "all is in memory");
        let touch = touches(&self.tree, op);
        std::hint::black_box(&touch);
        let stamp = Stamp { now: Time(self.now), ino: self.tree.next_ino() };
        let open_count = |_| 0;
        let ctx = Ctx {
            cred: &self.cred,
            distrusted: false,
            stamp,
            handle_read: true,
            handle_write: true,
            open_count: &open_count,
            route_version: &|_| None,
        };
        let change = prepare(&self.tree, op, &ctx).expect("the operation is allowed");
        let lsn = self.tree.last_lsn().next();
        change.events.iter().for_each(|event| apply(&mut self.tree, event, lsn));
        change.origin_ino
    }

    fn checkpoint(&mut self) {
        loop {
            let checkpoint = self.tree.take_checkpoint(1000);
            self.tree.checkpoint_done();
            if checkpoint.records.is_empty() {
                return;
            }
        }
    }

    /// Runs one operation per file; prints the time of need, touches, prepare and apply.
    fn phase(&mut self, what: &str, count: usize, mut op: impl FnMut(usize) -> Op) {
        let calls = CALLS.load(Ordering::Relaxed);
        let ops: Vec<Op> = (0..count).map(&mut op).collect();
        let made = CALLS.load(Ordering::Relaxed) - calls;
        let start = cpu();
        for (i, op) in ops.iter().enumerate() {
            self.run(op);
            if i % 50_000 == 49_999 {
                self.checkpoint();
            }
        }
        let spent = cpu() - start;
        let calls = CALLS.load(Ordering::Relaxed) - calls - made;
        println!(
            "{what:<24} {:>7.0} ns/op (with checkpoints) {:>5.1} allocations/op",
            spent as f64 / count as f64,
            calls as f64 / count as f64
        );
    }
}

fn name(n: usize) -> Name {
    Name::new(format!("file-{n:011}").as_bytes()).expect("a good name")
}

fn main() {
    let files: usize = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(1_000_000);
    let mut bench = Bench {
        tree: Tree::new(
            (1, 2),
            Config { inline_max: 4096, rank: loligo_types::Rank::ZERO, frag: loligo_namespace::FragConfig::default() },
        ),
        cred: Cred::root(),
        now: 0,
    };
    for event in Tree::format(Time(0), 0o755, 0, 0) {
        apply(&mut bench.tree, &event, loligo_types::Lsn(1));
    }
    let dirs: Vec<Ino> = (0..files.div_ceil(1000))
        .map(|n| bench.run(&Op::Mkdir { dir: Ino::ROOT, name: name(n), mode: 0o755, umask: 0 }))
        .collect();
    bench.checkpoint();
    let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    let before = BYTES.load(Ordering::Relaxed);
    let place = |n: usize| (dirs[n / 1000], name(n));
    bench.phase("create", files, |n| {
        let (dir, name) = place(n);
        Op::Create { dir, name, mode: 0o644, umask: 0, flags, exclusive: false, handle: 1 }
    });
    bench.checkpoint();
    let used = BYTES.load(Ordering::Relaxed) - before;
    println!("{files} files with names of 16 bytes: {} bytes each", used / files);
    println!("the tree itself says {} bytes each", bench.tree.memory_bytes() / files);
    let random = |n: usize| (n * 7_919) % files;
    bench.phase("lookup, random", files, |n| {
        let (dir, name) = place(random(n));
        Op::Lookup { dir, name }
    });
    bench.phase("getattr, random", files, |n| Op::GetAttr { ino: Ino(0x100 + random(n) as u64) });
    bench.phase("readdirplus of 1000", dirs.len(), |n| Op::Readdir {
        dir: dirs[n],
        cookie: 0,
        limit: 4096,
        plus: true,
        handle: None,
    });
    bench.phase("rename in place", files, |n| {
        let (dir, old) = place(n);
        let new_name = name(n + files);
        Op::Rename { dir, name: old, new_dir: dir, new_name, mode: loligo_types::RenameMode::Replace }
    });
    bench.phase("unlink", files, |n| Op::Unlink { dir: dirs[n / 1000], name: name(n + files) });
    bench.checkpoint();
    println!("after unlink: {} inodes cached", bench.tree.inodes_cached());
    let start = cpu();
    bench.tree.evict(0, &|_| false);
    bench.tree.evict(0, &|_| false);
    println!("evict all: {} ms, {} bytes left", (cpu() - start) / 1_000_000, bench.tree.memory_bytes());
    bench.tree.load(Loaded::NextIno(Ino(1)));
}
