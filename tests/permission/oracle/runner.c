/* Runs scripts one after the other inside of the sandbox, as its first process, and tells what each did.
 *
 * On standard input: the size of a script as a line, then the script. On standard output, for each: how it ended
 * (exit code, 128 + signal, or -1: it took too long), three sizes, and three texts: what the stubs recorded,
 * the files that were written (each ended by a NUL), and what the script printed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WATCHES = 256, TEXT = 1 << 20 };
static char *watched[WATCHES];
static int notices;
static char *const environment[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/dev", "USER=dev", "LOGNAME=dev", "LANG=C.UTF-8",
    "TERM=dumb", "SHELL=/bin/bash", "PWD=/home/dev/project", "GIT_CONFIG_NOSYSTEM=1", "FUNCNEST=20", 0};

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void copy_file(const char *from, const char *to) {
    char block[65536], link[4096];
    struct stat about;
    if (lstat(from, &about)) fail(from);
    unlink(to);
    if (S_ISLNK(about.st_mode)) {
        ssize_t size = readlink(from, link, sizeof link - 1);
        link[size < 0 ? 0 : size] = 0;
        if (symlink(link, to)) fail(to);
        return;
    }
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, about.st_mode & 0777);
    if (in < 0 || out < 0) fail(to);
    ssize_t size;
    while ((size = read(in, block, sizeof block)) > 0)
        if (write(out, block, size) != size) fail(to);
    close(in);
    close(out);
}

static int put(const char *path, const struct stat *about, int kind, struct FTW *where) {
    (void)about, (void)where;
    const char *to = path + strlen("/fixture");
    if (kind != FTW_D) copy_file(path, to);
    else if (*to) mkdir(to, 0755);
    return 0;
}

static int watch(const char *path) {
    int number = inotify_add_watch(notices, path, IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR);
    if (number < 0 || number >= WATCHES) fail(path);
    free(watched[number]);
    watched[number] = strdup(path);
    return number;
}

static int watch_folder(const char *path, const struct stat *about, int kind, struct FTW *where) {
    (void)about, (void)where;
    if (kind == FTW_D) watch(path[strlen("/fixture")] ? path + strlen("/fixture") : "/");
    return 0;
}

static int throw_away(const char *path, const struct stat *about, int kind, struct FTW *where) {
    (void)about, (void)kind, (void)where;
    return remove(path);
}

/* Put the file back as it was, or remove what was not there. */
static void restore(const char *path) {
    char from[8192];
    struct stat about;
    snprintf(from, sizeof from, "/fixture%s", path);
    if (lstat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        if (access(from, F_OK)) nftw(path, throw_away, 16, FTW_DEPTH | FTW_PHYS);
    } else if (lstat(from, &about)) unlink(path);
    else if (S_ISDIR(about.st_mode)) {
        unlink(path);
        nftw(from, put, 16, FTW_PHYS);
    } else copy_file(from, path);
}

/* Gather the paths that were written since the last time, and restore them. */
static size_t written(char *text) {
    static char block[1 << 20] __attribute__((aligned(__alignof__(struct inotify_event))));
    static char seen[TEXT];
    size_t size = 0, all = 0;
    ssize_t got;
    while ((got = read(notices, block, sizeof block)) > 0)
        for (char *at = block; at < block + got;) {
            struct inotify_event *event = (struct inotify_event *)at;
            at += sizeof *event + event->len;
            if (event->wd < 0 || !event->len) continue;
            char path[8192];
            size_t long_is = snprintf(path, sizeof path, "%s/%s", strcmp(watched[event->wd], "/") ? watched[event->wd] : "", event->name) + 1;
            if (!strncmp(path, "/tmp/sh-thd.", 12) || !strncmp(path, "/log", 4)) continue;
            if (all + long_is < TEXT) all += (memcpy(seen + all, path, long_is), long_is);
            if ((event->mask & IN_CLOSE_WRITE) && size + long_is < TEXT) size += (memcpy(text + size, path, long_is), long_is);
        }
    for (size_t at = 0; at < all; at += strlen(seen + at) + 1) restore(seen + at);
    if (all)
        while (read(notices, block, sizeof block) > 0) continue;
    return size;
}

static int run(char *script, double limit) {
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
        setsid();
        setrlimit(RLIMIT_NPROC, &(struct rlimit){400, 400});
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 20, 1 << 20});
        int in = open("/dev/null", O_RDONLY), out = open("/log/printed", O_WRONLY | O_APPEND);
        if (in < 0 || out < 0 || chdir("/home/dev/project")) fail("child");
        dup2(in, 0), dup2(out, 1), dup2(out, 2);
        close_range(3, ~0U, 0);
        signal(SIGCHLD, SIG_DFL);
        signal(SIGPIPE, SIG_DFL);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, 0);
        char *argv[] = {"bash", "--noprofile", "--norc", "-c", script, 0};
        execve("/wrapped/bash", argv, environment);
        _exit(125);
    }
    int how = -1, killed = 0;
    double until = now() + limit;
    for (;;) {
        int status;
        pid_t ended = waitpid(-1, &status, WNOHANG);
        if (ended == child) {
            how = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            if (!killed) until = now() + 0.5; /* what runs on in the background */
        }
        if (ended > 0) continue;
        if (ended < 0 && errno == ECHILD) break;
        double left = until - now();
        if (left <= 0 && !killed) {
            kill(-1, SIGKILL);
            if (how < 0) how = -2;
            killed = 1;
        }
        struct timespec wait = {0, killed || left > 0.05 ? 50000000 : 1000000};
        sigset_t child_ended;
        sigemptyset(&child_ended);
        sigaddset(&child_ended, SIGCHLD);
        sigtimedwait(&child_ended, 0, &wait);
    }
    return killed && how == -2 ? -1 : killed && how == 128 + SIGKILL ? -1 : how;
}

static size_t take(const char *path, char *text) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    size_t size = 0;
    ssize_t got;
    while (size < TEXT && (got = read(file, text + size, TEXT - size)) > 0) size += got;
    if (file < 0 || ftruncate(file, 0)) fail(path);
    close(file);
    return size;
}

int main(int argc, char **argv) {
    static char started[TEXT], files[TEXT], printed[TEXT];
    double limit = argc > 1 ? atof(argv[1]) : 2;
    sigset_t child_ended;
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, 0);
    signal(SIGPIPE, SIG_IGN);
    notices = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (notices < 0) fail("inotify");
    if (nftw("/fixture", put, 16, FTW_PHYS)) fail("fixture");
    if (nftw("/fixture", watch_folder, 16, FTW_PHYS)) fail("watches");
    close(open("/log/started", O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    close(open("/log/printed", O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    written(files);
    size_t size;
    while (scanf("%zu", &size) == 1 && getchar() == '\n') {
        char *script = calloc(size + 1, 1);
        if (fread(script, 1, size, stdin) != size) return 1;
        int how = run(script, limit);
        free(script);
        size_t a = take("/log/started", started), b = written(files), c = take("/log/printed", printed);
        printf("%d %zu %zu %zu\n", how, a, b, c);
        fwrite(started, 1, a, stdout);
        fwrite(files, 1, b, stdout);
        fwrite(printed, 1, c, stdout);
        fflush(stdout);
    }
    return 0;
}
