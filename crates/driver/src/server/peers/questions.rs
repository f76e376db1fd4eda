//! Questions between servers: what an administrator asked one of them, and another one knows or is to do. They go over the connection that the
//! two have anyway, each with a number. What is asked and replied is the admin plane's; nothing is understood here, and no rank knows of it.
//!
//! Nobody waits here: a reply, or that there will be none, is told to whoever asked on the thread of the connection, and what others ask is
//! handed to whoever hears it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loligo_types::limits::{QUESTION_PATH_MAX, QUESTION_TEXT_MAX, QUESTIONS_MAX, REPLY_TEXT_MAX};
use loligo_types::link::{LinkMsg, Question, Reply};

use super::Peers;
use crate::server::link::Link;

/// The server has no time, or nobody who hears: try again.
const UNAVAILABLE: u16 = 503;
/// The reply does not fit.
const TOO_LONG: u16 = 507;

/// Why there is no reply to a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// It was not sent, so nothing was done; why.
    NotSent(String),
    /// It was sent, and what became of it is not known; why.
    Lost(String),
}

/// Told when there is a reply, or will be none. Must not wait.
pub(crate) type Then = Box<dyn FnOnce(Result<Reply, Unanswered>) + Send>;

/// Function that takes questions of other servers. Must not wait.
pub(crate) type Hearer = dyn Fn(Question, Replier) + Send + Sync;

/// Questions of this server that have no reply yet, and who hears those of others.
#[derive(Default)]
pub(super) struct Questions {
    open: Mutex<Open>,
    hearer: Mutex<Option<Arc<Hearer>>>,
}

#[derive(Default)]
struct Open {
    last: u64,
    /// By number: over which connection it went, and who is told.
    all: BTreeMap<u64, (u64, Then)>,
}

impl Questions {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a question over a connection; gives back whom to tell if it is not sent, and why.
    fn ask(&self, wire: u64, link: &Link, question: Question, then: Then) -> Result<(), (Then, String)> {
        if question.path.len() > QUESTION_PATH_MAX || question.text.len() > QUESTION_TEXT_MAX {
            return Err((then, format!("what is handed on may have {QUESTION_TEXT_MAX} bytes")));
        }
        let mut open = self.open();
        if open.all.values().filter(|(over, _)| *over == wire).count() >= QUESTIONS_MAX {
            return Err((then, format!("{QUESTIONS_MAX} questions to it have no reply yet")));
        }
        open.last += 1;
        let number = open.last;
        open.all.insert(number, (wire, then));
        link.send(LinkMsg::Question { number, question: Box::new(question) });
        Ok(())
    }

    /// A reply has come over a connection. One to what was never asked there is nobody's.
    pub(super) fn replied(&self, wire: u64, number: u64, reply: Reply) {
        let mut open = self.open();
        let Some((over, then)) = open.all.remove(&number) else { return };
        if over != wire {
            open.all.insert(number, (over, then));
            return;
        }
        drop(open);
        then(Ok(reply));
    }

    /// A connection has ended: nothing more comes over it.
    pub(super) fn lost(&self, wire: u64) {
        let mut open = self.open();
        let (lost, left) = std::mem::take(&mut open.all).into_iter().partition(|(_, (over, _))| *over == wire);
        open.all = left;
        drop(open);
        for (_, then) in BTreeMap::into_values(lost) {
            then(Err(Unanswered::Lost("the connection to it has ended".into())));
        }
    }

    /// Another server asks something.
    pub(super) fn asked(&self, link: &Arc<Link>, open: &Arc<AtomicUsize>, number: u64, question: Question) {
        let before = open.fetch_add(1, Ordering::AcqRel);
        let replier = Replier { link: link.clone(), open: open.clone(), number, is_done: false };
        if before >= QUESTIONS_MAX {
            let text = format!("{before} questions of one server are under way here: try again\n");
            return replier.reply(Reply { status: UNAVAILABLE, text });
        }
        let hearer = self.hearer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Without one it is dropped, which says so.
        if let Some(hearer) = hearer {
            hearer(question, replier);
        }
    }
}

/// Gives the reply to a question of another server. Dropped without one it says that there is none.
pub struct Replier {
    link: Arc<Link>,
    /// Number of that server's questions without an answer.
    open: Arc<AtomicUsize>,
    number: u64,
    is_done: bool,
}

impl Replier {
    /// Sends the answer.
    pub fn reply(mut self, reply: Reply) {
        self.send(reply);
    }

    fn send(&mut self, reply: Reply) {
        self.is_done = true;
        self.open.fetch_sub(1, Ordering::AcqRel);
        let len = reply.text.len();
        let reply = if len <= REPLY_TEXT_MAX {
            reply
        } else {
            let text =
                format!("what it has to say are {len} bytes, of which {REPLY_TEXT_MAX} can be brought: ask it there\n");
            Reply { status: TOO_LONG, text }
        };
        self.link.send(LinkMsg::Reply { number: self.number, reply: Box::new(reply) });
    }
}

impl Drop for Replier {
    fn drop(&mut self) {
        if !self.is_done {
            let text =
                "its admin plane takes no questions now: it starts, stops, or has too much to do; try again\n".into();
            self.send(Reply { status: UNAVAILABLE, text });
        }
    }
}

impl Peers {
    /// Asks another server something.
    pub(crate) fn ask(&self, server: u64, question: Question, then: Then) {
        let refused = {
            // As long as this is held the connection cannot be found to have ended, and its questions lost.
            let state = self.lock();
            match state.links.get(&server) {
                Some(wire) => self.questions.ask(wire.number, &wire.link, question, then),
                None => Err((then, "there is no connection to it".into())),
            }
        };
        if let Err((then, why)) = refused {
            then(Err(Unanswered::NotSent(why)));
        }
    }

    /// Registers the function that takes questions of other servers.
    pub(crate) fn on_question(&self, hearer: Arc<Hearer>) {
        *self.questions.hearer.lock().unwrap_or_else(PoisonError::into_inner) = Some(hearer);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::{Receiver, channel};

    use loligo_types::link::Method;
    use loligo_wire::LINK_MAX;

    use super::*;
    use crate::server::link;

    fn question(path: &str) -> Question {
        Question { method: Method::Get, path: path.into(), text: String::new() }
    }

    fn reply(text: &str) -> Reply {
        Reply { status: 200, text: text.into() }
    }

    struct Wire {
        link: Arc<Link>,
        _ours: UnixStream,
        theirs: UnixStream,
    }

    impl Wire {
        fn new() -> Wire {
            let (ours, theirs) = UnixStream::pair().expect("two sockets");
            Wire { link: Link::start(&ours).expect("a thread"), _ours: ours, theirs }
        }

        fn next(&mut self) -> LinkMsg {
            link::read(&mut self.theirs, LINK_MAX, &mut Vec::new()).expect("a message").expect("it is open")
        }
    }

    type Told = Result<Reply, Unanswered>;

    fn ask(questions: &Questions, number: u64, wire: &Wire, path: &str) -> Receiver<Told> {
        let (to, from) = channel();
        let then = Box::new(move |told| to.send(told).expect("somebody waits"));
        if let Err((then, why)) = questions.ask(number, &wire.link, question(path), then) {
            then(Err(Unanswered::NotSent(why)));
        }
        from
    }

    #[test]
    fn replies_come_to_who_asked_in_any_order_and_only_over_the_connection_that_was_asked() {
        let (questions, mut one, other) = (Questions::default(), Wire::new(), Wire::new());
        let first = ask(&questions, 1, &one, "/first");
        let second = ask(&questions, 1, &one, "/second");
        let elsewhere = ask(&questions, 2, &other, "/third");
        assert_eq!(one.next(), LinkMsg::Question { number: 1, question: Box::new(question("/first")) });
        questions.replied(1, 2, reply("second"));
        questions.replied(1, 3, reply("of another connection"));
        questions.replied(1, 9, reply("to nothing"));
        questions.replied(1, 1, reply("first"));
        questions.replied(1, 1, reply("again"));
        assert_eq!(first.try_recv(), Ok(Ok(reply("first"))));
        assert_eq!(second.try_recv(), Ok(Ok(reply("second"))));
        assert!(elsewhere.try_recv().is_err(), "it waits");
        questions.lost(1);
        assert!(elsewhere.try_recv().is_err(), "its connection is there");
        questions.lost(2);
        assert!(matches!(elsewhere.try_recv(), Ok(Err(Unanswered::Lost(_)))));
    }

    #[test]
    fn more_questions_than_one_connection_may_have_are_not_sent() {
        let (questions, wire) = (Questions::default(), Wire::new());
        let sent: Vec<_> = (0..QUESTIONS_MAX).map(|_| ask(&questions, 1, &wire, "/")).collect();
        assert!(matches!(ask(&questions, 1, &wire, "/").try_recv(), Ok(Err(Unanswered::NotSent(_)))));
        questions.replied(1, 1, reply(""));
        assert_eq!(sent[0].try_recv(), Ok(Ok(reply(""))));
        assert!(ask(&questions, 1, &wire, "/").try_recv().is_err(), "there is room again");
        let long = "/".repeat(QUESTION_PATH_MAX + 1);
        assert!(matches!(ask(&questions, 2, &wire, &long).try_recv(), Ok(Err(Unanswered::NotSent(_)))));
    }

    #[test]
    fn who_asks_is_told_when_nobody_hears_too_many_ask_or_the_reply_is_too_long() {
        let (questions, mut wire, open) = (Questions::default(), Wire::new(), Arc::default());
        let status = |wire: &mut Wire| match wire.next() {
            LinkMsg::Reply { number, reply } => (number, reply.status),
            other => panic!("{other:?}"),
        };
        questions.asked(&wire.link, &open, 5, question("/"));
        assert_eq!(status(&mut wire), (5, UNAVAILABLE));
        let (to, from) = channel();
        let hearer = move |_, replier| to.send(replier).expect("somebody hears");
        *questions.hearer.lock().expect("no panic") = Some(Arc::new(hearer));
        (0..QUESTIONS_MAX as u64).for_each(|number| questions.asked(&wire.link, &open, number, question("/")));
        questions.asked(&wire.link, &open, 77, question("/"));
        assert_eq!(status(&mut wire), (77, UNAVAILABLE));
        let heard: Vec<Replier> = from.try_iter().collect();
        assert_eq!(heard.len(), QUESTIONS_MAX);
        let mut heard = heard.into_iter();
        heard.next().expect("one").reply(reply(&"x".repeat(REPLY_TEXT_MAX + 1)));
        assert_eq!(status(&mut wire), (0, TOO_LONG));
        heard.next().expect("another").reply(reply("x"));
        assert_eq!(status(&mut wire), (1, 200));
        drop(heard);
        assert_eq!(status(&mut wire), (2, UNAVAILABLE));
        assert_eq!(open.load(Ordering::Acquire), 0);
    }
}
