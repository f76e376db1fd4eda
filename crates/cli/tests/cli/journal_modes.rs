//! Journal modes through the command and a mount: set, shown, explained, counted, and what a kill leaves.

use super::run::{Place, Service, can_mount, loligo, sh};

/// A number of `/metrics` of the only rank.
fn metric(data: &std::path::Path, name: &str) -> u64 {
    let page = sh("curl -sS --unix-socket $D/admin.sock http://loligo/metrics", data).ok().out;
    let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {page}"));
    line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok()).expect("a number") as u64
}

#[test]
fn each_mode_is_shown_with_what_a_crash_leaves_and_takes_its_way_to_the_disk() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    let modes = [
        ("wasteless", true, "is there entirely or not at all, the first ones in order, if the server takes data"),
        ("selective", true, "up to the threshold"),
        ("data", true, "is there entirely or not at all, the first ones in order, if the server takes data"),
        ("ordered", false, "A size never covers bytes that were not written, if the file is at the rank"),
        ("writeback", false, "the end of a file may be zeros"),
    ];
    for (mode, is_logged, words) in modes {
        let dir = mount.join(mode);
        sh(&format!("mkdir $D; printf 'journal = \"{mode}\"\\n' > $D.toml"), &dir).ok();
        loligo("policy set {} {}", &[&dir, &mount.join(format!("{mode}.toml"))]).ok();
        sh("head -c 40000 /dev/urandom > $D/f; sync $D/f", &dir).ok();
        let names = ["loligo_journal_data_bytes_total", "loligo_object_direct_bytes_total"];
        let before = names.map(|name| metric(&data, name));
        sh("head -c 3000 /dev/zero | dd of=$D/f bs=3000 seek=2 conv=notrunc,fsync status=none", &dir).ok();
        let now = names.map(|name| metric(&data, name));
        let expected = if is_logged { [before[0] + 3000, before[1]] } else { [before[0], before[1] + 3000] };
        assert_eq!(now, expected, "{mode}");
        let file = dir.join("f");
        let shown = loligo("policy show {}", &[&dir]).ok().out;
        assert!(shown.contains(&format!("journal           {mode}")), "{shown}");
        for path in [&dir, &file] {
            let told = loligo("policy explain {}", &[path]).ok().out;
            assert!(told.contains(&format!("data journal  {mode}: after a crash")) && told.contains(words), "{told}");
            let json = loligo("policy explain --json {}", &[path]).ok().json();
            assert_eq!(json["journal"]["mode"], mode);
        }
    }
    let sums = sh("cat $D/*/f | sha256sum", &mount).ok().out;
    up.kill();
    let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    assert_eq!(sh("cat $D/*/f | sha256sum", &mount).ok().out, sums);
    assert_eq!(up.stop().0, 0);
    loligo("fsck --data {} --data-checksums", &[&data]).ok();
}

#[test]
fn modes_and_thresholds_that_make_no_sense_are_refused_by_name() {
    let place = Place::new();
    let file = place.path("policy.toml");
    for (text, words) in [
        ("journal = \"wastless\"", "did you mean `wasteless`?"),
        ("journal = \"selective\"\njournal_threshold = \"0B\"", "a size from \"1B\" to \"256KiB\""),
        ("journal = \"selective\"\njournal_threshold = \"1MiB\"", "a size from \"1B\" to \"256KiB\""),
        ("journal = \"data\"\njournal_threshold = \"1KiB\"", "mode `data` has none"),
        ("preset = \"relaxed\"\njournal = \"wasteless\"", "in a relaxed directory answers come before"),
    ] {
        std::fs::write(&file, text).expect("it is written");
        loligo("policy check {}", &[&file]).fails(3, &[words]);
    }
}
