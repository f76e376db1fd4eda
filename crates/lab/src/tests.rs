//! Runs that show what the lab must give, each small enough for a test.
