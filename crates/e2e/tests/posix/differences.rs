//! The outcomes that differ from ext4's, each with its reason. A line that is missing here, and one too many, fail the test.

/// A line that differs.
#[derive(Debug)]
pub struct Difference {
    /// Program and label.
    pub line: &'static str,
    /// The outcome on a mount.
    pub mount: &'static str,
    /// The reason.
    pub reason: &'static str,
}

/// All of them.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        line: "long-names: pathconf LINK_MAX",
        mount: "127",
        reason: "the C library knows no number for FUSE and gives the least that POSIX allows; a file may have 65,000 links",
    },
    Difference {
        line: "open: flags by ioctl",
        mount: "ENOTTY",
        reason: "there are no flags of files, so no request about them is served",
    },
    Difference {
        line: "xattrs: a value of 60000 bytes",
        mount: "0",
        reason: "ext4 keeps xattrs in one block; here a value has up to 64 KiB",
    },
    Difference {
        line: "holes: a megabyte and more",
        mount: "0..1500000 end by ENXIO",
        reason: "data end with the last byte written, and not with its block",
    },
    Difference {
        line: "allocate: putting a range in, unaligned",
        mount: "EOPNOTSUPP",
        reason: "ranges are not put into files",
    },
    Difference {
        line: "allocate: taking a range out, unaligned",
        mount: "EOPNOTSUPP",
        reason: "ranges are not taken out of files",
    },
    Difference {
        line: "direct: an unaligned length",
        mount: "1000",
        reason: "direct IO is sent to the server as it is: no device limits how it is aligned",
    },
    Difference {
        line: "direct: an unaligned offset",
        mount: "4096",
        reason: "direct IO is sent to the server as it is: no device limits how it is aligned",
    },
    Difference {
        line: "direct: into unaligned memory",
        mount: "4096",
        reason: "direct IO is sent to the server as it is: no device limits how it is aligned",
    },
];
