//! Every limit in one place; their relations are asserted at compile time.

/// Longest name of a directory entry, bytes.
pub const NAME_MAX: usize = 255;
/// Longest time that a rank may use its replica of a directory without hearing from the rank that sent it, milliseconds.
pub const REPLICA_MS: u64 = 2000;
/// Most names of one `Walk`.
pub const WALK_MAX: usize = 64;
/// Longest symlink target, bytes (PATH_MAX without the NUL).
pub const SYMLINK_MAX: usize = 4095;
/// Longest xattr name, bytes, with its prefix.
pub const XATTR_NAME_MAX: usize = 255;
/// Longest xattr value, bytes.
pub const XATTR_VALUE_MAX: usize = 65_536;
/// Most bytes of all xattr names and values of one inode.
pub const XATTR_TOTAL_MAX: usize = 262_144;
/// Most ACL entries of one ACL.
pub const ACL_ENTRIES_MAX: usize = 1024;
/// Most hard links to one inode.
pub const LINK_MAX: u32 = 65_000;
/// Most sub-directories need no limit of their own: a directory's link count stays at this.
pub const DIR_NLINK_MAX: u32 = u32::MAX - 1;
/// Largest file, bytes (as the kernel's `MAX_LFS_FILESIZE` on 64 bits, less one object so that no end overflows).
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64 - OBJECT_SIZE_MAX;
/// Default size of a data object, bytes.
pub const OBJECT_SIZE_DEFAULT: u64 = 4 << 20;
/// Largest size of a data object, bytes.
pub const OBJECT_SIZE_MAX: u64 = 1 << 30;
/// Largest file that may be held in the inode, bytes; the configured threshold is at most this.
pub const INLINE_MAX: usize = 64 << 10;
/// Most bytes of one data read or write request.
pub const DATA_OP_MAX: usize = 4 << 20;
/// Most places of a file whose bytes go into the journal with one request.
pub const PATCHES_MAX: usize = 64;
/// Most bytes of them.
pub const PATCH_BYTES_MAX: usize = 256 << 10;
/// Largest frame on the wire, bytes after the header.
pub const FRAME_MAX: usize = 8 << 20;
/// Most requests of one session that may be unanswered.
pub const IN_FLIGHT_MAX: usize = 4096;
/// Most inodes that one message says have moved.
pub const MOVED_MAX: usize = 65_536;
/// Most entries of one readdir answer.
pub const READDIR_MAX: usize = 4096;
/// Most supplementary groups of a caller (Linux NGROUPS_MAX).
pub const GROUPS_MAX: usize = 65_536;
/// Most inode numbers that a session may have been given and not used.
pub const INO_GRANT_MAX: u32 = 65_536;
/// Most inode numbers that the owner of a decoupled subtree may have and not have used.
pub const SUBTREE_INOS_MAX: u64 = 1 << 28;
/// So many of the first numbers that it is granted are for its journal in the store, and make no inodes.
pub const SUBTREE_JOURNALS: u64 = 2;
/// Most ranges of numbers that it may have been given.
pub const SUBTREE_GRANTS_MAX: usize = 4096;
/// Most files that the owner of a decoupled subtree which others read may overwrite between two merges, and rows of such files in its record.
pub const OVERWRITTEN_FILES_MAX: u64 = 1 << 18;
/// See there.
pub const OVERWRITTEN_ROWS_MAX: usize = 1 << 16;
/// Longest part of a merge, bytes: a rank applies one part without looking at anything else.
pub const MERGE_PART_MAX: usize = 256 << 10;
/// Most conflicts told of one by one in the answer to a merge.
pub const CONFLICTS_TOLD_MAX: usize = 64;
/// Most records that are asked for, or answered, at once about a decoupled subtree.
pub const FETCH_MAX: usize = 4096;
/// Most files of which the owner of a decoupled subtree may say that it has them open.
pub const HELD_OPEN_MAX: usize = 1 << 20;
/// Longest time that the owner of a decoupled subtree may be away and keep it, milliseconds: a week.
pub const SUBTREE_LEASE_MS_MAX: u32 = 7 * 24 * 3600 * 1000;
/// Most entries that a policy may say a directory will have.
pub const EXPECTED_ENTRIES_MAX: u64 = 1 << 40;
/// Most lines of the subtree map in one message.
pub const ROUTES_MAX: usize = 65_536;
/// Most ranks of a cluster map.
pub const RANKS_MAX: usize = 4096;
/// Longest address of a rank in the cluster map, bytes.
pub const ADDRESS_MAX: usize = 255;
/// Longest path of a question that a server asks another one's admin plane, bytes.
pub const QUESTION_PATH_MAX: usize = 1024;
/// Longest text that comes with such a question, bytes: a policy's, say.
pub const QUESTION_TEXT_MAX: usize = 1 << 20;
/// Longest reply to one, bytes: what ranks say to each other waits behind it on the connection.
pub const REPLY_TEXT_MAX: usize = 4 << 20;
/// Most questions between two servers, in one direction, that may be without a reply.
pub const QUESTIONS_MAX: usize = 16;
/// Longest address of a client in a store, bytes.
pub const DATA_ADDRESS_MAX: usize = 255;
/// Most of them that are kept of a session: the oldest is of a connection that ended long ago.
pub const DATA_ADDRESSES_MAX: usize = 16;
/// Longest chain of directories that is searched for a rename cycle.
pub const DEPTH_MAX: usize = 65_536;

// A data request with its headers fits in a frame.
const _: () = assert!(DATA_OP_MAX + 4096 <= FRAME_MAX);
// An xattr request with its value fits in a frame.
const _: () = assert!(XATTR_VALUE_MAX + XATTR_NAME_MAX + 4096 <= FRAME_MAX);
// An answer that lists all xattr names fits in a frame.
const _: () = assert!(XATTR_TOTAL_MAX + 4096 <= FRAME_MAX);
// A full readdir answer fits: a name and an attribute record take at most 600 bytes.
const _: () = assert!(READDIR_MAX * 600 <= FRAME_MAX);
// A whole cluster map and all routes fit beside each other in a message without payload.
const _: () = assert!(ROUTES_MAX * 36 + RANKS_MAX * (ADDRESS_MAX + 16) + 4096 <= FRAME_MAX - DATA_OP_MAX);
const _: () = assert!(INLINE_MAX <= DATA_OP_MAX);
// The data of one record fits in a data request.
const _: () = assert!(PATCH_BYTES_MAX <= DATA_OP_MAX);
