//! Trees: that their statistics are those that are promised, and that many clients make them whole, whoever comes first.

use std::collections::{BTreeMap, BTreeSet};

use crate::choice::{Choice, Chooser};
use crate::rng::Scatter;
use crate::tests::{calls, workload};
use crate::tree::Tree;
use crate::tree_balanced::{Balanced, Inner};
use crate::tree_synthetic::Synthetic;
use crate::tree_zipf::Zipfian;
use crate::{Call, Item, Path, Rng, Workload, trace, zipf};

const INNER: Inner = Inner { fan: 10, height: 5 };

fn depth(tree: &Tree, dir: u64) -> usize {
    tree.above(dir).count()
}

fn files(tree: &Tree, dir: u64) -> u64 {
    let files = tree.files_of(dir);
    files.end - files.start
}

/// Files of directories, most first.
fn sizes(tree: &Tree) -> Vec<u64> {
    let mut sizes: Vec<u64> = (0..tree.dirs()).map(|dir| files(tree, dir)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

/// A file system that knows names only, and does phase after phase with the last lane first.
#[derive(Default)]
pub(crate) struct Names {
    pub dirs: BTreeSet<Path>,
    pub files: BTreeSet<Path>,
    /// For each phase how many calls each lane made.
    pub phases: Vec<(String, Vec<usize>)>,
}

impl Names {
    pub fn of(workload: Workload) -> Names {
        let mut names = Names { dirs: BTreeSet::from(["".into()]), ..Names::default() };
        workload.setup.iter().for_each(|call| names.call(call));
        let mut lanes: Vec<_> = workload.clients.into_iter().flatten().collect();
        let mut phase = Some(String::from("dirs"));
        while let Some(name) = phase.take() {
            let mut made = vec![0; lanes.len()];
            for (lane, made) in lanes.iter_mut().zip(&mut made).rev() {
                for item in lane.by_ref() {
                    match item {
                        Item::Call(call) => names.call(&call),
                        Item::Until(_) => panic!("nobody waits for a time"),
                        Item::Mark(mark) => {
                            phase = Some(mark.to_string());
                            break;
                        }
                    }
                    *made += 1;
                }
            }
            names.phases.push((name, made));
        }
        names
    }

    fn call(&mut self, call: &Call) {
        let path = call.path();
        let above = |path: &str| Path::from(&path[..path.rfind('/').expect("a slash")]);
        assert!(self.dirs.contains(&above(path)), "{call:?}: there is no directory for it");
        let is_new = |names: &Names, path: &Path| !names.dirs.contains(path) && !names.files.contains(path);
        let went_well = match call {
            Call::Mkdir(_) => is_new(self, path) && self.dirs.insert(Path::clone(path)),
            Call::Create(_) => is_new(self, path) && self.files.insert(Path::clone(path)),
            Call::Stat(_) | Call::Open(_) => self.files.contains(path),
            Call::Readdir(_) | Call::Chmod(..) => self.dirs.contains(path),
            Call::Unlink(_) => self.files.remove(path),
            Call::Rename(_, to) => {
                let goes = self.dirs.contains(&above(to)) && is_new(self, to) && self.files.remove(path);
                goes && self.files.insert(Path::clone(to))
            }
            _ => false,
        };
        assert!(went_well, "{call:?}");
    }
}

/// Number of a trace, to tell that it is the same on each machine.
pub(crate) fn print_of(workload: Workload) -> u64 {
    loligo_types::hash::name_hash((0, 0), trace::record(workload).as_bytes())
}

#[test]
fn a_balanced_tree_has_the_sizes_of_the_paper() {
    let tree = Balanced { inner: INNER, files: 1280 }.tree();
    assert_eq!((tree.dirs(), tree.files(), INNER.leaves()), (111_111, 128_000_000, 100_000));
    let of = |depth_wanted: usize| (0..tree.dirs()).filter(move |dir| depth(&tree, *dir) == depth_wanted);
    assert_eq!([0, 1, 2, 5].map(|depth| of.clone()(depth).count()), [1, 10, 100, 100_000]);
}

#[test]
fn files_of_a_zipf_tree_are_shared_out_exactly_by_zipfs_law() {
    let of = |seed| Zipfian { inner: INNER, files: 128_000_000 }.tree(seed);
    let tree = of(1);
    assert_eq!((tree.dirs(), tree.files()), (111_111, 128_000_000));
    assert!((0..tree.dirs()).all(|dir| files(&tree, dir) == 0 || depth(&tree, dir) == 5));
    let sizes = sizes(&tree);
    // The first has 1/zeta(1.8) = 53.1 %, the second 2^-1.8 of that, and so on.
    assert_eq!(sizes[..4], [68_008_971, 19_530_449, 9_413_431, 5_608_649]);
    for rank in [2u64, 10, 100, 1000, 10_000] {
        let part = sizes[0] as f64 * (rank as f64).powf(-1.8);
        assert!((sizes[rank as usize - 1] as f64 - part).abs() <= 1.0, "rank {rank}");
    }
    assert_eq!(sizes, self::sizes(&of(2)), "another seed puts them elsewhere");
    assert_ne!(tree, of(2));
}

#[test]
fn a_synthetic_tree_has_the_statistics_of_surveys_whatever_its_size_and_seed() {
    for (dirs, seed) in [(10_000, 1), (100_000, 1), (100_000, 2)] {
        let tree = Synthetic { dirs, files: dirs * 67 }.tree(seed);
        assert_eq!((tree.dirs(), tree.files()), (dirs, dirs * 67));
        let mut entries: Vec<u64> = (0..dirs).map(|dir| files(&tree, dir)).collect();
        for dir in 1..dirs {
            entries[tree.above(dir).next().expect("it is not the top") as usize] += 1;
        }
        let percent = |count: usize| count as f64 * 100.0 / dirs as f64;
        let small = percent(entries.iter().filter(|count| **count < 128).count());
        assert!((89.0..91.0).contains(&small), "{dirs}, {seed}: {small} % have fewer than 128 entries");
        let flat = percent((0..dirs).filter(|dir| depth(&tree, *dir) <= 16).count());
        assert!((93.0..96.0).contains(&flat), "{dirs}, {seed}: {flat} % are at a depth of 16 or less");
        assert!((0..dirs).all(|dir| depth(&tree, dir) < 40), "{dirs}, {seed}");
        let huge = percent(entries.iter().filter(|count| **count > 10_000).count());
        assert!(huge > 0.0 && huge < 0.03, "{dirs}, {seed}: {huge} % are huge");
    }
    let largest = |dirs| sizes(&Synthetic { dirs, files: dirs * 67 }.tree(1))[0];
    assert_eq!([1000, 10_000, 100_000].map(largest), [5693, 25_500, 116_336]);
}

#[test]
fn many_make_a_tree_whole_whoever_comes_first() {
    for (spec, dirs, files) in [
        ("tree-balanced:fan=4,height=4,files=7,stats=1001", 341, 256 * 7),
        ("tree-zipf:fan=4,height=4,files=9999,stats=1001,choice=zipf", 341, 9999),
        ("tree-synthetic:dirs=777,files=9999,stats=1001", 777, 9999),
        ("tree-synthetic:dirs=1,files=1,stats=1001,choice=zipf", 1, 1),
    ] {
        for (clients, lanes) in [(1, 1), (3, 2), (50, 20)] {
            let names = Names::of(workload(&format!("{spec},clients={clients},lanes={lanes}"), 4));
            // The root is above the tree.
            assert_eq!((names.dirs.len() - 1, names.files.len()), (dirs, files), "{spec}");
            let phases: Vec<&str> = names.phases.iter().map(|(name, _)| &**name).collect();
            assert_eq!(phases, ["dirs", "populate", "stat"]);
            for (phase, made) in &names.phases[1..] {
                let all = if phase == "stat" { 1001 } else { files };
                assert_eq!(made.iter().sum::<usize>(), all, "{spec}");
                let (least, most) = (made.iter().min(), made.iter().max());
                assert!(most <= least.map(|least| least + 1).as_ref(), "{spec}: {made:?}");
            }
        }
    }
}

#[test]
fn listings_come_last_and_are_of_all_directories_alike() {
    let calls = calls(workload("tree-balanced:clients=3,lanes=2,fan=2,height=2,files=3,stats=5,lists=14", 1));
    let listed: Vec<&str> = calls.iter().filter(|call| call.name() == "readdir").map(|call| &**call.path()).collect();
    let mut each: std::collections::BTreeMap<&str, u32> = std::collections::BTreeMap::new();
    listed.iter().for_each(|path| *each.entry(path).or_default() += 1);
    assert_eq!((listed.len(), each.len(), each.values().all(|count| *count == 2)), (14, 7, true), "{each:?}");
}

#[test]
fn without_stats_there_are_two_phases() {
    let names = Names::of(workload("tree-balanced:fan=2,height=2,files=3,stats=0", 1));
    assert_eq!(names.phases.len(), 2);
}

#[test]
fn only_ways_to_shares_are_there_before_directories_are_made() {
    let there = |clients| workload(&format!("tree-balanced:clients={clients},files=1,stats=0"), 1).setup.len();
    assert_eq!([1, 10, 100].map(there), [1, 37, 308]);
}

#[test]
fn a_lane_makes_directories_and_files_depth_first() {
    let made = calls(workload("tree-balanced:clients=1,fan=2,height=2,files=2,stats=0", 1));
    let text: Vec<String> = made.iter().map(|call| format!("{} {}", call.name(), call.path())).collect();
    assert_eq!(
        text,
        [
            "mkdir /tree/d1",
            "mkdir /tree/d1/d2",
            "mkdir /tree/d1/d3",
            "mkdir /tree/d4",
            "mkdir /tree/d4/d5",
            "mkdir /tree/d4/d6",
            "create /tree/d1/d2/f0",
            "create /tree/d1/d2/f1",
            "create /tree/d1/d3/f0",
            "create /tree/d1/d3/f1",
            "create /tree/d4/d5/f0",
            "create /tree/d4/d5/f1",
            "create /tree/d4/d6/f0",
            "create /tree/d4/d6/f1",
        ]
    );
}

#[test]
fn a_hundred_thousand_directories_with_a_million_files_are_made() {
    let workload = workload("tree-synthetic:dirs=100000,files=1000000,stats=100000,choice=zipf", 1);
    let mut made: BTreeMap<&str, u64> = BTreeMap::new();
    for item in workload.clients.into_iter().flatten().flatten() {
        if let Item::Call(call) = item {
            *made.entry(call.name()).or_default() += 1;
        }
    }
    assert_eq!(
        made,
        BTreeMap::from([("create", 1_000_000), ("mkdir", 100_000 - workload.setup.len() as u64), ("stat", 100_000)])
    );
}

#[test]
fn files_are_chosen_equally_often_or_by_zipfs_law() {
    const DRAWN: u64 = 200_000;
    let counts = |choice, files: u64| {
        let (chooser, mut rng) = (Chooser::new(choice, 3, files), Rng::new(3, 0));
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for _ in 0..DRAWN {
            *counts.entry(chooser.choose(&mut rng)).or_default() += 1;
        }
        assert!(counts.keys().all(|file| *file < files));
        let mut counts: Vec<u64> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    };
    let uniform = counts(Choice::Uniform, 100);
    assert!(uniform.len() == 100 && uniform[0] < 2200 && uniform[99] > 1800, "{uniform:?}");
    for files in [1_000, 128_000_000] {
        let zipf = counts(Choice::Zipf, files);
        let of_all = |k: usize| zipf[k - 1] as f64 / DRAWN as f64;
        for k in [1, 2, 3, 10, 50] {
            let wanted = 0.5313 * (k as f64).powf(-1.8);
            assert!((of_all(k) / wanted - 1.0).abs() < 0.1, "{files}: {k}: {} {wanted}", of_all(k));
        }
    }
    assert_eq!(counts(Choice::Zipf, 1), [DRAWN]);
    assert_eq!(counts(Choice::Zipf, 2).len(), 2);
}

#[test]
fn zipfs_law_is_reckoned_as_exactly_as_with_powers() {
    for x in [1.0f64, 1.5, 2.0, 3.0, 77.0, 1e5, 1.28e8, 1e15] {
        for degree in [3u8, 5] {
            let wanted = x.powf(1.0 / f64::from(degree));
            assert!((zipf::root(x, degree) / wanted - 1.0).abs() < 1e-14, "{x}, {degree}");
        }
        assert!((zipf::weight(x) / x.powf(-1.8) - 1.0).abs() < 1e-13, "{x}");
    }
}

#[test]
fn scattered_numbers_are_all_there_once() {
    for count in [1, 2, 3, 4, 5, 16, 17, 1000, 4097] {
        let scatter = Scatter::new(9, 9, count);
        let all: BTreeSet<u64> = (0..count).map(|place| scatter.at(place)).collect();
        assert!(all.into_iter().eq(0..count), "{count}");
    }
    let scatter = Scatter::new(9, 9, 1000);
    assert!((0..1000).filter(|place| scatter.at(*place) == *place).count() < 10);
}

#[test]
fn what_is_made_is_the_same_on_every_machine() {
    let prints = [
        "tree-balanced:fan=3,height=3,files=5,stats=1000,choice=zipf",
        "tree-zipf:fan=5,height=3,files=5000,stats=1000",
        "tree-synthetic:dirs=500,files=5000,stats=1000,choice=zipf",
    ]
    .map(|spec| print_of(workload(spec, 42)));
    let known = [0x3603_5bc9_0201_0c94, 0x3984_e92d_4540_206c, 0x4e26_ad6e_cead_5826];
    assert_eq!(prints, known, "{prints:#018x?}");
}
