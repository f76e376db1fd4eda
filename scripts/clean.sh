#!/usr/bin/env bash
# Removes what was built here. Data and mounts are not touched.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP"
rm -rf "$(target_dir)" fuzz/target
say "removed what was built; the caches in $LOLIGO_CACHE stay (RocksDB, test tools)"
