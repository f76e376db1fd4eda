//! The same small programs run on a local file system (ext4) and on a mount, and each line of their outcomes is compared.
//!
//! A line that differs must stand in [`differences::DIFFERENCES`] with its reason, and a line there must differ: so the list is exact.
//! Each program runs in a process of its own, as root or as an ordinary user. Not a test of speed, of crashes or of several mounts.

mod calls;
mod data;
mod differences;
mod files;
mod names;
mod rights;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use loligo_e2e::{PATIENCE, Scratch, within};

use crate::calls::{Entry, Log};
use crate::differences::DIFFERENCES;

/// The user as whom programs run that must not be root.
const USER: u32 = 65_534;
/// Names the program that a child process of this test is to run.
const PROGRAM: &str = "LOLIGO_POSIX_PROGRAM";

/// A program, and whether it runs as an ordinary user.
struct Program {
    name: &'static str,
    as_user: bool,
    body: fn(&mut Log),
}

fn programs() -> Vec<Program> {
    [names::PROGRAMS, files::PROGRAMS, data::PROGRAMS, rights::PROGRAMS]
        .concat()
        .into_iter()
        .map(|p| p.into())
        .collect()
}

impl From<Entry> for Program {
    fn from((name, as_user, body): Entry) -> Program {
        Program { name, as_user, body }
    }
}

/// Runs one program in a fresh directory below `top`, and gives its lines by their labels.
fn run(program: &Program, top: &Path) -> BTreeMap<String, String> {
    use std::os::unix::process::CommandExt;
    let dir = top.join(program.name);
    std::fs::create_dir(&dir).expect("a directory for the program");
    // By this name an ordinary user may run it also if the directories above it are not theirs to search.
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", "a_program_runs_by_itself", "--nocapture"]).env(PROGRAM, program.name).current_dir(&dir);
    if program.as_user {
        std::os::unix::fs::chown(&dir, Some(USER), Some(USER)).expect("root may give the directory away");
        command.uid(USER).gid(USER);
    }
    let output = command.output().expect("this program runs again");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{} on {}: {}\n{text}\n{}",
        program.name,
        top.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let lines = text.lines().filter_map(|line| line.strip_prefix(calls::MARK)?.split_once(" = "));
    lines.map(|(label, outcome)| (format!("{}: {label}", program.name), outcome.to_owned())).collect()
}

/// Not a test by itself: the process in which [`run`] runs a program.
#[test]
fn a_program_runs_by_itself() {
    let Ok(name) = std::env::var(PROGRAM) else { return };
    let programs = programs();
    let program = programs.iter().find(|program| program.name == name).expect("a program has this name");
    let mut log = Log::default();
    (program.body)(&mut log);
}

/// A directory on ext4, on which the expected outcomes are made. Says so if this machine has none where temporary files are.
fn local() -> Option<PathBuf> {
    const EXT4: i64 = 0xef53;
    let top = std::env::temp_dir().join(format!("loligo-posix-{}", std::process::id()));
    std::fs::create_dir_all(&top).expect("a directory for temporary files");
    let kind = rustix::fs::statfs(&top).expect("it is there").f_type;
    if kind == EXT4 {
        return Some(top);
    }
    let why = "the directory for temporary files is not on ext4 (set TMPDIR to one that is)";
    eprintln!("NOT TESTED: {why}");
    if let Some(list) = std::env::var_os("LOLIGO_SKIPPED") {
        use std::io::Write;
        let list = std::fs::OpenOptions::new().create(true).append(true).open(list);
        let _ = list.and_then(|mut list| writeln!(list, "comparison with ext4: {why}"));
    }
    let _ = std::fs::remove_dir_all(&top);
    None
}

#[test]
fn programs_behave_on_a_mount_as_on_ext4_but_for_the_listed_differences() {
    let Some(scratch) = Scratch::new("posix") else { return };
    let Some(local) = local() else { return };
    let up = scratch.up("mount");
    let mount = up.path().to_owned();
    let wrong = within(4 * PATIENCE, "the programs", move || {
        use std::os::unix::fs::PermissionsExt;
        for top in [&local, &mount] {
            std::fs::set_permissions(top, std::fs::Permissions::from_mode(0o755)).expect("it is root's");
        }
        let (mut wrong, mut lines, mut listed) = (Vec::new(), 0, BTreeMap::new());
        for difference in DIFFERENCES {
            let before = listed.insert(difference.line, difference);
            assert!(before.is_none(), "{} is listed twice", difference.line);
        }
        for program in programs() {
            let (expected, is) = (run(&program, &local), run(&program, &mount));
            assert!(!expected.is_empty(), "{} says nothing", program.name);
            assert!(
                expected.keys().eq(is.keys()),
                "{} has other lines on a mount: {:?}, on ext4 {:?}",
                program.name,
                is.keys(),
                expected.keys()
            );
            lines += expected.len();
            for ((label, expected), is) in expected.iter().zip(is.values()) {
                match listed.remove(label.as_str()) {
                    None if expected == is => {}
                    None => wrong.push(format!("{label}: {is}, on ext4 {expected}")),
                    Some(listed) if expected == is => {
                        wrong.push(format!("{label}: {is} on both, so it is no difference: {}", listed.reason));
                    }
                    Some(listed) if listed.mount == is => {}
                    Some(listed) => {
                        wrong.push(format!("{label}: {is}, on ext4 {expected}, listed as {}", listed.mount))
                    }
                }
            }
        }
        wrong.extend(listed.keys().map(|line| format!("{line} is listed, and no program says it")));
        eprintln!("{lines} outcomes compared, {} differ for a reason", DIFFERENCES.len());
        let _ = std::fs::remove_dir_all(&local);
        wrong
    });
    up.stop();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
