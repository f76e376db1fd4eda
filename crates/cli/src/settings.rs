//! Configuration: one list of keys; each value comes from a flag, the environment, a file or the default, and says which.
//!
//! Not here: what a key does. That stands with the machine or driver that uses it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::output::Failure;
use crate::suggest;

/// A key that can be set.
pub struct Key {
    /// As in the file and in `--set`; the environment has `LOLIGO_` and capitals.
    pub name: &'static str,
    /// Value if nothing sets it.
    pub default: &'static str,
    /// Description, with the unit.
    pub doc: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Number,
    Bytes,
    /// Bytes, or `auto`.
    BytesOrAuto,
    List,
    Flag,
    /// One of these words.
    Choice(&'static str),
}

/// Every key, in the order `loligo config` prints them.
pub const KEYS: &[Key] = &[
    key(
        "listen",
        "",
        "addresses HOST:PORT besides the Unix socket in the data directory, separated by commas, for clients with an identity (`loligo auth`)",
        Kind::List,
    ),
    key(
        "trust_tcp",
        "false",
        "accepts TCP connections over loopback without an identity, as any user that they name. Only where all users of this machine may act as root in the file system",
        Kind::Flag,
    ),
    key("identity", "", "file with the identity of a mount over TCP (`loligo auth add`)", Kind::Text),
    key(
        "admin",
        "127.0.0.1:0",
        "address of the HTTP admin plane: numbers for anybody, all else with the token in `DIR/admin.token`; port 0: a free one; `off`: none",
        Kind::Text,
    ),
    key("cache_bytes", "1GiB", "memory for cached metadata of a rank", Kind::Bytes),
    key("table_cache_bytes", "64MiB", "memory for the table's block cache", Kind::Bytes),
    key("journal_bytes", "256MiB", "size of the journal above which changes wait for a checkpoint", Kind::Bytes),
    key(
        "reserve_bytes",
        "auto",
        "room on the disk of the data directory that is kept for the time when it is full: removals, checkpoints and the next start take it. `auto`: a hundredth of the disk, at least 8MiB and at most 256MiB, of which a small file system takes 16MiB; 0: none",
        Kind::BytesOrAuto,
    ),
    key(
        "journal_data",
        "64KiB",
        "largest synced write that goes into the journal with its data; at most 256KiB; 0: none",
        Kind::Bytes,
    ),
    key(
        "journal_mode",
        "selective",
        "way of file data to the disk where no policy says one; docs/data-journal.md, Modes",
        Kind::Choice("wasteless, selective, data, ordered, writeback"),
    ),
    key("inline_max", "16KiB", "largest file held in its inode; at most 64KiB", Kind::Bytes),
    key("frag_split_entries", "10000", "entries of a fragment above which a directory is split", Kind::Number),
    key(
        "frag_merge_entries",
        "50",
        "entries of a fragment below which a directory is merged; at most half of the entries of a fragment after a split",
        Kind::Number,
    ),
    key("frag_split_bits", "3", "a split makes 2^N fragments of one; N is 1 to 8", Kind::Number),
    key(
        "balancer",
        "loligo",
        "balancer policy until one is set (`loligo balancer set`): a shipped one, or `none`",
        Kind::Text,
    ),
    key("balance_ms", "10000", "tick of the balancer policy, milliseconds; at least 1000", Kind::Number),
    key("session_ms", "60000", "silence after which a client is evicted, milliseconds", Kind::Number),
    key(
        "grace_ms",
        "5000",
        "wait for earlier clients after a restart, milliseconds; for clients of the network at least session_ms",
        Kind::Number,
    ),
    key(
        "snapshot_idle_ms",
        "60000",
        "time after which a snapshot without a reader is removed, milliseconds",
        Kind::Number,
    ),
    key(
        "lease_ms",
        "1500",
        "silence of a server on a cluster (`--store rados:...`) after which another one takes over, milliseconds",
        Kind::Number,
    ),
    key(
        "server_name",
        "",
        "name of this server on a cluster (`loligo rank handover --to`); default: its process and machine",
        Kind::Text,
    ),
    key(
        "peer_listen",
        "",
        "HOST:PORT of this server for other servers on the cluster; default: the host of the first TCP address in `listen`, else loopback, and a free port",
        Kind::Text,
    ),
    key(
        "data_threads",
        "2",
        "threads that read and write file data, over all ranks; each rank has at least one",
        Kind::Number,
    ),
    key(
        "sync_threads",
        "8",
        "threads that make file data durable, one file each at a time, over all ranks; each rank has at least one",
        Kind::Number,
    ),
    key(
        "look_us",
        "100",
        "time for which the server polls for the next request after one, microseconds. On a Ceph cluster it also polls, for up to 1 ms, for the end of a lone journal write; 0 switches both off",
        Kind::Number,
    ),
    key(
        "fuse_threads",
        "0",
        "event loops of a mount; 0: for `up` only the server's own, else one a core, at least 2 and at most 8",
        Kind::Number,
    ),
    key(
        "name_caching",
        "auto",
        "caching of names in the kernel of a mount: `auto` is the highest level of the kernel (`epochs` since Linux 6.16, `expiry` since 6.2, else `timed`); a lower level; or `off`",
        Kind::Choice("auto, epochs, expiry, timed, off"),
    ),
    key(
        "give_up_ms",
        "60000",
        "time after which calls on a mount without a reachable server end with EIO, milliseconds, at least 1000; 0: never. Mount options: `hard`, `soft,timeo=` (tenths of a second)",
        Kind::Number,
    ),
    key("write_buffer_bytes", "64MiB", "largest amount of written data that a client holds back", Kind::Bytes),
    key("read_ahead_bytes", "8MiB", "read-ahead of a client for sequential readers", Kind::Bytes),
    key(
        "keep_dir",
        "",
        "directory of a mount for journals of decoupled directories with local_persist; `none`: such policies are refused. Default: `/var/lib/loligo/subtrees`, for others than root `~/.local/state/loligo/subtrees`",
        Kind::Text,
    ),
    key(
        "direct_data",
        "false",
        "on a Ceph cluster: clients read and write file data in the cluster directly, if server and mount have this setting and the mount reaches the cluster",
        Kind::Flag,
    ),
    key(
        "ceph_conf",
        "",
        "file with Ceph's settings, for `direct_data` of a mount; default: that of the store that the data directory names, or /etc/ceph/ceph.conf",
        Kind::Text,
    ),
    key(
        "ceph_user",
        "",
        "Ceph user of a mount, for `direct_data`; default: the user that the data directory names, or client.admin",
        Kind::Text,
    ),
    key("log", "info", "filter of the log, as in `warn,loligo_mds=debug`", Kind::Text),
];

const fn key(name: &'static str, default: &'static str, doc: &'static str, kind: Kind) -> Key {
    Key { name, default, doc, kind }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// Nothing set it.
    Default,
    /// A file, by its path.
    File(PathBuf),
    /// An environment variable.
    Env(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path) => write!(f, "file {}", path.display()),
            Origin::Env(name) => write!(f, "environment {name}"),
            Origin::Flag => f.write_str("command line"),
        }
    }
}

/// Configuration from the command line.
#[derive(Clone, Default, Debug)]
pub struct Given {
    /// `--config`: a file that must be there.
    pub file: Option<PathBuf>,
    /// `--set`, in order.
    pub set: Vec<(String, String)>,
}

/// The effective configuration.
#[derive(Clone, Debug)]
pub struct Settings(BTreeMap<&'static str, (String, Origin)>);

impl Settings {
    /// Puts defaults, the file, the environment, `--set` and `flags` (options of a single command) over each other, in
    /// this order. A file that was given must exist; without one `DATA/loligo.toml` is read if it is there.
    pub fn load(given: &Given, data: Option<&Path>, flags: &[(String, String)]) -> Result<Settings, Failure> {
        let mut all = Settings(KEYS.iter().map(|k| (k.name, (k.default.to_string(), Origin::Default))).collect());
        let implied = match data.map(|d| d.join("loligo.toml")) {
            // That it cannot be seen does not mean that it is not there.
            Some(path) => match path.try_exists() {
                Ok(there) => there.then_some(path),
                Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => None,
                Err(e) => {
                    return Err(Failure::new(format!("configuration file {}: {e}", path.display()))
                        .remedy("run as the user whom the data directory belongs to"));
                }
            },
            None => None,
        };
        if let Some(path) = given.file.clone().or(implied) {
            all.read_file(&path)?;
        }
        for key in KEYS {
            let name = format!("LOLIGO_{}", key.name.to_uppercase());
            if let Ok(value) = std::env::var(&name) {
                all.set(key.name, value, Origin::Env(name))?;
            }
        }
        for (name, value) in given.set.iter().chain(flags) {
            all.set(name, value.clone(), Origin::Flag)?;
        }
        Ok(all)
    }

    fn read_file(&mut self, path: &Path) -> Result<(), Failure> {
        let place = || format!("configuration file {}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| {
            Failure::usage(format!("{}: {e}", place())).remedy("give --config a text file that exists and can be read")
        })?;
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            Failure::usage(format!("{}: {}", place(), e.to_string().trim_end())).remedy("mend the TOML there")
        })?;
        for (name, value) in table {
            known(&name, &Origin::File(path.to_path_buf()))?;
            let cannot = |what: &str| {
                Failure::usage(format!("{}: {name} cannot be {what}", place()))
                    .remedy(format!("`loligo config` shows how {name} is written"))
            };
            let text = match value {
                toml::Value::String(s) => s,
                toml::Value::Integer(n) => n.to_string(),
                toml::Value::Boolean(b) => b.to_string(),
                toml::Value::Array(list) => {
                    let parts =
                        list.iter().map(|part| part.as_str().ok_or_else(|| cannot("a list of other than text")));
                    parts.collect::<Result<Vec<_>, _>>()?.join(",")
                }
                other => return Err(cannot(&format!("a {}", other.type_str()))),
            };
            self.set(&name, text, Origin::File(path.to_path_buf()))?;
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: String, origin: Origin) -> Result<(), Failure> {
        let key = known(name, &origin)?;
        let bad = match key.kind {
            Kind::Number => value.parse::<u64>().err().map(|_| "a whole number"),
            Kind::Bytes => parse_bytes(&value).is_none().then_some("a size such as 64MiB"),
            Kind::BytesOrAuto => {
                (value != "auto" && parse_bytes(&value).is_none()).then_some("auto, or a size such as 64MiB")
            }
            Kind::Flag => value.parse::<bool>().err().map(|_| "true or false"),
            Kind::Choice(words) => (!words.split(", ").any(|word| word == value)).then_some(words),
            Kind::Text | Kind::List => None,
        };
        if let Some(wanted) = bad {
            return Err(Failure::usage(format!("{name} = `{value}` ({origin}): this must be {wanted}")));
        }
        self.0.insert(key.name, (value, origin));
        Ok(())
    }

    /// Values that are well formed and yet cannot be: told before anything is started.
    pub fn check(&self) -> Result<(), Failure> {
        let give_up = if self.number("give_up_ms") == 0 { 0 } else { 1000 };
        let limits: [(&str, u64, u64); 13] = [
            // Others tell of their loads once a second.
            ("balance_ms", 1000, 3_600_000),
            ("journal_data", 0, loligo_types::limits::PATCH_BYTES_MAX as u64),
            ("inline_max", 0, loligo_types::limits::INLINE_MAX as u64),
            ("session_ms", 1000, u64::from(u32::MAX)),
            ("grace_ms", 0, u64::from(u32::MAX)),
            ("snapshot_idle_ms", 100, 3_600_000),
            ("lease_ms", 500, 60_000),
            // A server that is started again is away for longer than a moment.
            ("give_up_ms", give_up, u64::from(u32::MAX)),
            ("look_us", 0, 10_000),
            ("fuse_threads", 0, 64),
            ("data_threads", 1, 64),
            ("sync_threads", 1, 256),
            ("journal_bytes", 4 << 20, u64::MAX),
        ];
        let balancer = self.text("balancer");
        if balancer != loligo_types::NO_POLICY && loligo_balancer::shipped(balancer).is_none() {
            let origin = self.0.get("balancer").map(|(_, origin)| origin.to_string()).unwrap_or_default();
            let all = crate::balancer::shipped_names().join(", ");
            let hint = suggest::hint(balancer, crate::balancer::shipped_names());
            return Err(Failure::usage(format!(
                "balancer = `{balancer}` ({origin}): this must be `none`, or one of {all}{hint}"
            ))
            .remedy("one of your own is put in force with loligo balancer set"));
        }
        for (name, low, high) in limits {
            let n = self.number(name);
            if n < low || n > high {
                let origin = self.0.get(name).map(|(_, origin)| origin.to_string()).unwrap_or_default();
                let high = if high == u64::MAX { "the size of the disk".to_string() } else { high.to_string() };
                return Err(Failure::usage(format!(
                    "{name} = `{}` ({origin}): this must be from {low} to {high}",
                    self.text(name)
                )));
            }
        }
        crate::log::check(self.text("log"))?;
        self.frag().check().map_err(|why| {
            Failure::usage(why)
                .remedy("the defaults are 10000, 50 and 3; `loligo config` shows where each value came from")
        })
    }

    /// When directories are cut into fragments.
    pub fn frag(&self) -> loligo_namespace::FragConfig {
        loligo_namespace::FragConfig {
            split_entries: self.number("frag_split_entries"),
            merge_entries: self.number("frag_merge_entries"),
            split_bits: u8::try_from(self.number("frag_split_bits")).unwrap_or(u8::MAX),
        }
    }

    /// The text of a value. Every key has one.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |(value, _)| value)
    }

    /// A number or a size in bytes; its form was checked when it was set.
    pub fn number(&self, name: &str) -> u64 {
        parse_bytes(self.text(name)).unwrap_or(0)
    }

    /// A size in bytes, or `None` for `auto`.
    pub fn bytes_or_auto(&self, name: &str) -> Option<u64> {
        parse_bytes(self.text(name))
    }

    /// Yes or no.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// The parts of a list.
    pub fn list(&self, name: &str) -> Vec<&str> {
        self.text(name).split(',').map(str::trim).filter(|s| !s.is_empty()).collect()
    }

    /// All, with origins, in the order of [`KEYS`].
    pub fn iter(&self) -> impl Iterator<Item = (&'static Key, &str, &Origin)> {
        KEYS.iter().filter_map(|k| self.0.get(k.name).map(|(v, o)| (k, v.as_str(), o)))
    }
}

/// The key of this name.
fn known(name: &str, origin: &Origin) -> Result<&'static Key, Failure> {
    KEYS.iter().find(|k| k.name == name).ok_or_else(|| {
        let known = || KEYS.iter().map(|k| k.name);
        let failure = Failure::usage(format!("unknown setting `{name}` ({origin}){}", suggest::hint(name, known())));
        match suggest::nearest(name, known()) {
            Some(near) => failure.remedy(format!("set {near}; `loligo config` shows all settings")),
            None => failure.remedy(format!("known are: {}", known().collect::<Vec<_>>().join(", "))),
        }
    })
}

/// Reads `123`, `64KiB`, `1.5GiB`, `2M` (powers of 1024 all).
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return None,
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift);
    }
    let number: f64 = number.parse().ok()?;
    (0.0..1e9).contains(&number).then(|| (number * (1u64 << shift) as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units_and_nonsense_is_refused() {
        assert_eq!(parse_bytes("4096"), Some(4096));
        assert_eq!(parse_bytes("4KiB"), Some(4096));
        assert_eq!(parse_bytes("1.5 MiB"), Some(1_572_864));
        assert_eq!(parse_bytes("2g"), Some(2 << 30));
        for bad in ["", "x", "-1", "1XB", "99999999999999999999G"] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_later_source_wins_and_is_named() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        std::fs::write(
            dir.path().join("loligo.toml"),
            "inline_max = \"8KiB\"\ngrace_ms = 7\nlisten = [\"127.0.0.1:1\"]\n",
        )
        .expect("a file in it");
        let all = Settings::load(&Given::default(), Some(dir.path()), &[("grace_ms".into(), "9".into())])
            .expect("valid settings");
        assert_eq!(all.number("inline_max"), 8192);
        assert_eq!(all.number("grace_ms"), 9);
        assert_eq!(all.list("listen"), ["127.0.0.1:1"]);
        let origin = |name: &str| all.iter().find(|(k, _, _)| k.name == name).map(|(_, _, o)| o.clone());
        assert_eq!(origin("grace_ms"), Some(Origin::Flag));
        assert_eq!(origin("inline_max"), Some(Origin::File(dir.path().join("loligo.toml"))));
        assert_eq!(origin("log"), Some(Origin::Default));
    }

    #[test]
    fn every_key_is_documented_with_its_default() {
        let documentation = include_str!("../../../docs/config.md");
        for key in KEYS {
            let default = if key.default.is_empty() { "\"\"" } else { key.default };
            let row = format!("| `{}` | `{default}` | {} |", key.name, key.doc);
            assert!(documentation.contains(&row), "docs/config.md lacks: {row}");
        }
    }

    #[test]
    fn the_defaults_pass_their_own_checks() {
        let all = Settings::load(&Given::default(), None, &[]).expect("the defaults");
        all.check().expect("sound defaults");
    }

    #[test]
    fn an_unknown_key_and_a_bad_value_are_refused_by_name() {
        let unknown =
            Settings::load(&Given::default(), None, &[("colour".into(), "red".into())]).expect_err("no such key");
        assert!(unknown.to_string().contains("colour"), "{unknown}");
        let bad =
            Settings::load(&Given::default(), None, &[("grace_ms".into(), "soon".into())]).expect_err("no number");
        assert!(bad.to_string().contains("grace_ms"), "{bad}");
    }
}
