//! Requests as tests write them. Not how they are sent (`harness.rs`).

use loligo_types::{Control, Ino, Op, OpenFlags, SetAttr, SetTime};

use super::harness::name;

pub fn create(dir: Ino, text: &str, flags: OpenFlags, handle: u64) -> Op {
    Op::Create { dir, name: name(text), mode: 0o644, umask: 0, flags, exclusive: false, handle }
}

pub fn mkdir(dir: Ino, text: &str) -> Op {
    Op::Mkdir { dir, name: name(text), mode: 0o755, umask: 0 }
}

pub fn unlink(dir: Ino, text: &str) -> Op {
    Op::Unlink { dir, name: name(text) }
}

pub fn close(handle: u64) -> Op {
    Op::Control(Control::Close { handles: vec![handle], lost: false })
}

pub fn chmod(ino: Ino, mode: u16) -> Op {
    Op::SetAttr { ino, set: SetAttr { mode: Some(mode), ..SetAttr::default() }, handle: None }
}

pub fn truncate(ino: Ino, size: u64) -> Op {
    Op::SetAttr { ino, set: SetAttr { size: Some(size), ..SetAttr::default() }, handle: None }
}

pub fn write_inline(ino: Ino, handle: u64, offset: u64, data: &[u8]) -> Op {
    let (offset, data) = (Some(offset), data.into());
    Op::WriteInline { ino, handle, offset, data, mtime: SetTime::Now, kill_priv: false }
}

pub fn set_data(ino: Ino, handle: u64, cuts: u32, grow_to: u64, spilled: bool) -> Op {
    let (grow_to, behind, mtime) = (Some(grow_to), None, SetTime::Now);
    Op::SetData { ino, handle, cuts, grow_to, behind, mtime, spilled, kill_priv: false, patches: None }
}
