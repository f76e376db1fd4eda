//! Scenarios over a real socket.
