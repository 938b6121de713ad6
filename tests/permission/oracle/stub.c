/* Stands for any program: writes down how it was started, then does what its name needs for the script to go on. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

extern char **environ;

static const char *last(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* One record: the number of words, the name that was executed, then the words; each ended by a NUL, in one write. */
static void record(const char *name, int argc, char **argv) {
    size_t size = strlen(name) + 32;
    for (int i = 0; i < argc; i++) size += strlen(argv[i]) + 1;
    char *text = malloc(size), *at = text;
    at += sprintf(at, "%d", argc) + 1;
    at = stpcpy(at, name) + 1;
    for (int i = 0; i < argc; i++) at = stpcpy(at, argv[i]) + 1;
    int log = open("/log/started", O_WRONLY | O_APPEND | O_CLOEXEC);
    if (log < 0 || write(log, text, at - text) < 0) _exit(99);
    close(log);
    free(text);
}

static void copy(int from) {
    char block[4096];
    ssize_t size;
    while ((size = read(from, block, sizeof block)) > 0)
        if (write(1, block, size) < 0) break;
}

static int cat(int argc, char **argv) {
    int files = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1]) continue;
        files++;
        int file = strcmp(argv[i], "-") ? open(argv[i], O_RDONLY) : dup(0);
        if (file < 0) { failed = 1; continue; }
        copy(file);
        close(file);
    }
    if (!files) copy(0);
    return failed;
}

static int echo(int argc, char **argv) {
    char text[4096];
    size_t size = 0;
    for (int i = 1; i < argc && size + strlen(argv[i]) + 2 < sizeof text; i++)
        size += sprintf(text + size, "%s%s", i > 1 ? " " : "", argv[i]);
    text[size++] = '\n';
    return write(1, text, size) < 0;
}

/* sudo, doas: skip the options and assignments, and start the rest. */
static int elevated(char **argv) {
    static const char *const with_value[] = {"-u", "-g", "-C", "-p", "-h", "-D", "-R", "-T", "-U", 0};
    for (argv++; *argv; argv++) {
        if (!strcmp(*argv, "--")) { argv++; break; }
        if (strchr(*argv, '=') && **argv != '-' && **argv != '/') { putenv(*argv); continue; }
        if (**argv != '-' || !(*argv)[1]) break;
        if (!strcmp(*argv, "-D") && argv[1] && chdir(argv[1])) return 1;
        if (strchr("lvkK", (*argv)[1])) return 0;
        for (int i = 0; with_value[i]; i++)
            if (!strcmp(*argv, with_value[i]) && argv[1]) { argv++; break; }
    }
    if (!*argv) return 1;
    execvp(*argv, argv);
    return 127;
}

/* ssh: the words after the host are one script. */
static int remote(char **argv) {
    for (argv++; *argv && **argv == '-'; argv++)
        if ((*argv)[1] && strchr("piloFLRDJWbcEeIkmOQSwB", (*argv)[1]) && !(*argv)[2] && argv[1]) argv++;
    if (!*argv || !argv[1]) return 0;
    char text[8192] = "";
    for (argv++; *argv; argv++) {
        strncat(text, *argv, sizeof text - strlen(text) - 2);
        if (argv[1]) strncat(text, " ", sizeof text - strlen(text) - 2);
    }
    char *line[] = {"sh", "-c", text, 0};
    execv("/wrapped/sh", line);
    return 127;
}

int main(int argc, char **argv) {
    char exe[4096], real[4200];
    ssize_t size = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (size < 0) return 98;
    exe[size] = 0;
    const char *me = last(exe);
    const char *path = (const char *)getauxval(AT_EXECFN);
    /* A script with #! is started under its own name, which stands behind its interpreter. */
    int skipped = 0;
    if (path && *path && strcmp(last(path), me))
        while (skipped < argc && strcmp(argv[skipped], path)) skipped++;
    if (skipped == argc) skipped = 0;
    record(path && *path ? last(path) : me, argc - skipped, argv + skipped);
    snprintf(real, sizeof real, "/wrapped/%s", me);
    execv(real, argv);
    if (errno != ENOENT) return 126;
    if (!strcmp(me, "cat") || !strcmp(me, "tee")) return me[0] == 'c' ? cat(argc, argv) : cat(1, argv);
    if (!strcmp(me, "echo")) return echo(argc, argv);
    if (!strcmp(me, "true") || !strcmp(me, "sleep")) return 0;
    if (!strcmp(me, "false")) return 1;
    if (!strcmp(me, "sudo") || !strcmp(me, "doas")) return elevated(argv);
    if (!strcmp(me, "ssh")) return remote(argv);
    /* What a program prints is unknown to who reads the script; it is what would hurt most where it is used. */
    unsigned hash = 5381;
    for (int i = 0; i < argc; i++)
        for (const char *c = i ? argv[i] : me; *c; c++) hash = hash * 33 + (unsigned char)*c;
    char text[512];
    switch ((hash >> 4) % 3) {
    case 0: snprintf(text, sizeof text, "victim from-%.99s\n", me); break;
    case 1: snprintf(text, sizeof text, "a[$(victim from-%.99s)]\n", me); break;
    default: snprintf(text, sizeof text, "3\n"); break;
    }
    if (write(1, text, strlen(text)) < 0) return 1;
    return hash % 4 == 0;
}
