#!/usr/bin/env bash
# The measurements of Cudele (Sevilla 2018, chapter 6), of Loligo: real servers on this machine's disk, real clients, each a process. Writes a Markdown
# table of each figure to stdout, and its CSV and picture into docs/figures. It judges nothing: targets and what comes out stand in docs/performance.md.
# usage: bench/cudele.sh [--only FIGURES] [-n FILES] [-r RUNS] [--clients LIST] [--seconds S] [--out DIR] [--dir DIR] [--limit S]
#   --only FIGURES  some of "6.6 6.2 6.3 6.8 6.7 6.9 merge scale" (all)
#   -n FILES        of each client (100000; figure 6.9: ten times as many)
#   -r RUNS         of each point (3)
#   --clients LIST  numbers of clients, as 1,5 (those of the thesis)
#   --seconds S     that a run of figure 6.9 without merges takes, about (36)
#   --out DIR       where pictures and CSV are written (docs/figures)
#   --dir DIR       where the scratch directory is made: on the disk to be measured (the cache directory)
#   --limit S       seconds until a figure is given up (14400)
# environment: LOLIGO_BIN, LOLIGO_CUDELE and LOLIGO_UNJOURNALED, programs to use instead of building them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

figures="6.6 6.2 6.3 6.8 6.7 6.9 merge scale"
only="" files=100000 runs=3 clients="" seconds=36 out="$LOLIGO_TOP/docs/figures" limit=14400
dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}
usage() { sed -n '4,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --only | -n | -r | --clients | --seconds | --out | --dir | --limit) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    --only) only=${2//[,|]/ } ;;
    -n) files=$2 ;;
    -r) runs=$2 ;;
    --clients) clients=$2 ;;
    --seconds) seconds=$2 ;;
    --out) out=$2 ;;
    --dir) dir=$2 ;;
    --limit) limit=$2 ;;
    esac
    shift 2
done
choose figure "$only" "$figures"

# example NAME PROGRAM: PROGRAM, or the example, built.
example() {
    if [ -n "$2" ]; then readlink -f "$2" && return; fi
    (eval "$("$LOLIGO_TOP/scripts/rocksdb-cache.sh")" && cd "$LOLIGO_TOP" && cargo build --quiet --release --package loligo-bench --example "$1" >&2)
    echo "$(target_dir)/release/examples/$1"
}

find_loligo
cudele=$(example cudele "${LOLIGO_CUDELE:-}")
unjournaled=$(example unjournaled "${LOLIGO_UNJOURNALED:-}")
mkdir -p "$out"
make_scratch "$dir"
echo "$(date -u +%Y-%m-%d), $(machine); $files files a client, $runs runs"
echo
failed=()
for figure in $figures; do
    wanted "$figure" || continue
    more=()
    [ -z "$clients" ] || more+=(--clients "$clients")
    work "$limit" "$cudele" --loligo "$binary" --unjournaled "$unjournaled" --dir "$scratch" --out "$out" --only "$figure" \
        --files "$files" --runs "$runs" --seconds "$seconds" "${more[@]}" || failed+=("$figure")
done
[ ${#failed[@]} = 0 ] || die "failed: ${failed[*]}"
