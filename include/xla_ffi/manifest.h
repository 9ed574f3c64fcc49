/* A library's manifest: a description of its handlers that tools read from the file without running code
 * (docs/manifest.md). Part of <xla_ffi/handler.h>.
 *
 *   XFFI_LIBRARY(rms_norm,
 *                XFFI_DESCRIBE(rms_norm, XFFI_ARGS(XFFI_OPERAND("x", F32, ANY)),
 *                              XFFI_RETS(XFFI_OPERAND("y", F32, ANY)),
 *                              XFFI_ATTRS(XFFI_DEFAULT_ATTR("eps", f32, 1e-5)),
 *                              XFFI_SHAPE("... n -> ... n"), XFFI_VJP("rms_norm_backward")),
 *                XFFI_DESCRIBE(rms_norm_backward, ...));
 *
 * The compiler concatenates the manifest as text. Names and texts must be string literals that need no escaping
 * in JSON. A list has at most 24 entries. XFFI_ARGS, XFFI_RETS and XFFI_ATTRS are all required; if a handler has
 * no operands or attributes, leave their parentheses empty.
 */
#ifndef XLA_FFI_MANIFEST_H_
#define XLA_FFI_MANIFEST_H_

#include "xla_ffi/facts.h"
#include "xla_ffi/platform.h"

/* Adds a manifest to the library, with a list of XFFI_DESCRIBE entries for the handlers of this source file. A file may
 * have at most one XFFI_LIBRARY. Files with the same library name describe the same library. */
#define XFFI_LIBRARY(library, ...)                                                           \
  XFFI_RECORD_(library, "{\"library\": \"" #library "\", \"sdk\": \"" XLA_FFI_SDK_VERSION    \
                        "\", \"handlers\": [" XFFI_JOIN_(__VA_ARGS__) "]}")

/* The length excludes the NUL of the text and any padding, which are zero bytes after the payload. */
#define XFFI_RECORD_(library, json)                                                 \
  typedef struct library##__xla_ffi_manifest_t {                                    \
    char magic[8];                                                                  \
    unsigned char head[8];                                                          \
    char payload[sizeof(json)];                                                     \
  } library##__xla_ffi_manifest_t;                                                  \
  XLA_FFI_SDK_RECORD_ const library##__xla_ffi_manifest_t                           \
      library##__xla_ffi_manifest = {{'X', 'L', 'A', 'F', 'F', 'I', 'M', 'F'},      \
                                     {2, 0, 0, 0, (sizeof(json) - 1) & 255,         \
                                      (sizeof(json) - 1) >> 8 & 255,                \
                                      (sizeof(json) - 1) >> 16 & 255,               \
                                      (sizeof(json) - 1) >> 24 & 255},              \
                                     json}

/* XFFI_DESCRIBE describes a CPU handler with one stage, named like its symbol. XFFI_DESCRIBE_WITH describes any other
 * handler. */
#define XFFI_DESCRIBE(symbol, ...)                                                            \
  XFFI_DESCRIBE_WITH(#symbol, XFFI_PLATFORMS("cpu"), XFFI_STAGES(XFFI_STAGE(execute, symbol)), \
                     XFFI_FLOOR(r0), __VA_ARGS__)
#define XFFI_DESCRIBE_WITH(name, ...) "{\"name\": \"" name "\", " XFFI_JOIN_(__VA_ARGS__) "}"
#define XFFI_PLATFORMS(...) "\"platforms\": [" XFFI_QUOTED_(__VA_ARGS__) "]"
#define XFFI_STAGES(...) "\"stages\": {" XFFI_JOIN_(__VA_ARGS__) "}"
#define XFFI_STAGE(stage, symbol) "\"" #stage "\": \"" #symbol "\""
#define XFFI_FLOOR(revision) "\"floor\": \"" #revision "\""
/* Replaces the lists of operands and attributes if they depend on the caller. */
#define XFFI_UNDESCRIBED "\"described\": false"

/* The lists of operands. XFFI_OPERAND has a name, an element type of XLA_FFI_DataType or ANY, and a rank or ANY. */
#define XFFI_ARGS(...) "\"args\": [" XFFI_JOIN_(__VA_ARGS__) "]"
#define XFFI_RETS(...) "\"rets\": [" XFFI_JOIN_(__VA_ARGS__) "]"
#define XFFI_OPERAND(name, dtype, rank) XFFI_OPERAND_WITH(name, XFFI_DTYPE(dtype), XFFI_RANK(rank))
/* An operand with other properties: a name, followed by the macros below. */
#define XFFI_OPERAND_WITH(name, ...) \
  "{\"name\": \"" name "\", \"kind\": \"buffer\", " XFFI_JOIN_(__VA_ARGS__) "}"
#define XFFI_DTYPE(dtype) "\"dtypes\": " XFFI_OR_(XFFI_IS_##dtype##_, "[\"" #dtype "\"]", unused)
#define XFFI_DTYPES(...) "\"dtypes\": [" XFFI_QUOTED_(__VA_ARGS__) "]" /* the accepted types: "F32", "F64" */
#define XFFI_RANK(rank) "\"rank\": " XFFI_OR_(XFFI_IS_##rank##_, #rank, unused)
#define XFFI_OPTIONAL "\"optional\": true" /* the operand may be absent */
#define XFFI_VARIADIC "\"variadic\": true" /* the entry describes all remaining operands */
#define XFFI_INOUT "\"inout\": true" /* the result shares memory with the argument of the same name */
#define XFFI_LAYOUT(order) "\"layout\": \"" order "\"" /* "column", or "row" (the default) */
#define XFFI_TOKEN(name) "{\"name\": \"" name "\", \"kind\": \"token\", \"rank\": 0}"

/* The list of attributes. XFFI_ATTR has a name and a type of the manifest, such as f32, i64, str or dict. */
#define XFFI_ATTRS(...) "\"attrs\": [" XFFI_JOIN_(__VA_ARGS__) "]"
#define XFFI_ATTR(name, type) "{\"name\": \"" name "\", \"type\": \"" #type "\"}"
#define XFFI_OPTIONAL_ATTR(name, type) \
  "{\"name\": \"" name "\", \"type\": \"" #type "\", \"optional\": true}"
/* An optional attribute with a default value. */
#define XFFI_DEFAULT_ATTR(name, type, value) \
  "{\"name\": \"" name "\", \"type\": \"" #type "\", \"optional\": true, \"default\": " #value "}"
/* An attribute with other properties: a name and a type, followed by XFFI_OPTIONAL, XFFI_DEFAULT, or inclusive bounds
 * of a number. The handler must check the bounds with xffi_range_i64, xffi_range_f32 or xffi_range_f64. */
#define XFFI_ATTR_WITH(name, type, ...) \
  "{\"name\": \"" name "\", \"type\": \"" #type "\", " XFFI_JOIN_(__VA_ARGS__) "}"
#define XFFI_DEFAULT(value) "\"optional\": true, \"default\": " #value
#define XFFI_MIN(value) "\"min\": " #value
#define XFFI_MAX(value) "\"max\": " #value
/* A field of the dictionary attribute `from`. */
#define XFFI_FIELD_ATTR(from, name, type) \
  "{\"name\": \"" name "\", \"type\": \"" #type "\", \"from\": \"" from "\"}"
#define XFFI_OPEN_ATTRS "\"open_attrs\": true"

/* Other properties of a handler; docs/manifest.md defines them. */
#define XFFI_SHAPE(contract) "\"shape\": \"" contract "\""
#define XFFI_DOC(text) "\"doc\": \"" text "\""
#define XFFI_TRAITS(...) "\"traits\": [" XFFI_QUOTED_(__VA_ARGS__) "]"
#define XFFI_CONTEXT(...) "\"context\": [" XFFI_QUOTED_(__VA_ARGS__) "]"
#define XFFI_ASYNC "\"async\": true"
#define XFFI_STATE(type) "\"state\": {\"type\": \"" type "\"}"
#define XFFI_BATCH(how) "\"batch\": \"" how "\""
#define XFFI_BATCH_EACH(...) "\"batch\": [" XFFI_QUOTED_(__VA_ARGS__) "]"
#define XFFI_BATCHED_BY(handler) "\"batch\": {\"handler\": \"" handler "\"}"
#define XFFI_VJP(handler) XFFI_GRADIENT("\"vjp\": \"" handler "\"")
#define XFFI_JVP(handler) XFFI_GRADIENT("\"jvp\": \"" handler "\"")
/* A gradient with several of the entries below. */
#define XFFI_GRADIENT(...) "\"gradient\": {" XFFI_JOIN_(__VA_ARGS__) "}"
#define XFFI_BY(key, handler) "\"" #key "\": \"" handler "\""
#define XFFI_LINEAR "\"linear\": true"
#define XFFI_RESIDUALS(...) "\"residuals\": [" XFFI_QUOTED_(__VA_ARGS__) "]"
#define XFFI_NO_RESIDUALS "\"residuals\": []" /* the derivative handlers receive no residuals */

/* These macros replace the word ANY by null, and leave any other word unchanged. */
#define XFFI_IS_ANY_ unused, "null"
#define XFFI_OR_(...) XFFI_SECOND_(__VA_ARGS__)
#define XFFI_SECOND_(first, second, ...) second

/* XFFI_JOIN_ joins string literals with commas. XFFI_QUOTED_ also puts each literal in quotes. */
#define XFFI_JOIN_(...) XFFI_COUNTED_(__VA_ARGS__, XFFI_COUNTS_(XFFI_JOIN_))(__VA_ARGS__)
#define XFFI_QUOTED_(...) "\"" XFFI_COUNTED_(__VA_ARGS__, XFFI_COUNTS_(XFFI_QUOTE_))(__VA_ARGS__) "\""
#define XFFI_COUNTS_(name) \
  name##24_, name##23_, name##22_, name##21_, name##20_, name##19_, name##18_, \
  name##17_, name##16_, name##15_, name##14_, name##13_, name##12_, name##11_, \
  name##10_, name##9_, name##8_, name##7_, name##6_, name##5_, name##4_, name##3_, \
  name##2_, name##1_, unused
#define XFFI_COUNTED_(...) XFFI_PLACE_(__VA_ARGS__)
#define XFFI_PLACE_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, \
                     a18, a19, a20, a21, a22, a23, a24, place, ...) place
#define XFFI_JOIN_1_(a) a
#define XFFI_JOIN_2_(a, ...) a ", " XFFI_JOIN_1_(__VA_ARGS__)
#define XFFI_JOIN_3_(a, ...) a ", " XFFI_JOIN_2_(__VA_ARGS__)
#define XFFI_JOIN_4_(a, ...) a ", " XFFI_JOIN_3_(__VA_ARGS__)
#define XFFI_JOIN_5_(a, ...) a ", " XFFI_JOIN_4_(__VA_ARGS__)
#define XFFI_JOIN_6_(a, ...) a ", " XFFI_JOIN_5_(__VA_ARGS__)
#define XFFI_JOIN_7_(a, ...) a ", " XFFI_JOIN_6_(__VA_ARGS__)
#define XFFI_JOIN_8_(a, ...) a ", " XFFI_JOIN_7_(__VA_ARGS__)
#define XFFI_JOIN_9_(a, ...) a ", " XFFI_JOIN_8_(__VA_ARGS__)
#define XFFI_JOIN_10_(a, ...) a ", " XFFI_JOIN_9_(__VA_ARGS__)
#define XFFI_JOIN_11_(a, ...) a ", " XFFI_JOIN_10_(__VA_ARGS__)
#define XFFI_JOIN_12_(a, ...) a ", " XFFI_JOIN_11_(__VA_ARGS__)
#define XFFI_JOIN_13_(a, ...) a ", " XFFI_JOIN_12_(__VA_ARGS__)
#define XFFI_JOIN_14_(a, ...) a ", " XFFI_JOIN_13_(__VA_ARGS__)
#define XFFI_JOIN_15_(a, ...) a ", " XFFI_JOIN_14_(__VA_ARGS__)
#define XFFI_JOIN_16_(a, ...) a ", " XFFI_JOIN_15_(__VA_ARGS__)
#define XFFI_JOIN_17_(a, ...) a ", " XFFI_JOIN_16_(__VA_ARGS__)
#define XFFI_JOIN_18_(a, ...) a ", " XFFI_JOIN_17_(__VA_ARGS__)
#define XFFI_JOIN_19_(a, ...) a ", " XFFI_JOIN_18_(__VA_ARGS__)
#define XFFI_JOIN_20_(a, ...) a ", " XFFI_JOIN_19_(__VA_ARGS__)
#define XFFI_JOIN_21_(a, ...) a ", " XFFI_JOIN_20_(__VA_ARGS__)
#define XFFI_JOIN_22_(a, ...) a ", " XFFI_JOIN_21_(__VA_ARGS__)
#define XFFI_JOIN_23_(a, ...) a ", " XFFI_JOIN_22_(__VA_ARGS__)
#define XFFI_JOIN_24_(a, ...) a ", " XFFI_JOIN_23_(__VA_ARGS__)
#define XFFI_QUOTE_1_(a) a
#define XFFI_QUOTE_2_(a, ...) a "\", \"" XFFI_QUOTE_1_(__VA_ARGS__)
#define XFFI_QUOTE_3_(a, ...) a "\", \"" XFFI_QUOTE_2_(__VA_ARGS__)
#define XFFI_QUOTE_4_(a, ...) a "\", \"" XFFI_QUOTE_3_(__VA_ARGS__)
#define XFFI_QUOTE_5_(a, ...) a "\", \"" XFFI_QUOTE_4_(__VA_ARGS__)
#define XFFI_QUOTE_6_(a, ...) a "\", \"" XFFI_QUOTE_5_(__VA_ARGS__)
#define XFFI_QUOTE_7_(a, ...) a "\", \"" XFFI_QUOTE_6_(__VA_ARGS__)
#define XFFI_QUOTE_8_(a, ...) a "\", \"" XFFI_QUOTE_7_(__VA_ARGS__)
#define XFFI_QUOTE_9_(a, ...) a "\", \"" XFFI_QUOTE_8_(__VA_ARGS__)
#define XFFI_QUOTE_10_(a, ...) a "\", \"" XFFI_QUOTE_9_(__VA_ARGS__)
#define XFFI_QUOTE_11_(a, ...) a "\", \"" XFFI_QUOTE_10_(__VA_ARGS__)
#define XFFI_QUOTE_12_(a, ...) a "\", \"" XFFI_QUOTE_11_(__VA_ARGS__)
#define XFFI_QUOTE_13_(a, ...) a "\", \"" XFFI_QUOTE_12_(__VA_ARGS__)
#define XFFI_QUOTE_14_(a, ...) a "\", \"" XFFI_QUOTE_13_(__VA_ARGS__)
#define XFFI_QUOTE_15_(a, ...) a "\", \"" XFFI_QUOTE_14_(__VA_ARGS__)
#define XFFI_QUOTE_16_(a, ...) a "\", \"" XFFI_QUOTE_15_(__VA_ARGS__)
#define XFFI_QUOTE_17_(a, ...) a "\", \"" XFFI_QUOTE_16_(__VA_ARGS__)
#define XFFI_QUOTE_18_(a, ...) a "\", \"" XFFI_QUOTE_17_(__VA_ARGS__)
#define XFFI_QUOTE_19_(a, ...) a "\", \"" XFFI_QUOTE_18_(__VA_ARGS__)
#define XFFI_QUOTE_20_(a, ...) a "\", \"" XFFI_QUOTE_19_(__VA_ARGS__)
#define XFFI_QUOTE_21_(a, ...) a "\", \"" XFFI_QUOTE_20_(__VA_ARGS__)
#define XFFI_QUOTE_22_(a, ...) a "\", \"" XFFI_QUOTE_21_(__VA_ARGS__)
#define XFFI_QUOTE_23_(a, ...) a "\", \"" XFFI_QUOTE_22_(__VA_ARGS__)
#define XFFI_QUOTE_24_(a, ...) a "\", \"" XFFI_QUOTE_23_(__VA_ARGS__)

#endif  /* XLA_FFI_MANIFEST_H_ */
