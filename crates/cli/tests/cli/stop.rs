//! Being told to stop while already stopping.

use std::time::Duration;

use rustix::process::Signal;

use super::run::{Place, Service, can_mount, fuse_mounts, loligo, sh, until};

/// Tells it again and again, as somebody impatient does, until it has ended.
fn insist(service: &mut Service) {
    until("another signal ends it", || {
        if !service.has_ended() {
            service.signal(Signal::INT);
            std::thread::sleep(Duration::from_millis(50));
        }
        service.has_ended()
    });
}

#[test]
fn a_mount_whose_server_hangs_says_what_it_waits_for_and_ends_at_the_second_signal() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {}", &[&data]);
    let mut mounted = Service::start("mount --data {} {}", &[&data, &mount]);
    sh("echo synced > $D/x; sync $D/x", &mount).ok();
    // Somebody waits for an answer, so that the mount cannot end by itself.
    let pid = place.path("pid");
    let script = "exec 3>$1/y; echo $$ >$2; read go; echo more >&3";
    let mut writer = std::process::Command::new("timeout");
    writer.args(["-s", "KILL", "100", "sh", "-euc", script, "-"]).arg(&mount).arg(&pid);
    let mut writer = writer.stdin(std::process::Stdio::piped()).spawn().expect("a shell");
    let number = || std::fs::read_to_string(&pid).unwrap_or_default().trim().to_string();
    until("the file is open", || !number().is_empty());
    server.signal(Signal::STOP);
    std::io::Write::write_all(&mut writer.stdin.take().expect("a pipe"), b"go\n").expect("it reads");
    // Which system call it is blocked in, with its arguments: no longer the reading of its descriptor 0.
    let blocked = || std::fs::read_to_string(format!("/proc/{}/syscall", number())).unwrap_or_default();
    until("it waits for the mount", || blocked().split(' ').nth(1).is_some_and(|first| first != "0x0"));
    mounted.signal(Signal::TERM);
    until("it says what it waits for", || {
        mounted.log().contains("loligo: still bringing what was written lately to the server")
    });
    assert!(mounted.log().contains("SIGTERM: unmounting; another one ends it at once"), "{}", mounted.log());
    // The terminal that is closed asks to stop once more; that is not impatience.
    mounted.signal(Signal::HUP);
    insist(&mut mounted);
    let (code, log) = mounted.ended();
    assert_eq!(code, 1, "{log}");
    assert!(log.contains("SIGINT once more: ended at once; what was written and not synced may be lost"), "{log}");
    assert!(fuse_mounts(&mount).is_empty());
    writer.wait().expect("its end");
    server.signal(Signal::CONT);
    assert_eq!(server.stop().0, 0);
    let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    assert_eq!(sh("cat $D/x", &mount).ok().out, "synced\n");
    assert_eq!(up.stop().0, 0);
}

#[test]
fn up_cut_short_while_it_stops_has_lost_nothing() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    for round in 0..4 {
        let mut up = Service::start("up --data {} --mount {}", &[&data, &mount]);
        sh(&format!("for i in $(seq 200); do echo $i > $D/{round}.$i; done; sync $D/{round}.200"), &mount).ok();
        up.signal(Signal::TERM);
        insist(&mut up);
        // It may have been quicker than the second signal.
        let (code, log) = up.ended();
        assert_eq!(code == 1, log.contains("once more: ended at once; as after a crash"), "{code}: {log}");
        assert!(fuse_mounts(&mount).is_empty(), "{log}");
        let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
        let files = sh("ls $D | wc -l; cat $D/*.200 | wc -c", &mount).ok().out;
        assert_eq!(files, format!("{}\n{}\n", 200 * (round + 1), 4 * (round + 1)));
        assert_eq!(up.stop().0, 0);
    }
    loligo("fsck --data {}", &[&data]).ok();
}

/// Its close sends what it has written, to a server that does not answer, and nobody hears how that went.
#[test]
fn a_program_that_is_killed_while_it_ends_in_a_decoupled_directory_does_not_wait_for_a_server_that_hangs() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {}", &[&data]);
    let mounted = Service::start("mount --data {} {} --set give_up_ms=0", &[&data, &mount]);
    std::fs::create_dir(mount.join("job")).expect("a directory");
    loligo("decouple {} --policy batchfs", &[&mount.join("job")]).ok();
    let ready = place.path("ready");
    let script = "exec 3>$1/job/f; head -c 50000 /dev/zero >&3; echo >$2; read go; exit 0";
    let mut writer = std::process::Command::new("sh");
    writer.args(["-euc", script, "-"]).arg(&mount).arg(&ready).stdin(std::process::Stdio::piped());
    let mut writer = writer.spawn().expect("a shell");
    until("the file is written", || ready.exists());
    server.signal(Signal::STOP);
    std::io::Write::write_all(&mut writer.stdin.take().expect("a pipe"), b"go\n").expect("it reads");
    // A program that ends has no descriptors any more while they are closed.
    let fds = format!("/proc/{}/fd", writer.id());
    until("it closes its files", || std::fs::read_dir(&fds).map_or(true, |mut fds| fds.next().is_none()));
    writer.kill().expect("it is there");
    until("it ends", || writer.try_wait().expect("a child").is_some());
    server.signal(Signal::CONT);
    loligo("recouple {}", &[&mount.join("job")]).ok();
    assert_eq!(std::fs::metadata(mount.join("job/f")).expect("it was written").len(), 50_000);
    assert_eq!(mounted.stop().0, 0);
    assert_eq!(server.stop().0, 0);
}

/// The mount stays in use, so it ends by force, and the kernel drops what it has not written back by then.
#[test]
fn pages_of_a_shared_mapping_are_kept_by_a_clean_stop_under_a_program_that_has_it() {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    const LEN: usize = 1 << 20;
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    let path = mount.join("mapped");
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).expect("made");
    file.set_len(LEN as u64).expect("as long");
    // SAFETY: a fresh mapping of an open file, written within its length while the mount is there, and not touched again.
    let at = unsafe {
        let at = mmap(std::ptr::null_mut(), LEN, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0);
        let at = at.expect("mapped");
        at.cast::<u8>().write_bytes(b'M', LEN);
        at
    };
    assert_eq!(up.stop().0, 0);
    // SAFETY: the mapping made above; nothing refers to it.
    unsafe { munmap(at, LEN) }.expect("unmapped");
    drop(file);
    let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    assert!(std::fs::read(&path).expect("read") == vec![b'M'; LEN]);
    assert_eq!(up.stop().0, 0);
}
