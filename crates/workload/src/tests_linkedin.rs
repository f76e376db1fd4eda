//! Calls as in a large installation: that none can fail, in which order ever, and that there are as many of each as is promised.

use std::collections::BTreeMap;

use crate::tests::{calls, workload};
use crate::tests_trees::{Names, print_of};
use crate::{Item, Path};

/// Number of calls of each kind that follow the mark.
fn replayed(spec: &str) -> BTreeMap<&'static str, u64> {
    let mut made = BTreeMap::new();
    for lane in workload(spec, 7).clients.into_iter().flatten() {
        let after = lane.skip_while(|item| !matches!(item, Item::Mark(name) if **name == *"replay"));
        for item in after {
            if let Item::Call(call) = item {
                *made.entry(call.name()).or_default() += 1;
            }
        }
    }
    made
}

#[test]
fn sub_traces_go_well_in_any_order_and_keep_the_mix() {
    let spec = "linkedin:dirs=500,files=3000,calls=100050,clients=3,lanes=2";
    let names = Names::of(workload(spec, 7));
    let phases: Vec<&str> = names.phases.iter().map(|(name, _)| &**name).collect();
    assert_eq!(phases, ["dirs", "populate", "replay"]);
    let made = replayed(spec);
    assert_eq!(made.values().sum::<u64>(), 100_050);
    for (name, percent) in [
        ("open", 60.0),
        ("readdir", 20.0),
        ("stat", 9.0),
        ("create", 5.0),
        ("mkdir", 2.0),
        ("chmod", 2.0),
        ("rename", 1.0),
        ("unlink", 1.0),
    ] {
        let share = made[name] as f64 / 1000.5;
        assert!((share - percent).abs() < 0.3, "{name}: {share} %");
    }
    // All lanes have as many sub-traces as the others, or one more.
    let replayed = &names.phases[2].1;
    assert!(replayed.iter().all(|made| (16_600..=16_800).contains(made)), "{replayed:?}");
}

#[test]
fn a_mix_is_kept_that_removes_all_that_it_creates() {
    let spec = "linkedin:dirs=50,files=3000,calls=20000,mix=create:1/rename:1/unlink:1";
    Names::of(workload(spec, 7));
    let made = replayed(spec);
    assert!(made.get("open").is_none_or(|open| *open < 1500), "{made:?}");
}

#[test]
fn calls_stay_in_a_directory_for_a_while() {
    let of = |runs| {
        let spec = format!("linkedin:clients=1,dirs=5000,files=30000,calls=2000,runs={runs},mix=readdir:1");
        let listed: Vec<Path> =
            calls(workload(&spec, 1)).iter().rev().take(2000).map(|call| call.path().clone()).collect();
        listed.windows(2).filter(|pair| pair[0] != pair[1]).count()
    };
    assert!((200..300).contains(&of(8)) && of(1) > 1900, "{} {}", of(8), of(1));
}

#[test]
fn weak_scaling_multiplies_files_and_calls_on_them_but_not_directories() {
    let spec = |scale| format!("linkedin:dirs=500,files=3000,calls=10000,scale={scale}");
    let (one, four) = (Names::of(workload(&spec(1), 7)), Names::of(workload(&spec(4), 7)));
    let tree = |names: &Names, what: &str| names.files.iter().filter(|file| file.contains(what)).count();
    assert_eq!((tree(&one, "/f"), tree(&four, "/f")), (3000, 12_000));
    assert_eq!((tree(&one, "/n") * 4, one.dirs), (tree(&four, "/n"), four.dirs));
    let (one, four) = (replayed(&spec(1)), replayed(&spec(4)));
    for (name, calls) in one {
        let scale = if ["readdir", "mkdir", "chmod"].contains(&name) { 1 } else { 4 };
        assert_eq!(four[name], calls * scale, "{name}");
    }
}

#[test]
fn what_is_called_is_the_same_on_every_machine() {
    let print = print_of(workload("linkedin:dirs=500,files=3000,calls=5000,scale=2,choice=zipf", 42));
    assert_eq!(print, 0x33a9_166e_c633_db22, "{print:#018x}");
}
