//! Records to lines.

use std::fmt::Write;

use loligo_types::{Event, Inode, Kind, Placement, Time};

use super::escape::escape;
use super::{acl, kind_name};

/// The line of a record, without its end; `None` for events that are in no dump. `xattrs`: how many an inode has.
pub fn render(event: &Event, xattrs: usize) -> Option<String> {
    Some(match event {
        Event::Inode(inode) => render_inode(inode, xattrs),
        Event::Entry { dir, name, ino, kind, remote: _ } => {
            format!("entry {dir} {} {ino} {}", escape(name.as_bytes()), kind_name(*kind))
        }
        Event::Xattr { ino, name, value } => format!("xattr {ino} {} {}", escape(name), escape(value)),
        Event::Inline { ino, data } => format!("data {ino} {}", escape(data)),
        Event::NextIno(ino) => format!("next-ino {ino}"),
        _ => return None,
    })
}

fn render_inode(inode: &Inode, xattrs: usize) -> String {
    let mut out = format!(
        "inode {} {} mode={:04o} uid={} gid={} nlink={} size={} atime={} mtime={} ctime={} btime={} parent={} change={}",
        inode.ino,
        kind_name(inode.kind),
        inode.mode,
        inode.uid,
        inode.gid,
        inode.nlink,
        inode.size,
        time(inode.atime),
        time(inode.mtime),
        time(inode.ctime),
        time(inode.btime),
        inode.parent,
        inode.change
    );
    let mut add = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = write!(out, " {name}={value}");
    };
    if inode.kind == Kind::File {
        add("data", if inode.inline { "inline" } else { "objects" });
    }
    if let Some(rdev @ 1..) = inode.extra.as_ref().map(|extra| extra.rdev) {
        add("rdev", &rdev.to_string());
    }
    if inode.cuts != 0 {
        add("cuts", &inode.cuts.to_string());
    }
    if xattrs > 0 {
        add("xattrs", &xattrs.to_string());
    }
    if let Some(extra) = &inode.extra {
        if let Some(target) = &extra.symlink {
            add("target", &escape(target));
        }
        if let Some(list) = &extra.acl {
            add("acl", &acl::render(list));
        }
        if let Some(list) = &extra.default_acl {
            add("default-acl", &acl::render(list));
        }
        if let Some(layout) = &extra.layout {
            add("object-size", &layout.object_size.to_string());
        }
    }
    if inode.frag_bits > 0 {
        add("frag-bits", &inode.frag_bits.to_string());
    }
    if inode.expected_entries() > 0 {
        add("expected-entries", &inode.expected_entries().to_string());
    }
    if inode.placement() != Placement::Inherited {
        add("placement", inode.placement().name());
    }
    if !inode.lookup_lease().is_none() {
        add("lookup-lease", &inode.lookup_lease().text().replace(' ', ","));
    }
    out
}

/// Seconds with nine decimals; a minus is of the whole number.
fn time(time: Time) -> String {
    let sign = if time.0 < 0 { "-" } else { "" };
    let ns = time.0.unsigned_abs();
    format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}
