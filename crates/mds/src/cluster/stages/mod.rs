//! Stages of a rank in a cluster: what the machine does with several of its parts at once when ranks talk to each other.

mod letters;
mod links;
mod loans;
mod migrate;
mod upkeep;
