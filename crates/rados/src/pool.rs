//! A pool, or a namespace in one: where objects are.

use std::ffi::{CString, c_char, c_int};
use std::ops::ControlFlow;
use std::ptr;
use std::sync::Arc;

use crate::Cluster;
use crate::api::{Api, Handle};
use crate::cluster::text;
use crate::error::{Result, check};

/// `LIBRADOS_OPERATION_FULL_FORCE`.
const FULL_FORCE: c_int = 128;

/// A pool. Cheap to share in an `Arc`; the connection lives as long as it.
pub struct Pool {
    pub(crate) api: &'static Api,
    pub(crate) io: Handle,
    pub(crate) name: String,
    /// Flags of each of its operations that change something.
    pub(crate) flags: c_int,
    cluster: Arc<Cluster>,
}

// SAFETY: an IO context may be used by any thread; what several at once must not do is to set its namespace or snapshot, which is
// done before it is given out.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    pub(crate) fn open(cluster: &Arc<Cluster>, name: &str, namespace: &str) -> Result<Pool> {
        let (pool, space) = (text(name)?, text(namespace)?);
        let mut io: Handle = ptr::null_mut();
        let api = cluster.api;
        // SAFETY: the handle is connected and the name a C string; on success the context is ours.
        check(&format!("pool {name}"), unsafe { (api.rados_ioctx_create)(cluster.handle, pool.as_ptr(), &mut io) })?;
        // SAFETY: the context is new.
        unsafe { (api.rados_ioctx_set_namespace)(io, space.as_ptr()) };
        Ok(Pool { api, io, name: name.to_owned(), flags: 0, cluster: Arc::clone(cluster) })
    }

    /// One whose writes that need more room end with [`crate::Error::Full`] while the pool is full. Otherwise they wait until there is some,
    /// and nobody is told.
    pub fn refusing_when_full(self) -> Pool {
        // SAFETY: the context is ours alone as yet.
        unsafe { (self.api.rados_set_pool_full_try)(self.io) };
        self
    }

    /// One whose writes are done although the pool is full, as long as the disks take them: for what must go on then, and is little. The
    /// cluster does so for the MDS of CephFS, too.
    pub fn writing_when_full(self) -> Pool {
        // For locks, of which the flags below are not asked.
        let mut pool = self.refusing_when_full();
        pool.flags = FULL_FORCE;
        pool
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The connection that it is reached by.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// The object's name for C, and for errors.
    pub(crate) fn object(&self, name: &str) -> Result<(CString, String)> {
        Ok((text(name)?, format!("object {name} of pool {}", self.name)))
    }

    /// Waits until no callback of a watch of this connection runs.
    pub(crate) fn flush_watches(&self) {
        // SAFETY: the connection lives as long as this.
        unsafe { (self.api.rados_watch_flush)(self.cluster.handle) };
    }

    /// Calls `visit` with the name of each object of the namespace, in no order, until it breaks. Objects that are made or removed
    /// meanwhile may be there or not.
    pub fn list(&self, visit: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<()> {
        let what = format!("the list of pool {}", self.name);
        let mut list: Handle = ptr::null_mut();
        // SAFETY: on success the list is ours until it is closed below; what it gives lives until the next call.
        unsafe {
            check(&what, (self.api.rados_nobjects_list_open)(self.io, &mut list))?;
            let mut entry: *const c_char = ptr::null();
            let (mut len, mut other) = (0, 0);
            let mut space = 0;
            let end = loop {
                let code = (self.api.rados_nobjects_list_next2)(
                    list,
                    &mut entry,
                    ptr::null_mut(),
                    ptr::null_mut(),
                    &mut len,
                    &mut other,
                    &mut space,
                );
                match code {
                    code if code == -libc::ENOENT => break Ok(()),
                    code if code < 0 => break check(&what, code).map(drop),
                    _ => {}
                }
                let name = std::slice::from_raw_parts(entry.cast::<u8>(), len);
                if visit(&String::from_utf8_lossy(name)).is_break() {
                    break Ok(());
                }
            };
            (self.api.rados_nobjects_list_close)(list);
            end
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: operations under way hold a reference of the library's own.
        unsafe { (self.api.rados_ioctx_destroy)(self.io) }
    }
}
