// The first example in XLA's documents, A[i] = B[i % 128] + C[i]: XlaBuilder builds the program, and a macro
// registers the target. The program runs in this process without XLA. If its argument is the path of a PJRT
// plugin, it runs on a real XLA. Link with libxla_ffi_runtime.
#include <cstdio>

#include "xla/client/xla_builder.h"
#include "xla/service/custom_call_target_registry.h"
#include "xla_ffi/embedded.h"

void tiled_add(void* out, const void** in) {
  const float* b = static_cast<const float*>(in[0]);
  const float* c = static_cast<const float*>(in[1]);
  for (int i = 0; i < 2048; ++i) static_cast<float*>(out)[i] = b[i % 128] + c[i];
}
XLA_REGISTER_CUSTOM_CALL_TARGET(tiled_add, "Host");

int main(int argc, char** argv) {
  xla::XlaBuilder builder("tiled");
  xla::XlaOp b = xla::Parameter(&builder, 0, xla::ShapeUtil::MakeShape(xla::F32, {128}), "b");
  xla::XlaOp c = xla::Parameter(&builder, 1, xla::ShapeUtil::MakeShape(xla::F32, {2048}), "c");
  xla::CustomCall(&builder, "tiled_add", /*operands=*/{b, c},
                  /*shape=*/xla::ShapeUtil::MakeShape(xla::F32, {2048}));
  xla::StatusOr<xla::XlaComputation> program = builder.Build();
  if (!program.ok()) {
    std::fprintf(stderr, "%s\n", program.status().ToString().c_str());
    return 1;
  }
  std::printf("%s", program->ToHloText()->c_str());

  xla::Literal tile(xla::ShapeUtil::MakeShape(xla::F32, {128}));
  xla::Literal wide(xla::ShapeUtil::MakeShape(xla::F32, {2048}));
  for (int i = 0; i < 128; ++i) tile.data<float>()[i] = static_cast<float>(i);
  for (float& x : wide.data<float>()) x = 1000;
  xla::StatusOr<xla::Literal> result = xla_ffi::Run(*program, {tile, wide});
  if (argc > 1) {
    xla::StatusOr<xla_ffi::Client> client = xla_ffi::Client::Open(argv[1]);
    if (!client.ok()) {
      std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
      return 1;
    }
    result = xla_ffi::Run(*program, {tile, wide}, *client);
  }
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    return 1;
  }
  std::printf("%g %g\n", result->data<float>()[0], result->data<float>()[2047]);
  return 0;
}
