//! The file `epochs`: which openings of the data directory did not end cleanly, and whether all that they wrote is there. Not which
//! objects they changed: each object says that itself.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use loligo_store::{Result, StoreError};

use crate::files::{self, named};

const MAGIC: [u8; 4] = *b"LEPO";
const VERSION: u32 = 2;
/// Bytes before the list, without the number of its entries.
const FIXED: usize = 52;
/// The same in version 1, which did not know where it was.
const FIXED_1: usize = 20;
const ENTRY: usize = 12;
const ENTRY_1: usize = 8;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Where an opening is: the run of the kernel, and the directory. While both are the same nothing is lost that was handed to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    /// The random number of the kernel's run, with the number of the mount; zeros: not known.
    pub(super) boot: [u8; 16],
    /// Device and inode of the directory of objects.
    pub(super) dir: (u64, u64),
}

/// End of an opening that did not end cleanly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With the machine, or nobody knows: of what was written and not synced any part may be on the disk.
    Crashed,
    /// It was killed, and the kernel went on: all that it wrote is there. It may be lost if the machine fails now.
    Killed,
    /// The same, and all of it is on the disk.
    Settled,
}

/// The openings so far. The first is number 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Epochs {
    /// The number of this opening, or of the last one.
    pub(super) current: u64,
    /// True if it is still going on (or was killed).
    pub(super) open: bool,
    /// Where it is, or was.
    pub(super) place: Place,
    /// Earlier ones that did not end cleanly.
    pub(super) unclean: BTreeMap<u64, Ended>,
}

impl Place {
    /// Here and now.
    pub(super) fn of(objects: &Path) -> Result<Place> {
        let meta = fs::metadata(objects).map_err(|e| named(objects, &e))?;
        let digits: Vec<u8> = fs::read(BOOT_ID).unwrap_or_default().into_iter().filter(u8::is_ascii_hexdigit).collect();
        let text = String::from_utf8(digits).unwrap_or_default();
        let run = u128::from_str_radix(&text, 16).unwrap_or(0);
        // A disk that is detached, or taken down by the kernel after an error, loses what was not written to it, and comes back as another
        // mount. Its process in another mount namespace looks the same, and only less is believed then.
        let mount = if run == 0 { 0 } else { mount_id(objects) };
        let boot = (run ^ (u128::from(mount) << 64)).to_be_bytes();
        Ok(Place { boot, dir: (meta.dev(), meta.ino()) })
    }

    /// True if the kernel has run on, with the same directory.
    fn is_same(&self, other: &Place) -> bool {
        self.boot != [0; 16] && self == other
    }
}

/// The kernel's number of the mount that a directory is in, unique since Linux 6.8; 0: not known.
fn mount_id(dir: &Path) -> u64 {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    /// `STATX_MNT_ID_UNIQUE`, which older kernels ignore.
    const UNIQUE: u32 = 0x4000;
    let wanted = StatxFlags::MNT_ID | StatxFlags::from_bits_retain(UNIQUE);
    statx(CWD, dir, AtFlags::empty(), wanted).map_or(0, |found| found.stx_mnt_id)
}

impl Ended {
    fn code(self) -> u32 {
        match self {
            Ended::Crashed => 0,
            Ended::Killed => 1,
            Ended::Settled => 2,
        }
    }

    fn from_code(code: u32) -> Option<Ended> {
        [Ended::Crashed, Ended::Killed, Ended::Settled].into_iter().find(|ended| ended.code() == code)
    }
}

impl Epochs {
    /// Writes the file of a fresh data directory.
    pub(crate) fn format(path: &Path) -> Result<()> {
        let fresh = Self { current: 0, open: false, place: Place::default(), unclean: BTreeMap::new() };
        files::replace(path, &fresh.encode())
    }

    /// Reads the file.
    pub(super) fn look(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).map_err(|e| named(path, &e))?;
        Self::decode(&path.display().to_string(), &bytes)
    }

    /// Number of openings so far, as far as it is known.
    pub(crate) fn openings(path: &Path) -> u64 {
        Self::look(path).map_or(0, |epochs| epochs.current)
    }

    /// Begins an opening, durably; says whether the one before ended cleanly.
    pub(super) fn begin(path: &Path, here: Place) -> Result<(Self, bool)> {
        let mut epochs = Self::look(path)?;
        let clean = !epochs.open;
        if epochs.open {
            let killed = epochs.place.is_same(&here);
            if !killed {
                // What the kernel had not written yet of those before is lost, too.
                let unsettled = epochs.unclean.values_mut().filter(|ended| **ended == Ended::Killed);
                unsettled.for_each(|ended| *ended = Ended::Crashed);
            }
            epochs.unclean.insert(epochs.current, if killed { Ended::Killed } else { Ended::Crashed });
        }
        epochs.current += 1;
        (epochs.open, epochs.place) = (true, here);
        files::replace(path, &epochs.encode())?;
        Ok((epochs, clean))
    }

    /// Ends this opening cleanly, durably. All that was written before is on the disk.
    pub(super) fn end(&self, path: &Path) -> Result<()> {
        files::replace(path, &Self { open: false, ..self.settled() }.encode())
    }

    /// Notes durably that all that was written before this opening is on the disk.
    pub(super) fn settle(&self, path: &Path) -> Result<()> {
        if self.unclean.values().all(|ended| *ended != Ended::Killed) {
            return Ok(());
        }
        files::replace(path, &self.settled().encode())
    }

    fn settled(&self) -> Self {
        let settle = |ended: Ended| if ended == Ended::Killed { Ended::Settled } else { ended };
        Self { unclean: self.unclean.iter().map(|(epoch, ended)| (*epoch, settle(*ended))).collect(), ..self.clone() }
    }

    /// True if some opening may have left objects of which any part is on the disk.
    pub(super) fn any_crashed(&self) -> bool {
        self.unclean.values().any(|ended| *ended == Ended::Crashed)
    }

    /// The same openings as somebody sees them who owns nothing: the present one may be going on, or have ended without a word.
    pub(super) fn seen_from_outside(mut self, here: Place) -> Self {
        if self.open {
            let ended = if self.place.is_same(&here) { Ended::Killed } else { Ended::Crashed };
            if ended == Ended::Crashed {
                let unsettled = self.unclean.values_mut().filter(|ended| **ended == Ended::Killed);
                unsettled.for_each(|ended| *ended = Ended::Crashed);
            }
            self.unclean.insert(self.current, ended);
        }
        self
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED + 8 + ENTRY * self.unclean.len() + 4);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.current.to_le_bytes());
        out.extend(u32::from(self.open).to_le_bytes());
        out.extend(self.place.boot);
        out.extend(self.place.dir.0.to_le_bytes());
        out.extend(self.place.dir.1.to_le_bytes());
        out.extend((self.unclean.len() as u64).to_le_bytes());
        for (epoch, ended) in &self.unclean {
            out.extend(epoch.to_le_bytes());
            out.extend(ended.code().to_le_bytes());
        }
        let crc = crc32c::crc32c(&out);
        out.extend(crc.to_le_bytes());
        out
    }

    pub(super) fn decode(place: &str, bytes: &[u8]) -> Result<Self> {
        let damaged = |detail: &str| StoreError::Corrupt { place: place.to_string(), detail: detail.to_string() };
        if bytes.len() < FIXED_1 + 12 || bytes[..4] != MAGIC {
            return Err(damaged("it does not begin with LEPO or is too short"));
        }
        let version = u32::from_le_bytes(array(&bytes[4..8]));
        if version > VERSION {
            return Err(StoreError::NewerVersion { what: place.to_string(), found: version, known: VERSION });
        }
        let (fixed, entry) = if version < 2 { (FIXED_1, ENTRY_1) } else { (FIXED, ENTRY) };
        let (body, crc) = bytes.split_at(bytes.len() - 4);
        if u32::from_le_bytes(array(crc)) != crc32c::crc32c(body) {
            return Err(damaged("its checksum does not match"));
        }
        let Some((head, list)) = body.split_at_checked(fixed + 8) else {
            return Err(damaged("it is too short"));
        };
        let count = u64::from_le_bytes(array(&head[fixed..]));
        if list.len() % entry != 0 || count != (list.len() / entry) as u64 {
            return Err(damaged("its length does not match its count"));
        }
        let mut unclean = BTreeMap::new();
        for entry in list.chunks_exact(entry) {
            // Version 1 did not tell a process that was killed from a machine that failed.
            let code = if version < 2 { 0 } else { u32::from_le_bytes(array(&entry[8..])) };
            let ended = Ended::from_code(code).ok_or_else(|| damaged("it says of an end that nobody knows"))?;
            unclean.insert(u64::from_le_bytes(array(&entry[..8])), ended);
        }
        let place = match version {
            0 | 1 => Place::default(),
            _ => Place {
                boot: array(&head[20..36]),
                dir: (u64::from_le_bytes(array(&head[36..44])), u64::from_le_bytes(array(&head[44..52]))),
            },
        };
        let open = u32::from_le_bytes(array(&head[16..20])) != 0;
        Ok(Self { current: u64::from_le_bytes(array(&head[8..16])), open, place, unclean })
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("every caller slices exactly N bytes")
}
