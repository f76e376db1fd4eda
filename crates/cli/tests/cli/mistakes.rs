//! More than a hundred mistakes, each with its exit code, and the words that the answer must and must not have. One server and one mount serve all: nothing here
//! changes anything, which is checked at the end. Not here: what a machine does to a user (`hostile.rs`), and orders that are refused in a certain state.

use super::run::{Place, Ran, Service, can_mount, loligo, not_tested, sh};

/// Arguments (`$M` is a mount, `$D` the data directory of its server, `$T` a directory of neither), exit code, words that the answer has, and that it has not.
type Mistake = (&'static str, i32, &'static [&'static str], &'static [&'static str]);

/// Words that no answer has: words of libraries, and advice to make a file system where one is.
const NEVER: &[&str] = &["panicked", "invalid digit", "format an empty one", "; there are\n", "unwrap"];

/// A mount, or a path in one, in place of a data directory.
const MOUNT_FOR_DATA: &[Mistake] = &[
    ("fsck --data $M", 1, &["$D is in use", "loligo down --data $D"], &["format"]),
    ("fsck $M", 1, &["$D is in use", "loligo down --data $D"], &["format"]),
    ("fsck $M/proj", 1, &["$D is in use", "loligo down --data $D"], &["format"]),
    ("fsck --repair $M", 1, &["$D is in use"], &["format"]),
    ("up --data $M --mount $T/m", 1, &["$M is a mount of the server of $D", "--data $D"], &["loligo format"]),
    ("serve --data $M", 1, &["$M is a mount of the server of $D", "--data $D"], &["loligo format"]),
    ("format --data $M", 1, &["$M is a mount of the server of $D", "empty or not there yet"], &[]),
    ("format --data $M/proj", 1, &["is in a mount of the server of $D"], &[]),
    ("copy --from $T/old --to $M", 1, &["$M is a mount of the server of $D"], &[]),
    ("copy --from $M --to $D", 2, &["is both the source and the target"], &[]),
    ("journal export --data $M --rank 9 $T/out", 1, &["$D has no journal of rank 9"], &[]),
    ("journal inspect $M --rank 9", 1, &["$D has no journal of rank 9"], &["no journal file"]),
    ("journal erase --data $M --lsn 1", 1, &["$D is in use"], &[]),
    ("journal apply --data $M", 1, &["$D is in use"], &[]),
];

/// Servers that are named wrongly, twice, or not at all.
const SERVERS: &[Mistake] = &[
    ("status", 2, &["no server is named", "a path inside a mount", "LOLIGO_SERVER"], &[]),
    ("status $M --server $T/socket", 2, &["$M and --server $T/socket name two servers", "leave one of them out"], &[]),
    ("status $M --server 127.0.0.1:1", 2, &["name two servers"], &[]),
    ("status $M --data $T/old", 1, &["no server runs on $T/old"], &[]),
    ("rank list --data $D --server $T/socket", 2, &["name two servers"], &[]),
    ("status $T", 1, &["$T is neither inside a Loligo mount nor the data directory of a server"], &[]),
    ("status --data $T", 1, &["$T is not a data directory of Loligo", "loligo up"], &["format an"]),
    ("status --data $T/none", 1, &["none does not exist"], &[]),
    ("status --data $T/old", 1, &["no server runs on $T/old", "loligo serve --data $T/old"], &[]),
    ("status --server nonsense", 2, &["nonsense", "HOST:PORT"], &[]),
    ("status --server $T/socket", 1, &["$T/socket does not answer"], &[]),
    ("status --server http://127.0.0.1:1", 1, &["http://127.0.0.1:1 does not answer"], &[]),
    ("down --data $T", 1, &["$T is not a data directory of Loligo"], &["format an"]),
    ("down", 2, &["--data"], &[]),
    ("down --data $D $M", 2, &["cannot be used with"], &[]),
    ("fsck", 2, &["--data"], &[]),
    ("down $T/old", 1, &["no server runs on $T/old"], &[]),
    (
        "up --data /etc --mount $T/m",
        1,
        &["/etc is not a data directory of Loligo", "empty or not there yet"],
        &["loligo format"],
    ),
    (
        "up --data $D --mount $M",
        1,
        &["$D is served already by process", "mounted at $M", "loligo mount --data $D"],
        &[],
    ),
    ("up --data $T/new --mount $M", 1, &["$M is in use"], &[]),
    ("up --data $T/new --mount $T/m --admin bad", 2, &["admin address bad", "HOST:PORT"], &[]),
    ("up --data $T/new --mount $T/m --admin 8.8.8.8:1", 2, &["reached from other machines"], &[]),
    ("up --data $T/new --mount $T/m --listen nonsense", 2, &["nonsense", "HOST:PORT"], &[]),
    ("up --data $T/new --mount $T/m --set identity=$T/none", 2, &["$T/none"], &[]),
    ("up --data $T/new --mount $T/full", 1, &["full is not empty", "--nonempty"], &[]),
    ("up --data $T/new", 2, &["--mount"], &[]),
    ("up --mount $T/m", 2, &["--data"], &[]),
    ("up --data $T/new --mount $T/m --ranks 65", 2, &["65"], &[]),
    (
        "up --store rados:pool --conf $T/none.conf --data $T/new --mount $T/m",
        2,
        &["Ceph's settings $T/none.conf", "--conf FILE"],
        &["data directory"],
    ),
    (
        "format --store rados:pool --conf $T/none.conf --data $T/new",
        2,
        &["Ceph's settings $T/none.conf"],
        &["data directory"],
    ),
    ("format --store nonsense --data $T/new", 2, &["names no store", "rados:POOL"], &[]),
    ("mount --data $D $M", 1, &["$M is in use"], &[]),
    ("mount --data $D $T/full", 1, &["full is not empty", "--nonempty"], &[]),
    ("mount --data $D $T/made/m --set identity=$T/none", 2, &["$T/none"], &[]),
    ("mount --data $D $T/made/m --set colour=red", 2, &["unknown setting `colour`"], &[]),
    ("mount --data $D $T/made/m --daemon --set give_up_ms=1", 2, &["give_up_ms"], &[]),
    ("mount --server 127.0.0.1:1 $T/made/m", 1, &["cannot connect to tcp:127.0.0.1:1", "running"], &[]),
    ("mount --data $D --path /none $T/made/m", 1, &["/none of the file system cannot be mounted"], &[]),
    ("mount --data $D", 2, &["<MOUNT>"], &[]),
    ("mount $T/m", 2, &["no server is named"], &[]),
    ("umount $T", 1, &["$T is no mount point"], &[]),
];

/// Names with a slip of the hand, and names that are nothing.
const NAMES: &[Mistake] = &[
    ("stauts", 2, &["a similar subcommand exists: 'status'"], &[]),
    ("policy sett $M", 2, &["'set'"], &[]),
    ("subtree migrat $M 0", 2, &["'migrate'"], &[]),
    ("journal inspekt", 2, &["'inspect'"], &[]),
    ("rank ad", 2, &["'add'"], &[]),
    ("status --jsn $M", 2, &["--json"], &[]),
    (
        "serve --data $T/old --set cahce_bytes=1",
        2,
        &["unknown setting `cahce_bytes`", "did you mean cache_bytes?"],
        &["known are", "trust_tcp"],
    ),
    ("config --set grace-ms=1", 2, &["did you mean grace_ms?"], &["known are"]),
    ("config --set colour=red", 2, &["unknown setting `colour`", "known are", "cache_bytes"], &["did you mean"]),
    ("config --set cache_bytes", 2, &["KEY=VALUE"], &[]),
    ("config --set cache_bytes=lots", 2, &["cache_bytes = `lots`", "a size such as 64MiB"], &[]),
    ("config --set grace_ms=soon", 2, &["grace_ms = `soon`", "a whole number"], &[]),
    ("config --set trust_tcp=maybe", 2, &["trust_tcp = `maybe`", "true or false"], &[]),
    ("config --set balancer=greedy_spil", 2, &["balancer = `greedy_spil`", "did you mean greedy_spill?"], &[]),
    ("config $T/none", 1, &["$T/none is no directory"], &[]),
    ("config --config $T/none.toml", 2, &["none.toml", "exists"], &[]),
    ("policy set $M/proj bachfs", 2, &["bachfs is neither a file nor a preset", "did you mean batchfs?"], &[]),
    ("policy set $M/proj nothing-like-it", 2, &["is neither a file nor a preset", "presets: posix"], &["did you mean"]),
    ("policy set $M/proj $T/bad.toml", 3, &["no key `durabilty`", "did you mean `durability`?"], &[]),
    ("policy check $T/bad.toml", 3, &["bad.toml:1:1", "did you mean `durability`?"], &[]),
    ("subtree place $M/proj gigo", 2, &["gigo", "giga"], &[]),
    (
        "balancer set $M greedy_spil",
        2,
        &["no policy greedy_spil comes with Loligo", "did you mean greedy_spill?"],
        &["No such file"],
    ),
    ("balancer set greedyspill $M", 2, &["did you mean greedy_spill?"], &[]),
    ("balancer set $M", 2, &["no policy is named", "greedy_spill"], &[]),
    ("balancer set no/name $M", 2, &["cannot be called"], &[]),
    ("balancer show greedy_spil --data $D", 1, &["there is no policy greedy_spil", "did you mean greedy_spill?"], &[]),
    ("balancer show $M greedy_spil", 1, &["there is no policy greedy_spil", "did you mean greedy_spill?"], &[]),
    ("balancer simulate greedy_spil", 2, &["did you mean greedy_spill?"], &[]),
    ("balancer lint $T/none.lua", 1, &["none.lua"], &[]),
    ("auth revoke labtop $M", 1, &["no identity labtop", "did you mean laptop?"], &[]),
    ("auth revoke nobody $M", 1, &["no identity nobody"], &["did you mean"]),
    ("auth add x --allow write:/ --out $T/key $M", 2, &["write:/"], &[]),
    ("auth add laptop --out $T/key $M", 1, &["laptop"], &[]),
    ("bench md --phases create,jump", 2, &["unknown phase `jump`"], &[]),
    ("bench workload creat-shared", 2, &["creat-shared"], &[]),
    ("completions basch", 2, &["bash"], &[]),
];

/// Directories that are none, and paths of the wrong kind.
const PATHS: &[Mistake] = &[
    ("policy show $T", 1, &["$T is not inside a Loligo mount", "--data DIR"], &[]),
    ("policy show $M/none", 1, &["$M/none: No such file or directory"], &[]),
    ("policy show /none --data $D", 1, &["/none"], &["(os error"]),
    ("policy show none --data $D", 2, &["a path in the file system", "/none"], &[]),
    ("policy explain $T", 1, &["$T is not inside a Loligo mount"], &[]),
    ("policy explain /none --data $D", 1, &["/none"], &["unexpected argument"]),
    ("policy explain", 2, &["<PATH>"], &[]),
    ("policy set $M/file posix", 1, &["$M/file is no directory"], &[]),
    ("policy unset $M/proj", 1, &["$M/proj has no policy of its own"], &[]),
    ("policy set $M/proj --rollback posix", 2, &["cannot be used with"], &[]),
    ("subtree pin $M/file 0", 1, &["$M/file is no directory"], &[]),
    ("subtree unpin $M/proj", 1, &["$M/proj is not pinned"], &[]),
    ("subtree unplace $M/proj", 1, &["does not say where directories live"], &[]),
    ("subtree unlease $M/proj", 1, &["allows no lookup leases"], &[]),
    ("subtree lease $M/proj forever", 2, &["forever", "1ms to 1000ms"], &[]),
    ("subtree migrate $M/proj 1", 1, &["there is no rank 1", "there is only rank 0", "loligo rank add 1"], &[]),
    (
        "subtree migrate $M/proj 0",
        1,
        &["$M/proj is at rank 0 already, as there is no other", "loligo rank add"],
        &["there is no rank 0"],
    ),
    ("subtree migrate /proj 7 --data $D", 1, &["there is no rank 7", "there is only rank 0"], &[]),
    ("subtree pin $M/proj 3", 1, &["there is no rank 3"], &[]),
    ("subtree migrate $T 0", 1, &["$T is not inside a Loligo mount"], &[]),
    ("subtree split $M/proj 99", 2, &["99"], &[]),
    ("decouple $M", 1, &["$M is the root of the file system", "name a directory below"], &["loligo policy set"]),
    ("decouple $T", 1, &["$T is not inside a Loligo mount"], &[]),
    ("sync $M/proj", 1, &["is not decoupled by this mount"], &[]),
    ("recouple $M/file", 1, &["$M/file is no directory"], &[]),
    ("merge $T/none", 1, &["$T/none"], &[]),
    ("merge --stored $M/proj", 1, &["is not decoupled"], &[]),
    ("merge --stored --force $M/proj", 1, &["is not decoupled"], &["unexpected"]),
    ("merge --force --stored $M/proj", 1, &["is not decoupled"], &["unexpected"]),
    ("merge --force $M/proj", 2, &["is merged by its owner", "leave out --force"], &[]),
    ("abandon $M/proj", 1, &["is not decoupled by this mount"], &[]),
    ("abandon", 2, &["<DIRECTORY|FILE>"], &[]),
    ("abandon --remove --stored $M/proj", 2, &["cannot be used with"], &[]),
    ("policy check $T/relaxed.toml", 3, &["with this policy nothing is decoupled", "strong/none", "leave it out"], &[]),
    ("run $M/proj", 2, &["<COMMAND>"], &[]),
    ("path x --data $D", 2, &["x is neither a number of an inode nor a directory"], &[]),
    ("path $M", 2, &["no inode is named"], &[]),
    ("path 99999 $M", 1, &["inode 99999 has no path"], &[]),
    ("stop", 2, &["there is no command `loligo stop`", "loligo down"], &["store"]),
    ("rm", 2, &["there is no command `loligo rm`"], &["format"]),
    ("policy get $M", 2, &["there is no command `loligo policy get`", "policy show"], &[]),
    ("rank rm 1", 2, &["`loligo rank rm`", "rank drain"], &[]),
    ("auth del x", 2, &["`loligo auth del`", "auth revoke"], &[]),
    ("subtree merge $M/d", 2, &["`loligo subtree merge`", "loligo subtree unsplit DIR"], &[]),
    ("balancer get --data $D", 2, &["`loligo balancer get`", "loligo balancer show"], &[]),
    ("migrate $M 1", 2, &["`loligo migrate`", "subtree migrate"], &["merge"]),
    ("status $M/nowhere", 1, &["$M/nowhere does not exist"], &[]),
    ("subtree list $M/no/where", 1, &["does not exist"], &[]),
    ("bench md --mount $T/nope", 2, &["there is no such directory"], &[]),
    ("policy show / --data $D --server /no/such/socket", 2, &["name two servers"], &[]),
    ("mount --data $D --server /no/such/socket $T/m", 2, &["name two servers"], &[]),
    ("policy set $M/proj /dev/null", 2, &["is empty", "policy unset"], &[]),
    ("rank drain 0 $M --dry-run", 1, &["rank 0 is the last one"], &[]),
    ("rank undrain 0 $M --dry-run", 1, &["rank 0 is not being drained"], &[]),
    ("rank handover 0 $M --dry-run", 1, &["one machine's disk"], &[]),
    ("rank add 64 $M --dry-run", 1, &["ranks are too many"], &[]),
    ("fsck --data $T/bad.toml", 1, &["$T/bad.toml is a file, and no data directory"], &["does not exist"]),
    ("path 1", 2, &["no server is named"], &[]),
    ("path 99999 --data $M", 1, &["inode 99999 has no path"], &["not a data directory"]),
    ("path 99999 --data $D", 1, &["inode 99999 has no path"], &[]),
];

/// Ranks and numbers.
const NUMBERS: &[Mistake] = &[
    ("rank add nine $M", 2, &["nine is no number of ranks", "up to 64"], &[]),
    ("rank add $M nine", 2, &["nine"], &[]),
    ("rank add 0 $M", 2, &["0 ranks are not added", "from 1 to 64"], &[]),
    ("rank add 65 $M", 2, &["65 is no number of ranks", "up to 64"], &[]),
    ("rank add $T", 1, &["$T is neither inside a Loligo mount"], &[]),
    ("rank drain $M", 2, &["no rank is named", "loligo rank list $M"], &[]),
    ("rank drain first $M", 2, &["first is no rank"], &[]),
    ("rank drain 9 $M", 1, &["rank 9"], &[]),
    ("rank drain $M 9", 1, &["rank 9"], &[]),
    ("rank undrain 0 $M", 1, &["rank 0"], &[]),
    ("rank handover 0 $M", 1, &[], &[]),
    ("top $M --interval 0", 2, &["--interval 0"], &[]),
    ("down --timeout soon --data $D", 2, &["soon"], &["stopped"]),
    ("journal inspect", 2, &["--data"], &[]),
    ("journal inspect $T", 2, &["$T is a directory, and no journal file"], &[]),
    ("journal erase --data $T/old", 2, &["which records are to be erased is not said"], &[]),
    ("load --data $T/new $T/bad.toml", 1, &["no dump"], &[]),
    ("dump --data $T/old --output $T/none/dump", 1, &["none/dump"], &[]),
];

/// Runs one; its words with the places as they are written here.
fn ran(place: &Place, words: &str) -> (Ran, String) {
    let paths = [("$M", place.mount()), ("$D", place.data()), ("$T", place.dir.path().to_path_buf())];
    let full =
        paths.iter().fold(words.to_string(), |words, (name, path)| words.replace(name, &path.display().to_string()));
    let ran = loligo(&full, &[]);
    let told = format!("{}{}", ran.out, ran.err);
    let told = paths.iter().fold(told, |told, (name, path)| told.replace(&path.display().to_string(), name));
    (ran, told)
}

#[test]
fn a_hundred_mistakes_are_answered_with_the_thing_the_cause_and_the_remedy() {
    if !can_mount() {
        return not_tested("mistakes on the command line: most name a mount");
    }
    let place = Place::new();
    loligo("format --data {}", &[&place.path("old")]).ok();
    std::fs::create_dir(place.path("full")).expect("a directory");
    std::fs::write(place.path("full/x"), "").expect("a file");
    std::fs::write(place.path("bad.toml"), "durabilty = 'none'\n").expect("a file");
    std::fs::write(place.path("relaxed.toml"), "preset = 'relaxed'\ninterfere = 'block'\n").expect("a file");
    let up = Service::start("up --data {} --mount {}", &[&place.data(), &place.mount()]);
    super::run::sh("mkdir $D/proj; echo x >$D/proj/file; echo x >$D/file", &place.mount()).ok();
    loligo("auth add laptop --out {} {}", &[&place.path("laptop.pem"), &place.mount()]).ok();
    let status = loligo("status {}", &[&place.mount()]).ok().out;
    assert!(!status.contains(" 1 sessions") && !status.contains(" 1 connections"), "{status}");
    let all: Vec<&Mistake> = [MOUNT_FOR_DATA, SERVERS, NAMES, PATHS, NUMBERS].into_iter().flatten().collect();
    assert!(all.len() >= 100, "{}", all.len());
    let mut wrong = Vec::new();
    for (words, code, has, has_not) in all {
        let (ran, told) = ran(&place, words);
        let mut complain = |what: String| wrong.push(format!("loligo {words}: {what}\n{told}"));
        if ran.code != *code {
            complain(format!("exit code {} for {code}", ran.code));
        }
        has.iter().filter(|word| !told.contains(**word)).for_each(|word| complain(format!("no `{word}`")));
        let never = has_not.iter().chain(NEVER).filter(|word| told.contains(**word));
        never.for_each(|word| complain(format!("has `{word}`")));
    }
    assert!(wrong.is_empty(), "{} answers are wrong:\n\n{}", wrong.len(), wrong.join("\n"));
    // Nothing was made, and nothing changed.
    let mut left: Vec<_> = std::fs::read_dir(place.dir.path())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    left.sort();
    assert_eq!(left, ["bad.toml", "data", "full", "laptop.pem", "mnt", "old", "relaxed.toml"]);
    assert_eq!(
        super::run::sh("ls $D; getfattr -d -m loligo.policy $D/proj 2>/dev/null", &place.mount()).ok().out,
        "file\nproj\n"
    );
    assert_eq!(up.stop().0, 0);
    loligo("fsck --data {}", &[&place.data()]).ok();
}

#[test]
fn a_path_that_does_not_exist_inside_a_mount_does_not_stop_its_server() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    let typo = place.path("mnt/typo");
    for command in ["down {}", "down --data {}", "fsck --data {}"] {
        loligo(command, &[&typo]).fails(1, &["mnt/typo does not exist"]);
    }
    sh("echo still > $D/served", &mount).ok();
    // It is not damaged.
    let refused = loligo("fsck --data {} --repair", &[&data]).fails(1, &["is in use by another server"]);
    assert!(!refused.err.contains("backup"), "{}", refused.err);
    assert_eq!(up.stop().0, 0);
}

#[test]
fn a_log_is_not_written_through_a_link_that_anybody_may_have_put() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    let server = Service::start("serve --data {}", &[&place.data()]);
    let public = place.path("public");
    std::fs::create_dir(&public).expect("a directory");
    std::fs::set_permissions(&public, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).expect("set");
    let (link, aim) = (public.join("log"), place.path("aim"));
    std::os::unix::fs::symlink(&aim, &link).expect("linked");
    loligo("mount --data {} {} --daemon --log-file {}", &[&place.data(), &place.mount(), &link])
        .fails(1, &["public/log"]);
    assert!(!aim.exists());
    assert_eq!(server.stop().0, 0);
}
