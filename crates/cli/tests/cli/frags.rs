//! Directories cut into fragments: by hand, by their entries over a mount, and settings that contradict.

use super::run::{Place, Service, can_mount, loligo, sh};

const SMALL: &str = "--set frag_split_entries=1000 --set frag_merge_entries=60 --set frag_split_bits=3";

#[test]
fn a_directory_is_split_and_merged_by_hand() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {}", &[&data]);
    let told = |words: &str| loligo(&format!("subtree {words} --data {{}}"), &[&data]).ok().out;
    let dry = told("split / 4 --dry-run");
    assert!(dry.starts_with("/: 1 fragment -> 16, or more"), "{dry}");
    assert!(dry.ends_with("nothing was changed: leave out --dry-run to do it\n"), "{dry}");
    assert_eq!(told("split / 4"), "/: 1 fragment -> 16\n");
    let dry = told("unsplit / --dry-run");
    assert!(dry.contains("16 fragments -> as few as its entries allow"), "{dry}");
    assert_eq!(told("split /"), "/: 16 fragments -> 128\n");
    assert_eq!(told("split / 2"), "/: 128 fragments -> 4\n");
    assert_eq!(told("unsplit /"), "/: 4 fragments -> 1\n");
    assert!(told("unsplit / --dry-run").contains("nothing was changed"));
    assert_eq!(told("unsplit /"), "/: 1 fragment -> 1\n");
    assert_eq!(told("split / 24"), format!("/: 1 fragment -> {}\n", human(16_777_216)));
    loligo("subtree split --data {} / 25", &[&data]).fails(2, &["25"]);
    loligo("subtree split --data {} /none 2", &[&data]).fails(1, &["/none", "no such file"]);
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

/// As the command writes large numbers.
fn human(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[test]
fn settings_that_would_split_and_merge_for_ever_are_refused() {
    let place = Place::new();
    loligo("config --set frag_split_bits=x", &[]).fails(2, &["frag_split_bits", "whole number"]);
    loligo("format --data {}", &[&place.data()]).ok();
    for (set, word) in [("frag_merge_entries=5000", "at most 625"), ("frag_split_bits=0", "from 1 to 8")] {
        let words = format!("serve --data {{}} --set {set}");
        loligo(&words, &[&place.data()]).fails(2, &[set.split_once('=').expect("a value").0, word]);
    }
}

#[test]
fn a_directory_of_50_000_files_over_a_mount_splits_lists_and_merges_through_a_restart() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    let up = format!("up --data {{}} --mount {{}} {SMALL}");
    let server = Service::start(&up, &[&data, &mount]);
    let frags = || sh("getfattr --only-values -n loligo.dir.frags $D/d", &mount).ok().out;
    let count = || sh("ls -fA $D/d | sort | uniq | wc -l; ls -fA $D/d | wc -l", &mount).ok().out;
    // In parallel, so that one sync is for many; in pieces, since a command must not take long on a slow machine either.
    let all = |call: &str, from: u64, to: u64| {
        let pool = "from concurrent.futures import ThreadPoolExecutor as Pool";
        for from in (from..to).step_by(10_000) {
            let to = to.min(from + 10_000);
            let run = format!("all(Pool(64).map(lambda n: {call} or 1, range({from}, {to}))) or sys.exit(1)");
            sh(&format!("python3 -c 'import os, sys; {pool}; d = sys.argv[1] + \"/d/\"; {run}' $D"), &mount).ok();
        }
    };
    sh("mkdir $D/d", &mount).ok();
    assert_eq!(frags(), "1");
    all("os.mknod(d + str(n))", 0, 50_000);
    assert_eq!((frags().as_str(), count().as_str()), ("64", "50000\n50000\n"));
    assert_eq!(server.stop().0, 0);
    let server = Service::start(&up, &[&data, &mount]);
    assert_eq!((frags().as_str(), count().as_str()), ("64", "50000\n50000\n"));
    sh("touch $D/d/0 $D/d/1 $D/d/2 $D/d/3; stat $D/d/* > /dev/null", &mount).ok();
    let status = loligo("status --data {}", &[&data]).ok().out;
    assert!(status.contains("/d ") && status.contains("/6"), "a fragment of the directory is hot: {status}");
    all("os.unlink(d + str(n))", 0, 49_000);
    assert_eq!((frags().as_str(), count().as_str()), ("8", "1000\n1000\n"));
    server.kill();
    let server = Service::start(&up, &[&data, &mount]);
    assert_eq!((frags().as_str(), count().as_str()), ("8", "1000\n1000\n"));
    all("os.unlink(d + str(n))", 49_000, 50_000);
    assert_eq!((frags().as_str(), count().as_str()), ("1", "0\n0\n"));
    sh("rmdir $D/d", &mount).ok();
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}
