// A server with eight threads, which answer requests by calling a handler of a shared library. Each request has a
// deadline. The library is reloaded under load, and the runtime counts the outcomes. Run it with `server
// libexecution.so`, the library of examples/execution.rs.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "xla_ffi/runtime.h"

constexpr int kThreads = 8, kRequests = 200, kPatience = 250;

static bool Ok(xffi_rt_status* status) {
  if (status == nullptr) return true;
  std::fprintf(stderr, "error %d: %s\n", static_cast<int>(xffi_rt_status_code(status)),
               xffi_rt_status_message(status));
  xffi_rt_status_destroy(status);
  return false;
}

template <auto kDestroy>
struct With {
  template <typename T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};
using Runtime = std::unique_ptr<xffi_rt, With<xffi_rt_destroy>>;
using Call = std::unique_ptr<xffi_rt_call, With<xffi_rt_call_destroy>>;

// Element i counts the executions that took less than 2^i microseconds and at least half of that.
static std::array<std::atomic<long>, 32> histogram{};

static void Observe(void*, const xffi_rt_execution* it) {
  size_t slot = 0;
  for (uint64_t micros = it->nanoseconds / 1000; micros > 0 && slot < 31; micros >>= 1) ++slot;
  ++histogram[slot];
}

// Creates a runtime, and registers the library's handlers with it.
static std::shared_ptr<xffi_rt> Load(const char* path) {
  const char* const names[] = {"double_async"};
  xffi_rt* runtime = nullptr;
  xffi_rt_library* library = nullptr;
  if (!Ok(xffi_rt_create(XFFI_RT_NEWEST, &runtime))) return nullptr;
  std::shared_ptr<xffi_rt> loaded(runtime, xffi_rt_destroy);
  const bool fine = Ok(xffi_rt_library_load(runtime, path, &library)) &&
                    Ok(xffi_rt_register_library(runtime, library)) &&
                    Ok(xffi_rt_require(runtime, "Host", names, 1)) &&
                    Ok(xffi_rt_observe(runtime, 1, Observe, nullptr));
  xffi_rt_library_destroy(library);
  return fine ? loaded : nullptr;
}

// A call with the memory of its operands. The handler may use the memory as long as the call is open.
struct Slot {
  Call call;
  float x = 0, y = 0;

  Slot(xffi_rt* runtime, const char* attributes) {
    const int64_t one = 1;
    xffi_rt_call* made = nullptr;
    if (!Ok(xffi_rt_call_create(runtime, "double_async", "Host", attributes, &made))) return;
    call.reset(made);
    Ok(xffi_rt_call_arg(made, XLA_FFI_DataType_F32, 1, &one, &x));
    Ok(xffi_rt_call_ret(made, XLA_FFI_DataType_F32, 1, &one, &y));
  }
};

static std::shared_ptr<xffi_rt> current;

static bool Work() {
  constexpr const char* kKinds[] = {"{delay_ms = 0 : i64}", "{delay_ms = 600 : i64}"};
  std::shared_ptr<xffi_rt> generation;
  std::unique_ptr<Slot> slots[2];
  for (int request = 0; request < kRequests; ++request) {
    if (generation != std::atomic_load(&current)) {
      generation = std::atomic_load(&current);
      for (int kind : {0, 1}) slots[kind] = std::make_unique<Slot>(generation.get(), kKinds[kind]);
    }
    // One request in a hundred exceeds its time limit.
    const int kind = request % 100 == 99;
    std::unique_ptr<Slot>& slot = slots[kind];
    slot->x = static_cast<float>(request);
    if (!Ok(xffi_rt_call_set_time_limit(slot->call.get(), kPatience))) return false;
    xffi_rt_status* status = xffi_rt_call_run(slot->call.get());
    if (xffi_rt_status_code(status) == XLA_FFI_Error_Code_DEADLINE_EXCEEDED) {
      // The handler still uses this memory, so free it when the handler is done. The next request gets a new call.
      xffi_rt_status_destroy(status);
      const auto free = [](void* late) { delete static_cast<Slot*>(late); };
      Slot* const late = slot.release();
      if (!Ok(xffi_rt_call_on_end(late->call.get(), free, late))) return false;
      slot = std::make_unique<Slot>(generation.get(), kKinds[kind]);
    } else if (!Ok(status) || slot->y != 2 * slot->x) {
      return false;
    }
  }
  return true;
}

static void Print(void*, const xffi_rt_handler_counts* it) {
  std::printf("%s: in flight %ld, succeeded %ld", it->name, static_cast<long>(it->in_flight),
              static_cast<long>(it->succeeded));
  for (int code = 1; code < 17; ++code) {
    if (it->failed[code] > 0) std::printf(", failed (%d) %ld", code, static_cast<long>(it->failed[code]));
  }
  std::printf("\n");
}

int main(int argc, char** argv) {
  const auto first = argc == 2 ? Load(argv[1]) : nullptr;
  if (first == nullptr) return 2;
  current = first;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&wrong] { wrong += !Work(); });
  // Loads the file again, as after a deployment. Running executions finish in the old version.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto second = Load(argv[1]);
  if (second != nullptr) std::atomic_store(&current, second);
  for (std::thread& thread : threads) thread.join();
  if (second == nullptr) return 1;
  for (const auto& generation : {first, second}) {
    if (!Ok(xffi_rt_shutdown(generation.get(), 60000))) return 1;
    if (!Ok(xffi_rt_counts(generation.get(), Print, nullptr))) return 1;
  }
  for (size_t slot = 0; slot < histogram.size(); ++slot) {
    if (histogram[slot] > 0) std::printf("below %ld us: %ld\n", 1L << slot, histogram[slot].load());
  }
  return wrong;
}
