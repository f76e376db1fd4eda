//! Checks that locks exclude each other. A lock counts as held from the answer that grants it to the call that gives it back, or until a
//! rank ends a session of the client.

/// A lock that a client was told it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    pub file: u64,
    /// The client's number at all ranks.
    pub client: u64,
    /// Client and its thread.
    pub owner: u64,
    pub exclusive: bool,
}

/// All of them.
#[derive(Default, Debug)]
pub struct Locks {
    held: Vec<Held>,
    pub findings: Vec<String>,
}

impl Locks {
    /// A client was told that it has it.
    pub fn got(&mut self, lock: Held) {
        let clash = |other: &&Held| other.file == lock.file && (other.exclusive || lock.exclusive);
        if let Some(other) = self.held.iter().filter(|other| other.owner != lock.owner).find(clash) {
            self.findings.push(format!("{lock:?} was given while {other:?} was held"));
        }
        self.held.retain(|other| other.owner != lock.owner || other.file != lock.file);
        self.held.push(lock);
    }

    /// It is being given back.
    pub fn give_back(&mut self, file: u64, owner: u64) {
        self.held.retain(|other| other.owner != owner || other.file != file);
    }

    /// A rank ended a session of the client: it may be the one that had its locks.
    pub fn ended(&mut self, client: u64) {
        self.held.retain(|other| other.client != client);
    }
}
