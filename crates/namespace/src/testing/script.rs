//! Table tests as text: one line is one operation and what must come of it.
//!
//! `who command arguments [= expected]`: `who` is a uid, or uid:gid,group,group. Without `=` the operation must
//! succeed. Expected is an error's name, or words each of which must be in the answer's text.

use std::sync::Arc;

use loligo_types::{
    Access, Answer, Attr, Cred, FsError, FsResult, Ino, Kind, Layout, Name, Op, OpenFlags, RenameMode, SetAttr,
    SetTime, Time, XattrMode,
};

use super::Fs;

/// Runs a script over a new file system and checks the invariants after each line.
pub fn check(script: &str) -> Fs {
    let mut fs = Fs::new();
    for (number, line) in script.lines().enumerate() {
        let line = line.split(" # ").next().unwrap_or_default().trim();
        if !line.is_empty() {
            run_line(&mut fs, line).unwrap_or_else(|why| panic!("line {}: {line}: {why}", number + 1));
            fs.check();
        }
    }
    fs
}

fn run_line(fs: &mut Fs, line: &str) -> Result<(), String> {
    let (command, expected) = line.split_once(" = ").unwrap_or((line, "ok"));
    let words: Vec<&str> = command.split_whitespace().collect();
    let got = match run_words(fs, &words) {
        Ok(text) => text,
        Err(error) => format!("{error:?}"),
    };
    let got_words: Vec<&str> = got.split_whitespace().collect();
    let met = expected.split_whitespace().all(|word| got_words.contains(&word));
    if met { Ok(()) } else { Err(format!("got {got}")) }
}

fn who(text: &str) -> Cred {
    let (uid, groups) = text.split_once(':').unwrap_or((text, text));
    let mut groups: Vec<u32> = groups.split(',').map(|g| g.parse().expect("a gid")).collect();
    let gid = groups.remove(0);
    groups.sort();
    Cred { uid: uid.parse().expect("a uid"), gid, groups }
}

/// The inode of a path, without permissions.
pub fn find(fs: &mut Fs, path: &str) -> FsResult<Ino> {
    if let Some(number) = path.strip_prefix('@') {
        return Ok(Ino(number.parse().expect("an inode number")));
    }
    let mut at = Ino::ROOT;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let op = Op::Lookup { dir: at, name: Name::new(part.as_bytes())? };
        at = fs.run(&Cred::root(), &op)?.origin_ino;
    }
    Ok(at)
}

/// The directory and the last name of a path.
fn split(fs: &mut Fs, path: &str) -> FsResult<(Ino, Name)> {
    let (dir, name) = path.rsplit_once('/').expect("a path with a slash");
    Ok((find(fs, dir)?, Name::new(name.as_bytes())?))
}

fn octal(text: &str) -> u16 {
    u16::from_str_radix(text, 8).expect("an octal number")
}

fn bytes(text: &str) -> Arc<[u8]> {
    // `x*5` is five x.
    match text.split_once('*') {
        Some((unit, count)) => unit.repeat(count.parse().expect("a count")).into_bytes().into(),
        None => text.as_bytes().into(),
    }
}

fn time(text: &str) -> Option<SetTime> {
    match text {
        "-" => None,
        "now" => Some(SetTime::Now),
        n => Some(SetTime::At(Time(n.parse().expect("a time")))),
    }
}

fn flags(text: &str) -> OpenFlags {
    OpenFlags {
        read: text.contains('r'),
        write: text.contains('w'),
        truncate: text.contains('t'),
        append: text.contains('a'),
        exec: text.contains('x'),
    }
}

fn run_words(fs: &mut Fs, words: &[&str]) -> FsResult<String> {
    let cred = who(words[0]);
    if words[1] == "hold" || words[1] == "let" {
        let ino = find(fs, words[2])?;
        fs.load(&Op::GetAttr { ino }, &cred);
        let count = fs.open.entry(ino).or_default();
        *count = if words[1] == "hold" { *count + 1 } else { *count - 1 };
        if *count == 0 {
            let events = crate::reap(&fs.tree, ino);
            fs.commit(events);
        }
        return Ok("ok".to_string());
    }
    let (op, handle) = parse(fs, words)?;
    let change = fs.run_with(&cred, &op, handle)?;
    Ok(text(&change.answer))
}

fn parse(fs: &mut Fs, words: &[&str]) -> FsResult<(Op, bool)> {
    let (name, path) = (words[1], words.get(2).copied().unwrap_or("/"));
    let arg = |at: usize| words.get(at).copied().unwrap_or("");
    let umask = if arg(5).starts_with("umask") { octal(&arg(5)[5..]) } else { 0 };
    if let Some(op) = parse_entry(fs, name, path, &arg, umask)? {
        return Ok((op, false));
    }
    let ino = find(fs, path)?;
    let set = |set: SetAttr| Op::SetAttr { ino, set, handle: None };
    let id = |text: &str| text.parse().ok();
    let op = match name {
        "stat" => Op::GetAttr { ino },
        "parent" => Op::LookupParent { dir: ino },
        "readlink" => Op::Readlink { ino },
        "chmod" => set(SetAttr { mode: Some(octal(arg(3))), ..SetAttr::default() }),
        "chown" => set(SetAttr { uid: id(arg(3)), gid: id(arg(4)), ..SetAttr::default() }),
        "truncate" => set(SetAttr { size: arg(3).parse().ok(), ..SetAttr::default() }),
        "grow" => set(SetAttr { size: arg(3).parse().ok(), grow: true, ..SetAttr::default() }),
        "ftruncate" => {
            let set = SetAttr { size: arg(3).parse().ok(), ..SetAttr::default() };
            return Ok((Op::SetAttr { ino, set, handle: Some(1) }, true));
        }
        "killpriv" => {
            let handle = (arg(3) == "handle").then_some(1);
            let set = SetAttr { kill_priv: true, ..SetAttr::default() };
            return Ok((Op::SetAttr { ino, set, handle }, handle.is_some()));
        }
        "truncate-kill" => {
            let set = SetAttr { size: arg(3).parse().ok(), kill_priv: true, ..SetAttr::default() };
            return Ok((Op::SetAttr { ino, set, handle: None }, false));
        }
        "utimes" => set(SetAttr { atime: time(arg(3)), mtime: time(arg(4)), ..SetAttr::default() }),
        "layout" => {
            let layout = Some(Layout { object_size: arg(3).parse().expect("a size") });
            set(SetAttr { layout, ..SetAttr::default() })
        }
        "open" => Op::Open { ino, flags: flags(arg(3)), handle: 1 },
        "access" => {
            let want = |c: char| arg(3).contains(c);
            Op::Access { ino, want: Access { read: want('r'), write: want('w'), exec: want('x') } }
        }
        "tmpfile" => Op::Tmpfile {
            dir: ino,
            mode: octal(arg(3)),
            umask,
            flags: flags("rw"),
            linkable: arg(4) == "linkable",
            handle: 1,
        },
        "readdir" => Op::Readdir { dir: ino, cookie: 0, limit: 100, plus: true, handle: None },
        "getxattr" => Op::GetXattr { ino, name: bytes(arg(3)) },
        "listxattr" => Op::ListXattr { ino },
        "removexattr" => Op::RemoveXattr { ino, name: bytes(arg(3)) },
        "setxattr" => {
            let mode = match arg(5) {
                "create" => XattrMode::Create,
                "replace" => XattrMode::Replace,
                _ => XattrMode::Set,
            };
            Op::SetXattr { ino, name: bytes(arg(3)), value: bytes(arg(4)), mode }
        }
        "setacl" => {
            let name = if arg(3) == "default" { crate::acl::xattr::DEFAULT } else { crate::acl::xattr::ACCESS };
            Op::SetXattr { ino, name: name.into(), value: acl(arg(4)), mode: XattrMode::Set }
        }
        "read" => return Ok((Op::ReadInline { ino, handle: 1 }, true)),
        "write" => {
            let (offset, data, kill_priv) = (arg(3).parse().ok(), bytes(arg(4)), arg(5) == "kill");
            return Ok((Op::WriteInline { ino, handle: 1, offset, data, mtime: SetTime::Now, kill_priv }, true));
        }
        "data" => {
            let attr = fs.tree.inode(ino).map(|inode| inode.cuts).unwrap_or_default();
            let cuts = if arg(5) == "old" { attr.wrapping_sub(1) } else { attr };
            let (grow_to, spilled) = (arg(3).parse().ok(), arg(4) == "spilled");
            let (behind, mtime, kill_priv) = (None, SetTime::Now, arg(5) == "kill");
            // `data FILE SIZE HOW WHO OFFSET BYTES`: with data for the journal.
            let pieces = [(arg(6).parse().unwrap_or(0), bytes(arg(7)))];
            let patches = loligo_types::Patches::of(&pieces).map(std::sync::Arc::new);
            let op = Op::SetData { ino, handle: 1, cuts, grow_to, behind, mtime, spilled, kill_priv, patches };
            return Ok((op, true));
        }
        // Held back since then: `late FILE TIME`.
        "late" => {
            let cuts = fs.tree.inode(ino).map(|inode| inode.cuts).unwrap_or_default();
            let (grow_to, behind, kill_priv) = (None, None, false);
            let mtime = time(arg(3)).unwrap_or(SetTime::Now);
            let op = match fs.tree.inode(ino).is_some_and(|inode| inode.inline) {
                true => Op::WriteInline { ino, handle: 1, offset: Some(0), data: bytes("x"), mtime, kill_priv },
                false => {
                    let (spilled, patches) = (false, None);
                    Op::SetData { ino, handle: 1, cuts, grow_to, behind, mtime, spilled, kill_priv, patches }
                }
            };
            return Ok((op, true));
        }
        "extend" => {
            let len = arg(3).parse().expect("a length");
            return Ok((Op::Extend { ino, handle: 1, len }, true));
        }
        other => panic!("no command {other}"),
    };
    Ok((op, false))
}

/// Commands whose first path is a name, not an inode.
fn parse_entry<'a>(
    fs: &mut Fs,
    command: &str,
    path: &str,
    arg: &dyn Fn(usize) -> &'a str,
    umask: u16,
) -> FsResult<Option<Op>> {
    let names = ["lookup", "mkdir", "mknod", "create", "symlink", "link", "unlink", "rmdir", "rename"];
    if !names.contains(&command) {
        return Ok(None);
    }
    let (dir, name) = split(fs, path)?;
    Ok(Some(match command {
        "lookup" => Op::Lookup { dir, name },
        "mkdir" => Op::Mkdir { dir, name, mode: octal(arg(3)), umask },
        "mknod" => {
            let kind = match arg(4) {
                "fifo" => Kind::Fifo,
                "socket" => Kind::Socket,
                "char" => Kind::Char,
                "dir" => Kind::Dir,
                _ => Kind::File,
            };
            Op::Mknod { dir, name, kind, mode: octal(arg(3)), umask, rdev: 0x103 }
        }
        "create" => {
            let exclusive = arg(4).contains('e');
            let flags = flags(if arg(4).is_empty() { "rw" } else { arg(4) });
            Op::Create { dir, name, mode: octal(arg(3)), umask, flags, exclusive, handle: 1 }
        }
        "symlink" => Op::Symlink { dir, name, target: bytes(arg(3)) },
        "link" => {
            let (new_dir, new_name) = split(fs, arg(3))?;
            Op::Link { ino: find(fs, path)?, dir: new_dir, name: new_name }
        }
        "unlink" => Op::Unlink { dir, name },
        "rmdir" => Op::Rmdir { dir, name },
        _ => {
            let (new_dir, new_name) = split(fs, arg(3))?;
            let mode = match arg(4) {
                "noreplace" => RenameMode::NoReplace,
                "exchange" => RenameMode::Exchange,
                "whiteout" => RenameMode::Whiteout,
                "new-whiteout" => RenameMode::NewWhiteout,
                _ => RenameMode::Replace,
            };
            Op::Rename { dir, name, new_dir, new_name, mode }
        }
    }))
}

/// `u::rwx,u:5:rw-,g::r-x,m::rwx,o::r--` as bytes; `-` is the empty ACL.
fn acl(text: &str) -> Arc<[u8]> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for entry in text.split(',').filter(|entry| *entry != "-") {
        let parts: Vec<&str> = entry.split(':').collect();
        let tag: u16 = match (parts[0], parts[1].is_empty()) {
            ("u", true) => 1,
            ("u", false) => 2,
            ("g", true) => 4,
            ("g", false) => 8,
            ("m", _) => 16,
            _ => 32,
        };
        let perm =
            parts[2].bytes().fold(0u16, |all, c| all | b" xw r".iter().position(|p| *p == c).unwrap_or(0) as u16);
        bytes.extend(tag.to_le_bytes());
        bytes.extend(perm.to_le_bytes());
        bytes.extend(parts[1].parse::<u32>().unwrap_or(u32::MAX).to_le_bytes());
    }
    bytes.into()
}

fn text(answer: &Answer) -> String {
    match answer {
        Answer::Done => "ok".to_string(),
        Answer::Entry(attr) => attr_text(attr),
        Answer::Opened { attr, created, data, .. } => {
            let data = data.as_ref().map(|data| format!(" data={}", String::from_utf8_lossy(data)));
            format!("{} created={created}{}", attr_text(attr), data.unwrap_or_default())
        }
        Answer::Bytes(bytes) => format!("ok {}", String::from_utf8_lossy(bytes).replace('\0', " ")),
        Answer::Entries { entries, end, .. } => {
            let names: Vec<String> = entries.iter().map(|e| e.name.to_string()).collect();
            format!("ok {} count={} end={end}", names.join(" "), names.len())
        }
        Answer::Offset(offset) => format!("ok offset={offset}"),
        other => format!("ok {other:?}"),
    }
}

fn attr_text(a: &Attr) -> String {
    format!(
        "ok ino={} kind={:?} mode={:o} uid={} gid={} nlink={} size={} atime={} mtime={} ctime={} change={} inline={} cuts={} xattrs={}",
        a.ino,
        a.kind,
        a.mode,
        a.uid,
        a.gid,
        a.nlink,
        a.size,
        a.atime.0,
        a.mtime.0,
        a.ctime.0,
        a.change,
        a.inline,
        a.cuts,
        a.has_xattrs
    )
}

/// The text of an error, so that scripts and this list cannot drift apart unnoticed.
#[test]
fn errors_are_written_by_their_names() {
    assert_eq!(format!("{:?}", FsError::NotFound), "NotFound");
}
