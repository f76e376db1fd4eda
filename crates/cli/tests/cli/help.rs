//! Finding one's way: help in groups, completions, configuration.

use std::path::Path;

use super::run::{LOLIGO, Place, Service, loligo, loligo_in};

const COMMANDS: [&str; 31] = [
    "up",
    "down",
    "format",
    "serve",
    "mount",
    "umount",
    "auth",
    "status",
    "top",
    "config",
    "doctor",
    "path",
    "policy",
    "run",
    "decouple",
    "sync",
    "merge",
    "recouple",
    "abandon",
    "rank",
    "subtree",
    "balancer",
    "fsck",
    "dump",
    "load",
    "copy",
    "journal",
    "store",
    "bench",
    "completions",
    "version",
];

#[test]
fn help_lists_every_command_in_its_group() {
    let help = loligo("help", &[]).ok().out;
    let groups: Vec<usize> = ["Service:", "Look:", "Policy:", "Ranks:", "Care:", "Tools:"]
        .iter()
        .map(|group| help.find(group).unwrap_or_else(|| panic!("no {group} in {help}")))
        .collect();
    assert!(groups.is_sorted(), "{help}");
    for command in COMMANDS {
        assert!(
            help.lines().any(|line| line.trim_start().starts_with(&format!("{command} "))),
            "no {command} in {help}"
        );
    }
    assert!(!help.contains("\n\n\n"), "{help}");
}

#[test]
fn every_command_has_a_help_of_its_own() {
    for command in COMMANDS {
        let help = loligo(&format!("{command} --help"), &[]).ok().out;
        assert!(help.contains("Usage: loligo"), "{help}");
        assert!(!help.contains("--ready-fd"), "{help}");
        let subs = commands_of(command);
        let words = if subs.is_empty() {
            vec![command.to_string()]
        } else {
            subs.iter().map(|sub| format!("{command} {sub}")).collect()
        };
        for words in words {
            let help = loligo(&format!("{words} --help"), &[]).ok().out;
            let examples = help.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("no examples in {help}"));
            assert!(examples.lines().take(2).all(|line| line.contains(&format!("loligo {words}"))), "{help}");
        }
    }
}

#[test]
fn completions_are_made_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = loligo(&format!("completions {shell}"), &[]).ok().out;
        assert!(script.contains("umount"), "{shell}");
    }
}

/// Names of the commands below `name`, by its own help.
fn commands_of(name: &str) -> Vec<String> {
    let help = loligo(&format!("{name} --help"), &[]).ok().out;
    let list = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let names = list.lines().take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|&name| name != "help").map(String::from).collect()
}

#[test]
fn each_command_has_a_man_page_with_its_options() {
    let place = Place::new();
    let dir = place.path("man");
    loligo("man {}", &[&dir]).ok();
    let read = |name: &str| std::fs::read_to_string(dir.join(format!("{name}.1"))).expect(name);
    let main = read("loligo");
    let mut expected = vec!["loligo.1".to_string()];
    for command in COMMANDS {
        assert!(read(&format!("loligo-{command}")).contains(".SH DESCRIPTION"), "{command}");
        assert!(main.contains(&format!("loligo\\-{command}(1)")), "{command} in {main}");
        expected.push(format!("loligo-{command}.1"));
        expected.extend(commands_of(command).iter().map(|sub| format!("loligo-{command}-{sub}.1")));
    }
    assert!(read("loligo-fsck").contains("\\-\\-data\\-checksums"), "an option of a command");
    assert!(read("loligo-journal-export").contains("loligo journal export"), "the words to type");
    assert!(
        read("loligo-journal-export").contains(concat!("\"Loligo ", env!("CARGO_PKG_VERSION"), "\"")),
        "the version"
    );
    assert!(!read("loligo-up").contains("ready"), "hidden options stay hidden");
    let mut there: Vec<_> = std::fs::read_dir(&dir)
        .expect("the directory of pages")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    there.sort();
    expected.sort();
    assert_eq!(there, expected);
}

#[test]
fn a_program_can_read_the_versions() {
    let shown = loligo("version --json", &[]).ok().json();
    assert_eq!(shown["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(shown["protocol"], loligo_types::msg::PROTOCOL_VERSION);
    assert_eq!(shown["link"], loligo_types::link::LINK_VERSION);
    assert_eq!(shown["store"], loligo_store::FORMAT_VERSION);
    assert!(shown["target"].as_str().expect("text").ends_with("-linux"));
    let text = loligo("version", &[]).ok().out;
    assert!(text.starts_with(&format!("loligo {}", env!("CARGO_PKG_VERSION"))), "{text}");
}

#[test]
fn completions_complete_in_bash() {
    let script = format!(
        "source <({LOLIGO} completions bash); complete -p loligo >/dev/null
        at() {{ COMP_WORDS=(loligo \"$@\"); COMP_CWORD=$#; COMPREPLY=(); _loligo loligo \"${{@: -1}}\" x; echo \"${{COMPREPLY[*]}}\"; }}
        at jou; at journal ins; at fsck --d; at up --r; at bench md --in; at completions ba"
    );
    let bash = std::process::Command::new("timeout").args(["60", "bash", "-euc", &script]).output().expect("bash");
    let out = String::from_utf8_lossy(&bash.stdout);
    let expected = "journal\ninspect\n--data --data-checksums\n--ranks --read-only\n--in-flight\nbash\n";
    assert_eq!(out, expected, "{}", String::from_utf8_lossy(&bash.stderr));
}

/// Everything that docs/cli.md and the README show is there: every option that they name is one of some command's.
#[test]
fn the_documents_name_only_options_and_commands_that_there_are() {
    let mut known: String = COMMANDS.iter().map(|command| loligo(&format!("{command} --help"), &[]).ok().out).collect();
    known += &loligo("bench md --help", &[]).ok().out;
    known += &loligo("bench workload --help", &[]).ok().out;
    for words in [
        "journal inspect",
        "journal export",
        "journal import",
        "journal apply",
        "journal erase",
        "journal diff",
        "rank list",
        "rank add",
        "rank drain",
        "rank undrain",
        "subtree list",
        "subtree pin",
        "subtree unpin",
        "subtree migrate",
        "subtree place",
        "subtree unplace",
        "subtree lease",
        "subtree unlease",
        "auth add",
        "policy set",
        "policy show",
        "policy advise",
        "policy unset",
        "policy presets",
        "policy check",
        "balancer show",
        "balancer list",
        "balancer set",
        "balancer unset",
        "balancer rollback",
        "balancer history",
        "balancer lint",
        "balancer simulate",
        "balancer log",
        "balancer explain",
    ] {
        known += &loligo(&format!("{words} --help"), &[]).ok().out;
    }
    known += &loligo("--help", &[]).ok().out;
    for text in [
        include_str!("../../../../docs/cli.md"),
        include_str!("../../../../README.md"),
        include_str!("../../../../docs/config.md"),
    ] {
        for part in text.split("--").skip(1) {
            let option: String = part.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
            // Options of other programs.
            let other = ["cap-add", "device"].contains(&option.as_str());
            let rule = option.trim_matches('-').is_empty();
            assert!(rule || other || known.contains(&format!("--{option}")), "--{option} is in the documents only");
        }
        for part in text.split("`loligo ").skip(1) {
            let command: String = part.chars().take_while(char::is_ascii_lowercase).collect();
            let there = COMMANDS.contains(&command.as_str()) || ["help", ""].contains(&command.as_str());
            assert!(there, "`loligo {command}` is in the documents only");
        }
    }
}

#[test]
fn a_setting_says_where_it_came_from() {
    let place = Place::new();
    std::fs::write(place.path("loligo.toml"), "grace_ms = 7\ninline_max = \"8KiB\"\nsession_ms = 9000\n")
        .expect("a file");
    let shown = loligo_in("config --data {} --set inline_max=2KiB --json", &[place.dir.path()], |command| {
        command.env("LOLIGO_SESSION_MS", "5000");
    });
    let shown = shown.ok().json();
    let of = |key: &str, field: &str| shown[key][field].as_str().expect("a string").to_string();
    assert_eq!((of("grace_ms", "value"), of("grace_ms", "origin").starts_with("file ")), ("7".into(), true));
    assert_eq!((of("inline_max", "value"), of("inline_max", "origin")), ("2KiB".into(), "command line".into()));
    assert_eq!(
        (of("session_ms", "value"), of("session_ms", "origin")),
        ("5000".into(), "environment LOLIGO_SESSION_MS".into())
    );
    assert_eq!(of("log", "origin"), "default");
}

#[test]
fn the_printed_configuration_is_one_that_can_be_read() {
    let place = Place::new();
    let text = loligo("config", &[]).ok().out;
    let file = place.path("printed.toml");
    std::fs::write(&file, &text).expect("a file");
    let again = loligo("config --config {} --json", &[&file]).ok().json();
    let first = loligo("config --json", &[]).ok().json();
    for (key, entry) in first.as_object().expect("an object") {
        assert_eq!(entry["value"], again[key]["value"], "{key}");
    }
    assert!(Path::new(again["log"]["origin"].as_str().expect("a string").trim_start_matches("file ")).is_file());
}

#[test]
fn a_configuration_may_be_there_before_the_file_system() {
    let place = Place::new();
    let data = place.data();
    std::fs::create_dir(&data).expect("a directory");
    std::fs::write(data.join("loligo.toml"), "admin = \"off\"\n").expect("a file");
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {}", &[&data]);
    assert!(!server.welcome.contains("(admin)"), "{}", server.welcome);
    assert_eq!(server.stop().0, 0);
}
