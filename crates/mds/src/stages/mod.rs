//! Stages: what the machine does with several of its parts at once, in few files by subject. A part does not know the machine; a stage
//! calls the parts, each with those others that it needs, and commits what they decide. The table in `lib.rs` has their order. Stages of
//! decoupled subtrees and of several ranks are with their parts (`decouple/stages`, `cluster`).

mod answer;
mod decide;
mod files;
mod restart;
mod run;
mod sessions;
mod status;
mod upkeep;
mod view;
