//! The real client behind the adapter.

use std::sync::Arc;

use loligo_client::{Call, CallResult};
use loligo_driver::client::{Client, Invalidate};
use loligo_types::{Cred, Ino};

use crate::kernel::Kernel;
use crate::submit::Submit;

impl Submit for Client {
    fn submit<F>(&self, cred: &Arc<Cred>, call: Call, done: F)
    where
        F: FnOnce(CallResult) + Send + 'static,
    {
        Client::submit(self, cred, call, done);
    }
}

impl Invalidate for Kernel {
    fn names(&self, dir: Ino) {
        Kernel::names(self, dir);
    }

    fn attr(&self, ino: Ino) {
        Kernel::attr(self, ino);
    }

    fn data(&self, ino: Ino) {
        Kernel::data(self, ino);
    }
}
