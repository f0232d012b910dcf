// The driver's calls, as cuda.h declares them. Those that PyCUDA needs and nobody uses here are in unsupported.h.
#include "standin.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <set>
#include <unistd.h>

using namespace standin;

struct standin::Context { bool primary; };

struct Kernel { const char* name; void (*run)(const char* arguments, int grid_x, int grid_y); std::size_t bytes; const int* pointers; };
struct Module : Handle { void* library; };
struct Function : Handle { const Kernel* kernel; };

namespace {

Context primary{true};
thread_local std::vector<Context*> stack;
std::set<const void*> handles;  // of everything that is alive
Stream default_stream;
bool started = false;

Code refuse(Code code, const std::string& why) { return device().refuse(code, why); }

#define LOCKED std::lock_guard<std::recursive_mutex> locked(device().lock)
#define NEED_CONTEXT                                                                                              \
    LOCKED;                                                                                                       \
    if (!started) return refuse(Code(3), "the driver is not initialised: call cuInit first");                      \
    if (stack.empty()) return refuse(INVALID_CONTEXT, "no context is current in this thread: push one first");     \
    if (device().failed) return device().failed

template <class T>
Code find(T*& found, void* handle, Handle::Kind kind, const char* what)
{
    found = static_cast<T*>(handle);
    if (!handles.count(handle) || static_cast<Handle*>(handle)->kind != kind)
        return refuse(INVALID_HANDLE, std::string("this is no ") + what + ", or it was destroyed");
    if (found->owner != stack.back())
        return refuse(INVALID_HANDLE, std::string("this ") + what + " belongs to a context that is not current");
    return OK;
}

Code find_stream(Stream*& found, void* handle)
{
    if (reinterpret_cast<std::uintptr_t>(handle) <= 2) {
        found = &default_stream;
        return OK;
    }
    return find(found, handle, Handle::STREAM, "stream");
}

template <class T>
T* made(T* handle, Handle::Kind kind)
{
    handle->kind = kind;
    handle->owner = stack.back();
    handles.insert(handle);
    return handle;
}

// Device memory where it is device memory, whatever it is elsewhere.
void touched(Accesses& accesses, const void* at, std::size_t size, bool writes)
{
    const auto address = reinterpret_cast<Address>(at);
    if (device().memory.contains(address) && size)
        writes ? accesses.write(address, size) : accesses.read(address, size);
}

bool in_device(unsigned long long at) { return device().memory.contains(at); }

Code copy(void* stream_handle, void* out, const void* source, std::size_t size, const char* name, bool wait)
{
    NEED_CONTEXT;
    Stream* stream;
    if (Code code = find_stream(stream, stream_handle))
        return code;
    Code code = device().issue(stream, name, [=](Accesses& accesses) {
        touched(accesses, source, size, false);
        touched(accesses, out, size, true);
        std::memcpy(out, source, size);
    });
    return code || !wait ? code : device().synchronise(stream);
}

Code device_side(unsigned long long at, const char* what)
{
    return in_device(at) ? OK : refuse(INVALID_VALUE, std::string(what) + " is no address of device memory");
}

template <class T>
Code fill(void* stream_handle, unsigned long long at, T value, std::size_t count, bool wait)
{
    NEED_CONTEXT;
    Stream* stream;
    if (Code code = device_side(at, "what is to be filled"))
        return code;
    if (Code code = find_stream(stream, stream_handle))
        return code;
    Code code = device().issue(stream, "a memset", [=](Accesses& accesses) {
        accesses.write(at, count * sizeof(T));
        std::fill_n(reinterpret_cast<T*>(at), count, value);
    });
    return code || !wait ? code : device().synchronise(stream);
}

}  // namespace

#define CU extern "C" int

CU cuInit(unsigned)
{
    LOCKED;
    if (!started) {
        if (!device().memory.reserve())
            return OUT_OF_MEMORY;
        if (const char* bytes = std::getenv("RNNOPT_STANDIN_MEMORY"))
            device().memory.capacity = std::strtoull(bytes, nullptr, 10);
        if (const char* seed = std::getenv("RNNOPT_STANDIN_SEED"))
            device().seed(std::strtoull(seed, nullptr, 10));
        default_stream.kind = Handle::STREAM;
        default_stream.index = device().new_stream();
        device().all.push_back(&default_stream);
        started = true;
    }
    return OK;
}
CU cuDriverGetVersion(int* version) { *version = 13000; return OK; }

// Devices and contexts

CU cuDeviceGetCount(int* count) { *count = 1; return OK; }
CU cuDeviceGet(int* out, int number) { *out = number; return number ? refuse(INVALID_DEVICE, "the stand-in has one device, number 0") : OK; }
CU cuDeviceGetName(char* out, int size, int) { std::snprintf(out, size, "stand-in driver on CPU"); return OK; }
CU cuDeviceComputeCapability(int* major, int* minor, int) { *major = 9; *minor = 0; return OK; }
CU cuDeviceTotalMem_v2(std::size_t* bytes, int) { *bytes = device().memory.capacity; return OK; }
CU cuDeviceGetPCIBusId(char* out, int size, int) { std::snprintf(out, size, "0000:00:00.0"); return OK; }
CU cuDeviceGetUuid_v2(char* out, int) { std::memset(out, 0, 16); return OK; }
CU cuDeviceGetAttribute(int* value, int attribute, int)
{
    static const std::map<int, int> known{{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152},
        {10, 32}, {16, 1}, {38, 1 << 20}, {39, 2048}, {41, 1}, {75, 9}, {76, 0}};
    auto found = known.find(attribute);
    *value = found == known.end() ? 0 : found->second;
    return OK;
}
CU cuDevicePrimaryCtxRetain(Context** out, int) { *out = &primary; return started ? OK : 3; }
CU cuDevicePrimaryCtxRelease_v2(int) { return OK; }
CU cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) { *flags = 0; *active = 1; return OK; }
CU cuCtxCreate_v4(Context** out, void*, unsigned, int) { *out = new Context{false}; stack.push_back(*out); return OK; }
CU cuCtxDestroy_v2(Context* context)
{
    stack.erase(std::remove(stack.begin(), stack.end(), context), stack.end());
    return OK;
}
CU cuCtxPushCurrent_v2(Context* context) { stack.push_back(context); return OK; }
CU cuCtxPopCurrent_v2(Context** out)
{
    if (stack.empty())
        return refuse(INVALID_CONTEXT, "no context is current that could be popped");
    if (out)
        *out = stack.back();
    stack.pop_back();
    return OK;
}
CU cuCtxGetCurrent(Context** out) { *out = stack.empty() ? nullptr : stack.back(); return OK; }
CU cuCtxSetCurrent(Context* context)
{
    if (!stack.empty())
        stack.pop_back();
    if (context)
        stack.push_back(context);
    return OK;
}
CU cuCtxGetDevice(int* out) { *out = 0; return stack.empty() ? refuse(INVALID_CONTEXT, "no context is current in this thread") : OK; }
CU cuCtxGetApiVersion(Context*, unsigned* version) { *version = 13000; return OK; }
CU cuCtxAttach(Context** out, unsigned) { return stack.empty() ? INVALID_CONTEXT : (*out = stack.back(), OK); }
CU cuCtxDetach(Context* context) { return cuCtxDestroy_v2(context); }
CU cuCtxSynchronize() { NEED_CONTEXT; return device().synchronise(); }

// Memory

CU cuMemAlloc_v2(unsigned long long* out, std::size_t size)
{
    NEED_CONTEXT;
    if (!size)
        return refuse(INVALID_VALUE, "an allocation needs at least one byte");
    if (Code code = device().unless_capturing("an allocation"))
        return code;
    *out = device().memory.allocate(size);
    return *out ? OK : refuse(OUT_OF_MEMORY, "out of memory");
}
CU cuMemFree_v2(unsigned long long at)
{
    LOCKED;
    if (stack.empty())
        return refuse(INVALID_CONTEXT, "no context is current in this thread: push one first");
    if (!device().failed)  // after a failure, memory can still be given back
        if (Code code = device().unless_capturing("freeing memory"); code || (code = device().synchronise()))
            return code;
    const Range range = device().memory.allocation(at);
    if (!device().memory.release(at))
        return refuse(INVALID_VALUE, "this is no allocation, or it was freed already");
    device().races.forget(range);
    return OK;
}
CU cuMemGetInfo_v2(std::size_t* free, std::size_t* total)
{
    NEED_CONTEXT;
    *total = device().memory.capacity;
    *free = *total - device().memory.used;
    return OK;
}
CU cuMemGetAddressRange_v2(unsigned long long* base, std::size_t* size, unsigned long long at)
{
    NEED_CONTEXT;
    const Range range = device().memory.allocation(at);
    *base = range.begin;
    *size = range.end - range.begin;
    return range.end ? OK : refuse(INVALID_VALUE, "this is no address of an allocation");
}
CU cuMemHostAlloc(void** out, std::size_t size, unsigned) { *out = std::malloc(size); return *out ? OK : OUT_OF_MEMORY; }
CU cuMemFreeHost(void* at) { LOCKED; if (!device().failed) device().synchronise(); std::free(at); return OK; }

typedef unsigned long long Pointer;
static void* at(Pointer address) { return reinterpret_cast<void*>(address); }
CU cuMemcpyHtoD_v2(Pointer out, const void* in, std::size_t n) { return device_side(out, "the target") ?: copy(nullptr, at(out), in, n, "a copy to the device", true); }
CU cuMemcpyDtoH_v2(void* out, Pointer in, std::size_t n) { return device_side(in, "the source") ?: copy(nullptr, out, at(in), n, "a copy to the host", true); }
CU cuMemcpyDtoD_v2(Pointer out, Pointer in, std::size_t n) { return copy(nullptr, at(out), at(in), n, "a copy", false); }
CU cuMemcpyHtoDAsync_v2(Pointer out, const void* in, std::size_t n, void* s) { return device_side(out, "the target") ?: copy(s, at(out), in, n, "a copy to the device", false); }
CU cuMemcpyDtoHAsync_v2(void* out, Pointer in, std::size_t n, void* s) { return device_side(in, "the source") ?: copy(s, out, at(in), n, "a copy to the host", false); }
CU cuMemcpyDtoDAsync_v2(Pointer out, Pointer in, std::size_t n, void* s) { return copy(s, at(out), at(in), n, "a copy", false); }

CU cuMemsetD8_v2(Pointer p, unsigned char v, std::size_t n) { return fill(nullptr, p, v, n, true); }
CU cuMemsetD16_v2(Pointer p, unsigned short v, std::size_t n) { return fill(nullptr, p, v, n, true); }
CU cuMemsetD32_v2(Pointer p, unsigned v, std::size_t n) { return fill(nullptr, p, v, n, true); }
CU cuMemsetD8Async(Pointer p, unsigned char v, std::size_t n, void* s) { return fill(s, p, v, n, false); }
CU cuMemsetD16Async(Pointer p, unsigned short v, std::size_t n, void* s) { return fill(s, p, v, n, false); }
CU cuMemsetD32Async(Pointer p, unsigned v, std::size_t n, void* s) { return fill(s, p, v, n, false); }

struct Copy2D {
    std::size_t source_x, source_y; int source_type; const char* source_host; Pointer source; void* source_array; std::size_t source_pitch;
    std::size_t out_x, out_y; int out_type; char* out_host; Pointer out; void* out_array; std::size_t out_pitch;
    std::size_t width, height;
};
static Code copy_2d(const Copy2D& c, void* stream_handle, bool wait)
{
    NEED_CONTEXT;
    Stream* stream;
    if (Code code = find_stream(stream, stream_handle))
        return code;
    if (c.source_type == 3 || c.out_type == 3)
        return refuse(NOT_SUPPORTED, "the stand-in has no arrays");
    const std::size_t source_pitch = c.source_pitch ? c.source_pitch : c.width, out_pitch = c.out_pitch ? c.out_pitch : c.width;
    if (source_pitch < c.width || out_pitch < c.width)
        return refuse(INVALID_VALUE, "a pitch is less than the width that is to be copied");
    const char* source = (c.source_type == 1 ? c.source_host : static_cast<char*>(at(c.source))) + c.source_y * source_pitch + c.source_x;
    char* out = (c.out_type == 1 ? c.out_host : static_cast<char*>(at(c.out))) + c.out_y * out_pitch + c.out_x;
    Code code = device().issue(stream, "a copy", [=, width = c.width, height = c.height](Accesses& accesses) {
        for (std::size_t row = 0; row < height; row++) {
            touched(accesses, source + row * source_pitch, width, false);
            touched(accesses, out + row * out_pitch, width, true);
            std::memcpy(out + row * out_pitch, source + row * source_pitch, width);
        }
    });
    return code || !wait ? code : device().synchronise(stream);
}
CU cuMemcpy2D_v2(const Copy2D* c) { return copy_2d(*c, nullptr, true); }
CU cuMemcpy2DUnaligned_v2(const Copy2D* c) { return copy_2d(*c, nullptr, true); }
CU cuMemcpy2DAsync_v2(const Copy2D* c, void* stream) { return copy_2d(*c, stream, false); }

// Streams and events

CU cuStreamCreateWithPriority(Stream** out, unsigned flags, int)
{
    NEED_CONTEXT;
    *out = made(new Stream, Handle::STREAM);
    (*out)->flags = flags;
    (*out)->index = device().new_stream();
    device().all.push_back(*out);
    return OK;
}
CU cuStreamCreate(Stream** out, unsigned flags) { return cuStreamCreateWithPriority(out, flags, 0); }
CU cuStreamDestroy_v2(void* handle)
{
    LOCKED;
    auto& all = device().all;
    all.erase(std::remove(all.begin(), all.end(), handle), all.end());
    return handles.erase(handle) ? OK : refuse(INVALID_HANDLE, "this is no stream, or it was destroyed");
}
CU cuStreamSynchronize(void* handle) { NEED_CONTEXT; Stream* s; if (Code code = find_stream(s, handle)) return code; return device().synchronise(s); }
CU cuStreamQuery(void* handle)
{
    NEED_CONTEXT;
    Stream* stream;
    if (Code code = find_stream(stream, handle))
        return code;
    if (stream->capture)
        return device().synchronise(stream);
    if (device().done(stream))
        return OK;
    device().run_one();  // or whoever asks again and again would ask for ever
    return device().failed ? device().failed : NOT_READY;
}
CU cuStreamWaitEvent(void* handle, void* event_handle, unsigned)
{
    NEED_CONTEXT;
    Stream* stream;
    Event* event;
    if (Code code = find_stream(stream, handle))
        return code;
    if (Code code = find(event, event_handle, Handle::EVENT, "event"))
        return code;
    return device().wait(stream, event);
}
CU cuEventCreate(Event** out, unsigned flags) { NEED_CONTEXT; *out = made(new Event, Handle::EVENT); (*out)->flags = flags; return OK; }
CU cuEventDestroy_v2(void* handle) { LOCKED; return handles.erase(handle) ? OK : refuse(INVALID_HANDLE, "this is no event, or it was destroyed"); }
CU cuEventRecord(void* handle, void* stream_handle)
{
    NEED_CONTEXT;
    Stream* stream;
    Event* event;
    if (Code code = find_stream(stream, stream_handle))
        return code;
    if (Code code = find(event, handle, Handle::EVENT, "event"))
        return code;
    return device().record(event, stream);
}
CU cuEventSynchronize(void* handle) { NEED_CONTEXT; Event* e; if (Code code = find(e, handle, Handle::EVENT, "event")) return code; return device().synchronise(e); }
CU cuEventQuery(void* handle)
{
    NEED_CONTEXT;
    Event* event;
    if (Code code = find(event, handle, Handle::EVENT, "event"))
        return code;
    if (device().done(event))
        return OK;
    device().run_one();
    return device().failed ? device().failed : NOT_READY;
}
CU cuEventElapsedTime_v2(float* out, void* start_handle, void* stop_handle)
{
    NEED_CONTEXT;
    Event *start, *stop;
    if (Code code = find(start, start_handle, Handle::EVENT, "event"))
        return code;
    if (Code code = find(stop, stop_handle, Handle::EVENT, "event"))
        return code;
    if (start->flags & 2 || stop->flags & 2 || !start->recorded || !stop->recorded)
        return refuse(INVALID_HANDLE, "these events have no time: they were never recorded, or made without timing");
    if (!device().done(start) || !device().done(stop))
        return NOT_READY;
    *out = float(*stop->milliseconds - *start->milliseconds);
    return OK;
}
CU cuEventElapsedTime(float* out, void* start, void* stop) { return cuEventElapsedTime_v2(out, start, stop); }

// Modules and launches

CU cuModuleLoadDataEx(Module** out, const void* image, unsigned, int*, void**)
{
    NEED_CONTEXT;
    const auto* elf = static_cast<const unsigned char*>(image);
    if (std::memcmp(elf, "\177ELF", 4))
        return refuse(INVALID_IMAGE, "the stand-in loads host builds of kernels (ELF), and this is none");
    // Its length is not told, but its section headers come last.
    std::uint64_t headers; std::uint16_t size, count;
    std::memcpy(&headers, elf + 40, 8); std::memcpy(&size, elf + 58, 2); std::memcpy(&count, elf + 60, 2);
    char path[] = "/tmp/rnnopt-module-XXXXXX";
    const int file = mkstemp(path);
    const std::size_t length = headers + std::size_t(size) * count;
    if (file < 0 || write(file, image, length) != (ssize_t)length)
        return refuse(INVALID_IMAGE, "a module could not be written to /tmp, from where it is loaded");
    close(file);
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    if (!library)
        return refuse(INVALID_IMAGE, dlerror());
    if (!dlsym(library, "standin_kernels"))
        return refuse(INVALID_IMAGE, "this library was not built for the stand-in: it has no table of kernels");
    *out = made(new Module, Handle::MODULE);
    (*out)->library = library;
    return OK;
}
CU cuModuleLoadData(Module** out, const void* image) { return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr); }
CU cuModuleUnload(void* handle) { LOCKED; return handles.erase(handle) ? OK : refuse(INVALID_HANDLE, "this is no module, or it was unloaded"); }
CU cuModuleGetFunction(Function** out, void* handle, const char* name)
{
    NEED_CONTEXT;
    Module* module;
    if (Code code = find(module, handle, Handle::MODULE, "module"))
        return code;
    for (auto* kernel = static_cast<const Kernel*>(dlsym(module->library, "standin_kernels")); kernel->name; kernel++)
        if (!std::strcmp(kernel->name, name)) {
            *out = made(new Function, Handle::FUNCTION);
            (*out)->kernel = kernel;
            return OK;
        }
    return refuse(NOT_FOUND, std::string("this module has no kernel ") + name);
}
CU cuFuncGetAttribute(int* value, int attribute, void*) { *value = attribute == 0 ? 1024 : attribute == 4 ? 32 : 0; return OK; }
CU cuFuncSetAttribute(void*, int, int) { return OK; }
CU cuFuncSetCacheConfig(void*, int) { return OK; }
CU cuFuncSetBlockShape(void*, int, int, int) { return OK; }
CU cuFuncSetSharedSize(void*, unsigned) { return OK; }

CU cuLaunchKernel(void* handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                  unsigned, void* stream_handle, void** parameters, void** extra)
{
    NEED_CONTEXT;
    Stream* stream;
    Function* function;
    if (Code code = find_stream(stream, stream_handle))
        return code;
    if (Code code = find(function, handle, Handle::FUNCTION, "function"))
        return code;
    const Kernel& kernel = *function->kernel;
    if (!grid_x || !grid_y || grid_z != 1 || grid_y > 65535 || !block_x || block_x > 1024 || block_y != 1 || block_z != 1)
        return refuse(INVALID_VALUE, std::string("the launch of ") + kernel.name + " has a grid or block that no card takes, or that these kernels don't");
    if (parameters || !extra)
        return refuse(NOT_SUPPORTED, "the stand-in takes arguments as one packed buffer, as PyCUDA gives them");
    const char* buffer = nullptr;
    std::size_t bytes = 0;
    for (; *extra; extra += 2) {
        if (*extra == reinterpret_cast<void*>(1))
            buffer = static_cast<const char*>(extra[1]);
        if (*extra == reinterpret_cast<void*>(2))
            bytes = *static_cast<std::size_t*>(extra[1]);
    }
    if (!buffer || bytes != kernel.bytes)
        return refuse(INVALID_VALUE, std::string("the launch of ") + kernel.name + " has " + std::to_string(bytes) + " bytes of arguments, and its signature "
                      + std::to_string(kernel.bytes));
    const std::string arguments(buffer, bytes);
    for (const int* offset = kernel.pointers; *offset >= 0; offset++) {
        Pointer pointer;
        std::memcpy(&pointer, arguments.data() + *offset, sizeof pointer);
        if (!in_device(pointer))
            return refuse(INVALID_VALUE, std::string("an argument of ") + kernel.name + " is no address of device memory");
    }
    return device().issue(stream, std::string("kernel ") + kernel.name, [=, &kernel](Accesses& accesses) {
        recording = &accesses;
        kernel.run(arguments.data(), (int)grid_x, (int)grid_y);
        recording = nullptr;
    });
}

// Graphs

CU cuStreamBeginCapture_v2(void* handle, int mode) { NEED_CONTEXT; Stream* s; if (Code code = find_stream(s, handle)) return code; return device().begin_capture(s, mode); }
CU cuStreamEndCapture(void* handle, Graph** out)
{
    NEED_CONTEXT;
    Stream* stream;
    *out = nullptr;
    if (Code code = find_stream(stream, handle))
        return code;
    if (Code code = device().end_capture(stream, out))
        return code;
    handles.insert(*out);
    return OK;
}
CU cuStreamIsCapturing(void* handle, int* status)
{
    NEED_CONTEXT;
    Stream* stream;
    if (Code code = find_stream(stream, handle))
        return code;
    *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
    return OK;
}
CU cuGraphInstantiateWithFlags(Executable** out, void* handle, unsigned long long)
{
    NEED_CONTEXT;
    Graph* graph;
    if (Code code = find(graph, handle, Handle::GRAPH, "graph"))
        return code;
    *out = made(new Executable, Handle::EXECUTABLE);
    (*out)->graph = *graph;
    for (int n = 0; n < graph->streams; n++)
        (*out)->streams.push_back(device().new_stream());
    return OK;
}
CU cuGraphLaunch(void* handle, void* stream_handle)
{
    NEED_CONTEXT;
    Stream* stream;
    Executable* executable;
    if (Code code = find_stream(stream, stream_handle))
        return code;
    if (Code code = find(executable, handle, Handle::EXECUTABLE, "executable graph"))
        return code;
    return device().launch(executable, stream);
}
CU cuGraphDestroy(void* handle) { LOCKED; return handles.erase(handle) ? OK : refuse(INVALID_HANDLE, "this is no graph, or it was destroyed"); }
CU cuGraphExecDestroy(void* handle) { LOCKED; return handles.erase(handle) ? OK : refuse(INVALID_HANDLE, "this is no executable graph, or it was destroyed"); }
CU cuGraphGetNodes(void* handle, void*, std::size_t* count)
{
    NEED_CONTEXT;
    Graph* graph;
    if (Code code = find(graph, handle, Handle::GRAPH, "graph"))
        return code;
    *count = graph->nodes.size();
    return OK;
}

// Errors, and what is asked for by name

CU cuGetErrorName(int code, const char** out)
{
    static const std::map<int, const char*> names{{0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"},
        {3, "CUDA_ERROR_NOT_INITIALIZED"}, {101, "CUDA_ERROR_INVALID_DEVICE"}, {200, "CUDA_ERROR_INVALID_IMAGE"},
        {201, "CUDA_ERROR_INVALID_CONTEXT"}, {400, "CUDA_ERROR_INVALID_HANDLE"}, {500, "CUDA_ERROR_NOT_FOUND"}, {600, "CUDA_ERROR_NOT_READY"},
        {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {719, "CUDA_ERROR_LAUNCH_FAILED"}, {801, "CUDA_ERROR_NOT_SUPPORTED"},
        {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}, {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
        {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"}, {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"}, {907, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"}};
    auto found = names.find(code);
    *out = found == names.end() ? "CUDA_ERROR_UNKNOWN" : found->second;
    return OK;
}
CU cuGetErrorString(int code, const char** out)
{
    static thread_local std::string said;
    LOCKED;
    const char* name;
    cuGetErrorName(code, &name);
    said = name;
    if (code && !device().message.empty())
        said += ": " + device().message;
    *out = said.c_str();
    return OK;
}

static int not_supported() { return refuse(NOT_SUPPORTED, "the stand-in driver does not have this call"); }

CU cuGetProcAddress_v2(const char* symbol, void** out, int, unsigned long long, int* status)
{
    // A call is asked for by its first name, whatever version of it is meant.
    static const std::map<std::string, std::string> renamed{{"cuGraphInstantiate", "cuGraphInstantiateWithFlags"}};
    auto other = renamed.find(symbol);
    const std::string name = other == renamed.end() ? symbol : other->second;
    static void* self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    *out = nullptr;
    for (const char* version : {"_v4", "_v3", "_v2", ""})
        if ((*out = dlsym(self, (name + version).c_str())))
            break;
    if (!*out)
        *out = reinterpret_cast<void*>(not_supported);
    if (status)
        *status = 0;
    return OK;
}
CU cuGetProcAddress(const char* symbol, void** out, int version, unsigned long long flags) { return cuGetProcAddress_v2(symbol, out, version, flags, nullptr); }

// For the stand-in of cuBLAS, which has no streams of its own.
extern "C" int standin_issue(void* stream_handle, const char* name, void (*run)(void*, void*), void* data, void (*done)(void*))
{
    NEED_CONTEXT;
    Stream* stream;
    if (Code code = find_stream(stream, stream_handle))
        return code;
    std::shared_ptr<void> kept(data, done);
    return device().issue(stream, name, [=](Accesses& accesses) { run(kept.get(), &accesses); });
}
extern "C" void standin_access(void* accesses, const void* at, std::size_t size, int writes)
{
    touched(*static_cast<Accesses*>(accesses), at, size, writes);
}
extern "C" int standin_in_device(const void* at) { return in_device(reinterpret_cast<Pointer>(at)); }
extern "C" int standin_context_is_current() { return !stack.empty(); }

#include "unsupported.h"
