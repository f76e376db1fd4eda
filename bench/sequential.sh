#!/usr/bin/env bash
# One large file written (with fsync at the end) and read through mounts that have just been made, on one Ceph cluster in memory:
# ceph-fuse, Loligo with file data straight to the cluster, and Loligo with file data through the server. In turn, in one run. Not what
# many small files cost (rados.sh).
# usage: bench/sequential.sh [MIB [RUNS]]     1024 MiB, 3 runs; LOLIGO_BIN: the program (else it is built)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/env.sh"
cd "$LOLIGO_TOP" || exit 1

mib=${1:-1024} runs=${2:-3}
loligo=${LOLIGO_BIN:-}
if [ -z "$loligo" ]; then
    eval "$(scripts/rocksdb-cache.sh)"
    cargo build --release --package loligo-cli
    loligo=$(target_dir)/release/loligo
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/loligo-sequential.XXXXXX")
mkdir "$work/ceph" "$work/loligo" "$work/cephfs"
trap end EXIT
end() {
    "$loligo" umount "$work/loligo" >/dev/null 2>&1 || true
    "$loligo" down --data "$work/data" >/dev/null 2>&1 || true
    bench/peers/ceph-umount.sh "$work/ceph" >/dev/null 2>&1 || true
    scripts/ceph.sh down "$work/ceph" >/dev/null 2>&1 || true
    rm -rf "$work"
}

conf=$(scripts/ceph.sh up "$work/ceph" --pool loligo --mds 1 --bytes "$((6 * mib / 1024 + 4))G")
head -c "${mib}M" /dev/urandom >"$work/bytes"
"$loligo" format --store rados:loligo --conf "$conf" --data "$work/data" >/dev/null
"$loligo" serve --daemon --store rados:loligo --conf "$conf" --data "$work/data" --set direct_data=true >/dev/null

mount_cephfs() { bench/peers/ceph-mount.sh "$work/ceph" "$work/cephfs" >/dev/null; }
umount_cephfs() { bench/peers/ceph-umount.sh "$work/ceph" >/dev/null; }
mount_loligo() {
    "$loligo" mount --daemon --data "$work/data" --set "direct_data=$direct" --set "ceph_conf=$conf" "$work/loligo" >/dev/null
}
umount_loligo() { "$loligo" umount "$work/loligo" >/dev/null; }

# rate FROM TO: nanoseconds of the clock.
rate() { echo $((mib * 1000000000 / ($2 - $1))); }

# measure NAME FILE MOUNT UMOUNT
measure() {
    local begun done_ again read_
    "$3"
    begun=$(date +%s%N)
    dd if="$work/bytes" of="$2" bs=1M conv=fsync status=none
    done_=$(date +%s%N)
    "$4"
    "$3"
    again=$(date +%s%N)
    cmp "$2" - <"$work/bytes"
    read_=$(date +%s%N)
    printf '%-24s write %5d MiB/s, read and compare %5d MiB/s\n' "$1" "$(rate "$begun" "$done_")" "$(rate "$again" "$read_")"
    rm "$2"
    "$4"
}

for _ in $(seq "$runs"); do
    measure ceph-fuse "$work/cephfs/file" mount_cephfs umount_cephfs
    for direct in true false; do
        measure "loligo, direct=$direct" "$work/loligo/file" mount_loligo umount_loligo
    done
done
