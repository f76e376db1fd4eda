//! ROOT files, made of the headers of their records.

use super::{indexed, refused};
use crate::{Options, root};

fn run(bytes: &[u8]) -> Result<Vec<String>, String> {
    indexed(bytes, true, &|input, _, sink| root::index(input, &Options::default(), sink))
}

fn name(out: &mut Vec<u8>, text: &str) {
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

fn record(file: &mut Vec<u8>, class: &str, branch: &str, tree: &str, content: &[u8], is_big: bool) {
    let at = file.len() as u64;
    let mut head = Vec::new();
    head.extend_from_slice(&(if is_big { 1004u16 } else { 4 }).to_be_bytes());
    head.extend_from_slice(&(content.len() as u32).to_be_bytes());
    // 2026-01-31 12:00:00
    head.extend_from_slice(&(31u32 << 26 | 1 << 22 | 31 << 17 | 12 << 12).to_be_bytes());
    let names = [class, branch, tree].iter().map(|text| text.len() + 1).sum::<usize>();
    let len = 4 + head.len() + 4 + if is_big { 16 } else { 8 } + names;
    head.extend_from_slice(&(len as u16).to_be_bytes());
    head.extend_from_slice(&1u16.to_be_bytes());
    match is_big {
        true => head.extend([at, 100].iter().flat_map(|number| number.to_be_bytes())),
        false => head.extend([at as u32, 100].iter().flat_map(|number| number.to_be_bytes())),
    }
    [class, branch, tree].iter().for_each(|text| name(&mut head, text));
    file.extend_from_slice(&((4 + head.len() + content.len()) as u32).to_be_bytes());
    file.extend_from_slice(&head);
    file.extend_from_slice(content);
}

fn file(build: impl FnOnce(&mut Vec<u8>), is_big: bool) -> Vec<u8> {
    let mut file = vec![0; 100];
    build(&mut file);
    file[..4].copy_from_slice(b"root");
    let version: u32 = if is_big { 1_062_400 } else { 62_400 };
    file[4..8].copy_from_slice(&version.to_be_bytes());
    file[8..12].copy_from_slice(&100u32.to_be_bytes());
    let end = file.len() as u64;
    match is_big {
        true => file[12..20].copy_from_slice(&end.to_be_bytes()),
        false => file[12..16].copy_from_slice(&(end as u32).to_be_bytes()),
    }
    file
}

#[test]
fn baskets_become_files_in_directories_of_their_branches() {
    for is_big in [false, true] {
        let bytes = file(
            |file| {
                record(file, "TFile", "events.root", "", b"directory", is_big);
                record(file, "TBasket", "px", "Events", b"<px 0>", is_big);
                record(file, "TBasket", "py", "Events", b"<py 0>", is_big);
                // Free space.
                file.extend_from_slice(&(-20i32).to_be_bytes());
                file.extend_from_slice(&[0; 16]);
                record(file, "TBasket", "px", "Events", b"<px 1>", is_big);
                record(file, "TBasket", "tracks/pt", "Events", b"<pt 0>", is_big);
                record(file, "TTree", "Events", "a tree", b"streamer", is_big);
            },
            is_big,
        );
        let all = run(&bytes).expect("it is sound");
        let shown: Vec<&str> = all.iter().map(|line| line.split(' ').next().expect("a path")).collect();
        let expected = [
            "Events",
            "Events/px",
            "Events/py",
            "Events/tracks",
            "Events/px/000000",
            "Events/px/000001",
            "Events/py/000000",
            "Events/tracks/pt",
            "Events/tracks/pt/000000",
        ];
        assert_eq!(shown, expected);
        assert!(all[4].ends_with("<px 0>") && all[5].ends_with("<px 1>") && all[8].ends_with("<pt 0>"), "{all:?}");
    }
}

#[test]
fn files_that_are_none_cut_or_hostile_are_refused() {
    refused(run(b""), "the head reaches to byte 20");
    refused(run(&[0; 200]), "this is no ROOT file");
    let sound = file(|file| record(file, "TBasket", "px", "Events", b"data", false), false);
    assert!(run(&sound).is_ok());
    refused(run(&sound[..sound.len() - 1]), "its last record reaches to byte");
    let named = |branch: &str| run(&file(|file| record(file, "TBasket", branch, "Events", b"data", false), false));
    refused(named("../../x"), "`record at byte 100`: its path contains `..`");
    let changed = |at: usize, bytes: &[u8]| {
        let mut file = sound.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        run(&file)
    };
    refused(changed(100, &[0; 4]), "`record at byte 100`: a record reaches to byte 100");
    refused(changed(100, &1000u32.to_be_bytes()), "`record at byte 100`: a record reaches to byte 1100");
    refused(changed(100, &0x8000_0000u32.to_be_bytes()), "a record reaches");
    refused(changed(118, &7u32.to_be_bytes()), "`record at byte 100`: the archive says 100 and 7 for where it is");
    refused(changed(8, &5u32.to_be_bytes()), "for where its records begin");
    refused(changed(126, &[255, 255, 255, 255, 255]), "a name in a record has 4294967295 bytes");
    for at in 0..sound.len() {
        for bit in 0..8 {
            let mut damaged = sound.clone();
            damaged[at] ^= 1 << bit;
            let _ = run(&damaged);
        }
    }
}
