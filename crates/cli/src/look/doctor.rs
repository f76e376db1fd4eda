//! `loligo doctor`: what the kernel, the limits and the disk of this machine allow, and what would help. Changes nothing: it mounts at a
//! scratch directory for a moment, and writes a scratch file on the disk of the data. Not here: the state of a server (`status`), and of a file
//! system (`fsck`).

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use loligo_mount::NameCaching;
use serde::Serialize;

use crate::output::{Failure, Outcome, counted, human_bytes, put};
use crate::service::descriptors::Descriptors;
use crate::service::preflight;
use crate::settings::{Given, Settings};

/// Fewer open files than this limit the number of clients that a server takes.
const FILES_GOOD: u64 = 4096;
/// A disk with less room is nearly full.
const ROOM_LOW: u64 = 1 << 30;
/// A synced write that takes longer makes every change of the file system slow.
const SYNC_SLOW_US: u64 = 10_000;
/// Synced writes that are measured.
const SYNCS: usize = 16;

/// A finding's weight.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// It works; something would be better otherwise.
    Note,
    /// It keeps Loligo from running.
    Problem,
}

/// One thing that was looked at.
#[derive(Serialize, Debug)]
struct Check {
    what: &'static str,
    state: State,
    found: String,
    remedy: Option<String>,
}

impl Check {
    fn ok(what: &'static str, found: impl Into<String>) -> Check {
        Check { what, state: State::Ok, found: found.into(), remedy: None }
    }

    fn note(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { what, state: State::Note, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn problem(what: &'static str, failure: &Failure) -> Check {
        let (found, remedy) = failure.parts();
        Check { what, state: State::Problem, found: found.into(), remedy: remedy.map(str::to_string) }
    }
}

/// Looks, and prints what was found.
pub fn run(dir: Option<&Path>, as_json: bool, given: &Given) -> Outcome {
    let settings = Settings::load(given, dir, &[])?;
    let mut checks = vec![kernel()];
    checks.extend(fuse());
    checks.push(files());
    checks.push(memory(&settings));
    checks.push(cores());
    checks.push(ceph());
    if let Some(dir) = dir {
        checks.extend(disk(dir));
    }
    let problems = checks.iter().filter(|check| check.state == State::Problem).count();
    if as_json {
        put(format_args!("{:#}", serde_json::json!({ "ok": problems == 0, "checks": checks })))?;
    } else {
        for Check { what, state, found, remedy } in &checks {
            let word = match state {
                State::Ok => "ok",
                State::Note => "note",
                State::Problem => "PROBLEM",
            };
            put(format_args!("{word:<8} {what:<8} {found}"))?;
            if let Some(remedy) = remedy {
                put(format_args!("{:<17} try: {remedy}", ""))?;
            }
        }
    }
    match problems {
        0 => Ok(()),
        n => Err(Failure::found(format!("{} found", counted(n as u64, "problem")))),
    }
}

fn kernel() -> Check {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Check::ok("kernel", format!("Linux {} {}", release.trim(), std::env::consts::ARCH))
}

/// The mount of this user, and the abilities of the kernel's FUSE.
fn fuse() -> Vec<Check> {
    if let Err(failure) = preflight::fuse() {
        return vec![Check::problem("fuse", &failure)];
    }
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(error) => {
            let text = format!("a scratch directory for a mount cannot be made: {error}");
            return vec![Check::note("fuse", text, "set TMPDIR to a directory that can be written")];
        }
    };
    let able = match loligo_mount::probe(&scratch.0) {
        Ok(able) => able,
        Err(error) => return vec![Check::problem("fuse", &Failure::new(error.to_string()))],
    };
    let mut checks =
        vec![Check::ok("fuse", format!("protocol 7.{}; a mount at a scratch directory worked", able.minor))];
    let better = "a newer kernel caches names longer: Linux 6.2 (expiry), 6.16 (epochs)";
    checks.push(match able.names {
        NameCaching::Epochs => Check::ok("names", "cached by the kernel without a time limit (epochs)"),
        level => {
            let limit = level.ttl().as_millis();
            let text = format!("cached by the kernel for at most {limit} ms at a time ({})", level.name());
            Check::note("names", text, better)
        }
    });
    if !able.acls {
        checks.push(Check::note("acl", "the kernel does not check ACLs; the server does", "a newer kernel"));
    }
    if !able.direct_maps {
        let text = "shared mappings of files in direct mode are refused (ENODEV)";
        checks.push(Check::note(
            "mmap",
            text,
            "Linux 6.6 or newer, where a file is written by several mounts and mapped",
        ));
    }
    if !able.kill_priv {
        checks.push(Check::note("setuid", "setuid bits end with a request of their own", "Linux 5.12 or newer"));
    }
    if !rustix::process::geteuid().is_root() {
        let lets_in = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
        let lets_in = lets_in.lines().any(|line| line.trim() == "user_allow_other");
        if !lets_in {
            let text = "a mount of this user is for this user only";
            checks.push(Check::note("others", text, "as root: a line `user_allow_other` in /etc/fuse.conf"));
        }
    }
    checks
}

/// Open files of a process. Every command raises the limit to the hard one first.
fn files() -> Check {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Err(failure) = preflight::files() {
        return Check::problem("files", &failure);
    }
    let clients = Descriptors::of_process().connections;
    let text = match limit {
        Some(limit) => format!("{limit} open files: room for {}", counted(clients as u64, "connection of clients")),
        None => "no limit of open files".to_string(),
    };
    match limit {
        Some(limit) if limit < FILES_GOOD => {
            Check::note("files", text, "ulimit -n 65536, or LimitNOFILE= in the systemd unit")
        }
        _ => Check::ok("files", text),
    }
}

/// Memory that is available, beside the caches of a server with one rank and a mount.
fn memory(settings: &Settings) -> Check {
    let wanted: u64 =
        ["cache_bytes", "table_cache_bytes", "write_buffer_bytes"].map(|key| settings.number(key)).iter().sum();
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = info.lines().find_map(|line| {
        let kib = line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim();
        Some(kib.parse::<u64>().ok()? << 10)
    });
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse::<u64>().ok());
    let Some(available) = available.into_iter().chain(limit).min() else {
        return Check::note("memory", "the kernel does not tell how much is available", "mount /proc");
    };
    let text = format!(
        "{} available; caches of one rank and a mount take up to {}",
        human_bytes(available),
        human_bytes(wanted)
    );
    match available < wanted {
        true => {
            Check::note("memory", text, "smaller caches: --set cache_bytes=256MiB, or `cache_bytes` in DIR/loligo.toml")
        }
        false => Check::ok("memory", text),
    }
}

fn cores() -> Check {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let text = counted(cores as u64, "core");
    match cores {
        1 => Check::note(
            "cpu",
            text,
            "more cores: server and programs take turns on one; --set look_us=0 saves its idle time",
        ),
        _ => Check::ok("cpu", text),
    }
}

fn ceph() -> Check {
    let places = ["/usr/lib", "/usr/lib64", "/lib", "/usr/local/lib"];
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let there = places.iter().any(|dir| {
        [Path::new(dir).to_path_buf(), Path::new(dir).join(&triple)]
            .iter()
            .any(|dir| dir.join("librados.so.2").exists())
    });
    Check::ok(
        "ceph",
        match there {
            true => "librados is there: a pool can be the store (--store rados:POOL)",
            false => {
                "librados is not there; it is needed only for a store in a Ceph cluster (apt-get install librados2)"
            }
        },
    )
}

/// The disk of a directory, or of the nearest one above it that is there.
fn disk(dir: &Path) -> Vec<Check> {
    let full = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
    let Some(at) = full.ancestors().find(|at| at.is_dir()).map(Path::to_path_buf) else { return Vec::new() };
    let Ok(space) = rustix::fs::statvfs(&at) else {
        return vec![Check::problem("disk", &Failure::new(format!("{} cannot be looked at", at.display())))];
    };
    let kind = kind_of(&at);
    let (room, inodes) = (space.f_bavail * space.f_frsize, space.f_favail);
    let text = format!("{kind} at {}: {} free, {inodes} inodes", at.display(), human_bytes(room));
    let read_only = space.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
    let mut checks = vec![match kind {
        _ if read_only => Check::problem(
            "disk",
            &Failure::new(format!("{text}; it is mounted read-only"))
                .remedy("mount it read-write, or name a directory on another disk"),
        ),
        "tmpfs" | "overlay" => {
            Check::note("disk", text, "a disk: what is kept here does not outlive the machine or the container")
        }
        "nfs" | "cifs" | "fuse" => {
            Check::note("disk", text, "a local disk: locks and syncs over a network are slow and may lie")
        }
        _ if room < ROOM_LOW || inodes > 0 && inodes < 10_000 => {
            Check::note("disk", text, "free space, or a larger disk")
        }
        _ => Check::ok("disk", text),
    }];
    if !read_only {
        checks.push(sync_time(&at));
    }
    checks
}

/// Name of a file system's type.
fn kind_of(at: &Path) -> &'static str {
    let Ok(fs) = rustix::fs::statfs(at) else { return "unknown" };
    match fs.f_type.cast_unsigned() & 0xffff_ffff {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x2fc1_2fc1 => "zfs",
        0x0102_1994 => "tmpfs",
        0x794c_7630 => "overlay",
        0x6969 => "nfs",
        0xff53_4d42 => "cifs",
        0x6573_5546 => "fuse",
        0xf2f5_2010 => "f2fs",
        _ => "a file system of another type",
    }
}

/// Median time of a synced write of 4 KiB, which bounds the rate of durable changes of one client.
fn sync_time(at: &Path) -> Check {
    let path = at.join(format!(".loligo-doctor.{}", std::process::id()));
    let measured = (|| {
        let mut file = File::options().write(true).create_new(true).open(&path)?;
        let mut took = Vec::with_capacity(SYNCS);
        for _ in 0..SYNCS {
            let begun = Instant::now();
            file.write_all(&[0x5a; 4096])?;
            file.sync_data()?;
            took.push(begun.elapsed());
        }
        took.sort();
        Ok::<_, std::io::Error>(took[SYNCS / 2])
    })();
    let _ = fs::remove_file(&path);
    match measured {
        Ok(took) => {
            let us = took.as_micros() as u64;
            let text = format!("a synced write of 4 KiB takes {us} us (median of {SYNCS})");
            match us > SYNC_SLOW_US {
                true => Check::note(
                    "sync",
                    text,
                    "a faster disk; or relaxed directories, whose changes wait less often (loligo policy presets)",
                ),
                false => Check::ok("sync", text),
            }
        }
        Err(error) => Check::problem(
            "sync",
            &Failure::new(format!("{}: {error}", at.display())).remedy("name a directory that this user may write to"),
        ),
    }
}

/// A directory that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Scratch> {
        let dir = std::env::temp_dir().join(format!("loligo-doctor.{}", std::process::id()));
        // Not one that is there: somebody else may have made it.
        fs::create_dir(&dir)?;
        Ok(Scratch(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
