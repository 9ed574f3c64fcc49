// Contains C++ exceptions, which Rust can neither catch nor let pass: 1 for a std::exception, which XLA
// contains too, 2 for any other, which goes through XLA as through us. A Rust panic goes on to the caller,
// who catches it. A thread that ends itself, or is cancelled, unwinds too: nothing may hold that, and
// Rust, which it would pass, does not let it; the process ends, in words.

#include <cxxabi.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <typeinfo>

#if defined(__GLIBCXX__)
namespace xla_ffi_runtime {

// std::current_exception, by what every libstdc++ exports: the destructor in the headers of newer ones
// calls a function that older ones lack, and one build of this file runs on all of them.
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

template <typename Call>
int Contain(Call call, char* text, std::size_t room) {
  try {
    call();
    return 0;
#if defined(__GLIBCXX__)
    // A thread that ends. Other libraries have no name for it, and the last branch finds nothing of C++ in it.
  } catch (abi::__forced_unwind&) {
    std::fputs("xla-ffi: a thread was ended (pthread_exit, pthread_cancel) inside of a handler, a task or a "
               "deleter: nothing leaves these but their return, an exception or a panic; the process ends\n",
               stderr);
    std::abort();
#endif
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
    // Only an exception of C++ can be held; anything else is not ours to end.
    if (!IsOfCpp()) throw;
    const std::type_info* type = abi::__cxa_current_exception_type();
    std::snprintf(text, room, "of type %s", type != nullptr ? type->name() : "?");
    return 2;
  }
}

}  // namespace

extern "C" int xla_ffi_runtime_guarded_call(void* (*function)(void*), void* argument,
                                            void** result, char* text, std::size_t room) {
  return Contain([&] { *result = function(argument); }, text, room);
}

extern "C" int xla_ffi_runtime_guarded_task(void (*function)(void*), void* argument, char* text,
                                            std::size_t room) {
  return Contain([&] { function(argument); }, text, room);
}
