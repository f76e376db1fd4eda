//! The metadata-server machine: admit, need, prepare, apply, log, gate; sessions, leases, locks.
