#!/usr/bin/env bash
# The tests that need a Ceph cluster, on one in memory that is started for them and stopped after.
# usage: scripts/rados-suite.sh
# environment: LOLIGO_SKIPPED, a file that is told what could not be tested. Exit code 77: nothing was tested.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP"

for program in ceph ceph-mon ceph-osd; do
    have "$program" && continue
    say "$program is not installed: not tested"
    [ -z "${LOLIGO_SKIPPED:-}" ] || echo "librados: $program is not installed" >>"$LOLIGO_SKIPPED"
    exit 77
done

scratch=$(mktemp -d "${TMPDIR:-/tmp}/loligo-rados.XXXXXX")
trap 'scripts/ceph.sh down "$scratch" || true; rm -rf "$scratch"' EXIT
LOLIGO_CEPH_CONF=$(scripts/ceph.sh up "$scratch" --pool rados_test)
export LOLIGO_CEPH_CONF
eval "$(scripts/rocksdb-cache.sh)"
cargo test --profile ci --package loligo-rados --package loligo-store-rados
