// What a target leaves unwritten, as a C++ program asks for it.
#include <cstdio>
#include <cstring>

#include "xla/client/xla_builder.h"
#include "xla_ffi/embedded.h"

static void half(void* out, const void**) { std::memset(out, 0, 8); }
XLA_REGISTER_CUSTOM_CALL_TARGET(half, "Host");

int main() {
  xla::XlaBuilder b("unwritten");
  xla::CustomCall(&b, "half", {}, xla::ShapeUtil::MakeShape(xla::F32, {4}));
  const xla::XlaComputation program = b.Build().value();
  if (!xla_ffi::Run(program, {}).ok()) return 1;
  auto checked = xla_ffi::Executable::Compile(program, "Host", XFFI_RT_TUPLES_TODAY,
                                              /*with_device=*/false, /*check_unwritten=*/true);
  const xla::Status status = checked->Run({}).status();
  if (status.ok() || status.message().find("never wrote elements 2 to 3") == std::string::npos) return 2;
  std::printf("done\n");
  return 0;
}
