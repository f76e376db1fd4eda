//! The functions of librados that are used, found when the first one is. Their signatures are those of `rados/librados.h` of Ceph 16,
//! which later versions keep.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::OnceLock;

use libloading::Library;

use crate::{Error, Result};

/// Opaque pointers of librados.
pub(crate) type Handle = *mut c_void;

/// Called when an operation has ended: the completion, and what it was made with.
pub(crate) type Complete = unsafe extern "C" fn(Handle, *mut c_void);
/// Called with a notification: our argument, its number, the watch, who notifies, and what.
pub(crate) type Notify = unsafe extern "C" fn(*mut c_void, u64, u64, u64, *mut c_void, usize);
/// Called when a watch has broken: our argument, the watch, the errno.
pub(crate) type Broken = unsafe extern "C" fn(*mut c_void, u64, c_int);

/// `rados_cluster_stat_t`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct ClusterStat {
    pub kb: u64,
    pub kb_used: u64,
    pub kb_avail: u64,
    pub num_objects: u64,
}

/// Makes a struct with one function pointer for each, and what loads it.
macro_rules! functions {
    ($($name:ident($($arg:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        /// Functions of the library that are used.
        #[allow(non_snake_case, reason = "the names are the library's")]
        pub(crate) struct Api {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            _library: Library,
        }

        fn load(library: Library) -> std::result::Result<Api, libloading::Error> {
            Ok(Api {
                // SAFETY: the signatures are those of the header that belongs to this version of the library, and the library lives
                // as long as the pointers.
                $($name: unsafe { *library.get(stringify!($name))? },)*
                _library: library,
            })
        }
    };
}

functions! {
    rados_version(*mut c_int, *mut c_int, *mut c_int);
    rados_create2(*mut Handle, *const c_char, *const c_char, u64) -> c_int;
    rados_conf_read_file(Handle, *const c_char) -> c_int;
    rados_conf_set(Handle, *const c_char, *const c_char) -> c_int;
    rados_connect(Handle) -> c_int;
    rados_shutdown(Handle);
    rados_getaddrs(Handle, *mut *mut c_char) -> c_int;
    rados_get_instance_id(Handle) -> u64;
    rados_cluster_stat(Handle, *mut ClusterStat) -> c_int;
    rados_wait_for_latest_osdmap(Handle) -> c_int;
    rados_blocklist_add(Handle, *mut c_char, u32) -> c_int;
    rados_mon_command(
        Handle, *const *const c_char, usize, *const c_char, usize, *mut *mut c_char, *mut usize, *mut *mut c_char,
        *mut usize,
    ) -> c_int;
    rados_buffer_free(*mut c_char);

    rados_ioctx_create(Handle, *const c_char, *mut Handle) -> c_int;
    rados_ioctx_destroy(Handle);
    rados_ioctx_set_namespace(Handle, *const c_char);
    rados_set_pool_full_try(Handle);
    rados_nobjects_list_open(Handle, *mut Handle) -> c_int;
    rados_nobjects_list_next2(
        Handle, *mut *const c_char, *mut *const c_char, *mut *const c_char, *mut usize, *mut usize, *mut usize,
    ) -> c_int;
    rados_nobjects_list_close(Handle);

    rados_create_write_op() -> Handle;
    rados_release_write_op(Handle);
    rados_write_op_assert_exists(Handle);
    rados_write_op_assert_version(Handle, u64);
    rados_write_op_cmpxattr(Handle, *const c_char, u8, *const c_char, usize);
    rados_write_op_omap_cmp2(Handle, *const c_char, u8, *const c_char, usize, usize, *mut c_int);
    rados_write_op_setxattr(Handle, *const c_char, *const c_char, usize);
    rados_write_op_create(Handle, c_int, *const c_char);
    rados_write_op_write(Handle, *const c_char, usize, u64);
    rados_write_op_write_full(Handle, *const c_char, usize);
    rados_write_op_append(Handle, *const c_char, usize);
    rados_write_op_remove(Handle);
    rados_write_op_truncate(Handle, u64);
    rados_write_op_zero(Handle, u64, u64);
    rados_write_op_omap_set2(
        Handle, *const *const c_char, *const *const c_char, *const usize, *const usize, usize,
    );
    rados_write_op_omap_rm_keys2(Handle, *const *const c_char, *const usize, usize);

    rados_aio_write_op_operate(Handle, Handle, Handle, *const c_char, *mut libc::time_t, c_int) -> c_int;

    rados_create_read_op() -> Handle;
    rados_release_read_op(Handle);
    rados_read_op_assert_version(Handle, u64);
    rados_read_op_cmpxattr(Handle, *const c_char, u8, *const c_char, usize);
    rados_read_op_stat(Handle, *mut u64, *mut libc::time_t, *mut c_int);
    rados_read_op_read(Handle, u64, usize, *mut c_char, *mut usize, *mut c_int);
    rados_read_op_getxattrs(Handle, *mut Handle, *mut c_int);
    rados_getxattrs_next(Handle, *mut *const c_char, *mut *const c_char, *mut usize) -> c_int;
    rados_getxattrs_end(Handle);
    rados_read_op_omap_get_vals2(
        Handle, *const c_char, *const c_char, u64, *mut Handle, *mut c_uchar, *mut c_int,
    );
    rados_read_op_omap_get_vals_by_keys2(
        Handle, *const *const c_char, usize, *const usize, *mut Handle, *mut c_int,
    );
    rados_omap_get_next2(Handle, *mut *mut c_char, *mut *mut c_char, *mut usize, *mut usize) -> c_int;
    rados_omap_get_end(Handle);
    rados_aio_read_op_operate(Handle, Handle, Handle, *const c_char, c_int) -> c_int;

    rados_aio_create_completion2(*mut c_void, Option<Complete>, *mut Handle) -> c_int;
    rados_aio_wait_for_complete(Handle) -> c_int;
    rados_aio_is_complete(Handle) -> c_int;
    rados_aio_get_return_value(Handle) -> c_int;
    rados_aio_get_version(Handle) -> u64;
    rados_aio_release(Handle);

    rados_lock_exclusive(
        Handle, *const c_char, *const c_char, *const c_char, *const c_char, *mut libc::timeval, u8,
    ) -> c_int;
    rados_unlock(Handle, *const c_char, *const c_char, *const c_char) -> c_int;
    rados_break_lock(Handle, *const c_char, *const c_char, *const c_char, *const c_char) -> c_int;
    rados_list_lockers(
        Handle, *const c_char, *const c_char, *mut c_int, *mut c_char, *mut usize, *mut c_char, *mut usize, *mut c_char,
        *mut usize, *mut c_char, *mut usize,
    ) -> isize;

    rados_watch3(Handle, *const c_char, *mut u64, Notify, Option<Broken>, u32, *mut c_void) -> c_int;
    rados_unwatch2(Handle, u64) -> c_int;
    rados_watch_check(Handle, u64) -> c_int;
    rados_watch_flush(Handle) -> c_int;
    rados_notify2(Handle, *const c_char, *const c_char, c_int, u64, *mut *mut c_char, *mut usize) -> c_int;
    rados_notify_ack(Handle, *const c_char, u64, u64, *const c_char, c_int) -> c_int;
}

/// The library, loaded once for the process. An error is told each time.
pub(crate) fn api() -> Result<&'static Api> {
    static API: OnceLock<std::result::Result<Api, String>> = OnceLock::new();
    let open = || {
        // SAFETY: what runs when librados is loaded is the initialisation of C++ libraries, which has no conditions.
        let library = unsafe { Library::new("librados.so.2") };
        library.and_then(load).map_err(|error| error.to_string())
    };
    API.get_or_init(open).as_ref().map_err(|cause| Error::NoLibrary { cause: cause.clone() })
}

/// The library's version, as "3.0.0".
pub fn version() -> Result<String> {
    let (mut major, mut minor, mut extra) = (0, 0, 0);
    // SAFETY: three integers to write into.
    unsafe { (api()?.rados_version)(&mut major, &mut minor, &mut extra) };
    Ok(format!("{major}.{minor}.{extra}"))
}
