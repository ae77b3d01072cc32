#include "agent/hosts.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "record/run_layout.h"

#define SHELL "/bin/sh"
#define LOOK                                                                                                                \
    "if [ -e \"$" PRELOAD_VARIABLE "\" ]; then "                                                                            \
    "export LD_PRELOAD=\"$" PRELOAD_VARIABLE "${LD_PRELOAD:+:$LD_PRELOAD}\"; "                                              \
    "elif [ -d \"$" RUN_VARIABLE "/" RUN_RECORDS "\" ]; then { echo \"" WITHOUT_MPI " $(uname -n), which has "               \
    "no $" PRELOAD_VARIABLE ": set SCALANA_CACHE to a folder that all hosts see\" "                                          \
    "> \"$" RUN_VARIABLE "/" RUN_RECORDS "/$(uname -n)-$$-0" RUN_NOTE_END "\"; } 2> /dev/null; fi; exec \"$@\""
/* Slurm starts a program by its whole path, or one in the working directory that is not in PATH. */
#define FIND                                                                                                                \
    "case $1 in */*) ;; *) SCALANA_AT=$(command -v \"$1\"); case $SCALANA_AT in /*) shift; set -- \"$SCALANA_AT\" \"$@\";; "  \
    "'') [ -x \"./$1\" ] && set -- \"./$@\";; esac; unset SCALANA_AT;; esac; "
#define FORWARDED "OMPI_MCA_mca_base_env_list"
#define MOST 64 /* programs, and options that name hosts, of one launch */
#define ADDED 4 /* words before each program */

extern char **environ;

static const char launchers[] =
    "mpirun mpiexec orterun prterun mpiexec.hydra mpirun.openmpi mpiexec.openmpi mpirun.mpich mpiexec.mpich";

/* How the words of a launcher are read: its options, by how many words they have with their values. */
typedef struct {
    const char *of_hosts, *of_host_files; /* those with a value that names hosts, or a file that does */
    const char *with_value, *with_two_values, *alone;
    const char *refused;                      /* those that make the program more than a word of the command */
    const char *const *variables;             /* that say what a refused option says */
    const char *letters_with_value, *letters; /* those of one letter, if several may share a word; else NULL */
    const char *look;                         /* what a shell does on each host */
} syntax;

static const syntax of_mpi = {
    .of_hosts = "H host hosts",
    .of_host_files = "hostfile machinefile f default-hostfile machine",
    .with_value =
        "n np c N ppn perhost npernode npersocket launcher launcher-exec bootstrap bootstrap-exec rmk iface bind-to map-by "
        "rank-by cpu-list cpu-set slot-list cpus-per-proc cpus-per-rank rankfile rf rankmap wd wdir path prefix x timeout "
        "spawn-timeout output output-filename output-directory display report-pid report-uri report-events stdin "
        "stream-buffering tune am personality launch-agent max-restarts max-vm-size runtime-options with-ft gpu-support "
        "memory-alloc-kinds preload-files forward-signals wait-to-connect xterm ompi-server envlist genvlist usize demux topolib "
        "membind localhost nameserver errfile-pattern outfile-pattern prepend-pattern gpus-per-proc order-nodes",
    .with_two_values = "mca gmca pmca omca prtemca pmixmca gpmixmca env genv",
    .alone =
        "allow-run-as-root oversubscribe nooversubscribe nolocal use-hwthread-cpus use-hwthreads-as-cpus report-bindings "
        "display-map display-devel-map display-allocation display-topo display-comm display-comm-finalize tag-output "
        "timestamp-output xml parsable parseable merge-stderr-to-stdout prepend-rank l q quiet v verbose d debug-devel "
        "debug-daemons debug-daemons-file leave-session-attached get-stack-traces report-state-on-timeout "
        "report-child-jobs-separately enable-recovery continuous index-argv-by-rank preload-binary noprefix do-not-resolve "
        "do-not-launch set-cwd-to-session-dir show-progress novm pernode bynode byslot bycore bysocket bind-to-core "
        "bind-to-socket bind-to-none genvall genvnone envall envnone enable-x disable-x disable-auto-cleanup "
        "disable-hostname-propagation hybrid-hosts pmi-port print-all-exitcodes print-rank-map profile skip-launch-node",
    .refused = "",
    .variables = (const char *const[]){NULL},
    .look = LOOK,
};
static const syntax of_slurm = {
    .of_hosts = "",
    .of_host_files = "",
    .with_value =
        "accel-bind account acctg-freq bb bbf bcast-exclude begin chdir cluster cluster-constraint clusters comment "
        "constraint container container-id context core-spec cores-per-socket cpu-bind cpu_bind cpu-freq cpus-per-gpu "
        "cpus-per-task deadline delay-boot dependency distribution epilog error exclude export extra extra-node-info gid "
        "gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags het-group hint input job-name "
        "jobid licenses mail-type mail-user max-exit-timeout mcs-label mem mem-bind mem_bind mem-per-cpu mem-per-gpu "
        "mincores mincpus minsockets minthreads mpi msg-timeout network nodefile nodelist nodes ntasks ntasks-per-core "
        "ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output pack-group partition power prefer priority "
        "profile prolog qos relative reservation segment signal slurmd-debug sockets-per-node switches task-epilog "
        "task-prolog tasks-per-node thread-spec threads threads-per-core time time-min tmp treewidth tres-bind "
        "tres-per-task uid wait wckey",
    .with_two_values = "",
    .alone =
        "compress contiguous debugger-test disable-status exact exclusive external hold immediate interactive "
        "kill-on-bad-exit label nice no-allocate no-kill no-rotate oom-kill-step overcommit overlap oversubscribe "
        "preserve-env preserve-slurm-env propagate pty quiet quit-on-interrupt reboot resv-ports send-libs share "
        "spread-job stepmgr test-only unbuffered use-min-nodes verbose wait-for-children whole x11",
    .refused = "bcast multi-prog",
    .letters_with_value = "AbBcCdDeFGiJLmMnNopqrStTwWx",
    .letters = "EHIkKlOQsuvXZ0123456789", /* and digits, which may be the value of some */
    .variables = (const char *const[]){"SLURM_BCAST", "SLURM_SRUN_MULTI", NULL},
    .look = FIND LOOK,
};

/* By what the environment says that a launcher has several hosts, which its words do not name. */
static const char *const allocations[] = {"HYDRA_HOST_FILE",   "PBS_NODEFILE", "LSB_HOSTS",
                                          "LSB_DJOB_HOSTFILE", "PE_HOSTFILE",  "OAR_NODEFILE", NULL};
static const char *const node_counts[] = {"SLURM_JOB_NUM_NODES", "SLURM_NNODES", NULL};

/* File systems that no other host sees, as statfs calls them: ext, XFS, Btrfs, ZFS, F2FS, tmpfs, ramfs, overlay. */
static const unsigned long of_one_host[] = {0xef53,     0x58465342, 0x9123683e, 0x2fc12fc1,
                                            0xf2f52010, 0x01021994, 0x858458f6, 0x794c7630};

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

/* How many words one has that consists of options of one letter, 0 where one of these is not known. */
static int size_of_letters(const syntax *own, const char *letters)
{
    for (; *letters; letters++) {
        if (strchr(own->letters_with_value, *letters)) {
            return letters[1] ? 1 : 2;
        }
        if (strchr(own->letters, *letters) == NULL) {
            return 0;
        }
    }
    return 1;
}

/* How many words an option has, 0 where it is not known. */
static int size_of(const syntax *own, const char *word)
{
    const char *name = word + strspn(word, "-");
    size_t size = strcspn(name, "=");
    if (own->letters && name == word + 1) {
        return size_of_letters(own, name);
    }
    if (lists(own->with_two_values, name, size)) {
        return 3;
    }
    if (lists(own->with_value, name, size) || lists(own->of_hosts, name, size) || lists(own->of_host_files, name, size)) {
        return name[size] ? 1 : 2;
    }
    if (lists(own->refused, name, size)) {
        return 0;
    }
    bool is_of_plugin = own->letters && name[size]; /* of a site's own */
    return lists(own->alone, name, size) || is_of_plugin ? 1 : 0;
}

static void take_hosts(const syntax *own, launch *found, const char *word, const char *next)
{
    const char *name = word + strspn(word, "-");
    size_t size = strcspn(name, "=");
    bool is_file = lists(own->of_host_files, name, size);
    if ((is_file || lists(own->of_hosts, name, size)) && found->host_count < MOST) {
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
static int read_options(const syntax *own, launch *found, int at, int count, char *const *words)
{
    while (at < count && words[at][0] == '-') {
        if (strcmp(words[at], "--") == 0) {
            return at + 1;
        }
        int size = size_of(own, words[at]);
        take_hosts(own, found, words[at], words[at + 1]);
        if (size == 0 && found->unknown == NULL) {
            found->unknown = words[at];
        }
        at += size ? size : size_of_unknown(words[at + 1]);
    }
    return at;
}

/* Each part between colons is options, a program, and its arguments. */
static launch read_words(const syntax *own, int count, char *const *words)
{
    launch found = {.unknown = NULL};
    for (const char *const *name = own->variables; *name && found.unknown == NULL; name++) {
        found.unknown = getenv(*name) ? *name : NULL;
    }
    for (int at = 1; at < count && found.unknown == NULL; at++) {
        at = read_options(own, &found, at, count, words);
        if (found.unknown) {
            break;
        }
        bool is_there = at < count && !is_colon(words[at]) && (own == &of_slurm || is_found(words[at]));
        if (!is_there || found.program_count == MOST) {
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

/* Whether all that a launcher of Slurm may start stays on this host. */
static bool is_only_node(void)
{
    char here[256] = "";
    const char *size = getenv(node_counts[0]), *node = getenv("SLURM_JOB_NODELIST");
    gethostname(here, sizeof here);
    here[strcspn(here, ".")] = 0;
    return size && node && strcmp(size, "1") == 0 && strcmp(node, here) == 0;
}

static bool is_seen_here_alone(const char *file)
{
    struct statfs system;
    bool is_known = statfs(file, &system) == 0;
    for (size_t i = 0; is_known && i < sizeof of_one_host / sizeof *of_one_host; i++) {
        if ((unsigned long)system.f_type == of_one_host[i]) {
            return true;
        }
    }
    return false;
}

/* Whether srun hands on to ranks what is preloaded here: it does unless a list of variables lacks ALL. */
static bool exports_all(int count, char *const *words)
{
    const char *list = getenv("SRUN_EXPORT_ENV");
    list = list ? list : getenv("SLURM_EXPORT_ENV");
    for (int at = 1; at < count && words[at][0] == '-'; at += size_of(&of_slurm, words[at]) == 2 ? 2 : 1) {
        if (strncmp(words[at], "--export", 8) == 0 && (words[at][8] == '=' || words[at][8] == 0)) {
            list = words[at][8] ? words[at] + 9 : words[at + 1];
        }
    }
    return list == NULL || strncmp(list, "ALL", 3) == 0 || strstr(list, ",ALL") != NULL;
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
static char **through_shell(const syntax *own, const launch *found, int count, char *const *words)
{
    static char shell[] = SHELL, command[] = "-c";
    char **made = calloc((size_t)(count + ADDED * found->program_count + 1), sizeof *made);
    int end = 0, next = 0;
    for (int at = 0; made && at < count; at++) {
        if (found->unknown == NULL && next < found->program_count && found->programs[next] == at) {
            char *const before[ADDED] = {shell, command, (char *)own->look, shell};
            memcpy(made + end, before, sizeof before);
            end += ADDED;
            next++;
        }
        made[end++] = words[at];
    }
    return made;
}

static const syntax *syntax_of(const char *program)
{
    return lists(launchers, program, strlen(program)) ? &of_mpi : strcmp(program, "srun") == 0 ? &of_slurm : NULL;
}

/* Whether ranks of a launch may be on hosts that do not have the recorder, and are to preload it. */
static bool may_lack_it(const syntax *own, const launch *found, int count, char *const *words, const char *recorder)
{
    if (own == &of_slurm) {
        return is_seen_here_alone(recorder) && !is_only_node() && exports_all(count, words);
    }
    return found->host_count || has_several_hosts();
}

void hosts_begin(int count, char *const *words)
{
    const char *path = (const char *)getauxval(AT_EXECFN), *preloaded = getenv("LD_PRELOAD");
    Dl_info recorder;
    if (path && count > 2 && strcmp(base_name(path), "env") == 0 && strchr(words[1], '/')) {
        path = *++words; /* a launcher that is linked statically preloads nothing: what starts it acts in its place */
        count--;
    }
    const syntax *own = path ? syntax_of(base_name(path)) : NULL;
    if (own == NULL || preloaded == NULL || count < 2 || strcmp(base_name(path), base_name(words[0])) != 0) {
        return;
    }
    for (int at = 1; at < count; at++) {
        if (strstr(words[at], "LD_PRELOAD")) {
            return;
        }
    }
    launch found = read_words(own, count, words);
    if (access(SHELL, X_OK) != 0 || dladdr((const void *)hosts_begin, &recorder) == 0 ||
        !may_lack_it(own, &found, count, words, recorder.dli_fname)) {
        return;
    }
    char **again = through_shell(own, &found, count, words);
    if (again && change_environment(recorder.dli_fname, preloaded, found.unknown == NULL)) {
        note_hosts(&found);
        if (found.unknown && found.unknown != words[count - 1]) { /* no program: it prints its version, or an error */
            note_unknown(base_name(path), found.unknown);
        }
        if (own == &of_slurm && found.program_count && getenv("SLURM_JOB_ID") == NULL) {
            setenv("SLURM_JOB_NAME", base_name(words[found.programs[0]]), 0); /* srun calls a job like its program */
        }
        execv(path, again);
    }
}
