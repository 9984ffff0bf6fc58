/*
 * Logs the TCP connections that a process opens and closes, with the thread that did it.
 *
 * Preloaded; writes one line per event to $LAB_SHIM_LOG:
 *
 *     open <tag> <fd> <local> <remote> <thread name>     also if the attempt fails at once
 *     shut <fd>
 *
 * The tag tells several clients of one process apart: a thread has the tag that
 * lab_set_tag() gave it, or the one of the thread that created it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <threads.h>
#include <unistd.h>

#define MAX_FD 65536

struct start {
    void *(*run)(void *);
    int (*run_c11)(void *);
    void *argument;
    int tag;
};

static __thread int tag;
static volatile char open_fd[MAX_FD];
static int log_fd = -1;
static int (*real_connect)(int, const struct sockaddr *, socklen_t);
static int (*real_close)(int);
static int (*real_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int (*real_thrd_create)(thrd_t *, thrd_start_t, void *);

__attribute__((constructor)) static void prepare(void) {
    const char *path = getenv("LAB_SHIM_LOG");
    real_connect = dlsym(RTLD_NEXT, "connect");
    real_close = dlsym(RTLD_NEXT, "close");
    real_pthread_create = dlsym(RTLD_NEXT, "pthread_create");
    real_thrd_create = dlsym(RTLD_NEXT, "thrd_create");
    if (path != NULL)
        log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

void lab_set_tag(int value) { tag = value; }

static struct start *start_of(void *argument) {
    struct start *start = calloc(1, sizeof(*start));
    if (start != NULL) {
        start->argument = argument;
        start->tag = tag;
    }
    return start;
}

static struct start begin(void *opaque) {
    struct start start = *(struct start *)opaque;
    free(opaque);
    tag = start.tag;
    return start;
}

static void *run_tagged(void *opaque) {
    struct start start = begin(opaque);
    return start.run(start.argument);
}

static int run_tagged_c11(void *opaque) {
    struct start start = begin(opaque);
    return start.run_c11(start.argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument) {
    struct start *start = start_of(argument);
    int code;
    if (start == NULL)
        return EAGAIN;
    start->run = run;
    code = real_pthread_create(thread, attributes, run_tagged, start);
    if (code != 0)
        free(start);
    return code;
}

/* librdkafka uses C11 threads where the C library has them; those bypass pthread_create(). */
int thrd_create(thrd_t *thread, thrd_start_t run, void *argument) {
    struct start *start = start_of(argument);
    int code;
    if (start == NULL)
        return thrd_nomem;
    start->run_c11 = run;
    code = real_thrd_create(thread, run_tagged_c11, start);
    if (code != thrd_success)
        free(start);
    return code;
}

static void describe(const struct sockaddr *address, char *text, size_t size) {
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
        snprintf(text, size, "%s:%d", host, ntohs(four->sin_port));
    } else {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
        snprintf(text, size, "[%s]:%d", host, ntohs(six->sin6_port));
    }
}

/* One write per line: lines of several threads must not mix. */
static void write_line(const char *line, int length) {
    ssize_t written = write(log_fd, line, (size_t)length);
    (void)written;
}

static void log_open(int fd, const struct sockaddr *remote) {
    struct sockaddr_storage local;
    socklen_t length = sizeof(local);
    char from[80] = "?", to[80], name[32] = "?", line[256];
    if (getsockname(fd, (struct sockaddr *)&local, &length) == 0)
        describe((struct sockaddr *)&local, from, sizeof(from));
    describe(remote, to, sizeof(to));
    pthread_getname_np(pthread_self(), name, sizeof(name));
    write_line(line, snprintf(line, sizeof(line), "open %d %d %s %s %s\n", tag, fd, from, to, name));
    if (fd >= 0 && fd < MAX_FD)
        open_fd[fd] = 1;
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    int code = real_connect(fd, address, length);
    int error = errno;
    if (log_fd >= 0 && (address->sa_family == AF_INET || address->sa_family == AF_INET6))
        log_open(fd, address);
    errno = error;
    return code;
}

/* Logged before the call: afterwards another thread may already have the same descriptor. */
int close(int fd) {
    char line[32];
    if (fd >= 0 && fd < MAX_FD && open_fd[fd]) {
        open_fd[fd] = 0;
        write_line(line, snprintf(line, sizeof(line), "shut %d\n", fd));
    }
    return real_close(fd);
}
