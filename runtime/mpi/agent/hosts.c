#include "agent/hosts.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/run_layout.h"

#define SHELL "/bin/sh"
#define LOOK                                                                                                                \
    "if [ -e \"$" PRELOAD_VARIABLE "\" ]; then "                                                                            \
    "export LD_PRELOAD=\"$" PRELOAD_VARIABLE "${LD_PRELOAD:+:$LD_PRELOAD}\"; fi; exec \"$@\""
#define FORWARDED "OMPI_MCA_mca_base_env_list"
#define MOST 64 /* programs, and options that name hosts, of one launch */
#define ADDED 4 /* words before each program */

extern char **environ;

static const char launchers[] =
    "mpirun mpiexec orterun prterun mpiexec.hydra mpirun.openmpi mpiexec.openmpi mpirun.mpich mpiexec.mpich";

/* Options of launchers, by how many words they have with their values. */
static const char of_hosts[] = "H host hosts";
static const char of_host_files[] = "hostfile machinefile f default-hostfile machine";
static const char with_value[] =
    "n np c N ppn perhost npernode npersocket launcher launcher-exec bootstrap bootstrap-exec rmk iface bind-to map-by "
    "rank-by cpu-list cpu-set slot-list cpus-per-proc cpus-per-rank rankfile rf rankmap wd wdir path prefix x timeout "
    "spawn-timeout output output-filename output-directory display report-pid report-uri report-events stdin "
    "stream-buffering tune am personality launch-agent max-restarts max-vm-size runtime-options with-ft gpu-support "
    "memory-alloc-kinds preload-files forward-signals wait-to-connect xterm ompi-server envlist genvlist usize demux topolib "
    "membind localhost nameserver errfile-pattern outfile-pattern prepend-pattern gpus-per-proc order-nodes";
static const char with_two_values[] = "mca gmca pmca omca prtemca pmixmca gpmixmca env genv";
static const char alone[] =
    "allow-run-as-root oversubscribe nooversubscribe nolocal use-hwthread-cpus use-hwthreads-as-cpus report-bindings "
    "display-map display-devel-map display-allocation display-topo display-comm display-comm-finalize tag-output "
    "timestamp-output xml parsable parseable merge-stderr-to-stdout prepend-rank l q quiet v verbose d debug-devel "
    "debug-daemons debug-daemons-file leave-session-attached get-stack-traces report-state-on-timeout "
    "report-child-jobs-separately enable-recovery continuous index-argv-by-rank preload-binary noprefix do-not-resolve "
    "do-not-launch set-cwd-to-session-dir show-progress novm pernode bynode byslot bycore bysocket bind-to-core "
    "bind-to-socket bind-to-none genvall genvnone envall envnone enable-x disable-x disable-auto-cleanup "
    "disable-hostname-propagation hybrid-hosts pmi-port print-all-exitcodes print-rank-map profile skip-launch-node";

/* By what the environment says that a launcher has several hosts, which its words do not name. */
static const char *const allocations[] = {"HYDRA_HOST_FILE",   "PBS_NODEFILE", "LSB_HOSTS",
                                          "LSB_DJOB_HOSTFILE", "PE_HOSTFILE",  "OAR_NODEFILE", NULL};
static const char *const node_counts[] = {"SLURM_JOB_NUM_NODES", "SLURM_NNODES", NULL};

/* What the words of a launcher say. */
typedef struct {
    int programs[MOST];       /* where they stand */
    const char *hosts[MOST];  /* values of the options that name hosts */
    bool are_files[MOST];     /* which of these name files that list them */
    int program_count, host_count;
    const char *unknown; /* the first word that is not understood, NULL if there is none */
} launch;

static bool lists(const char *list, const char *name, size_t size)
{
    for (const char *at = list; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (length == size && strncmp(at, name, size) == 0) {
            return true;
        }
        at += length;
    }
    return false;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* How many words an option has, 0 where it is not known. */
static int size_of(const char *word)
{
    const char *name = word + strspn(word, "-");
    size_t size = strcspn(name, "=");
    if (lists(with_two_values, name, size)) {
        return 3;
    }
    if (lists(with_value, name, size) || lists(of_hosts, name, size) || lists(of_host_files, name, size)) {
        return name[size] ? 1 : 2;
    }
    return lists(alone, name, size) ? 1 : 0;
}

static void take_hosts(launch *found, const char *word, const char *next)
{
    const char *name = word + strspn(word, "-");
    size_t size = strcspn(name, "=");
    bool is_file = lists(of_host_files, name, size);
    if ((is_file || lists(of_hosts, name, size)) && found->host_count < MOST) {
        found->are_files[found->host_count] = is_file;
        found->hosts[found->host_count++] = name[size] ? name + size + 1 : next ? next : "";
    }
}

static bool is_executable(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/* Whether a program is found as a shell finds it. Where it is not, the launcher itself says so best. */
static bool is_found(const char *program)
{
    char path[PATH_MAX];
    const char *folders = getenv("PATH");
    if (strchr(program, '/')) {
        return is_executable(program);
    }
    for (const char *at = folders ? folders : ""; *at; at += *at == ':') {
        int size = (int)strcspn(at, ":");
        if (snprintf(path, sizeof path, "%.*s/%s", size, at, program) < (int)sizeof path && is_executable(path)) {
            return true;
        }
        at += size;
    }
    return false;
}

static bool is_colon(const char *word)
{
    return strcmp(word, ":") == 0;
}

/* The words of an option that is not known: a word behind it that is no program is its value. */
static int size_of_unknown(const char *next)
{
    return next == NULL || next[0] == '-' || is_colon(next) || is_found(next) ? 1 : 2;
}

/* Passes over the options of a part; returns where its program should stand. */
static int read_options(launch *found, int at, int count, char *const *words)
{
    while (at < count && words[at][0] == '-') {
        int size = size_of(words[at]);
        take_hosts(found, words[at], words[at + 1]);
        if (size == 0 && found->unknown == NULL) {
            found->unknown = words[at];
        }
        at += size ? size : size_of_unknown(words[at + 1]);
    }
    return at;
}

/* Each part between colons is options, a program, and its arguments. */
static launch read_words(int count, char *const *words)
{
    launch found = {.unknown = NULL};
    for (int at = 1; at < count && found.unknown == NULL; at++) {
        at = read_options(&found, at, count, words);
        if (found.unknown) {
            break;
        }
        if (at >= count || is_colon(words[at]) || found.program_count == MOST || !is_found(words[at])) {
            found.unknown = words[at < count ? at : count - 1];
            break;
        }
        found.programs[found.program_count++] = at;
        while (at < count && !is_colon(words[at])) {
            at++;
        }
    }
    return found;
}

static bool has_several_hosts(void)
{
    for (const char *const *name = allocations; *name; name++) {
        if (getenv(*name)) {
            return true;
        }
    }
    for (const char *const *name = node_counts; *name; name++) {
        const char *size = getenv(*name);
        if (size && atoi(size) > 1) {
            return true;
        }
    }
    return false;
}

/* ---- what the run folder is to say ---- */

static FILE *file_in_run(const char *folder, const char *end)
{
    char path[PATH_MAX], host[256];
    const char *run = getenv(RUN_VARIABLE);
    if (run == NULL || *run == 0 || gethostname(host, sizeof host) != 0) {
        return NULL;
    }
    snprintf(path, sizeof path, "%s/%s", run, folder);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s-%d-0%s", run, folder, host, (int)getpid(), end);
    return fopen(path, "we");
}

static void write_host(FILE *file, const char *name, size_t size)
{
    char here[256] = "";
    size_t length = strcspn(name, ":");
    length = length < size ? length : size;
    gethostname(here, sizeof here);
    bool is_here = (strlen(here) == length && strncmp(here, name, length) == 0) || lists("localhost 127.0.0.1", name, length);
    if (length && name[0] != '+' && !is_here) {
        fprintf(file, "%.*s\n", (int)length, name);
    }
}

static void write_listed(FILE *file, const char *path)
{
    char line[1024];
    FILE *hosts = fopen(path, "re");
    while (hosts && fgets(line, sizeof line, hosts)) {
        const char *name = line + strspn(line, " \t");
        write_host(file, name, strcspn(name, "# \t\r\n"));
    }
    if (hosts) {
        fclose(hosts);
    }
}

/* Leaves in the run folder where else ranks may have been started. */
static void note_hosts(const launch *found)
{
    FILE *file = found->host_count ? file_in_run(RUN_LAUNCHES, "") : NULL;
    for (int i = 0; file && i < found->host_count; i++) {
        const char *value = found->hosts[i];
        if (found->are_files[i]) {
            write_listed(file, value);
            continue;
        }
        for (const char *at = value; *at; at += *at == ',') {
            write_host(file, at, strcspn(at, ","));
            at += strcspn(at, ",");
        }
    }
    if (file) {
        fclose(file);
    }
}

static void note_unknown(const char *launcher, const char *word)
{
    FILE *file = file_in_run(RUN_RECORDS, RUN_NOTE_END);
    if (file) {
        fprintf(file,
                "MPI calls of ranks that %s started on several hosts are not recorded: scalana does not understand %s in its "
                "command (docs/hosts.md)\n",
                launcher, word);
        fclose(file);
    }
}

/* ---- the launcher again ---- */

/* The parts of a list but for those that are one of ours, which are replaced; NULL where there is none of ours. */
static char *replaced(const char *list, char delimiter, const char *own, const char *instead)
{
    char separators[] = {delimiter, 0}, *made = calloc(1, strlen(list) + strlen(instead) + 2), *end = made;
    bool is_there = false;
    for (const char *at = list; made && *at; at += *at == delimiter) {
        size_t size = strcspn(at, separators), length = strlen(own);
        bool is_own = size >= length && strncmp(at, own, length) == 0 && (size == length || at[length] == '=');
        const char *part = is_own ? instead : at;
        size_t part_size = is_own ? strlen(instead) : size;
        if (part_size && !(is_own && is_there)) {
            end += sprintf(end, "%s%.*s", end == made ? "" : separators, (int)part_size, part);
        }
        is_there |= is_own;
        at += size;
    }
    if (made && !is_there) {
        free(made);
        made = NULL;
    }
    return made;
}

/* The environment without the recorder, which is named for ranks to look for. */
static bool change_environment(const char *recorder, const char *preloaded, bool is_known)
{
    const char *forwarded = getenv(FORWARDED), *delimiter = getenv(FORWARDED "_delimiter");
    char *others = replaced(preloaded, ':', recorder, ""), *named = NULL, *list = NULL;
    if (others == NULL) {
        return false;
    }
    char between = delimiter && *delimiter ? *delimiter : ';';
    const char *rest = *others ? others : NULL;
    if (asprintf(&named, "%s%s%c%s%s", is_known ? PRELOAD_VARIABLE "=" : "", is_known ? recorder : "", between,
                 rest ? "LD_PRELOAD=" : "", rest ? rest : "") < 0) {
        return false;
    }
    if (named[strlen(named) - 1] == between) {
        named[strlen(named) - 1] = 0;
    }
    list = forwarded ? replaced(forwarded, between, "LD_PRELOAD", named[0] == between ? named + 1 : named) : NULL;
    if (list) {
        setenv(FORWARDED, list, 1);
    }
    if (is_known) {
        setenv(PRELOAD_VARIABLE, recorder, 1);
    }
    return (rest ? setenv("LD_PRELOAD", rest, 1) : unsetenv("LD_PRELOAD")) == 0;
}

/* The words, with a shell before each program. */
static char **through_shell(const launch *found, int count, char *const *words)
{
    static char shell[] = SHELL, command[] = "-c", look[] = LOOK;
    char **made = calloc((size_t)(count + ADDED * found->program_count + 1), sizeof *made);
    int end = 0, next = 0;
    for (int at = 0; made && at < count; at++) {
        if (found->unknown == NULL && next < found->program_count && found->programs[next] == at) {
            char *const before[ADDED] = {shell, command, look, shell};
            memcpy(made + end, before, sizeof before);
            end += ADDED;
            next++;
        }
        made[end++] = words[at];
    }
    return made;
}

void hosts_begin(int count, char *const *words)
{
    const char *path = (const char *)getauxval(AT_EXECFN), *preloaded = getenv("LD_PRELOAD");
    Dl_info own;
    if (path == NULL || preloaded == NULL || count < 2 || strcmp(base_name(path), base_name(words[0])) != 0 ||
        !lists(launchers, base_name(path), strlen(base_name(path)))) {
        return;
    }
    for (int at = 1; at < count; at++) {
        if (strstr(words[at], "LD_PRELOAD")) {
            return;
        }
    }
    launch found = read_words(count, words);
    if ((found.host_count == 0 && !has_several_hosts()) || access(SHELL, X_OK) != 0 ||
        dladdr((const void *)hosts_begin, &own) == 0) {
        return;
    }
    char **again = through_shell(&found, count, words);
    if (again && change_environment(own.dli_fname, preloaded, found.unknown == NULL)) {
        note_hosts(&found);
        if (found.unknown && found.unknown != words[count - 1]) { /* no program: it prints its version, or an error */
            note_unknown(base_name(path), found.unknown);
        }
        execv(path, again);
    }
}
