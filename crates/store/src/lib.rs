//! Traits of the engine under the metadata (table, blobs, journal files), a memory backend with fault injection, and the conformance suite.
