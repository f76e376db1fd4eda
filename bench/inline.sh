#!/usr/bin/env bash
# Where holding small files in their inodes ends to be of use: files of several sizes written and read through the mount
# of a durable file system, with several thresholds. Writes a Markdown table to stdout. It judges nothing: what follows
# from it stands in docs/performance.md.
# usage: bench/inline.sh [-n FILES] [-r RUNS] [--dir DIR]
#   -n FILES      of each of four processes (2000)
#   -r RUNS       of each combination, in turn; the table shows medians (3)
#   --dir DIR     where the scratch directory is made: on the disk to be measured (the cache directory)
# environment: LOLIGO_BIN, the program to measure instead of building it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

THRESHOLDS="0 4096 16384 65536"
SIZES="1024 4096 16384 65536"
files=2000 runs=3 dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}
usage() { sed -n '5,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -n | -r | --dir) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -n) files=$2 ;;
    -r) runs=$2 ;;
    --dir) dir=$2 ;;
    esac
    shift 2
done

need_root
fuse_usable || exit 1
find_loligo
make_scratch "$dir"

# one THRESHOLD SIZE: appends lines "THRESHOLD SIZE PHASE FILES_PER_S CPU_US" to the results.
one() {
    local line
    LOLIGO_INLINE_MAX=$1 up "loligo-$1-$2" "$scratch/data" "$scratch/mnt"
    work 300 "$binary" bench md --json --mount "$scratch/mnt" --clients 4 --files "$files" --small-bytes "$2" \
        --phases smallwrite,smallread >"$scratch/lines"
    while read -r line; do
        echo "$1 $2 $(sed 's/.*"phase":"\([a-z]*\)".*/\1/' <<<"$line") $(value ops_per_s <<<"$line") \
            $(value server_cpu_us_per_op <<<"$line")"
    done <"$scratch/lines" >>"$scratch/results"
    gone "loligo-$1-$2" "$scratch/mnt"
    rm -rf "$scratch/data"
}

for ((run = 1; run <= runs; run++)); do
    for threshold in $THRESHOLDS; do
        for size in $SIZES; do
            say "run $run of $runs: threshold $threshold, size $size"
            one "$threshold" "$size"
        done
    done
done

echo "| inline_max | file size | create, write, close: files/s (server CPU us) | open, read, close: files/s (server CPU us) |"
echo "|---:|---:|---:|---:|"
cell() {
    local rate cpu
    rate=$(awk -v t="$1" -v s="$2" -v p="$3" '$1 == t && $2 == s && $3 == p { print $4 }' "$scratch/results" | median)
    cpu=$(awk -v t="$1" -v s="$2" -v p="$3" '$1 == t && $2 == s && $3 == p { print $5 }' "$scratch/results" | median)
    LC_ALL=C printf '%.0f (%.0f)' "$rate" "$cpu"
}
for threshold in $THRESHOLDS; do
    for size in $SIZES; do
        echo "| $threshold | $size | $(cell "$threshold" "$size" smallwrite) | $(cell "$threshold" "$size" smallread) |"
    done
done
