/* Measures a CephFS through libcephfs, without a mount in between, and with --pool RADOS alone through librados. A peer for
 * measurements: it judges nothing, and leaves its directory, /bench.PID.
 * build: cc -O2 -o cephfs cephfs.c -lcephfs -lrados -lpthread
 * usage: cephfs CONF [--in-flight K] [--processes P] [--files N] [--phases LIST] [--shared] [--pid NAME=PID]...
 *        cephfs CONF --pool POOL [--bytes B] [the same]
 *   --in-flight K   requests in flight: threads, each with one request at a time (64)
 *   --processes P   over which they are spread, each with a mount of its own (2); K is a multiple of P
 *   --files N       files of all threads together (20000); with --pool: writes
 *   --phases LIST   of create,mknod,stat,rename,unlink (create,rename,unlink); with --pool of append,write (both)
 *   --shared        all in one directory; otherwise each thread has one of its own
 *   --bytes B       of an append or a write (4096)
 *   --pid NAME=PID  a process whose CPU is told as NAME_cpu_us_per_op; that of several of one name together
 * Prints a line of JSON for each phase.
 *
 * create opens, makes and closes; mknod is the one request that makes a file. stat begins with new mounts, so that the
 * server is asked and not a cache. A rename in a mount that did not make the file takes three requests, an unlink two: so
 * measure these without stat before them.
 *
 * 64 in flight over 1, 2, 4, 8, 16, 32 and 64 processes: 2 with 32 threads each are best for CephFS on the whole, on two cores that
 * they share with its servers. A client has one lock for all of its threads, and more clients cost the servers more. Medians of four
 * with 1, 2 and 4 processes, own directories: create 5,500, 6,300 and 5,900/s; rename 2,700, 4,400 and 4,800/s; unlink 2,900, 4,200
 * and 4,000/s; stat 18,200, 15,800 and 12,400/s (of three more: 9,300, 13,800 and 13,900/s).
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <cephfs/libcephfs.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <rados/librados.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A journal's segment: appends and writes go on in the next object behind it. */
#define SEGMENT (4u << 20)
#define MOST 1024

struct phase;

struct worker {
    unsigned number;
    uint64_t files;
    uint32_t *order; /* of its files, for stat */
    char renamed;
    /* of the last phase; in memory that is shared with the parent */
    struct tally {
        uint64_t start, end, errors;
        int first_error;
    } *tally;
    uint64_t *latency;
};

struct phase {
    const char *name;
    int (*call)(struct worker *, uint64_t at); /* 0 or more, or -errno */
    int fresh;                                 /* begins with mounts that know nothing */
};

static unsigned in_flight = 64, processes = 2, servers;
static uint64_t files = 20000, bytes = 4096;
static int shared;
static const char *conf, *pool;
static char base[64];
static const struct phase *chosen[16];
static unsigned phases;
static struct server {
    char name[32];
    pid_t pid[32];
    unsigned pids;
} server[8];
static pid_t child[MOST];

static pthread_barrier_t *everybody; /* all threads and the parent */
static struct tally *tallies;
static uint64_t *latencies;

/* of a client process */
static struct ceph_mount_info *mount;
static rados_t cluster;
static rados_ioctx_t io;
static char *block;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, rest);
    fputc('\n', stderr);
    va_end(rest);
    _exit(1);
}

static void must(int result, const char *what) {
    if (result < 0) die("%s: %s", what, strerror(-result));
}

static uint64_t now(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time)) return 0;
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* utime and stime of all threads, finer than /proc/PID/stat tells them. */
static uint64_t cpu_of(pid_t pid) {
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock)) die("no process %d", (int)pid);
    return now(clock);
}

static void *shared_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("no memory");
    return memory;
}

/* ---- what is measured ---- */

static void directory_of(char path[128], const struct worker *worker) {
    if (shared) snprintf(path, 128, "%s/shared", base);
    else snprintf(path, 128, "%s/d%04u", base, worker->number);
}

/* Names have 16 bytes. */
static const char *file_of(char path[256], const struct worker *worker, int renamed, uint64_t at) {
    char directory[128];
    directory_of(directory, worker);
    snprintf(path, 256, "%s/%c%04u.%010" PRIu64, directory, renamed ? 'r' : 'f', worker->number, at);
    return path;
}

static int create(struct worker *worker, uint64_t at) {
    char path[256];
    int file = ceph_open(mount, file_of(path, worker, 0, at), O_CREAT | O_EXCL | O_WRONLY, 0644);
    return file < 0 ? file : ceph_close(mount, file);
}

static int make_node(struct worker *worker, uint64_t at) {
    char path[256];
    return ceph_mknod(mount, file_of(path, worker, 0, at), S_IFREG | 0644, 0);
}

static int stat_random(struct worker *worker, uint64_t at) {
    char path[256];
    struct ceph_statx found;
    return ceph_statx(mount, file_of(path, worker, worker->renamed, worker->order[at]), &found, CEPH_STATX_BASIC_STATS, 0);
}

static int rename_file(struct worker *worker, uint64_t at) {
    char from[256], to[256];
    worker->renamed = 1;
    return ceph_rename(mount, file_of(from, worker, 0, at), file_of(to, worker, 1, at));
}

static int unlink_file(struct worker *worker, uint64_t at) {
    char path[256];
    return ceph_unlink(mount, file_of(path, worker, worker->renamed, at));
}

static const char *object_of(char name[64], const char *kind, const struct worker *worker, uint64_t at) {
    snprintf(name, 64, "%s.%u.%" PRIu64, kind, worker->number, at * bytes / SEGMENT);
    return name;
}

static int append(struct worker *worker, uint64_t at) {
    char name[64];
    return rados_append(io, object_of(name, "append", worker, at), block, bytes);
}

static int write_next(struct worker *worker, uint64_t at) {
    char name[64];
    return rados_write(io, object_of(name, "write", worker, at), block, bytes, at * bytes % SEGMENT);
}

static const struct phase of_cephfs[] = {
    {"create", create, 0},      {"mknod", make_node, 0},    {"stat", stat_random, 1},
    {"rename", rename_file, 0}, {"unlink", unlink_file, 0}, {NULL, NULL, 0},
};
static const struct phase of_rados[] = {{"append", append, 0}, {"write", write_next, 0}, {NULL, NULL, 0}};

/* ---- a client process ---- */

static void connect_client(void) {
    if (pool) {
        must(rados_create(&cluster, "admin"), "rados_create");
        must(rados_conf_read_file(cluster, conf), conf);
        must(rados_conf_set(cluster, "log_file", ""), "log_file");
        must(rados_connect(cluster), "rados_connect");
        must(rados_ioctx_create(cluster, pool, &io), pool);
    } else {
        must(ceph_create(&mount, "admin"), "ceph_create");
        must(ceph_conf_read_file(mount, conf), conf);
        must(ceph_conf_set(mount, "log_file", ""), "log_file");
        must(ceph_mount(mount, "/"), "ceph_mount");
    }
}

static void disconnect_client(void) {
    if (pool) {
        rados_ioctx_destroy(io);
        rados_shutdown(cluster);
    } else {
        must(ceph_unmount(mount), "ceph_unmount");
        ceph_release(mount);
    }
}

static void run_phase(struct worker *worker, const struct phase *phase) {
    struct tally *tally = worker->tally;
    uint64_t before, after = now(CLOCK_MONOTONIC);
    *tally = (struct tally){.start = after};
    for (uint64_t at = 0; at < worker->files; at++) {
        int result = phase->call(worker, at);
        before = after;
        after = now(CLOCK_MONOTONIC);
        worker->latency[at] = after - before;
        if (result < 0 && !tally->errors++) tally->first_error = -result;
    }
    tally->end = after;
}

static void *work(void *argument) {
    struct worker *worker = argument;
    int leads = worker->number % (in_flight / processes) == 0;
    for (unsigned at = 0; at < phases; at++) {
        /* All of this process wait at the barrier, or have not begun. */
        if (leads && chosen[at]->fresh) {
            disconnect_client();
            connect_client();
        }
        pthread_barrier_wait(everybody);
        pthread_barrier_wait(everybody); /* meanwhile the parent looks at the clocks */
        run_phase(worker, chosen[at]);
        pthread_barrier_wait(everybody);
        pthread_barrier_wait(everybody);
    }
    return NULL;
}

static void make_directory(const char *path) {
    int result = ceph_mkdir(mount, path, 0755);
    if (result != -EEXIST) must(result, path);
}

static void shuffle(struct worker *worker) {
    uint64_t state = worker->number;
    if (!(worker->order = malloc(sizeof(uint32_t) * (worker->files + 1)))) die("no memory");
    for (uint64_t at = 0; at < worker->files; at++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        uint64_t other = (state >> 33) % (at + 1);
        worker->order[at] = worker->order[other];
        worker->order[other] = at;
    }
}

static void client(unsigned process) {
    unsigned threads = in_flight / processes;
    struct worker worker[threads];
    pthread_t thread[threads];
    if (!(block = calloc(1, bytes))) die("no memory");
    connect_client();
    if (!pool) make_directory(base);
    for (unsigned at = 0; at < threads; at++) {
        unsigned number = process * threads + at;
        char path[128];
        worker[at] = (struct worker){.number = number, .files = files / in_flight, .tally = &tallies[number]};
        worker[at].latency = latencies + number * (files / in_flight);
        shuffle(&worker[at]);
        directory_of(path, &worker[at]);
        if (!pool) make_directory(path);
    }
    for (unsigned at = 0; at < threads; at++)
        if (pthread_create(&thread[at], NULL, work, &worker[at])) die("no thread");
    for (unsigned at = 0; at < threads; at++) pthread_join(thread[at], NULL);
    disconnect_client();
    _exit(0);
}

/* ---- the parent ---- */

/* The others would wait at the barrier for ever for a client that has ended. */
static void on_child(int signal) {
    int status;
    (void)signal;
    for (unsigned at = 0; at < processes; at++)
        if (child[at] > 0 && waitpid(child[at], &status, WNOHANG) == child[at]) {
            child[at] = 0;
            if (status) {
                for (unsigned other = 0; other < processes; other++)
                    if (child[other] > 0) kill(child[other], SIGKILL);
                _exit(1);
            }
        }
}

static int by_size(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static void report(const struct phase *phase, uint64_t client_cpu, const uint64_t *server_cpu) {
    uint64_t ops = files / in_flight * in_flight, start = UINT64_MAX, end = 0, errors = 0;
    int first_error = 0;
    for (unsigned at = 0; at < in_flight; at++) {
        struct tally *tally = &tallies[at];
        if (tally->start < start) start = tally->start;
        if (tally->end > end) end = tally->end;
        errors += tally->errors;
        if (tally->first_error) first_error = tally->first_error;
    }
    if (errors) fprintf(stderr, "%s: %" PRIu64 " errors, one of them: %s\n", phase->name, errors, strerror(first_error));
    qsort(latencies, ops, sizeof *latencies, by_size);
    double seconds = (end - start) / 1e9, us = 1e-3 / ops;
    printf("{\"phase\":\"%s\",\"directories\":\"%s\",\"in_flight\":%u,\"processes\":%u,\"ops\":%" PRIu64 ",\"errors\":%" PRIu64
           ",\"seconds\":%.3f,\"ops_per_s\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"client_cpu_us_per_op\":%.2f",
           phase->name, shared ? "shared" : "own", in_flight, processes, ops, errors, seconds, ops / seconds,
           latencies[ops / 2] / 1e3, latencies[ops * 99 / 100] / 1e3, client_cpu * us);
    for (unsigned at = 0; at < servers; at++) printf(",\"%s_cpu_us_per_op\":%.2f", server[at].name, server_cpu[at] * us);
    puts("}");
    fflush(stdout);
}

static uint64_t cpu_of_all(const pid_t *pid, unsigned count) {
    uint64_t all = 0;
    for (unsigned at = 0; at < count; at++) all += cpu_of(pid[at]);
    return all;
}

static void watch(const struct phase *phase) {
    uint64_t client_cpu, server_cpu[8];
    pthread_barrier_wait(everybody);
    for (unsigned at = 0; at < servers; at++) server_cpu[at] = cpu_of_all(server[at].pid, server[at].pids);
    client_cpu = cpu_of_all(child, processes);
    pthread_barrier_wait(everybody);
    pthread_barrier_wait(everybody);
    client_cpu = cpu_of_all(child, processes) - client_cpu;
    for (unsigned at = 0; at < servers; at++) server_cpu[at] = cpu_of_all(server[at].pid, server[at].pids) - server_cpu[at];
    report(phase, client_cpu, server_cpu);
    pthread_barrier_wait(everybody);
}

static void choose(char *list) {
    for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
        const struct phase *phase = pool ? of_rados : of_cephfs;
        while (phase->name && strcmp(phase->name, name)) phase++;
        if (!phase->name || phases == 16) die("unknown phase '%s', or too many", name);
        chosen[phases++] = phase;
    }
}

static void add_server(const char *text) {
    const char *is = strchr(text, '=');
    unsigned at = 0;
    if (!is || is - text > 31) die("--pid NAME=PID");
    while (at < servers && (strncmp(server[at].name, text, is - text) || server[at].name[is - text])) at++;
    if (at == 8 || server[at].pids == 32) die("too many --pid");
    if (at == servers) memcpy(server[servers++].name, text, is - text);
    server[at].pid[server[at].pids++] = atoi(is + 1);
    cpu_of(atoi(is + 1));
}

static void arguments(int count, char **words) {
    static const struct option known[] = {
        {"in-flight", 1, 0, 'k'}, {"processes", 1, 0, 'p'}, {"files", 1, 0, 'n'}, {"phases", 1, 0, 'w'}, {"shared", 0, 0, 's'},
        {"pid", 1, 0, 'c'},       {"pool", 1, 0, 'o'},      {"bytes", 1, 0, 'b'}, {0, 0, 0, 0},
    };
    char *list = NULL;
    for (int option; (option = getopt_long(count, words, "", known, NULL)) != -1;) switch (option) {
        case 'k': in_flight = atoi(optarg); break;
        case 'p': processes = atoi(optarg); break;
        case 'n': files = strtoull(optarg, NULL, 10); break;
        case 'w': list = optarg; break;
        case 's': shared = 1; break;
        case 'c': add_server(optarg); break;
        case 'o': pool = optarg; break;
        case 'b': bytes = strtoull(optarg, NULL, 10); break;
        default: die("see the usage at the head of cephfs.c");
        }
    if (optind + 1 != count) die("one configuration file is needed: cephfs CONF [OPTIONS]");
    conf = words[optind];
    if (!processes || processes > MOST || !in_flight || in_flight > MOST || in_flight % processes)
        die("--in-flight is a multiple of --processes, both from 1 to %d", MOST);
    if (files < in_flight || files > UINT32_MAX || !bytes || bytes > SEGMENT || SEGMENT % bytes)
        die("too few or too many --files, or --bytes is no divisor of %u", SEGMENT);
    choose(strdup(list ? list : pool ? "append,write" : "create,rename,unlink"));
}

int main(int count, char **words) {
    arguments(count, words);
    snprintf(base, sizeof base, "/bench.%d", (int)getpid());
    pthread_barrierattr_t between_processes;
    pthread_barrierattr_init(&between_processes);
    pthread_barrierattr_setpshared(&between_processes, PTHREAD_PROCESS_SHARED);
    everybody = shared_memory(sizeof *everybody);
    pthread_barrier_init(everybody, &between_processes, in_flight + 1);
    tallies = shared_memory(sizeof *tallies * in_flight);
    latencies = shared_memory(sizeof *latencies * files);
    /* Before the libraries have any threads: those would not be there after a fork. */
    struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
    sigaction(SIGCHLD, &action, NULL);
    for (unsigned at = 0; at < processes; at++) {
        if ((child[at] = fork()) < 0) die("fork: %s", strerror(errno));
        if (!child[at]) {
            signal(SIGCHLD, SIG_DFL);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            client(at);
        }
    }
    for (unsigned at = 0; at < phases; at++) watch(chosen[at]);
    for (unsigned at = 0; at < processes; at++)
        while (child[at] > 0 && waitpid(child[at], NULL, 0) < 0 && errno == EINTR) continue;
    return 0;
}
