//! Locks on objects, advisory, with a lease: who has one and does not renew it in time has it no more. That alone does not keep a late
//! write out: for that whoever takes a lock over shuts the one before out, or all write on a condition.

use std::ffi::c_char;
use std::time::Duration;

use crate::Pool;
use crate::cluster::text;
use crate::error::{Result, check};

/// `LIBRADOS_LOCK_FLAG_MAY_RENEW`.
const MAY_RENEW: u8 = 1;
/// `LIBRADOS_LOCK_FLAG_MUST_RENEW`.
const MUST_RENEW: u8 = 2;

/// Owner of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The client's name in the cluster, as "client.4123".
    pub client: String,
    /// The cookie of the lock.
    pub cookie: String,
    /// Its address, as [`crate::Cluster::shut_out`] takes it.
    pub address: String,
}

impl Pool {
    /// Takes an exclusive lock for so long, or renews it if this connection has it with this cookie. The object is made if it is not
    /// there. [`crate::Error::Busy`] if another one has it.
    pub fn lock(&self, object: &str, lock: &str, cookie: &str, lease: Duration) -> Result<()> {
        self.take(object, lock, cookie, lease, MAY_RENEW)
    }

    /// Renews it. [`crate::Error::NotFound`] if this connection has it no more, and [`crate::Error::Busy`] if another one has it.
    pub fn renew(&self, object: &str, lock: &str, cookie: &str, lease: Duration) -> Result<()> {
        self.take(object, lock, cookie, lease, MUST_RENEW)
    }

    fn take(&self, object: &str, lock: &str, cookie: &str, lease: Duration, flags: u8) -> Result<()> {
        let (name, what) = self.object(object)?;
        let (lock, cookie) = (text(lock)?, text(cookie)?);
        let seconds = libc::time_t::try_from(lease.as_secs()).unwrap_or(libc::time_t::MAX);
        let mut lease = libc::timeval { tv_sec: seconds, tv_usec: lease.subsec_micros().into() };
        // SAFETY: all are C strings that live as long as the call, and it only reads the time.
        let code = unsafe {
            let take = self.api.rados_lock_exclusive;
            take(self.io, name.as_ptr(), lock.as_ptr(), cookie.as_ptr(), c"".as_ptr(), &mut lease, flags)
        };
        check(&what, code).map(drop)
    }

    /// Gives it back. [`crate::Error::NotFound`] if this connection does not have it.
    pub fn unlock(&self, object: &str, lock: &str, cookie: &str) -> Result<()> {
        let (name, what) = self.object(object)?;
        let (lock, cookie) = (text(lock)?, text(cookie)?);
        // SAFETY: all are C strings that live as long as the call.
        check(&what, unsafe { (self.api.rados_unlock)(self.io, name.as_ptr(), lock.as_ptr(), cookie.as_ptr()) })
            .map(drop)
    }

    /// Takes it away from whoever has it.
    pub fn break_lock(&self, object: &str, lock: &str, held: &Held) -> Result<()> {
        let (name, what) = self.object(object)?;
        let (lock, client, cookie) = (text(lock)?, text(&held.client)?, text(&held.cookie)?);
        // SAFETY: as above.
        let code = unsafe {
            (self.api.rados_break_lock)(self.io, name.as_ptr(), lock.as_ptr(), client.as_ptr(), cookie.as_ptr())
        };
        check(&what, code).map(drop)
    }

    /// The owner of the lock; none if its lease has ended. An absent object has no locks.
    pub fn holder(&self, object: &str, lock: &str) -> Result<Option<Held>> {
        let (name, what) = self.object(object)?;
        let lock = text(lock)?;
        let mut len = 256;
        loop {
            let (mut tag, mut clients, mut cookies, mut addresses) =
                (vec![0u8; len], vec![0u8; len], vec![0u8; len], vec![0u8; len]);
            let (mut tag_len, mut clients_len, mut cookies_len, mut addresses_len) = (len, len, len, len);
            let mut exclusive = 0;
            // SAFETY: each buffer goes with its length.
            let found = unsafe {
                (self.api.rados_list_lockers)(
                    self.io,
                    name.as_ptr(),
                    lock.as_ptr(),
                    &mut exclusive,
                    tag.as_mut_ptr().cast::<c_char>(),
                    &mut tag_len,
                    clients.as_mut_ptr().cast(),
                    &mut clients_len,
                    cookies.as_mut_ptr().cast(),
                    &mut cookies_len,
                    addresses.as_mut_ptr().cast(),
                    &mut addresses_len,
                )
            };
            let found = i32::try_from(found).unwrap_or(i32::MAX);
            if found == -libc::ERANGE {
                // The lengths say now how much there is.
                len = [len + 1, tag_len, clients_len, cookies_len, addresses_len].into_iter().max().unwrap_or(len + 1);
                continue;
            }
            if found == -libc::ENOENT || check(&what, found)? == 0 {
                return Ok(None);
            }
            // Exclusive: there is one, and what there is of it ends with a NUL.
            let one = |from: &[u8]| {
                String::from_utf8_lossy(from.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
            };
            return Ok(Some(Held { client: one(&clients), cookie: one(&cookies), address: one(&addresses) }));
        }
    }
}
