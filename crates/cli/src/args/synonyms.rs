//! Words for commands that other programs use, and the command of ours that does the same. Not here: slips of the hand, which clap compares with
//! the names that there are.

/// Of each group of commands (`""`: the first word) the words of others, and what to write.
const WORDS: &[(&str, &[&str], &str)] = &[
    (
        "",
        &["start", "run-server", "server"],
        "loligo up --data DIR --mount DIR, or without a mount: loligo serve --data DIR",
    ),
    ("", &["stop", "shutdown", "kill"], "loligo down --data DIR; a mount alone: loligo umount MOUNT"),
    ("", &["unmount"], "loligo umount MOUNT"),
    ("", &["init", "mkfs", "create", "new"], "loligo format --data DIR; loligo up makes a new file system by itself"),
    ("", &["info", "df", "stat", "show", "health"], "loligo status MOUNT"),
    (
        "",
        &["check", "repair", "scrub"],
        "loligo fsck --data DIR, or of the store below it: loligo store check --data DIR",
    ),
    ("", &["backup", "snapshot", "restore", "clone"], "loligo copy --from DIR --to NEW"),
    (
        "",
        &["explain", "advise", "set", "unset", "presets", "promise"],
        "loligo policy WORD, as in: loligo policy explain DIR",
    ),
    (
        "",
        &["pin", "unpin", "migrate", "move", "place", "split", "gather", "lease"],
        "loligo subtree WORD, as in: loligo subtree migrate DIR RANK",
    ),
    ("", &["drain", "undrain", "handover", "add", "ranks"], "loligo rank WORD, as in: loligo rank drain N"),
    ("", &["ls", "list"], "loligo rank list, subtree list, balancer list or auth list"),
    (
        "",
        &["log", "logs"],
        "loligo balancer log for decisions of balancers, loligo journal inspect for journals; a server's log is DIR/loligo.log",
    ),
    ("", &["rm", "remove", "delete", "destroy"], "stop the server (loligo down), then remove the data directory"),
    ("", &["user", "identity", "key", "token"], "loligo auth add NAME"),
    ("", &["settings", "set-config"], "loligo config"),
    ("", &["inode", "ino"], "loligo path INODE"),
    ("policy", &["get", "cat", "print"], "loligo policy show DIR"),
    ("policy", &["list", "ls"], "loligo policy presets"),
    ("policy", &["rm", "remove", "delete", "clear"], "loligo policy unset DIR"),
    ("policy", &["rollback", "revert", "undo"], "loligo policy set DIR --rollback"),
    ("policy", &["lint", "validate"], "loligo policy check FILE"),
    ("balancer", &["get", "status"], "loligo balancer show"),
    ("balancer", &["check", "test", "validate"], "loligo balancer lint FILE"),
    (
        "balancer",
        &["rm", "remove", "delete", "none", "off"],
        "loligo balancer set none; back to the default: loligo balancer unset",
    ),
    ("rank", &["ls", "show", "status", "get"], "loligo rank list"),
    ("rank", &["rm", "remove", "del", "delete"], "loligo rank drain N"),
    ("rank", &["new", "create"], "loligo rank add"),
    ("rank", &["move", "give"], "loligo rank handover N"),
    ("subtree", &["ls", "show", "get"], "loligo subtree list"),
    ("subtree", &["merge", "join"], "loligo subtree unsplit DIR"),
    ("subtree", &["move", "mv", "export"], "loligo subtree migrate DIR RANK"),
    ("subtree", &["remove", "rm", "delete"], "loligo subtree unpin DIR or unplace DIR"),
    ("auth", &["rm", "remove", "del", "delete"], "loligo auth revoke NAME"),
    ("auth", &["ls", "show"], "loligo auth list"),
    ("auth", &["new", "create"], "loligo auth add NAME"),
    ("journal", &["show", "dump", "cat", "print"], "loligo journal inspect --data DIR"),
    ("journal", &["replay"], "loligo journal apply --data DIR"),
    ("journal", &["rm", "remove", "delete", "discard"], "loligo journal erase --data DIR --lsn N"),
    ("store", &["fsck", "verify", "scrub"], "loligo store check --data DIR"),
];

/// The command of ours for a word of a group.
pub fn of(group: &str, word: &str) -> Option<&'static str> {
    let is_it = |(of, words, _): &&(&str, &[&str], &str)| *of == group && words.contains(&word);
    WORDS.iter().find(is_it).map(|(_, _, ours)| *ours)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_word_of_others_is_one_of_ours_and_each_command_that_is_named_is_there() {
        let ours = crate::args::command();
        let group_of = |name: &str| match name {
            "" => Some(&ours),
            name => ours.find_subcommand(name),
        };
        let mut seen = BTreeSet::new();
        for (group, words, advice) in WORDS {
            let commands = group_of(group).expect("the group is there");
            for word in *words {
                assert!(commands.find_subcommand(word).is_none(), "{group} {word}");
                assert!(seen.insert((group, word)), "{group} {word} twice");
            }
            let named = advice.split("loligo ").skip(1).filter_map(|rest| rest.split([' ', ';', ',', ':']).next());
            for name in named.filter(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase())) {
                assert!(ours.find_subcommand(name).is_some(), "{advice}: {name}");
            }
        }
    }
}
