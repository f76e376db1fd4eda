//! Attributes that the kernel asks for, and with them the size of a file that others may change. Not the other answers with attributes, which
//! the kernel asks for to do something else.
//!
//! The kernel passes over the attributes of an answer if anything was written to the file, or dropped of it, since it asked. A read from its
//! pages, a seek of the end and a mapping go by the size that it has then. So where that matters it is told of a larger size in another way first,
//! which it cannot pass over ([`crate::kernel::Kernel::grown`]).

use std::sync::Arc;

use loligo_client::{Call, Done};
use loligo_fuse::ReplyAttr;
use loligo_types::{Ino, Kind};

use crate::core::{Asked, Core, Handle};
use crate::submit::Submit;

impl<S: Submit> Core<S> {
    /// `fh`: the kernel asks before it reads from its pages or seeks the end, and tells nobody what it is answered.
    pub fn getattr(self: &Arc<Self>, asked: Asked, ino: Ino, fh: Option<u64>, reply: ReplyAttr) {
        let (core, handle) = (self.clone(), fh.map(Handle::decode));
        self.send(asked, Call::GetAttr { ino }, move |result| {
            let grown = result.as_ref().ok().and_then(|done| core.must_know(ino, handle, done));
            let rest = core.clone();
            let answer = move || rest.attr_answer(asked, result, reply);
            match grown {
                Some(size) => core.grow_first(ino, size, Box::new(answer)),
                None => answer(),
            }
        });
    }

    /// The size of which the kernel must know before the answer, if it may not know it.
    fn must_know(&self, ino: Ino, handle: Option<Handle>, done: &Done) -> Option<u64> {
        let attr = done.attr().filter(|attr| attr.kind == Kind::File)?;
        let table = &self.kernel.table;
        // Whoever is told of a size may have the file mapped.
        let may_be_mapped = table.has_pages_of_others(ino) || table.is_uncached(ino);
        // Only seeks ask through a handle in direct mode.
        let seeks = handle.is_some_and(|handle| !handle.cached) && !done.attr_cached;
        ((may_be_mapped || seeks) && !table.knows_size(ino, attr.size)).then_some(attr.size)
    }
}
