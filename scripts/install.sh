#!/usr/bin/env bash
# Installs the command, its name for mount(8), the unit and the user for servers. What was there is replaced; settings stay.
# usage: scripts/install.sh [--remove]    environment: DESTDIR (none), a directory that stands for /; LOLIGO (built if it is not said), the
#        program to install
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$LOLIGO_TOP"

root=${DESTDIR:-}
# Where mount(8) looks for its helpers.
helper=$root/usr/sbin/mount.loligo
files=("$root/usr/local/bin/loligo" "$helper" "$root/etc/systemd/system/loligo-server@.service" "$root/etc/sysusers.d/loligo.conf")
# For remounts: what is mounted has this type.
remounts=$root/usr/sbin/mount.fuse.loligo

case ${1:-} in
"") ;;
--remove)
    rm -f "${files[@]}" "$remounts"
    say "removed; /etc/loligo and /var/lib/loligo stay"
    exit 0
    ;;
*) die "usage: scripts/install.sh [--remove]" ;;
esac
program=${LOLIGO:-$(scripts/build.sh)}
# In the place of a program that runs another file is put: it goes on as it is.
install -D -m 755 "$program" "${files[0]}.new"
mv "${files[0]}.new" "${files[0]}"
mkdir -p "$root/usr/sbin"
ln -sfn /usr/local/bin/loligo "$helper"
ln -sfn /usr/local/bin/loligo "$remounts"
install -D -m 644 deploy/loligo-server@.service "${files[2]}"
install -D -m 644 deploy/sysusers.conf "${files[3]}"
install -d -m 755 "$root/etc/loligo"
install -m 644 deploy/example.env "$root/etc/loligo/example.env"
if [ -z "$root" ]; then
    if have systemd-sysusers; then systemd-sysusers loligo.conf; fi
    # Not where systemd does not run.
    if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
fi
say "installed; what next: docs/deploy.md"
