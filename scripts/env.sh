# Sourced by every script here: where things are, and the few functions they share.
# Not a program: it changes nothing on the machine but PATH and the environment of the caller.
# shellcheck shell=bash

export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"
LOLIGO_TOP="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
export LOLIGO_TOP
# Everything that is slow to make and does not change with the checkout lives here.
export LOLIGO_CACHE="${LOLIGO_CACHE:-${HOME}/.cache/loligo}"
mkdir -p "$LOLIGO_CACHE"

# A login shell has this; a CI runner or `sudo make` often has not.
for dir in "${CARGO_HOME:-$HOME/.cargo}/bin" /usr/local/cargo/bin; do
    case ":$PATH:" in
    *":$dir:"*) ;;
    *) [ -d "$dir" ] && PATH="$dir:$PATH" ;;
    esac
done
case ":$PATH:" in
*:/usr/sbin:*) ;;
*) PATH="$PATH:/usr/sbin:/sbin" ;;
esac
export PATH

# In CI the checkout is thrown away; what was built must not be.
if [ -n "${CI:-}" ]; then
    export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$LOLIGO_CACHE/target}"
    export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
    export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}"
fi
export CARGO_NET_RETRY="${CARGO_NET_RETRY:-5}"

# target_dir: where cargo puts what it builds for this checkout.
target_dir() { echo "${CARGO_TARGET_DIR:-$LOLIGO_TOP/target}"; }

say() { printf '%s\n' "$*" >&2; }
die() {
    say "error: $*"
    exit 1
}

# have NAME: is the program there?
have() { command -v "$1" >/dev/null 2>&1; }

# retry N CMD...: for what depends on a network.
retry() {
    local tries=$1 n=1 status
    shift
    while :; do
        "$@" && return 0
        status=$?
        [ "$n" -ge "$tries" ] && return "$status"
        say "attempt $n of $tries failed (status $status): $*; again in $((n * 5)) s"
        sleep $((n * 5))
        n=$((n + 1))
    done
}

# locked_version CRATE: the one version of CRATE in Cargo.lock.
locked_version() {
    awk -v want="name = \"$1\"" '$0 == want { getline; gsub(/version = |"/, ""); print; exit }' "$LOLIGO_TOP/Cargo.lock"
}

# fuse_usable: can this machine mount a FUSE file system? Tries what root can do about it; says why not.
fuse_usable() {
    if [ ! -e /dev/fuse ] && [ "$(id -u)" = 0 ]; then
        modprobe fuse 2>/dev/null
        [ -e /dev/fuse ] || mknod -m 666 /dev/fuse c 10 229 2>/dev/null
    fi
    if ! (: <>/dev/fuse) 2>/dev/null; then
        say "/dev/fuse cannot be opened: load the fuse module (modprobe fuse), or run where FUSE is allowed"
        return 1
    fi
}
