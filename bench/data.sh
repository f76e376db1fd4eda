#!/usr/bin/env bash
# File data in sequence: writes a file with an fsync at its end and reads it back, through bindfs over a disk and through
# loligo with its data on the same disk, with empty caches before each part; the disk itself beside them. Writes a
# Markdown table to stdout. It judges nothing: the targets stand in docs/performance.md.
# usage: bench/data.sh [-s SIZE] [-b BLOCK] [-r RUNS] [--dir DIR]
#   -s SIZE     of the file, as 1GiB or 64MiB (1GiB); a copy of it is held in memory, and twice that is needed on the disk
#   -b BLOCK    bytes of one read or write call (1MiB)
#   -r RUNS     of each, in turn; the table shows medians (3)
#   --dir DIR   where the scratch directory is made: on the disk to be measured (the cache directory)
# environment: LOLIGO_BIN, the program to measure instead of building it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

size=1GiB block=1MiB runs=3 dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}
usage() { sed -n '5,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -s | -b | -r | --dir) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -s) size=$2 ;;
    -b) block=$2 ;;
    -r) runs=$2 ;;
    --dir) dir=$2 ;;
    esac
    shift 2
done
# numfmt knows KiB as Ki.
in_bytes() { numfmt --from=auto "${1%B}" 2>/dev/null || die "'$1' is no size; write it as 64MiB"; }
bytes=$(in_bytes "$size")
block_bytes=$(in_bytes "$block")

# timed SYSTEM PART CMD...: appends SYSTEM, PART and MiB/s to the results.
timed() {
    local system=$1 part=$2 before after
    shift 2
    drop_caches
    before=$(date +%s%N)
    work 1800 "$@" 2>"$scratch/dd.log" || { cat "$scratch/dd.log" >&2 && die "$part of $size through $system failed"; }
    after=$(date +%s%N)
    awk -v s="$system" -v p="$part" -v b="$bytes" -v ns=$((after - before)) \
        'BEGIN { printf "%s\t%s\t%.1f\n", s, p, b / 1048576 / (ns / 1e9) }' >>"$scratch/results.tsv"
}

# through SYSTEM DIR: writes, reads, compares, removes.
through() {
    local file="$2/sequential"
    say "  $1"
    timed "$1" write dd if="$source" of="$file" bs="$block_bytes" conv=fsync
    timed "$1" read dd if="$file" of=/dev/null bs="$block_bytes"
    work 1800 cmp "$source" "$file" || die "$1 gave back other bytes than were written"
    rm "$file"
    sync
}

rate() { awk -F '\t' -v s="$1" -v p="$2" '$1 == s && $2 == p { print $3 }' "$scratch/results.tsv" | median; }

need_root
fuse_usable || exit 1
have bindfs || "$LOLIGO_TOP/scripts/setup.sh" bench
have bindfs || die "bindfs is not there: apt-get install bindfs"
find_loligo
make_scratch "$dir"
make_tmpfs
source="$tmpfs/source"
# Random bytes: nothing below can make them smaller.
head -c "$bytes" /dev/urandom >"$source"

mkdir "$scratch/plain"
bindfs_over bindfs "$scratch/below-bindfs" "$scratch/mnt-bindfs"
up loligo "$scratch/loligo" "$scratch/mnt-loligo"
for ((run = 1; run <= runs; run++)); do
    say "run $run of $runs"
    through disk "$scratch/plain"
    through bindfs "$scratch/mnt-bindfs"
    through loligo "$scratch/mnt-loligo"
done
gone loligo "$scratch/mnt-loligo"
gone bindfs "$scratch/mnt-bindfs"

cat <<HEAD
Measured $(date -u +%Y-%m-%d). $(machine).
Medians of $runs runs; $size in calls of $block; the write ends with an fsync; caches are empty before each part.

| MiB/s | $(disk_type) | bindfs | loligo | loligo/bindfs |
|---|---:|---:|---:|---:|
HEAD
for part in write read; do
    awk -v p="sequential $part" -v d="$(rate disk $part)" -v b="$(rate bindfs $part)" -v l="$(rate loligo $part)" \
        'BEGIN { printf "| %s | %.0f | %.0f | %.0f | %.2f |\n", p, d, b, l, l / b }'
done
