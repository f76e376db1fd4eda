//! Compound operations that read an object: what they bring was all there at one moment.

use std::ffi::{CString, c_char, c_int, c_uchar};
use std::ptr;

use crate::api::{Api, Handle, api};
use crate::cluster::text;
use crate::error::{Result, check};
use crate::write::EQUAL;
use crate::{Error, Pending, Pool};

/// Keys and values of an omap, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Omap {
    /// The pairs.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// There is more behind.
    pub more: bool,
}

/// An object's size and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Bytes.
    pub len: u64,
    /// Seconds since 1970 of the last change of data or xattrs.
    pub mtime: i64,
}

/// Kind of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Stat,
    Data,
    Omap,
    Xattrs,
}

/// Where a step's result goes: each kind uses some of it.
struct Place {
    kind: Kind,
    code: c_int,
    len: u64,
    mtime: libc::time_t,
    data: Vec<u8>,
    got: usize,
    pairs: Handle,
    more: c_uchar,
}

/// That, at a place of its own: the library writes there while the operation is under way.
struct Step(*mut Place);

// SAFETY: it is a box that is known to the library only while an operation is under way, which is waited for.
unsafe impl Send for Step {}

/// A look at one object. Each step's result is taken with the number that adding it gave.
pub struct ReadOp {
    api: &'static Api,
    op: Handle,
    steps: Vec<Step>,
}

/// Result of a [`ReadOp`].
pub struct Brought {
    api: &'static Api,
    what: String,
    /// The object's version.
    pub version: u64,
    steps: Vec<Step>,
}

impl ReadOp {
    /// One without a step.
    pub fn new() -> Result<ReadOp> {
        let api = api()?;
        // SAFETY: it is ours until it is released.
        Ok(ReadOp { api, op: unsafe { (api.rados_create_read_op)() }, steps: Vec::new() })
    }

    /// Only if nothing has changed the object since an operation ended with this version ([`Error::Changed`]).
    pub fn assert_version(&mut self, version: u64) -> &mut Self {
        // SAFETY: the operation is ours.
        unsafe { (self.api.rados_read_op_assert_version)(self.op, version) };
        self
    }

    /// Only if an xattr has this value ([`Error::Changed`]).
    pub fn assert_xattr(&mut self, name: &str, value: &[u8]) -> Result<&mut Self> {
        let name = text(name)?;
        // SAFETY: the operation is ours, and the library copies both.
        unsafe {
            (self.api.rados_read_op_cmpxattr)(self.op, name.as_ptr(), EQUAL, value.as_ptr().cast(), value.len());
        }
        Ok(self)
    }

    fn add(&mut self, kind: Kind, data: Vec<u8>) -> *mut Place {
        let place = Place { kind, code: 0, len: 0, mtime: 0, data, got: 0, pairs: ptr::null_mut(), more: 0 };
        let place = Box::into_raw(Box::new(place));
        self.steps.push(Step(place));
        place
    }

    /// Size and time.
    pub fn stat(&mut self) -> usize {
        let at = self.add(Kind::Stat, Vec::new());
        // SAFETY (here and in all steps): the place stays until the operation has ended.
        unsafe {
            (self.api.rados_read_op_stat)(self.op, &raw mut (*at).len, &raw mut (*at).mtime, &raw mut (*at).code)
        };
        self.steps.len() - 1
    }

    /// Up to `len` bytes from `offset` on, fewer only at the end.
    pub fn read(&mut self, offset: u64, len: usize) -> usize {
        let mut data = vec![0; len];
        let buffer = data.as_mut_ptr();
        let at = self.add(Kind::Data, data);
        // SAFETY: see above; the buffer does not move with its vector, and is not touched before.
        unsafe {
            let read = self.api.rados_read_op_read;
            read(self.op, offset, len, buffer.cast(), &raw mut (*at).got, &raw mut (*at).code);
        }
        self.steps.len() - 1
    }

    /// All xattrs.
    pub fn xattrs(&mut self) -> usize {
        let at = self.add(Kind::Xattrs, Vec::new());
        // SAFETY: see above.
        unsafe { (self.api.rados_read_op_getxattrs)(self.op, &raw mut (*at).pairs, &raw mut (*at).code) };
        self.steps.len() - 1
    }

    /// At most `most` keys and values behind `after`. The library takes that for a C string: it must have no NUL, so whoever has keys
    /// with NULs and pages through them writes them so that they have none.
    pub fn omap_after(&mut self, after: &[u8], most: u64) -> Result<usize> {
        let after = CString::new(after).map_err(|_| Error::Io {
            what: "a key of an omap".into(),
            cause: "to go on behind it, it must not contain a NUL".into(),
            errno: libc::EINVAL,
        })?;
        let at = self.add(Kind::Omap, Vec::new());
        // SAFETY: see above; the library copies both strings.
        unsafe {
            let (pairs, more, code) = (&raw mut (*at).pairs, &raw mut (*at).more, &raw mut (*at).code);
            (self.api.rados_read_op_omap_get_vals2)(self.op, after.as_ptr(), c"".as_ptr(), most, pairs, more, code);
        }
        Ok(self.steps.len() - 1)
    }

    /// Those of these keys that are there, with their values.
    pub fn omap_keys(&mut self, keys: &[&[u8]]) -> usize {
        let starts: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let lens: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let at = self.add(Kind::Omap, Vec::new());
        // SAFETY: see above; the library copies the keys, and both lists are as long.
        unsafe {
            let get = self.api.rados_read_op_omap_get_vals_by_keys2;
            let (pairs, code) = (&raw mut (*at).pairs, &raw mut (*at).code);
            get(self.op, starts.as_ptr(), starts.len(), lens.as_ptr(), pairs, code);
        }
        self.steps.len() - 1
    }

    /// Does it.
    pub fn run(self, pool: &Pool, object: &str) -> Result<Brought> {
        self.begin(pool, object)?.wait()
    }

    /// Begins it.
    pub fn begin(self, pool: &Pool, object: &str) -> Result<Reading> {
        let (name, what) = pool.object(object)?;
        // With a completion, because only that knows the version for certain.
        let completion = Pending::new(self.api, what.clone())?;
        // SAFETY: all are alive until the operation has ended, which `Reading` waits for, dropped or not.
        let code =
            unsafe { (self.api.rados_aio_read_op_operate)(self.op, pool.io, completion.handle(), name.as_ptr(), 0) };
        let pending = completion.begun(code)?;
        Ok(Reading { pending: Some(pending), op: self, what })
    }
}

/// A look that was begun. Dropping it waits for its end.
pub struct Reading {
    pending: Option<Pending>,
    op: ReadOp,
    what: String,
}

impl Reading {
    /// Waits for what it brings.
    pub fn wait(mut self) -> Result<Brought> {
        let pending = self.pending.take().expect("it is taken once, here or at the end");
        let version = pending.wait()?;
        let (api, steps) = (self.op.api, std::mem::take(&mut self.op.steps));
        Ok(Brought { api, what: std::mem::take(&mut self.what), version, steps })
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // The library writes into the steps' places until then.
        if let Some(pending) = self.pending.take() {
            let _ = pending.wait();
        }
    }
}

impl Drop for ReadOp {
    fn drop(&mut self) {
        // SAFETY: nothing is under way: `Reading` waits.
        unsafe { (self.api.rados_release_read_op)(self.op) };
    }
}

impl Brought {
    /// A step's result. Panics if the step was of another kind.
    fn of(&self, step: usize, kind: Kind) -> Result<&Place> {
        // SAFETY: the operation has ended, so the place is only ours.
        let place = unsafe { &*self.steps[step].0 };
        assert_eq!(place.kind, kind, "step {step} reads something else");
        check(&self.what, place.code)?;
        Ok(place)
    }

    /// Result of [`ReadOp::stat`].
    pub fn stat(&self, step: usize) -> Result<Stat> {
        let place = self.of(step, Kind::Stat)?;
        Ok(Stat { len: place.len, mtime: place.mtime })
    }

    /// Bytes that [`ReadOp::read`] read.
    pub fn data(&self, step: usize) -> Result<&[u8]> {
        let place = self.of(step, Kind::Data)?;
        Ok(&place.data[..place.got])
    }

    /// Pairs of [`ReadOp::omap_after`] or [`ReadOp::omap_keys`]; they can be taken once.
    pub fn omap(&self, step: usize) -> Result<Omap> {
        let Place { pairs, more, .. } = self.of(step, Kind::Omap)?;
        let mut out = Omap { pairs: Vec::new(), more: *more != 0 };
        loop {
            let (mut key, mut value): (*mut c_char, *mut c_char) = (ptr::null_mut(), ptr::null_mut());
            let (mut key_len, mut value_len) = (0, 0);
            // SAFETY: the iterator is ours until it is ended; what it gives lives as long.
            unsafe {
                let next = self.api.rados_omap_get_next2;
                check(&self.what, next(*pairs, &mut key, &mut value, &mut key_len, &mut value_len))?;
                if key.is_null() {
                    return Ok(out);
                }
                out.pairs.push((bytes(key, key_len), bytes(value, value_len)));
            }
        }
    }

    /// Xattrs of [`ReadOp::xattrs`]; they can be taken once.
    pub fn xattrs(&self, step: usize) -> Result<Vec<(String, Vec<u8>)>> {
        let Place { pairs, .. } = self.of(step, Kind::Xattrs)?;
        let mut out = Vec::new();
        loop {
            let (mut name, mut value): (*const c_char, *const c_char) = (ptr::null(), ptr::null());
            let mut len = 0;
            // SAFETY: as above; names are C strings.
            unsafe {
                check(&self.what, (self.api.rados_getxattrs_next)(*pairs, &mut name, &mut value, &mut len))?;
                if name.is_null() {
                    return Ok(out);
                }
                let name = std::ffi::CStr::from_ptr(name).to_string_lossy().into_owned();
                out.push((name, bytes(value, len)));
            }
        }
    }
}

/// # Safety
/// There are so many bytes, or none.
unsafe fn bytes(from: *const c_char, len: usize) -> Vec<u8> {
    if from.is_null() || len == 0 {
        return Vec::new();
    }
    // SAFETY: by the caller's word.
    unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len).to_vec() }
}

impl Drop for Step {
    fn drop(&mut self) {
        // SAFETY: the place is ours again: nothing is under way. An iterator that was made is ended once.
        unsafe {
            let place = Box::from_raw(self.0);
            let Ok(api) = api() else { return };
            match place.kind {
                _ if place.pairs.is_null() => {}
                Kind::Xattrs => (api.rados_getxattrs_end)(place.pairs),
                _ => (api.rados_omap_get_end)(place.pairs),
            }
        }
    }
}
