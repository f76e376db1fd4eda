# The tables of bench/run.sh, in Markdown. In: lines of system, directories, requests at once, phase, ops/s, p50 in us,
# CPU in us per operation; several lines of one kind are runs, of which the median is shown. Not here: any measuring.
# Variables: disk (the disk's file system), at_once (requests in flight natively).

BEGIN { FS = "\t" }

{
    key = $1 SUBSEP $2 SUBSEP $3 SUBSEP $4
    count[key]++
    rate[key, count[key]] = $5
    p50[key, count[key]] = $6
    cpu[key, count[key]] = $7
    seen[$1] = 1
    if ($1 !~ /^(native|limits)/ && !(($2, $3, $4) in row_seen)) {
        row_seen[$2, $3, $4] = 1
        row[++rows] = $2 SUBSEP $3 SUBSEP $4
    }
    if ($1 ~ /^native-(disk|tmpfs)$/ && $3 == at_once && !($4 in phase_seen)) {
        phase_seen[$4] = 1
        phase[++phases] = $4
    }
}

# The median of the runs of a kind; "" if there are none.
function median(values, key,    n, i, j, sorted, swap) {
    n = count[key]
    if (!n) return ""
    for (i = 1; i <= n; i++) {
        sorted[i] = values[key, i]
        if (sorted[i] == "") return ""
        for (j = i; j > 1 && sorted[j] + 0 < sorted[j - 1] + 0; j--) { swap = sorted[j]; sorted[j] = sorted[j - 1]; sorted[j - 1] = swap }
    }
    return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}

function thousands(x,    s) {
    s = sprintf("%.0f", x)
    while (match(s, /[0-9][0-9][0-9][0-9](,|$)/)) s = substr(s, 1, RSTART) "," substr(s, RSTART + 1)
    return s
}

function rated(key,    r, c) {
    r = median(rate, key)
    if (r == "") return "-"
    c = median(cpu, key)
    return thousands(r) (c == "" ? "" : sprintf(" (%.0f)", c))
}

function ratio(a, b) {
    a = median(rate, a)
    b = median(rate, b)
    return a == "" || b + 0 == 0 ? "-" : sprintf("%.2f", a / b)
}

function over_mounts(    i, s, n, names, heads, line, rule, part, key) {
    n = split("tmpfs disk bindfs loligo-tmpfs loligo-disk ceph", names, " ")
    split("tmpfs|" disk "|bindfs on tmpfs|loligo on tmpfs|loligo on " disk "|ceph-fuse", heads, "|")
    line = "| directories | processes | phase |"
    rule = "|---|---|---|"
    for (i = 1; i <= n; i++) if (names[i] in seen) { line = line " " heads[i] " |"; rule = rule "---:|" }
    print "\n## Over a mount\n"
    print "Operations per second of all processes together (entries for readdir); in parentheses CPU per operation in us of"
    print "everything but the processes that ask: the FUSE server, and for loligo and CephFS the services behind it.\n"
    print line " loligo/bindfs, tmpfs | loligo/bindfs, disk |"
    print rule "---:|---:|"
    for (i = 1; i <= rows; i++) {
        split(row[i], part, SUBSEP)
        line = "| " part[1] " | " part[2] " | " part[3] " |"
        for (s = 1; s <= n; s++) if (names[s] in seen) line = line " " rated(names[s] SUBSEP row[i]) " |"
        key = "bindfs" SUBSEP row[i]
        print line " " ratio("loligo-tmpfs" SUBSEP row[i], key) " | " ratio("loligo-disk" SUBSEP row[i], key) " |"
    }
}

function native_cell(kind, directories, name,    key, r) {
    key = kind SUBSEP directories SUBSEP at_once SUBSEP name
    r = median(rate, key)
    return r == "" ? "-" : sprintf("%s (%.1f) %.0f", thousands(r), median(cpu, key), median(p50, key))
}

function native(    i, c, n, place, part) {
    n = split("native-disk own|native-disk shared|native-tmpfs own|native-tmpfs shared", place, "|")
    print "\n## Natively, " at_once " requests in flight\n"
    print "Operations per second; in parentheses CPU of the whole server per operation in us; then p50 in us. On " disk " every"
    print "acknowledged change is synced.\n"
    print "| phase | " disk ", own directories | " disk ", shared | tmpfs, own | tmpfs, shared |\n|---|---:|---:|---:|---:|"
    for (i = 1; i <= phases; i++) {
        printf "| %s |", phase[i]
        for (c = 1; c <= n; c++) { split(place[c], part, " "); printf " %s |", native_cell(part[1], part[2], phase[i]) }
        print ""
    }
    printf "| create, CPU of the rank's thread in us |"
    for (c = 1; c <= n; c++) {
        split(place[c], part, " ")
        i = median(cpu, part[1] SUBSEP part[2] SUBSEP "rank" SUBSEP "create")
        printf " %s |", i == "" ? "-" : sprintf("%.1f", i)
    }
    print ""
}

function limit(what) { return median(p50, "limits" SUBSEP "-" SUBSEP "-" SUBSEP what) }
function one(kind, name) { return median(p50, kind SUBSEP "own" SUBSEP 1 SUBSEP name) }
function us(x) { return x == "" ? "-" : sprintf("%.1f", x) }

function one_at_a_time(    rtt, tcp, plain, reserved, stat_us, create_us) {
    rtt = limit("rpc unix 1 x 1")
    tcp = limit("rpc tcp 1 x 1")
    plain = limit("sync append 512 B")
    reserved = limit("sync reserved append 512 B")
    stat_us = one("native-disk", "stat")
    create_us = one("native-disk", "create")
    print "\n## One request at a time\n"
    print "| p50 | us |\n|---|---:|"
    print "| bare epoll ping-pong of 128 and 160 bytes, Unix socket | " us(rtt) " |"
    print "| the same over TCP | " us(tcp) " |"
    print "| append of 512 bytes and fdatasync | " us(plain) " |"
    print "| the same into reserved space | " us(reserved) " |"
    print "| loligo: stat | " us(stat_us) " |"
    print "| loligo: durable create | " us(create_us) " |"
    if (rtt == "" || stat_us == "" || plain == "") return
    print "| loligo: stat, times the ping-pong | " sprintf("%.2f", stat_us / rtt) " |"
    print "| allowed for a durable create: 1.3 ping-pongs, a sync into reserved space, 30 us | " us(1.3 * rtt + reserved + 30) " |"
}

END {
    if (rows) over_mounts()
    if (phases) native()
    if (("limits" in seen) || ("native-disk" in seen)) one_at_a_time()
}
