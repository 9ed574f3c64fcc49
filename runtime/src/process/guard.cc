// Catches C++ exceptions, which Rust can neither catch nor propagate. The guard returns 1 for a std::exception, which
// XLA also catches, and 2 for any other exception, which XLA does not catch. A Rust panic propagates to the caller,
// which catches it. A thread that exits or is cancelled also unwinds; Rust then ends the process.

#include <cxxabi.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <typeinfo>

#if defined(__GLIBCXX__)
namespace xla_ffi_runtime {

// Declares std::current_exception with symbols that every libstdc++ exports. In newer headers, the destructor of the
// result calls a function that older versions lack. A build of this file must run on all versions.
void Release(void* exception) __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");

struct Current {
  void* object;
  Current(const Current&) = delete;
  ~Current() { Release(this); }
};

Current CurrentException() __asm__("_ZSt17current_exceptionv");

}  // namespace xla_ffi_runtime
#endif

namespace {

#if defined(__GLIBCXX__)
bool IsOfCpp() { return xla_ffi_runtime::CurrentException().object != nullptr; }
#else
bool IsOfCpp() { return std::current_exception() != nullptr; }
#endif

void Copy(const char* from, char* text, std::size_t room) {
  std::strncpy(text, from != nullptr ? from : "(null)", room - 1);
  text[room - 1] = '\0';
}

}  // namespace

extern "C" int xla_ffi_runtime_guarded(void (*function)(void*), void* argument, char* text, std::size_t room) {
  try {
    function(argument);
    return 0;
  } catch (const std::exception& exception) {
    Copy(exception.what(), text, room);
    return 1;
  } catch (const std::string& message) {
    Copy(message.c_str(), text, room);
    return 2;
  } catch (const char* message) {
    Copy(message, text, room);
    return 2;
  } catch (...) {
    // Other kinds of unwinding, such as Rust panics, must continue.
    if (!IsOfCpp()) throw;
    const std::type_info* type = abi::__cxa_current_exception_type();
    std::snprintf(text, room, "of type %s", type != nullptr ? type->name() : "?");
    return 2;
  }
}
