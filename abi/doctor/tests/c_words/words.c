/* A library that says everything that a description in C can say; c_words.rs holds it against the format. */
#include "xla_ffi/handler.h"

static XLA_FFI_Error* nothing(xffi_call* call) { return xffi_decoded(call); }

XFFI_HANDLER(operands, nothing);
XFFI_HANDLER(attributes, nothing);
XFFI_HANDLER(rest, nothing);
XFFI_HANDLER(counts_start, nothing);
XFFI_HANDLER(counts, nothing);
XFFI_HANDLER(unknown, nothing);
XFFI_HANDLER(smooth, nothing);
XFFI_HANDLER(smooth_backward, nothing);
XFFI_HANDLER(smooth_forward, nothing);
XFFI_HANDLER(smooth_batched, nothing);
XFFI_HANDLER(straight, nothing);
XFFI_HANDLER(straight_back, nothing);
XFFI_HANDLER(bent, nothing);
XFFI_HANDLER(tangent, nothing);
XFFI_HANDLER(curved, nothing);
XFFI_HANDLER(constant, nothing);

#define X XFFI_OPERAND("x", F32, ANY)
#define Y XFFI_OPERAND("y", F32, ANY)
#define G XFFI_OPERAND("g", F32, ANY)

XFFI_LIBRARY(
    words,
    XFFI_DESCRIBE(operands,
                  XFFI_ARGS(XFFI_OPERAND("any", ANY, ANY),
                            XFFI_OPERAND_WITH("matrix", XFFI_DTYPES("F32", "F64"), XFFI_RANK(2),
                                              XFFI_LAYOUT("column")),
                            XFFI_TOKEN("before"),
                            XFFI_OPERAND_WITH("absent", XFFI_DTYPE(S32), XFFI_RANK(ANY), XFFI_OPTIONAL)),
                  XFFI_RETS(XFFI_OPERAND_WITH("any", XFFI_DTYPE(ANY), XFFI_RANK(ANY), XFFI_INOUT),
                            XFFI_TOKEN("after")),
                  XFFI_ATTRS(), XFFI_DOC("What operands can be."),
                  XFFI_TRAITS("command_buffer_compatible", "nondeterministic")),
    XFFI_DESCRIBE(attributes, XFFI_ARGS(X), XFFI_RETS(Y),
                  XFFI_ATTRS(XFFI_ATTR("n", i64), XFFI_OPTIONAL_ATTR("mode", str),
                             XFFI_DEFAULT_ATTR("eps", f32, 1e-5), XFFI_FIELD_ATTR("range", "lo", i32),
                             XFFI_ATTR_WITH("bins", u8, XFFI_DEFAULT(4), XFFI_MIN(1), XFFI_MAX(64))),
                  XFFI_OPEN_ATTRS, XFFI_SHAPE("... -> ..."), XFFI_BATCH("none")),
    XFFI_DESCRIBE(rest, XFFI_ARGS(X, XFFI_OPERAND_WITH("others", XFFI_DTYPE(F32), XFFI_RANK(1), XFFI_VARIADIC)),
                  XFFI_RETS(Y), XFFI_ATTRS(), XFFI_CONTEXT("stream", "future"), XFFI_ASYNC),
    XFFI_DESCRIBE_WITH("counts", XFFI_PLATFORMS("cpu", "cuda"),
                       XFFI_STAGES(XFFI_STAGE(instantiate, counts_start), XFFI_STAGE(execute, counts)),
                       XFFI_FLOOR(r2), XFFI_ARGS(), XFFI_RETS(XFFI_OPERAND("y", S32, 0)), XFFI_ATTRS(),
                       XFFI_STATE("app::Counter")),
    XFFI_DESCRIBE(unknown, XFFI_UNDESCRIBED),
    XFFI_DESCRIBE(smooth, XFFI_ARGS(X), XFFI_RETS(Y), XFFI_ATTRS(), XFFI_SHAPE("... -> ..."),
                  XFFI_GRADIENT(XFFI_BY(vjp, "smooth_backward"), XFFI_BY(forward, "smooth_forward"),
                                XFFI_RESIDUALS("x", "kept")),
                  XFFI_BATCHED_BY("smooth_batched")),
    XFFI_DESCRIBE(smooth_forward, XFFI_ARGS(X), XFFI_RETS(Y, XFFI_OPERAND("kept", F32, ANY)), XFFI_ATTRS()),
    XFFI_DESCRIBE(smooth_backward, XFFI_ARGS(X, XFFI_OPERAND("kept", F32, ANY), G),
                  XFFI_RETS(XFFI_OPERAND("dx", F32, ANY)), XFFI_ATTRS()),
    XFFI_DESCRIBE(smooth_batched, XFFI_ARGS(X), XFFI_RETS(Y), XFFI_ATTRS()),
    XFFI_DESCRIBE(straight, XFFI_ARGS(X), XFFI_RETS(Y), XFFI_ATTRS(),
                  XFFI_GRADIENT(XFFI_LINEAR, XFFI_BY(transpose, "straight_back")),
                  XFFI_BATCH_EACH("leading")),
    XFFI_DESCRIBE(straight_back, XFFI_ARGS(G), XFFI_RETS(XFFI_OPERAND("dx", F32, ANY)), XFFI_ATTRS()),
    XFFI_DESCRIBE(bent, XFFI_ARGS(X), XFFI_RETS(Y), XFFI_ATTRS(), XFFI_JVP("tangent")),
    XFFI_DESCRIBE(tangent, XFFI_ARGS(X, G), XFFI_RETS(Y), XFFI_ATTRS()),
    XFFI_DESCRIBE(curved, XFFI_ARGS(X), XFFI_RETS(Y), XFFI_ATTRS(), XFFI_VJP("tangent")),
    XFFI_DESCRIBE(constant, XFFI_ARGS(X), XFFI_RETS(Y), XFFI_ATTRS(),
                  XFFI_GRADIENT(XFFI_BY(vjp, "straight_back"), XFFI_NO_RESIDUALS)));
