#!/usr/bin/env bash
# Metadata side by side: the shapes of mdtest on loligo's mount, on bindfs, on CephFS and on plain file systems, and
# natively through the client library, in one run with the same counts of files. Writes Markdown tables to stdout and
# what it does to stderr. It judges nothing: the targets stand in docs/performance.md.
# usage: bench/run.sh [-n FILES] [-p "1 4"] [-r RUNS] [--only LIST] [--native-files N] [--dir DIR] [--raw FILE] [--limit S]
#   -n FILES          of each process on a mount (5000)
#   -p "1 4"          processes on a mount
#   -r RUNS           each system is set up so often, one after another in turn; the tables show medians (3)
#   --only LIST       of tmpfs,disk,bindfs,loligo-tmpfs,loligo-disk,ceph,native,limits (all)
#   --native-files N  of each of four clients, natively (50000)
#   --dir DIR         where the scratch directory is made: on the disk to be measured (the cache directory)
#   --raw FILE        also writes every single result there, as JSON, one a line
#   --limit S         seconds until a single measurement is given up (900)
# environment: LOLIGO_BIN and LOLIGO_LIMITS, programs to use instead of building them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PHASES=create,stat,readdir,rename,unlink,mkdir,rmdir,smallwrite,smallread
SYSTEMS="tmpfs disk bindfs loligo-tmpfs loligo-disk ceph native limits"
NATIVE_CLIENTS=4
NATIVE_IN_FLIGHT=64

files=5000 processes="1 4" runs=3 only="" native_files=50000 dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE} raw="" limit=900
usage() { sed -n '5,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -n | -p | -r | --only | --native-files | --dir | --raw | --limit) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -n) files=$2 ;;
    -p) processes=$2 ;;
    -r) runs=$2 ;;
    --only) only=${2//,/ } ;;
    --native-files) native_files=$2 ;;
    --dir) dir=$2 ;;
    --raw) raw=$(readlink -f "$2") ;;
    --limit) limit=$2 ;;
    esac
    shift 2
done
choose system "$only" "$SYSTEMS"

# ---- results: one line each in $results, tab-separated: system, directories, processes, phase, ops/s, p50, CPU ----

# keep SYSTEM DIRECTORIES PROCESSES: the JSON lines on stdin.
keep() {
    local line
    while read -r line; do
        [ -z "$raw" ] || printf '{"system":"%s","directories":"%s",%s\n' "$1" "$2" "${line#\{}" >>"$raw"
        printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$(sed 's/.*"phase":"\([a-z]*\)".*/\1/' <<<"$line")" \
            "$(value ops_per_s <<<"$line")" "$(value p50_us <<<"$line")" "$(value server_cpu_us_per_op <<<"$line")" >>"$results"
        if [ "$(value errors <<<"$line")" != 0 ]; then remark "$1, $2 directories, $3 at once: there were errors, the numbers do not count: $line"; fi
    done
}

remarks=()
remark() {
    say "  $1"
    remarks+=("$1")
}

# shape SYSTEM own|shared AT_ONCE ARGS...: one run of the phases.
shape() {
    local system=$1 directories=$2 at_once=$3 options=() status=0
    shift 3
    [ "$directories" = own ] || options=(--shared)
    say "  $system, $directories directories, $at_once at once"
    sync
    work "$limit" "$binary" bench md --json "${options[@]}" "$@" >"$scratch/shape.json" 2>"$scratch/shape.err" || status=$?
    keep "$system" "$directories" "$at_once" <"$scratch/shape.json"
    [ "$status" = 0 ] && return 0
    tail -n 5 "$scratch/shape.err" >&2
    remark "$system, $directories directories, $at_once at once: ended with status $status$([ "$status" != 124 ] || echo " (over $limit s)")"
}

# shapes SYSTEM MOUNT PID...: all of them below a directory; the processes' CPU counts as the system's.
shapes() {
    local system=$1 mount=$2 pids=() at_once directories
    shift 2
    for pid in "$@"; do pids+=(--server-pid "$pid"); done
    for at_once in $processes; do
        for directories in own shared; do
            shape "$system" "$directories" "$at_once" --mount "$mount" --clients "$at_once" --files "$files" --phases "$PHASES" "${pids[@]}"
        done
    done
}

# ---- the systems: each sets itself up, is measured, and is gone again ----

run_tmpfs() {
    mkdir -p "$tmpfs/plain"
    shapes tmpfs "$tmpfs/plain"
}

run_disk() {
    mkdir -p "$scratch/plain"
    shapes disk "$scratch/plain"
}

run_bindfs() {
    bindfs_over bindfs "$tmpfs/below-bindfs" "$scratch/mnt-bindfs"
    shapes bindfs "$scratch/mnt-bindfs" "${running[bindfs]}"
    gone bindfs "$scratch/mnt-bindfs"
}

# loligo_mounted SYSTEM DATA: as `loligo up` serves it, all in one process.
loligo_mounted() {
    up loligo "$2" "$scratch/mnt-loligo"
    shapes "$1" "$scratch/mnt-loligo" "${running[loligo]}"
    gone loligo "$scratch/mnt-loligo"
    rm -rf --one-file-system "$2"
}
run_loligo_tmpfs() { loligo_mounted loligo-tmpfs "$tmpfs/loligo"; }
run_loligo_disk() { loligo_mounted loligo-disk "$scratch/loligo"; }

cluster=""
ceph_down() {
    "$LOLIGO_TOP/bench/peers/ceph-umount.sh" "$cluster"
    "$LOLIGO_TOP/scripts/ceph.sh" down "$cluster" --purge
    cluster=""
}

run_ceph() {
    local pids=()
    cluster="$scratch/ceph"
    mkdir -p "$cluster"
    if ! "$LOLIGO_TOP/scripts/ceph.sh" up "$cluster" --mds 1 >/dev/null || ! "$LOLIGO_TOP/bench/peers/ceph-mount.sh" "$cluster" >/dev/null; then
        remark "ceph: did not start"
        if [ -e "$cluster/ceph.conf" ]; then ceph_down; fi
        cluster=""
        return 0
    fi
    mapfile -t pids < <(cat "$cluster"/run/*.pid)
    shapes ceph "$cluster/mnt" "${pids[@]}"
    ceph_down
}

# native_on KIND DATA: as above, with four clients and 64 requests in flight, and with one at a time; then creates once
# more for the CPU of the rank's thread alone.
native_on() {
    local system="native-$1" data=$2 directories many
    many=(--data "$data" --clients "$NATIVE_CLIENTS" --in-flight "$NATIVE_IN_FLIGHT" --files "$native_files")
    serve native "$data"
    for directories in own shared; do
        shape "$system" "$directories" "$NATIVE_IN_FLIGHT" "${many[@]}" --phases "$PHASES"
    done
    shape "$system" own 1 --data "$data" --clients 1 --in-flight 1 --files "$files" --phases create,stat
    for directories in own shared; do rank_cpu "$system" "$directories" "${many[@]}"; done
    end native
    rm -rf --one-file-system "$data"
}

# rank_cpu SYSTEM own|shared ARGS...: of the rank's thread for one create.
rank_cpu() {
    local system=$1 directories=$2 before after ops
    shift 2
    before=$(rank_ns)
    shape "$system-again" "$directories" "$NATIVE_IN_FLIGHT" "$@" --phases create --keep
    after=$(rank_ns)
    ops=$(value ops <"$scratch/shape.json")
    awk -v s="$system" -v d="$directories" -v ns=$((after - before)) -v n="${ops:-0}" \
        'BEGIN { if (n > 0) printf "%s\t%s\trank\tcreate\t0\t0\t%.2f\n", s, d, ns / 1e3 / n }' >>"$results"
}

# Nanoseconds that the rank's thread was on a core.
rank_ns() {
    local task
    for task in /proc/"${running[native]}"/task/*; do
        if [[ $(cat "$task/comm") = *rank* ]]; then cut -d' ' -f1 "$task/schedstat"; fi
    done | head -n 1
}

run_native() {
    native_on disk "$scratch/native"
    native_on tmpfs "$tmpfs/native"
}

run_limits() {
    local line what
    say "  limits"
    { work "$limit" "$limits" rpc --json && work "$limit" "$limits" sync "$scratch" --json; } >"$scratch/limits.json"
    while read -r line; do
        [ -z "$raw" ] || echo "$line" >>"$raw"
        what=$(sed 's/.*"what":"\([^"]*\)".*/\1/' <<<"$line")
        printf 'limits\t-\t-\t%s\t%s\t%s\t%s\n' "$what" "$(value ops_per_s <<<"$line")" "$(value p50_us <<<"$line")" \
            "$(value server_cpu_us_per_op <<<"$line")" >>"$results"
    done <"$scratch/limits.json"
}

# ---- what is needed ----

ceph_programs() { have ceph && have ceph-mon && have ceph-osd && have ceph-mds && have ceph-fuse; }

# available SYSTEM: can it be measured here? Installs what Debian has.
available() {
    case $1 in
    bindfs) have bindfs || "$LOLIGO_TOP/scripts/setup.sh" bench && have bindfs ;;
    ceph)
        ceph_programs && return 0
        say "installing ceph-mon ceph-osd ceph-mds ceph-fuse from Debian's packages"
        have apt-get && timeout 900 apt-get -o DPkg::Lock::Timeout=120 install -qy --no-install-recommends \
            ceph-mon ceph-osd ceph-mds ceph-fuse </dev/null >"$scratch/apt.log" 2>&1 && ceph_programs
        ;;
    limits)
        limits=${LOLIGO_LIMITS:-}
        if [ -z "$limits" ]; then
            (eval "$("$LOLIGO_TOP/scripts/rocksdb-cache.sh")" && cd "$LOLIGO_TOP" &&
                cargo build --quiet --release --package loligo-bench --example limits >&2) || return 1
            limits="$(target_dir)/release/examples/limits"
        fi
        [ -x "$limits" ]
        ;;
    esac
}

need_root
fuse_usable || exit 1
find_loligo
make_scratch "$dir"
make_tmpfs
results="$scratch/results.tsv"
: >"$results"
[ -z "$raw" ] || : >"$raw"

chosen=()
for system in $SYSTEMS; do
    wanted "$system" || continue
    if available "$system"; then chosen+=("$system"); else remark "$system: SKIPPED, its programs are not there and could not be installed"; fi
done
for ((run = 1; run <= runs; run++)); do
    for system in "${chosen[@]}"; do
        say "run $run of $runs: $system"
        "run_${system//-/_}"
    done
done

cat <<HEAD
Measured $(date -u +%Y-%m-%d). $(machine).
Medians of $runs runs; $files files for each process over mounts, $native_files for each of $NATIVE_CLIENTS clients natively.
HEAD
awk -v disk="$(disk_type)" -v at_once="$NATIVE_IN_FLIGHT" -f "$LOLIGO_TOP/bench/report.awk" "$results"
if [ ${#remarks[@]} -gt 0 ]; then
    printf '\n## Remarks\n\n'
    printf -- '- %s\n' "${remarks[@]}"
fi
