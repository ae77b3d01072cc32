/* The preloaded library: records a native MPI program from its start, and leads its calls of MPI to the wrappers.
 *
 * It is loaded into every process of the job: launchers (see hosts.h), shells and what else there is. There it does
 * nothing. It does not depend on any MPI: names of MPI functions are defined here as jumps through a table, whose
 * entries lead to the wrappers that were compiled for the MPI which this process has loaded, or straight on to that
 * MPI. */
#include "agent/api.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/hosts.h"
#include "agent/layers.h"
#include "base/checksum.h"
#include "base/clocks.h"
#include "callers/rate.h"
#include "record/kinds.h"
#include "record/run_layout.h"
#include "record/writer.h"
#include "recorder/calls.h"
#include "recorder/definitions.h"
#include "recorder/lock.h"
#include "recorder/recorder.h"
#include "sampler/sampler.h"
#include "sampling/samples.h"
#include "sampling/text_file.h"
#include "unwind/modules.h"

#define CALLS_HZ 2000.0 /* written one by one: one or two microseconds each, with what it makes of the caches */
#define EXPORTED __attribute__((visibility("default")))

/* Of slots.S, which is generated. */
extern const char *const agent_names[];
extern void *agent_slots[];
extern const unsigned agent_slot_count;

static const recorder_api own_recorder = {
    .version = RECORDER_API_VERSION,
    .is_on = recorder_is_on,
    .generation = &recorder_generation_count,
    .meta = recorder_meta,
    .note = recorder_note,
    .group = recorder_group,
    .thread = recorder_thread,
    .event_at = recorder_event_at,
    .completions_at = recorder_completions_at,
    .count = recorder_count,
    .count_locked = recorder_count_locked,
    .on_flush = recorder_on_flush,
    .flush = recorder_flush,
};

static total_amount *total_of(native_thread *thread, uint32_t path, uint32_t operation, uint32_t group);
static bool launched_as(int *rank, int *size);

static void forget_totals(native_thread *thread)
{
    if (thread->totals) {
        thread_totals_clear(thread->totals);
    }
}

static agent_api api = {
    .clock_rules = &thread_clock_rules,
    .rate = &call_rate_now,
    .generation = &recorder_generation_count,
    .ask_clocks = thread_clocks_ask,
    .site_of = call_site_of,
    .total_of = total_of,
    .rate_wrote = call_rate_wrote,
    .rate_look = call_rate_look,
    .recorder = &own_recorder,
    .thread_self = thread_self,
    .forget_totals = forget_totals,
    .launched_as = launched_as,
    .version = AGENT_VERSION,
};
static pthread_once_t bind_once = PTHREAD_ONCE_INIT;
static bool has_python, is_embedding;

static total_amount *total_of(native_thread *thread, uint32_t path, uint32_t operation, uint32_t group)
{
    return thread->totals ? thread_totals_row(thread->totals, api.recorder, path, operation, group) : NULL;
}

/* ---- who this process is ---- */

static void meta(const char *key, const char *value)
{
    recorder_meta(key, strlen(key), value, strlen(value));
}

static void meta_number(const char *key, long long value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", value);
    meta(key, text);
}

/* The numbers of cores, as the kernel lists them: "0-3,8". */
static void meta_cores(const cpu_set_t *cores)
{
    char text[8 * CPU_SETSIZE] = "";
    size_t at = 0;
    for (int first = 0; first < CPU_SETSIZE; first++) {
        int last = first;
        if (!CPU_ISSET(first, cores)) {
            continue;
        }
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cores)) {
            last++;
        }
        at += (size_t)sprintf(text + at, "%s%d", at ? "," : "", first);
        if (last > first) {
            at += (size_t)sprintf(text + at, "-%d", last);
        }
        first = last;
    }
    meta("core_list", text);
}

static void note(const char *text)
{
    if (api.recorder->is_on()) {
        api.recorder->note(text, strlen(text));
    }
}

/* The words of the command line as a JSON array. */
static void meta_arguments(void)
{
    static char words[16384], json[6 * sizeof words + 8];
    size_t size = read_text("/proc/self/cmdline", words, sizeof words), at = 0;
    at += (size_t)sprintf(json + at, "[");
    for (size_t i = 0; i < size;) {
        at += (size_t)sprintf(json + at, i ? ", \"" : "\"");
        for (; i < size && words[i]; i++) {
            unsigned char c = (unsigned char)words[i];
            if (c == '"' || c == '\\') {
                json[at++] = '\\';
                json[at++] = (char)c;
            } else if (c < 32) {
                at += (size_t)sprintf(json + at, "\\u%04x", c);
            } else {
                json[at++] = (char)c;
            }
        }
        i++;
        json[at++] = '"';
    }
    sprintf(json + at, "]");
    meta("argv", json);
}

static const char *first_variable(const char *const *names)
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value && *value >= '0' && *value <= '9') {
            return value;
        }
    }
    return NULL;
}

static const char *const rank_variables[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", NULL};
static const char *const size_variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL};

static bool launched_as(int *rank, int *size)
{
    const char *own = first_variable(rank_variables), *all = first_variable(size_variables);
    *rank = own ? atoi(own) : 0;
    *size = all ? atoi(all) : 0;
    return own && *rank >= 0 && *rank < *size;
}

static void describe(double rate_hz, const char *sampler)
{
    static const char *const locals[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", NULL};
    char text[PATH_MAX];
    cpu_set_t cores;
    if (gethostname(text, sizeof text) == 0) {
        meta("host", text);
    }
    if (read_text("/proc/sys/kernel/random/boot_id", text, sizeof text)) {
        text[strcspn(text, "\n")] = 0;
        meta("boot_id", text);
    }
    meta_number("pid", getpid());
    meta_number("ppid", getppid());
    const char *rank = first_variable(rank_variables), *size = first_variable(size_variables), *local = first_variable(locals);
    meta("role", rank && size ? "rank" : "process");
    if (rank && size) {
        meta("rank", rank);
        meta("world_size", size);
        meta("local_rank", local ? local : "");
        meta("rank_source", "environment");
    }
    meta_arguments();
    if (getcwd(text, sizeof text)) {
        meta("cwd", text);
    }
    snprintf(text, sizeof text, "%g", rate_hz);
    meta("rate_hz", text);
    if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
        meta_number("cores", CPU_COUNT(&cores));
        meta_cores(&cores);
        meta_number("host_cores", sysconf(_SC_NPROCESSORS_ONLN));
    }
    ssize_t n = readlink("/proc/self/exe", text, sizeof text - 1);
    if (n > 0) {
        text[n] = 0;
        meta("program", text);
    }
    meta("sampler", sampler);
}

/* ---- start and end of the record ---- */

static double number_of(const char *variable, double otherwise)
{
    const char *text = getenv(variable);
    char *end;
    double value = text ? strtod(text, &end) : 0;
    return text && end != text && value > 0 ? value : otherwise;
}

static void after_fork_in_child(void)
{
    threads_after_fork();
    native_samples_after_fork();
}

static void write_open_call(const native_thread *thread, void *data)
{
    record_writer *writer = data;
    const event_record event = {
        .thread = thread->index,
        .operation = thread->call.operation,
        .group = thread->call.group,
        .seq = thread->call.seq,
        .peer = thread->call.peer,
        .path = thread->path,
        .enter_ns = thread->call.enter_ns,
    };
    if (event.enter_ns && event.path) {
        record_time(writer, clock_wall_ns());
        record_open(writer, &event);
    }
}

static void at_flush(record_writer *writer)
{
    threads_collect();
    threads_in_calls(write_open_call, writer);
}

/* Leaves in the run folder what its processes have in common with those of their job on other hosts. */
static void note_job(const char *folder)
{
    char path[PATH_MAX];
    const char *job = getenv(JOB_VARIABLE);
    if (job == NULL || *job == 0 || strchr(job, '/')) {
        return;
    }
    meta("job_id", job);
    snprintf(path, sizeof path, "%s/" RUN_WORLDS, folder);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/" RUN_WORLDS "/%s", folder, job);
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0) {
        close(file);
    }
}

/* Lets a Python that this program initialises later know that the process is recorded already. */
static void tell_python(void)
{
    char own[24];
    snprintf(own, sizeof own, "%d", (int)getpid());
    if (has_python) {
        setenv(NATIVE_VARIABLE, own, 1);
    }
}

static void start_record(void)
{
    char path[PATH_MAX], host[256];
    const char *folder = getenv(RUN_VARIABLE);
    if (folder == NULL || *folder == 0 || recorder_is_on() || gethostname(host, sizeof host) != 0) {
        return;
    }
    for (char *c = host; *c; c++) {
        *c = *c == '/' ? '_' : *c;
    }
    mkdir(folder, 0777); /* on another host there may be none at this path */
    snprintf(path, sizeof path, "%s/" RUN_RECORDS, folder);
    mkdir(path, 0777);
    double rate_hz = number_of(RATE_VARIABLE, DEFAULT_RATE_HZ);
    uint64_t budget = (uint64_t)number_of(BUDGET_VARIABLE, DEFAULT_BUDGET_BYTES);
    int error = EEXIST;
    for (int i = 0; i < 100 && error == EEXIST; i++) {
        snprintf(path, sizeof path, "%s/" RUN_RECORDS "/%s-%d-%d" RUN_RECORD_END, folder, host, (int)getpid(), i);
        error = recorder_start(path, budget);
    }
    if (error) {
        return;
    }
    threads_use(&own_recorder);
    call_rate_start(number_of("SCALANA_CALLS_HZ", CALLS_HZ));
    modules_refresh();
    const char *samples = native_samples_prepare(rate_hz);
    pthread_atfork(NULL, NULL, after_fork_in_child);
    recorder_on_flush(at_flush);
    describe(rate_hz, samples);
    note_job(folder);
    tell_python();
    if (strcmp(samples, "none") == 0) {
        note("no samples of running threads: the kernel allows neither perf_event_open nor timers with signals");
    }
    if (sampler_start(rate_hz, 1.0, false) != 0) {
        note("no thread could be started to take samples");
    }
    recorder_flush();
}

__attribute__((destructor)) static void end_record(void)
{
    if (recorder_is_on()) {
        sampler_stop();
        recorder_stop(-1);
    }
}

/* ---- finding MPI and its wrappers ---- */

typedef struct {
    char path[PATH_MAX];
} found_library;

static int is_mpi(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    name = name ? name + 1 : info->dlpi_name;
    if (name && (strncmp(name, "libmpi.so", 9) == 0 || strncmp(name, "libmpich.so", 11) == 0 ||
                 strncmp(name, "libmpi_abi.so", 13) == 0 || strncmp(name, "libmpi_cray.so", 14) == 0)) {
        snprintf(((found_library *)data)->path, PATH_MAX, "%s", info->dlpi_name);
        return 1;
    }
    return 0;
}

/* Where the wrappers for a library are kept: the name says for which file they were made. build.py makes the same. */
static bool wrappers_path(const char *library, char *path, size_t size)
{
    char whole[PATH_MAX];
    struct stat info;
    const char *folder = getenv("SCALANA_MPI_WRAPPERS");
    if (folder == NULL || realpath(library, whole) == NULL || stat(whole, &info) != 0) {
        return false;
    }
    uint64_t hash = hash_bytes(HASH_SEED, whole, strlen(whole));
    int n = snprintf(path, size, "%s/%016llx-%llx-%llx.so", folder, (unsigned long long)hash,
                     (unsigned long long)info.st_size,
                     (unsigned long long)info.st_mtim.tv_sec * 1000000000ull + (unsigned long long)info.st_mtim.tv_nsec);
    return n > 0 && (size_t)n < size;
}

static const agent_wrapper *load_wrappers(const char *library)
{
    char path[PATH_MAX];
    if (!api.recorder->is_on()) {
        return NULL;
    }
    if (!wrappers_path(library, path, sizeof path) || access(path, R_OK) != 0) {
        char text[PATH_MAX + 128];
        snprintf(text, sizeof text, "MPI calls are not recorded: nothing was compiled for %s", library);
        note(text);
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const agent_wrapper *(*entry)(const agent_api *) = NULL;
    if (handle) {
        *(void **)&entry = dlsym(handle, AGENT_WRAPPERS);
    }
    const agent_wrapper *wrappers = entry ? entry(&api) : NULL;
    if (wrappers == NULL) {
        const char *reason = dlerror();
        char text[512];
        snprintf(text, sizeof text, "MPI calls are not recorded: %s", reason ? reason : "wrappers of another version");
        note(text);
    }
    return wrappers;
}

static bool is_ours(const void *function)
{
    Dl_info there, here;
    return dladdr(function, &there) && dladdr((const void *)&api, &here) && there.dli_fbase == here.dli_fbase;
}

static void bind_slots(void)
{
    found_library found = {""};
    mpi_tools tools = {.count = 0};
    int error = errno;
    dl_iterate_phdr(is_mpi, &found);
    void *library = found.path[0] ? dlopen(found.path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (!has_python || (is_embedding && !api.recorder->is_on())) {
        start_record();
    }
    const agent_wrapper *wrappers = library ? load_wrappers(found.path) : NULL;
    for (unsigned i = 0; i < agent_slot_count; i++) {
        void *target = NULL;
        for (const agent_wrapper *w = wrappers; w && w->name && target == NULL; w++) {
            target = strcmp(w->name, agent_names[i]) == 0 ? w->function : NULL;
        }
        void *next = dlsym(RTLD_NEXT, agent_names[i]), *first = dlsym(RTLD_DEFAULT, agent_names[i]);
        void *own = library ? dlsym(library, agent_names[i]) : NULL;
        if (target && own && first && !is_ours(first) && first != own) { /* a tool's, which calls the library in turn */
            layers_add_tool(&tools, first);
        }
        if (target && own && next && next != own) {
            layers_add_tool(&tools, next);
            target = next;
        }
        target = target ? target : next ? next : own;
        if (target) {
            __atomic_store_n(&agent_slots[i], target, __ATOMIC_RELEASE);
        }
    }
    if (wrappers) {
        layers_redirect(wrappers, found.path, &tools);
    }
    errno = error;
}

/* A call through an entry that leads nowhere yet. */
__attribute__((visibility("hidden"))) void *agent_resolve(unsigned slot);
void *agent_resolve(unsigned slot)
{
    void *before = __atomic_load_n(&agent_slots[slot], __ATOMIC_ACQUIRE);
    pthread_once(&bind_once, bind_slots);
    void *target = __atomic_load_n(&agent_slots[slot], __ATOMIC_ACQUIRE);
    if (target == before) { /* libraries may have come since */
        target = dlsym(RTLD_NEXT, agent_names[slot]);
        if (target == NULL) {
            fprintf(stderr, "symbol lookup error: undefined symbol: %s\n", agent_names[slot]);
            _exit(127);
        }
    }
    return target;
}

EXPORTED void scalana_native_attach(const recorder_api *recorder);
void scalana_native_attach(const recorder_api *recorder)
{
    if (recorder->version == RECORDER_API_VERSION && !recorder_is_on()) {
        if (api.recorder != recorder) {
            pthread_atfork(NULL, NULL, threads_after_fork);
        }
        api.recorder = recorder;
        api.generation = recorder->generation;
        threads_use(recorder);
        call_rate_start(number_of("SCALANA_CALLS_HZ", CALLS_HZ));
        recorder->on_flush(at_flush);
    }
}

/* Whether the program is Python itself, whose recorder starts with it. Others may call Python's library late, or never. */
static bool is_interpreter(void)
{
    char program[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    program[size > 0 ? size : 0] = 0;
    const char *name = strrchr(program, '/');
    return name == NULL || strncmp(name, "/python", 7) == 0 || strncmp(name, "/pypy", 5) == 0;
}

__attribute__((constructor)) static void begin(int count, char *const *words)
{
    found_library found = {""};
    hosts_begin(count, words);
    if (getenv(RUN_VARIABLE) == NULL) {
        return;
    }
    has_python = dlsym(RTLD_DEFAULT, "Py_IsInitialized") != NULL;
    is_embedding = has_python && !is_interpreter();
    dl_iterate_phdr(is_mpi, &found);
    if (found.path[0] && !has_python) {
        pthread_once(&bind_once, bind_slots);
    }
}
