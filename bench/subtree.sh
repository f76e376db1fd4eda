#!/usr/bin/env bash
# What a decoupled subtree costs its owner, the rank and a neighbour, beside the same creates asked of the rank: one table and a few
# ratios, of a server with a real table and journal, in one run. It judges nothing: the targets stand in docs/performance.md.
# usage: bench/subtree.sh [-n FILES] [-r RUNS] [--dir DIR]
#   -n FILES     made each way (1000000)
#   -r RUNS      each with a new file system (1)
#   --dir DIR    where the scratch directory is made: on the disk to be measured (the cache directory)
# environment: LOLIGO_BIN and LOLIGO_SUBTREE, programs to use instead of building them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

files=1000000 runs=1 dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}
usage() { sed -n '4,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
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

find_loligo
subtree=${LOLIGO_SUBTREE:-}
if [ -z "$subtree" ]; then
    eval "$("$LOLIGO_TOP/scripts/rocksdb-cache.sh")"
    (cd "$LOLIGO_TOP" && cargo build --release --package loligo-bench --example subtree >&2)
    subtree=$(target_dir)/release/examples/subtree
fi
make_scratch "$dir"
for ((run = 1; run <= runs; run++)); do
    data=$scratch/data.$run
    "$binary" format --data "$data" >/dev/null
    "$binary" serve --data "$data" >"$scratch/log.$run" 2>&1 &
    running[subtree]=$!
    for ((turn = 0; turn < 200; turn++)); do
        [ ! -S "$data/loligo.sock" ] || break
        sleep 0.05
    done
    echo "run $run of $runs"
    "$subtree" "unix:$data/loligo.sock" "${running[subtree]}" "$files" "$scratch"
    end subtree TERM 20
    rm -rf "$data"
    echo
done
