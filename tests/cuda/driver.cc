// An emulation of the CUDA driver functions that this project calls. It uses host memory, and emulates
// the examples' kernels.
//
// Linked as libcuda.so, it lets a machine without a GPU run libraries built for GPUs. It has two
// devices; a launch finishes before it returns.
//
// Like the driver, it rejects invalid handles, launches in a context that did not load the kernel, and
// more than 1024 threads per block. It also rejects waiting for a stream during capture.
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "emulator.h"
// The examples' kernels, compiled as C++.
#include "kernels.cu"
#include "rms_norm.cu"

using CUresult = int;
enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  STREAM_CAPTURE_UNSUPPORTED = 900,
};

#define API extern "C" __attribute__((visibility("default")))

namespace {

struct Context {
  int device;
};
struct Function;
struct Launched {
  Function* function;  // the kernel, or null for a copy
  unsigned grid[3], block[3], shared;
};
struct Graph {
  std::vector<Launched> launches;
};
struct Stream {
  Context* context;
  bool capturing = false;
  // During a capture, this graph records calls of the driver's functions, which do not run.
  Graph* graph = nullptr;
};
struct Module {
  Context* context;
  std::string text;
};
using Call = void (*)(dim3, dim3, void**);
struct Function {
  Context* context;
  Call call;
  unsigned shared = 48 * 1024;  // default limit of dynamic shared memory per block
};

Context contexts[2] = {{0}, {1}};
std::mutex lock;
std::set<Stream*> streams;
std::set<Module*> modules;
std::set<Function*> functions;
std::atomic<int> launches{0}, captured{0}, loads{0}, unloads{0}, waits{0}, event_waits{0},
    allocations{0};
struct {
  unsigned grid[3], block[3], shared, attributes;
} last;
thread_local std::vector<Context*> stack;
thread_local int capture_mode = 0;

bool known(Context* context) { return context == &contexts[0] || context == &contexts[1]; }

template <typename... P, size_t... I>
void Apply(void (*kernel)(P...), void** values, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_reference_t<P>*>(values[I])...);
}

// Launches `kernel` with arguments in the driver's form: one address per value.
template <auto kernel, typename... P>
void Run(void (*)(P...), dim3 grid, dim3 block, void** values) {
  emulator::launch(grid, block,
                   [values] { Apply<P...>(kernel, values, std::index_sequence_for<P...>()); });
}

#define KERNEL(NAME, FUNCTION)                                                                  \
  {                                                                                             \
    NAME, [](dim3 grid, dim3 block, void** values) { Run<&FUNCTION>(&FUNCTION, grid, block, values); } \
  }

const std::map<std::string, Call>& kernels() {
  static const std::map<std::string, Call> all = {
      KERNEL("tiled_add", tiled_add),
      KERNEL("rms_norm_f32_4", rms_norm_f32_4),
      KERNEL("rms_norm_f32_8", rms_norm_f32_8),
      KERNEL("rms_norm_f32_any", rms_norm_f32_any),
      KERNEL("rms_norm_bf16_4", rms_norm_bf16_4),
      KERNEL("rms_norm_bf16_8", rms_norm_bf16_8),
      KERNEL("rms_norm_bf16_any", rms_norm_bf16_any),
      KERNEL("rms_norm_grad_f32_4", rms_norm_grad_f32_4),
      KERNEL("rms_norm_grad_f32_any", rms_norm_grad_f32_any),
      KERNEL("rms_norm_grad_bf16_4", rms_norm_grad_bf16_4),
      KERNEL("rms_norm_grad_bf16_any", rms_norm_grad_bf16_any),
      KERNEL("polynomial", polynomial),
      KERNEL("partial_sums", partial_sums),
      KERNEL("total", total),
      KERNEL("axpy", axpy),
      KERNEL("sum_and_difference", sum_and_difference),
  };
  return all;
}

CUresult Launch(Function* function, const unsigned grid[3], const unsigned block[3], unsigned shared,
                Stream* stream, void** values, unsigned attributes) {
  {
    std::lock_guard<std::mutex> guard(lock);
    if (!functions.count(function) || !streams.count(stream)) return INVALID_HANDLE;
  }
  if (function->context != stream->context) return INVALID_HANDLE;
  for (int i = 0; i < 3; ++i) {
    if (grid[i] == 0 || block[i] == 0) return INVALID_VALUE;
  }
  if (uint64_t{block[0]} * block[1] * block[2] > 1024 || shared > function->shared) return INVALID_VALUE;
  if (grid[1] > 65535 || grid[2] > 65535) return INVALID_VALUE;
  memcpy(last.grid, grid, sizeof last.grid);
  memcpy(last.block, block, sizeof last.block);
  last.shared = shared;
  last.attributes = attributes;
  ++launches;
  if (stream->capturing) ++captured;
  if (stream->graph != nullptr) {
    stream->graph->launches.push_back(
        {function, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared});
    return SUCCESS;
  }
  function->call(dim3(grid[0], grid[1], grid[2]), dim3(block[0], block[1], block[2]), values);
  return SUCCESS;
}

}  // namespace

// Functions that only tests call
API void* fake_stream(int device) {
  if (device < 0 || device > 1) return nullptr;
  Stream* stream = new Stream{&contexts[device]};
  std::lock_guard<std::mutex> guard(lock);
  streams.insert(stream);
  return stream;
}
API int fake_count(const char* what) {
  const std::string name = what;
  if (name == "launches") return launches;
  if (name == "captured") return captured;
  if (name == "loads") return loads;
  if (name == "unloads") return unloads;
  if (name == "waits") return waits;
  if (name == "event waits") return event_waits;
  if (name == "allocations") return allocations;
  if (name == "depth") return static_cast<int>(stack.size());
  if (name == "grid") return static_cast<int>(last.grid[0]);
  if (name == "block") return static_cast<int>(last.block[0]);
  if (name == "shared") return static_cast<int>(last.shared);
  if (name == "attributes") return static_cast<int>(last.attributes);
  return -1;
}

// Functions of the CUDA driver
API CUresult cuInit(unsigned) { return SUCCESS; }
API CUresult cuGetErrorName(CUresult error, const char** text) {
  switch (error) {
    case INVALID_VALUE: *text = "CUDA_ERROR_INVALID_VALUE"; return SUCCESS;
    case INVALID_IMAGE: *text = "CUDA_ERROR_INVALID_IMAGE"; return SUCCESS;
    case INVALID_HANDLE: *text = "CUDA_ERROR_INVALID_HANDLE"; return SUCCESS;
    case NOT_FOUND: *text = "CUDA_ERROR_NOT_FOUND"; return SUCCESS;
    case INVALID_DEVICE: *text = "CUDA_ERROR_INVALID_DEVICE"; return SUCCESS;
    default: *text = "CUDA_ERROR_OTHER"; return SUCCESS;
  }
}
API CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "as the stand-in for the driver says";
  return SUCCESS;
}
API CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return SUCCESS;
}
API CUresult cuDeviceGetCount(int* count) {
  *count = 2;
  return SUCCESS;
}
API CUresult cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal > 1) return INVALID_DEVICE;
  *device = ordinal;
  return SUCCESS;
}
API CUresult cuDeviceGetName(char* name, int size, int device) {
  snprintf(name, size, "no GPU %d", device);
  return SUCCESS;
}
API CUresult cuDeviceGetAttribute(int* value, int attribute, int) {
  if (attribute == 75) *value = 9;        // compute capability, major version
  else if (attribute == 76) *value = 0;   // compute capability, minor version
  else if (attribute == 16) *value = 2;   // number of multiprocessors
  else *value = 1;
  return SUCCESS;
}
API CUresult cuDevicePrimaryCtxRetain(Context** context, int device) {
  if (device < 0 || device > 1) return INVALID_DEVICE;
  *context = &contexts[device];
  return SUCCESS;
}
API CUresult cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
API CUresult cuCtxPushCurrent_v2(Context* context) {
  if (!known(context)) return INVALID_CONTEXT;
  stack.push_back(context);
  return SUCCESS;
}
API CUresult cuCtxPopCurrent_v2(Context** context) {
  if (stack.empty()) return INVALID_CONTEXT;
  *context = stack.back();
  stack.pop_back();
  return SUCCESS;
}
API CUresult cuCtxGetCurrent(Context** context) {
  *context = stack.empty() ? nullptr : stack.back();
  return SUCCESS;
}
API CUresult cuCtxSetCurrent(Context* context) {
  if (!known(context)) return INVALID_CONTEXT;
  if (stack.empty()) stack.push_back(context);
  stack.back() = context;
  return SUCCESS;
}
API CUresult cuCtxGetDevice(int* device) {
  if (stack.empty()) return INVALID_CONTEXT;
  *device = stack.back()->device;
  return SUCCESS;
}
API CUresult cuStreamCreate(Stream** stream, unsigned) {
  if (stack.empty()) return INVALID_CONTEXT;
  *stream = new Stream{stack.back()};
  std::lock_guard<std::mutex> guard(lock);
  streams.insert(*stream);
  return SUCCESS;
}
API CUresult cuStreamDestroy_v2(Stream* stream) {
  std::lock_guard<std::mutex> guard(lock);
  if (!streams.erase(stream)) return INVALID_HANDLE;
  delete stream;
  return SUCCESS;
}
API CUresult cuStreamGetCtx(Stream* stream, Context** context) {
  std::lock_guard<std::mutex> guard(lock);
  if (!streams.count(stream)) return INVALID_HANDLE;
  *context = stream->context;
  return SUCCESS;
}
API CUresult cuStreamSynchronize(Stream* stream) {
  std::lock_guard<std::mutex> guard(lock);
  if (!streams.count(stream)) return INVALID_HANDLE;
  ++waits;
  return stream->capturing ? STREAM_CAPTURE_UNSUPPORTED : SUCCESS;
}
API CUresult cuStreamWaitEvent(Stream* stream, void* event, unsigned) {
  std::lock_guard<std::mutex> guard(lock);
  if (event == nullptr || !streams.count(stream)) return INVALID_HANDLE;
  ++event_waits;
  return SUCCESS;
}
API CUresult cuStreamIsCapturing(Stream* stream, int* status) {
  *status = stream->capturing;
  return SUCCESS;
}
API CUresult cuStreamBeginCapture_v2(Stream* stream, int) {
  if (stream->capturing) return INVALID_VALUE;
  stream->capturing = true;
  stream->graph = new Graph;
  return SUCCESS;
}
API CUresult cuStreamEndCapture(Stream* stream, Graph** graph) {
  if (stream->graph == nullptr) return INVALID_VALUE;
  *graph = stream->graph;
  stream->capturing = false;
  stream->graph = nullptr;
  return SUCCESS;
}
API CUresult cuGraphDestroy(Graph* graph) {
  delete graph;
  return SUCCESS;
}
API CUresult cuGraphGetNodes(Graph* graph, Launched** nodes, size_t* count) {
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count; ++i) nodes[i] = &graph->launches.at(i);
  }
  *count = graph->launches.size();
  return SUCCESS;
}
API CUresult cuGraphNodeGetType(Launched* node, int* type) {
  *type = node->function == nullptr;
  return SUCCESS;
}
struct KernelNode {
  Function* function;
  unsigned grid[3], block[3], shared;
  void *values, *extra, *kernel, *context;
};
API CUresult cuGraphKernelNodeGetParams_v2(Launched* node, KernelNode* launch) {
  *launch = {node->function,
             {node->grid[0], node->grid[1], node->grid[2]},
             {node->block[0], node->block[1], node->block[2]},
             node->shared, nullptr, nullptr, nullptr, nullptr};
  return SUCCESS;
}
API CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return SUCCESS;
}
// Work on a stream finishes before the driver function returns, so every event is complete.
API CUresult cuEventCreate(void** event, unsigned) {
  if (stack.empty()) return INVALID_CONTEXT;
  *event = malloc(1);
  return SUCCESS;
}
API CUresult cuEventDestroy_v2(void* event) {
  free(event);
  return SUCCESS;
}
API CUresult cuEventRecord(void*, Stream* stream) {
  std::lock_guard<std::mutex> guard(lock);
  return streams.count(stream) ? SUCCESS : INVALID_HANDLE;
}
API CUresult cuEventQuery(void*) { return SUCCESS; }
API CUresult cuEventSynchronize(void*) { return SUCCESS; }
API CUresult cuLaunchHostFunc(Stream*, void (*function)(void*), void* data) {
  function(data);
  return SUCCESS;
}
API CUresult cuModuleLoadData(Module** module, const void* image) {
  if (stack.empty()) return INVALID_CONTEXT;
  const unsigned char* bytes = static_cast<const unsigned char*>(image);
  const bool binary = memcmp(bytes, "\x7f" "ELF", 4) == 0 || memcmp(bytes, "\x50\xed\x55\xba", 4) == 0;
  std::string text;
  if (!binary) {
    text = static_cast<const char*>(image);
    if (text.find(".version") == std::string::npos) return INVALID_IMAGE;
  } else if (reinterpret_cast<uintptr_t>(image) % 8 != 0) {
    return INVALID_IMAGE;
  }
  *module = new Module{stack.back(), text};
  ++loads;
  std::lock_guard<std::mutex> guard(lock);
  modules.insert(*module);
  return SUCCESS;
}
API CUresult cuModuleUnload(Module* module) {
  std::lock_guard<std::mutex> guard(lock);
  if (!modules.erase(module)) return INVALID_HANDLE;
  ++unloads;
  delete module;
  return SUCCESS;
}
API CUresult cuModuleGetFunction(Function** function, Module* module, const char* name) {
  std::lock_guard<std::mutex> guard(lock);
  if (!modules.count(module)) return INVALID_HANDLE;
  const auto found = kernels().find(name);
  if (found == kernels().end()) return NOT_FOUND;
  if (!module->text.empty() && module->text.find(std::string(".entry ") + name) == std::string::npos) {
    return NOT_FOUND;
  }
  *function = new Function{module->context, found->second};
  functions.insert(*function);
  return SUCCESS;
}
API CUresult cuFuncSetAttribute(Function* function, int attribute, int value) {
  std::lock_guard<std::mutex> guard(lock);
  if (!functions.count(function)) return INVALID_HANDLE;
  if (attribute != 8 || value < 0 || value > 227 * 1024) return INVALID_VALUE;  // 8 is the dynamic shared memory limit
  function->shared = static_cast<unsigned>(value);
  return SUCCESS;
}
API CUresult cuLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, Stream* stream, void** values,
                            void**) {
  const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  return Launch(function, grid, block, shared, stream, values, 0);
}
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  Stream* stream;
  void* attributes;
  unsigned count;
};
API CUresult cuLaunchKernelEx(const LaunchConfig* config, Function* function, void** values, void**) {
  return Launch(function, config->grid, config->block, config->shared, config->stream, values,
                config->count);
}
API CUresult cuMemAlloc_v2(uint64_t* address, size_t size) {
  if (stack.empty()) return INVALID_CONTEXT;
  void* data = size == 0 || size > (size_t{1} << 40) ? nullptr : aligned_alloc(256, (size + 255) / 256 * 256);
  if (data == nullptr) return OUT_OF_MEMORY;
  ++allocations;
  *address = reinterpret_cast<uint64_t>(data);
  return SUCCESS;
}
API CUresult cuMemFree_v2(uint64_t address) {
  free(reinterpret_cast<void*>(address));
  --allocations;
  return SUCCESS;
}
API CUresult cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, Stream* stream) {
  if (stream != nullptr && stream->graph != nullptr) {
    stream->graph->launches.push_back({nullptr, {}, {}, 0});
    return SUCCESS;
  }
  memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size);
  return SUCCESS;
}
API CUresult cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t size, Stream*) {
  memcpy(reinterpret_cast<void*>(to), from, size);
  return SUCCESS;
}
API CUresult cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t size, Stream*) {
  memcpy(to, reinterpret_cast<void*>(from), size);
  return SUCCESS;
}
API CUresult cuMemsetD8Async(uint64_t to, unsigned char byte, size_t size, Stream*) {
  memset(reinterpret_cast<void*>(to), byte, size);
  return SUCCESS;
}
