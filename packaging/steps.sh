# Steps of the packages' scripts; scripts/package.sh puts them in front of each. POSIX sh, only programs that every system has. An upgrade
# restarts nothing: a running program keeps its file, so mounts and open files go on. Restarts need an order on a Ceph cluster
# (docs/deploy.md, "Upgrade and stop"), so they are the administrator's.

with_systemd() { [ -d /run/systemd/system ]; }

# Mount points of Loligo, one a line.
mounted() { sed -n 's/^[^ ]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .* - fuse\.loligo .*/\1/p' /proc/self/mountinfo; }

# The user that servers run as. It stays when the package goes: files below /var/lib/loligo are its.
make_user() {
    if command -v systemd-sysusers >/dev/null 2>&1; then
        systemd-sysusers loligo.conf
    elif ! id loligo >/dev/null 2>&1; then
        useradd --system --user-group --home-dir /var/lib/loligo --no-create-home --shell /usr/sbin/nologin --comment "Loligo file system" loligo
    fi
    [ -d /var/lib/loligo ] || install -d -m 755 /var/lib/loligo
}

reload() { if with_systemd; then systemctl daemon-reload || true; fi; }

say_what_goes_on() {
    if with_systemd; then
        for unit in $(systemctl list-units --plain --no-legend --state=active 'loligo-server@*.service' | cut -d ' ' -f 1); do
            echo "loligo: $unit goes on with the previous program. When it suits: systemctl restart $unit"
        done
    fi
    for dir in $(mounted); do
        echo "loligo: the mount $dir goes on with the previous program until it is mounted again"
    done
}

# Programs below a mount would wait for ever for a server that nothing starts again.
refuse_if_mounted() {
    mounts=$(mounted | tr '\n' ' ')
    [ -n "$mounts" ] || return 0
    echo "loligo: the package stays, because these are mounted: $mounts" >&2
    echo "  try: loligo umount DIR for each (loligo down --data DIR for those of 'loligo up'), then remove the package again" >&2
    exit 1
}

stop_servers() { if with_systemd; then systemctl stop 'loligo-server@*.service'; fi; }
