//! Targets of names, for the kernel: looked up, or just made, and looked up again when a target found before is gone.

use std::sync::Arc;

use loligo_client::{Call, CallResult, Done};
use loligo_fuse::ReplyEntry;
use loligo_types::{FsError, Ino, Kind, Name, Op, OpenFlags};

use crate::convert::{self, ttl};
use crate::core::{Asked, Core};
use crate::cred::Who;
use crate::metrics::FuseOp;
use crate::places::is_other;
use crate::submit::Submit;

/// So often a name is looked up for one request of the kernel. Each time somebody must have replaced what it led to.
const TRIES: u32 = 200;

type Found = Box<dyn FnOnce(CallResult) + Send>;

impl<S: Submit> Core<S> {
    /// A call that gives an inode a name, or finds it.
    pub fn entry(self: &Arc<Self>, asked: Asked, op: Op, reply: ReplyEntry) {
        let (core, place) = (self.clone(), place(&op));
        let locked = place.as_ref().map(|(dir, _)| *dir);
        let again = (asked.op == FuseOp::Lookup && self.held.looks_again(asked.who.pid)).then(|| op.clone());
        let done = move |result| core.found(asked, place, result, reply);
        let Some(lookup) = again else { return self.send(asked, Call::Op(op), done) };
        // The kernel has the directory locked until it has its answer.
        let (core, held) = (self.clone(), locked.map(|dir| self.hold(dir)));
        let done = move |result| {
            done(result);
            drop(held);
        };
        self.send(asked, Call::Op(op), move |result| core.hold_found(asked, lookup, TRIES, result, Box::new(done)));
    }

    /// A thread has looked up a name because what it led to before is gone: holds open what it leads to now. Looks again if that is gone, too.
    fn hold_found(self: &Arc<Self>, asked: Asked, lookup: Op, tries: u32, result: CallResult, done: Found) {
        let attr = result.as_ref().ok().and_then(Done::attr).filter(|attr| attr.kind == Kind::File);
        let Some(ino) = attr.map(|attr| attr.ino) else { return done(result) };
        let root = Asked { who: Who { uid: 0, gid: 0, pid: asked.who.pid }, ..asked };
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let core = self.clone();
        self.send(root, Call::Open { ino, flags }, move |opened| match opened {
            Ok(Done { fh: Some(fh), .. }) => {
                core.held.hold(asked.who.pid, fh, core.kernel.table.now());
                done(result);
            }
            Err(failed) if failed.error == FsError::Stale && tries > 0 => {
                let (next, again) = (core.clone(), lookup.clone());
                core.send(asked, Call::Op(lookup), move |result| {
                    next.hold_found(asked, again, tries - 1, result, done)
                });
            }
            // The kernel will hear of it when it opens the file, if it wants to.
            _ => done(result),
        });
    }

    fn found(&self, asked: Asked, place: Option<(Ino, Name)>, result: CallResult, reply: ReplyEntry) {
        let node = match (&result, &place) {
            (Ok(done), Some((dir, name))) => self.node_of(asked, done, *dir, name.as_bytes()),
            _ => 0,
        };
        let lent = match &result {
            Ok(done) => done.names_cached && !is_other(node),
            Err(failed) => failed.names_cached && failed.error == FsError::NotFound && asked.op == FuseOp::Lookup,
        };
        let believed = lent && place.is_some_and(|(dir, name)| self.believe(asked, dir, name.as_bytes()));
        match result {
            Ok(done) => match done.attr() {
                Some(attr) if is_other(node) => {
                    reply.entry_as(node, ttl(false), ttl(false), &convert::file_attr(attr));
                }
                Some(attr) => {
                    self.kernel.twins.cut(attr.ino, attr.size);
                    let attrs = self.kernel.table.told(attr, done.attr_cached, asked.start);
                    reply.entry(ttl(attrs), self.kernel.name_ttl(believed), &convert::file_attr(attr));
                }
                None => reply.error(self.odd(asked.op)),
            },
            Err(_) if believed => reply.entry(ttl(false), self.kernel.name_ttl(true), &convert::ABSENT),
            Err(failed) => reply.error(self.errno(asked.op, failed.error)),
        }
        if believed {
            self.kernel.believed.answered(asked.who.pid, asked.unique);
        }
    }

    /// The number by which the kernel is told of what a name leads to.
    fn node_of(&self, asked: Asked, done: &Done, dir: Ino, name: &[u8]) -> u64 {
        let Some(attr) = done.attr() else { return 0 };
        let (ino, kernel) = (attr.ino, &self.kernel);
        if attr.kind != Kind::Dir || is_other(ino.0) {
            return 0;
        }
        if asked.other {
            // It has it below a directory that it will have elsewhere soon.
            kernel.places.forget(&[ino]);
            return ino.0;
        }
        let has = asked.op == FuseOp::Lookup && kernel.table.referenced(ino);
        kernel.places.found(ino, (dir, name), asked.who.pid, has, kernel.table.now())
    }
}

/// The name that an operation finds or gives.
fn place(op: &Op) -> Option<(Ino, Name)> {
    match op {
        Op::Lookup { dir, name }
        | Op::Mknod { dir, name, .. }
        | Op::Mkdir { dir, name, .. }
        | Op::Symlink { dir, name, .. }
        | Op::Link { dir, name, .. } => Some((*dir, name.clone())),
        _ => None,
    }
}
