//! Examples that the help shows, run as they stand, with directories of the test in place of those that they name. Not here: whether each is one that the command
//! line takes (`args/examples.rs`), and those of the documents (`documents.rs`).

use super::run::{LOLIGO, Place, Service, can_mount, loligo, not_tested, sh};

/// Commands whose examples need no more than a server with a mount and a directory `job`, in an order in which they can be run.
const RUN: &[&str] = &[
    "auth add",
    "auth list",
    "auth revoke",
    "status",
    "top",
    "config",
    "path",
    "policy set",
    "policy show",
    "policy history",
    "policy explain",
    "policy presets",
    "subtree list",
    "subtree pin",
    "subtree unpin",
    "subtree split",
    "subtree unsplit",
    "subtree place",
    "subtree lease",
    "balancer show",
    "balancer list",
    "balancer simulate",
    "balancer history",
    "balancer log",
    "balancer explain",
    "rank list",
    "rank add",
    "subtree migrate",
    "dump",
    "version",
];

/// Those that do not end, name what is not there (a file of the user, another machine), or what another one has made before.
const NOT_RUN: &[&str] = &["loligo top /mnt/fs", "--frag 1/1", "mine.lua", "/job relaxed", "laptop.pem /mnt/fs"];

#[test]
fn examples_of_the_help_can_be_run_as_they_stand() {
    if !can_mount() {
        return not_tested("examples of the help: most name a mount");
    }
    let place = Place::new();
    let up = Service::start("up --data {} --mount {}", &[&place.data(), &place.mount()]);
    sh("mkdir $D/job", &place.mount()).ok();
    loligo("auth add laptop --out {} {}", &[&place.path("laptop.pem"), &place.mount()]).ok();
    let (data, mount) = (place.data(), place.mount());
    let mut count = 0;
    for words in RUN {
        let help = loligo(&format!("{words} --help"), &[]).ok().out;
        let examples =
            help.split("Examples:\n").nth(1).expect("examples").lines().take_while(|line| line.starts_with("  "));
        for line in examples.map(str::trim).filter(|line| !NOT_RUN.iter().any(|not| line.contains(not))) {
            let line = line.replace("/mnt/fs", &mount.display().to_string());
            let line = line.replace("/srv/data", &data.display().to_string());
            let line = line.replacen("loligo ", &format!("timeout 60 {LOLIGO} "), 1);
            let ran = sh(&format!("cd $D; {line}"), place.dir.path());
            // Removing what the example before has removed is no success, and the right answer.
            let undone = line.contains(" un") && ran.err.contains(" not ");
            assert!(ran.code == 0 || undone, "{line}: {}{}", ran.out, ran.err);
            count += 1;
        }
    }
    assert!(count >= 50, "{count}");
    assert_eq!(up.stop().0, 0);
}
