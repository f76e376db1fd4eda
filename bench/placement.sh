#!/usr/bin/env bash
# How directories are placed, and what that gives (docs/placement.md): figure 6 of ShardFS vs. IndexFS (SoCC 2015), of Loligo. Real servers with several
# ranks, real clients; three trees are made and looked at. Writes a Markdown table to stdout, and CSV and pictures into docs/figures. It judges nothing.
# usage: bench/placement.sh [--placements LIST] [--ranks N] [-n FILES] [--stats N] [-r RUNS] [--out DIR] [--dir DIR] [--limit S]
#   --placements LIST  as subtree,giga (those); with /paths behind one, as replicated/paths, clients cache nothing and ask by paths
#   --ranks N          of the server (4)
#   -n FILES           of each tree (100000)
#   --stats N          of each tree (200000)
#   -r RUNS            of each tree, choice and placement (3)
#   --out DIR          where pictures and CSV are written (docs/figures)
#   --dir DIR          where the scratch directory is made: on the disk to be measured (the cache directory)
#   --limit S          seconds until it is given up (14400)
# environment: LOLIGO_BIN and LOLIGO_PLACEMENT, programs to use instead of building them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out="$LOLIGO_TOP/docs/figures" limit=14400 more=()
dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}
usage() { sed -n '4,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --placements | --ranks | -n | --stats | -r | --out | --dir | --limit) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    -n) more+=(--files "$2") ;;
    -r) more+=(--runs "$2") ;;
    --out) out=$2 ;;
    --dir) dir=$2 ;;
    --limit) limit=$2 ;;
    *) more+=("$1" "$2") ;;
    esac
    shift 2
done

find_loligo
placement=${LOLIGO_PLACEMENT:-}
if [ -z "$placement" ]; then
    (eval "$("$LOLIGO_TOP/scripts/rocksdb-cache.sh")" && cd "$LOLIGO_TOP" && cargo build --quiet --release --package loligo-bench --example placement >&2)
    placement=$(target_dir)/release/examples/placement
fi
mkdir -p "$out"
make_scratch "$dir"
echo "$(date -u +%Y-%m-%d), $(machine)"
echo
work "$limit" "$(readlink -f "$placement")" --loligo "$binary" --dir "$scratch" --out "$(readlink -f "$out")" "${more[@]}"
