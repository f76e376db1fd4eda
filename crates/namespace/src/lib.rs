//! The tree: what an operation needs, how it is decided, and the one way a change is applied.
