//! The lock operations: what a request does with the table of locks.
