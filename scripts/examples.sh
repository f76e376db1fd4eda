#!/usr/bin/env bash
# Runs every measuring example once, as small as it goes: that it runs and finds its requests executed, not what it measures.
# examples.sh [DIR-OF-EXAMPLES]; without it they are built.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP" || exit 1

dir=${1:-}
if [ -z "$dir" ]; then
    cargo build --profile ci --workspace --examples || exit 1
    dir=$(target_dir)/ci/examples
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/loligo-examples.XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=()

# run NAME ARGS...: its last lines are shown if it fails.
run() {
    local name=$1 started=$SECONDS
    shift
    if timeout 120 "$dir/$name" "$@" >"$work/out" 2>&1 </dev/null; then
        printf '%-14s ok, %d s\n' "$name" $((SECONDS - started))
    else
        printf '%-14s FAILED with %d: %s\n' "$name" $? "$*"
        tail -n 20 "$work/out"
        failed+=("$name")
    fi
}

run limits --seconds 0.1 rpc
run limits --seconds 0.1 sync "$work"
run record_cost
run tree_cost 2000
run beats 8
run cost 2000
run cost 2000 3
run frags 2000
run moving --entries 2000 --leases 500 --opens 50 --dirs 10
run move_cost 200
run scaling --ranks 1,2 --ms 3
run soak --ranks 2..5 --seeds 1..20
run engine_bench "$work/engine" 2000 4

[ ${#failed[@]} = 0 ] || { echo "examples that failed: ${failed[*]}"; exit 1; }
