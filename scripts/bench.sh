#!/usr/bin/env bash
# Measures: native metadata operations, the same over a mount, and peers beside it. Not a test: it judges nothing.
# usage: scripts/bench.sh [arguments of bench/run.sh]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP"

# What can be asked without building anything.
case " $* " in *" -h "* | *" --help "*) exec bench/run.sh -h ;; esac
scripts/setup.sh bench
binary=$(scripts/build.sh)
export LOLIGO_BIN="$binary"
exec bench/run.sh "$@"
