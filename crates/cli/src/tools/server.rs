//! The server that `loligo bench` measures: one that runs, or one started for the run. Not what is measured.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use loligo_driver::Address;

use crate::output::{Context, Failure, Outcome};
use crate::service::daemon::Told;
use crate::target::{self, Found};

/// Whichever it is.
pub(super) enum Server {
    Found(Box<Found>),
    /// With what is found of it.
    Own(OwnServer, Box<Found>),
}

impl Server {
    /// The server that is named; without any name one is started, with so many ranks.
    pub(super) fn of(data: Option<&Path>, server: Option<&str>, ranks: u32) -> Result<Server, Failure> {
        target::agree(data, server)?;
        Ok(match (data, target::named(server)) {
            (Some(data), _) => Server::Found(Box::new(target::by_data(data)?)),
            (None, Some(server)) => Server::Found(Box::new(target::by_address(server)?)),
            (None, None) => {
                let own = OwnServer::start(ranks)?;
                let found = target::by_data(&own.data)?;
                Server::Own(own, Box::new(found))
            }
        })
    }

    pub(super) fn address(&self) -> Result<Address, Failure> {
        self.found().address().cloned()
    }

    /// The process whose CPU counts, if it is known.
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Server::Found(found) => found.state.as_ref().map(|state| state.pid),
            Server::Own(own, _) => Some(own.child.id()),
        }
    }

    /// Address and state of the server.
    pub(super) fn found(&self) -> &Found {
        match self {
            Server::Found(found) | Server::Own(_, found) => found,
        }
    }

    /// Ends the one that was started.
    pub(super) fn stop(self) -> Outcome {
        match self {
            Server::Found(_) => Ok(()),
            Server::Own(own, _) => own.stop(),
        }
    }
}

/// A server on a new directory below the current one, so that its syncs are those of a real disk. It is removed with
/// the directory at the end.
pub(super) struct OwnServer {
    child: Child,
    data: PathBuf,
}

impl OwnServer {
    fn start(ranks: u32) -> Result<OwnServer, Failure> {
        let here = std::env::current_dir().context(|| "the current directory".into())?;
        let data = here.join(format!("loligo-bench.{}", std::process::id()));
        crate::service::format::make(&crate::at::Store::Local(data.clone()))?;
        let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).context(|| "a pipe".into())?;
        let program = std::env::current_exe().context(|| "this program's own file".into())?;
        let fd = to.as_raw_fd();
        let mut command = Command::new(program);
        command.arg("serve").arg("--data").arg(&data).args(["--admin", "off", "--log", "warn"]);
        command.arg(format!("--ranks={ranks}"));
        command.arg(format!("--ready-fd={fd}")).stdin(Stdio::null());
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe {
            command.pre_exec(move || {
                // It ends with this process, whatever happens, and its end of the pipe survives the exec.
                rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
                rustix::io::fcntl_setfd(rustix::fd::BorrowedFd::borrow_raw(fd), rustix::io::FdFlags::empty())?;
                Ok(())
            });
        }
        let child = command.spawn().context(|| "starting a server".into())?;
        drop(to);
        let own = OwnServer { child, data };
        match Told::wait(from).context(|| "waiting for the server".into())? {
            Told::Ready(_) => Ok(own),
            Told::Failed(code, text) => Err(Failure::told(format!("the server for the run: {text}"), code)),
            Told::Nothing => Err(Failure::new("the server for the run did not start; its words are above")),
        }
    }

    fn stop(mut self) -> Outcome {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).context(|| "stopping the server".into())?;
        let status = self.child.wait().context(|| "waiting for the server's end".into())?;
        if !status.success() {
            return Err(Failure::new(format!("the server for the run did not end well ({status})")));
        }
        Ok(())
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // After a clean stop it has ended and these do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
