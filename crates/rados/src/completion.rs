//! Operations under way.

use std::ffi::c_void;
use std::ptr;

use crate::api::{Api, Handle};
use crate::error::{Result, check};

/// Function that is called at the end of an operation, with the object's version then, on a thread of the library's: it must not block.
type Then = Box<dyn FnOnce(Result<u64>) + Send>;

/// An operation that was begun. Dropping it does not end the operation.
pub struct Pending {
    api: &'static Api,
    completion: Handle,
    what: String,
}

// SAFETY: completions are counted references with a lock of their own.
unsafe impl Send for Pending {}

struct Call {
    api: &'static Api,
    what: String,
    then: Then,
}

impl Pending {
    /// A completion for an operation that is about to begin. `what`: the object, for errors.
    pub(crate) fn new(api: &'static Api, what: String) -> Result<Pending> {
        let mut completion: Handle = ptr::null_mut();
        // SAFETY: without a callback there is nothing that must outlive anything.
        check(&what, unsafe { (api.rados_aio_create_completion2)(ptr::null_mut(), None, &mut completion) })?;
        Ok(Pending { api, completion, what })
    }

    /// Begins an operation whose end calls `then`, once, unless it could not be begun: then this returns why. `begin` gets the
    /// completion.
    pub(crate) fn call(api: &'static Api, what: String, then: Then, begin: impl FnOnce(Handle) -> i32) -> Result<()> {
        let call = Box::into_raw(Box::new(Call { api, what: what.clone(), then }));
        let mut completion: Handle = ptr::null_mut();
        // SAFETY: the box is freed once: by the callback, which is called once for each operation that was begun, or here.
        unsafe {
            let made = (api.rados_aio_create_completion2)(call.cast(), Some(ended), &mut completion);
            let begun = check(&what, made).and_then(|_| check(&what, begin(completion)));
            if begun.is_err() {
                drop(Box::from_raw(call));
            }
            if made >= 0 {
                // The operation has a reference of its own.
                (api.rados_aio_release)(completion);
            }
            begun.map(drop)
        }
    }

    /// Takes the return code of the call that was to begin it.
    pub(crate) fn begun(self, code: i32) -> Result<Pending> {
        check(&self.what, code)?;
        Ok(self)
    }

    pub(crate) fn handle(&self) -> Handle {
        self.completion
    }

    /// True if it has ended.
    pub fn is_done(&self) -> bool {
        // SAFETY: the completion is ours.
        unsafe { (self.api.rados_aio_is_complete)(self.completion) != 0 }
    }

    /// Waits for its end; the object's version then.
    pub fn wait(self) -> Result<u64> {
        // SAFETY: as above.
        unsafe { (self.api.rados_aio_wait_for_complete)(self.completion) };
        // SAFETY: it is complete.
        unsafe { outcome(self.api, &self.what, self.completion) }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // SAFETY: an operation under way has a reference of its own.
        unsafe { (self.api.rados_aio_release)(self.completion) }
    }
}

/// # Safety
/// The completion is complete.
unsafe fn outcome(api: &Api, what: &str, completion: Handle) -> Result<u64> {
    // SAFETY: by the caller's word.
    unsafe {
        check(what, (api.rados_aio_get_return_value)(completion))?;
        Ok((api.rados_aio_get_version)(completion))
    }
}

unsafe extern "C" fn ended(completion: Handle, call: *mut c_void) {
    // SAFETY: `Pending::call` made the box for this one call.
    let call = unsafe { Box::from_raw(call.cast::<Call>()) };
    // SAFETY: the library calls this when it is complete.
    let result = unsafe { outcome(call.api, &call.what, completion) };
    (call.then)(result);
}
