//! The object-server machine of the embedded default: extents of objects, checksums.
