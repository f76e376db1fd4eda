//! A client and two ranks that are played by the test, over real sockets: connections are made where the cluster map
//! says, and a rank that is not there holds up nobody.

use std::collections::BTreeMap;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use std::io::{Read, Write};

use loligo_driver::Address;
use loligo_driver::client::{Call, Client, Options};
use loligo_types::msg::{Request, ToClient, ToServer, Welcome};
use loligo_types::{
    Answer, ClusterMap, Cred, Frag, FsResult, Ino, Inode, Kind, Name, Op, Rank, RankInfo, RankState, Route, SessionId,
    Time,
};

const LIMIT: Duration = Duration::from_secs(20);

/// A message that a rank received: rank, client, request.
type Heard = (Rank, u64, Option<Op>);

struct Script {
    rank: Rank,
    map: ClusterMap,
    /// Directories of the other rank.
    elsewhere: BTreeMap<Ino, Rank>,
    heard: Sender<Heard>,
}

impl Script {
    fn welcome(&self) -> ToClient {
        ToClient::Welcome(Welcome {
            version: 2,
            session: SessionId(u64::from(self.rank.0) + 1),
            secret: 1,
            resumed: false,
            kept: false,
            fs_id: [7; 16],
            inline_max: 4096,
            session_ms: 10_000,
            data_epoch: 1,
            rank: self.rank,
            hash_key: (5, 6),
            map: self.map.clone(),
            routes: Vec::new(),
            direct: String::new(),
            recovered: loligo_types::Lsn(0),
            journal_max: 0,
        })
    }

    fn answer(&self, request: &Request) -> ToClient {
        let seq = request.seq;
        if let Op::Lookup { dir, .. } = &request.op
            && let Some(rank) = self.elsewhere.get(dir)
        {
            let routes = vec![Route { dir: *dir, frag: Frag::WHOLE, rank: *rank, version: 1 }];
            return ToClient::Redirect { seq, rank: *rank, routes, done: None };
        }
        let result: FsResult<Answer> = match &request.op {
            Op::Lookup { name, .. } => {
                let ino = Ino(name.as_bytes()[0].into());
                Ok(Answer::Entry(Inode::new(ino, Kind::Dir, 0o755, 0, 0, Ino::ROOT, Time(1)).attr()))
            }
            _ => Ok(Answer::Done),
        };
        ToClient::Reply { seq, result, granted: Vec::new(), ways: Vec::new(), volatile: None, journal: None }
    }

    /// True if the answer to a request comes only when the client has asked whether this rank lives.
    fn is_slow(op: &Op) -> bool {
        matches!(op, Op::Lookup { name, .. } if name.as_bytes().starts_with(b"slow"))
    }

    /// Talks over one connection until it ends.
    fn serve(&self, mut stream: UnixStream) {
        let mut decoder = loligo_wire::Decoder::<loligo_wire::FromClient>::new();
        let mut client = 0;
        let mut slow = Vec::new();
        while let Ok(n @ 1..) = stream.read(decoder.space()) {
            decoder.filled(n);
            while let Some(msg) = decoder.next_message().expect("a client speaks well") {
                let answers = match msg {
                    ToServer::Hello(hello) => {
                        client = hello.client;
                        self.heard.send((self.rank, client, None)).expect("the test listens");
                        decoder.handshake_done();
                        vec![self.welcome()]
                    }
                    ToServer::Request(request) => {
                        let answer = self.answer(&request);
                        let is_slow = Self::is_slow(&request.op);
                        self.heard.send((self.rank, client, Some(request.op))).expect("the test listens");
                        if is_slow {
                            slow.push(answer);
                            continue;
                        }
                        vec![answer]
                    }
                    ToServer::Ping => std::iter::once(ToClient::Pong { at_ms: 0 }).chain(slow.drain(..)).collect(),
                    _ => continue,
                };
                let mut bytes = Vec::new();
                answers.iter().for_each(|answer| loligo_wire::encode_to_client(answer, &mut bytes));
                stream.write_all(&bytes).expect("the client listens");
            }
        }
    }
}

fn socket(dir: &Path, rank: u16) -> PathBuf {
    dir.join(format!("rank{rank}"))
}

fn map(dir: &Path) -> ClusterMap {
    let info = |rank| RankInfo {
        rank: Rank(rank),
        address: Address::Unix(socket(dir, rank)).to_string(),
        state: RankState::Up,
    };
    ClusterMap { epoch: 1, ranks: (0..2).map(info).collect(), ..Default::default() }
}

/// A rank that has everything but these directories, for one connection.
fn play(dir: &Path, rank: u16, elsewhere: &[(u64, u16)], heard: &Sender<Heard>) -> std::thread::JoinHandle<()> {
    let elsewhere = elsewhere.iter().map(|(dir, rank)| (Ino(*dir), Rank(*rank))).collect();
    let script = Script { rank: Rank(rank), map: map(dir), elsewhere, heard: heard.clone() };
    let listener = UnixListener::bind(socket(dir, rank)).expect("a free path");
    std::thread::spawn(move || script.serve(listener.accept().expect("a client comes").0))
}

fn lookup(dir: u64, name: &str) -> Call {
    Call::Op(Op::Lookup { dir: Ino(dir), name: Name::new(name.as_bytes()).expect("a name") })
}

fn connect(dir: &Path) -> Client {
    let options = Options { name: "ranks".into(), cache: true, ..Options::default() };
    Client::connect(&Address::Unix(socket(dir, 0)), options).expect("rank 0 is there")
}

/// The next request: the rank that was asked, and the client's number of it.
fn next(heard: &Receiver<Heard>) -> (u16, u64, bool) {
    let (rank, client, op) = heard.recv_timeout(LIMIT).expect("somebody is asked");
    (rank.0, client, op.is_some())
}

#[test]
fn a_client_connects_to_a_second_rank_when_it_is_sent_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let (tell, heard) = channel();
    let ranks = [play(dir.path(), 0, &[(u64::from(b'd'), 1)], &tell), play(dir.path(), 1, &[], &tell)];
    let client = connect(dir.path());
    let root = Arc::new(Cred::root());
    let (rank, number, asked) = next(&heard);
    assert!(rank == 0 && number != 0 && !asked, "hello");
    let look = |dir, name| client.call(&root, lookup(dir, name)).expect("it is there").attr().expect("attributes").ino;
    assert_eq!(look(1, "d"), Ino(u64::from(b'd')));
    assert_eq!(next(&heard), (0, number, true));
    assert_eq!(look(u64::from(b'd'), "a"), Ino(u64::from(b'a')));
    assert_eq!(next(&heard), (0, number, true), "which sends it on");
    assert_eq!(next(&heard), (1, number, false), "and so it says hello, by the same number");
    assert_eq!(next(&heard), (1, number, true));
    for (dir, name, rank) in [(u64::from(b'd'), "b", 1), (1, "e", 0), (u64::from(b'a'), "f", 1)] {
        look(dir, name);
        assert_eq!(next(&heard), (rank, number, true));
    }
    client.stop(LIMIT).expect("nothing is held back");
    drop(client);
    for rank in ranks {
        rank.join().expect("it has seen nothing odd");
    }
}

#[test]
fn a_rank_that_is_not_there_holds_up_only_its_own_calls_until_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let (tell, heard) = channel();
    let first = play(dir.path(), 0, &[(u64::from(b'd'), 1)], &tell);
    let client = connect(dir.path());
    let root = Arc::new(Cred::root());
    client.call(&root, lookup(1, "d")).expect("it is there");
    let (answered, answer) = channel();
    client.submit(&root, lookup(u64::from(b'd'), "a"), move |result| {
        answered.send(result).expect("the test listens");
    });
    for _ in 0..200 {
        client.call(&root, lookup(1, "e")).expect("rank 0 answers");
    }
    assert!(answer.try_recv().is_err());
    let second = play(dir.path(), 1, &[], &tell);
    let done = answer.recv_timeout(LIMIT).expect("it is answered").expect("well");
    assert_eq!(done.attr().expect("attributes").ino, Ino(u64::from(b'a')));
    assert!(heard.try_iter().any(|(rank, _, op)| rank == Rank(1) && op.is_some()));
    client.stop(LIMIT).expect("nothing is held back");
    drop(client);
    first.join().expect("it has seen nothing odd");
    second.join().expect("it has seen nothing odd");
}

#[test]
fn time_goes_on_while_a_thread_receives_for_a_call_of_its_own_and_others_wait() {
    let dir = tempfile::tempdir().expect("a directory");
    let (tell, heard) = channel();
    let rank = play(dir.path(), 0, &[], &tell);
    let client = Arc::new(connect(dir.path()));
    let root = Arc::new(Cred::root());
    let (told, first) = channel();
    let caller = {
        let (client, root) = (client.clone(), root.clone());
        std::thread::spawn(move || {
            // Calls one after the other, so that this thread receives by itself when it makes the last one.
            for _ in 0..200 {
                client.call(&root, lookup(1, "e")).expect("the rank answers");
            }
            told.send(client.call(&root, lookup(1, "slow a"))).expect("the test listens");
        })
    };
    let is_slow = |heard: Heard| heard.2.as_ref().is_some_and(Script::is_slow);
    while !is_slow(heard.recv_timeout(LIMIT).expect("the rank is asked")) {}
    let (told, second) = channel();
    client.submit(&root, lookup(1, "slow b"), move |result| told.send(result).expect("the test listens"));
    // Only a client that knows that time has passed asks whether the rank lives.
    first.recv_timeout(LIMIT).expect("it is answered").expect("well");
    second.recv_timeout(LIMIT).expect("it is answered").expect("well");
    caller.join().expect("all was well");
    client.stop(LIMIT).expect("nothing is held back");
    drop(client);
    rank.join().expect("it has seen nothing odd");
}
