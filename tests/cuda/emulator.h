// Emulates CUDA kernels on the host: the threads of a block are fibers that switch at barriers and
// shuffles.
//
// Include this file before a kernel's source to compile the source as C++. Only the CUDA features that the examples use
// are supported. The program aborts with a message if some threads of a block miss a barrier, or some lanes of a warp
// miss a shuffle. A GPU would hang or return garbage.
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#define XLA_FFI_EMULATED_CUDA 1
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
// Blocks run sequentially, so one copy of a shared variable is enough.
#define __shared__ static

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

inline float __uint_as_float(unsigned bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  memcpy(&bits, &value, 4);
  return bits;
}

namespace emulator {

// A ucontext starts a fiber; jumps then switch between running fibers without system calls.
struct Thread {
  ucontext_t context;
  jmp_buf place;
  bool started = false;
  dim3 index;
  bool done = false;
  unsigned barriers = 0;
  unsigned shuffles = 0;
  float lane[2] = {0, 0};
};

struct Block {
  std::vector<Thread> threads;
  jmp_buf scheduler;
  size_t current = 0;
  bool moved = false;
  std::function<void()> body;
};

inline Block*& block() {
  static Block* running = nullptr;
  return running;
}
inline dim3& block_index() {
  static dim3 index;
  return index;
}
inline dim3& block_extent() {
  static dim3 extent;
  return extent;
}
inline dim3& grid_extent() {
  static dim3 extent;
  return extent;
}

[[noreturn]] inline void fail(const char* what) {
  fprintf(stderr, "emulated kernel: %s\n", what);
  abort();
}

inline Thread& self() { return block()->threads[block()->current]; }

inline void yield() {
  if (_setjmp(self().place) == 0) _longjmp(block()->scheduler, 1);
}

// Runs thread `i` until it yields.
inline void resume(Block* running, size_t i) {
  running->current = i;
  Thread& thread = running->threads[i];
  if (_setjmp(running->scheduler) != 0) return;
  if (thread.started) _longjmp(thread.place, 1);
  thread.started = true;
  setcontext(&thread.context);
}

inline void enter() {
  block()->body();
  self().done = true;
  block()->moved = true;
  _longjmp(block()->scheduler, 1);
}

// Runs one block until it finishes.
inline void run_block(size_t count, const std::function<void()>& body) {
  constexpr size_t kStack = 32 * 1024;
  // Every block reuses these stacks without clearing them.
  static std::vector<std::unique_ptr<char[]>> stacks;
  while (stacks.size() < count) stacks.emplace_back(new char[kStack]);
  Block running;
  running.body = body;
  running.threads.resize(count);
  block() = &running;
  for (size_t i = 0; i < count; ++i) {
    Thread& thread = running.threads[i];
    thread.index = dim3(i % block_extent().x, i / block_extent().x % block_extent().y,
                        i / block_extent().x / block_extent().y);
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = stacks[i].get();
    thread.context.uc_stack.ss_size = kStack;
    thread.context.uc_link = nullptr;
    makecontext(&thread.context, enter, 0);
  }
  for (;;) {
    running.moved = false;
    bool all = true;
    for (size_t i = 0; i < count; ++i) {
      if (running.threads[i].done) continue;
      all = false;
      resume(&running, i);
    }
    if (all) break;
    if (!running.moved) fail("a barrier or shuffle that not all threads reach");
  }
  block() = nullptr;
}

// Runs `body` for every thread of the grid. Launches are serialized.
inline void launch(dim3 grid, dim3 extent, const std::function<void()>& body) {
  static std::mutex one_at_a_time;
  std::lock_guard<std::mutex> lock(one_at_a_time);
  const size_t count = size_t{extent.x} * extent.y * extent.z;
  if (count == 0 || count > 1024) fail("a block has 1 to 1024 threads");
  grid_extent() = grid;
  block_extent() = extent;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        block_index() = dim3(x, y, z);
        run_block(count, body);
      }
    }
  }
}

// Waits until `arrived` returns true for every thread in [first, last).
template <typename Arrived>
void wait(size_t first, size_t last, Arrived arrived) {
  Block* running = block();
  running->moved = true;
  for (;;) {
    bool all = true;
    for (size_t i = first; i < last; ++i) {
      if (!arrived(running->threads[i])) {
        if (running->threads[i].done) fail("a thread ended in front of a barrier or shuffle");
        all = false;
      }
    }
    if (all) break;
    yield();
  }
  running->moved = true;
}

}  // namespace emulator

#define threadIdx (emulator::self().index)
#define blockIdx (emulator::block_index())
#define blockDim (emulator::block_extent())
#define gridDim (emulator::grid_extent())

inline void __syncthreads() {
  const unsigned mine = ++emulator::self().barriers;
  emulator::wait(0, emulator::block()->threads.size(),
                 [mine](const emulator::Thread& thread) { return thread.barriers >= mine; });
}

// Requires all 32 lanes of a warp. Two slots suffice because a lane is at most one shuffle ahead of the others.
inline float __shfl_xor_sync(unsigned mask, float value, int with) {
  using emulator::block;
  if (mask != 0xffffffffu) emulator::fail("the emulator knows shuffles of whole warps");
  const size_t me = block()->current;
  const size_t first = me / 32 * 32;
  if (first + 32 > block()->threads.size()) emulator::fail("a shuffle in a warp of fewer lanes");
  const unsigned mine = ++emulator::self().shuffles;
  emulator::self().lane[mine & 1] = value;
  emulator::wait(first, first + 32,
                 [mine](const emulator::Thread& thread) { return thread.shuffles >= mine; });
  return block()->threads[first + ((me - first) ^ with)].lane[mine & 1];
}

// The parts of CUDA's runtime API that the C++ examples use.
using cudaStream_t = void*;

// The CUDA runtime functions for events and memory that the examples call. Work on a stream is always finished.
using cudaEvent_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorNotReady = 600 };
enum { cudaEventDisableTiming = 2, cudaStreamNonBlocking = 1 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return *event = malloc(1), cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) { return free(event), cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return *stream = malloc(1), cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) { return free(stream), cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind, cudaStream_t) {
  return memcpy(to, from, size), cudaSuccess;
}
