//! Readers of the kernel's requests: the thread that executes them, if it takes the mount in, or threads of the mount's own. Either ends
//! when the kernel says that it is unmounted.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use loligo_driver::server::{Guest, Took};
use loligo_fuse::{Buffer, Device, Received};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::core::Core;
use crate::submit::Submit;

/// Number of readers that still run.
#[derive(Default)]
pub(crate) struct Readers {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Readers {
    /// Waits, at most this long, until there is none. Whether there is none.
    pub fn wait(&self, limit: Duration) -> bool {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, _) =
            self.changed.wait_timeout_while(count, limit, |n| *n > 0).unwrap_or_else(PoisonError::into_inner);
        *count == 0
    }

    fn add(self: &Arc<Self>) -> Reading {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Reading(self.clone())
    }
}

/// One reader, as long as it lives.
struct Reading(Arc<Readers>);

impl Drop for Reading {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.changed.notify_all();
    }
}

/// Starts to read: as a guest if `client` takes guests in, else with so many threads.
pub(crate) fn start<S: Submit>(
    core: &Arc<Core<S>>,
    device: &Device,
    threads: usize,
    max_write: u32,
) -> io::Result<Arc<Readers>> {
    let readers = Arc::new(Readers::default());
    let session =
        Session { core: core.clone(), device: device.clone(), buffer: Buffer::new(max_write), _reading: readers.add() };
    device.set_nonblocking(true)?;
    let Err(_refused) = core.client.host(Box::new(session)) else { return Ok(readers) };
    device.set_nonblocking(false)?;
    // Each with a device of its own, so that they do not wait for each other in the kernel.
    for at in 0..threads.max(1) {
        let device = if at == 0 { device.clone() } else { device.clone_device()? };
        let (core, reading) = (core.clone(), readers.add());
        std::thread::Builder::new().name(format!("loligo-fuse-{at}")).spawn(move || {
            let _reading = reading;
            let mut buffer = Buffer::new(max_write);
            while take(&core, &device, &mut buffer) != Took::End {}
        })?;
    }
    Ok(readers)
}

/// Reads one request and starts to serve it.
fn take<S: Submit>(core: &Arc<Core<S>>, device: &Device, buffer: &mut Buffer) -> Took {
    match device.receive(buffer) {
        Ok(Received::Request(bytes)) => {
            core.take(device, bytes);
            Took::Request
        }
        Ok(Received::Nothing) => Took::Nothing,
        Ok(Received::Unmounted) => Took::End,
        Err(error) => {
            tracing::error!(%error, "reading /dev/fuse failed: the mount ends");
            Took::End
        }
    }
}

/// A mount on the thread of its server.
struct Session<S> {
    core: Arc<Core<S>>,
    device: Device,
    buffer: Buffer,
    _reading: Reading,
}

impl<S: Submit> Guest for Session<S> {
    fn source(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    fn take(&mut self) -> Took {
        take(&self.core, &self.device, &mut self.buffer)
    }

    /// Without a server every call fails at once, and programs are told so until it is unmounted.
    fn orphaned(mut self: Box<Self>) {
        let started = std::thread::Builder::new().name("loligo-fuse".into()).spawn(move || {
            let pause = Timespec { tv_sec: 1, tv_nsec: 0 };
            loop {
                match self.take() {
                    Took::Request => {}
                    Took::Nothing => {
                        let _ = rustix::event::poll(&mut [PollFd::new(&self.device, PollFlags::IN)], Some(&pause));
                    }
                    Took::End => return,
                }
            }
        });
        if let Err(error) = started {
            tracing::error!(%error, "nobody answers the mount any more; unmount it by hand (umount -l)");
        }
    }
}
