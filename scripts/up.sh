#!/usr/bin/env bash
# From a checkout to a mounted file system, and back.
# usage: scripts/up.sh [down]     environment: DATA (./data) and MOUNT (./mnt)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP"

data=${DATA:-$LOLIGO_TOP/data}
mount=${MOUNT:-$LOLIGO_TOP/mnt}

case ${1:-up} in
up)
    binary=$(scripts/build.sh)
    fuse_usable || exit 1
    mkdir -p "$mount"
    if timeout 20 "$binary" status --data "$data" >/dev/null 2>&1 && timeout 20 "$binary" status "$mount" >/dev/null 2>&1; then
        say "it is up already"
    else
        "$binary" up --data "$data" --mount "$mount" --daemon
    fi
    down="make down"
    if [ -n "${DATA:-}" ]; then down="DATA=$(printf %q "$DATA") make down"; fi
    cat <<TEXT

A file system is mounted at $mount; its data is in $data.

  use it     echo hello > $(printf %q "$mount/hello") && cat $(printf %q "$mount/hello")
  look       $(printf %q "$binary") status --data $(printf %q "$data")
  stop it    $down      (nothing is lost; 'make up' brings it back)
  more       $(printf %q "$binary") help
TEXT
    ;;
down)
    binary="$(target_dir)/release/loligo"
    [ -x "$binary" ] || die "no $binary: nothing was built here, so nothing of this checkout is running ('make up' starts it)"
    "$binary" down --data "$data"
    ;;
*) die "usage: scripts/up.sh [down]" ;;
esac
