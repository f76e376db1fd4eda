//! Going to the background: the command starts itself again in a new process session, waits until that one says that everything
//! works, and ends. So errors of the start show where the user looks.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::output::{Context, Failure};

/// Starts this program again in the background with the arguments it had, without `--daemon`.
///
/// Returns the line that the new process wrote when it was ready. If it ends before, its last words are the error.
pub fn start(log: &Path) -> Result<String, Failure> {
    let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).context(|| "a pipe".into())?;
    let program = std::env::current_exe().context(|| "this program's own file".into())?;
    let log_file =
        OpenOptions::new().create(true).append(true).open(log).context(|| format!("log file {}", log.display()))?;
    let before = log_file.metadata().map(|m| m.len()).unwrap_or(0);
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1).filter(|a| a != "--daemon"));
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
    let mut line = String::new();
    File::from(from).read_to_string(&mut line).context(|| "waiting for the background process".into())?;
    if line.is_empty() {
        let status = child.wait().context(|| "the background process".into())?;
        let text = std::fs::read(log).unwrap_or_default();
        let tail = String::from_utf8_lossy(text.get(before as usize..).unwrap_or_default()).into_owned();
        let last: Vec<_> = tail.lines().rev().take(5).collect();
        let last: Vec<_> = last.into_iter().rev().collect();
        return Err(Failure::new(format!(
            "the background process ended while it started ({status}); its last words:\n{}",
            last.join("\n")
        ))
        .remedy(format!("read {}", log.display())));
    }
    Ok(line.trim_end().to_string())
}

/// Says that everything works to whoever started this process in the background; without one, on stdout.
pub fn ready(fd: Option<i32>, line: &str) {
    match fd {
        Some(fd) => {
            // SAFETY: the number was given by the starting process for this one use; closing it tells that we are done.
            let mut pipe = unsafe { File::from_raw_fd(fd) };
            // The starter may be gone; nobody needs the line then.
            let _ = writeln!(pipe, "{line}");
        }
        None => {
            crate::output::say(line);
            let _ = std::io::stdout().flush();
        }
    }
}
