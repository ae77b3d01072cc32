// Counts the operators that a thread runs, and the backward passes that it begins: of each kind how many, and for how
// long. A kind is an operator on tensors of some types and shapes, in some context (a number that the caller sets: the
// module that is under way; nothing is counted in context 0).
//
// torch tells of each operator by its own callbacks for profilers: nothing of what runs is changed by them, nor which
// kernels are chosen. An operator is counted as a whole, with all that it calls; one that only calls others
// (CompositeImplicitAutograd) is left out, and these are counted; so are those left out that only make views or room.
// Compiled with kernels.cpp against the torch at hand.

#ifndef NDEBUG
#define NDEBUG 1  // as torch itself is compiled: RecordFunction has one member more without it
#endif

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#define PUBLIC extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t most_kinds = 20000;  // in a thread; what comes after them is left out
constexpr size_t most_list = 8;       // tensors of a list that are told one by one, before what the others are together

struct Sum {
    int64_t calls = 0, ns = 0, cpu_ns = 0;
};

struct Counts {
    std::mutex lock;  // between its thread and the one that reads
    std::unordered_map<std::string, Sum> kinds;
};

struct Threads {
    std::mutex lock;
    std::vector<std::shared_ptr<Counts>> counts;  // of each
};

std::atomic<bool> on{false};
std::atomic<Threads *> all{new Threads};  // never freed: threads may count to the very end

thread_local Threads *own_in = nullptr;
thread_local std::shared_ptr<Counts> own;  // one of the counts in own_in
thread_local int32_t context = 0;
thread_local bool inside = false;  // of an operator that is counted
thread_local at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
thread_local std::unordered_map<const void *, bool> known;  // whether an operator is counted, by the address of its name

int64_t now()
{
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

int64_t cpu_now()
{
    timespec time;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0 ? time.tv_sec * 1000000000 + time.tv_nsec : 0;
}

bool starts_with(const char *name, const char *start)
{
    return std::strncmp(name, start, std::strlen(start)) == 0;
}

bool is_counted(const at::RecordFunction &function)
{
    const auto name = function.operator_name();
    if (!name) {
        return false;
    }
    const auto found = c10::Dispatcher::singleton().findOp(*name);
    if (!found || found->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
        return false;
    }
    const char *plain = name->name.c_str();
    for (const char *start : {"aten::empty", "aten::new_empty", "aten::resize", "aten::set_", "profiler::"}) {
        if (starts_with(plain, start)) {
            return false;
        }
    }
    if (!found->hasSchema()) {
        return true;
    }
    for (const auto &result : found->schema().returns()) {
        if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) {
            return false;  // a view
        }
    }
    return true;
}

bool has_sizes(const at::Tensor &tensor)
{
    return !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() && !tensor.is_nested() && !tensor.is_sparse();
}

void add_tensor(const at::Tensor &tensor, std::string *text)
{
    if (!tensor.defined()) {
        *text += "-;";
        return;
    }
    *text += c10::toString(tensor.scalar_type());
    *text += '[';
    if (has_sizes(tensor)) {
        for (const int64_t size : tensor.sizes()) {
            *text += std::to_string(size);
            *text += ',';
        }
        *text += ']';
        if (!tensor.is_contiguous() && !tensor.is_contiguous(tensor.suggest_memory_format())) {
            *text += '~';
        }
    } else {
        *text += "?]";
    }
    if (!tensor.is_cpu()) {
        *text += '@';
    }
    *text += ';';
}

void add_value(const c10::IValue &value, std::string *text)
{
    if (value.isTensor()) {
        add_tensor(value.toTensor(), text);
    } else if (value.isTensorList()) {
        const auto tensors = value.toTensorVector();
        const size_t told = std::min(tensors.size(), most_list);
        for (size_t number = 0; number < told; number++) {
            add_tensor(tensors[number], text);
        }
        if (told < tensors.size()) {
            size_t bytes = 0;
            for (size_t number = told; number < tensors.size(); number++) {
                bytes += tensors[number].defined() && has_sizes(tensors[number]) ? tensors[number].nbytes() : 0;
            }
            *text += '+' + std::to_string(tensors.size() - told) + ':' + std::to_string(bytes) + ';';
        }
    }
}

// Whether an operator on a tensor comes back as others: on what a wrapper (DTensor, functorch) has inside.
bool is_wrapper(const c10::IValue &value)
{
    static constexpr c10::DispatchKeySet wrappers({c10::DispatchKey::Python, c10::DispatchKey::FuncTorchBatched,
                                                   c10::DispatchKey::FuncTorchGradWrapper,
                                                   c10::DispatchKey::Functionalize});
    if (value.isTensor()) {
        return value.toTensor().defined() && value.toTensor().key_set().has_any(wrappers);
    }
    if (value.isTensorList()) {
        const auto tensors = value.toTensorVector();
        return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor &tensor) {
            return tensor.defined() && tensor.key_set().has_any(wrappers);
        });
    }
    return false;
}

struct Under_way : public at::ObserverContext {
    std::string kind;
    int64_t began = 0, cpu_began = 0;
    c10::SmallVector<const c10::TensorImpl *, 8> given;
};

std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction &function)
{
    if (inside || context == 0 || !on.load(std::memory_order_relaxed)) {
        return nullptr;
    }
    const void *address = function.name();
    const auto there = known.find(address);
    const bool counted = there != known.end() ? there->second : (known[address] = is_counted(function));
    if (!counted) {
        return nullptr;
    }
    auto one = std::make_unique<Under_way>();
    try {
        const auto inputs = function.inputs();
        if (std::any_of(inputs.begin(), inputs.end(), is_wrapper)) {
            return nullptr;
        }
        one->kind.reserve(96);
        one->kind = std::to_string(context);
        one->kind += '|';
        one->kind += function.name();
        one->kind += '|';
        for (const c10::IValue &value : inputs) {
            add_value(value, &one->kind);
            if (value.isTensor() && value.toTensor().defined()) {
                one->given.push_back(value.toTensor().unsafeGetTensorImpl());
            }
        }
    } catch (...) {
        return nullptr;
    }
    inside = true;
    one->cpu_began = cpu_now();
    one->began = now();
    return one;
}

void ends(const at::RecordFunction &function, at::ObserverContext *context_of)
{
    if (context_of == nullptr) {
        return;
    }
    const int64_t ended = now(), cpu_ended = cpu_now();
    inside = false;
    auto *one = static_cast<Under_way *>(context_of);
    try {
        one->kind += '>';
        for (const c10::IValue &value : function.outputs()) {
            if (value.isTensor() && value.toTensor().defined()) {
                const c10::TensorImpl *impl = value.toTensor().unsafeGetTensorImpl();
                if (std::find(one->given.begin(), one->given.end(), impl) != one->given.end()) {
                    continue;  // it was written in place
                }
            }
            add_value(value, &one->kind);
        }
        if (Threads *threads = all.load(); own_in != threads) {
            auto fresh = std::make_shared<Counts>();
            const std::lock_guard<std::mutex> hold(threads->lock);
            threads->counts.push_back(fresh);
            own = std::move(fresh);
            own_in = threads;
        }
        const std::lock_guard<std::mutex> hold(own->lock);
        const auto found = own->kinds.find(one->kind);
        if (found == own->kinds.end() && own->kinds.size() >= most_kinds) {
            return;
        }
        Sum &sum = found != own->kinds.end() ? found->second : own->kinds[one->kind];
        sum.calls++;
        sum.ns += ended - one->began;
        sum.cpu_ns += cpu_ended - one->cpu_began;
    } catch (...) {
    }
}

// Whether torch calls us in this thread. It says so itself: a backward has the callbacks of its thread as they were when
// its graph was begun, and these are back as they were when it is over, whatever was added or removed meanwhile.
bool is_attached()
{
    const auto &callbacks = at::get_record_function_tls_().sorted_tls_callbacks_;
    return handle != at::INVALID_CALLBACK_HANDLE &&
           std::any_of(callbacks.begin(), callbacks.end(), [](const auto &one) { return one.handle_ == handle; });
}

}  // namespace

// Count what the calling thread runs from here on.
PUBLIC int scalana_operators_start()
{
    try {
        if (!is_attached()) {
            handle = at::addThreadLocalCallback(at::RecordFunctionCallback(begins, ends)
                                                    .needsInputs(true)
                                                    .needsOutputs(true)
                                                    .scopes({at::RecordScope::FUNCTION}));
        }
        on.store(true);
        return 0;
    } catch (...) {
        return -1;
    }
}

// Count nothing more, in any thread: callbacks that are left find that it is so.
PUBLIC void scalana_operators_stop()
{
    on.store(false);
    context = 0;
}

// Have torch call us no longer in the calling thread.
PUBLIC void scalana_operators_detach()
{
    try {
        if (is_attached()) {
            at::removeCallback(handle);
        }
    } catch (...) {
    }
}

// Whether it does.
PUBLIC int scalana_operators_attached()
{
    return is_attached() ? 1 : 0;
}

// This is a forked child: leave alone what was counted before, and the locks that other threads held at the fork.
PUBLIC void scalana_operators_forked()
{
    all.store(new Threads);  // the calling thread is the only one
    inside = false;
}

// What the calling thread does belongs to this context from here on.
PUBLIC void scalana_operators_context(int32_t number)
{
    context = number;
}

// All that was counted since the last time, as lines "context|operator|inputs>outputs|calls|ns|CPU ns", to be freed by
// scalana_operators_free; null where there is no memory.
PUBLIC char *scalana_operators_take()
{
    try {
        std::string text;
        Threads *threads = all.load();
        const std::lock_guard<std::mutex> hold(threads->lock);
        for (const auto &counts : threads->counts) {
            const std::lock_guard<std::mutex> hold_one(counts->lock);
            for (const auto &[kind, sum] : counts->kinds) {
                text += kind;
                for (const int64_t number : {sum.calls, sum.ns, sum.cpu_ns}) {
                    text += '|' + std::to_string(number);
                }
                text += '\n';
            }
            counts->kinds.clear();
        }
        return strdup(text.c_str());
    } catch (...) {
        return nullptr;
    }
}

PUBLIC void scalana_operators_free(char *text)
{
    free(text);
}
