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

scratch=$(mktemp -d "${TMPDIR:-/tmp}/loligo-bench.XXXXXX")
trap '"$binary" down --data "$scratch/data" >/dev/null 2>&1; rm -rf --one-file-system "$scratch"' EXIT
mkdir "$scratch/mnt"
"$binary" up --data "$scratch/data" --mount "$scratch/mnt" --daemon
"$binary" bench md --server "$scratch/data" "$@"
