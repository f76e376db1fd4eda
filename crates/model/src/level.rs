//! The two interfaces of a level under test: by inode number (tree, wire) or by path (mount). Not here: any of them.

use loligo_types::{Answer, Attr, Cred, FsResult, Ino, Kind, Name, Op, RenameMode, XattrMode};

/// A level that speaks inode numbers. [`crate::Walk`] makes a [`PathFs`] of it.
pub trait Level {
    /// Any operation that needs no open file.
    fn op(&mut self, cred: &Cred, op: Op) -> FsResult<Answer>;
    /// Opens (making it if need be), and closes.
    fn create(&mut self, cred: &Cred, dir: Ino, name: Name, mode: u16, exclusive: bool) -> FsResult<Attr>;
    /// Opens for writing (cutting to 0 first if told to), writes, closes.
    fn write(&mut self, cred: &Cred, ino: Ino, offset: u64, data: &[u8], cut: bool) -> FsResult<()>;
    /// Opens for writing with append, writes, closes.
    fn append(&mut self, cred: &Cred, ino: Ino, data: &[u8]) -> FsResult<()>;
    /// Opens for reading and reads all.
    fn read(&mut self, cred: &Cred, ino: Ino) -> FsResult<Vec<u8>>;
}

/// Attributes of a file that are compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Type.
    pub kind: Kind,
    /// 0..=0o7777.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Links; of directories not compared on local file systems that do not count.
    pub nlink: u32,
    /// Bytes of a file or a symlink's target; 0 for directories, whose size is each file system's own.
    pub size: u64,
}

/// A level that speaks paths: relative, `/` between names, no leading or trailing slash, "" for the root.
pub trait PathFs {
    /// lstat.
    fn stat(&mut self, who: &Cred, path: &str) -> FsResult<Stat>;
    /// open(O_CREAT [| O_EXCL], mode) and close. umask is 0.
    fn create(&mut self, who: &Cred, path: &str, mode: u16, exclusive: bool) -> FsResult<()>;
    /// open(O_WRONLY [| O_TRUNC]), pwrite, close.
    fn write(&mut self, who: &Cred, path: &str, offset: u64, data: &[u8], cut: bool) -> FsResult<()>;
    /// open(O_WRONLY | O_APPEND), write, close.
    fn append(&mut self, who: &Cred, path: &str, data: &[u8]) -> FsResult<()>;
    /// open(O_RDONLY), read to the end, close.
    fn read(&mut self, who: &Cred, path: &str) -> FsResult<Vec<u8>>;
    /// truncate.
    fn truncate(&mut self, who: &Cred, path: &str, size: u64) -> FsResult<()>;
    /// mkdir.
    fn mkdir(&mut self, who: &Cred, path: &str, mode: u16) -> FsResult<()>;
    /// rmdir.
    fn rmdir(&mut self, who: &Cred, path: &str) -> FsResult<()>;
    /// unlink.
    fn unlink(&mut self, who: &Cred, path: &str) -> FsResult<()>;
    /// link; a symlink itself is linked, not its target.
    fn link(&mut self, who: &Cred, old: &str, new: &str) -> FsResult<()>;
    /// symlink.
    fn symlink(&mut self, who: &Cred, target: &str, path: &str) -> FsResult<()>;
    /// readlink.
    fn readlink(&mut self, who: &Cred, path: &str) -> FsResult<Vec<u8>>;
    /// renameat2.
    fn rename(&mut self, who: &Cred, old: &str, new: &str, mode: RenameMode) -> FsResult<()>;
    /// chmod; follows symlinks.
    fn chmod(&mut self, who: &Cred, path: &str, mode: u16) -> FsResult<()>;
    /// lchown.
    fn chown(&mut self, who: &Cred, path: &str, uid: Option<u32>, gid: Option<u32>) -> FsResult<()>;
    /// Names, sorted, without `.` and `..`, with types.
    fn list(&mut self, who: &Cred, path: &str) -> FsResult<Vec<(Vec<u8>, Kind)>>;
    /// lsetxattr.
    fn set_xattr(&mut self, who: &Cred, path: &str, name: &str, value: &[u8], mode: XattrMode) -> FsResult<()>;
    /// lgetxattr.
    fn get_xattr(&mut self, who: &Cred, path: &str, name: &str) -> FsResult<Vec<u8>>;
    /// lremovexattr.
    fn remove_xattr(&mut self, who: &Cred, path: &str, name: &str) -> FsResult<()>;
}
