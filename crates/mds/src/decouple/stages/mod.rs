//! Stages of decoupled subtrees: what the machine does for their owners with several of its parts at once.

mod asks;
mod ends;
mod files;
mod merge;
