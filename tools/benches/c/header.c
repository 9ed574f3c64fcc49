/* The handlers of the benchmark in C with this project's header. decode.c contains handwritten versions, except of the
 * handlers at the end of this file, which accept any number of operands or attributes. */
#include <stdio.h>

#include "xla_ffi/handler.h"

/* A number derived from the values that the last call decoded. */
static volatile size_t sink;

XFFI_EXPORT size_t bench_sink(void);
size_t bench_sink(void) { return sink; }

/* If an operand cannot be decoded, the number is meaningless. KEEP then returns the error of xffi_decoded, and does not
 * store the number. */
static inline size_t seen(xffi_buffer b) { return (size_t)b.data + (size_t)b.count; }

#define ARG(name) xffi_arg(call, name, XLA_FFI_DataType_F32, 2)
#define RET(name) xffi_ret(call, name, XLA_FFI_DataType_F32, 2)
#define ATTR(name) (size_t)xffi_attr_i32(call, name)

/* Stores the number for bench_sink, unless the call is invalid. */
#define KEEP(number)                                  \
  do {                                                \
    XLA_FFI_Error* error = xffi_decoded(call);        \
    if (error != NULL) return error;                  \
    sink = (number);                                  \
    return NULL;                                      \
  } while (0)

static XLA_FFI_Error* args_1_impl(xffi_call* call) {
  const size_t all = seen(ARG("a"));
  KEEP(all);
}

#define FOUR(operand, a, b, c, d) \
  all += seen(operand(a));        \
  all += seen(operand(b));        \
  all += seen(operand(c));        \
  all += seen(operand(d))

static XLA_FFI_Error* args_4_impl(xffi_call* call) {
  size_t all = 0;
  FOUR(ARG, "a", "b", "c", "d");
  KEEP(all);
}

static XLA_FFI_Error* args_8_impl(xffi_call* call) {
  size_t all = 0;
  FOUR(ARG, "a", "b", "c", "d");
  FOUR(ARG, "e", "f", "g", "h");
  KEEP(all);
}

static XLA_FFI_Error* args_16_impl(xffi_call* call) {
  size_t all = 0;
  FOUR(ARG, "a", "b", "c", "d");
  FOUR(ARG, "e", "f", "g", "h");
  FOUR(ARG, "i", "j", "k", "l");
  FOUR(ARG, "m", "n", "o", "p");
  KEEP(all);
}

static XLA_FFI_Error* rets_8_impl(xffi_call* call) {
  size_t all = 0;
  FOUR(RET, "a", "b", "c", "d");
  FOUR(RET, "e", "f", "g", "h");
  KEEP(all);
}

static XLA_FFI_Error* args_8_rets_8_impl(xffi_call* call) {
  size_t all = 0;
  FOUR(ARG, "a", "b", "c", "d");
  FOUR(ARG, "e", "f", "g", "h");
  FOUR(RET, "i", "j", "k", "l");
  FOUR(RET, "m", "n", "o", "p");
  KEEP(all);
}

static XLA_FFI_Error* attrs_1_impl(xffi_call* call) {
  const size_t all = ATTR("alpha");
  KEEP(all);
}

static XLA_FFI_Error* attrs_4_impl(xffi_call* call) {
  const size_t all = ATTR("alpha") + ATTR("beta") + ATTR("gamma") + ATTR("delta");
  KEEP(all);
}

static XLA_FFI_Error* attrs_8_impl(xffi_call* call) {
  size_t all = ATTR("alpha") + ATTR("beta") + ATTR("gamma") + ATTR("delta");
  all += ATTR("epsilon") + ATTR("zeta") + ATTR("eta") + ATTR("theta");
  KEEP(all);
}

#define FIELD(name) (size_t)xffi_dict_i32(call, &config, name)

static XLA_FFI_Error* struct_dictionary_impl(xffi_call* call) {
  xffi_dict config = xffi_attr_dict(call, "config");
  size_t all = FIELD("alpha") + FIELD("beta") + FIELD("gamma") + FIELD("delta");
  all += FIELD("epsilon") + FIELD("zeta") + FIELD("eta") + FIELD("theta");
  xffi_dict_done(call, &config);
  KEEP(all);
}

static XLA_FFI_Error* mixed_impl(xffi_call* call) {
  const xffi_buffer x = ARG("x"), y = RET("y");
  const size_t alpha = ATTR("alpha");
  KEEP(seen(x) + seen(y) + alpha);
}

static XLA_FFI_Error* device_impl(xffi_call* call) {
  const xffi_buffer x = ARG("x"), y = RET("y");
  const size_t alpha = ATTR("alpha");
  void* stream;
  XLA_FFI_Error* failed = xffi_stream(call, &stream);
  if (failed != NULL) return failed;
  KEEP(seen(x) + seen(y) + alpha + (size_t)stream);
}

static XLA_FFI_Error* contract_impl(xffi_call* call) {
  const xffi_buffer x = ARG("x"), y = ARG("y"), z = RET("z");
  xffi_shapes(call, "b n, n m -> b m");
  KEEP(seen(x) + seen(y) + seen(z));
}

static XLA_FFI_Error* async_inline_impl(xffi_call* call) {
  const xffi_buffer x = ARG("x");
  xffi_promise* promise;
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  promise = xffi_promise_new(call);
  sink = seen(x);
  xffi_promise_done(promise);
  return xffi_promise_return(call, promise);
}

static XLA_FFI_Error* singular_impl(xffi_call* call) {
  const xffi_buffer x = ARG("x");
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error != NULL) return error;
  sink = seen(x);
  return xffi_error(call, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                    "the matrix is singular to working precision");
}

XFFI_HOST_HANDLER(args_1, args_1_impl);
XFFI_HOST_HANDLER(args_4, args_4_impl);
XFFI_HOST_HANDLER(args_8, args_8_impl);
XFFI_HOST_HANDLER(args_16, args_16_impl);
XFFI_HOST_HANDLER(rets_8, rets_8_impl);
XFFI_HOST_HANDLER(args_8_rets_8, args_8_rets_8_impl);
XFFI_HOST_HANDLER(attrs_1, attrs_1_impl);
XFFI_HOST_HANDLER(attrs_4, attrs_4_impl);
XFFI_HOST_HANDLER(attrs_8, attrs_8_impl);
XFFI_HOST_HANDLER(struct_dictionary, struct_dictionary_impl);
XFFI_HOST_HANDLER(struct_attributes, attrs_8_impl);
XFFI_HOST_HANDLER(mixed, mixed_impl);
XFFI_HANDLER(device, device_impl);
XFFI_HOST_HANDLER(contract, contract_impl);
XFFI_HOST_HANDLER(async_inline, async_inline_impl);
XFFI_HOST_HANDLER(singular, singular_impl);

/* Handlers that accept any number of operands or attributes. */
static XLA_FFI_Error* as_many_as_come(xffi_call* call) {
  size_t number = 0;
  XLA_FFI_Error* error;
  while (xffi_args_left(call) > 0) number += seen(xffi_arg(call, "x", XLA_FFI_DataType_F32, 2));
  while (xffi_rets_left(call) > 0) number += seen(xffi_ret(call, "y", XLA_FFI_DataType_F32, 2));
  if ((error = xffi_decoded(call)) != NULL) return error;
  sink = number;
  return NULL;
}

/* The attribute names that the dictionary "options" may contain. */
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

XFFI_HOST_HANDLER(args, as_many_as_come);
XFFI_HOST_HANDLER(rets, as_many_as_come);
XFFI_HOST_HANDLER(args_rets, as_many_as_come);
XFFI_HOST_HANDLER(attributes, attributes_impl);
XFFI_HOST_HANDLER(depth, depth_impl);
