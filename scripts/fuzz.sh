#!/usr/bin/env bash
# Runs every fuzz target for a short time, from its seeds. No cargo-fuzz and no nightly compiler is needed: libFuzzer
# is linked by the crate libfuzzer-sys, and the coverage it steers by is a pass of LLVM that the stable compiler has.
# (Where both are installed, `cargo +nightly fuzz run TARGET` works on the same directory and adds the address sanitizer.)
# usage: scripts/fuzz.sh [target...]     environment: FUZZ_SECONDS per target (15)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP/fuzz"

seconds=${FUZZ_SECONDS:-15}
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$LOLIGO_TOP/fuzz/target}/fuzz"
export RUSTFLAGS="--cfg fuzzing -Cdebug-assertions -Coverflow-checks -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
host=$(rustc -vV | sed -n 's/^host: //p')

# With --target, build scripts and macros are built without these flags.
retry 3 cargo fetch --quiet --target "$host"
cargo build --release --target "$host" --bins
[ $# -gt 0 ] || mapfile -t targets < <(sed -n 's/^name = "\(.*\)" # target$/\1/p' Cargo.toml)
[ $# -eq 0 ] || targets=("$@")
[ ${#targets[@]} -gt 0 ] || die "fuzz/Cargo.toml names no target"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/loligo-fuzz.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# The fuzzer itself: it must find a planted bug within a minute.
if timeout -k 10 90 "$CARGO_TARGET_DIR/$host/release/canary" -max_total_time=60 -artifact_prefix="$scratch/" \
    </dev/null >"$scratch/canary.log" 2>&1 || ! grep -q 'the canary was found' "$scratch/canary.log"; then
    tail -n 20 "$scratch/canary.log"
    die "the fuzzer did not find the planted bug of fuzz_targets/canary.rs: it runs without coverage"
fi
# run TARGET: its output goes to a file, and the file TARGET.failed says that it failed.
run() {
    local target=$1 log="$scratch/$1.log" artifacts="$scratch/artifacts/$1" seeds=()
    mkdir -p "$scratch/$target" "$artifacts"
    if [ -d "seeds/$target" ]; then seeds=("seeds/$target"); fi
    if timeout -k 10 $((seconds + 60)) "$CARGO_TARGET_DIR/$host/release/$target" "$scratch/$target" "${seeds[@]}" \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="$artifacts/" </dev/null >"$log" 2>&1; then
        printf 'fuzz: %-20s %s runs, nothing found\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: //p' "$log")"
    else
        : >"$scratch/$target.failed"
        echo "fuzz: $target FAILED"
        tail -n 40 "$log"
        for artifact in "$artifacts"/*; do
            [ -f "$artifact" ] || continue
            echo "the input, $(basename "$artifact"), in base64 (put it into fuzz/seeds/$target once it is mended):"
            base64 "$artifact" | head -n 40
        done
    fi
}
# One target uses one core.
for target in "${targets[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
    run "$target" &
done
wait
failed=()
for target in "${targets[@]}"; do
    [ ! -e "$scratch/$target.failed" ] || failed+=("$target")
done
[ ${#failed[@]} = 0 ] || die "fuzz targets that failed: ${failed[*]}"
