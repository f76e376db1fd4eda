//! `loligo run`: decouples a directory, runs a command, completes what the policy says, and reports. Not here: how each is done (`live.rs`).

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use super::live::{self, Live};
use crate::output::{Failure, Outcome, counted, note, quoted};

/// Runs it. The command's exit code becomes this one's, unless what it made could not be completed.
///
/// A directory that is decoupled already stays so: what its policy says is completed, and it is not given back.
pub fn run(dir: &Path, policy: Option<&Path>, lease: f64, command: &[OsString]) -> Outcome {
    let live = Live::of(dir)?;
    let Some((program, args)) = command.split_first() else {
        return Err(Failure::usage("there is no command to run").remedy("loligo run DIR -- COMMAND"));
    };
    let had = live.in_force()?;
    let stays = had.is_some();
    let policy = match had {
        Some(_) if policy.is_some() => return Err(live.has_a_policy()),
        Some(policy) => policy,
        None => {
            live.refuse_root()?;
            let (policy, text) = live::policy_for(dir, policy)?;
            live.decouple(&text, lease)?;
            policy
        }
    };
    let begun = Instant::now();
    let status = child(program, args);
    let ran = begun.elapsed();
    let Some(made) = live.outstanding()? else {
        note(format_args!(
            "loligo run: the command took {:.2} s, and gave {} back, or it was taken from this mount",
            ran.as_secs_f64(),
            dir.display()
        ));
        return ended(program, status);
    };
    // The command may have changed it.
    let policy = if made.policy.pipeline() == policy.pipeline() { policy } else { made.policy.clone() };
    // Whatever became of the command: what it has made is there.
    let completing = Instant::now();
    let invisible = policy.cell().consistency == loligo_subtree_policy::Consistency::Invisible;
    let verb = if invisible || stays { "sync" } else { "recouple" };
    let told = live.order(verb, "").inspect_err(|_| {
        note(format_args!("loligo: the command has ended ({}); its changes:", said(&status)));
    })?;
    if invisible && made.changes == 0 && !stays {
        live.order("recouple", "")?;
    }
    let left = live.outstanding()?;
    note(format_args!(
        "loligo run: {} in {:.2} s, {}; {}",
        counted(made.changes, "change"),
        ran.as_secs_f64(),
        policy.cell(),
        live::summary(&live, &told, (made.changes, left.as_ref()), completing.elapsed())
    ));
    live.tell_conflicts(&told);
    if stays {
        note(format_args!("it was decoupled before, and stays so: to give it back, loligo recouple {}", quoted(dir)));
    } else if left.is_some() {
        let dir = quoted(dir);
        note(format_args!(
            "its policy keeps them invisible: to let others see them, loligo merge {dir} and loligo recouple {dir}; to drop them, loligo abandon {dir}"
        ));
    }
    ended(program, status)
}

/// The exit code of the command is this one's.
fn ended(program: &OsString, status: std::io::Result<ExitStatus>) -> Outcome {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            Err(Failure::told(format!("the command ended with {status}"), u8::try_from(code).unwrap_or(1)))
        }
        Err(error) => Err(Failure::told(format!("{}: {error}", program.display()), 127)),
    }
}

fn said(status: &std::io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}

/// Ctrl-C and the like are the command's: this one outlives it, to complete what it made.
fn child(program: &OsString, args: &[OsString]) -> std::io::Result<ExitStatus> {
    let mut command = Command::new(program);
    command.args(args);
    let signals = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];
    // SAFETY: sets dispositions of this thread-less process back before another program begins; async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            signals.iter().for_each(|signal| _ = libc::signal(*signal, libc::SIG_DFL));
            Ok(())
        });
    }
    // SAFETY: ignoring a signal runs no code of ours.
    signals.iter().for_each(|signal| _ = unsafe { libc::signal(*signal, libc::SIG_IGN) });
    let status = command.status();
    // SAFETY: the system's own handling again.
    signals.iter().for_each(|signal| _ = unsafe { libc::signal(*signal, libc::SIG_DFL) });
    status
}
