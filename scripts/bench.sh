#!/usr/bin/env bash
# Measures: native metadata operations, the same over a mount, and peers beside it. Not a test: it judges nothing.
# usage: scripts/bench.sh [arguments of bench/run.sh]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP"

scripts/setup.sh bench
binary=$(scripts/build.sh)
export LOLIGO_BIN="$binary"
if [ -x bench/run.sh ]; then exec bench/run.sh "$@"; fi
"$binary" bench md "$@"
