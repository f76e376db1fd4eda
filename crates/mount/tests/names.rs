//! Names in the kernel's cache, over a fake file system in a process of its own (the example `fakefs`), with each way of dropping them that
//! this kernel can do: what is cached, what is dropped, what stays in use. Needs root and /dev/fuse; says so and passes otherwise.

mod fake;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use fake::{Fake, eventually};

/// Levels of name caching: of kernels before Linux 6.2, before 6.16, and since.
const CACHING: [&str; 3] = ["Timed", "Expiry", "Epochs"];

/// Number of times that names could not be dropped one by one.
fn fallbacks(fake: &mut Fake) -> u64 {
    fake.count("all_names") + fake.count("names_waited")
}

#[test]
fn names_are_cached_until_they_are_dropped() {
    for caching in CACHING {
        let Some(mut fake) = Fake::start_caching("names", caching) else { continue };
        fs::write(fake.path("a"), "x").expect("written");
        for (here, there) in [("a", "b"), ("b", "a")] {
            // Where there is a limit, it may end between any two calls.
            eventually("present and absent names are cached", || {
                let before = fake.count("lookup");
                for _ in 0..10 {
                    assert!(fake.path(here).exists() && !fake.path(there).exists());
                }
                fake.count("lookup") == before
            });
            fake.tell(&format!("rename {here} {there}"));
            if caching == "Epochs" {
                assert!(fake.path(here).exists() && !fake.path(there).exists(), "nobody told the kernel");
            }
            let before = fake.count("lookup");
            fake.tell("names 1");
            assert!(!fake.path(here).exists() && fake.path(there).exists(), "both are looked up again");
            assert!(fake.count("lookup") > before);
        }
        assert_eq!((fake.count("names"), fake.count("all_names")), (2, 0));
        assert_eq!(fake.count("names_waited") > 0, caching == "Timed");
        fake.quit();
    }
}

#[test]
fn a_directory_in_use_stays_what_it_is_while_its_name_is_looked_up_again() {
    for caching in CACHING {
        let Some(mut fake) = Fake::start_caching("cwd", caching) else { continue };
        let dir = fake.path("d");
        fs::create_dir(&dir).expect("made");
        // It says where it is each time it is asked.
        let mut worker = Command::new("sh")
            .args(["-c", "while read -r line; do readlink /proc/$$/cwd; done"])
            .current_dir(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut input = worker.stdin.take().expect("piped");
        let mut output = BufReader::new(worker.stdout.take().expect("piped"));
        let mut place = move || {
            writeln!(input, "where").expect("it lives");
            let mut line = String::new();
            output.read_line(&mut line).expect("it lives");
            line.trim().to_owned()
        };
        assert_eq!(place(), dir.to_str().expect("text"));
        for _ in 0..3 {
            let before = fake.count("lookup");
            fake.tell("hold d");
            fake.tell("names 1");
            let walked = dir.join("x");
            let walker = std::thread::spawn(move || walked.exists());
            eventually("the name is looked up again", || fake.tell("held") == "1");
            assert_eq!(place(), dir.to_str().expect("text"), "while that is under way");
            fake.tell("go");
            assert!(!walker.join().expect("no panic"));
            assert_eq!(place(), dir.to_str().expect("text"));
            assert!(fake.count("lookup") > before);
        }
        drop(place);
        worker.wait().expect("ended");
        fake.quit();
    }
}

#[test]
fn what_is_mounted_below_stays_mounted_when_names_are_dropped() {
    use rustix::mount::{UnmountFlags, mount_bind, unmount};
    for caching in CACHING {
        let Some(mut fake) = Fake::start_caching("below", caching) else { continue };
        let (dir, top) = (fake.path("d/m"), fake.path("d"));
        fs::create_dir_all(&dir).expect("made");
        mount_bind("/proc", &dir).expect("mounted");
        let is_there = |dir: &Path| dir.join("self").exists();
        assert!(is_there(&dir));
        let numbers = [1, fs::metadata(&top).expect("there").ino()];
        for number in numbers {
            fake.tell(&format!("names {number}"));
            assert!(is_there(&dir), "after names of {number} were dropped");
        }
        unmount(&dir, UnmountFlags::empty()).expect("unmounted");
        fake.quit();
    }
}

#[test]
fn an_answer_under_way_when_names_are_dropped_is_not_believed() {
    for caching in CACHING {
        let Some(mut fake) = Fake::start_caching("underway", caching) else { continue };
        let look = |fake: &mut Fake, name: &str| {
            fake.tell(&format!("hold {name}"));
            let path = fake.path(name);
            let walker = std::thread::spawn(move || path.exists());
            eventually("it is looked up", || fake.tell("held") == "1");
            fake.tell("names 1");
            fake.tell("go");
            walker.join().expect("no panic")
        };
        // One that the kernel does not know, and that is not there.
        assert!(!look(&mut fake, "a"));
        fs::write(fake.path("b"), "x").expect("written");
        fake.tell("rename b a");
        assert!(fake.path("a").exists());
        // One that it knows, and that is there.
        fake.tell("names 1");
        assert!(look(&mut fake, "a"));
        fake.tell("rename a b");
        assert!(!fake.path("a").exists());
        assert_eq!(fallbacks(&mut fake) > 0, caching == "Timed");
        fake.quit();
    }
}

#[test]
fn whoever_has_a_directory_locked_does_not_hold_up_that_its_names_are_dropped() {
    for caching in CACHING {
        let Some(mut fake) = Fake::start_caching("locked", caching) else { continue };
        fs::write(fake.path("a"), "x").expect("written");
        for round in 0..20 {
            let (from, to) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
            assert!(fake.path(from).exists() && !fake.path(to).exists());
            fake.tell("hold c");
            let path = fake.path("c");
            let walker = std::thread::spawn(move || path.exists());
            eventually("it is looked up", || fake.tell("held") == "1");
            // As if the lookup waited for the very change that the names are asked back for.
            fake.tell("names 1");
            fake.tell(&format!("rename {from} {to}"));
            fake.tell("go");
            assert!(!walker.join().expect("no panic"));
            assert!(!fake.path(from).exists() && fake.path(to).exists());
            assert_eq!(fallbacks(&mut fake), round + 1, "{caching}");
        }
        fake.quit();
    }
}

#[test]
fn whoever_is_blocked_while_it_drops_names_is_left_behind() {
    for caching in CACHING {
        let Some(mut fake) = Fake::start_caching("blocked", caching) else { continue };
        // More often than so many may be left behind at a time.
        for round in 0..12 {
            let dir = fake.path(&format!("d{round}"));
            fs::create_dir(&dir).expect("made");
            fs::write(dir.join("f"), "x").expect("written");
            let ino = fs::metadata(&dir).expect("there").ino();
            // The kernel has a directory locked while it is removed, and what is asked does not show that.
            fake.tell(&format!("hold d{round}"));
            let remover = std::thread::spawn(move || fs::remove_dir(dir));
            eventually("it is being removed", || fake.tell("held") == "1");
            fake.tell(&format!("names {ino}"));
            assert_eq!(fallbacks(&mut fake), round + 1, "{caching}");
            fake.tell("go");
            remover.join().expect("no panic").expect("removed");
        }
        // Those that were left behind have ended, so there is one again.
        let dir = fake.path("e");
        fs::create_dir(&dir).expect("made");
        fs::write(dir.join("f"), "x").expect("written");
        let (ino, before) = (fs::metadata(&dir).expect("there").ino(), fake.count("lookup"));
        fake.tell(&format!("names {ino}"));
        assert!(dir.join("f").exists() && fake.count("lookup") > before);
        assert_eq!(fallbacks(&mut fake), if caching == "Timed" { 13 } else { 12 });
        fake.quit();
    }
}

#[test]
fn a_thread_is_waited_for_that_may_not_have_taken_in_what_it_was_told() {
    for caching in CACHING {
        let Some(mut fake) = Fake::start_caching("inhand", caching) else { continue };
        fs::write(fake.path("a"), "x").expect("written");
        // One computes after it was told, and nobody can see how far it is; one sleeps.
        for (computes, all) in [(false, 0), (true, 1)] {
            fake.tell("names 1");
            let (path, end) = (fake.path("a"), Arc::new(AtomicBool::new(false)));
            let (told, is_told) = mpsc::channel();
            let ended = end.clone();
            let looker = std::thread::spawn(move || {
                let found = path.exists();
                told.send((found, rustix::thread::gettid().as_raw_nonzero())).expect("it is heard");
                while !ended.load(Ordering::Relaxed) {
                    if !computes {
                        std::thread::park();
                    }
                }
            });
            let (found, tid) = is_told.recv().expect("told");
            assert!(found);
            let sleeps = || fs::read_to_string(format!("/proc/{tid}/stat")).expect("it lives").contains(") S ");
            eventually("it does what it is to do", || sleeps() != computes);
            let before = fallbacks(&mut fake);
            fake.tell("names 1");
            assert_eq!(fallbacks(&mut fake) - before, if caching == "Timed" { 1 } else { all });
            end.store(true, Ordering::Relaxed);
            looker.thread().unpark();
            looker.join().expect("no panic");
        }
        fake.tell("rename a b");
        assert!(!fake.path("a").exists() && fake.path("b").exists());
        fake.quit();
    }
}

#[test]
fn a_name_that_moves_to_where_none_is_lent_is_not_believed_there() {
    for caching in CACHING {
        let Some(mut fake) = Fake::start_caching("moved", caching) else { continue };
        for dir in ["d", "e"] {
            fs::create_dir(fake.path(dir)).expect("made");
        }
        let ino = fs::metadata(fake.path("e")).expect("there").ino();
        fake.tell("private 1");
        fake.tell("names 1");
        fake.tell(&format!("private {ino}"));
        // Of the one directory names were lent, of the other never. The second time it is known that names move out of it.
        for (dir, told) in [("d", 1), ("d", 0), ("e", 0)] {
            fs::write(fake.path(dir).join("f"), "x").expect("written");
            let before = fallbacks(&mut fake);
            fs::rename(fake.path(dir).join("f"), fake.path("g")).expect("renamed");
            assert_eq!(fallbacks(&mut fake) - before, told, "{dir}");
            fake.tell("rename g h");
            assert!(!fake.path("g").exists() && fake.path("h").exists(), "{dir}");
            fs::remove_file(fake.path("h")).expect("removed");
        }
        fake.quit();
    }
}

#[test]
fn an_open_file_survives_that_its_name_is_dropped() {
    for caching in CACHING {
        let Some(mut fake) = Fake::start_caching("held", caching) else { continue };
        fs::create_dir(fake.path("d")).expect("made");
        fs::write(fake.path("d/f"), "held").expect("written");
        let mut file = File::open(fake.path("d/f")).expect("open");
        fake.tell("rename d e");
        fake.tell("names 1");
        assert!(!fake.path("d/f").exists());
        let mut text = String::new();
        file.read_to_string(&mut text).expect("read");
        assert_eq!(text, "held");
        assert_eq!(fs::read_to_string(fake.path("e/f")).expect("read"), "held");
        drop(file);
        fake.quit();
    }
}
