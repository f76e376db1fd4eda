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

binary=${LOLIGO_BIN:-$("$LOLIGO_TOP/scripts/build.sh")}
scratch=$(mktemp -d "$dir/loligo-inline.XXXXXX")
cleanup() {
    trap - EXIT INT TERM
    timeout -k 5 60 "$binary" down --data "$scratch/data" >/dev/null 2>&1 || true
    rm -rf "$scratch"
}
trap cleanup EXIT INT TERM

# one THRESHOLD SIZE: lines "write|read OPS_PER_S CPU_US".
one() {
    timeout 60 "$binary" up --data "$scratch/data" --mount "$scratch/mnt" --daemon --set "inline_max=$1" >/dev/null
    timeout 300 "$binary" bench md --json --mount "$scratch/mnt" --clients 4 --files "$files" --small-bytes "$2" \
        --phases smallwrite,smallread |
        while read -r line; do
            printf '%s %s %s\n' "$(sed 's/.*"phase":"small\([a-z]*\)".*/\1/' <<<"$line")" \
                "$(sed 's/.*"ops_per_s":\([0-9.]*\).*/\1/' <<<"$line")" \
                "$(sed 's/.*"server_cpu_us_per_op":\([0-9.]*\).*/\1/' <<<"$line")"
        done
    timeout 60 "$binary" down --data "$scratch/data" >/dev/null
    rm -rf "$scratch/data"
}

for ((run = 1; run <= runs; run++)); do
    for threshold in $THRESHOLDS; do
        for size in $SIZES; do
            say "run $run of $runs: threshold $threshold, size $size"
            one "$threshold" "$size" | sed "s/^/$threshold $size /" >>"$scratch/results"
        done
    done
done

echo "| inline_max | file size | create, write, close: files/s (server CPU us) | open, read, close: files/s (server CPU us) |"
echo "|---:|---:|---:|---:|"
median() { sort -n | awk '{ v[NR] = $1 } END { printf "%.0f", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
cell() {
    local rate cpu
    rate=$(awk -v t="$1" -v s="$2" -v p="$3" '$1 == t && $2 == s && $3 == p { print $4 }' "$scratch/results" | median)
    cpu=$(awk -v t="$1" -v s="$2" -v p="$3" '$1 == t && $2 == s && $3 == p { print $5 }' "$scratch/results" | median)
    echo "$rate ($cpu)"
}
for threshold in $THRESHOLDS; do
    for size in $SIZES; do
        echo "| $threshold | $size | $(cell "$threshold" "$size" write) | $(cell "$threshold" "$size" read) |"
    done
done
