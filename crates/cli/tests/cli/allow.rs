//! A directory that one mount has decoupled and in which another one works meanwhile (`interfere = "allow"`), through two real mounts and their
//! kernels' caches: every row of the table of conflicts in docs/subtree-policies.md, for files in inodes and in objects. Work at random is in
//! `allow_rounds.rs`; what the rank decides is tested there.

use std::path::{Path, PathBuf};

use super::readers::{mounted, serve};
use super::run::{Place, Service, can_mount, loligo, sh, until};

/// Functions of all scripts: `put C FILE` writes a file of `$SIZE` bytes C, `is C FILE` looks whether it is that, `kept NAME` is what was kept of
/// one with this name.
const WORDS: &str = r#"
bytes() { head -c "$2" /dev/zero | tr '\0' "$1"; }
put() { bytes "$1" $SIZE > "$2"; }
is() { [ "$(stat -c %s "$2")" = $SIZE ] && [ "$(tr -d "$1" < "$2" | wc -c)" = 0 ]; }
kept() { set -- .conflicts/"$1"~*; [ $# = 1 ] && [ -e "$1" ] && printf %s "$1"; }
gone() { ! [ -e "$1" ]; }
cd "$D"
"#;

struct Row {
    what: &'static str,
    before: &'static str,
    owner: &'static str,
    others: &'static str,
    /// The views of both before the merge.
    meanwhile: [&'static str; 2],
    after: &'static str,
    told: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        what: "both do other things",
        before: "put b x; mkdir d",
        owner: "put o d/a; put o x",
        others: "put t d/c; mkdir e; chmod 700 d",
        // The owner may have read a directory since.
        meanwhile: ["is o d/a && is o x", "is t d/c && is b x && gone d/a"],
        after: "is o d/a && is o x && is t d/c && [ -d e ] && [ $(stat -c %a d) = 700 ] && gone .conflicts",
        told: "",
    },
    Row {
        what: "both make a name",
        before: ":",
        owner: "put o x",
        others: "put t x",
        meanwhile: ["is o x", "is t x"],
        after: "is o x && is t $(kept x)",
        told: "others had given its name to something else",
    },
    Row {
        what: "the owner renames onto a name that others made",
        before: "put b y",
        owner: "mv y x",
        others: "put t x",
        meanwhile: ["is b x && gone y", "is t x && is b y"],
        after: "is b x && gone y && is t $(kept x)",
        told: "others had given its name",
    },
    Row {
        what: "the owner removes a file that others write",
        before: "put b x",
        owner: "rm x",
        others: "put t x",
        meanwhile: ["gone x", "is t x"],
        after: "gone x && is t $(kept x)",
        told: "others had changed what was removed",
    },
    Row {
        what: "the owner writes and removes a file that others write",
        before: "put b x",
        owner: "put o x; sync x; rm x",
        others: "put t x",
        meanwhile: ["gone x", "is t x"],
        after: "gone x && is t $(kept x)",
        told: "others had changed what was removed",
    },
    Row {
        what: "the owner removes a file that others rename",
        before: "put b x",
        owner: "rm x",
        others: "mv x z",
        meanwhile: ["gone x && gone z", "is b z"],
        after: "gone x && gone z && [ $(ls .conflicts | wc -l) = 1 ] && is b .conflicts/*",
        told: ".conflicts has",
    },
    Row {
        what: "the owner removes a directory in which others make something",
        before: "mkdir d",
        owner: "rmdir d",
        others: "put t d/f",
        meanwhile: ["gone d", "is t d/f"],
        after: "gone d && is t $(kept d)/f",
        told: "others had changed what was removed",
    },
    Row {
        what: "both remove a file",
        before: "put b x",
        owner: "rm x",
        others: "rm x",
        meanwhile: ["gone x", "gone x"],
        after: "gone x && gone .conflicts",
        told: "",
    },
    Row {
        what: "both write a file",
        before: "put b x",
        owner: "put o x",
        others: "put t x",
        meanwhile: ["is o x", "is t x"],
        after: "is o x && is t $(kept x)",
        told: "others had written it, too",
    },
    Row {
        what: "both write a part of a file",
        before: "put b x",
        owner: "bytes o 10 | dd of=x conv=notrunc status=none bs=10 seek=2",
        others: "bytes t 10 | dd of=x conv=notrunc status=none bs=10 seek=30",
        meanwhile: ["[ $(tr -d bo < x | wc -c) = 0 ]", "[ $(tr -d bt < x | wc -c) = 0 ]"],
        after: "[ $(tr -dc o < x | wc -c) = 10 ] && [ $(tr -d bo < x | wc -c) = 0 ] && k=$(kept x) && [ $(tr -dc t < $k | wc -c) = 10 ] && \
                [ $(tr -d bt < $k | wc -c) = 0 ] && [ $(stat -c %s $k) = $SIZE ]",
        told: "others had written it, too",
    },
    Row {
        what: "both append to a file",
        before: "put b x",
        owner: "bytes o 200000 >> x",
        others: "bytes t 100000 >> x",
        meanwhile: ["[ $(tr -d bo < x | wc -c) = 0 ]", "[ $(tr -d bt < x | wc -c) = 0 ]"],
        after: "[ $(tr -dc o < x | wc -c) = 200000 ] && [ $(tr -dc b < x | wc -c) = $SIZE ] && [ $(tr -d bo < x | wc -c) = 0 ] && k=$(kept x) && \
                [ $(tr -dc t < $k | wc -c) = 100000 ] && [ $(tr -d bt < $k | wc -c) = 0 ] && [ $(tr -dc b < $k | wc -c) = $SIZE ]",
        told: "others had written it, too",
    },
    Row {
        what: "others make a file longer by a hole while the owner appends",
        before: "put b x",
        owner: "bytes o 100000 >> x",
        others: "truncate -s 900000 x",
        meanwhile: [
            "[ $(tr -d bo < x | wc -c) = 0 ]",
            "[ $(tr -d 'b\\0' < x | wc -c) = 0 ] && [ $(stat -c %s x) = 900000 ]",
        ],
        after: "[ $(tr -dc o < x | wc -c) = 100000 ] && k=$(kept x) && [ $(stat -c %s $k) = 900000 ] && [ $(tr -d 'b\\0' < $k | wc -c) = 0 ]",
        told: "others had written it, too",
    },
    Row {
        what: "others write a large file where the owner writes a small one",
        before: "put b x",
        owner: "bytes o 100 > x",
        others: "bytes t 700000 > x",
        meanwhile: ["[ $(tr -dc o < x | wc -c) = 100 ]", "[ $(tr -dc t < x | wc -c) = 700000 ]"],
        after: "[ $(tr -dc o < x | wc -c) = 100 ] && [ $(stat -c %s x) = 100 ] && [ $(tr -dc t < $(kept x) | wc -c) = 700000 ]",
        told: ".conflicts has",
    },
    Row {
        what: "the owner writes a large file where others write a small one",
        before: "put b x",
        owner: "bytes o 700000 > x",
        others: "bytes t 100 > x",
        meanwhile: ["[ $(tr -dc o < x | wc -c) = 700000 ]", "[ $(tr -dc t < x | wc -c) = 100 ]"],
        after: "[ $(tr -dc o < x | wc -c) = 700000 ] && k=$(kept x) && [ $(tr -dc t < $k | wc -c) = 100 ] && [ $(stat -c %s $k) = 100 ]",
        told: ".conflicts has",
    },
    Row {
        what: "both set the same attributes",
        before: "put b x",
        owner: "chmod 600 x; setfattr -n user.a -v o x",
        others: "chmod 640 x; setfattr -n user.a -v t x; setfattr -n user.b -v t x",
        meanwhile: ["[ $(stat -c %a x) = 600 ]", "[ $(stat -c %a x) = 640 ]"],
        after: "is b x && [ $(stat -c %a x) = 600 ] && [ $(getfattr --only-values -n user.a x) = o ] && [ $(getfattr --only-values -n user.b x) = t ]",
        told: "others had set the same attributes",
    },
    Row {
        what: "the owner writes a file that others remove",
        before: "put b x",
        owner: "put o x",
        others: "rm x",
        meanwhile: ["is o x", "gone x"],
        after: "is o x",
        told: "others had removed it, and it is back",
    },
    Row {
        what: "the owner writes a file that others remove with its directory",
        before: "mkdir -p d/e; put b d/e/x",
        owner: "put o d/e/x",
        others: "rm -r d",
        meanwhile: ["is o d/e/x", "gone d"],
        after: "is o d/e/x",
        told: "others had removed it, and it is back",
    },
    Row {
        what: "the owner writes a file that others remove, and they use its name",
        before: "put b x",
        owner: "put o x",
        others: "rm x; put t x",
        meanwhile: ["is o x", "is t x"],
        after: "is o x && is t $(kept x)",
        told: "others had",
    },
    Row {
        what: "the owner writes a file that others rename",
        before: "put b x",
        owner: "put o x",
        others: "mv x z",
        // The owner may have read the directory since.
        meanwhile: ["is o x", "is b z && gone x"],
        after: "is o z && gone x",
        told: "",
    },
    Row {
        what: "both rename a file",
        before: "put b x",
        owner: "mv x y",
        others: "mv x z",
        meanwhile: ["is b y", "is b z"],
        after: "is b y && gone z && gone x",
        told: "others had given it another name",
    },
    Row {
        what: "both move directories into each other's",
        before: "mkdir a b; put b a/f; put b b/g",
        owner: "mv a b/",
        others: "mv b a/",
        meanwhile: ["is b b/a/f", "is b a/b/g"],
        after: "[ $(find . -name f | wc -l) = 1 ] && [ $(find . -name g | wc -l) = 1 ] && [ -d .conflicts ]",
        told: ".conflicts has",
    },
    Row {
        what: "both give hard links",
        before: "put b x; ln x l",
        owner: "ln x h1; rm l",
        others: "ln x h2",
        meanwhile: ["gone l", "gone h1"],
        after: "is b x && is b h1 && is b h2 && gone l && [ $(stat -c %h x) = 3 ]",
        told: "",
    },
    Row {
        what: "the owner moves something that others remove",
        before: "put b x; mkdir d",
        owner: "mv x d/",
        others: "rm x",
        meanwhile: ["is b d/x", "gone x && gone d/x"],
        after: "is b d/x",
        told: "others had removed it, and it is back",
    },
    Row {
        what: "the owner makes and removes a name that others make",
        before: ":",
        owner: "put o x; rm x",
        others: "put t x",
        meanwhile: ["gone x", "is t x"],
        after: "is t x && gone .conflicts",
        told: "",
    },
];

/// A policy by which others may work.
pub fn policy(place: &Place) -> PathBuf {
    let policy = place.path("policy.toml");
    std::fs::write(&policy, "preset = 'batchfs'\ninterfere = 'allow'\nallocated_inodes = 1000\n").expect("written");
    policy
}

/// Two mounts, and the directory as each sees it.
pub fn both(place: &Place) -> (Service, Service, PathBuf, PathBuf) {
    let (owner, other) = (mounted(place, "owner"), mounted(place, "other"));
    (owner, other, place.path("owner/job"), place.path("other/job"))
}

#[test]
fn each_row_of_the_table_of_conflicts_is_so_through_two_mounts_for_files_in_inodes() {
    rows(500, 1);
}

#[test]
fn each_row_of_the_table_of_conflicts_is_so_through_two_mounts_for_files_in_objects() {
    rows(300_000, 1);
}

#[test]
fn each_row_of_the_table_of_conflicts_is_so_in_directories_of_another_rank() {
    rows(300_000, 3);
}

/// All rows with files of so many bytes. The directories are the last rank's.
fn rows(size: usize, ranks: u16) {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, ranks);
    let (owner, other) = (mounted(&place, "owner"), mounted(&place, "other"));
    let policy = policy(&place);
    let mut wrong = Vec::new();
    for (at, row) in ROWS.iter().enumerate() {
        let (mine, theirs) = (place.path(&format!("owner/{at}")), place.path(&format!("other/{at}")));
        std::fs::create_dir(&mine).expect("it is writable");
        if ranks > 1 {
            loligo("subtree migrate {} {}", &[&mine, Path::new(&(ranks - 1).to_string())]).ok();
        }
        let found = walk(row, size, (&mine, &theirs), &policy);
        wrong.extend(found.into_iter().map(|found| format!("{}: {found}", row.what)));
    }
    assert!(wrong.is_empty(), "{} of {} rows: {}", wrong.len(), ROWS.len(), wrong.join("\n"));
    assert_eq!((other.stop().0, owner.stop().0, server.stop().0), (0, 0, 0));
    loligo("fsck --data {} --data-checksums", &[&place.data()]).ok();
}

/// Goes through a row. Returns the first thing that is wrong.
fn walk(row: &Row, size: usize, (mine, theirs): (&Path, &Path), policy: &Path) -> Option<String> {
    let run = |script: &str, dir: &Path| sh(&format!("SIZE={size}{WORDS}{script}"), dir);
    let look = |when: &str, script: &str, dir: &Path| {
        let ran = run(script, dir);
        let listed = || run("ls -lRa . | head -40", dir).out;
        (ran.code != 0).then(|| format!("{when}, {}: {script}\n{}{}", dir.display(), ran.err, listed()))
    };
    let all = |looks: &[(&str, &str, &Path)]| looks.iter().find_map(|(when, script, dir)| look(when, script, dir));
    let both_know = "ls -lR . >/dev/null; find . -type f -exec cat {} + >/dev/null";
    if let Some(wrong) = all(&[("before", row.before, mine), ("before", both_know, theirs)]) {
        return Some(wrong);
    }
    loligo("decouple {} --policy {}", &[mine, policy]).ok();
    let wrong = all(&[
        ("the owner's work", row.owner, mine),
        ("the others' work", row.others, theirs),
        ("before the merge", row.meanwhile[0], mine),
        ("before the merge", row.meanwhile[1], theirs),
    ]);
    if wrong.is_some() {
        return wrong;
    }
    let told = loligo("merge {}", &[mine]).ok().err;
    if !told.contains(row.told) || row.told.is_empty() && told.contains("others had") {
        return Some(format!("told: {told}"));
    }
    let wrong = all(&[
        ("after the merge", row.after, mine),
        ("after the merge", row.after, theirs),
        ("both go on", "put p more; is p more", mine),
        ("both go on", "put q theirs; is q theirs", theirs),
    ]);
    if wrong.is_some() {
        return wrong;
    }
    loligo("recouple {}", &[mine]).ok();
    all(&[
        ("at the end", row.after, mine),
        ("at the end", "is p more && is q theirs", mine),
        ("at the end", "is p more && is q theirs", theirs),
    ])
}

#[test]
fn others_go_on_with_their_version_when_the_owner_dies_and_while_a_program_has_a_file_open_nothing_is_decoupled() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 1);
    let (owner, other, mine, theirs) = both(&place);
    std::fs::create_dir(&mine).expect("it is writable");
    let run = |script: &str, dir: &Path| sh(&format!("SIZE=300000{WORDS}{script}"), dir).ok();
    run("put b x", &mine);
    let policy = policy(&place);
    let open = std::fs::File::open(mine.join("x")).expect("it is there");
    loligo("decouple {} --policy {}", &[&mine, &policy]).fails(1, &["in use"]);
    // It is a directory like others, here and there.
    run("put t y; is t y", &theirs);
    run("is t y; put b z; is b z", &mine);
    drop(open);
    loligo("decouple {} --policy {} --lease 0.2", &[&mine, &policy]).ok();
    run("put o x; bytes o 100000 >> x; put o new", &mine);
    run("bytes t 1000 >> x", &theirs);
    owner.kill();
    let status = || loligo("status {}", &[&place.data()]).ok().out;
    until("it is taken back", || !status().contains("decoupled"));
    run(
        "[ $(tr -dc b < x | wc -c) = 300000 ] && [ $(tr -dc t < x | wc -c) = 1000 ] && [ $(stat -c %s x) = 301000 ]",
        &theirs,
    );
    // Nothing of the owner is behind the end.
    run("truncate -s 500000 x; [ $(tr -dc o < x | wc -c) = 0 ] && gone new && put t more", &theirs);
    let _ = std::process::Command::new("umount").arg("-l").arg(place.path("owner")).output();
    assert_eq!((other.stop().0, server.stop().0), (0, 0));
    loligo("fsck --data {} --data-checksums", &[&place.data()]).ok();
}

#[test]
fn a_check_keeps_what_an_owner_that_died_has_not_merged_and_what_others_wrote_meanwhile() {
    if !can_mount() {
        return;
    }
    for interfere in ["block", "allow", "read"] {
        let place = Place::new();
        let server = serve(&place, 1);
        let (owner, other, mine, theirs) = both(&place);
        std::fs::create_dir(&mine).expect("it is writable");
        let run = |script: &str, dir: &Path| sh(&format!("SIZE=300000{WORDS}{script}"), dir).ok();
        run("put b old; put b both; put b theirs", &mine);
        let policy = place.path("check.toml");
        let text = format!("preset = 'batchfs'\ninterfere = '{interfere}'\nallocated_inodes = 1000\n");
        std::fs::write(&policy, text).expect("written");
        loligo("decouple {} --policy {} --lease 3600", &[&mine, &policy]).ok();
        run("put o new; sync new; bytes o 9000000 >> old; sync old; put o both; sync both", &mine);
        if interfere == "allow" {
            run("put t both; sync both; put t theirs; sync theirs", &theirs);
        }
        owner.kill();
        let _ = std::process::Command::new("umount").arg("-l").arg(place.path("owner")).output();
        assert_eq!((other.stop().0, server.stop().0), (0, 0));
        let found = loligo("fsck --data {} --data-checksums --json", &[&place.data()]).ok().json();
        assert_eq!((&found["sound"], &found["leftover_objects"]), (&true.into(), &0.into()), "{interfere}: {found}");
        loligo("fsck --data {} --repair", &[&place.data()]).ok();
        let server = Service::start("serve --data {}", &[&place.data()]);
        let other = mounted(&place, "other");
        if interfere == "allow" {
            run("is t both; is t theirs; is b old", &theirs);
        }
        if interfere == "read" {
            run("is b both; is b old; is b theirs", &theirs);
        }
        let kept = std::fs::read_dir(place.path("keep-owner")).expect("it was kept").flatten().next();
        let journal = kept.expect("what was synced is in it").path();
        loligo("merge --force {} --data {}", &[&journal, &place.data()]).ok();
        run(
            "is o new; is o both; [ $(tr -dc b < old | wc -c) = 300000 ]; [ $(tr -dc o < old | wc -c) = 9000000 ]",
            &theirs,
        );
        if interfere == "allow" {
            run("is t theirs; is t $(kept both)", &theirs);
        }
        assert_eq!((other.stop().0, server.stop().0), (0, 0));
        loligo("fsck --data {} --data-checksums", &[&place.data()]).ok();
    }
}

#[test]
fn the_owners_version_of_a_file_begins_with_its_first_change_as_others_have_left_it() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 1);
    let (owner, other, mine, theirs) = both(&place);
    std::fs::create_dir(&mine).expect("it is writable");
    let run = |script: &str, dir: &Path| sh(&format!("SIZE=300000{WORDS}{script}"), dir).ok();
    run("put b cut; put b put; put b held; put b shut; put b mode", &mine);
    let policy = policy(&place);
    loligo("decouple {} --policy {}", &[&mine, &policy]).ok();
    run("is b cut; is b put; is b held; is b shut; is b mode; chmod 600 mode", &mine);
    let held = std::fs::OpenOptions::new().read(true).write(true).open(mine.join("held")).expect("it is there");
    run(
        "for n in cut held shut mode; do truncate -s 1000 $n; done; bytes t 5 | dd of=put bs=1 seek=200000 conv=notrunc status=none",
        &theirs,
    );
    // A byte far behind the end that others have given it: between them are zeros, as in any file.
    run("printf o | dd of=cut bs=1 seek=200000 conv=notrunc status=none", &mine);
    run("printf o | dd of=mode bs=1 seek=200000 conv=notrunc status=none", &mine);
    run("printf o | dd of=put bs=1 seek=100 conv=notrunc status=none; truncate -s 2000 shut", &mine);
    std::os::unix::fs::FileExt::write_all_at(&held, b"o", 200_000).expect("it is open");
    let cut = "[ $(stat -c %s F) = 200001 ] && [ $(tr -dc b < F | wc -c) = 1000 ] && [ $(tr -dc o < F | wc -c) = 1 ]";
    let begun = ["cut", "held", "mode"].map(|name| cut.replace('F', name)).join(" && ");
    let rest = "[ $(stat -c %s put) = 300000 ] && [ $(tr -dc b < put | wc -c) = 299994 ] && [ $(tr -dc t < put | wc -c) = 5 ] && \
                [ $(stat -c %s shut) = 2000 ] && [ $(tr -dc b < shut | wc -c) = 1000 ] && [ $(stat -c %a mode) = 600 ]";
    run(&format!("{begun} && {rest}"), &mine);
    run("[ $(stat -c %s cut) = 1000 ] && [ $(stat -c %s shut) = 1000 ] && [ $(tr -dc o < put | wc -c) = 0 ]", &theirs);
    drop(held);
    loligo("merge {}", &[&mine]).ok();
    for dir in [&mine, &theirs] {
        run(&format!("{begun} && {rest}"), dir);
    }
    loligo("recouple {}", &[&mine]).ok();
    assert_eq!((other.stop().0, owner.stop().0, server.stop().0), (0, 0, 0));
    loligo("fsck --data {} --data-checksums", &[&place.data()]).ok();
}

#[test]
fn files_that_the_owner_read_before_several_ranks_were_killed_do_not_keep_the_directory_from_being_given_back() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 2);
    let (owner, other, mine, theirs) = both(&place);
    std::fs::create_dir(&mine).expect("it is writable");
    let run = |script: &str, dir: &Path| sh(&format!("SIZE=500{WORDS}{script}"), dir).ok();
    run("put b x", &mine);
    let policy = policy(&place);
    loligo("decouple {} --policy {}", &[&mine, &policy]).ok();
    run("put o work; is b x", &mine);
    server.kill();
    let server = Service::start("serve --data {} --ranks 2", &[&place.data()]);
    loligo("recouple {}", &[&mine]).ok();
    run("is o work; is b x", &theirs);
    assert_eq!((other.stop().0, owner.stop().0, server.stop().0), (0, 0, 0));
}

#[test]
fn another_user_of_the_owners_mount_cannot_make_its_merge_impossible() {
    if !can_mount() || sh("command -v setpriv", Path::new("/")).code != 0 {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 1);
    let owner = mounted(&place, "owner");
    let job = place.path("owner/job");
    std::fs::create_dir(&job).expect("it is writable");
    std::fs::copy(super::run::LOLIGO, place.path("loligo")).expect("copied");
    let script = r#"
        chmod 755 "$D" "$D/loligo"; cd "$D/owner/job"
        as() { user=$1; shift; setpriv --reuid $user --regid $user --clear-groups "$@"; }
        echo b > suid; chown 4322:4322 suid; chmod 4777 suid; echo b > own; chown 4322:4322 own; chmod 644 own
        chown 4321:4321 .; chmod 777 .; sync suid own
        as 4321 "$D/loligo" decouple . --policy hdfs; as 4321 sh -c 'echo work > work'
        for user in 4321 4322 5555; do if as $user sh -c 'printf x >> suid' 2>/dev/null; then exit 9; fi; done
        if as 4322 sh -c 'printf x >> own' 2>/dev/null; then exit 8; fi
        [ $(stat -c %a suid) = 4777 ]
        as 4321 "$D/loligo" recouple . && [ $(cat work) = work ] && [ $(cat own) = b ]
    "#;
    sh(&format!("set -e; {script}"), place.dir.path()).ok();
    assert_eq!((owner.stop().0, server.stop().0), (0, 0));
}

#[test]
fn a_hole_that_the_owner_makes_behind_what_others_have_written_is_of_zeros() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 1);
    let (owner, other, mine, theirs) = both(&place);
    std::fs::create_dir(&mine).expect("it is writable");
    let run = |script: &str, dir: &Path| sh(&format!("SIZE=300000{WORDS}{script}"), dir).ok();
    run("put b x; put b y", &mine);
    let policy = policy(&place);
    loligo("decouple {} --policy {}", &[&mine, &policy]).ok();
    run("cat x y >/dev/null", &mine);
    run("bytes t 200000 >> x; bytes t 200000 >> y", &theirs);
    run("echo o | dd of=x bs=600000 seek=1 conv=notrunc status=none; truncate -s 600000 y", &mine);
    let has = "[ $(tr -dc b < F | wc -c) = 300000 ] && [ $(tr -dc t < F | wc -c) = 200000 ] && [ $(stat -c %s F) -ge 600000 ] && \
               [ $(tail -c +500001 F | head -c 100000 | tr -d '\\0' | wc -c) = 0 ]";
    for name in ["x", "y"] {
        run(&has.replace('F', name), &mine);
    }
    let told = loligo("merge {}", &[&mine]).ok().err;
    assert_eq!(told.matches("others had written it, too").count(), 2, "{told}");
    for (name, dir) in [("x", &mine), ("y", &mine), ("x", &theirs), ("y", &theirs)] {
        run(&has.replace('F', name), dir);
        run(&format!("[ $(tr -dc t < $(kept {name}) | wc -c) = 200000 ]"), dir);
    }
    loligo("recouple {}", &[&mine]).ok();
    assert_eq!((other.stop().0, owner.stop().0, server.stop().0), (0, 0, 0));
    loligo("fsck --data {} --data-checksums", &[&place.data()]).ok();
}

#[test]
fn what_is_open_at_the_owner_stays_readable_when_either_side_removes_it_and_what_others_write_comes_with_the_merge() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 1);
    let (owner, other, mine, theirs) = both(&place);
    std::fs::create_dir(&mine).expect("it is writable");
    let policy = policy(&place);
    for len in [500, 300_000] {
        let whole = |byte: u8| vec![byte; len];
        for name in ["theirs-removed", "own-removed", "changed"] {
            std::fs::write(mine.join(name), whole(b'b')).expect("written");
        }
        loligo("decouple {} --policy {}", &[&mine, &policy]).ok();
        let open = |name: &str| {
            let file = std::fs::OpenOptions::new().read(true).write(true).open(mine.join(name)).expect("it is there");
            (file, name.to_string())
        };
        let (removed_there, removed_here, changed) = (open("theirs-removed"), open("own-removed"), open("changed"));
        let read = |(file, name): &(std::fs::File, String)| {
            use std::os::unix::fs::FileExt;
            let mut bytes = vec![0; len + 1];
            let read = file.read_at(&mut bytes, 0).unwrap_or_else(|error| panic!("{name}, {len} bytes: {error}"));
            bytes.truncate(read);
            bytes
        };
        assert_eq!(read(&changed), whole(b'b'));
        std::fs::remove_file(theirs.join("theirs-removed")).expect("others work there");
        std::fs::remove_file(mine.join("own-removed")).expect("it is the owner's");
        std::fs::write(theirs.join("changed"), whole(b't')).expect("others work there");
        for _ in 0..2 {
            loligo("merge {}", &[&mine]).ok();
            assert_eq!(read(&removed_there), whole(b'b'), "others have removed it");
            assert_eq!(read(&removed_here), whole(b'b'), "the owner has removed it");
            assert_eq!(read(&changed), whole(b't'), "others have changed it");
            assert!(!theirs.join("own-removed").exists() && !mine.join("theirs-removed").exists());
        }
        use std::os::unix::fs::FileExt;
        removed_here.0.write_all_at(b"o", 0).expect("it is open");
        assert_eq!(read(&removed_here)[..2], *b"ob");
        loligo("recouple {}", &[&mine]).fails(1, &["open still"]);
        drop((removed_there, removed_here, changed));
        loligo("recouple {}", &[&mine]).ok();
        assert_eq!(std::fs::read(mine.join("changed")).expect("it is there"), whole(b't'));
    }
    assert_eq!((other.stop().0, owner.stop().0, server.stop().0), (0, 0, 0));
    // Files that were removed while they were open leave no objects.
    loligo("fsck --data {} --data-checksums", &[&place.data()]).ok();
}
