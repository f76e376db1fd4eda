#!/usr/bin/env bash
# The tests that need a Ceph cluster, on one in memory that is started for them and stopped after.
# usage: scripts/rados-suite.sh [--faults]    --faults: on three OSDs in files, which are killed and stopped; minutes, and much CPU
# environment: LOLIGO_SKIPPED, a file that is told what could not be tested. Exit code 77: nothing was tested.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP"

options=(--pool rados_test) tests=(--package loligo-rados --package loligo-store-rados --package loligo-cli --test cluster --test store --test rados)
programs="ceph ceph-mon ceph-osd"
case ${1:-} in
--faults)
    options+=(--mgr --osds 3 --copies 3 --engine bluestore)
    programs+=" ceph-mgr"
    tests=(--package loligo-cli --test rados -- --test-threads 1 --nocapture faults)
    ;;
"") ;;
*) sed -n '3s/^# //p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
esac
for program in $programs; do
    have "$program" && continue
    say "$program is not installed: not tested"
    [ -z "${LOLIGO_SKIPPED:-}" ] || echo "the store on RADOS: $program is not installed" >>"$LOLIGO_SKIPPED"
    exit 77
done

scratch=$(mktemp -d "${TMPDIR:-/tmp}/loligo-rados.XXXXXX")
trap 'scripts/ceph.sh down "$scratch" || true; rm -rf "$scratch"' EXIT
LOLIGO_CEPH_CONF=$(scripts/ceph.sh up "$scratch" "${options[@]}")
export LOLIGO_CEPH_CONF
[ "${1:-}" != --faults ] || export LOLIGO_CEPH_DIR="$scratch"
eval "$(scripts/rocksdb-cache.sh)"
cargo test --profile ci "${tests[@]}"
