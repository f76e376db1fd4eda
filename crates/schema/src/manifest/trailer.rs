//! The first and the last bytes of a manifest: what it is, its totals, and where its root is.

use super::{CHECKSUM, Fault, PAYLOAD_MAX, VERSION};

/// Bytes of the header.
pub(super) const HEADER_LEN: usize = 16;
/// Bytes of the trailer.
pub(super) const TRAILER_LEN: usize = 88;

const MAGIC: &[u8; 8] = b"LOLIGOMF";
const END_MAGIC: &[u8; 8] = b"LOLIGOME";

/// The first bytes of every manifest.
pub(super) fn header() -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header
}

/// Checks the first bytes.
pub(super) fn check_header(bytes: &[u8; HEADER_LEN]) -> Result<(), Fault> {
    if bytes[..8] != *MAGIC {
        return Err(Fault::NotManifest("begin with `LOLIGOMF`"));
    }
    check_version(bytes)
}

fn check_version(bytes: &[u8]) -> Result<(), Fault> {
    match u32_at(bytes, 8) {
        VERSION if u32_at(bytes, 12) == 0 => Ok(()),
        VERSION => Err(Fault::NotManifest("have zeros behind its version")),
        other => Err(Fault::Version(other)),
    }
}

/// Totals of a manifest, and where its root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Trailer {
    /// Entries below the root.
    pub entries: u64,
    /// Directories among them.
    pub dirs: u64,
    /// Regular files among them.
    pub files: u64,
    /// Sizes of the files together.
    pub bytes: u64,
    /// Sources.
    pub sources: u64,
    /// Bytes of the manifest, this trailer included.
    pub len: u64,
    /// CRC-32C of all bytes before the trailer.
    pub content: u32,
    pub(super) root_offset: u64,
    pub(super) root_len: u32,
}

impl Trailer {
    pub(super) fn to_bytes(self) -> [u8; TRAILER_LEN] {
        let mut out = [0; TRAILER_LEN];
        out[..8].copy_from_slice(END_MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let numbers = [self.entries, self.dirs, self.files, self.bytes, self.sources, self.root_offset, self.len];
        for (at, number) in (16..).step_by(8).zip(numbers) {
            out[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        out[72..76].copy_from_slice(&self.root_len.to_le_bytes());
        out[76..80].copy_from_slice(&self.content.to_le_bytes());
        let checksum = crc32c::crc32c(&out[..TRAILER_LEN - CHECKSUM]);
        out[TRAILER_LEN - CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The checksum of the trailer, which covers that of the content: two manifests with the same one are the same.
    pub fn checksum(&self) -> u32 {
        u32_at(&self.to_bytes(), TRAILER_LEN - CHECKSUM)
    }

    /// Reads the trailer of a file of `len` bytes.
    pub(super) fn read(bytes: &[u8; TRAILER_LEN], len: u64) -> Result<Trailer, Fault> {
        if bytes[..8] != *END_MAGIC {
            return Err(Fault::NotManifest("end with a trailer; maybe it was cut"));
        }
        check_version(bytes)?;
        if crc32c::crc32c(&bytes[..TRAILER_LEN - CHECKSUM]) != u32_at(bytes, TRAILER_LEN - CHECKSUM) {
            return Err(Fault::Checksum { what: "trailer", offset: len - TRAILER_LEN as u64 });
        }
        let number = |at: usize| u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32;
        let trailer = Trailer {
            entries: number(16),
            dirs: number(24),
            files: number(32),
            bytes: number(40),
            sources: number(48),
            root_offset: number(56),
            len: number(64),
            root_len: u32_at(bytes, 72),
            content: u32_at(bytes, 76),
        };
        if trailer.len != len {
            return Err(Fault::Length { found: len, expected: trailer.len });
        }
        let root_end = trailer.root_offset.checked_add(u64::from(trailer.root_len) + CHECKSUM as u64);
        if root_end != Some(len - TRAILER_LEN as u64)
            || trailer.root_len as usize > PAYLOAD_MAX
            || u32_at(bytes, 80) != 0
        {
            return Err(Fault::OutOfBounds { offset: trailer.root_offset, len: u64::from(trailer.root_len) });
        }
        let has = |what, found, max| {
            let remedy = "split the tree into several directories";
            if found > max { Err(Fault::TooMany { what, found, max, remedy }) } else { Ok(()) }
        };
        has("entries", trailer.entries, crate::limits::ENTRIES_MAX)?;
        has("bytes of all files", trailer.bytes, crate::limits::BYTES_MAX)?;
        has("sources", trailer.sources, super::SOURCES_MAX)?;
        has("directories and files", trailer.dirs.saturating_add(trailer.files), trailer.entries)?;
        Ok(trailer)
    }
}

/// The number at a place of bytes that are known to be long enough.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |four| u32::from_le_bytes(*four))
}
