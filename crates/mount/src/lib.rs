//! The FUSE adapter: thin callbacks, kernel invalidation, the one errno table.
