#!/usr/bin/env bash
# How placements scale (docs/placement-scaling.md): figures 7 and 8 of ShardFS vs. IndexFS (SoCC 2015) with Loligo's placements, in the lab: virtual
# time, the production machines, and the costs in docs/scaling. Strong scaling, weak scaling, and runs to be held beside those that were made for
# real (docs/placement.md). Writes Markdown tables to stdout, and CSV and pictures into docs/figures. It judges nothing, and measures nothing of
# this machine.
# usage: bench/placement-scaling.sh [--only LIST] [--ranks LIST] [--ways LIST] [--seed N] [--jobs N] [--costs FILE] [--out DIR]
#   --only LIST   of: real, strong, lookups (strong scaling without listings), weak (all)
#   --ranks LIST  numbers of ranks of strong and weak scaling (8,16,32,64,128)
#   --ways LIST   of the ways to place and ask, names as in the tables with + between them: "giga/paths, 1 s+replicated/paths" (all)
#   --seed N      what chance is drawn from (1)
#   --jobs N      runs at once; each takes one core, and those of 128 ranks up to 2 GiB (1)
#   --costs FILE  what the lab takes as given (docs/scaling/costs.txt)
#   --out DIR     where pictures and CSV are written (docs/figures)
# environment: LOLIGO_PLACEMENT_SCALING, a program to use instead of building the example.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out="$LOLIGO_TOP/docs/figures" costs="$LOLIGO_TOP/docs/scaling/costs.txt" more=()
usage() { sed -n '6,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --only | --ranks | --ways | --seed | --jobs | --costs | --out) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    --out) out=$2 ;;
    --costs) costs=$2 ;;
    *) more+=("$1" "$2") ;;
    esac
    shift 2
done

program=${LOLIGO_PLACEMENT_SCALING:-}
if [ -z "$program" ]; then
    (cd "$LOLIGO_TOP" && cargo build --quiet --release --package loligo-chart --example placement_scaling >&2)
    program="$(target_dir)/release/examples/placement_scaling"
fi
mkdir -p "$out"
echo "service times: $(sed -n 's/^measured = //p' "$costs")"
echo
"$program" --costs "$costs" --out "$out" "${more[@]}"
