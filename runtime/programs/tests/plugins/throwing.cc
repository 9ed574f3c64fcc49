// A stand-in for a PJRT plugin whose only function throws.
#include <cstddef>
#include <stdexcept>

static void* Throw(void*) { throw std::runtime_error("thrown on purpose"); }

static struct {
  std::size_t size;
  void* extensions;
  std::size_t version_size;
  void* version_extensions;
  int major, minor;
  void* (*functions[4])(void*);
} table = {72, nullptr, 24, nullptr, 0, 81, {nullptr, nullptr, nullptr, Throw}};

extern "C" __attribute__((visibility("default"))) const void* GetPjrtApi() { return &table; }
