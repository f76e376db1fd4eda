#!/usr/bin/env bash
# Metadata on RADOS side by side, each system through its own client library: CephFS with many requests in flight and with one,
# and what one replicated append or write to RADOS takes by itself, on a cluster that is started for it. Writes Markdown tables
# to stdout and what it does to stderr. It judges nothing: the targets stand in docs/performance.md.
# usage: bench/rados.sh [-n FILES] [-1 FILES] [-w WRITES] [-m ENTRIES] [-r RUNS] [--engine NAME] [--osds N] [--copies N] [--mds N] [--only LIST]
#                       [--dir DIR] [--raw FILE] [--limit S]
#   -n FILES        of all clients together, with 64 requests in flight (20000)
#   -1 FILES        with one request in flight (4000)
#   -w WRITES       appends and writes to RADOS, one at a time (4000)
#   -m ENTRIES      of a directory of Loligo that is listed after a restart, with attributes (1000000)
#   -r RUNS         each on a new cluster; the tables show medians (3)
#   --engine NAME   of the OSDs: memstore, in memory (the default), or bluestore
#   --osds N        OSDs (1)
#   --copies N      of each object (as many as OSDs, 3 at most)
#   --mds N         active MDS (1)
#   --only LIST     of rados,ours,cephfs,cold (all but cold: that is the listing)
#   --dir DIR       where the scratch directory is made: on the disk to be measured (the cache directory)
#   --raw FILE      also writes every single result there, as JSON, one a line
#   --limit S       seconds until a single measurement is given up (900)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

SYSTEMS="rados ours cephfs cold"
IN_FLIGHT=64
# Of the client processes over which these are spread, for CephFS: the number that is best for it, see peers/cephfs.c.
CEPHFS_PROCESSES=2
WRITE_BYTES=4096
# Ceph gathers what it would log at these in memory, even if none of it is written: a third of the client's CPU, a tenth of the MDS's.
QUIET="ms mds mds_balancer mds_log mds_locker mds_migrator client objecter objectcacher journaler osd mon monc finisher context"

files=20000 single_files=4000 writes=4000 entries=1000000 runs=3 only="rados ours cephfs" dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE} raw="" limit=900
engine=memstore osds=1 copies="" mds=1
usage() { sed -n '5,20s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -n | -1 | -w | -m | -r | --engine | --osds | --copies | --mds | --only | --dir | --raw | --limit) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -n) files=$2 ;;
    -1) single_files=$2 ;;
    -w) writes=$2 ;;
    -m) entries=$2 ;;
    -r) runs=$2 ;;
    --engine) engine=$2 ;;
    --osds) osds=$2 ;;
    --copies) copies=$2 ;;
    --mds) mds=$2 ;;
    --only) only=${2//,/ } ;;
    --dir) dir=$2 ;;
    --raw) raw=$(readlink -f "$2") ;;
    --limit) limit=$2 ;;
    esac
    shift 2
done
[ -n "$copies" ] || copies=$((osds < 3 ? osds : 3))
choose system "$only" "$SYSTEMS"

# ---- results: one line each in $results: system, requests at once, directories, phase, ops/s, p50, p99, CPU of the client, of the
# metadata server, of the OSDs ----

# keep SYSTEM AT_ONCE DIRECTORIES [PHASES]: the JSON lines on stdin; of these phases only.
keep() {
    local line phase
    while read -r line; do
        phase=$(sed 's/.*"phase":"\([a-z]*\)".*/\1/' <<<"$line")
        case ",${4:-$phase}," in *",$phase,"*) ;; *) continue ;; esac
        [ -z "$raw" ] || printf '{"system":"%s",%s\n' "$1" "${line#\{}" >>"$raw"
        echo "$1 $2 $3 $phase $(for name in ops_per_s p50_us p99_us client_cpu_us_per_op mds_cpu_us_per_op osd_cpu_us_per_op; do
            value "$name" <<<"$line" | grep . || echo -
        done | tr '\n' ' ')" >>"$results"
        if [ "$(value errors <<<"$line")" != 0 ]; then remark "$1, $3 directories, $2 at once: there were errors, the numbers do not count: $line"; fi
    done
}

remarks=()
remark() {
    say "  $1"
    remarks+=("$1")
}

# ---- the cluster ----

cluster=""
ceph_up() {
    local options=() name
    for name in $QUIET; do options+=(--set "debug_$name = 0/0"); done
    cluster="$scratch/ceph"
    mkdir "$cluster"
    conf=$("$LOLIGO_TOP/scripts/ceph.sh" up "$cluster" --engine "$engine" --osds "$osds" --copies "$copies" --mds "$mds" "${options[@]}")
}
ceph_down() {
    "$LOLIGO_TOP/scripts/ceph.sh" down "$cluster" --purge
    cluster=""
}

# pids KIND: of its daemons.
pids() { cat "$cluster"/run/"$1".*.pid; }

# CPU of all daemons of these kinds so far, hundredths of a second.
used_by() {
    local kind pid
    for kind in "$@"; do for pid in $(pids "$kind"); do cat "/proc/$pid/stat"; done; done |
        awk '{ sub(/.*\) /, ""); all += $12 + $13 } END { print all }'
}
used() { used_by mds osd; }

# quiet: waits until what was put off (unlinked files are purged, the journal is trimmed) is done: it is nobody else's cost.
quiet() {
    local turn before
    for ((turn = 0; turn < 60; turn++)); do
        before=$(used)
        sleep 1
        [ $(($(used) - before)) -gt 5 ] || return 0
    done
    remark "the cluster does not come to rest; it was measured all the same"
}

# ---- the systems: each is given the path of the cluster's ceph.conf ----

# by_library SYSTEM AT_ONCE DIRECTORIES PHASES ARGS...: runs peers/cephfs.c; its JSON is in $scratch/lines.
by_library() {
    local system=$1 at_once=$2 directories=$3 phases=$4 options=() pid status=0
    shift 4
    [ "$directories" != shared ] || options+=(--shared)
    for pid in $(pids mds); do options+=(--pid "mds=$pid"); done
    for pid in $(pids osd); do options+=(--pid "osd=$pid"); done
    quiet
    say "  $system, $directories directories, $at_once at once: $phases"
    work "$limit" "$scratch/cephfs" "$conf" --in-flight "$at_once" --phases "$phases" "${options[@]}" "$@" >"$scratch/lines" || status=$?
    [ "$status" = 0 ] || remark "$system, $directories directories, $at_once at once: ended with status $status"
}

# What is renamed and unlinked is not what was asked for by stat: that would cost CephFS requests; see the head of peers/cephfs.c.
cephfs() {
    local directories
    conf=$1
    for directories in own shared; do cephfs_once "$IN_FLIGHT" "$directories" --processes "$CEPHFS_PROCESSES" --files "$files"; done
    cephfs_once 1 own --processes 1 --files "$single_files"
}
cephfs_once() {
    local at_once=$1 directories=$2
    shift 2
    by_library cephfs "$at_once" "$directories" create,rename,unlink "$@"
    keep cephfs "$at_once" "$directories" <"$scratch/lines"
    by_library cephfs "$at_once" "$directories" mknod,stat,unlink "$@"
    keep cephfs "$at_once" "$directories" mknod,stat <"$scratch/lines"
}

rados() {
    conf=$1
    by_library rados 1 own append,write --pool loligo --processes 1 --files "$writes" --bytes "$WRITE_BYTES"
    keep rados 1 - <"$scratch/lines"
}

# Loligo on this cluster: one server, clients over its socket. What its benchmark calls create is what CephFS calls mknod.
ours() {
    local directories
    conf=$1
    for directories in own shared; do ours_once "$IN_FLIGHT" "$directories" 4 "$files"; done
    ours_once 1 own 1 "$single_files"
}
ours_once() {
    local at_once=$1 directories=$2 clients=$3 all=$4 options=() data before osd
    data="$scratch/loligo.$at_once.$directories"
    [ "$directories" != shared ] || options+=(--shared)
    loligo format --store "rados:loligo/$at_once.$directories" --conf "$conf" --data "$data" >/dev/null
    serve loligo "$data"
    quiet
    say "  loligo, $directories directories, $at_once at once"
    options+=(--json --data "$data" --clients "$clients" --in-flight "$at_once" --files $((all / clients)))
    # By itself, because of what the OSDs have to do for it.
    before=$(used_by osd)
    work "$limit" "$binary" bench md "${options[@]}" --phases create --keep >"$scratch/lines"
    osd=$(awk -v a="$before" -v b="$(used_by osd)" -v n="$all" 'BEGIN { print (b - a) * 10000 / n }')
    sed "s/}$/,\"osd_cpu_us_per_op\":$osd}/" "$scratch/lines" | as_cephfs | keep loligo "$at_once" "$directories" mknod
    work "$limit" "$binary" bench md "${options[@]}" --phases create,stat,rename,unlink >"$scratch/lines"
    as_cephfs <"$scratch/lines" | keep loligo "$at_once" "$directories" stat,rename,unlink
    end loligo TERM 60
}
# A server that has just begun has nothing in memory; the OSDs, in memory or not, have had the time to forget nothing.
cold() {
    local data="$scratch/loligo.cold" before osd
    loligo format --store rados:loligo/cold --conf "$1" --data "$data" >/dev/null
    serve cold "$data"
    say "  loligo, a directory of $entries entries is made"
    work "$limit" "$binary" bench md --json --data "$data" --name cold --shared --clients 4 --in-flight "$IN_FLIGHT" \
        --files $((entries / 4)) --phases create --keep >"$scratch/lines"
    end cold TERM 300
    serve cold "$data"
    quiet
    say "  loligo, and is listed after a restart"
    before=$(used_by osd)
    work "$limit" "$binary" bench md --json --data "$data" --name cold --shared --clients 1 --in-flight 1 --found --files $((entries / 4)) \
        --phases readdir --keep >"$scratch/lines"
    osd=$(awk -v a="$before" -v b="$(used_by osd)" -v n="$entries" 'BEGIN { print (b - a) * 10000 / n }')
    sed "s/}$/,\"osd_cpu_us_per_op\":$osd}/" "$scratch/lines" | as_cephfs | keep cold 1 shared
    end cold TERM 300
}
as_cephfs() { sed 's/"phase":"create"/"phase":"mknod"/; s/"server_cpu_us_per_op"/"mds_cpu_us_per_op"/'; }

# ---- what is needed ----

ceph_programs() {
    have ceph-mon && have ceph-osd && have ceph-mds && have ceph &&
        [ -e /usr/include/cephfs/libcephfs.h ] && [ -e /usr/include/rados/librados.h ]
}
need_ceph() {
    ceph_programs && return 0
    say "installing Ceph from Debian's packages"
    have apt-get && timeout 900 apt-get -o DPkg::Lock::Timeout=120 install -qy --no-install-recommends \
        ceph-mon ceph-osd ceph-mds ceph-common libcephfs-dev librados-dev </dev/null >"$scratch/apt.log" 2>&1 && ceph_programs ||
        die "needed: apt-get install ceph-mon ceph-osd ceph-mds ceph-common libcephfs-dev librados-dev"
}

# ---- the tables ----

# of SYSTEM AT_ONCE DIRECTORIES PHASE COLUMN: the median; nothing if it was not measured.
of() {
    awk -v s="$1" -v a="$2" -v d="$3" -v p="$4" -v c="$5" \
        '$1 == s && $2 == a && $3 == d && $4 == p && $c != "-" { print $c }' "$results" | median
}

# number VALUE DIGITS
number() { if [ -n "$1" ]; then printf "%.$2f" "$1"; else printf -- -; fi; }

# row SYSTEM AT_ONCE DIRECTORIES PHASE: and, of a system that is not CephFS, how its rate is to CephFS's.
row() {
    local rate base="" ratio=-
    rate=$(of "$@" 5)
    [ -n "$rate" ] || return 0
    [ "$1" = cephfs ] || base=$(of cephfs "$2" "$3" "$4" 5)
    [ -z "$base" ] || ratio=$(awk -v a="$rate" -v b="$base" 'BEGIN { printf "%.2f", a / b }')
    echo "| $3 | $4 | $1 | $(number "$rate" 0) | $(number "$(of "$@" 6)" 0) | $(number "$(of "$@" 7)" 0) | $(number "$(of "$@" 8)" 1) |" \
        "$(number "$(of "$@" 9)" 1) | $(number "$(of "$@" 10)" 1) | $ratio |"
}

# rows AT_ONCE "DIRECTORIES": of all systems, those of one phase together.
rows() {
    local directories phase system
    printf '\n## %s in flight\n\n' "$1 $([ "$1" = 1 ] && echo request || echo requests)"
    echo "| directories | phase | system | ops/s | p50, us | p99, us | client, us/op | metadata server, us/op | OSDs, us/op | rate to CephFS |"
    echo "|---|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for directories in $2; do
        for phase in create mknod stat rename unlink; do
            for system in cephfs loligo; do row "$system" "$1" "$directories" "$phase"; done
        done
    done
}

cold_rows() {
    printf '\n## A directory of %s entries listed after a restart\n\n' "$entries"
    echo "| entries/s | a call of 1,024 entries: p50, us | p99, us | client, us/entry | metadata server, us/entry | OSDs, us/entry |"
    echo "|---:|---:|---:|---:|---:|---:|"
    set -- cold 1 shared readdir
    echo "| $(number "$(of "$@" 5)" 0) | $(number "$(of "$@" 6)" 0) | $(number "$(of "$@" 7)" 0) | $(number "$(of "$@" 8)" 2) |" \
        "$(number "$(of "$@" 9)" 2) | $(number "$(of "$@" 10)" 2) |"
}

rados_rows() {
    local phase
    printf '\n## RADOS alone, one %s of %d bytes at a time\n\n' "append or write" "$WRITE_BYTES"
    echo "| | ops/s | p50, us | p99, us | client, us/op | OSDs, us/op |"
    echo "|---|---:|---:|---:|---:|---:|"
    for phase in append write; do
        set -- rados 1 - "$phase"
        echo "| $phase | $(number "$(of "$@" 5)" 0) | $(number "$(of "$@" 6)" 0) | $(number "$(of "$@" 7)" 0) | $(number "$(of "$@" 8)" 1) |" \
            "$(number "$(of "$@" 10)" 1) |"
    done
}

binary=""
if wanted ours || wanted cold; then find_loligo; fi
make_scratch "$dir"
need_ceph
cc -O2 -o "$scratch/cephfs" "$LOLIGO_TOP/bench/peers/cephfs.c" -lcephfs -lrados -lpthread
results="$scratch/results"
: >"$results"
[ -z "$raw" ] || : >"$raw"
load=$(cut -d' ' -f1-3 /proc/loadavg)
for ((run = 1; run <= runs; run++)); do
    say "run $run of $runs"
    ceph_up
    for system in $SYSTEMS; do
        if wanted "$system"; then "$system" "$conf"; fi
    done
    ceph_down
done

cat <<HEAD
Measured $(date -u +%Y-%m-%d). $(machine); $(ceph --version | cut -d' ' -f1-3). Load of the machine before: $load.
Runs: $runs, of which medians are shown, each on a new cluster on this machine. OSDs: $osds ($engine), copies: $copies, MDS: $mds, no logs.
$files files in all with $IN_FLIGHT requests in flight, over $CEPHFS_PROCESSES clients of CephFS; $single_files with one.
CPU is that of all threads of a process.
HEAD
if wanted cephfs || wanted ours; then
    rows "$IN_FLIGHT" "own shared"
    rows 1 own
fi
if wanted rados; then rados_rows; fi
if wanted cold; then cold_rows; fi
if [ ${#remarks[@]} -gt 0 ]; then
    printf '\n## Remarks\n\n'
    printf -- '- %s\n' "${remarks[@]}"
fi
