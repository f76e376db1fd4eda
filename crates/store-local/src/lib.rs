//! RocksDB and files: the engine on one machine.
