#!/usr/bin/env bash
# The experiments with which programmable balancing was first judged (Sevilla, 2018, chapter 4), in the lab: virtual time, the
# production machines, and the costs in docs/scaling. Who has what is put so at the beginning and nothing is balanced.
# Writes Markdown tables to stdout. It judges nothing, and measures nothing of this machine.
# usage: bench/mantle.sh [--only LIST] [--seeds LIST] [--costs FILE] [--out DIR]
#   --only LIST   of: locality, own, knee, shared (all)
#   --seeds LIST  a line for each (1,2,3); chance is in what a compile includes and in when clients begin
#   --costs FILE  what the lab takes as given (docs/scaling/costs.txt)
#   --out DIR     pictures and JSON of each line are written there (none)
# environment: LOLIGO_LAB, a program to use instead of building the example.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

only="" seeds=1,2,3 costs="$LOLIGO_TOP/docs/scaling/costs.txt" out=""
usage() { sed -n '6,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --only | --seeds | --costs | --out) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    --only) only=${2//,/ } ;;
    --seeds) seeds=${2//,/ } ;;
    --costs) costs=$2 ;;
    --out) out=$2 ;;
    esac
    shift 2
done
choose experiment "$only" "locality own knee shared"
seeds=${seeds//,/ }
if [ -n "$out" ]; then mkdir -p "$out"; fi

lab=${LOLIGO_LAB:-}
if [ -z "$lab" ]; then
    (eval "$("$LOLIGO_TOP/scripts/rocksdb-cache.sh")" && cd "$LOLIGO_TOP" && cargo build --quiet --release --package loligo-lab --example lab >&2)
    lab="$(target_dir)/release/examples/lab"
fi

# lines EXPERIMENT LABEL RANKS SPREAD SPEC: a line of the table for each seed; the head before the first one.
begun=""
lines() {
    local seed name files=()
    for seed in $seeds; do
        if [ -n "$out" ]; then
            name="$1-${2// /-}-$3-$4-$seed"
            files=(--svg "$out/$name.svg" --json "$out/$name.json")
        fi
        "$lab" --costs "$costs" --ranks "$3" --spread "$4" --seed "$seed" --workload "$5" "${files[@]}" 2>/dev/null |
            awk -v label="$2" -v head="$([ "$begun" = "$1" ] || echo yes)" '
                /^\| ranks/ { if (head) print "| what " $0 }
                /^\|--/ { if (head) print "|---" $0 }
                /^\| [0-9]/ { print "| " label " " $0 }'
        begun=$1
    done
}

# Fig. 4.2: one client compiles a tree at one rank, with its uppermost directories over three, and with every directory anywhere.
locality() {
    local spread
    echo "### Locality: one client compiles on three ranks"$'\n'
    for spread in one even hashed; do
        lines locality compile 3 "$spread" compile:clients=1,dirs=40,units=20,headers=1000,includes=60
    done
    echo
}

# Fig. 4.3: three clients make 100,000 files each in a directory of its own, three ranks.
own() {
    local spread
    echo "### Own directories: three clients, three ranks"$'\n'
    for spread in one even hashed; do
        lines own create-own 3 "$spread" create-own:clients=3,files=100000,look=1
    done
    echo
}

# Fig. 4.4: one rank, from one client to seven. Twelve calls under way make a client as large beside a rank as those were.
knee() {
    local clients
    echo "### Saturation: one to seven clients at one rank"$'\n'
    for clients in 1 2 3 4 5 6 7; do
        lines knee "$clients clients" 1 one "create-own:clients=$clients,files=100000,lanes=12"
    done
    echo
}

# Figs. 4.6 and 4.7 without a balancer: four clients in one directory, whose fragments are over one to four ranks.
shared() {
    local ranks
    echo "### A shared directory: four clients, one to four ranks"$'\n'
    for ranks in 1 2 3 4; do
        lines shared "four clients" "$ranks" hashed create-shared:clients=4,files=100000,lanes=12
    done
    echo
}

for experiment in locality own knee shared; do
    if wanted "$experiment"; then
        say "$experiment"
        "$experiment"
    fi
done
