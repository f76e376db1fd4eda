//! The client machine: sessions, retries, leases, open files, cached reads and written data.
