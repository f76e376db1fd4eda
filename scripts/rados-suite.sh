#!/usr/bin/env bash
# The tests that need a Ceph cluster, on one in memory that is started for them and stopped after.
# usage: scripts/rados-suite.sh [--faults]    --faults: OSDs, of three in files, are killed and stopped, and links are cut; minutes, as root
# environment: LOLIGO_SKIPPED, a file that is told what could not be tested. Exit code 77: nothing was tested.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP"

# With authentication, as clusters have it: what a user has to be allowed is tested, too.
# Tests are named for the whole workspace: of some packages alone all would be built anew, with other features.
options=(--pool rados_test --auth) tests=(--workspace --test cluster --test full --test store --test rados)
programs="ceph ceph-mon ceph-osd"
case ${1:-} in
--faults)
    options+=(--mgr --osds 3 --copies 3 --engine bluestore)
    programs+=" ceph-mgr"
    tests=(--workspace --test rados -- --test-threads 1 --nocapture faults cut_clients deploy thrash)
    ;;
# Without a manager nobody counts, and what a full pool does is not tested.
"") if have ceph-mgr; then options+=(--mgr); fi
    # And counted soon.
    for setting in mon_tick_interval mgr_stats_period mgr_tick_period mon_mgr_digest_period; do options+=(--set "$setting = 1"); done
    ;;
*) sed -n '3s/^# //p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
esac
for program in $programs; do
    have "$program" && continue
    say "$program is not installed: not tested"
    [ -z "${LOLIGO_SKIPPED:-}" ] || echo "the store on RADOS: $program is not installed" >>"$LOLIGO_SKIPPED"
    exit 77
done

scratch=$(mktemp -d "${TMPDIR:-/tmp}/loligo-rados.XXXXXX")
mkdir "$scratch/ceph" "$scratch/hosts"
trap 'end' EXIT
end() {
    scripts/ceph.sh down "$scratch/ceph" || true
    [ ! -e "$scratch/hosts/hosts" ] || scripts/hosts.sh down "$scratch/hosts" || true
    rm -rf "$scratch"
}
eval "$(scripts/rocksdb-cache.sh)"
first=() third=()
if [ "${1:-}" = --faults ]; then
    scripts/hosts.sh up "$scratch/hosts" 5
    # The cluster is on the first host, the tests on the third; servers that they put on hosts are on the others.
    options+=(--address 10.77.0.11)
    first=(scripts/hosts.sh run "$scratch/hosts" 1) third=(scripts/hosts.sh run "$scratch/hosts" 3)
    export LOLIGO_CEPH_DIR="$scratch/ceph" LOLIGO_HOSTS_DIR="$scratch/hosts"
    # Before, as the third host has no way to the outside.
    cargo test --profile ci --workspace --test rados --no-run
fi
LOLIGO_CEPH_CONF=$("${first[@]}" scripts/ceph.sh up "$scratch/ceph" "${options[@]}")
export LOLIGO_CEPH_CONF
"${third[@]}" cargo test --profile ci "${tests[@]}"
