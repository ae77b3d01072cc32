// Kernels in front of torch's communication operators, for calls that wait: those of the public, synchronous functions.
//
// A kernel in Python costs each call several microseconds for carrying its arguments over and back, and the
// interpreter's lock. These read the arguments where they are. They stand on the ADInplaceOrView key, which no
// communication operator uses and which comes before BackendSelect, where the kernels in Python stand: a call that is
// recorded here passes by those, any other goes on to them. Compiled by torch_build.py against the torch at hand.

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <vector>

extern "C" {
#include "torch_api.h"
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

bool add_bytes(const c10::IValue &value, int64_t *bytes)
{
    if (value.isTensor()) {
        const at::Tensor &tensor = value.toTensor();
        *bytes += tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
        return !tensor.defined() || !tensor.is_meta();
    }
    if (value.isList()) {
        for (const c10::IValue &part : value.toListRef()) {
            if (!add_bytes(part, bytes)) {
                return false;
            }
        }
    }
    return true;
}

// Address of the C++ object in an argument of a class of torch; nullptr when there is none.
const void *object_of(const c10::IValue &value)
{
    if (!value.isObject()) {
        return nullptr;
    }
    const c10::IValue &slot = value.toObjectRef().getSlot(0);
    return slot.isCapsule() ? slot.toCapsule().get() : nullptr;
}

class Kernel final : public c10::OperatorKernel {
public:
    explicit Kernel(const scalana_torch_operator &op) : op_(op)
    {
    }

    void operator()(const c10::OperatorHandle &handle, DispatchKeySet keys, torch::jit::Stack *stack)
    {
        const uint64_t event = enter(handle, keys, *stack);
        if (event == 0) {
            handle.redispatchBoxed(keys & below, stack);
            return;
        }
        try {
            handle.redispatchBoxed(keys & backends, stack);
        } catch (...) {
            api->leave(event, false);
            throw;
        }
        // Without a Work the backend has waited by itself.
        api->leave(event, !stack->empty() && object_of(stack->back()) != nullptr);
    }

private:
    uint64_t enter(const c10::OperatorHandle &handle, DispatchKeySet keys, const torch::jit::Stack &stack) const
    {
        const size_t count = handle.schema().arguments().size();
        if (!(keys & transforms).empty() || stack.size() < count) {
            return 0;
        }
        const c10::IValue *arguments = stack.data() + (stack.size() - count);
        if (op_.async >= 0 && (!arguments[op_.async].isBool() || arguments[op_.async].toBool())) {
            return 0;
        }
        scalana_torch_call call{op_.operation, op_.message, object_of(arguments[op_.group]), -1, 0, 0};
        if (op_.peer >= 0 && arguments[op_.peer].isInt()) {
            call.peer = arguments[op_.peer].toInt();
        }
        if (op_.tag >= 0 && arguments[op_.tag].isInt()) {
            call.tag = arguments[op_.tag].toInt();
        }
        if (call.group == nullptr || (op_.payload >= 0 && !add_bytes(arguments[op_.payload], &call.nbytes))) {
            return 0;
        }
        return api->enter(&call);
    }

    scalana_torch_operator op_;
};

} // namespace

// Registers a kernel per operator, for as long as the process lives. Returns how many were.
extern "C" __attribute__((visibility("default"))) int scalana_torch_attach(const scalana_torch_api *recorder,
                                                                           const scalana_torch_operator *operators,
                                                                           int count)
{
    if (recorder->version != SCALANA_TORCH_API_VERSION || api != nullptr) {
        return 0;
    }
    api = recorder;
    auto *registrations = new std::vector<c10::RegistrationHandleRAII>;
    int done = 0;
    for (int i = 0; i < count; i++) {
        try {
            registrations->push_back(c10::Dispatcher::singleton().registerImpl(
                c10::OperatorName(std::string("c10d::") + operators[i].name, ""), DispatchKey::ADInplaceOrView,
                c10::KernelFunction::makeFromBoxedFunctor<Kernel>(std::make_unique<Kernel>(operators[i])),
                std::nullopt, nullptr, "scalana"));
            done++;
        } catch (...) {
        }
    }
    return done;
}
