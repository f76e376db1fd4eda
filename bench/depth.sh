#!/usr/bin/env bash
# `stat` of files at depth 9 with each level of caching of names that this kernel has (setting name_caching). Writes a Markdown table to
# stdout; a rate is the median of the runs. It judges nothing. On other kernels: scripts/kernels.sh --shell "bench/depth.sh -s 5" 6.1
# usage: bench/depth.sh [-n FILES] [-s SECONDS] [-r RUNS] [--dir DIR]
#   -n FILES     at depth 9, each looked at in turn (1000)
#   -s SECONDS   of each run (3)
#   -r RUNS      of each level (3)
#   --dir DIR    where the scratch directory is made (the cache directory)
# environment: LOLIGO_BIN, the program to use instead of building it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

files=1000 seconds=3 runs=3 dir=${LOLIGO_BENCH_DIR:-$LOLIGO_CACHE}
usage() { sed -n '4,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -n) files=$2 ;;
    -s) seconds=$2 ;;
    -r) runs=$2 ;;
    --dir) dir=$2 ;;
    *) usage && exit 2 ;;
    esac
    shift 2
done
need_root
find_loligo
make_scratch "$dir"

# DIR FILES SECONDS RUNS: the median of the rates.
cat >"$scratch/stats.py" <<'PROGRAM'
import os, statistics, sys, time
top, files, seconds, runs = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
deep = os.path.join(top, *(f"d{n}" for n in range(8)))
os.makedirs(deep, exist_ok=True)
paths = [os.path.join(deep, f"f{n}") for n in range(files)]
for path in paths:
    open(path, "w").close()
rates = []
for _ in range(runs):
    for path in paths:
        os.stat(path)
    done, begun = 0, time.monotonic()
    while time.monotonic() - begun < seconds:
        for path in paths:
            os.stat(path)
        done += files
    rates.append(done / (time.monotonic() - begun))
print(f"{statistics.median(rates):.0f}")
PROGRAM

machine
echo
echo "| name_caching | stat a second at depth 9 |"
echo "|---|---|"
# at_least MAJOR MINOR: this kernel's version.
at_least() { uname -r | awk -F'[.-]' -v major="$1" -v minor="$2" '{ exit !($1 > major || ($1 == major && $2 >= minor)) }'; }
levels=(timed off)
! at_least 6 2 || levels=(expiry "${levels[@]}")
! at_least 6 16 || levels=(epochs "${levels[@]}")
for level in "${levels[@]}"; do
    mkdir "$scratch/m-$level"
    up "$level" "$scratch/$level" "$scratch/m-$level" --set "name_caching=$level"
    echo "| $level | $(work 600 python3 "$scratch/stats.py" "$scratch/m-$level" "$files" "$seconds" "$runs") |"
    unmount "$scratch/m-$level"
    end "$level"
done
