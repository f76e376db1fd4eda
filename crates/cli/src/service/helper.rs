//! `mount.loligo`: what mount(8) calls for `mount -t loligo` and lines of /etc/fstab. It is this program by another name (a link in /sbin), and
//! becomes `loligo mount --daemon` with what the options say; a remount it does itself. Not here: the mount.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::mount::MountFlags;

use super::mount;
use crate::args::{MountArgs, MountOptions};
use crate::mounts;
use crate::output::{Context, Failure, say};
use crate::settings;
use crate::suggest;

/// The name by which mount(8) finds it; the second one for what is mounted, which has the type `fuse.loligo`.
const NAME: &str = "mount.loligo";
const NAMES: [&str; 2] = [NAME, "mount.fuse.loligo"];
/// So long a remount waits for files that were just closed.
const RELEASED_WITHIN: Duration = Duration::from_secs(2);
/// Time between two tries.
const RELEASED_LOOK: Duration = Duration::from_millis(10);
/// Options that mount(8) adds to a remount because the mount has them, and that nobody can change.
const FIXED: [&str; 7] = ["fd", "rootmode", "user_id", "group_id", "default_permissions", "allow_other", "max_read"];
/// Exit codes of mount(8) for wrong usage, and for a mount that failed.
const USAGE: u8 = 1;
const FAILED: u8 = 32;
/// Options that are for mount(8), systemd or nobody, and those that say what is so anyway. The times of accesses are the server's.
const DROPPED: [&str; 23] = [
    "defaults",
    "rw",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "user",
    "users",
    "nouser",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "exec",
    "async",
    "atime",
    "noatime",
    "diratime",
    "nodiratime",
    "relatime",
    "norelatime",
    "strictatime",
    "lazytime",
];

/// Options of our own, for those who mistype one.
const OPTIONS: [&str; 13] = [
    "ro",
    "private",
    "nonempty",
    "allow_suid",
    "allow_dev",
    "noexec",
    "hard",
    "soft",
    "timeo",
    "path",
    "log_file",
    "log",
    "config",
];

/// Command line of mount(8), parsed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Call {
    source: String,
    dir: PathBuf,
    options: Vec<String>,
    /// Unknown options are no error.
    is_sloppy: bool,
    /// Nothing is mounted.
    is_fake: bool,
    is_verbose: bool,
}

/// True if this program was called by one of these names.
pub fn is_called() -> bool {
    let name = |program: OsString| Path::new(&program).file_name().map(OsStr::to_os_string);
    std::env::args_os().next().and_then(name).is_some_and(|name| NAMES.iter().any(|known| name == *known))
}

/// Mounts as mount(8) wants it; with its exit codes.
pub fn main() -> ExitCode {
    match run(std::env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(if failure.code() == 2 { USAGE } else { FAILED })
        }
    }
}

fn run(words: Vec<OsString>) -> Result<(), Failure> {
    let call = Call::read(words)?;
    if call.options.iter().any(|option| option == "remount") {
        return call.remount();
    }
    let arguments = call.arguments()?;
    if call.is_fake {
        return Ok(());
    }
    let told = mount::in_background(&call.args(), arguments)?;
    if call.is_verbose {
        say(told);
    }
    Ok(())
}

impl Call {
    /// `mount.loligo SOURCE DIR [-sfnv] [-N SPACE] [-o OPTIONS] [-t TYPE]`, in any order.
    fn read(words: Vec<OsString>) -> Result<Call, Failure> {
        let usage = |what: &str| {
            Failure::usage(format!("{NAME}: {what}"))
                .remedy("mount -t loligo [-o OPTIONS] SERVER DIR, or a line of /etc/fstab (docs/deploy.md)")
        };
        let (mut call, mut places) = (Call::default(), Vec::new());
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let Some(letters) = word.to_str().and_then(|word| word.strip_prefix('-')).filter(|word| !word.is_empty())
            else {
                places.push(word);
                continue;
            };
            for (at, letter) in letters.char_indices() {
                match letter {
                    's' => call.is_sloppy = true,
                    'f' => call.is_fake = true,
                    'v' => call.is_verbose = true,
                    'n' => {}
                    'o' | 't' | 'N' => {
                        let value = match &letters[at + 1..] {
                            "" => words.next().and_then(|word| word.into_string().ok()),
                            rest => Some(rest.to_string()),
                        };
                        let value = value.ok_or_else(|| usage(&format!("-{letter} needs a value")))?;
                        if letter == 'o' {
                            call.options
                                .extend(value.split(',').filter(|option| !option.is_empty()).map(str::to_string));
                        }
                        break;
                    }
                    other => return Err(usage(&format!("unknown option -{other}"))),
                }
            }
        }
        let [source, dir] = &places[..] else { return Err(usage("it takes a server and a directory")) };
        call.source = Call::absolute_source(source.to_str().ok_or_else(|| usage("the server is not UTF-8"))?);
        // The background has no other directory than the root.
        call.dir = std::path::absolute(dir).context(|| format!("mount point {}", dir.display()))?;
        Ok(call)
    }

    /// Address for `--server`. The source of other mounts, as `df` shows it, has a word in front.
    fn server(&self) -> &str {
        self.source.strip_prefix("loligo:").unwrap_or(&self.source)
    }

    /// A directory or a socket by its name alone: the background has no other directory than the root to find it in.
    fn absolute_source(source: &str) -> String {
        let (word, server) = source.strip_prefix("loligo:").map_or(("", source), |server| ("loligo:", server));
        match std::path::absolute(server) {
            Ok(path) if !server.starts_with('/') && path.exists() => format!("{word}{}", path.display()),
            _ => source.to_string(),
        }
    }

    /// As `loligo mount` has it.
    fn args(&self) -> MountArgs {
        let log_file = self.options.iter().find_map(|option| option.strip_prefix("log_file="));
        MountArgs {
            data: None,
            server: Some(self.server().to_string()),
            mount: self.dir.clone(),
            daemon: true,
            log_file: log_file.map(PathBuf::from),
            log: None,
            json: false,
            ready_fd: None,
            source: Some(self.source.clone()),
            identity: None,
            options: MountOptions::default(),
        }
    }

    /// Time limit of calls to a server that cannot be reached, if the options say it, as those of NFS do: `timeo` is in tenths of a second,
    /// and `hard` waits for good.
    fn give_up_ms(&self) -> Result<Option<u64>, Failure> {
        let is_hard = self.options.iter().rfind(|option| *option == "hard" || *option == "soft");
        let timeo = self.options.iter().filter_map(|option| option.strip_prefix("timeo=")).next_back();
        let tenths = timeo.map(|text| {
            let tenths = text.parse::<u64>().ok().filter(|tenths| (10..=36_000).contains(tenths));
            tenths.ok_or_else(|| {
                Failure::usage(format!("{}: timeo={text} is no time", self.dir.display()))
                    .remedy("tenths of a second from 10 to 36000, such as soft,timeo=600; or hard, to wait for good")
            })
        });
        let tenths = tenths.transpose()?;
        Ok(if is_hard.is_some_and(|option| option == "hard") { Some(0) } else { tenths.map(|tenths| tenths * 100) })
    }

    /// The command line of `loligo mount`.
    fn arguments(&self) -> Result<Vec<OsString>, Failure> {
        let mut out: Vec<OsString> =
            ["mount", "--server", self.server(), "--source", &self.source].map(OsString::from).into();
        if let Some(ms) = self.give_up_ms()? {
            out.extend(["--set".into(), format!("give_up_ms={ms}").into()]);
        }
        for option in &self.options {
            let (name, value) =
                option.split_once('=').map_or((option.as_str(), None), |(name, value)| (name, Some(value)));
            let is_for_others = name.starts_with("x-") || name.starts_with("X-") || name == "comment" || name == "user";
            match (name, value) {
                ("ro", None) => out.push("--read-only".into()),
                ("private", None) => out.push("--private".into()),
                // As it is when root mounts; others may not.
                ("allow_other", None) => {}
                // mount(8) takes `suid` and `dev` for what is so anyway, and does not hand them on.
                ("allow_suid" | "allow_dev", None) => out.push(name.replace("allow_", "--").into()),
                ("nonempty" | "suid" | "nosuid" | "dev" | "nodev" | "noexec", None) => {
                    out.push(format!("--{name}").into())
                }
                ("log_file", Some(_)) | ("hard" | "soft", None) | ("timeo", Some(_)) => {}
                ("log" | "config" | "path", Some(value)) => out.extend([format!("--{name}").into(), value.into()]),
                (name, None) if DROPPED.contains(&name) => {}
                _ if is_for_others => {}
                (name, Some(value)) if settings::KEYS.iter().any(|key| key.name == name) => {
                    out.extend(["--set".into(), format!("{name}={value}").into()]);
                }
                _ if self.is_sloppy => {}
                _ => {
                    let known = settings::KEYS.iter().map(|key| key.name).chain(OPTIONS);
                    let hint = suggest::hint(name, known);
                    return Err(Failure::usage(format!("{}: unknown mount option {option}{hint}", self.dir.display()))
                        .remedy("ro, private, nonempty, allow_suid, allow_dev, noexec, hard, soft, timeo=, path=, log_file=, log=, config=, and the settings of `loligo config`"));
                }
            }
        }
        out.push(self.dir.clone().into());
        Ok(out)
    }

    /// Changes the flags of what is mounted. Everything else stays: mount(8) says it anew although nobody asked for a change of it.
    fn remount(&self) -> Result<(), Failure> {
        let name = |option: &str| option.split('=').next().unwrap_or_default().to_string();
        let rest = self.options.iter().filter(|option| *option != "remount" && !FIXED.contains(&name(option).as_str()));
        // What a mount does not know, a remount refuses, too.
        Call { options: rest.cloned().collect(), is_sloppy: self.is_sloppy, ..self.again() }.arguments()?;
        let line = mounts::at(&mounts::all()?, &self.dir).filter(|line| line.server().is_some()).ok_or_else(|| {
            Failure::new(format!("{}: no Loligo file system is mounted there", self.dir.display()))
                .remedy("findmnt -t fuse.loligo shows those that are")
        })?;
        let flags = flags_after(line.options(), &self.options);
        if self.is_fake {
            return Ok(());
        }
        remount_within(&self.dir, flags, RELEASED_WITHIN).map_err(|error| {
            let failure = Failure::new(format!("{}: {error}", self.dir.display()));
            match error {
                rustix::io::Errno::BUSY => {
                    failure.remedy("a file there is open for writing: end what writes (fuser -v)")
                }
                rustix::io::Errno::PERM => failure.remedy("only root changes a mount"),
                _ => failure,
            }
        })
    }

    fn again(&self) -> Call {
        Call { source: self.source.clone(), dir: self.dir.clone(), ..Call::default() }
    }
}

/// Changes the flags of a mount. The kernel releases a file that was open for writing a moment after its last `close`, so a mount that is to
/// become read-only is asked again while it is busy, for so long.
fn remount_within(dir: &Path, flags: MountFlags, patience: Duration) -> rustix::io::Result<()> {
    let until = Instant::now() + patience;
    loop {
        match rustix::mount::mount_remount(dir, flags, "") {
            Err(rustix::io::Errno::BUSY) if Instant::now() < until => std::thread::sleep(RELEASED_LOOK),
            done => return done,
        }
    }
}

/// The flags of a mount that has these options (as /proc/self/mountinfo shows them), after those that were asked for, in order.
fn flags_after<'a>(now: impl Iterator<Item = &'a str>, asked: &'a [String]) -> MountFlags {
    // Names, what they stand for, and whether they set it or take it away.
    const KNOWN: [(&str, MountFlags, bool); 21] = [
        ("ro", MountFlags::RDONLY, true),
        ("rw", MountFlags::RDONLY, false),
        ("nosuid", MountFlags::NOSUID, true),
        ("suid", MountFlags::NOSUID, false),
        ("allow_suid", MountFlags::NOSUID, false),
        ("nodev", MountFlags::NODEV, true),
        ("dev", MountFlags::NODEV, false),
        ("allow_dev", MountFlags::NODEV, false),
        ("noexec", MountFlags::NOEXEC, true),
        ("exec", MountFlags::NOEXEC, false),
        ("noatime", MountFlags::NOATIME, true),
        ("atime", MountFlags::NOATIME, false),
        ("nodiratime", MountFlags::NODIRATIME, true),
        ("diratime", MountFlags::NODIRATIME, false),
        ("relatime", MountFlags::RELATIME, true),
        ("norelatime", MountFlags::RELATIME, false),
        ("strictatime", MountFlags::STRICTATIME, true),
        ("nosymfollow", MountFlags::NOSYMFOLLOW, true),
        ("symfollow", MountFlags::NOSYMFOLLOW, false),
        ("lazytime", MountFlags::LAZYTIME, true),
        ("nolazytime", MountFlags::LAZYTIME, false),
    ];
    let mut flags = MountFlags::empty();
    for option in now.chain(asked.iter().map(String::as_str)) {
        if let Some((_, flag, is_on)) = KNOWN.iter().find(|(name, ..)| *name == option) {
            flags.set(*flag, *is_on);
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Call, Failure> {
        Call::read(words.split(' ').map(OsString::from).collect())
    }

    fn arguments(words: &str) -> Result<String, String> {
        let all = read(words).and_then(|call| call.arguments()).map_err(|failure| failure.to_string())?;
        Ok(all.into_iter().map(|word| word.into_string().expect("UTF-8")).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn it_is_called_as_mount_8_calls_it() {
        let call = read("/srv/data /mnt -sfnv -o rw,ro -N 5 -t loligo").expect("that is how");
        let options = vec!["rw".to_string(), "ro".into()];
        let want = Call {
            source: "/srv/data".into(),
            dir: "/mnt".into(),
            options,
            is_sloppy: true,
            is_fake: true,
            is_verbose: true,
        };
        assert_eq!(call, want);
        assert_eq!(read("-o rw,ro -sfv /srv/data /mnt").expect("in any order"), want);
        assert_eq!(read("-orw,ro -s -f -v /srv/data /mnt").expect("in one word"), want);
        for bad in ["/srv/data", "/srv/data /mnt more", "/srv/data /mnt -x", "/srv/data /mnt -o"] {
            assert_eq!(read(bad).map_err(|failure| failure.code()), Err(2), "{bad}");
        }
    }

    #[test]
    fn options_are_those_of_the_command_those_for_others_are_dropped_and_unknown_ones_refused() {
        let all = "defaults,_netdev,noauto,nofail,user=me,x-systemd.automount,ro,nosuid,path=/a,log=warn,read_ahead_bytes=1MiB,rw";
        assert_eq!(
            arguments(&format!("h:1,h:2 /mnt -o {all}")).as_deref(),
            Ok(
                "mount --server h:1,h:2 --source h:1,h:2 --read-only --nosuid --path /a --log warn --set read_ahead_bytes=1MiB /mnt"
            )
        );
        assert_eq!(
            arguments("/d /mnt -o nosuid,allow_suid,allow_dev").as_deref(),
            Ok("mount --server /d --source /d --nosuid --suid --dev /mnt")
        );
        assert_eq!(arguments("loligo:/d /mnt").as_deref(), Ok("mount --server /d --source loligo:/d /mnt"));
        for (bad, words) in [("sync", "unknown mount option sync"), ("ro=1", "option ro=1"), ("no_key=1", "no_key=1")] {
            let said = arguments(&format!("/d /mnt -o {bad}")).expect_err("it is none");
            assert!(said.contains(words) && said.contains("/mnt"), "{said}");
        }
        assert!(arguments("/d /mnt -s -o no_key=1,sync").is_ok());
    }

    #[test]
    fn a_remount_changes_what_is_asked_for_and_leaves_the_rest() {
        let after = |now: &'static str, asked: &str| {
            let asked: Vec<String> = asked.split(',').map(str::to_string).collect();
            flags_after(now.split(','), &asked)
        };
        let safe = MountFlags::NOSUID | MountFlags::NODEV;
        assert_eq!(after("rw,nosuid,nodev,relatime", "remount,ro"), safe | MountFlags::RELATIME | MountFlags::RDONLY);
        assert_eq!(after("ro,nosuid,nodev", "rw,remount"), safe);
        assert_eq!(after("rw,nosuid,nodev", "remount,ro,rw"), safe, "the last one counts");
        assert_eq!(after("rw,nosuid,nodev,noexec", "remount,allow_suid"), MountFlags::NODEV | MountFlags::NOEXEC);
        let refused = |options: &str| read(&format!("/d /nowhere -o {options}")).and_then(|call| call.remount());
        let said = refused("remount,ro,sync").expect_err("unknown").to_string();
        assert!(said.contains("unknown mount option sync"), "{said}");
        let said = refused("remount,ro,user_id=0,allow_other").expect_err("nothing is there").to_string();
        assert!(said.contains("/nowhere") && said.contains("no Loligo"), "{said}");
    }

    #[test]
    fn how_long_a_mount_waits_for_its_server_is_said_as_of_nfs() {
        let set = |options: &str| {
            let all = arguments(&format!("/d /mnt -o {options}")).expect("options");
            all.split(' ').find_map(|word| word.strip_prefix("give_up_ms=")).map(str::to_string)
        };
        assert_eq!(set("ro"), None);
        assert_eq!(set("soft"), None);
        assert_eq!(set("soft,timeo=300").as_deref(), Some("30000"));
        assert_eq!(set("timeo=10").as_deref(), Some("1000"));
        for hard in ["hard", "hard,timeo=600", "timeo=600,soft,hard"] {
            assert_eq!(set(hard).as_deref(), Some("0"), "{hard}");
        }
        assert_eq!(set("hard,soft,timeo=50").as_deref(), Some("5000"));
        for bad in ["timeo=0", "timeo=9", "timeo=1s", "timeo=36001"] {
            let said = arguments(&format!("/d /mnt -o {bad}")).expect_err("it is none");
            assert!(said.contains(bad) && said.contains("tenths of a second"), "{said}");
        }
    }
}
