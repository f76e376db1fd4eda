//! Servers on a Ceph cluster, by their own command line: that they work there, and what happens when they are killed, stopped and raced.
//! The cluster is the one that `LOLIGO_CEPH_CONF` names (`scripts/ceph.sh up DIR --pool rados_test`); without it nothing is tested, and
//! each test says so.

mod any_server;
mod check;
mod clients;
mod copy;
mod cut_clients;
mod deploy;
mod failover;
mod faults;
mod full;
mod history;
mod journal;
mod rights;
mod servers;
mod service;
mod several;
mod several_faults;
mod standby;
mod thrash;
