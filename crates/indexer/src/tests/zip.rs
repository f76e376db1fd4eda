//! Zip archives.

use std::io::Write;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{indexed, refused, root_options};
use crate::{Options, zip as indexer};

fn run_as(bytes: &[u8], options: Options) -> Result<Vec<String>, String> {
    indexed(bytes, true, &|input, _, sink| indexer::index(input, &options, sink))
}

fn run(bytes: &[u8]) -> Result<Vec<String>, String> {
    run_as(bytes, Options::default())
}

fn stored() -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Stored)
}

fn archive(build: impl FnOnce(&mut ZipWriter<std::io::Cursor<Vec<u8>>>)) -> Vec<u8> {
    let mut writer = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    build(&mut writer);
    writer.finish().expect("memory").into_inner()
}

fn with(name: &str, options: SimpleFileOptions, content: &[u8]) -> Vec<u8> {
    archive(|zip| {
        zip.start_file(name, options).expect("memory");
        zip.write_all(content).expect("memory");
    })
}

#[test]
fn stored_members_become_slices_of_the_archive() {
    let bytes = archive(|zip| {
        zip.add_directory("dir/", stored().unix_permissions(0o700)).expect("memory");
        zip.start_file("dir/f", stored().unix_permissions(0o640)).expect("memory");
        zip.write_all(b"content").expect("memory");
        zip.start_file("big", stored().large_file(true)).expect("memory");
        zip.write_all(b"zip64").expect("memory");
        zip.start_file("a/empty", stored()).expect("memory");
        zip.add_symlink("link", "dir/f", stored()).expect("memory");
    });
    let expected = ["a 755 /", "big 644 zip64", "dir 700 /", "link 777 -> dir/f", "a/empty 644 ", "dir/f 640 content"];
    assert_eq!(run(&bytes), Ok(expected.map(String::from).to_vec()));
    let nothing: Vec<String> = Vec::new();
    assert_eq!(run(&archive(|_| {})), Ok(nothing));
}

/// The place of the directory's entry of the first member.
fn directory(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|four| four == b"PK\x01\x02").expect("it has a directory")
}

#[test]
fn hostile_members_are_refused_by_name() {
    refused(run(&with("../x", stored(), b"x")), "`../x`: its path contains `..`");
    refused(run(&with("a/../../x", stored(), b"x")), "its path contains `..`");
    let mut absolute = with("_etc/x", stored(), b"x");
    let at = directory(&absolute);
    (absolute[30], absolute[at + 46]) = (b'/', b'/');
    refused(run(&absolute), "`/etc/x`: its path begins with `/`");
    let mut setuid = with("su", stored().unix_permissions(0o755), b"x");
    let at = directory(&setuid);
    setuid[at + 41] |= 0o4000u16.to_le_bytes()[1];
    assert_eq!(run_as(&setuid, root_options()), Ok(vec!["su 755 x".into()]), "the bit is cleared, for root too");
    let sound = with("name", stored(), b"content");
    let changed = |change: &dyn Fn(&mut [u8], usize)| {
        let mut bytes = sound.clone();
        let at = directory(&bytes);
        change(&mut bytes, at);
        run(&bytes)
    };
    assert!(changed(&|_, _| {}).is_ok());
    refused(changed(&|bytes, at| bytes[at + 10] = 8), "`name`: it is compressed (");
    refused(changed(&|bytes, _| bytes[8] = 8), "`name`: it is compressed (method 8)");
    refused(changed(&|bytes, at| bytes[at + 8] |= 1), "`name`: it is encrypted");
    refused(changed(&|bytes, _| bytes[6] |= 1), "`name`: it is encrypted");
    refused(changed(&|bytes, at| bytes[at + 24] = 9), "`name`: the archive says 9 and 7 for its size");
    refused(
        changed(&|bytes, at| (bytes[at + 20], bytes[at + 24]) = (200, 200)),
        "`name`: its content reaches to byte 234",
    );
    refused(changed(&|bytes, _| bytes[22] = 9), "`name`: the archive says 7 and 9 for its size");
    refused(changed(&|bytes, _| bytes[30] = b'N'), "`name`: the archive says 4 and 4 for its name");
    refused(changed(&|bytes, at| (bytes[30], bytes[at + 46]) = (0xff, 0xff)), "its name is no UTF-8");
    // A device by its mode.
    refused(changed(&|bytes, at| (bytes[at + 5], bytes[at + 41]) = (3, 0o20 << 1)), "`name`: it is a device");
}

#[test]
fn archives_that_are_none_cut_or_in_parts_are_refused() {
    refused(run(b""), "this is no zip archive");
    refused(run(&[b'x'; 100]), "this is no zip archive");
    let sound = with("name", stored(), b"content");
    for len in 0..sound.len() {
        run(&sound[..len]).expect_err("its end is missing");
    }
    let mut spanned = sound.clone();
    spanned[..4].copy_from_slice(b"PK\x07\x08");
    refused(run(&spanned), "part of an archive of several volumes");
}

#[test]
fn members_that_share_bytes_are_refused() {
    let inner = with("two", stored(), b"the same content");
    let mut bytes = archive(|zip| {
        for (name, content) in [("one", &inner[..]), ("two", b"the same content")] {
            zip.start_file(name, stored()).expect("memory");
            zip.write_all(content).expect("memory");
        }
    });
    assert!(run(&bytes).is_ok());
    // The entry of the second member in the directory leads into the content of the first, which begins with a header of that name.
    let entry = bytes.windows(49).rposition(|entry| entry.starts_with(b"PK\x01\x02") && entry.ends_with(b"two"));
    let entry = entry.expect("it is in the directory");
    bytes[entry + 42..entry + 46].copy_from_slice(&33u32.to_le_bytes());
    refused(run(&bytes), "`two`: its bytes are also those of `one`; such an archive is made to mislead");
}

#[test]
fn no_damage_makes_the_reader_panic() {
    let bytes = archive(|zip| {
        zip.start_file("dir/f", stored().large_file(true)).expect("memory");
        zip.write_all(b"content").expect("memory");
        zip.add_symlink("link", "dir/f", stored()).expect("memory");
    });
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let _ = run(&damaged);
        }
    }
}
