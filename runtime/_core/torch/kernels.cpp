// Kernels in front of torch's communication operators, and of the wait of its functional collectives.
//
// A kernel in Python costs each call many microseconds for carrying its arguments over and back, and takes the
// interpreter's lock. These read the arguments where they are. They stand on the ADInplaceOrView key, which no
// communication operator uses and which comes before BackendSelect, where the kernels in Python stand: a call that is
// recorded here passes by those; any other (of a group that is not known yet, of a mode) goes on to them. Nothing in
// here, nor in what it leaves with torch to be called, needs the interpreter's lock: threads that complete works must
// never wait for one who waits for them. Compiled by torch_build.py against the torch at hand.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <memory>
#include <vector>

extern "C" {
#include "api.h"
}

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

const scalana_torch_api *api;

constexpr DispatchKeySet below(DispatchKeySet::FULL_AFTER, DispatchKey::ADInplaceOrView);
constexpr DispatchKeySet backends(DispatchKeySet::FULL_AFTER, DispatchKey::BackendSelect);
// Modes, functionalization and the like: what they do with the call comes back as another one.
const DispatchKeySet transforms(DispatchKeySet::RAW,
                                (below - backends).remove(DispatchKey::BackendSelect).raw_repr() &
                                    ~c10::full_backend_mask);

// What the tensors are that a call puts in.
struct Payload {
    int64_t bytes = 0;
    bool any = false, on_host = true, meta = false;

    void add(const c10::IValue &value)
    {
        if (value.isTensor()) {
            const at::Tensor &tensor = value.toTensor();
            if (tensor.defined()) {
                on_host = any ? on_host : tensor.is_cpu();
                any = true;
                meta = meta || tensor.is_meta();
                bytes += static_cast<int64_t>(tensor.nbytes());
            }
        } else if (value.isList()) {
            for (const c10::IValue &part : value.toListRef()) {
                add(part);
            }
        }
    }
};

using Storages = c10::SmallVector<const void *, 8>;

void add_storage(const c10::IValue &value, Storages *storages)
{
    if (value.isTensor()) {
        const at::Tensor &tensor = value.toTensor();
        if (tensor.defined() && tensor.has_storage()) {
            storages->push_back(tensor.storage().unsafeGetStorageImpl());
        }
    }
}

// The storages by which wait_tensor will know the operation.
Storages storages_of(const c10::IValue &value)
{
    Storages storages;
    add_storage(value, &storages);
    if (value.isList()) {
        for (const c10::IValue &part : value.toListRef()) {
            add_storage(part, &storages);
        }
    }
    return storages;
}

// The C++ object in an argument or a result of a class of torch; nullptr when there is none.
torch::CustomClassHolder *object_of(const c10::IValue &value)
{
    if (!value.isObject()) {
        return nullptr;
    }
    const c10::IValue &slot = value.toObjectRef().getSlot(0);
    return slot.isCapsule() ? slot.toCapsule().get() : nullptr;
}

// Collects the posts of the backward pass that the calling thread is in, until it is over.
//
// Final callbacks run in the order in which they were queued. The reducer queues its own, which waits, when its last
// bucket has been posted, so after our first one, and before the one that our first one queues. In the first step of a
// static graph it posts and waits within one final callback, where no node of the graph is at work.
void look_after_backward(int64_t graph_task)
{
    const uint64_t scope = api->open_scope(graph_task, torch::autograd::get_current_node() == nullptr);
    if (scope == 0) {
        return;
    }
    try {
        torch::autograd::Engine::get_default_engine().queue_callback([scope] {
            api->begin_scope(scope);
            try {
                torch::autograd::Engine::get_default_engine().queue_callback([scope] { api->close_scope(scope); });
            } catch (...) {
                api->drop_scope(scope);
            }
        });
    } catch (...) {
        api->drop_scope(scope);
    }
}

// Has the completion of a post recorded by whichever thread completes it.
void tell_of_completion(uint64_t event, c10d::Work *work)
{
    try {
        work->getFuture()->addCallback([event](c10::ivalue::Future &) { api->completed(event); },
                                       /*uses_future=*/false);
    } catch (...) {
        api->without_future(event);
    }
}

class Communication final : public c10::OperatorKernel {
public:
    explicit Communication(const scalana_torch_operator &op) : op_(op)
    {
    }

    void operator()(const c10::OperatorHandle &handle, DispatchKeySet keys, torch::jit::Stack *stack)
    {
        Payload payload;
        Storages storages;
        const scalana_torch_entry entry = enter(handle, keys, *stack, &payload, &storages);
        if (entry.event == 0) {
            handle.redispatchBoxed(keys & below, stack);
            return;
        }
        try {
            handle.redispatchBoxed(keys & backends, stack);
        } catch (...) {
            api->leave(entry.event, false);
            throw;
        }
        torch::CustomClassHolder *work = op_.has_work && !stack->empty() ? object_of(stack->back()) : nullptr;
        if (!entry.post || work == nullptr) {
            // Without a Work the backend has waited by itself.
            api->leave(entry.event, !entry.post && work != nullptr);
            return;
        }
        // torch hands out this one Work here and, later, to the user.
        const bool future = api->posted(entry.event, work);
        for (const void *storage : storages) {
            api->posted_result(entry.event, storage);
        }
        // A work of a device completes, as far as the host can see, when its kernel is enqueued: that says nothing.
        if (future && payload.on_host) {
            tell_of_completion(entry.event, static_cast<c10d::Work *>(work));
        }
    }

private:
    scalana_torch_entry enter(const c10::OperatorHandle &handle, DispatchKeySet keys, const torch::jit::Stack &stack,
                              Payload *payload, Storages *storages) const
    {
        const size_t count = handle.schema().arguments().size();
        if (!(keys & transforms).empty() || stack.size() < count) {
            return {};
        }
        const c10::IValue *arguments = stack.data() + (stack.size() - count);
        scalana_torch_call call{};
        call.operation = op_.operation;
        call.message = op_.message;
        call.any_source = op_.any_source;
        call.has_work = op_.has_work;
        call.group = object_of(arguments[op_.group]);
        call.peer = op_.peer >= 0 && arguments[op_.peer].isInt() ? arguments[op_.peer].toInt() : -1;
        call.tag = op_.tag >= 0 && arguments[op_.tag].isInt() ? arguments[op_.tag].toInt() : 0;
        call.asynchronous = op_.async >= 0 ? !arguments[op_.async].isBool() || arguments[op_.async].toBool()
                                           : !op_.message;
        if (op_.payload >= 0) {
            payload->add(arguments[op_.payload]);
        }
        if (call.group == nullptr || payload->meta) {
            return {};
        }
        call.nbytes = payload->bytes;
        call.graph_task = torch::autograd::get_current_graph_task_id();
        if (call.graph_task >= 0 && op_.has_work) {
            look_after_backward(call.graph_task);
        }
        const scalana_torch_entry entry = api->enter(&call);
        if (entry.post && !entry.from_public && op_.result >= 0) {
            *storages = storages_of(arguments[op_.result]);
        }
        return entry;
    }

    scalana_torch_operator op_;
};

// _c10d_functional::wait_tensor
class WaitTensor final : public c10::OperatorKernel {
public:
    void operator()(const c10::OperatorHandle &handle, DispatchKeySet keys, torch::jit::Stack *stack)
    {
        if (!(keys & transforms).empty() || stack->empty()) {
            handle.redispatchBoxed(keys & below, stack);
            return;
        }
        const Storages storages = storages_of(stack->back());
        const uint64_t event = storages.empty() ? 0 : api->enter_wait(storages[0]);
        try {
            handle.redispatchBoxed(keys & backends, stack);
        } catch (...) {
            api->leave_wait(event);
            throw;
        }
        api->leave_wait(event);
    }
};

std::vector<c10::RegistrationHandleRAII> *registrations;

int put_in_front(const char *name, c10::KernelFunction kernel)
{
    try {
        registrations->push_back(c10::Dispatcher::singleton().registerImpl(
            c10::OperatorName(name, ""), DispatchKey::ADInplaceOrView, std::move(kernel), std::nullopt, nullptr,
            "scalana"));
        return 1;
    } catch (...) {
        return 0;
    }
}

} // namespace

// Registers a kernel per operator. Returns how many were.
extern "C" __attribute__((visibility("default"))) int scalana_torch_attach(const scalana_torch_api *recorder,
                                                                           const scalana_torch_operator *operators,
                                                                           int count)
{
    if (recorder->version != SCALANA_TORCH_API_VERSION || registrations != nullptr) {
        return 0;
    }
    api = recorder;
    registrations = new std::vector<c10::RegistrationHandleRAII>;
    int done = put_in_front("_c10d_functional::wait_tensor",
                            c10::KernelFunction::makeFromBoxedFunctor<WaitTensor>(std::make_unique<WaitTensor>()));
    for (int i = 0; i < count; i++) {
        done += put_in_front(operators[i].name, c10::KernelFunction::makeFromBoxedFunctor<Communication>(
                                                    std::make_unique<Communication>(operators[i])));
    }
    return done;
}

// Takes them out again. Calls that are under way are completed as they would have been.
extern "C" __attribute__((visibility("default"))) void scalana_torch_detach(void)
{
    delete registrations;
    registrations = nullptr;
}
