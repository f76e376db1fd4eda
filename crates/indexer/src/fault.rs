//! Faults of an indexed file: the member or line, and the cause with its remedy.

use loligo_schema::manifest;
use thiserror::Error;

/// Cause of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Cause {
    /// The file could not be read.
    #[error("it cannot be read at byte {offset}: {cause}")]
    Io {
        /// Place.
        offset: u64,
        /// The error of the file.
        cause: String,
    },
    /// Another format.
    #[error("this is no {0}")]
    Format(&'static str),
    /// The file ends too early.
    #[error("{what} reaches to byte {end} and the file ends at {len}: it is cut; get it again")]
    Truncated {
        /// The part.
        what: &'static str,
        /// Its end.
        end: u64,
        /// The file's length.
        len: u64,
    },
    /// A checksum that is wrong.
    #[error("the checksum of its header is wrong: the archive is damaged; get it again")]
    Checksum,
    /// A number that cannot be.
    #[error("{0} is no number that it can be")]
    Number(&'static str),
    /// A path from the root.
    #[error("its path begins with `/`: it would be outside of the directory; make the archive with relative paths")]
    Absolute,
    /// A path that leads upwards.
    #[error("its path contains `..`: it would be outside of the directory; make the archive without it")]
    Upwards,
    /// A path that is no path.
    #[error("its path is empty or has a NUL")]
    NoPath,
    /// A name in an unknown encoding.
    #[error("its name is no UTF-8, and the archive does not say what it is; make the archive with UTF-8 names")]
    NotUtf8,
    /// A name or an extended header of an absurd length.
    #[error("{what} has {found} bytes, more than {max}; nothing needs so many")]
    TooLong {
        /// The part.
        what: &'static str,
        /// Its length.
        found: u64,
        /// The most.
        max: u64,
    },
    /// A hard link to a member that comes later.
    #[error("it is a hard link to `{0}`, which comes behind it; make the archive anew")]
    ForwardLink(String),
    /// A hard link to nothing.
    #[error("it is a hard link to `{0}`, which is no file of the archive; make the archive anew")]
    DanglingLink(String),
    /// A device, a pipe or a socket.
    #[error("it is a {0}, which a manifest cannot hold; leave it out of the archive")]
    Special(&'static str),
    /// Setuid or setgid from somebody who is not root.
    #[error("it is setuid or setgid, and only root may make such files; index it as root, or clear the bits")]
    Privileged,
    /// A part of an archive of several.
    #[error("it is a part of an archive of several volumes; join them first")]
    Volumes,
    /// Compressed content.
    #[error("it is compressed ({0}), and slices are of stored bytes; make the archive without compression (zip -0)")]
    Compressed(String),
    /// Encrypted content.
    #[error("it is encrypted; make the archive without encryption")]
    Encrypted,
    /// Sizes that contradict each other.
    #[error("the archive says {expected} and {found} for {what}; it is damaged or made to mislead")]
    Contradiction {
        /// The property.
        what: &'static str,
        /// One place.
        expected: u64,
        /// Another.
        found: u64,
    },
    /// Members that lie over each other.
    #[error("its bytes are also those of `{0}`; such an archive is made to mislead")]
    Overlap(String),
    /// A sparse form that is not read.
    #[error(
        "it is sparse in the form {0}, which is not read here; make the archive with --sparse-version=1.0 or without --sparse"
    )]
    Sparse(String),
    /// Templates and generators of kerchunk.
    #[error("{0}; expand the references with kerchunk first")]
    Kerchunk(String),
    /// A source elsewhere.
    #[error("`{0}` is no file of this file system; copy it here, and refer to it by its path")]
    Remote(String),
    /// A source that cannot be used.
    #[error("source `{name}`: {cause}")]
    Source {
        /// Its path.
        name: String,
        /// Cause.
        cause: String,
    },
    /// Bytes beyond the end of a source.
    #[error("{len} bytes at byte {offset} go beyond the end of `{name}` at {size}")]
    PastEnd {
        /// The source.
        name: String,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Its size.
        size: u64,
    },
    /// A column that there is not, or is twice.
    #[error("column `{0}` {1}")]
    Column(String, &'static str),
    /// A line that is wrong.
    #[error("{0}")]
    Line(String),
    /// JSON that is none.
    #[error("this is no JSON of this form: {0}")]
    Json(String),
    /// A manifest cannot hold it.
    #[error(transparent)]
    Manifest(#[from] manifest::Fault),
}

/// A cause with the member, line or key that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The member, as it is called in the file; empty: the file as a whole.
    pub subject: String,
    /// The cause.
    pub cause: Box<Cause>,
}

impl Fault {
    pub(crate) fn new(subject: &[u8], cause: impl Into<Cause>) -> Fault {
        let text = String::from_utf8_lossy(subject);
        let mut subject: String = text.chars().take(120).map(|c| if c.is_control() { '?' } else { c }).collect();
        if subject.len() < text.len() {
            subject.push_str("...");
        }
        Fault { subject, cause: Box::new(cause.into()) }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.subject.is_empty() {
            return write!(f, "{}", self.cause);
        }
        write!(f, "`{}`: {}", self.subject, self.cause)
    }
}

impl std::error::Error for Fault {}

/// Gives a cause its subject.
pub(crate) trait About<T> {
    fn about(self, subject: &[u8]) -> Result<T, Fault>;
}

impl<T, C: Into<Cause>> About<T> for Result<T, C> {
    fn about(self, subject: &[u8]) -> Result<T, Fault> {
        self.map_err(|cause| Fault::new(subject, cause))
    }
}
