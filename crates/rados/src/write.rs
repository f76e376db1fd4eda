//! Compound operations that change an object: all of their steps take effect, or none. The order of the steps is that in which they
//! were added; comparisons look at the object as it was before.

use std::ffi::c_char;
use std::ptr;

use crate::api::{Api, Handle, api};
use crate::cluster::text;
use crate::error::Result;
use crate::{Pending, Pool};

/// `LIBRADOS_CMPXATTR_OP_EQ`.
pub(crate) const EQUAL: u8 = 1;

/// A change of one object. What is added is copied.
pub struct WriteOp {
    api: &'static Api,
    op: Handle,
}

// SAFETY: an operation is a list of steps, changed through `&mut` only.
unsafe impl Send for WriteOp {}

fn bytes(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

impl WriteOp {
    /// One without a step.
    pub fn new() -> Result<WriteOp> {
        let api = api()?;
        // SAFETY: it is ours until it is released.
        Ok(WriteOp { api, op: unsafe { (api.rados_create_write_op)() } })
    }

    /// Makes the object; if it is there already, nothing takes effect ([`crate::Error::Exists`]).
    pub fn create_exclusive(&mut self) -> &mut Self {
        // SAFETY (here and in all steps): the operation is ours, and the library copies what the pointers lead to.
        unsafe { (self.api.rados_write_op_create)(self.op, 1, ptr::null()) };
        self
    }

    /// Makes the object if it is not there.
    pub fn create(&mut self) -> &mut Self {
        // SAFETY: see above.
        unsafe { (self.api.rados_write_op_create)(self.op, 0, ptr::null()) };
        self
    }

    /// Only if the object is there ([`crate::Error::NotFound`]).
    pub fn assert_exists(&mut self) -> &mut Self {
        // SAFETY: see above.
        unsafe { (self.api.rados_write_op_assert_exists)(self.op) };
        self
    }

    /// Only if nothing has changed the object since an operation ended with this version ([`crate::Error::Changed`]).
    pub fn assert_version(&mut self, version: u64) -> &mut Self {
        // SAFETY: see above.
        unsafe { (self.api.rados_write_op_assert_version)(self.op, version) };
        self
    }

    /// Only if an xattr has this value; one that is absent is empty ([`crate::Error::Changed`]).
    pub fn assert_xattr(&mut self, name: &str, value: &[u8]) -> Result<&mut Self> {
        let name = text(name)?;
        // SAFETY: see above.
        unsafe { (self.api.rados_write_op_cmpxattr)(self.op, name.as_ptr(), EQUAL, bytes(value), value.len()) };
        Ok(self)
    }

    /// Only if a key of the omap has this value; one that is absent is empty ([`crate::Error::Changed`]).
    pub fn assert_omap(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        // SAFETY: see above; nobody wants the result of the step alone.
        unsafe {
            let compare = self.api.rados_write_op_omap_cmp2;
            compare(self.op, bytes(key), EQUAL, bytes(value), key.len(), value.len(), ptr::null_mut());
        }
        self
    }

    /// Sets an xattr.
    pub fn set_xattr(&mut self, name: &str, value: &[u8]) -> Result<&mut Self> {
        let name = text(name)?;
        // SAFETY: see above.
        unsafe { (self.api.rados_write_op_setxattr)(self.op, name.as_ptr(), bytes(value), value.len()) };
        Ok(self)
    }

    /// Writes at an offset.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> &mut Self {
        // SAFETY: see above.
        unsafe { (self.api.rados_write_op_write)(self.op, bytes(data), data.len(), offset) };
        self
    }

    /// Makes this all that the object holds.
    pub fn write_full(&mut self, data: &[u8]) -> &mut Self {
        // SAFETY: see above.
        unsafe { (self.api.rados_write_op_write_full)(self.op, bytes(data), data.len()) };
        self
    }

    /// Writes at the end.
    pub fn append(&mut self, data: &[u8]) -> &mut Self {
        // SAFETY: see above.
        unsafe { (self.api.rados_write_op_append)(self.op, bytes(data), data.len()) };
        self
    }

    /// Sets the length.
    pub fn truncate(&mut self, len: u64) -> &mut Self {
        // SAFETY: see above.
        unsafe { (self.api.rados_write_op_truncate)(self.op, len) };
        self
    }

    /// Makes bytes zero; the length stays.
    pub fn zero(&mut self, offset: u64, len: u64) -> &mut Self {
        // SAFETY: see above.
        unsafe { (self.api.rados_write_op_zero)(self.op, offset, len) };
        self
    }

    /// Removes the object.
    pub fn remove(&mut self) -> &mut Self {
        // SAFETY: see above.
        unsafe { (self.api.rados_write_op_remove)(self.op) };
        self
    }

    /// Puts keys with their values into the omap.
    pub fn omap_set<'a>(&mut self, pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> &mut Self {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        let (mut key_lens, mut value_lens) = (Vec::new(), Vec::new());
        for (key, value) in pairs {
            keys.push(bytes(key));
            key_lens.push(key.len());
            values.push(bytes(value));
            value_lens.push(value.len());
        }
        if !keys.is_empty() {
            // SAFETY: see above; all four lists are as long.
            unsafe {
                let set = self.api.rados_write_op_omap_set2;
                set(self.op, keys.as_ptr(), values.as_ptr(), key_lens.as_ptr(), value_lens.as_ptr(), keys.len());
            }
        }
        self
    }

    /// Takes keys out of the omap; absent ones are no error.
    pub fn omap_remove<'a>(&mut self, keys: impl IntoIterator<Item = &'a [u8]>) -> &mut Self {
        let (keys, lens): (Vec<*const c_char>, Vec<usize>) =
            keys.into_iter().map(|key| (bytes(key), key.len())).unzip();
        if !keys.is_empty() {
            // SAFETY: see above; both lists are as long.
            unsafe { (self.api.rados_write_op_omap_rm_keys2)(self.op, keys.as_ptr(), lens.as_ptr(), keys.len()) };
        }
        self
    }

    /// Does it; the object's version after. It is durable on all copies then.
    pub fn run(self, pool: &Pool, object: &str) -> Result<u64> {
        self.begin(pool, object)?.wait()
    }

    /// Begins it. Operations of one connection on one object take effect in the order in which they were begun.
    pub fn begin(self, pool: &Pool, object: &str) -> Result<Pending> {
        let (name, what) = pool.object(object)?;
        let pending = Pending::new(self.api, what)?;
        let code = self.operate(pool, pending.handle(), name.as_ptr());
        pending.begun(code)
    }

    /// Begins it; its end calls `then`, with the object's version after, on a thread of the library's: it must not block.
    pub fn begin_then(self, pool: &Pool, object: &str, then: impl FnOnce(Result<u64>) + Send + 'static) -> Result<()> {
        let (name, what) = pool.object(object)?;
        Pending::call(self.api, what, Box::new(then), |completion| self.operate(pool, completion, name.as_ptr()))
    }

    fn operate(&self, pool: &Pool, completion: Handle, name: *const c_char) -> i32 {
        // SAFETY: all are alive, and the library copies the name and takes the steps over before it returns.
        unsafe {
            (self.api.rados_aio_write_op_operate)(self.op, pool.io, completion, name, ptr::null_mut(), pool.flags)
        }
    }
}

impl Drop for WriteOp {
    fn drop(&mut self) {
        // SAFETY: what was begun has the steps by itself.
        unsafe { (self.api.rados_release_write_op)(self.op) }
    }
}
