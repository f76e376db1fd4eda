//! The real clients behind the adapter: one with a connection, and one on the server's own thread.

use std::sync::Arc;

use loligo_client::{Call, CallId, CallResult};
use loligo_driver::client::{Client, Invalidate};
use loligo_driver::server::{Guest, Resident};
use loligo_types::{Cred, Ino};

use crate::kernel::Kernel;
use crate::submit::Submit;

impl Submit for Client {
    fn number(&self) -> CallId {
        Client::number(self)
    }

    fn submit_as<F>(&self, number: CallId, cred: &Arc<Cred>, call: Call, done: F)
    where
        F: FnOnce(CallResult) + Send + 'static,
    {
        Client::submit_as(self, number, cred, call, done);
    }

    fn interrupt(&self, number: CallId, unserved: bool) {
        Client::interrupt(self, number, unserved);
    }
}

impl Submit for Resident {
    fn number(&self) -> CallId {
        Resident::number(self)
    }

    fn submit_as<F>(&self, number: CallId, cred: &Arc<Cred>, call: Call, done: F)
    where
        F: FnOnce(CallResult) + Send + 'static,
    {
        Resident::submit_as(self, number, cred, call, done);
    }

    fn interrupt(&self, number: CallId, unserved: bool) {
        Resident::interrupt(self, number, unserved);
    }

    fn host(&self, mount: Box<dyn Guest>) -> Result<(), Box<dyn Guest>> {
        Resident::host(self, mount);
        Ok(())
    }
}

impl Invalidate for Kernel {
    fn names(&self, dirs: &[Ino]) {
        Kernel::names(self, dirs);
    }

    fn attr(&self, ino: Ino) {
        Kernel::attr(self, ino);
    }

    fn data(&self, ino: Ino) {
        Kernel::data(self, ino);
    }
}
