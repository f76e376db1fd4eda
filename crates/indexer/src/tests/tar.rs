//! Tar archives.

use tar::{Builder, EntryType, Header};

use super::{indexed, refused, root_options};
use crate::{Options, tar as indexer};

fn run_as(bytes: &[u8], options: Options) -> Result<Vec<String>, String> {
    indexed(bytes, true, &|input, _, sink| indexer::index(input, &options, sink))
}

fn run(bytes: &[u8]) -> Result<Vec<String>, String> {
    run_as(bytes, Options::default())
}

/// A header with a name that is written as it is.
fn header(name: &[u8], kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_mode(0o640);
    header.set_uid(1000);
    header.set_gid(100);
    header.set_mtime(1_700_000_000);
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_cksum();
    header
}

fn member(out: &mut Vec<u8>, header: &Header, content: &[u8]) {
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(512), 0);
}

fn file(out: &mut Vec<u8>, name: &str, content: &[u8]) {
    member(out, &header(name.as_bytes(), EntryType::Regular, content.len() as u64), content);
}

fn link(out: &mut Vec<u8>, name: &str, kind: EntryType, target: &str) {
    let mut header = header(name.as_bytes(), kind, 0);
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_cksum();
    member(out, &header, b"");
}

fn pax(out: &mut Vec<u8>, kind: u8, records: &[(&str, &str)]) {
    let mut bytes = Vec::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let len = (rest..).find(|len| *len == rest + len.to_string().len()).expect("a length");
        bytes.extend_from_slice(format!("{len} {key}={value}\n").as_bytes());
    }
    member(out, &header(b"pax", EntryType::new(kind), bytes.len() as u64), &bytes);
}

fn end(mut out: Vec<u8>) -> Vec<u8> {
    out.resize(out.len() + 1024, 0);
    out
}

#[test]
fn members_of_a_gnu_archive_with_long_names_become_slices_of_it() {
    let mut builder = Builder::new(Vec::new());
    let long = format!("deep/{}/file", "d".repeat(150));
    let mut add = |name: &str, content: &[u8]| {
        let mut header = header(b"", EntryType::Regular, content.len() as u64);
        builder.append_data(&mut header, name, content).expect("memory");
    };
    add("b", b"content of b");
    add(&long, b"content of a long name");
    add("a", b"");
    let bytes = builder.into_inner().expect("memory");
    let expected = vec![
        "a 640 ".to_string(),
        "b 640 content of b".to_string(),
        "deep 755 /".to_string(),
        format!("deep/{} 755 /", "d".repeat(150)),
        format!("{long} 640 content of a long name"),
    ];
    assert_eq!(run(&bytes), Ok(expected));
}

#[test]
fn fields_that_a_writer_left_out_are_zero() {
    let mut blank = Header::new_gnu();
    blank.as_old_mut().name[0] = b'f';
    blank.set_size(0);
    blank.set_cksum();
    assert_eq!(run_as(&end(blank.as_bytes().to_vec()), root_options()), Ok(vec!["f 0 ".into()]));
    blank.as_old_mut().mtime = *b"\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff";
    blank.set_cksum();
    refused(run(&end(blank.as_bytes().to_vec())), "`f`: its time is no number");
}

#[test]
fn links_directories_and_later_members_of_one_name_are_as_tar_extracts_them() {
    let mut out = Vec::new();
    member(&mut out, &header(b"./", EntryType::Directory, 0), b"");
    member(&mut out, &header(b"./dir/", EntryType::Directory, 0), b"");
    file(&mut out, "./dir/f", b"first");
    file(&mut out, "x", b"old");
    link(&mut out, "hard", EntryType::Link, "dir/f");
    link(&mut out, "again", EntryType::Link, "./hard");
    link(&mut out, "soft", EntryType::Symlink, "../out");
    file(&mut out, "x", b"new");
    file(&mut out, "dir/f", b"second");
    let expected =
        ["again 640 first", "dir 640 /", "hard 640 first", "soft 777 -> ../out", "x 640 new", "dir/f 640 second"];
    assert_eq!(run(&end(out)), Ok(expected.map(String::from).to_vec()));
}

#[test]
fn extended_headers_override_names_sizes_and_owners() {
    let mut out = Vec::new();
    pax(&mut out, b'g', &[("mtime", "5.5"), ("comment", "x")]);
    pax(&mut out, b'x', &[("path", "dir/\u{fc}ber"), ("size", "3"), ("uid", "70000"), ("mtime", "-1.25")]);
    member(&mut out, &header(b"short", EntryType::Regular, 0), b"abc");
    pax(&mut out, b'x', &[("linkpath", "a target")]);
    link(&mut out, "l", EntryType::Symlink, "b");
    let expected = ["dir 755 /", "l 777 -> a target", "dir/\u{fc}ber 640 abc"];
    assert_eq!(run_as(&end(out), root_options()), Ok(expected.map(String::from).to_vec()));
}

#[test]
fn sparse_members_of_every_form_become_pieces_and_zeros() {
    let mut out = Vec::new();
    // Old GNU: the map is in the header, and in blocks behind it.
    let mut old = header(b"old", EntryType::GNUSparse, 6);
    let gnu = old.as_gnu_mut().expect("it is one");
    let octal = |into: &mut [u8; 12], number: u64| into[..11].copy_from_slice(format!("{number:011o}").as_bytes());
    for (at, (offset, len)) in [(2, 1), (4, 1), (6, 1), (8, 1)].into_iter().enumerate() {
        octal(&mut gnu.sparse[at].offset, offset);
        octal(&mut gnu.sparse[at].numbytes, len);
    }
    octal(&mut gnu.realsize, 15);
    gnu.isextended[0] = 1;
    old.set_cksum();
    let mut more = tar::GnuExtSparseHeader::new();
    octal(&mut more.sparse[0].offset, 10);
    octal(&mut more.sparse[0].numbytes, 2);
    // Nobody may mistake it for a header.
    out.extend_from_slice(old.as_bytes());
    member(&mut out, header_of(&more), b"abcdef");
    let v0 = [
        ("GNU.sparse.size", "9"),
        ("GNU.sparse.numblocks", "2"),
        ("GNU.sparse.offset", "1"),
        ("GNU.sparse.numbytes", "2"),
        ("GNU.sparse.offset", "5"),
        ("GNU.sparse.numbytes", "1"),
    ];
    pax(&mut out, b'x', &v0);
    file(&mut out, "v00", b"abc");
    pax(&mut out, b'x', &[("GNU.sparse.size", "6"), ("GNU.sparse.map", "0,2,5,1"), ("GNU.sparse.name", "v01")]);
    file(&mut out, "GNUSparseFile.1/v01", b"abc");
    pax(
        &mut out,
        b'x',
        &[
            ("GNU.sparse.major", "1"),
            ("GNU.sparse.minor", "0"),
            ("GNU.sparse.name", "v10"),
            ("GNU.sparse.realsize", "8"),
        ],
    );
    let mut content = b"2\n1\n2\n6\n1\n".to_vec();
    content.resize(512, 0);
    content.extend_from_slice(b"xyz");
    file(&mut out, "GNUSparseFile.2/v10", &content);
    let expected = ["old 640 00a0b0c0d0ef000", "v00 640 0ab00c000", "v01 640 ab000c", "v10 640 0xy000z0"];
    assert_eq!(run(&end(out)), Ok(expected.map(String::from).to_vec()));
}

fn header_of(block: &tar::GnuExtSparseHeader) -> &Header {
    Header::from_byte_slice(block.as_bytes())
}

#[test]
fn hostile_members_are_refused_by_name() {
    let one = |name: &str, kind, target: &str| {
        let mut out = Vec::new();
        link(&mut out, name, kind, target);
        run(&end(out))
    };
    refused(one("/etc/passwd", EntryType::Regular, ""), "`/etc/passwd`: its path begins with `/`");
    refused(one("a/../../b", EntryType::Regular, ""), "`a/../../b`: its path contains `..`");
    refused(one("", EntryType::Regular, ""), "its path is empty");
    refused(one("null", EntryType::Char, ""), "`null`: it is a device");
    refused(one("disk", EntryType::Block, ""), "`disk`: it is a device");
    refused(one("pipe", EntryType::Fifo, ""), "`pipe`: it is a named pipe");
    refused(one("part", EntryType::new(b'M'), ""), "`part`: it is a part of an archive of several volumes");
    refused(one("odd", EntryType::new(b'Z'), ""), "`odd`: it is a member of an unknown kind");
    refused(one("l", EntryType::Symlink, ""), "`l`: its target is empty");
    refused(one("h", EntryType::Link, "none"), "`h`: it is a hard link to `none`, which is no file");
    let mut out = Vec::new();
    link(&mut out, "h", EntryType::Link, "later");
    file(&mut out, "later", b"x");
    refused(run(&end(out)), "`h`: it is a hard link to `later`, which comes behind it");
    let mut out = Vec::new();
    link(&mut out, "s", EntryType::Symlink, "/etc");
    file(&mut out, "s/passwd", b"x");
    refused(run(&end(out)), "`s` is a file and a directory");
    let mut setuid = header(b"su", EntryType::Regular, 0);
    setuid.set_mode(0o4755);
    setuid.set_cksum();
    let mut out = Vec::new();
    member(&mut out, &setuid, b"");
    let out = end(out);
    refused(run(&out), "`su`: it is setuid or setgid, and only root");
    assert_eq!(run_as(&out, root_options()), Ok(vec!["su 4755 ".into()]));
}

#[test]
fn damaged_archives_are_refused_by_name() {
    let mut whole = Vec::new();
    file(&mut whole, "f", &[b'x'; 700]);
    let whole = end(whole);
    assert!(run(&whole).is_ok());
    refused(run(&whole[..1000]), "`f`: its content reaches to byte 1212 and the file ends at 1000");
    refused(run(&whole[..300]), "a header reaches to byte 512");
    refused(run(&[b'x'; 2048]), "this is no tar archive");
    let mut damaged = whole.clone();
    damaged[3] ^= 1;
    refused(run(&damaged), "the checksum of its header is wrong");
    let mut size = header(b"big", EntryType::Regular, 0);
    size.as_old_mut().size = *b"\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff";
    size.set_cksum();
    refused(run(size.as_bytes()), "`big`: its content reaches to byte");
    size.as_old_mut().size = *b"99999999999\0";
    size.set_cksum();
    refused(run(size.as_bytes()), "`big`: its size is no number");
    let long = |kind, size| {
        let mut out = Vec::new();
        member(&mut out, &header(b"long", EntryType::new(kind), size), b"");
        out.resize(4 << 20, 0);
        run(&out)
    };
    refused(long(b'L', 1 << 20), "`long`: a long name has 1048576 bytes, more than 65536");
    refused(long(b'x', 2 << 20), "`long`: an extended header has 2097152 bytes");
    for (records, text) in [
        ("999 path=x\n", "the length of a record"),
        ("x path=y\n", "the length of a record"),
        ("9 size=-1\n", "the length of a record"),
        ("11 size=-1\n", "its size is no number"),
        ("26 size=9999999999999999999\n", "the length"),
    ] {
        let mut out = Vec::new();
        member(&mut out, &header(b"p", EntryType::new(b'x'), records.len() as u64), records.as_bytes());
        file(&mut out, "f", b"");
        refused(run(&end(out)), text);
    }
    let mut out = Vec::new();
    pax(&mut out, b'x', &[("path", "x")]);
    refused(run(&end(out)), "1 and 0 for members behind an extended header");
    let sparse = |records: &[(&str, &str)], content: &[u8]| {
        let mut out = Vec::new();
        pax(&mut out, b'x', records);
        file(&mut out, "f", content);
        run(&end(out))
    };
    refused(sparse(&[("GNU.sparse.major", "2")], b""), "the size of a sparse member");
    refused(sparse(&[("GNU.sparse.major", "2"), ("GNU.sparse.size", "1")], b""), "it is sparse in the form pax 2.0");
    refused(sparse(&[("GNU.sparse.map", "5,2,1,1"), ("GNU.sparse.size", "9")], b"abc"), "its sparse map");
    refused(
        sparse(&[("GNU.sparse.map", "0,3"), ("GNU.sparse.size", "9")], b"abcd"),
        "4 and 3 for the bytes of its pieces",
    );
    refused(sparse(&[("GNU.sparse.map", "0,3"), ("GNU.sparse.size", "2")], b"abc"), "its sparse map");
    refused(sparse(&[("GNU.sparse.major", "1"), ("GNU.sparse.realsize", "9")], b"99999\n"), "its sparse map");
}

#[test]
fn no_damage_makes_the_reader_panic() {
    let mut out = Vec::new();
    pax(&mut out, b'x', &[("GNU.sparse.map", "0,2,5,1"), ("GNU.sparse.size", "6")]);
    file(&mut out, "sparse", b"abc");
    link(&mut out, "hard", EntryType::Link, "sparse");
    file(&mut out, "f", b"x");
    let out = end(out);
    for at in 0..out.len() {
        for bit in [0, 3, 7] {
            let mut damaged = out.clone();
            damaged[at] ^= 1 << bit;
            // The checksum of the header that it is in is made right.
            let block = at / 512 * 512;
            let mut header = Header::from_byte_slice(&damaged[block..block + 512]).clone();
            header.set_cksum();
            damaged[block..block + 512].copy_from_slice(header.as_bytes());
            let _ = run(&damaged);
        }
        let _ = run(&out[..at]);
    }
}
