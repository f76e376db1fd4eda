//! Users other than root: mounting, and what they may not do.

use super::run::{LOLIGO, Place, Ran, apart, loligo, not_tested, sh};

/// A script by a user without rights, in a mount namespace whose /dev/fuse everybody may open. `as` runs something as
/// that user; `$H` is a directory of theirs, `$L` the command where they can reach it.
fn as_user(place: &Place, open_device: bool, script: &str) -> Option<Ran> {
    if sh("command -v setpriv && command -v fusermount3", place.dir.path()).code != 0 {
        not_tested("tests of users without root: they need setpriv and fusermount3");
        return None;
    }
    let device = match open_device {
        true => {
            "mkdir $D/dev; mount -t tmpfs none $D/dev; mknod -m 666 $D/dev/fuse c 10 229; mount --bind $D/dev/fuse /dev/fuse"
        }
        false => {
            "mkdir $D/dev; mount -t tmpfs none $D/dev; mknod -m 600 $D/dev/fuse c 10 229; mount --bind $D/dev/fuse /dev/fuse"
        }
    };
    let whole = format!(
        "[ -w /dev/fuse ] || {{ echo 'no fuse'; exit 0; }}
        {device}
        chmod 755 $D; H=$D/home; mkdir -m 700 $H; cp $L $D/loligo; chmod 755 $D/loligo; L=$D/loligo; chown 65534:65534 $H
        as() {{ timeout 60 setpriv --reuid 65534 --regid 65534 --clear-groups -- \"$@\"; }}
        {script}"
    );
    let ran = apart(&whole, place.dir.path())?;
    if ran.out.starts_with("no fuse") {
        not_tested("tests of users without root: /dev/fuse cannot be opened");
        return None;
    }
    Some(ran)
}

#[test]
fn a_user_without_rights_mounts_uses_and_stops_a_file_system_of_their_own() {
    let place = Place::new();
    let script = "
        trap 'as $L down --data $H/data >/dev/null 2>&1 || true' EXIT
        as $L up --data $H/data --mount $H/mnt --daemon
        as sh -euc 'cd $1/mnt; echo hello >x; cat x; mkdir d; ln x d/y; stat -c \"%U %h\" d/y; setfattr -n user.a -v b x || true' - $H
        as $L status $H/mnt | grep health
        as $L mount --data $H/data $H/second --daemon >/dev/null
        as cat $H/second/x
        as $L umount $H/second
        ls $H/mnt 2>&1 || echo 'others are kept out'
        kill -9 $(sed -n 's/.*\"pid\": \\([0-9]*\\).*/\\1/p' $H/data/server.json)
        as $L up --data $H/data --mount $H/mnt --daemon >/dev/null
        as cat $H/mnt/d/y
        as $L down --data $H/data
        as $L fsck --data $H/data
        grep -c \" $H\" /proc/self/mountinfo || true";
    let Some(ran) = as_user(&place, true, script) else { return };
    let ran = ran.ok();
    for words in
        ["mounted at", "hello\n", "nobody 2\n", "serving", "others are kept out", "stopped the server", "\n0\n"]
    {
        assert!(ran.out.contains(words), "no `{words}` in {}\n{}", ran.out, ran.err);
    }
    assert_eq!(ran.out.matches("hello\n").count(), 3, "{}", ran.out);
}

#[test]
fn a_user_who_cannot_mount_is_told_what_is_missing_and_nothing_is_made() {
    let place = Place::new();
    let script = "
        as $L up --data $H/data --mount $H/mnt || echo code $?
        as $L up --data $H/data --mount $H/mnt --daemon || echo code $?
        ls $H | wc -l";
    if let Some(ran) = as_user(&place, false, script) {
        assert_eq!(ran.out, "code 1\ncode 1\n0\n", "{}", ran.err);
        assert_eq!(ran.err.matches("/dev/fuse: user 65534 may not open it").count(), 2, "{}", ran.err);
        assert!(ran.err.contains("chmod 666 /dev/fuse"), "{}", ran.err);
    }
    let place = Place::new();
    let script = "
        mkdir $D/bin; ln -s $(command -v setpriv) $(command -v timeout) $D/bin
        PATH=$D/bin as $L up --data $H/data --mount $H/mnt || echo code $?
        ls $H | wc -l";
    if let Some(ran) = as_user(&place, true, script) {
        assert_eq!(ran.out, "code 1\n0\n", "{}", ran.err);
        assert!(ran.err.contains("fusermount3 is not there") && ran.err.contains("install fuse3"), "{}", ran.err);
    }
}

#[test]
fn a_stranger_gets_nowhere_with_the_data_of_another() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let script = "
        for words in status top fsck dump 'journal inspect' down serve 'mount /no/such/mount' format config 'bench md'; do
            as $L $words --data $D/data >/dev/null || echo \"$? $words\"
        done
        as $L umount /proc || echo \"$? umount\"";
    let Some(ran) = as_user(&place, true, script) else { return };
    let ran = ran.ok();
    assert_eq!(ran.out.lines().filter(|line| line.starts_with("1 ")).count(), 12, "{}\n{}", ran.out, ran.err);
    assert_eq!(ran.err.matches("Permission denied").count(), 11, "{}", ran.err);
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
    assert!(sh(&format!("{LOLIGO} fsck --data $D"), &data).code == 0);
}

#[test]
fn a_root_that_may_not_mount_is_told_so() {
    let place = Place::new();
    let script = "[ -w /dev/fuse ] || exit 0
        setpriv --inh-caps -sys_admin --bounding-set -sys_admin timeout 60 $L up --data $D/data --mount $D/mnt || echo code $?
        ls $D | wc -l";
    let Some(ran) = apart(script, place.dir.path()) else { return };
    if !ran.out.is_empty() {
        assert_eq!(ran.out, "code 1\n0\n", "{}", ran.err);
        assert!(ran.err.contains("CAP_SYS_ADMIN") && ran.err.contains("--cap-add"), "{}", ran.err);
    }
}

/// Orders that an owner may give by xattrs are given by the command, too: over the mount, where the server's directory is closed to them.
#[test]
fn an_owner_uses_the_command_in_a_mount_of_a_server_that_lets_only_root_in() {
    let place = Place::new();
    let script = "
        trap '$L down $D/mnt >/dev/null 2>&1 || true' EXIT
        timeout 60 $L up --data $D/data --mount $D/mnt --daemon >/dev/null
        mkdir $D/mnt/own $D/mnt/theirs; chown 65534:65534 $D/mnt/own
        say() { as $L \"$@\" 2>&1 || echo \"code $?\"; }
        echo '# mine'
        say policy explain $D/mnt/own
        say policy set $D/mnt/own relaxed
        say policy show $D/mnt/own
        say policy unset $D/mnt/own
        say subtree place $D/mnt/own giga --dry-run
        say subtree place $D/mnt/own giga
        say subtree unplace $D/mnt/own
        say subtree split $D/mnt/own 1
        say subtree unsplit $D/mnt/own
        say subtree lease $D/mnt/own 100ms
        say subtree unlease $D/mnt/own
        echo '# theirs'
        say subtree pin $D/mnt/own 0
        say subtree pin $D/mnt/own 0 --dry-run
        say subtree place $D/mnt/theirs giga
        echo '# closed'
        say status $D/mnt
        say policy advise $D/mnt/own
        say rank add $D/mnt";
    let Some(ran) = as_user(&place, true, script) else { return };
    let ran = ran.ok();
    let out = &ran.out;
    let (mine, rest) = out.split_once("# theirs").expect("a part");
    let (theirs, closed) = rest.split_once("# closed").expect("a part");
    assert!(!mine.contains("code ") && !out.contains("server.json"), "{out}");
    for words in [
        "not decoupled by this mount",
        "not told to this user",
        "strong/none by policy",
        "own: placement: none -> giga\nnothing was changed",
        "own: placement: giga -> none",
        "own: 1 fragment -> 2",
        "own: 2 fragments -> 1\n",
        "own: lookup_lease: none -> 100ms",
    ] {
        assert!(mine.contains(words), "no `{words}` in {mine}");
    }
    assert_eq!(theirs.matches("own: only root says at which rank").count(), 2, "{theirs}");
    assert_eq!(theirs.matches("do it as root, or as the owner of the directory").count(), 1, "{theirs}");
    assert_eq!(
        closed.matches("only root and the user whom the data directory belongs to may ask there").count(),
        3,
        "{closed}"
    );
    assert_eq!(closed.matches("code 1").count(), 3, "{closed}");
}
