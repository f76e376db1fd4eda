//! A connection to a cluster: who we are there, how much space there is, and whom the cluster shall listen to no more.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::Arc;

use crate::api::{Api, ClusterStat, Handle, api};
use crate::error::{Result, check, words};
use crate::{Error, Pool};

/// Space of a cluster, bytes, copies counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// All.
    pub total: u64,
    /// Not used.
    pub free: u64,
}

/// A connection. librados has threads of its own for it, and goes on trying when the cluster is away.
pub struct Cluster {
    pub(crate) api: &'static Api,
    pub(crate) handle: Handle,
}

// SAFETY: "librados is thread safe": a cluster handle may be used by any thread, and by several at once.
unsafe impl Send for Cluster {}
// SAFETY: as above.
unsafe impl Sync for Cluster {}

/// A text for C. One with a NUL is none.
pub(crate) fn text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Io {
        what: format!("{text:?}"),
        cause: "a name must not contain a NUL".into(),
        errno: libc::EINVAL,
    })
}

impl Cluster {
    /// Connects with the settings of a file (`ceph.conf`) as `client` ("client.admin"). `set`: settings that go before those of the
    /// file. Waits as long as `client_mount_timeout` says.
    pub fn connect(conf: &str, client: &str, set: &[(&str, &str)]) -> Result<Arc<Cluster>> {
        let api = api()?;
        let unreachable = |code: i32| Error::Unreachable { conf: conf.to_owned(), cause: words(-code) };
        let (name, file) = (text(client)?, text(conf)?);
        let mut handle: Handle = ptr::null_mut();
        // SAFETY: the names are C strings; a null name of the cluster means the default. On success the handle is ours.
        let code = unsafe { (api.rados_create2)(&mut handle, c"ceph".as_ptr(), name.as_ptr(), 0) };
        if code < 0 {
            return Err(unreachable(code));
        }
        // From here on dropping it shuts down, connected or not.
        let cluster = Cluster { api, handle };
        // SAFETY: the handle is one that is not connected yet; so with all below.
        let code = unsafe { (api.rados_conf_read_file)(handle, file.as_ptr()) };
        if code < 0 {
            return Err(unreachable(code));
        }
        for (key, value) in set {
            let (key, value) = (text(key)?, text(value)?);
            // SAFETY: both are C strings, copied by the call.
            check(conf, unsafe { (api.rados_conf_set)(handle, key.as_ptr(), value.as_ptr()) })?;
        }
        // SAFETY: as above.
        let code = unsafe { (api.rados_connect)(handle) };
        if code < 0 { Err(unreachable(code)) } else { Ok(Arc::new(cluster)) }
    }

    /// A pool of it; `namespace`: "" is the default one. [`Error::NotFound`] if there is no such pool.
    pub fn pool(self: &Arc<Cluster>, name: &str, namespace: &str) -> Result<Pool> {
        Pool::open(self, name, namespace)
    }

    /// Space of the cluster. All is 0 as long as the cluster has no manager: nobody counts.
    pub fn space(&self) -> Result<Space> {
        let mut stat = ClusterStat::default();
        // SAFETY: the struct is laid out as the library's.
        check("the cluster", unsafe { (self.api.rados_cluster_stat)(self.handle, &mut stat) })?;
        Ok(Space { total: stat.kb * 1024, free: stat.kb_avail * 1024 })
    }

    /// The monitors' answer to a command, as in `{"prefix": "fsid", "format": "json"}`: the library's way to what `ceph` tells.
    pub fn ask(&self, command: &str) -> Result<Vec<u8>> {
        let what = format!("the monitors' answer to {command}");
        let command = text(command)?;
        let (mut out, mut out_len) = (ptr::null_mut(), 0);
        let (mut said, mut said_len) = (ptr::null_mut(), 0);
        // SAFETY: one command, a C string, and nothing with it; both answers are the library's until they are freed below.
        unsafe {
            let code = (self.api.rados_mon_command)(
                self.handle,
                &command.as_ptr(),
                1,
                ptr::null(),
                0,
                &mut out,
                &mut out_len,
                &mut said,
                &mut said_len,
            );
            let taken = |from: *mut c_char, len: usize| {
                if from.is_null() {
                    return Vec::new();
                }
                let bytes = std::slice::from_raw_parts(from.cast::<u8>(), len).to_vec();
                (self.api.rados_buffer_free)(from);
                bytes
            };
            let (out, _words) = (taken(out, out_len), taken(said, said_len));
            check(&what, code).map(|_| out)
        }
    }

    /// The addresses of this connection, as [`Cluster::shut_out`] takes them.
    pub fn addresses(&self) -> Result<String> {
        let mut out = ptr::null_mut();
        // SAFETY: on success `out` is a C string that the library has allocated and that `rados_buffer_free` frees.
        unsafe {
            check("the cluster", (self.api.rados_getaddrs)(self.handle, &mut out))?;
            let addresses = CStr::from_ptr(out).to_string_lossy().into_owned();
            (self.api.rados_buffer_free)(out);
            Ok(addresses)
        }
    }

    /// The number of this connection in the cluster: a part of what lockers and watchers are called.
    pub fn instance(&self) -> u64 {
        // SAFETY: the handle is connected.
        unsafe { (self.api.rados_get_instance_id)(self.handle) }
    }

    /// Puts an address on the blocklist for so many seconds: no operation of that client takes effect any more at an OSD that knows of
    /// it. Returns when the monitors have it; this client's later operations take it along to the OSDs.
    pub fn shut_out(&self, address: &str, seconds: u32) -> Result<()> {
        let address = text(address)?;
        // SAFETY: the library only reads the string.
        unsafe {
            check("the blocklist", (self.api.rados_blocklist_add)(self.handle, address.as_ptr().cast_mut(), seconds))?;
            check("the OSD map", (self.api.rados_wait_for_latest_osdmap)(self.handle))?;
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: pools hold an `Arc` of this, so nothing uses the handle any more.
        unsafe { (self.api.rados_shutdown)(self.handle) }
    }
}
