//! A reference model of the namespace and one body per semantic, instantiated per level.
