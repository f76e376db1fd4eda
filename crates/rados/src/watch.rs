//! Watches: whoever watches an object is told what others say there.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use crate::Pool;
use crate::error::{Error, Result, check};

/// Message to a watcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notified {
    /// Another one (or this one) said this. It was acknowledged already.
    Said(Vec<u8>),
    /// The watch has broken: what is said from now on is not heard. Watch again.
    Broken(Error),
}

type Tell = Box<dyn Fn(Notified) + Send + Sync>;

struct Told {
    pool: Arc<Pool>,
    object: String,
    tell: Tell,
}

/// A watch. It ends when this is dropped; then nothing is told any more.
pub struct Watch {
    told: *mut Told,
    cookie: u64,
}

// SAFETY: what the pointer leads to is `Send` and `Sync`, and freed by this alone.
unsafe impl Send for Watch {}
// SAFETY: as above.
unsafe impl Sync for Watch {}

impl Watch {
    /// Watches an object that is there. `tell` is called on a thread of the library's, and must not block. If this client is silent for
    /// `timeout`, the cluster takes the watch for broken.
    pub fn new(
        pool: &Arc<Pool>,
        object: &str,
        timeout: Duration,
        tell: impl Fn(Notified) + Send + Sync + 'static,
    ) -> Result<Watch> {
        let (name, what) = pool.object(object)?;
        let seconds = u32::try_from(timeout.as_secs().max(1)).unwrap_or(u32::MAX);
        let told = Told { pool: Arc::clone(pool), object: object.to_owned(), tell: Box::new(tell) };
        let told = Box::into_raw(Box::new(told));
        let mut cookie = 0;
        // SAFETY: the box is freed when no callback can come any more: here, or after the watch has ended.
        let code = unsafe {
            (pool.api.rados_watch3)(pool.io, name.as_ptr(), &mut cookie, said, Some(broken), seconds, told.cast())
        };
        match check(&what, code) {
            Ok(_) => Ok(Watch { told, cookie }),
            Err(error) => {
                // SAFETY: it was not begun.
                drop(unsafe { Box::from_raw(told) });
                Err(error)
            }
        }
    }

    /// Time since the cluster last confirmed the watch; an error if it has broken.
    pub fn check(&self) -> Result<Duration> {
        // SAFETY: it lives as long as this.
        let told = unsafe { &*self.told };
        let (_, what) = told.pool.object(&told.object)?;
        // SAFETY: the watch is ours.
        let ms = check(&what, unsafe { (told.pool.api.rados_watch_check)(told.pool.io, self.cookie) })?;
        Ok(Duration::from_millis(ms))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: after both calls no callback runs or will, so the box is this one's alone.
        unsafe {
            let pool = Arc::clone(&(*self.told).pool);
            (pool.api.rados_unwatch2)(pool.io, self.cookie);
            pool.flush_watches();
            drop(Box::from_raw(self.told));
        }
    }
}

impl Pool {
    /// Says something to all who watch an object, and waits until they have heard it, or for so long: then [`Error::Io`] (ETIMEDOUT).
    pub fn notify(&self, object: &str, said: &[u8], timeout: Duration) -> Result<()> {
        let (name, what) = self.object(object)?;
        let (mut reply, mut len) = (ptr::null_mut(), 0);
        let bytes = c_int::try_from(said.len()).unwrap_or(c_int::MAX);
        let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        // SAFETY: the bytes live as long as the call; what it gives back is freed.
        unsafe {
            let notify = self.api.rados_notify2;
            let code = notify(self.io, name.as_ptr(), said.as_ptr().cast(), bytes, ms, &mut reply, &mut len);
            if !reply.is_null() {
                (self.api.rados_buffer_free)(reply);
            }
            check(&what, code).map(drop)
        }
    }
}

unsafe extern "C" fn said(told: *mut c_void, id: u64, cookie: u64, _from: u64, data: *mut c_void, len: usize) {
    // SAFETY: the box lives until no callback can come.
    let told = unsafe { &*told.cast::<Told>() };
    let data = match data.is_null() || len == 0 {
        true => Vec::new(),
        // SAFETY: the library gives so many bytes, and keeps them during the call.
        false => unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) }.to_vec(),
    };
    if let Ok((name, _)) = told.pool.object(&told.object) {
        // SAFETY: the name is a C string; nothing is sent back. If it fails, who notifies waits for its time-out.
        unsafe { (told.pool.api.rados_notify_ack)(told.pool.io, name.as_ptr(), id, cookie, ptr::null(), 0) };
    }
    (told.tell)(Notified::Said(data));
}

unsafe extern "C" fn broken(told: *mut c_void, _cookie: u64, code: c_int) {
    // SAFETY: as above.
    let told = unsafe { &*told.cast::<Told>() };
    (told.tell)(Notified::Broken(Error::of(&format!("the watch on object {}", told.object), code)));
}
