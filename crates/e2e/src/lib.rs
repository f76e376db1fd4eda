//! Real programs, real faults: the suites that need a running file system.
