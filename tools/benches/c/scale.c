/* The last handlers of ../src/handlers.rs, of as much as comes, in C with our header. */
#include <stdio.h>

#include "xla_ffi/handler.h"

/* What the last call decoded, boiled down to a number. */
static volatile size_t sink;

XFFI_EXPORT size_t bench_sink(void);
size_t bench_sink(void) { return sink; }

static inline size_t seen(xffi_buffer b) { return (size_t)b.data + (size_t)b.count; }

static inline XLA_FFI_Error* all(xffi_call* call) {
  size_t number = 0;
  XLA_FFI_Error* error;
  while (xffi_args_left(call) > 0) number += seen(xffi_arg(call, "x", XLA_FFI_DataType_F32, 2));
  while (xffi_rets_left(call) > 0) number += seen(xffi_ret(call, "y", XLA_FFI_DataType_F32, 2));
  if ((error = xffi_decoded(call)) != NULL) return error;
  sink = number;
  return NULL;
}

/* The names that "options" may have. */
static char names[4096][8];

__attribute__((constructor)) static void name_them(void) {
  for (unsigned i = 0; i < 4096; ++i) snprintf(names[i], sizeof(names[i]), "a%04u", i % 10000);
}

static XLA_FFI_Error* attributes_impl(xffi_call* call) {
  size_t number = 0;
  XLA_FFI_Error* error;
  xffi_dict options = xffi_attr_dict(call, "options");
  const int64_t count = options.attrs != NULL ? options.attrs->size : 0;
  for (int64_t i = 0; i < count; ++i) number += (size_t)xffi_dict_i32(call, &options, names[i]);
  xffi_dict_done(call, &options);
  if ((error = xffi_decoded(call)) != NULL) return error;
  sink = number;
  return NULL;
}

static XLA_FFI_Error* depth_impl(xffi_call* call) {
  size_t number = 0;
  XLA_FFI_Error* error;
  xffi_dict options = xffi_attr_dict(call, "options");
  for (; xffi_dict_has(&options, "next"); ++number) options = xffi_dict_dict(call, &options, "next");
  number += (size_t)xffi_dict_i32(call, &options, "value");
  if ((error = xffi_decoded(call)) != NULL) return error;
  sink = number;
  return NULL;
}

XFFI_HOST_HANDLER(args, all);
XFFI_HOST_HANDLER(rets, all);
XFFI_HOST_HANDLER(args_rets, all);
XFFI_HOST_HANDLER(attributes, attributes_impl);
XFFI_HOST_HANDLER(depth, depth_impl);
