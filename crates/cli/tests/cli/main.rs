//! The command as a user meets it: arguments in, text, exit codes and files out. Every server and mount is a process of
//! its own; files on a mount are touched by further processes with a time limit, so that nothing here can hang for good.

mod admin;
mod auth;
mod bad_input;
mod balancer;
mod bench;
mod between;
mod care;
mod cells;
mod copy;
mod cut;
mod cycle;
mod damage;
mod deploy;
mod documents;
mod frags;
mod full;
mod help;
mod hostile;
mod joined;
mod journal;
mod journal_kept;
mod journal_mend;
mod moment;
mod output;
mod owner;
mod placement;
mod policy;
mod ranks;
mod run;
mod spread;
mod stop;
mod store;
mod strangers;
mod used;
mod users;
