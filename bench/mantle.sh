#!/usr/bin/env bash
# The experiments with which programmable balancing was first judged (Sevilla, 2018, chapter 4), in the lab: virtual time, the
# production machines, and the costs in docs/scaling. Either who has what is put so at the beginning and nothing is balanced, or
# all is at rank 0 at the beginning and a policy moves it. Writes Markdown tables to stdout; the column `times one rank` is
# throughput beside one rank with the same seed. It judges nothing, and measures nothing of this machine.
# usage: bench/mantle.sh [--only LIST] [--seeds LIST] [--costs FILE] [--slower N] [--out DIR]
#   --only LIST   of: locality, own, knee, shared, policies-shared, policies-compile, policies-own (all)
#   --seeds LIST  a line for each (1,2,3); chance is in what a compile includes and in when clients begin
#   --costs FILE  what the lab takes as given (docs/scaling/costs.txt)
#   --slower N    of policies-*: all work of ranks' threads takes so many times as long (10), so that runs take as many ticks for
#                 fewer calls: a rank then does some 14,000 creates a second
#   --out DIR     pictures and JSON of each line are written there (none)
# environment: LOLIGO_LAB, a program to use instead of building the example.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

only="" slower=10 seeds=1,2,3 costs="$LOLIGO_TOP/docs/scaling/costs.txt" out=""
usage() { sed -n '6,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --only | --seeds | --costs | --slower | --out) [ $# -ge 2 ] || { usage && exit 2; } ;;
    *) say "unknown option $1" && usage && exit 2 ;;
    esac
    case $1 in
    --only) only=${2//,/ } ;;
    --seeds) seeds=${2//,/ } ;;
    --costs) costs=$2 ;;
    --slower) slower=$2 ;;
    --out) out=$2 ;;
    esac
    shift 2
done
choose experiment "$only" "locality own knee shared policies-shared policies-compile policies-own"
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
        "$lab" --costs "$costs" --ranks "$3" --spread "$4" --seed "$seed" --workload "$5" "${files[@]}" |
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

# What the experiments with policies take as given.
slow=$(mktemp)
trap 'rm -f "$slow"' EXIT
awk -F' = ' -v times="$slower" '
    /^(create|stat|rename|unlink|peer|tick|step|snapshot|piece) = / { print $1 " = " $2 * times; next }
    { print }' "$costs" >"$slow"

# ruled EXPERIMENT RANKS SPREAD POLICY SPEC: a line for each seed. The first line of an experiment is one rank by itself, and what
# others are held beside. Ranks decide once a second.
declare -A alone
ruled() {
    local seed row
    for seed in $seeds; do
        row=$("$lab" --costs "$slow" --ranks "$2" --spread "$3" --policy "$4" --tick-ms 1000 --seed "$seed" --workload "$5" \
            ${out:+--svg "$out/$1-$2-$3-$4-$seed.svg" --json "$out/$1-$2-$3-$4-$seed.json"} | grep '^| [0-9]')
        # The lab's columns: see its head.
        [ "$2" != 1 ] || alone[$1-$seed]=$(awk -F'|' '{ print $6 + 0 }' <<<"$row")
        awk -F'|' -v seed="$seed" -v one="${alone[$1-$seed]}" '{
            print "|" $2 "|" $3 "|" $4 "| " seed " |" $5 "|" $6 "| " sprintf("%.2f", $6 / one) " |" $9 "|" $10 "|" $16 "|" $17 \
                "|" $12 "|" $14 "|" $13 "|" $21 "|" $22 "|" $23 "|" }' <<<"$row"
    done
}

ruled_head() {
    echo "### $1: simulated"$'\n'
    echo "| ranks | at first | policy | seed | seconds | calls/s | times one rank | client's time, s | its sd, s | moves | late moves | redirects | recalls | sessions | busy max/mean | failed | faults |"
    echo "|---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
}

# Figs. 4.6 and 4.7: four clients in one directory.
policies-shared() {
    local spec=create-shared:clients=4,files=150000,lanes=12 ranks
    ruled_head "A shared directory, four clients (Figs. 4.6, 4.7)"
    ruled shared 1 one none "$spec"
    for ranks in 2 3 4; do ruled shared "$ranks" one greedy_spill "$spec"; done
    ruled shared 4 one greedy_spill_even "$spec"
    ruled shared 4 one fill_and_spill "$spec"
    for ranks in 2 4; do ruled shared "$ranks" one loligo "$spec"; done
    ruled shared 4 hashed none "$spec"
    echo
}

# Figs. 4.8 and 4.9: three and five clients compile.
policies-compile() {
    local clients spec policy
    for clients in 3 5; do
        spec="compile:clients=$clients,dirs=60,units=60,headers=1000,includes=60"
        ruled_head "$clients clients compile (Figs. 4.8, 4.9)"
        ruled "compile$clients" 1 one none "$spec"
        for policy in adaptable_conservative adaptable_aggressive adaptable_too_aggressive loligo; do
            ruled "compile$clients" "$clients" one "$policy" "$spec"
        done
        ruled "compile$clients" "$clients" even none "$spec"
        echo
    done
}

# Fig. 4.3: three clients, a directory each, three ranks; how far run times are apart.
policies-own() {
    local spec=create-own:clients=3,files=100000,lanes=16,look=1 policy
    if [ "$seeds" = "1 2 3" ]; then local seeds="1 2 3 4"; fi
    ruled_head "Own directories, three clients (Fig. 4.3)"
    ruled own 1 one none "$spec"
    for policy in cephfs loligo; do ruled own 3 one "$policy" "$spec"; done
    ruled own 3 even none "$spec"
    echo
}

for experiment in locality own knee shared policies-shared policies-compile policies-own; do
    if wanted "$experiment"; then
        say "$experiment"
        "$experiment"
    fi
done
