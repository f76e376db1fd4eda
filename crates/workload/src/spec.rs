//! Workloads as text: a name, and parameters with their values. Not what they do.

use std::fmt;
use std::str::FromStr;

use crate::choice::Choice;
use crate::compile::Compile;
use crate::create::Create;
use crate::linkedin::{Linkedin, Mix};
use crate::stats::{Shape, Stats};
use crate::tree::{Crew, DIRS_MAX};
use crate::tree_balanced::{Balanced, Inner};
use crate::tree_synthetic::Synthetic;
use crate::tree_zipf::Zipfian;
use crate::untar::Untar;
use crate::{Workload, trace};

/// Most of anything, and most clients.
const MANY: u64 = 1_000_000_000;
const CLIENTS: u64 = trace::CLIENTS_MAX as u64;
/// Files of the trees of the ShardFS paper, and of the one that is LinkedIn's.
const FILES: u64 = 128_000_000;
const FILES_LINKEDIN: u64 = 11_400_000;
/// Names that a `SPEC` may begin with.
const NAMES: &str =
    "create-shared, create-own, compile, untar, tree-balanced, tree-zipf, tree-synthetic, linkedin, replay";

/// A workload with its sizes: `create-shared:clients=4,files=100000`. What is not said has its default; [`Spec::HELP`] has the
/// list. Displayed with all parameters, in the form that is parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    kind: Kind,
    /// See [`Workload::think_us`].
    think_us: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    Create(Create),
    Compile(Compile),
    Untar(Untar),
    Stats(Stats),
    Linkedin(Linkedin),
    Replay { file: String, timed: bool },
}

/// Parameters that were said and not yet used.
struct Params<'a> {
    workload: &'a str,
    said: Vec<(&'a str, &'a str)>,
    known: Vec<&'static str>,
}

impl<'a> Params<'a> {
    fn new(text: &'a str) -> Result<Params<'a>, String> {
        let (workload, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut said: Vec<(&str, &str)> = Vec::new();
        for word in rest.split(',').filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').ok_or(format!("`{word}` is not `parameter=value`"))?;
            if said.iter().any(|(known, _)| *known == name) {
                return Err(format!("{name} is said twice"));
            }
            said.push((name, value));
        }
        Ok(Params { workload, said, known: Vec::new() })
    }

    fn text(&mut self, name: &'static str) -> Option<&'a str> {
        self.known.push(name);
        let at = self.said.iter().position(|(said, _)| *said == name)?;
        Some(self.said.remove(at).1)
    }

    fn number(&mut self, name: &'static str, default: u64, least: u64, most: u64) -> Result<u64, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let number = text.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
        number.ok_or(format!("{name}={text}: this must be a number from {least} to {most}"))
    }

    fn parsed<T: FromStr<Err = String>>(&mut self, name: &'static str, default: T) -> Result<T, String> {
        self.text(name).map_or(Ok(default), str::parse)
    }

    fn crew(&mut self) -> Result<Crew, String> {
        Ok(Crew { clients: self.number("clients", 4, 1, CLIENTS)?, lanes: self.number("lanes", 1, 1, 10_000)? })
    }

    fn inner(&mut self) -> Result<Inner, String> {
        Inner { fan: self.number("fan", 10, 1, MANY)?, height: self.number("height", 5, 1, 100)? }.check()
    }

    /// Directories and files of a synthetic tree.
    fn synthetic(&mut self, files: u64) -> Result<Synthetic, String> {
        let dirs = self.number("dirs", 1_900_000, 1, DIRS_MAX)?;
        Ok(Synthetic { dirs, files: self.number("files", files, 1, MANY)? })
    }

    fn end(self) -> Result<(), String> {
        match self.said.first() {
            None => Ok(()),
            Some((name, _)) => {
                Err(format!("{} has no parameter `{name}`; it has {}", self.workload, self.known.join(", ")))
            }
        }
    }
}

impl Spec {
    /// List of workloads, for a command's help.
    pub const HELP: &str = "\
create-shared:clients=4,files=10000,lanes=1,look=0   all make empty files in one directory
create-own:clients=4,files=10000,lanes=1,look=0      the same, each in a directory of its own
compile:clients=1,dirs=16,units=8,headers=300,includes=20,jobs=2,bytes=2000,one-tree=0
                                                     a kernel-like tree is compiled and linked, one for each client or one for all
untar:clients=1,dirs=50,files=40,bytes=2000          a tree is unpacked, one for each client
tree-balanced:clients=4,lanes=1,fan=10,height=5,files=1280,stats=1000000,lists=0,choice=uniform
                                                     directories of one tree are made by all, then files, depth-first, then stats, then listings
tree-zipf:clients=4,lanes=1,fan=10,height=5,files=128000000,stats=1000000,lists=0,choice=uniform
                                                     the same with sizes of its directories by Zipf's law, exponent 1.8
tree-synthetic:clients=4,lanes=1,dirs=1900000,files=128000000,stats=1000000,lists=0,choice=uniform
                                                     the same with depths and sizes as those of large installations
linkedin:clients=4,lanes=1,dirs=1900000,files=11400000,calls=1000000,runs=8,choice=uniform,scale=1,
  mix=open:60/readdir:20/stat:9/create:5/mkdir:2/chmod:2/rename:1/unlink:1
                                                     such a tree is made, then sub-traces of 200 calls dealt out to all
replay:file=FILE,timed=0                             a recorded trace, as fast as it goes or (timed=1) not faster than recorded
files: of each client (untar: of each directory; tree-balanced: of each directory of the lowest level; other trees, linkedin: in
all); stats, lists, calls: of all clients together; lanes, jobs: calls that a client has under way; look=1: each name is looked up before
it is made; choice: of files, uniform or zipf (exponent 1.8); runs: calls in a row in one directory, on average; scale: 1 for strong
scaling, N for weak: N variants of each file and of calls on files, but not of directories; any of them: think=US, a rest of so
many microseconds on average after each call";

    /// The calls. `read` gives the text of a file (a trace), or says what is wrong with it.
    pub fn workload(
        &self,
        seed: u64,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Workload, String> {
        let workload = match &self.kind {
            Kind::Create(create) => create.workload(),
            Kind::Compile(compile) => compile.workload(seed),
            Kind::Untar(untar) => untar.workload(seed),
            Kind::Stats(stats) => stats.workload(seed),
            Kind::Linkedin(linkedin) => linkedin.workload(seed),
            Kind::Replay { file, timed } => {
                trace::parse(&read(file)?, *timed).map_err(|what| format!("{file}: {what}"))?
            }
        };
        Ok(Workload { think_us: self.think_us, ..workload })
    }

    /// The same with another rest after each call, microseconds.
    #[must_use]
    pub fn thinking(self, think_us: u64) -> Spec {
        Spec { think_us, ..self }
    }
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Spec, String> {
        let mut params = Params::new(text)?;
        let workload = params.workload;
        let kind = match workload {
            "create-shared" | "create-own" => Kind::Create(Create {
                clients: params.number("clients", 4, 1, CLIENTS)?,
                files: params.number("files", 10_000, 1, MANY)?,
                lanes: params.number("lanes", 1, 1, 10_000)?,
                look: params.number("look", 0, 0, 1)? == 1,
                shared: workload == "create-shared",
            }),
            "compile" => Kind::Compile(Compile {
                clients: params.number("clients", 1, 1, CLIENTS)?,
                dirs: params.number("dirs", 16, 1, 10_000)?,
                units: params.number("units", 8, 1, 100_000)?,
                headers: params.number("headers", 300, 1, 1_000_000)?,
                includes: params.number("includes", 20, 0, 10_000)?,
                jobs: params.number("jobs", 2, 1, 10_000)?,
                bytes: params.number("bytes", 2000, 1, MANY)?,
                one_tree: params.number("one-tree", 0, 0, 1)? == 1,
            }),
            "untar" => Kind::Untar(Untar {
                clients: params.number("clients", 1, 1, CLIENTS)?,
                dirs: params.number("dirs", 50, 1, MANY)?,
                files: params.number("files", 40, 0, MANY)?,
                bytes: params.number("bytes", 2000, 1, MANY)?,
            }),
            "tree-balanced" | "tree-zipf" | "tree-synthetic" => Kind::Stats(Stats {
                crew: params.crew()?,
                shape: match workload {
                    "tree-balanced" => Shape::Balanced(Balanced {
                        inner: params.inner()?,
                        files: params.number("files", 1280, 1, MANY)?,
                    }),
                    "tree-zipf" => {
                        Shape::Zipf(Zipfian { inner: params.inner()?, files: params.number("files", FILES, 1, MANY)? })
                    }
                    _ => Shape::Synthetic(params.synthetic(FILES)?),
                },
                stats: params.number("stats", 1_000_000, 0, MANY)?,
                lists: params.number("lists", 0, 0, MANY)?,
                choice: params.parsed("choice", Choice::Uniform)?,
            }),
            "linkedin" => Kind::Linkedin(Linkedin {
                crew: params.crew()?,
                tree: params.synthetic(FILES_LINKEDIN)?,
                calls: params.number("calls", 1_000_000, 1, MANY)?,
                runs: params.number("runs", 8, 1, MANY)?,
                choice: params.parsed("choice", Choice::Uniform)?,
                mix: params.parsed("mix", Mix::default())?,
                scale: params.number("scale", 1, 1, 10_000)?,
            }),
            "replay" => Kind::Replay {
                timed: params.number("timed", 0, 0, 1)? == 1,
                file: params.text("file").filter(|file| !file.is_empty()).ok_or("replay wants file=FILE")?.to_owned(),
            },
            _ => {
                return Err(format!("there is no workload `{workload}`: {NAMES}"));
            }
        };
        let think_us = params.number("think", 0, 0, 3_600_000_000)?;
        params.end()?;
        Ok(Spec { kind, think_us })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Create(Create { clients, files, lanes, look, shared }) => {
                let name = if *shared { "create-shared" } else { "create-own" };
                let look = u8::from(*look);
                write!(f, "{name}:clients={clients},files={files},lanes={lanes},look={look}")?;
            }
            Kind::Compile(c) => write!(
                f,
                "compile:clients={},dirs={},units={},headers={},includes={},jobs={},bytes={},one-tree={}",
                c.clients,
                c.dirs,
                c.units,
                c.headers,
                c.includes,
                c.jobs,
                c.bytes,
                u8::from(c.one_tree)
            )?,
            Kind::Untar(Untar { clients, dirs, files, bytes }) => {
                write!(f, "untar:clients={clients},dirs={dirs},files={files},bytes={bytes}")?;
            }
            Kind::Stats(Stats { crew: Crew { clients, lanes }, shape, stats, lists, choice }) => {
                let ours = format!("clients={clients},lanes={lanes}");
                match shape {
                    Shape::Balanced(Balanced { inner: Inner { fan, height }, files }) => {
                        write!(f, "tree-balanced:{ours},fan={fan},height={height},files={files}")?;
                    }
                    Shape::Zipf(Zipfian { inner: Inner { fan, height }, files }) => {
                        write!(f, "tree-zipf:{ours},fan={fan},height={height},files={files}")?;
                    }
                    Shape::Synthetic(Synthetic { dirs, files }) => {
                        write!(f, "tree-synthetic:{ours},dirs={dirs},files={files}")?;
                    }
                }
                write!(f, ",stats={stats},lists={lists},choice={choice}")?;
            }
            Kind::Linkedin(l) => write!(
                f,
                "linkedin:clients={},lanes={},dirs={},files={},calls={},runs={},choice={},mix={},scale={}",
                l.crew.clients, l.crew.lanes, l.tree.dirs, l.tree.files, l.calls, l.runs, l.choice, l.mix, l.scale
            )?,
            Kind::Replay { file, timed } => write!(f, "replay:file={file},timed={}", u8::from(*timed))?,
        }
        write!(f, ",think={}", self.think_us)
    }
}
