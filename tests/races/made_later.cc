// A child is forked while a thread makes a handler, which is no constant: nobody in the child will ever end that, and its
// own call makes one of its own. Exits with 0 where it does.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;

static int begun[2], over[2];
static pid_t parent;
// The name of the handler's attribute, which the parent's thread makes for as long as the child lives.
static std::string Slow() {
  if (getpid() == parent) {
    char go = 0;
    if (write(begun[1], &go, 1) != 1 || read(over[0], &go, 1) != 1) _exit(3);
  }
  return "a";
}
static ffi::Error F(int64_t) { return {}; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(f, F, ffi::Ffi::Bind().Attr<int64_t>(Slow()));

static void* Call(void*) {
  XLA_FFI_Metadata metadata = {};
  metadata.struct_size = XLA_FFI_Metadata_STRUCT_SIZE;
  XLA_FFI_Metadata_Extension extension = {{XLA_FFI_Metadata_Extension_STRUCT_SIZE, XLA_FFI_Extension_Metadata, nullptr}, &metadata};
  XLA_FFI_CallFrame frame = {};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  frame.extension_start = &extension.extension_base;
  if (f(&frame) != nullptr) _exit(4);
  return nullptr;
}

int main() {
  parent = getpid();
  if (pipe(begun) != 0 || pipe(over) != 0) return 2;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Call, nullptr) != 0) return 2;
  char go = 0;
  if (read(begun[0], &go, 1) != 1) return 2;
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a child that hangs is ended by a signal
    Call(nullptr);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (write(over[1], &go, 1) != 1) return 2;
  pthread_join(thread, nullptr);
  return status == 0 ? 0 : 1;
}
