//! Examples of each command, as its help shows them: two or more, of those that people need most. A test parses each; one of `tests/cli/examples.rs` runs those that
//! need nothing but a server and a mount. Not here: the commands themselves.

use clap::{Command, CommandFactory};

use super::Cli;

/// Words of a command, and lines to type.
type Examples = (&'static str, &'static [&'static str]);

/// Those of services.
const SERVICE: &[Examples] = &[
    (
        "up",
        &[
            "loligo up --data /srv/data --mount /mnt/fs",
            "loligo up --data /srv/data --mount /mnt/fs --daemon --ranks 4",
        ],
    ),
    ("down", &["loligo down --data /srv/data", "loligo down /mnt/fs"]),
    ("format", &["loligo format --data /srv/data", "loligo format --store rados:pool --conf /etc/ceph/ceph.conf"]),
    ("serve", &["loligo serve --data /srv/data", "loligo serve --data /srv/data --daemon --listen 127.0.0.1:7000"]),
    (
        "mount",
        &[
            "loligo mount --data /srv/data /mnt/second --daemon",
            "loligo mount --server host:7000 --identity me.pem /mnt/fs",
        ],
    ),
    ("umount", &["loligo umount /mnt/second", "loligo umount --lazy /mnt/second"]),
    (
        "auth add",
        &[
            "loligo auth add laptop --out laptop.pem /mnt/fs",
            "loligo auth add guest --allow r:/pub --out guest.pem --data /srv/data",
        ],
    ),
    ("auth list", &["loligo auth list /mnt/fs", "loligo auth list --data /srv/data --json"]),
    ("auth revoke", &["loligo auth revoke laptop /mnt/fs", "loligo auth revoke guest --data /srv/data"]),
];

/// Those that look.
const LOOK: &[Examples] = &[
    ("status", &["loligo status /mnt/fs", "loligo status --data /srv/data --json"]),
    ("top", &["loligo top /mnt/fs", "loligo top --data /srv/data --interval 0.1 --count 1"]),
    ("config", &["loligo config", "loligo config /mnt/fs --json"]),
    ("doctor", &["loligo doctor", "loligo doctor /srv/data --json"]),
    ("path", &["loligo path 1 --data /srv/data", "loligo path 1 --data /srv/data --json"]),
];

/// Those of policies and decoupled directories.
const POLICY: &[Examples] = &[
    (
        "policy set",
        &["loligo policy set /mnt/fs/job batchfs --dry-run", "loligo policy set /job relaxed --data /srv/data"],
    ),
    ("policy show", &["loligo policy show /mnt/fs/job", "loligo policy show /job --data /srv/data --json"]),
    ("policy history", &["loligo policy history /mnt/fs/job", "loligo policy history /mnt/fs/job --json"]),
    ("policy explain", &["loligo policy explain /mnt/fs/job", "loligo policy explain /job --data /srv/data --json"]),
    ("policy advise", &["loligo policy advise /mnt/fs/job", "loligo policy advise /job --data /srv/data --seconds 60"]),
    ("policy unset", &["loligo policy unset /mnt/fs/job", "loligo policy unset /job --data /srv/data"]),
    ("policy presets", &["loligo policy presets", "loligo policy presets --json"]),
    ("policy check", &["loligo policy check mine.toml", "loligo policy check -"]),
    ("run", &["loligo run /mnt/fs/job -- make -j8", "loligo run --policy deltafs /mnt/fs/job -- tar xf src.tar"]),
    ("decouple", &["loligo decouple /mnt/fs/job", "loligo decouple /mnt/fs/job --policy batchfs --lease 300"]),
    ("sync", &["loligo sync /mnt/fs/job", "loligo sync /mnt/fs/job --json"]),
    ("merge", &["loligo merge /mnt/fs/job", "loligo merge --stored /job --data /srv/data"]),
    ("recouple", &["loligo recouple /mnt/fs/job", "loligo recouple /mnt/fs/job --json"]),
    ("abandon", &["loligo abandon /mnt/fs/job", "loligo abandon --force /job --data /srv/data"]),
];

/// Those of ranks and balancers.
const RANKS: &[Examples] = &[
    ("rank list", &["loligo rank list /mnt/fs", "loligo rank list --data /srv/data --json"]),
    ("rank add", &["loligo rank add /mnt/fs", "loligo rank add 2 --data /srv/data"]),
    ("rank drain", &["loligo rank drain 1 /mnt/fs", "loligo rank drain 1 --wait --data /srv/data"]),
    ("rank undrain", &["loligo rank undrain 1 /mnt/fs", "loligo rank undrain 1 --data /srv/data"]),
    ("rank handover", &["loligo rank handover 1 /mnt/fs", "loligo rank handover 1 --to s2 --data /srv/data"]),
    ("subtree list", &["loligo subtree list /mnt/fs", "loligo subtree list --data /srv/data --json"]),
    ("subtree pin", &["loligo subtree pin /mnt/fs/job 0", "loligo subtree pin /job 0 --data /srv/data"]),
    ("subtree unpin", &["loligo subtree unpin /mnt/fs/job", "loligo subtree unpin /job --data /srv/data"]),
    ("subtree gather", &["loligo subtree gather /mnt/fs/job", "loligo subtree gather /job --data /srv/data"]),
    (
        "subtree migrate",
        &["loligo subtree migrate /mnt/fs/job 1", "loligo subtree migrate /job 1 --frag 1/1 --data /srv/data"],
    ),
    ("subtree split", &["loligo subtree split /mnt/fs/job", "loligo subtree split /job 3 --data /srv/data"]),
    ("subtree unsplit", &["loligo subtree unsplit /mnt/fs/job", "loligo subtree unsplit /job --data /srv/data"]),
    (
        "subtree place",
        &["loligo subtree place /mnt/fs/job giga", "loligo subtree place /job subtree --move --data /srv/data"],
    ),
    ("subtree unplace", &["loligo subtree unplace /mnt/fs/job", "loligo subtree unplace /job --data /srv/data"]),
    ("subtree lease", &["loligo subtree lease /mnt/fs/job 100ms", "loligo subtree lease /job rate --data /srv/data"]),
    ("subtree unlease", &["loligo subtree unlease /mnt/fs/job", "loligo subtree unlease /job --data /srv/data"]),
    ("balancer show", &["loligo balancer show /mnt/fs", "loligo balancer show greedy_spill --data /srv/data"]),
    ("balancer list", &["loligo balancer list /mnt/fs", "loligo balancer list --data /srv/data --json"]),
    (
        "balancer set",
        &["loligo balancer set greedy_spill /mnt/fs", "loligo balancer set mine mine.lua --data /srv/data"],
    ),
    (
        "balancer add",
        &["loligo balancer add greedy_spill /mnt/fs", "loligo balancer add mine mine.lua --data /srv/data"],
    ),
    ("balancer unset", &["loligo balancer unset /mnt/fs", "loligo balancer unset --data /srv/data"]),
    ("balancer rollback", &["loligo balancer rollback /mnt/fs", "loligo balancer rollback --data /srv/data"]),
    ("balancer history", &["loligo balancer history /mnt/fs", "loligo balancer history --data /srv/data --json"]),
    ("balancer lint", &["loligo balancer lint mine.lua", "loligo balancer lint policies/other.toml"]),
    (
        "balancer simulate",
        &[
            "loligo balancer simulate greedy_spill",
            "loligo balancer simulate mine.lua --against greedy_spill --ranks 4",
        ],
    ),
    ("balancer log", &["loligo balancer log /mnt/fs", "loligo balancer log -n 10 --data /srv/data --json"]),
    (
        "balancer explain",
        &["loligo balancer explain /mnt/fs", "loligo balancer explain --rank 0 -n 3 --data /srv/data"],
    ),
];

/// Those that look after it.
const CARE: &[Examples] = &[
    ("fsck", &["loligo fsck --data /srv/data", "loligo fsck --data /srv/data --data-checksums --repair"]),
    ("dump", &["loligo dump --data /srv/data --output names.txt", "loligo dump /mnt/fs --without-data"]),
    (
        "load",
        &["loligo load --data /srv/new names.txt", "loligo dump --data /srv/data | loligo load --data /srv/new -"],
    ),
    ("copy", &["loligo copy --from /srv/data --to /srv/copy", "loligo copy --from /srv/data --to rados:pool/fs"]),
    (
        "journal inspect",
        &["loligo journal inspect --data /srv/data --summary", "loligo journal inspect client.journal --json"],
    ),
    (
        "journal export",
        &[
            "loligo journal export --data /srv/data rank0.journal",
            "loligo journal export --from broken.journal whole.journal",
        ],
    ),
    (
        "journal import",
        &[
            "loligo journal import --data /srv/data --rank 0 rank0.journal --dry-run",
            "loligo journal import --data /srv/data --rank 0 rank0.journal",
        ],
    ),
    ("journal apply", &["loligo journal apply --data /srv/data --dry-run", "loligo journal apply --data /srv/data"]),
    (
        "journal erase",
        &["loligo journal erase --data /srv/data --lsn 7 --dry-run", "loligo journal erase client.journal --ino 300"],
    ),
    ("journal diff", &["loligo journal diff a.journal b.journal", "loligo journal diff /srv/data:0 rank0.journal"]),
    ("store check", &["loligo store check --data /srv/data", "loligo store check --store rados:pool --json"]),
];

/// The rest.
const TOOLS: &[Examples] = &[
    (
        "bench md",
        &["loligo bench md --data /srv/data --files 100", "loligo bench md --mount /mnt/fs --phases create,stat"],
    ),
    (
        "bench workload",
        &[
            "loligo bench workload create-shared:clients=8,files=5000",
            "loligo bench workload replay:trace.txt --dir /mnt/fs",
        ],
    ),
    ("completions", &["loligo completions bash > /etc/bash_completion.d/loligo", "loligo completions fish"]),
    ("version", &["loligo version", "loligo version --json"]),
];

fn all() -> impl Iterator<Item = &'static Examples> {
    [SERVICE, LOOK, POLICY, RANKS, CARE, TOOLS].into_iter().flatten()
}

/// The command line with all that its help shows.
pub fn command() -> Command {
    all().fold(Cli::command(), |command, (words, lines)| {
        let text = format!("Examples:\n  {}", lines.join("\n  "));
        add(command, &words.split(' ').collect::<Vec<_>>(), &text)
    })
}

fn add(command: Command, words: &[&str], text: &str) -> Command {
    if let [first, rest @ ..] = words {
        return command.mut_subcommand(first, |sub| add(sub, rest, text));
    }
    let text = match command.get_after_help() {
        Some(before) => format!("{text}\n\n{before}"),
        None => text.to_string(),
    };
    command.after_help(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(command: &Command, words: &str, found: &mut Vec<String>) {
        let subs: Vec<_> = command.get_subcommands().filter(|sub| !sub.is_hide_set()).collect();
        if subs.is_empty() {
            found.push(words.to_string());
        }
        for sub in subs {
            leaves(sub, format!("{words} {}", sub.get_name()).trim(), found);
        }
    }

    #[test]
    fn each_command_has_two_examples_and_the_command_line_takes_them() {
        let mut expected = Vec::new();
        leaves(&Cli::command(), "", &mut expected);
        let mut there: Vec<String> = all().map(|(words, _)| words.to_string()).collect();
        expected.sort();
        there.sort();
        assert_eq!(there, expected);
        for (words, lines) in all() {
            assert!(lines.len() >= 2, "{words}");
            for line in *lines {
                // The command in front of a pipe is another one, and a redirection is the shell's.
                for part in line.split(" | ") {
                    let part = part.split(" > ").next().unwrap_or(part);
                    let parsed = command().try_get_matches_from(part.split(' '));
                    assert!(parsed.is_ok(), "{part}: {}", parsed.err().map(|e| e.to_string()).unwrap_or_default());
                }
                let last = line.split(" | ").last().unwrap_or(line);
                assert!(last.starts_with(&format!("loligo {words}")), "{line} is no example of {words}");
            }
        }
    }
}
