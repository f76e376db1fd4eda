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

# skipped WHAT WHY: says that something was not tested, and keeps it for the end of `make test`.
skipped() {
    say "NOT TESTED: $1: $2"
    [ -z "${LOLIGO_SKIPPED:-}" ] || printf '%s: %s\n' "$1" "$2" >>"$LOLIGO_SKIPPED"
}

# fuse_usable: can this machine mount a FUSE file system? Tries what root can do about it; says why not, and leaves the
# reason in $fuse_reason. A machine that can is never excused: there a mount that fails is a failure.
fuse_usable() {
    if [ ! -e /dev/fuse ] && [ "$(id -u)" = 0 ]; then
        modprobe fuse 2>/dev/null
        [ -e /dev/fuse ] || mknod -m 666 /dev/fuse c 10 229 2>/dev/null
    fi
    fuse_reason=""
    if ! (: <>/dev/fuse) 2>/dev/null; then
        fuse_reason="/dev/fuse cannot be opened: load the fuse module (modprobe fuse), or run where FUSE is allowed"
    elif [ "$(id -u)" = 0 ] && ! may_mount; then
        fuse_reason="this root lacks CAP_SYS_ADMIN, as in a container: give it --cap-add SYS_ADMIN"
    elif [ "$(id -u)" != 0 ] && ! have fusermount3; then
        fuse_reason="fusermount3 is not there: apt-get install fuse3"
    fi
    [ -z "$fuse_reason" ] && return 0
    say "$fuse_reason"
    return 1
}

# may_mount: has this process CAP_SYS_ADMIN (bit 21)?
may_mount() {
    local caps
    caps=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status 2>/dev/null)
    [ -z "$caps" ] || [ $((0x$caps >> 21 & 1)) = 1 ]
}
