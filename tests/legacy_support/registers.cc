// Two libraries and a program that is linked to both; each says what it has registered.
#include <cstdio>

#include "xla/service/custom_call_target_registry.h"

#define STRING_(text) #text
#define STRING(text) STRING_(text)

static void target(void*, const void**) {}
XLA_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM(STRING(NAME), target, "Host");

void NAME() {
  const auto symbols = xla::CustomCallTargetRegistry::Global()->registered_symbols("cpu");
  for (const auto& symbol : symbols) std::printf("%s: %s\n", STRING(NAME), symbol.first.c_str());
}

#ifdef PROGRAM
void first();
void second();
int main() {
  first();
  second();
  NAME();
}
#endif
