// C++ handlers, tasks and deleters that throw exceptions. tests/exceptions.rs calls them.

#include <pthread.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "xla/ffi/api/c_api.h"

#define VISIBLE extern "C" __attribute__((visibility("default")))

struct Payload {
  int number;
};

// Returns true if the call is a metadata query, and answers the query with version 0.1, which all hosts accept.
static bool Metadata(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start == nullptr) return false;
  auto* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)->metadata;
  metadata->api_version.major_version = 0;
  metadata->api_version.minor_version = 1;
  return true;
}

#define HANDLER(name, body)                                 \
  VISIBLE XLA_FFI_Error* name(XLA_FFI_CallFrame* frame) {   \
    if (Metadata(frame)) return nullptr;                    \
    body;                                                   \
    return nullptr;                                         \
  }

HANDLER(throws_int, throw 7)
HANDLER(throws_struct, throw Payload{3})
HANDLER(throws_text, throw "as a C string")
HANDLER(throws_null, throw static_cast<const char*>(nullptr))
HANDLER(throws_string, throw std::string("as a string"))
HANDLER(throws_standard, throw std::out_of_range("out of range"))
struct Wordless : std::exception {
  const char* what() const noexcept override { return nullptr; }
};
HANDLER(throws_wordless, throw Wordless())
HANDLER(throws_on_a_thread, std::thread([] { throw Payload{4}; }).join())
HANDLER(ends_its_thread, pthread_exit(nullptr))

VISIBLE XLA_FFI_Error* throws_at_metadata(XLA_FFI_CallFrame*) { throw Payload{5}; }

static void Task(void* data) {
  if (data != nullptr) throw Payload{6};
  throw std::runtime_error("in a task");
}

VISIBLE XLA_FFI_Error* throws_in_tasks(XLA_FFI_CallFrame* frame) {
  if (Metadata(frame)) return nullptr;
  static int data;
  for (void* with : {static_cast<void*>(nullptr), static_cast<void*>(&data)}) {
    XLA_FFI_ThreadPool_Schedule_Args args = {XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, nullptr, frame->ctx, Task,
                                             with};
    if (XLA_FFI_Error* error = frame->api->XLA_FFI_ThreadPool_Schedule(&args)) return error;
  }
  return nullptr;
}

static void Delete(void*) { throw Payload{8}; }
VISIBLE XLA_FFI_TypeId thrown_id = {0};
VISIBLE XLA_FFI_TypeInfo thrown_info = {XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, Delete};

VISIBLE XLA_FFI_Error* leaves_state(XLA_FFI_CallFrame* frame) {
  if (Metadata(frame)) return nullptr;
  static int state;
  XLA_FFI_State_Set_Args args = {XLA_FFI_State_Set_Args_STRUCT_SIZE, nullptr, frame->ctx,
                                 XLA_FFI_ExecutionStage_INSTANTIATE, &thrown_id, &state};
  return frame->api->XLA_FFI_State_Set(&args);
}

HANDLER(does_nothing, )
