//! Use of Loligo by a machine's own tools: mount(8) and lines of fstab, and a manager of services that wants to be told.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use super::run::{LOLIGO, PATIENCE, Place, Service, apart, can_mount, loligo};

/// Lets mount(8) find this program, in a mount namespace of its own.
const HELPER: &str = r#"
    cp -a /usr/sbin "$D/sbin"
    ln -sf "$L" "$D/sbin/mount.loligo"
    ln -sf "$L" "$D/sbin/mount.fuse.loligo"
    mount --bind "$D/sbin" /usr/sbin
    mkdir -p "$D/mnt" "$D/other"
    shown() { findmnt -n -o FSTYPE,SOURCE,OPTIONS "$1"; }
"#;

#[test]
fn lines_of_fstab_are_mounted_shown_and_unmounted() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    let server = Service::start("serve --data {} --admin off", &[&place.data()]);
    let script = format!(
        r#"{HELPER}
        cat >"$D/fstab" <<END
        $D/data $D/mnt loligo defaults,_netdev,nofail,noatime,nosuid,noexec,x-systemd.requires=a.service,read_ahead_bytes=1MiB 0 0
        loligo:$D/data/loligo.sock $D/other loligo noauto,user,ro,log_file=$D/other.log 0 0
END
        mount -T "$D/fstab" -a
        shown "$D/mnt"
        echo content >"$D/mnt/file"
        # What is mounted already is not mounted once more.
        mount -T "$D/fstab" -a
        echo "mounts: $(findmnt -n -o TARGET "$D/mnt" | wc -l)"
        mount -T "$D/fstab" "$D/other"
        shown "$D/other"
        cat "$D/other/file"
        ! touch "$D/other/file" 2>/dev/null
        "$L" umount "$D/other"
        umount "$D/mnt"
        ! shown "$D/mnt"
        mount -t loligo -v "$D/data" "$D/mnt"
        cat "$D/mnt/file"
        umount "$D/mnt"
        # As a path may be named where one stands.
        (cd "$D"; mount -t loligo data mnt; cat mnt/file; findmnt -n -o SOURCE "$D/mnt"; umount mnt)
        test -s "$D/other.log" || test -e "$D/other.log"
        "#
    );
    let Some(ran) = apart(&script, place.dir.path()) else { return };
    let ran = ran.ok();
    let lines: Vec<&str> = ran.out.lines().collect();
    let data = place.data().display().to_string();
    assert!(lines[0].starts_with(&format!("fuse.loligo {data} rw,nosuid,nodev,noexec")), "{}", ran.out);
    assert_eq!(lines[1], "mounts: 1", "{}", ran.out);
    assert!(lines[2].contains(&format!("loligo:{data}/loligo.sock ro,nosuid,nodev,noexec")), "{}", ran.out);
    assert_eq!(ran.out.matches("content\n").count(), 3, "{}", ran.out);
    assert!(ran.out.contains(&format!("content\n{data}\n")), "the source is absolute: {}", ran.out);
    assert!(ran.out.contains("mounted unix:") && ran.out.contains("stop it"), "-v says so: {}", ran.out);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn what_cannot_be_mounted_is_told_with_the_exit_codes_of_mount_8() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let script = format!(
        r#"{HELPER}
        code() {{ "$@" && echo 0 || echo "code $?"; }}
        code mount -t loligo "$D/data" "$D/mnt" 2>&1
        code mount -t loligo -o sync "$D/data" "$D/mnt" 2>&1
        code mount -t loligo -o cahce_bytes=1 "$D/data" "$D/mnt" 2>&1
        code mount -t loligo -f "$D/data" "$D/mnt" 2>&1
        "#
    );
    let Some(ran) = apart(&script, place.dir.path()) else { return };
    let out = ran.ok().out;
    assert!(out.contains("loligo: ") && out.contains("code 32"), "{out}");
    assert!(out.contains("unknown mount option cahce_bytes=1; did you mean cache_bytes?"), "{out}");
    assert!(out.contains("unknown mount option sync") && out.contains("code 1\n"), "{out}");
    assert!(out.ends_with("0\n"), "-f mounts nothing: {out}");
}

#[test]
fn a_mount_becomes_read_only_and_back_and_keeps_its_other_flags() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    let server = Service::start("serve --data {} --admin off", &[&place.data()]);
    let script = format!(
        r#"{HELPER}
        flags() {{ findmnt -n -o OPTIONS "$D/mnt" | cut -d, -f1-4; }}
        mount -t loligo -o noexec "$D/data" "$D/mnt"
        echo content >"$D/mnt/file"
        mount -o remount,ro "$D/mnt"
        flags
        (echo more >"$D/mnt/file") 2>&1 | grep -o 'Read-only file system'
        cat "$D/mnt/file"
        mount -o remount,rw "$D/mnt"
        flags
        echo more >"$D/mnt/file"
        mount -o remount,allow_suid "$D/mnt"
        flags
        exec 5>>"$D/mnt/file"
        mount -o remount,ro "$D/mnt" 2>&1 | grep -o 'open for writing' || true
        exec 5>&-
        mount -o remount,ro,log=warn "$D/mnt"
        flags
        # Right after the last close of a file that was written to.
        for i in $(seq 50); do mount -o remount,rw "$D/mnt"; echo $i >"$D/mnt/file"; mount -o remount,ro "$D/mnt"; done
        cat "$D/mnt/file"
        ! mount -o remount,sync "$D/mnt" 2>/dev/null
        umount "$D/mnt"
        "#
    );
    let Some(ran) = apart(&script, place.dir.path()) else { return };
    let out = ran.ok().out;
    let want = "ro,nosuid,nodev,noexec\nRead-only file system\ncontent\nrw,nosuid,nodev,noexec\nrw,nodev,noexec,relatime\n\
                open for writing\nro,nodev,noexec,relatime\n50\n";
    assert_eq!(out.replace(",user_id=0", ""), want);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn a_manager_of_services_hears_that_a_server_is_ready_and_that_it_stops() {
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    let path = place.path("notify");
    let manager = UnixDatagram::bind(&path).expect("a new path");
    manager.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let hears = || {
        let mut buffer = [0; 500];
        let len = manager.recv(&mut buffer).expect("it is told");
        String::from_utf8_lossy(&buffer[..len]).trim_end().to_string()
    };
    let mut server = Command::new(LOLIGO)
        .args(["serve", "--admin", "off", "--data"])
        .arg(place.data())
        .env("NOTIFY_SOCKET", &path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let ready = hears();
    assert!(ready.starts_with("READY=1\nSTATUS=serving ") && ready.lines().count() == 2, "{ready}");
    // It serves by then.
    loligo("status --data {}", &[&place.data()]).ok();
    rustix::process::kill_process(rustix::process::Pid::from_child(&server), rustix::process::Signal::TERM)
        .expect("it runs");
    assert_eq!(hears(), "STOPPING=1\nSTATUS=stopping");
    assert!(hears().starts_with("STATUS=writing"));
    assert!(server.wait().expect("its end").success());
}

#[test]
fn what_is_installed_is_complete_and_its_unit_is_one() {
    let place = Place::new();
    let root = place.path("root");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install.sh");
    let ran = Command::new(script).env("DESTDIR", &root).env("LOLIGO", LOLIGO).output().expect("bash");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    for name in ["mount.loligo", "mount.fuse.loligo"] {
        let helper = std::fs::read_link(root.join("usr/sbin").join(name)).expect("a link");
        assert!(root.join(helper.strip_prefix("/").expect("absolute")).is_file());
    }
    assert!(root.join("etc/loligo/example.env").is_file() && root.join("etc/sysusers.d/loligo.conf").is_file());
    let unit = root.join("etc/systemd/system/loligo-server@.service");
    // The program is where the unit says.
    let text = std::fs::read_to_string(&unit).expect("a unit");
    let program =
        text.lines().find_map(|line| line.strip_prefix("ExecStart=/")).and_then(|line| line.split(' ').next());
    assert!(root.join(program.expect("it starts something")).is_file());
    let mut verify = Command::new("systemd-analyze");
    verify.arg("verify").arg("--root").arg(&root).arg("loligo-server@home.service");
    match verify.output() {
        Ok(ran) => {
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            let ours: Vec<&str> = said.lines().filter(|line| line.contains("loligo-server@.service:")).collect();
            assert!(ours.is_empty(), "{said}");
        }
        Err(_) => super::run::not_tested("the unit for systemd: systemd-analyze is not installed"),
    }
    assert!(Command::new(script).arg("--remove").env("DESTDIR", &root).status().expect("bash").success());
    assert!(!unit.exists() && root.join("etc/loligo/example.env").is_file());
}
