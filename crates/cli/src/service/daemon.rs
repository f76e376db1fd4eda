//! Going to the background: the command starts itself again in a new process session, waits until that one says that
//! everything works, or why not, and ends. So errors of the start show where the user looks.
//!
//! What the new process says goes through a pipe, not through the log, which may lie on a full disk.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::notify;
use crate::output::{Context, Failure};

/// Report of a started process on its start: a word, a number, a line's end, and a text for people.
#[derive(PartialEq, Eq, Debug)]
pub enum Told {
    /// Everything works.
    Ready(String),
    /// It does not, with the exit code for it.
    Failed(u8, String),
    /// It ended without a word.
    Nothing,
}

impl Told {
    /// As it goes through the pipe.
    fn encode(&self) -> String {
        match self {
            Told::Ready(text) => format!("ready 0\n{text}"),
            Told::Failed(code, text) => format!("failed {code}\n{text}"),
            Told::Nothing => String::new(),
        }
    }

    fn decode(text: &str) -> Told {
        let Some((head, text)) = text.split_once('\n') else { return Told::Nothing };
        match head.split_once(' ') {
            Some(("ready", _)) => Told::Ready(text.to_string()),
            Some(("failed", code)) => Told::Failed(code.parse().unwrap_or(1), text.to_string()),
            _ => Told::Nothing,
        }
    }

    /// Waits for it at the other end of the pipe.
    pub fn wait(pipe: impl Into<File>) -> std::io::Result<Told> {
        let mut bytes = Vec::new();
        pipe.into().read_to_end(&mut bytes)?;
        Ok(Told::decode(&String::from_utf8_lossy(&bytes)))
    }
}

/// Starts this program again in the background with the arguments it had, without `--daemon`.
///
/// Returns what the new process said when it was ready. If it fails before, its error is this one's.
pub fn start(log: &Path) -> Result<String, Failure> {
    start_as(log, std::env::args_os().skip(1).filter(|a| a != "--daemon").collect(), None)
}

/// Starts this program in the background with these arguments, in a directory if one is said.
pub fn start_as(log: &Path, arguments: Vec<OsString>, dir: Option<&Path>) -> Result<String, Failure> {
    let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).context(|| "a pipe".into())?;
    let program = std::env::current_exe().context(|| "this program's own file".into())?;
    let log_file = open_log(log).context(|| format!("log file {}", log.display()))?;
    let before = log_file.metadata().map(|m| m.len()).unwrap_or(0);
    let mut command = Command::new(program);
    // By its own name, however it was called.
    command.arg0("loligo").args(arguments);
    if let Some(dir) = dir {
        command.current_dir(dir);
    }
    let fd = to.as_raw_fd();
    command.arg(format!("--ready-fd={fd}"));
    command.stdin(Stdio::null());
    command.stdout(log_file.try_clone().context(|| "the log file".into())?).stderr(log_file);
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            // The pipe's end must survive the exec.
            let fd = rustix::fd::BorrowedFd::borrow_raw(fd);
            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
            Ok(())
        });
    }
    let mut child = command.spawn().context(|| "starting the background process".into())?;
    drop(to);
    match Told::wait(from).context(|| "waiting for the background process".into())? {
        Told::Ready(text) => Ok(text.trim_end().to_string()),
        Told::Failed(code, text) => {
            let _ = child.wait();
            Err(Failure::told(format!("{}\n  log: {}", text.trim_end(), log.display()), code))
        }
        Told::Nothing => {
            let status = child.wait().context(|| "the background process".into())?;
            Err(Failure::new(format!(
                "the background process ended while it started ({status}); its last words:\n{}",
                last_words(log, before)
            ))
            .remedy(format!("read {}", log.display())))
        }
    }
}

/// Options for opening a log. Where anybody may put a link it is not followed.
pub fn log_options(log: &Path) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    let is_public = |dir: &Path| dir.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o002 != 0);
    if log.parent().is_some_and(is_public) {
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options
}

/// Opens the log. On a full disk there may be none: the service is more important.
fn open_log(log: &Path) -> std::io::Result<File> {
    match log_options(log).open(log) {
        Err(error) => {
            without_room(error)?;
            OpenOptions::new().append(true).open("/dev/null")
        }
        opened => opened,
    }
}

/// Returns `Ok` if a log could not be made only for want of room.
pub fn without_room(error: std::io::Error) -> std::io::Result<()> {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Ok(()),
        _ => Err(error),
    }
}

/// The end of what was logged since the log had this length.
fn last_words(log: &Path, before: u64) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let tail = String::from_utf8_lossy(text.get(before as usize..).unwrap_or_default()).into_owned();
    let last: Vec<_> = tail.lines().rev().take(5).collect();
    last.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// Says that everything works to whoever started this process in the background; without one, on stdout. And to the manager of services.
/// `document`: the same for programs, which is printed instead.
pub fn ready(fd: Option<i32>, line: &str, document: Option<&serde_json::Value>) {
    notify::ready(line);
    let text = document.map_or_else(|| line.to_string(), ToString::to_string);
    match fd {
        Some(fd) => tell(fd, &Told::Ready(text)),
        None => crate::output::say(text),
    }
}

/// Says why it failed to whoever started this process in the background.
pub fn failed(fd: i32, failure: &Failure) {
    tell(fd, &Told::Failed(failure.code(), failure.to_string()));
}

fn tell(fd: i32, told: &Told) {
    // Afterwards the pipe is closed, and its number may be that of another file.
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the number was given by the starting process for this one use; closing it tells that we are done.
    let mut pipe = unsafe { File::from_raw_fd(fd) };
    // The starter may be gone; nobody needs it then.
    let _ = pipe.write_all(told.encode().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        for told in [Told::Ready("a\nb".into()), Told::Failed(2, "x\n  try: y".into()), Told::Nothing] {
            assert_eq!(Told::decode(&told.encode()), told);
        }
        assert_eq!(Told::decode("nonsense"), Told::Nothing);
        assert_eq!(Told::decode("ready"), Told::Nothing);
    }
}
