//! A peer that means harm, against a real server: requests about what is not its own, sessions and numbers of others, frames that break every
//! rule, crowds, and the admin plane's port. Each scenario ends with the same questions: does the server run, is an honest client served, and
//! is everything outside of the adversary's path as it was (`site.rs`)?
//!
//! The adversary speaks the bytes by itself (`loligo_e2e::raw`); the honest client is that of programs. It needs `LOLIGO_BIN`, and neither root
//! nor FUSE. What a rank does with each request without sockets stands in `crates/mds/src/tests/trusted.rs`, arbitrary merges in
//! `fuzz/fuzz_targets/merge_part.rs`.

mod admin;
mod crowds;
mod frames;
mod merges;
mod requests;
mod sessions;
mod site;
