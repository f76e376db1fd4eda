//! Workloads and their measurement: the mdtest shapes natively and over a mount.
