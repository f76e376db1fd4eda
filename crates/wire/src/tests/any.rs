//! Any message, for property tests.

use std::sync::Arc;

use loligo_types::limits::PATCH_BYTES_MAX;
use loligo_types::msg::{DataRequest, Hello, Reclaim, Refusal, Request, ToClient, ToServer, Volatile, Welcome};
use loligo_types::{
    Access, Answer, Attr, ClusterMap, Control, Cred, DataAnswer, DataError, DataOp, DirEntry, FileLock, Frag, FsError,
    Ino, JournalMode, Journaling, Kind, LOOKUP_LEASE_MS_MAX, Layout, Lease, LockKind, LockOwner, Lsn, Name, Op,
    OpenFlags, Patches, PolicyId, Rank, RankInfo, RankState, RenameMode, Replicas, Route, Seq, SessionId, SetAttr,
    SetTime, StatFs, Time, XattrMode,
};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::any_subtree::{subtree_answer, subtree_op};

pub fn ino() -> impl Strategy<Value = Ino> {
    any::<u64>().prop_map(Ino)
}

fn mode() -> impl Strategy<Value = u16> {
    0u16..=0o7777
}

pub fn name() -> impl Strategy<Value = Name> {
    vec(prop_oneof![1u8..=b'-', b'0'..=255u8], 1..=255).prop_map(|bytes| Name::new(&bytes).expect("no dot, no slash"))
}

pub fn bytes(max: usize) -> impl Strategy<Value = Arc<[u8]>> {
    vec(any::<u8>(), 0..=max).prop_map(Arc::from)
}

fn time() -> impl Strategy<Value = Time> {
    any::<i64>().prop_map(Time)
}

fn set_time() -> impl Strategy<Value = SetTime> {
    of(time()).prop_map(|at| at.map_or(SetTime::Now, SetTime::At))
}

pub fn lease() -> impl Strategy<Value = Lease> {
    (0u8..32).prop_map(Lease)
}

fn leases() -> impl Strategy<Value = Vec<(Ino, Lease)>> {
    vec((ino(), lease()), 0..4)
}

pub fn kind() -> impl Strategy<Value = Kind> {
    (1u8..=7).prop_map(|code| Kind::from_code(code).expect("1 to 7 are kinds"))
}

fn layout() -> impl Strategy<Value = Layout> {
    (16u32..=30).prop_map(|power| Layout { object_size: 1 << power })
}

fn flags() -> impl Strategy<Value = OpenFlags> {
    any::<[bool; 5]>().prop_map(|[read, write, truncate, append, exec]| OpenFlags {
        read,
        write,
        truncate,
        append,
        exec,
    })
}

fn lock() -> impl Strategy<Value = FileLock> {
    (any::<bool>(), any::<u64>(), any::<u32>(), any::<bool>(), any::<u64>(), any::<u64>()).prop_map(
        |(flock, owner, pid, exclusive, a, b)| FileLock {
            kind: if flock { LockKind::Flock } else { LockKind::Posix },
            owner: LockOwner(owner),
            pid,
            exclusive,
            start: a.min(b),
            end: a.max(b),
        },
    )
}

fn attr() -> impl Strategy<Value = Attr> {
    let ids = (ino(), kind(), mode(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u64>(), any::<u32>());
    let times = (time(), time(), time(), time());
    (ids, times, any::<u64>(), any::<u32>(), any::<bool>(), any::<bool>(), layout()).prop_map(
        |(
            (ino, kind, mode, uid, gid, nlink, size, rdev),
            (atime, mtime, ctime, btime),
            change,
            cuts,
            inline,
            has_xattrs,
            layout,
        )| Attr {
            ino,
            kind,
            mode,
            uid,
            gid,
            nlink,
            size,
            rdev,
            atime,
            mtime,
            ctime,
            btime,
            change,
            cuts,
            inline,
            has_xattrs,
            layout,
        },
    )
}

const MODES: [RenameMode; 5] =
    [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange, RenameMode::Whiteout, RenameMode::NewWhiteout];

fn set_attr() -> impl Strategy<Value = SetAttr> {
    let ids = (of(mode()), of(any::<u32>()), of(any::<u32>()), of(any::<u64>()), any::<[bool; 2]>());
    (ids, of(set_time()), of(set_time()), of(layout())).prop_map(
        |((mode, uid, gid, size, [grow, kill_priv]), atime, mtime, layout)| SetAttr {
            mode,
            uid,
            gid,
            size,
            grow,
            kill_priv,
            atime,
            mtime,
            layout,
        },
    )
}

fn entry_op() -> BoxedStrategy<Op> {
    let at = || (ino(), name());
    let handle = any::<u64>;
    prop_oneof![
        at().prop_map(|(dir, name)| Op::Lookup { dir, name }),
        (ino(), name(), mode(), mode(), flags(), any::<bool>(), handle()).prop_map(
            |(dir, name, mode, umask, flags, exclusive, handle)| Op::Create {
                dir,
                name,
                mode,
                umask,
                flags,
                exclusive,
                handle
            }
        ),
        (ino(), mode(), mode(), flags(), any::<bool>(), handle()).prop_map(
            |(dir, mode, umask, flags, linkable, handle)| Op::Tmpfile { dir, mode, umask, flags, linkable, handle }
        ),
        (at(), kind(), mode(), mode(), any::<u32>()).prop_map(|((dir, name), kind, mode, umask, rdev)| Op::Mknod {
            dir,
            name,
            kind,
            mode,
            umask,
            rdev
        }),
        (at(), mode(), mode()).prop_map(|((dir, name), mode, umask)| Op::Mkdir { dir, name, mode, umask }),
        (at(), bytes(300)).prop_map(|((dir, name), target)| Op::Symlink { dir, name, target }),
        (ino(), at()).prop_map(|(ino, (dir, name))| Op::Link { ino, dir, name }),
        at().prop_map(|(dir, name)| Op::Unlink { dir, name }),
        at().prop_map(|(dir, name)| Op::Rmdir { dir, name }),
        (at(), at(), select(MODES.to_vec())).prop_map(|((dir, name), (new_dir, new_name), mode)| Op::Rename {
            dir,
            name,
            new_dir,
            new_name,
            mode
        }),
    ]
    .boxed()
}

/// Operations at the end of a path walk.
fn end_of_way() -> BoxedStrategy<Op> {
    let of_inode = prop_oneof![
        (flags(), any::<u64>()).prop_map(|(flags, handle)| Op::Open { ino: Ino(0), flags, handle }),
        set_attr().prop_map(|set| Op::SetAttr { ino: Ino(0), set, handle: None }),
        Just(Op::Readlink { ino: Ino(0) }),
        (0u32..=4096, any::<bool>()).prop_map(|(limit, plus)| Op::Readdir {
            dir: Ino(0),
            cookie: 0,
            limit,
            plus,
            handle: None
        }),
    ];
    let of_name = entry_op().prop_filter_map("a name that is made or taken away", |op| op.done_at(Ino(0)));
    prop_oneof![of_name, of_inode].boxed()
}

fn inode_op() -> BoxedStrategy<Op> {
    let handle = any::<u64>;
    prop_oneof![
        ino().prop_map(|dir| Op::LookupParent { dir }),
        (ino(), vec(name(), 1..=64), select(vec![Replicas::Unused, Replicas::OnTheWay, Replicas::ToTheEnd]))
            .prop_map(|(dir, names, by)| Op::Walk { dir, names: names.into(), by }),
        (
            ino(),
            vec(name(), 1..=64),
            select(vec![Replicas::Unused, Replicas::OnTheWay, Replicas::ToTheEnd]),
            end_of_way()
        )
            .prop_map(|(dir, names, by, what)| Op::Via { dir, names: names.into(), by, what: Box::new(what) }),
        ino().prop_map(|ino| Op::GetAttr { ino }),
        (ino(), set_attr(), of(handle())).prop_map(|(ino, set, handle)| Op::SetAttr { ino, set, handle }),
        (ino(), flags(), handle()).prop_map(|(ino, flags, handle)| Op::Open { ino, flags, handle }),
        (vec(handle(), 0..9), any::<bool>()).prop_map(|(handles, lost)| Op::Control(Control::Close { handles, lost })),
        ino().prop_map(|ino| Op::Readlink { ino }),
        (ino(), any::<u64>(), 0u32..=4096, any::<bool>(), of(handle()))
            .prop_map(|(dir, cookie, limit, plus, handle)| Op::Readdir { dir, cookie, limit, plus, handle }),
        (ino(), bytes(300)).prop_map(|(ino, name)| Op::GetXattr { ino, name }),
        ino().prop_map(|ino| Op::ListXattr { ino }),
        (ino(), bytes(300), bytes(900), select(vec![XattrMode::Set, XattrMode::Create, XattrMode::Replace]))
            .prop_map(|(ino, name, value, mode)| Op::SetXattr { ino, name, value, mode }),
        (ino(), bytes(300)).prop_map(|(ino, name)| Op::RemoveXattr { ino, name }),
        (ino(), any::<[bool; 3]>())
            .prop_map(|(ino, [read, write, exec])| Op::Access { ino, want: Access { read, write, exec } }),
        Just(Op::StatFs),
        Just(Op::Control(Control::Sync)),
        any::<u32>().prop_map(|count| Op::Control(Control::GrantInos { count })),
        Just(Op::Control(Control::Persist)),
        bytes(200).prop_map(|address| Op::Control(Control::DataAddress { address })),
    ]
    .boxed()
}

fn file_op() -> BoxedStrategy<Op> {
    let handle = any::<u64>;
    prop_oneof![
        (ino(), handle()).prop_map(|(ino, handle)| Op::ReadInline { ino, handle }),
        (ino(), handle(), of(any::<u64>()), bytes(9000), set_time(), any::<bool>()).prop_map(
            |(ino, handle, offset, data, mtime, kill_priv)| Op::WriteInline {
                ino,
                handle,
                offset,
                data,
                mtime,
                kill_priv
            }
        ),
        (
            (ino(), handle(), any::<u32>()),
            of((any::<u64>(), of(any::<u64>()))),
            set_time(),
            any::<[bool; 2]>(),
            patches()
        )
            .prop_map(|((ino, handle, cuts), ends, mtime, [spilled, kill_priv], patches)| Op::SetData {
                ino,
                handle,
                cuts,
                grow_to: ends.map(|(grow_to, _)| grow_to),
                behind: ends.and_then(|(_, behind)| behind),
                mtime,
                spilled,
                kill_priv,
                patches
            }),
        (ino(), handle(), any::<u64>()).prop_map(|(ino, handle, len)| Op::Extend { ino, handle, len }),
        (ino(), handle(), lock(), any::<bool>()).prop_map(|(ino, handle, lock, wait)| Op::Control(Control::SetLock {
            ino,
            handle,
            lock,
            wait
        })),
        (ino(), handle(), lock()).prop_map(|(ino, handle, lock)| Op::Control(Control::Unlock { ino, handle, lock })),
        (ino(), handle(), lock()).prop_map(|(ino, handle, lock)| Op::Control(Control::GetLock { ino, handle, lock })),
        (ino(), any::<u64>())
            .prop_map(|(ino, owner)| Op::Control(Control::CancelLock { ino, owner: LockOwner(owner) })),
    ]
    .boxed()
}

fn request() -> impl Strategy<Value = Request> {
    let op = prop_oneof![5 => entry_op(), 5 => inode_op(), 5 => file_op(), 3 => subtree_op()];
    let also = (of(1u64..), of(any::<u16>()));
    (any::<u64>(), any::<u64>(), lease(), any::<u32>(), any::<u32>(), vec(any::<u32>(), 0..5), op, also).prop_map(
        |(seq, answered, want, uid, gid, mut groups, op, (ino, ways))| {
            groups.sort_unstable();
            Request {
                seq: Seq(seq),
                answered: Seq(answered),
                want,
                cred: Cred { uid, gid, groups },
                op,
                ino: ino.map(Ino),
                ways,
            }
        },
    )
}

fn data_op() -> impl Strategy<Value = DataOp> {
    let n = any::<u64>;
    prop_oneof![
        (n(), any::<u32>()).prop_map(|(offset, len)| DataOp::Read { offset, len }),
        (n(), bytes(40_000)).prop_map(|(offset, data)| DataOp::Write { offset, data }),
        Just(DataOp::Sync),
        (n(), n()).prop_map(|(offset, len)| DataOp::Punch { offset, len }),
        n().prop_map(|from| DataOp::Discard { from }),
        (n(), n(), any::<bool>()).prop_map(|(offset, size, data)| DataOp::Seek { offset, size, data }),
    ]
}

fn hello() -> impl Strategy<Value = Hello> {
    let resume = of((any::<u64>(), any::<u64>()).prop_map(|(id, secret)| (SessionId(id), secret)));
    (any::<(u32, u32)>(), resume, "[a-zä]{0,60}", any::<u64>(), of(any::<[u8; 16]>()))
        .prop_map(|(versions, resume, name, client, fs_id)| Hello { versions, resume, name, client, fs_id })
}

pub(super) fn to_server() -> impl Strategy<Value = ToServer> {
    let reclaim =
        (vec((any::<u64>(), ino(), flags(), lease()), 0..4), leases(), vec((ino(), any::<u64>(), lock()), 0..4));
    prop_oneof![
        1 => hello().prop_map(ToServer::Hello),
        1 => reclaim.prop_map(|(opens, leases, locks)| ToServer::Reclaim(Reclaim { opens, leases, locks })),
        20 => request().prop_map(ToServer::Request),
        4 => (any::<u64>(), ino(), layout(), data_op()).prop_map(|(id, ino, layout, op)| {
            ToServer::Data(DataRequest { id, ino, object_size: layout.object_size, op })
        }),
        1 => (ino(), any::<u64>()).prop_map(|(ino, id)| ToServer::RecallDone { ino, id }),
        1 => leases().prop_map(ToServer::Release),
        1 => Just(ToServer::Ping),
        1 => any::<bool>().prop_map(|gone| ToServer::Goodbye { gone }),
    ]
}

fn dir_entry() -> impl Strategy<Value = DirEntry> {
    (name(), ino(), kind(), any::<u64>(), of(attr()), lease())
        .prop_map(|(name, ino, kind, cookie, attr, lease)| DirEntry { name, ino, kind, cookie, attr, lease })
}

fn entries() -> impl Strategy<Value = Answer> {
    (vec(dir_entry(), 0..6), any::<u64>(), any::<bool>()).prop_map(|(entries, next, end)| Answer::Entries {
        entries,
        next,
        end,
    })
}

fn last_of_walk() -> impl Strategy<Value = Answer> {
    prop_oneof![
        attr().prop_map(Answer::Entry),
        (ino(), kind(), rank()).prop_map(|(ino, kind, rank)| Answer::Remote { ino, kind, rank }),
        entries(),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        Just(Answer::Done),
        attr().prop_map(Answer::Entry),
        (attr(), any::<bool>(), lease(), of(bytes(5000))).prop_map(|(attr, created, rights, data)| Answer::Opened {
            attr,
            created,
            rights,
            data
        }),
        bytes(20_000).prop_map(Answer::Bytes),
        entries(),
        any::<[u64; 4]>().prop_map(|[bytes, bytes_free, inodes, inodes_free]| {
            Answer::StatFs(StatFs { bytes, bytes_free, inodes, inodes_free })
        }),
        of(lock()).prop_map(Answer::Lock),
        any::<u64>().prop_map(Answer::Offset),
        (ino(), any::<u32>()).prop_map(|(first, count)| Answer::Inos { first, count }),
        (ino(), kind(), rank()).prop_map(|(ino, kind, rank)| Answer::Remote { ino, kind, rank }),
        (1u32..=64, ino(), last_of_walk(), any::<bool>()).prop_map(|(done, dir, last, all)| Answer::Walked {
            done,
            dir,
            last: Box::new(last),
            by_path: if all { done } else { 0 }
        }),
        subtree_answer().prop_map(|answer| Answer::Subtree(Box::new(answer))),
    ]
}

pub fn rank() -> impl Strategy<Value = Rank> {
    any::<u16>().prop_map(Rank)
}

pub fn frag() -> impl Strategy<Value = Frag> {
    (0..=Frag::BITS_MAX, any::<u32>())
        .prop_map(|(bits, value)| Frag::new(bits, value & ((1 << bits) - 1)).expect("below 2^bits"))
}

pub fn routes() -> impl Strategy<Value = Vec<Route>> {
    let route = (ino(), frag(), rank(), any::<u64>());
    vec(route.prop_map(|(dir, frag, rank, version)| Route { dir, frag, rank, version }), 0..5)
}

pub fn map() -> impl Strategy<Value = ClusterMap> {
    let ranks = btree_map(
        rank(),
        ("[a-z:/.0-9]{0,60}", select(vec![RankState::Up, RankState::Draining, RankState::Leaving])),
        0..5,
    );
    (any::<u64>(), ranks).prop_map(|(epoch, ranks)| ClusterMap {
        epoch,
        ranks: ranks.into_iter().map(|(rank, (address, state))| RankInfo { rank, address, state }).collect(),
        policy: PolicyId::NONE,
    })
}

fn data_result() -> impl Strategy<Value = Result<DataAnswer, DataError>> {
    use DataError::*;
    prop_oneof![
        bytes(40_000).prop_map(|b| Ok(DataAnswer::Bytes(b))),
        Just(Ok(DataAnswer::Done)),
        of(any::<u64>()).prop_map(|offset| Ok(DataAnswer::Offset(offset))),
        select(vec![NoSpace, Io, Corrupt, Stale, Busy, TooLarge, Moved]).prop_map(Err),
    ]
}

fn patches() -> impl Strategy<Value = Option<Arc<Patches>>> {
    of(vec((0..1u64 << 40, vec(any::<u8>(), 1..600)), 1..5)).prop_map(|pieces| {
        let pieces: Vec<(u64, Arc<[u8]>)> = pieces?.into_iter().map(|(at, data)| (at, data.into())).collect();
        Patches::of(&pieces).map(Arc::new)
    })
}

fn welcome() -> impl Strategy<Value = Welcome> {
    let numbers = (any::<[u32; 3]>(), any::<[u64; 6]>());
    (numbers, any::<[bool; 2]>(), any::<[u8; 16]>(), rank(), map(), routes(), "[a-z:/.]{0,20}").prop_map(
        |(
            ([version, inline_max, session_ms], [session, secret, data_epoch, low, high, recovered]),
            [resumed, kept],
            fs_id,
            rank,
            map,
            routes,
            direct,
        )| Welcome {
            version,
            session: SessionId(session),
            secret,
            resumed,
            kept,
            fs_id,
            inline_max,
            session_ms,
            data_epoch,
            rank,
            hash_key: (low, high),
            map,
            routes,
            direct,
            recovered: Lsn(recovered),
            journal_max: session_ms ^ version,
        },
    )
}

pub(super) fn to_client() -> impl Strategy<Value = ToClient> {
    use Refusal::*;
    let why = select(vec![Version, OtherFileSystem, NotAuthorized, TooMany, Malformed, Stopping]);
    let result = prop_oneof![answer().prop_map(Ok), select(FsError::ALL.to_vec()).prop_map(Err)];
    let ways = vec((ino(), 0..=LOOKUP_LEASE_MS_MAX), 0..4);
    let volatile = of(any::<[u64; 2]>().prop_map(|[lsn, durable]| Volatile { lsn: Lsn(lsn), durable: Lsn(durable) }));
    let mode = select(JournalMode::ALL.to_vec());
    let journal = of((mode, 0..=PATCH_BYTES_MAX as u32).prop_map(|(mode, threshold)| Journaling { mode, threshold }));
    prop_oneof![
        1 => welcome().prop_map(ToClient::Welcome),
        1 => (why, "[a-zä ]{0,60}").prop_map(|(why, text)| ToClient::Refused { why, text }),
        12 => (any::<u64>(), result, leases(), ways, volatile, journal).prop_map(
            |(seq, result, granted, ways, volatile, journal)| {
                ToClient::Reply { seq: Seq(seq), result, granted, ways, volatile, journal }
            }
        ),
        4 => (any::<u64>(), data_result()).prop_map(|(id, result)| ToClient::Data { id, result }),
        1 => (ino(), any::<u64>(), lease()).prop_map(|(ino, id, bits)| ToClient::Recall { ino, id, bits }),
        1 => (any::<u64>(), rank(), routes(), of((ino(), any::<u64>()))).prop_map(|(seq, rank, routes, done)| {
            ToClient::Redirect { seq: Seq(seq), rank, routes, done }
        }),
        1 => (routes(), vec(ino(), 0..5), of(rank()), any::<u32>())
            .prop_map(|(routes, moved, to, frozen_ms)| ToClient::Routes { routes, moved, to, frozen_ms }),
        1 => map().prop_map(ToClient::Map),
        1 => any::<u64>().prop_map(|at_ms| ToClient::Pong { at_ms }),
        1 => Just(ToClient::Evicted),
    ]
}
