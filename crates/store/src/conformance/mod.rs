//! The suite that every backend passes: what the traits promise, shown on a store that the caller
//! opens. Not about crashes of a machine, which only a backend's own tests can make.
//!
//! A backend's test calls [`run`] with a function that makes a fresh [`Fixture`]; a failed promise
//! panics with its name.

mod blobs;
mod log;
mod random;
mod table;

use std::sync::Arc;

use crate::Backend;
use crate::mem::{MemDisk, MemStore};

pub use random::{SPAN, Step, alike};

/// A formatted store that can be opened again and again.
pub trait Fixture {
    /// Opens the store. The suite drops every handle of one opening before the next.
    fn open(&mut self) -> Arc<dyn Backend>;

    /// True if the backend counts its space.
    fn knows_space(&self) -> bool {
        true
    }

    /// True if blocks that were written with zeros differ from those that were not written.
    fn tells_zeros_from_holes(&self) -> bool {
        true
    }
}

impl Fixture for MemDisk {
    fn open(&mut self) -> Arc<dyn Backend> {
        let store: Arc<MemStore> = MemDisk::open(self).expect("the suite drops its handles before it opens again");
        store
    }
}

/// A fresh fixture for each scenario.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Fixture>;

/// Runs the whole suite.
pub fn run(make: Make<'_>) {
    for (name, scenario) in scenarios() {
        eprintln!("conformance: {name}");
        scenario(make);
    }
}

/// A named scenario of the suite.
pub type Scenario = (&'static str, fn(Make<'_>));

/// All scenarios, for a caller that gives each a test of its own.
pub fn scenarios() -> Vec<Scenario> {
    let mut all: Vec<Scenario> = vec![
        ("the identity stays over openings", identity_stays),
        ("statfs tells a plausible space", statfs_is_plausible),
        ("ranks with journals are listed", ranks_are_listed),
    ];
    all.extend(table::SCENARIOS);
    all.extend(log::SCENARIOS);
    all.extend(blobs::SCENARIOS);
    all
}

fn identity_stays(make: Make<'_>) {
    let mut fixture = make();
    let first = fixture.open().identity();
    assert_eq!(fixture.open().identity(), first);
    assert_ne!(first.fs_id, [0; 16], "the file system has a name");
}

fn statfs_is_plausible(make: Make<'_>) {
    let mut fixture = make();
    let statfs = fixture.open().statfs().expect("statfs");
    assert!(
        (statfs.total_bytes > 0 || !fixture.knows_space()) && statfs.free_bytes <= statfs.total_bytes,
        "{statfs:?}"
    );
    assert!(statfs.free_inodes <= statfs.total_inodes, "{statfs:?}");
}

fn ranks_are_listed(make: Make<'_>) {
    let mut fixture = make();
    let store = fixture.open();
    assert_eq!(store.ranks().expect("ranks"), Vec::<u32>::new());
    for rank in [2, 0, 10] {
        store.log_dir(rank).expect("log_dir makes the directory");
    }
    assert_eq!(store.ranks().expect("ranks"), [0, 2, 10]);
    drop(store);
    assert_eq!(fixture.open().ranks().expect("ranks"), [0, 2, 10]);
}
