//! Use of a mount by the kernel: an overlay that has it as its upper layer. Not: programs, and views of several mounts.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use loligo_e2e::{PATIENCE, Scratch, within};

/// An overlay; gone at the end, whatever happens.
struct Overlay {
    at: PathBuf,
}

impl Overlay {
    fn mount(lower: &Path, upper: &Path, work: &Path, at: PathBuf) -> Overlay {
        let layers = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        let mut mount = Command::new("mount");
        let ran = mount.args(["-t", "overlay", "overlay", "-o", &layers]).arg(&at).output().expect("mount runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Overlay { at }
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.at, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_mount_is_the_upper_layer_of_an_overlay() {
    let Some(scratch) = Scratch::new("overlay") else { return };
    let known = fs::read_to_string("/proc/filesystems").is_ok_and(|text| text.contains("overlay"));
    if !known && !Command::new("modprobe").arg("overlay").status().is_ok_and(|status| status.success()) {
        eprintln!("NOT TESTED: this kernel has no overlayfs");
        return;
    }
    let up = scratch.up("mnt");
    let (lower, merged) = (scratch.place("lower"), scratch.place("merged"));
    let mount = up.path().to_owned();
    within(PATIENCE, "the overlay", move || {
        let (upper, work) = (mount.join("upper"), mount.join("work"));
        for dir in [&lower, &lower.join("dir"), &merged, &upper, &work] {
            fs::create_dir(dir).expect("made");
        }
        for file in ["removed", "renamed", "changed", "dir/in"] {
            fs::write(lower.join(file), file).expect("made");
        }
        let overlay = Overlay::mount(&lower, &upper, &work, merged);
        let at = |name: &str| overlay.at.join(name);
        fs::remove_file(at("removed")).expect("it shows");
        fs::rename(at("renamed"), at("new")).expect("it shows");
        fs::write(at("changed"), "anew").expect("it shows");
        fs::remove_dir_all(at("dir")).expect("it shows");
        fs::create_dir(at("dir")).expect("nothing is there");
        fs::write(at("dir/mine"), "mine").expect("there is room");
        let mut names: Vec<_> =
            fs::read_dir(&overlay.at).expect("it is there").flatten().map(|e| e.file_name()).collect();
        names.sort();
        assert_eq!(names, ["changed", "dir", "new"]);
        assert_eq!(fs::read_to_string(at("new")).expect("there"), "renamed");
        assert_eq!(fs::read_dir(at("dir")).expect("there").count(), 1, "what was below does not show");
        for name in ["removed", "renamed"] {
            let whiteout = fs::symlink_metadata(upper.join(name)).expect("it is in the upper layer");
            assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0, "{name}");
            assert!(!at(name).exists());
        }
        let mut value = [0_u8; 16];
        let len = rustix::fs::getxattr(upper.join("dir"), "trusted.overlay.opaque", &mut value[..]);
        assert_eq!(len, Ok(1), "it hides what is below");
        File::create(at("renamed")).expect("a whiteout is replaced");
        assert!(fs::symlink_metadata(upper.join("renamed")).expect("there").file_type().is_file());
    });
    up.stop();
}
