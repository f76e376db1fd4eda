//! Deterministic simulation: the production machines over a fake network, disk and clock from one seed.
