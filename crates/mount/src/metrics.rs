//! Counts of what the kernel asked, by operation.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! ops {
    ($($variant:ident $name:literal,)*) => {
        /// Kinds of FUSE requests.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs)]
        pub enum FuseOp { $($variant,)* }

        impl FuseOp {
            /// All of them.
            pub const ALL: &'static [FuseOp] = &[$(FuseOp::$variant,)*];

            /// Name in logs and metrics.
            pub fn name(self) -> &'static str {
                match self { $(FuseOp::$variant => $name,)* }
            }
        }
    };
}

ops! {
    Lookup "lookup", Forget "forget", GetAttr "getattr", SetAttr "setattr", Readlink "readlink", Mknod "mknod",
    Mkdir "mkdir", Unlink "unlink", Rmdir "rmdir", Symlink "symlink", Rename "rename", Link "link", Open "open",
    Read "read", Write "write", Flush "flush", Release "release", Fsync "fsync", OpenDir "opendir",
    ReadDir "readdir", ReleaseDir "releasedir", FsyncDir "fsyncdir", StatFs "statfs", GetXattr "getxattr",
    ListXattr "listxattr", SetXattr "setxattr", RemoveXattr "removexattr", Access "access", Create "create",
    GetLock "getlk", SetLock "setlk", Fallocate "fallocate", Seek "lseek", Copy "copy_file_range", Ioctl "ioctl",
    Tmpfile "tmpfile", SyncFs "syncfs", Interrupt "interrupt",
}

impl FuseOp {
    /// It may change the content or the attributes of the file that it is about.
    pub(crate) fn changes_content(self) -> bool {
        use FuseOp::*;
        matches!(self, Write | SetAttr | Open | Fallocate)
    }

    /// True if the thread that sends it waits for the answer, and has waited for the one before. Others may be sent for it in the
    /// background at any later time.
    pub(crate) fn is_waited_for(self) -> bool {
        use FuseOp::*;
        !matches!(self, Forget | Read | Write | Flush | Release | ReleaseDir | Fsync | FsyncDir | SyncFs | Interrupt)
    }
}

/// Counters of all operations.
pub struct OpCounts(Vec<AtomicU64>);

impl Default for OpCounts {
    fn default() -> OpCounts {
        OpCounts(FuseOp::ALL.iter().map(|_| AtomicU64::new(0)).collect())
    }
}

impl OpCounts {
    /// One more.
    pub fn count(&self, op: FuseOp) {
        self.0[op as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Name and count of each operation that occurred.
    pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.iter().map(|n| n.load(Ordering::Relaxed));
        FuseOp::ALL.iter().zip(counts).filter(|(_, n)| *n > 0).map(|(op, n)| (op.name(), n)).collect()
    }
}

/// Bytes of file data that the kernel was given and has given, through its page cache or past it.
#[derive(Default)]
pub struct ByteCounts {
    read: AtomicU64,
    written: AtomicU64,
}

impl ByteCounts {
    /// Data was given to the kernel.
    pub fn read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Data of the kernel was taken.
    pub fn written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Both, under their names.
    pub fn snapshot(&self) -> [(&'static str, u64); 2] {
        [("read", self.read.load(Ordering::Relaxed)), ("written", self.written.load(Ordering::Relaxed))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_under_their_names() {
        let counts = OpCounts::default();
        counts.count(FuseOp::Ioctl);
        counts.count(FuseOp::Lookup);
        counts.count(FuseOp::Lookup);
        assert_eq!(counts.snapshot(), vec![("lookup", 2), ("ioctl", 1)]);
    }
}
