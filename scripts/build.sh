#!/usr/bin/env bash
# Builds the loligo command as a user gets it, and prints where it is.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP"

scripts/setup.sh build
exports=$(scripts/rocksdb-cache.sh)
eval "$exports"
retry 3 cargo fetch --quiet --target "$(rustc -vV | sed -n 's/^host: //p')" >&2
cargo build --release --package loligo-cli >&2
echo "$(target_dir)/release/loligo"
