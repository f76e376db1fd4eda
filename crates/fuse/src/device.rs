//! The device: a file descriptor that gives one request a read and takes one answer a write.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;

use crate::request::HEADER;

/// The kernel refuses to read into less, beside the largest write.
const HEAD_ROOM: usize = 4096;
const MIN_READ_BUFFER: usize = 8192;

/// One open `/dev/fuse`; clones are the same one. Answers may be written by any thread, to any device of the mount.
#[derive(Clone, Debug)]
pub struct Device(Arc<OwnedFd>);

/// Result of reading from the device.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A request.
    Request(&'a [u8]),
    /// Nothing is there now (of a device that does not block), or what was there is gone again.
    Nothing,
    /// It is unmounted: nothing will come any more.
    Unmounted,
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Device {
    /// Opens the device, for a mount to come.
    pub fn open() -> std::io::Result<Device> {
        let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        Ok(Device::from(OwnedFd::from(file)))
    }

    /// A second device of the same mount, so that several threads can read.
    pub fn clone_device(&self) -> std::io::Result<Device> {
        const FUSE_DEV_IOC_CLONE: libc::c_ulong = 0x8004_e500;
        let other = Device::open()?;
        let own = self.0.as_raw_fd().cast_unsigned();
        // SAFETY: the ioctl reads one `u32`, the number of an open descriptor, from the address it is given.
        let done = unsafe { libc::ioctl(other.0.as_raw_fd(), FUSE_DEV_IOC_CLONE as _, &raw const own) };
        if done == 0 { Ok(other) } else { Err(std::io::Error::last_os_error()) }
    }

    /// Sets whether reads wait (as they do at first). Of all clones.
    pub fn set_nonblocking(&self, on: bool) -> std::io::Result<()> {
        rustix::io::ioctl_fionbio(&self.0, on)?;
        Ok(())
    }

    /// Reads one request.
    pub fn receive<'b>(&self, buffer: &'b mut Buffer) -> std::io::Result<Received<'b>> {
        match rustix::io::read(&self.0, &mut buffer.0[..]) {
            Ok(n) => Ok(Received::Request(&buffer.0[..n])),
            // NOENT: the caller of the request went away before it was read.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOENT) => Ok(Received::Nothing),
            Err(Errno::NODEV) => Ok(Received::Unmounted),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn write(&self, message: &[u8]) -> Result<(), Errno> {
        rustix::io::retry_on_intr(|| rustix::io::write(&self.0, message)).map(|_| ())
    }

    pub(crate) fn write_parts(&self, head: &[u8], data: &[u8]) -> Result<(), Errno> {
        let parts = [IoSlice::new(head), IoSlice::new(data)];
        rustix::io::retry_on_intr(|| rustix::io::writev(&self.0, &parts)).map(|_| ())
    }

    /// Writes a message whose last byte the kernel cannot read.
    pub(crate) fn write_and_unreadable(&self, head: &[u8]) -> Result<(), Errno> {
        let last = unreadable()?;
        let parts = [
            libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: head.len() },
            libc::iovec { iov_base: last as *mut libc::c_void, iov_len: 1 },
        ];
        rustix::io::retry_on_intr(|| {
            // SAFETY: only the kernel looks at the parts. It reads the first, which lives, and is refused the other.
            let done = unsafe { libc::writev(self.0.as_raw_fd(), parts.as_ptr(), parts.len() as libc::c_int) };
            if done < 0 { Err(last_error()) } else { Ok(()) }
        })
    }
}

/// The address of a page that nobody can read. It stays for the life of the process.
fn unreadable() -> Result<usize, Errno> {
    static PAGE: OnceLock<usize> = OnceLock::new();
    if let Some(page) = PAGE.get() {
        return Ok(*page);
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(last_error());
    }
    Ok(*PAGE.get_or_init(|| page as usize))
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl From<OwnedFd> for Device {
    fn from(fd: OwnedFd) -> Device {
        Device(Arc::new(fd))
    }
}

/// Room for one request.
pub struct Buffer(Box<[u8]>);

impl Buffer {
    /// For writes of at most so many bytes.
    pub fn new(max_write: u32) -> Buffer {
        let len = (max_write as usize + HEADER + HEAD_ROOM).max(MIN_READ_BUFFER);
        Buffer(vec![0; len].into_boxed_slice())
    }
}
