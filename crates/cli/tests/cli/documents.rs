//! README and the documents, followed as they are printed: the shell blocks of each are run one after the other, in one shell, in a directory
//! and namespaces of their own (mounts, processes, network), where `/var/lib` is empty.
//!
//! A block says what it is. `sh` is run; one with a file's name behind its kind (`lua mine.lua`) is written there; the lines of a block `output` must
//! be in what the block before it printed; others are only to be read. Two comments may stand above a block `sh`, and are not shown to the reader:
//!
//! ```text
//! <!-- first: COMMANDS -->      what the reader has by then and no block of the document makes
//! <!-- not run: REASON -->      it cannot be run here
//! ```
//!
//! What is not run, and commands in running text, must at least be commands and options that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::run::{LOLIGO, Place, can_mount, loligo, not_tested};

/// A document may take so long, seconds.
const PATIENCE: &str = "500";
/// In what is printed, the begin of a block.
const MARK: &str = "=== block at line ";

/// A block of a document.
#[derive(Debug)]
struct Block<'a> {
    /// Where it begins.
    line: usize,
    kind: &'a str,
    /// The file's name behind the kind.
    file: Option<&'a str>,
    text: &'a str,
    first: Option<&'a str>,
    not_run: Option<&'a str>,
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project")
}

/// README and all documents for users, by their paths.
fn documents() -> BTreeMap<String, String> {
    let read = |name: String| {
        let text = std::fs::read_to_string(top().join(&name)).expect("a document");
        (name, text)
    };
    let in_docs = std::fs::read_dir(top().join("docs")).expect("documents");
    let names = in_docs.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let names = names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    names.chain(["README.md".into(), "CONTRIBUTING.md".into()]).map(read).collect()
}

fn comment<'a>(above: &'a str, what: &str) -> Option<&'a str> {
    let (_, rest) = above.split_once(what)?;
    Some(rest.split_once("-->").expect("a comment has an end").0.trim())
}

fn blocks(document: &str) -> Vec<Block<'_>> {
    let parts: Vec<&str> = document.split("\n```").collect();
    assert!(parts.len() % 2 == 1, "each block has an end");
    let mut line = 1;
    let mut all = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        if at % 2 == 1 {
            let (head, text) = part.split_once('\n').unwrap_or((part, ""));
            let (kind, file) = head.split_once(' ').map_or((head, None), |(kind, file)| (kind, Some(file)));
            let above = parts[at - 1];
            let (first, not_run) = (comment(above, "<!-- first:"), comment(above, "<!-- not run:"));
            all.push(Block { line, kind, file, text, first, not_run });
        }
        line += part.matches('\n').count() + 1;
    }
    all
}

fn is_run(block: &Block<'_>) -> bool {
    block.kind == "sh" && block.not_run.is_none()
}

/// The documents with blocks that are run, each with a test below.
const FOLLOWED: [&str; 7] = [
    "README.md",
    "docs/backup.md",
    "docs/placement.md",
    "docs/security.md",
    "docs/subtree-policies.md",
    "docs/tutorial-checkpoint.md",
    "docs/write-a-balancer.md",
];

/// One shell for all of it, as the reader has.
fn script(blocks: &[Block<'_>]) -> String {
    let bin = Path::new(LOLIGO).parent().expect("it lies somewhere").display();
    let mut script = format!(
        "exec 2>&1\nmount --make-rprivate /\nmount -t tmpfs tmpfs /var/lib\nip link set lo up\n\
         cp /etc/hosts \"$D/hosts\"\necho 127.0.0.1 server.example >> \"$D/hosts\"\nmount --bind \"$D/hosts\" /etc/hosts\n\
         mkdir \"$D/here\"\ncd \"$D/here\"\nexport PATH={bin}:$PATH\n"
    );
    // Something may be in /mnt of this machine: then another directory stands for it.
    let is_free = std::fs::read_dir("/mnt").is_ok_and(|mut entries| entries.next().is_none());
    let there = if is_free { "/mnt" } else { "$D/here/mnt" };
    if !is_free {
        script.push_str("mkdir \"$D/here/mnt\"\n");
    }
    for block in blocks {
        if let Some(file) = block.file {
            script.push_str(&format!("cat > {file} <<'end of {file}'\n{}\nend of {file}\n", block.text));
        }
        if is_run(block) {
            let first = block.first.unwrap_or_default();
            let text = format!("{first}\necho '{MARK}{}'\n{}\n", block.line, block.text);
            script.push_str(&text.replace("/mnt", there));
        }
    }
    script
}

/// Runs it as the first process of its namespaces: with it end all that it has started, and what is mounted.
fn run(script: &str, dir: &Path) -> (bool, String) {
    let mut shell = Command::new("timeout");
    shell.args(["-s", "KILL", PATIENCE, "unshare", "-m", "-n", "-p", "--fork", "--kill-child", "--mount-proc"]);
    shell.args(["sh", "-euc", script]).current_dir(dir).env("D", dir).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOLIGO_")) {
        shell.env_remove(name);
    }
    let output = shell.output().expect("`timeout` is there");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success(), said)
}

fn follow(name: &str) {
    if !can_mount() {
        return;
    }
    let tools =
        ["unshare -m -n -p --fork --kill-child --mount-proc true", "ip -V", "make --version", "getfattr --version"];
    if !tools.iter().all(|tool| super::run::sh(tool, Path::new("/")).code == 0) {
        return not_tested("commands in documents: they need root, namespaces, iproute2, make and attr");
    }
    let text = documents().remove(name).expect("a document");
    let blocks = blocks(&text);
    let place = Place::new();
    let (is_ok, said) = run(&script(&blocks), place.dir.path());
    let at = said.rsplit(MARK).next().and_then(|rest| rest.split_once('\n')).map_or("begin", |(line, _)| line);
    assert!(is_ok, "{name}: the block at line {at} fails:\n{said}");
    let printed: BTreeMap<usize, &str> = said
        .split(MARK)
        .skip(1)
        .filter_map(|part| part.split_once('\n'))
        .map(|(line, rest)| (line.parse().expect("a number"), rest))
        .collect();
    assert_eq!(printed.len(), blocks.iter().filter(|block| is_run(block)).count(), "{said}");
    let mut before = "";
    for block in &blocks {
        if is_run(block) {
            before = printed[&block.line];
        }
        for line in block.text.lines().filter(|_| block.kind == "output") {
            assert!(before.contains(line), "{name}, line {}: no `{line}` in:\n{before}", block.line);
        }
    }
}

#[test]
fn what_readme_shows_works_as_it_is_printed() {
    follow("README.md");
}

#[test]
fn every_step_of_the_guide_to_balancers_works_as_it_is_printed() {
    follow("docs/write-a-balancer.md");
}

#[test]
fn every_step_of_the_tutorial_works_as_it_is_printed() {
    follow("docs/tutorial-checkpoint.md");
}

#[test]
fn what_is_said_of_placement_works_as_it_is_printed() {
    follow("docs/placement.md");
}

#[test]
fn every_step_of_a_backup_and_a_restore_works_as_it_is_printed() {
    follow("docs/backup.md");
}

#[test]
fn what_is_said_of_identities_works_as_it_is_printed() {
    follow("docs/security.md");
}

#[test]
fn what_is_said_of_policies_of_subtrees_works_as_it_is_printed() {
    follow("docs/subtree-policies.md");
}

#[test]
fn every_block_says_what_it_is_and_every_command_is_run_or_says_why_not() {
    let (documents, mut followed) = (documents(), BTreeSet::new());
    for (name, text) in &documents {
        for block in blocks(text) {
            let at = format!("{name}, line {}", block.line);
            assert!(!block.kind.is_empty(), "{at}: of what kind is this block?");
            assert!(
                ["sh", "output", "console", "text", "toml", "lua", "rust"].contains(&block.kind),
                "{at}: is `{}` a kind of block that shows commands? Then write it `sh`",
                block.kind
            );
            assert!(block.not_run.is_none_or(|why| why.len() > 10), "{at}: why is it not run?");
            assert!(block.kind != "console" || block.not_run.is_some(), "{at}: commands are `sh`");
            let is_prompt = |line: &str| line.starts_with("$ ") || line.starts_with("loligo ");
            assert!(block.kind != "text" || !block.text.lines().any(is_prompt), "{at}: commands are `sh`");
            if is_run(&block) {
                followed.insert(name.as_str());
            }
        }
    }
    assert_eq!(followed, BTreeSet::from(FOLLOWED), "each has a test of its own");
}

/// The words of each command of `loligo` in a text.
fn commands(text: &str) -> impl Iterator<Item = Vec<&str>> {
    // Where a command begins: elsewhere it is the name of a user, a pool or a file.
    let begins = |before: &str| {
        let line = before.rsplit('\n').next().unwrap_or_default();
        let last = line.split_whitespace().last().filter(|_| line.ends_with([' ', '\t']));
        line.is_empty()
            || line.ends_with(['/', '('])
            || last.is_some_and(|last| ["$", "&&", "|", "sudo", "exec", "--"].contains(&last) || last.ends_with(';'))
    };
    let spans = text.match_indices("loligo ").filter(move |(at, _)| begins(&text[..*at]));
    let spans = spans.map(|(at, name)| &text[at + name.len()..]);
    spans
        .map(|rest| rest.split(['\n', '`', '#', '|', ';', '&']).next().unwrap_or_default().split_whitespace().collect())
}

/// The help of a command, by its words.
struct Help(BTreeMap<String, Option<String>>);

impl Help {
    fn of(&mut self, words: &[&str]) -> Option<&str> {
        let words = words.join(" ");
        let help = |words: &String| {
            let ran = loligo(&format!("{words} --help"), &[]);
            (ran.code == 0).then_some(ran.out)
        };
        self.0.entry(words).or_insert_with_key(help).as_deref()
    }
}

#[test]
fn commands_and_options_in_running_text_are_there() {
    let mut help = Help(BTreeMap::new());
    let mut seen = 0;
    for (name, text) in &documents() {
        // In running text commands stand in code.
        let parts: Vec<&str> = text.split('`').collect();
        let code = parts.iter().enumerate().filter(|(at, _)| at % 2 == 1).map(|(_, part)| *part);
        let shell = blocks(text);
        let shell = shell.iter().filter(|block| block.kind == "sh").map(|block| block.text);
        for part in code.filter(|part| part.starts_with("loligo ")).chain(shell) {
            for words in commands(part) {
                let is_word = |word: &&&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
                let verbs: Vec<&str> = words.iter().take_while(is_word).take(2).copied().collect();
                let Some(first) =
                    verbs.first().filter(|verb| !verb.starts_with('-') && !["help", "loligo"].contains(verb))
                else {
                    continue;
                };
                let at = format!("{name}: loligo {}", words.join(" "));
                assert!(help.of(&[first]).is_some(), "{at}: there is no such command");
                let own = help.of(&verbs).map(str::to_string);
                let own = own.or_else(|| help.of(&[first]).map(str::to_string)).expect("it is there");
                let of_loligo = words.iter().take_while(|word| **word != "--");
                for option in of_loligo.filter(|word| word.starts_with("--")) {
                    let option = option.trim_end_matches([',', '.', ']', ')', ':']).split('=').next().expect("a word");
                    let says = |line: &str| line.split([' ', ',', '<', '[', '=']).any(|word| word == option);
                    assert!(own.lines().any(says), "{at}: {option} is no option of it\n{own}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 50, "hardly any options were found: {seen}");
}

#[test]
fn blocks_are_found_with_what_stands_above_them() {
    let text = "a\n<!-- not run: because -->\n```sh\none\ntwo\n```\nb\n\n<!-- first: x\ny -->\n```lua a.lua\nz\n```\n";
    let all = blocks(text);
    assert_eq!(all.iter().map(|block| (block.line, block.kind)).collect::<Vec<_>>(), [(3, "sh"), (11, "lua")]);
    assert_eq!((all[0].text, all[0].not_run, all[0].first), ("one\ntwo", Some("because"), None));
    assert_eq!((all[1].file, all[1].first, all[1].not_run), (Some("a.lua"), Some("x\ny"), None));
    assert_eq!(
        commands("loligo up --data d # x\nloligo x").collect::<Vec<_>>(),
        [vec!["up", "--data", "d"], vec!["x"]]
    );
}
