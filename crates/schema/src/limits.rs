//! Limits of documents and of the trees that they describe. The numbers only.

/// Longest document, bytes: it is the value of one extended attribute and goes to every client that opens the directory.
pub const DOCUMENT_MAX: usize = 4096;
/// Most entries of one generated tree. The inode numbers of a rank (2^47 that no scattered directory has) are enough for 128 such trees.
pub const ENTRIES_MAX: u64 = 1 << 40;
/// Most arguments of a document.
pub const ARGS_MAX: usize = 64;
/// Most paths of a formula.
pub const PATHS_MAX: usize = 256;
/// Most components of a path.
pub const DEPTH_MAX: usize = 64;
/// Longest `contents` of a file, bytes: smaller than any document, so that the document alone bounds it.
pub const CONTENTS_MAX: usize = 2048;
/// Most bytes of all files of a generated tree together: recursive sums are signed.
pub const BYTES_MAX: u64 = i64::MAX as u64;
/// Largest number of a range: TOML has no larger one.
pub const NUMBER_MAX: u64 = i64::MAX as u64;

const _: () = assert!(ENTRIES_MAX <= 1 << 40 && (1u64 << 47) / ENTRIES_MAX >= 128);
const _: () = assert!(CONTENTS_MAX < DOCUMENT_MAX);
