//! Abilities of the kernel's FUSE, found out by a mount that nobody uses. Not how they are used: `session.rs`, `name_caching.rs`.

use std::path::Path;

use loligo_fuse::{Capabilities, Offer};

use crate::mount::{MountError, MountOptions, mount};
use crate::name_caching::NameCaching;
use crate::{dispatch, mountpoint};

/// Abilities of the kernel that matter to a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// Minor version of the FUSE protocol; the major one is 7.
    pub minor: u32,
    /// Level of caching of names.
    pub names: NameCaching,
    /// The kernel checks access control lists itself.
    pub acls: bool,
    /// Files in direct mode can be mapped shared (Linux 6.6).
    pub direct_maps: bool,
    /// The server is told when setuid and setgid are to end, with the call that ends them.
    pub kill_priv: bool,
}

/// Mounts at an empty directory, hears what the kernel offers, and unmounts. Nothing is left, also if it fails.
///
/// # Errors
/// This user cannot mount there, or the kernel's FUSE is too old.
pub fn probe(dir: &Path) -> Result<Abilities, MountError> {
    let options = MountOptions { fs_name: "loligo:probe".into(), allow_other: false, ..MountOptions::new(dir) };
    let device = mount(dir, &options)?;
    let offer = device.handshake(&dispatch::wish(options.max_write));
    let gone = mountpoint::detach(dir);
    let Offer { minor, capabilities } = offer.map_err(|source| MountError::Init { path: dir.to_owned(), source })?;
    gone.map_err(|source| MountError::Path { path: dir.to_owned(), source })?;
    Ok(Abilities {
        minor,
        names: NameCaching::of_kernel(minor),
        acls: capabilities.has(Capabilities::POSIX_ACL),
        direct_maps: capabilities.has(Capabilities::DIRECT_IO_ALLOW_MMAP),
        kill_priv: capabilities.has(Capabilities::HANDLE_KILLPRIV_V2),
    })
}
