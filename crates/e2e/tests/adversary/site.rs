//! The server of a scenario, what belongs to whom in it, and the honest client that looks after each attack. No attack is here.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use loligo_driver::client::{Call, Fs, Options};
use loligo_driver::{Address, Client};
use loligo_e2e::raw::{Credentials, Hello, Session, Wire};
use loligo_e2e::{PATIENCE, Process, Scratch};
use loligo_types::{Answer, Attr, Cred, Ino, Kind, Op, SetAttr, Time};

/// A server with `/mine`, to which the identity `bound` is limited, and `/theirs`, each with the same names in it; and `/mine/job`, empty.
pub struct Site {
    pub scratch: Scratch,
    process: Option<Process>,
    pub tcp: SocketAddr,
    pub admin: SocketAddr,
    honest: Option<Client>,
    pub mine: Dir,
    pub theirs: Dir,
    pub job: u64,
}

/// Numbers of a directory and of the file `f` in it.
#[derive(Clone, Copy, Debug)]
pub struct Dir {
    pub ino: u64,
    pub file: u64,
}

impl Site {
    /// Starts it; `None` if the suite is to be skipped.
    pub fn new(name: &str) -> Option<Site> {
        Site::with(name, &[])
    }

    /// The same with more words on the server's command line.
    pub fn with(name: &str, words: &[&str]) -> Option<Site> {
        let scratch = Scratch::without_mount(name)?.with_ranks(1);
        let process = scratch.serve_with(&[&["--listen", "127.0.0.1:0"], words].concat());
        let told = std::fs::read_to_string(scratch.data().join("server.json")).expect("a server tells of itself");
        let (ranks, options) = (scratch.run(&["rank", "list", "--json"]), Options::default());
        let honest = Client::connect(&loligo_driver::socket_in(&scratch.data()), options).expect("the owner comes in");
        let fs = honest.fs(Arc::new(Cred::root()));
        let [mine, theirs] = ["/mine", "/theirs"].map(|dir| fill(&fs, dir));
        let job = fs.mkdir("/mine/job", 0o755).expect("made").ino.0;
        fs.sync_all().expect("synced");
        let site = Site {
            tcp: between(&ranks, "tcp:"),
            admin: between(&told, "\"admin\":"),
            process: Some(process),
            honest: Some(honest),
            mine,
            theirs,
            job,
            scratch,
        };
        site.identity("bound", &["--allow", "rw:/mine", "--squash", "none"]);
        Some(site)
    }

    /// Makes an identity.
    pub fn identity(&self, name: &str, rights: &[&str]) -> Credentials {
        let file = self.scratch.place(&format!("{name}.pem"));
        let out = file.to_str().expect("paths of tests are UTF-8");
        self.scratch.run(&[&["auth", "add", name, "--out", out], rights].concat());
        Credentials::read(&file)
    }

    /// The file of an identity.
    pub fn file_of(&self, name: &str) -> PathBuf {
        self.scratch.place(&format!("{name}.pem"))
    }

    /// A connection of the identity that is limited to `/mine`, with a new session.
    pub fn bound(&self, client: u64) -> (Wire, Session) {
        let mut wire = Wire::tls(self.tcp, &Credentials::read(&self.file_of("bound")));
        let session = wire.hello(&Hello::of(client)).expect("it is let in");
        (wire, session)
    }

    /// The Unix socket, which the owner alone reaches.
    pub fn socket(&self) -> PathBuf {
        match loligo_driver::socket_in(&self.scratch.data()) {
            Address::Unix(path) => path,
            other => panic!("{other} is no Unix socket"),
        }
    }

    /// A connection of the owner, with a new session.
    pub fn owner(&self, client: u64) -> Wire {
        let mut wire = Wire::unix(&self.socket());
        wire.hello(&Hello::of(client)).expect("the owner is let in");
        wire
    }

    /// Memory of the server, bytes.
    pub fn memory(&self) -> u64 {
        self.process.as_ref().expect("it runs").memory()
    }

    /// The honest client, as root.
    pub fn fs(&self) -> Fs {
        self.honest.as_ref().expect("it is there until the end").fs(Arc::new(Cred::root()))
    }

    /// Everything outside of `/mine`: names, attributes but the times of access, contents and xattrs.
    pub fn outside(&self) -> Vec<String> {
        let (fs, mut told) = (self.fs(), Vec::new());
        let mut todo = vec![String::from("/")];
        while let Some(path) = todo.pop() {
            let attr = Attr { atime: Time(0), ..fs.lstat(&path).expect("it is there") };
            told.push(format!("{path} {attr:?} {:?}", self.xattrs(attr.ino)));
            match attr.kind {
                Kind::Dir => {
                    let mut names: Vec<_> = fs.readdir(&path).expect("it is listed");
                    names.sort_by(|one, two| one.name.as_bytes().cmp(two.name.as_bytes()));
                    told.push(format!("{path} has {:?}", names.iter().map(|entry| &entry.name).collect::<Vec<_>>()));
                    let below = names.iter().map(|entry| format!("{}/{}", path.trim_end_matches('/'), entry.name));
                    todo.extend(below.filter(|path| path != "/mine"));
                }
                Kind::File => told.push(format!("{path} holds {:?}", fs.read(&path).expect("it is read"))),
                _ => {}
            }
        }
        told
    }

    fn xattrs(&self, ino: Ino) -> Vec<(String, Arc<[u8]>)> {
        let call = |op| match self.honest.as_ref().expect("it is there").call(&Arc::new(Cred::root()), Call::Op(op)) {
            Ok(done) => done.answer,
            Err(failed) => panic!("{ino}: {}", failed.error),
        };
        let Answer::Bytes(names) = call(Op::ListXattr { ino }) else { panic!("{ino} lists no xattrs") };
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let with_value = |name: &[u8]| {
            let Answer::Bytes(value) = call(Op::GetXattr { ino, name: name.into() }) else { panic!("no value") };
            (String::from_utf8_lossy(name).into_owned(), value)
        };
        // Totals of what is below, which others than the adversary may ask for, count what it has.
        names.map(with_value).filter(|(name, _)| !name.starts_with("loligo.")).collect()
    }

    /// The server runs, and serves honest clients: one that was there before, and one that comes.
    pub fn serves(&mut self) {
        assert!(self.process.as_mut().is_some_and(Process::is_running), "the server has ended");
        let fs = self.fs();
        fs.write("/theirs/still", *b"here").expect("written");
        assert_eq!(fs.read("/theirs/still").expect("read"), b"here");
        fs.unlink("/theirs/still").expect("removed");
        let new = Client::connect(&loligo_driver::socket_in(&self.scratch.data()), Options::default());
        let new = new.expect("another one comes in");
        assert_eq!(new.fs(Arc::new(Cred::root())).read("/theirs/f").expect("read"), b"secret");
        new.stop(PATIENCE).expect("nothing is left");
    }

    /// The same, and nothing outside of `/mine` is other than it was `before`; then the end, and what is on disk is sound.
    #[track_caller]
    pub fn ends_unharmed(mut self, before: &[String]) {
        assert_eq!(self.outside(), before);
        self.serves();
        self.honest.take().expect("it is there").stop(PATIENCE).expect("nothing is left");
        self.process.take().expect("it runs").stop();
        assert!(!self.scratch.whole_log().contains("panicked"), "{}", self.scratch.whole_log());
        self.scratch.check();
    }
}

/// Makes a directory with one of everything that requests of the suite name.
fn fill(fs: &Fs, dir: &str) -> Dir {
    let at = |name: &str| format!("{dir}/{name}");
    let ino = fs.mkdir(dir, 0o755).expect("made").ino.0;
    for name in ["f", "second"] {
        fs.write(at(name), *b"secret").expect("written");
    }
    for name in ["d", "empty"] {
        fs.mkdir(at(name), 0o755).expect("made");
    }
    fs.write(at("d/deep"), vec![7; 300_000]).expect("written");
    fs.symlink("f", at("link")).expect("made");
    let attr = fs.set_attr(at("f"), SetAttr { mode: Some(0o640), ..SetAttr::default() }).expect("it is root's");
    let set = Op::SetXattr {
        ino: attr.ino,
        name: b"user.a"[..].into(),
        value: b"secret"[..].into(),
        mode: loligo_types::XattrMode::Set,
    };
    assert!(fs.client().call(fs.cred(), Call::Op(set)).is_ok(), "{dir}: no xattr can be set");
    Dir { ino, file: attr.ino.0 }
}

/// The address that stands behind these words, in quotes or not.
fn between(text: &str, words: &str) -> SocketAddr {
    let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("no {words} in {text}"));
    let rest = rest.trim_start_matches([' ', '"']);
    let end = rest.find(['"', ',', '\n']).unwrap_or(rest.len());
    rest[..end].parse().unwrap_or_else(|e| panic!("{:?}: {e}", &rest[..end]))
}
