//! Every macro of `xla_ffi/manifest.h`, in a library whose manifest must match docs/manifest.md. A test finds macros
//! that this library does not use.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use xla_ffi_doctor::{Examination, Use, manifest};
use xla_ffi_sys::Revision;
use xla_ffi_testing::{compiler, root};

/// The C source of a library that uses every macro for manifests.
const SOURCE: &str = r#"
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
"#;

/// Returns the manifest in a library's file as JSON.
fn payload(file: &[u8]) -> Value {
    let magic = b"XLAFFIMF";
    let at = file
        .windows(8)
        .position(|bytes| bytes == magic)
        .expect("a record");
    let head = &file[at + 8..at + 16];
    assert_eq!(head[..4], 2_u32.to_le_bytes());
    let length = u32::from_le_bytes(head[4..].try_into().unwrap()) as usize;
    serde_json::from_slice(&file[at + 16..at + 16 + length]).expect("JSON")
}

/// Returns the expected JSON of a CPU handler with one stage.
fn handler(name: &str, more: Value) -> Value {
    let mut handler = json!({
        "name": name, "platforms": ["cpu"], "stages": {"execute": name}, "floor": "r0",
    });
    let fields = handler.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    handler
}

fn buffer(name: &str, dtype: &str, rank: Option<u32>) -> Value {
    json!({"name": name, "kind": "buffer", "dtypes": [dtype], "rank": rank})
}

/// Returns the expected JSON of a handler with operands `x` and `y`. `more` contains additional keys.
fn unary(name: &str, more: Value) -> Value {
    let operand = |name| buffer(name, "F32", None);
    let mut both = json!({"args": [operand("x")], "rets": [operand("y")], "attrs": []});
    both.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    handler(name, both)
}

fn wanted() -> Value {
    let f32s = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| buffer(name, "F32", None)).collect()
    };
    let token = |name: &str| json!({"name": name, "kind": "token", "rank": 0});
    let operands = json!({
        "args": [
            {"name": "any", "kind": "buffer", "dtypes": null, "rank": null},
            {"name": "matrix", "kind": "buffer", "dtypes": ["F32", "F64"], "rank": 2, "layout": "column"},
            token("before"),
            {"name": "absent", "kind": "buffer", "dtypes": ["S32"], "rank": null, "optional": true},
        ],
        "rets": [
            {"name": "any", "kind": "buffer", "dtypes": null, "rank": null, "inout": true},
            token("after"),
        ],
        "attrs": [],
        "doc": "What operands can be.",
        "traits": ["command_buffer_compatible", "nondeterministic"],
    });
    let attributes = json!({
        "attrs": [
            {"name": "n", "type": "i64"},
            {"name": "mode", "type": "str", "optional": true},
            {"name": "eps", "type": "f32", "optional": true, "default": 1e-5},
            {"name": "lo", "type": "i32", "from": "range"},
            {"name": "bins", "type": "u8", "optional": true, "default": 4, "min": 1, "max": 64},
        ],
        "open_attrs": true, "shape": "... -> ...", "batch": "none",
    });
    let others =
        json!({"name": "others", "kind": "buffer", "dtypes": ["F32"], "rank": 1, "variadic": true});
    let rest = json!({
        "args": [buffer("x", "F32", None), others], "context": ["stream", "future"], "async": true,
    });
    let counts = json!({
        "name": "counts", "platforms": ["cpu", "cuda"],
        "stages": {"instantiate": "counts_start", "execute": "counts"}, "floor": "r2",
        "args": [], "rets": [buffer("y", "S32", Some(0))], "attrs": [], "state": {"type": "app::Counter"},
    });
    let smooth = json!({
        "shape": "... -> ...",
        "gradient": {"vjp": "smooth_backward", "forward": "smooth_forward", "residuals": ["x", "kept"]},
        "batch": {"handler": "smooth_batched"},
    });
    let straight = json!({
        "gradient": {"linear": true, "transpose": "straight_back"}, "batch": ["leading"],
    });
    let handlers = [
        handler("operands", operands),
        unary("attributes", attributes),
        unary("rest", rest),
        counts,
        handler("unknown", json!({"described": false})),
        unary("smooth", smooth),
        unary("smooth_forward", json!({"rets": f32s(&["y", "kept"])})),
        unary(
            "smooth_backward",
            json!({"args": f32s(&["x", "kept", "g"]), "rets": f32s(&["dx"])}),
        ),
        unary("smooth_batched", json!({})),
        unary("straight", straight),
        unary(
            "straight_back",
            json!({"args": f32s(&["g"]), "rets": f32s(&["dx"])}),
        ),
        unary("bent", json!({"gradient": {"jvp": "tangent"}})),
        unary("tangent", json!({"args": f32s(&["x", "g"])})),
        unary("curved", json!({"gradient": {"vjp": "tangent"}})),
        unary(
            "constant",
            json!({"gradient": {"vjp": "straight_back", "residuals": []}}),
        ),
    ];
    json!({"library": "words", "sdk": env!("CARGO_PKG_VERSION"), "handlers": handlers})
}

#[test]
fn macros_of_c_write_the_format() {
    let test = "macros_of_c_write_the_format";
    let Some(compiler) = compiler::compiler(false, test) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let program = compiler.to_str().unwrap();
    let library = compiler::library_of_text(folder.path(), "words", program, SOURCE, &["-std=c11"]);
    let library = library.unwrap();
    let examined = Examination::of(&library).unwrap();
    let file = std::fs::read(library).unwrap();
    let (said, wanted) = (payload(&file), wanted());
    for key in ["library", "sdk"] {
        assert_eq!(said[key], wanted[key]);
    }
    let handlers = |all: &Value| all["handlers"].as_array().unwrap().clone();
    let (said, wanted) = (handlers(&said), handlers(&wanted));
    assert_eq!(said.len(), wanted.len());
    for (said, wanted) in said.into_iter().zip(wanted) {
        assert_eq!(said, wanted);
    }
    let read = manifest::read(&file).unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!(read[0].handlers.len(), 15);

    assert_eq!(examined.findings, []);
    let knows = |name: &str| {
        let candidate = examined.candidate(name, &[]);
        let (state, future) = (candidate.state, candidate.future);
        (
            candidate.has_types,
            matches!(state, Use::Yes(_)),
            matches!(future, Use::Yes(_)),
            candidate.floor,
        )
    };
    assert_eq!(knows("counts"), (true, true, false, Some(Revision::R2)));
    assert_eq!(knows("rest"), (true, false, true, Some(Revision::R0)));
    assert_eq!(knows("smooth"), (true, false, false, Some(Revision::R0)));
    assert_eq!(knows("unknown"), (false, false, false, None));
}

#[test]
fn no_macro_of_c_is_left_out() {
    let header = std::fs::read_to_string(root().join("include/xla_ffi/manifest.h")).unwrap();
    let defined = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define XFFI_"));
    let defined: BTreeSet<&str> = defined
        .filter_map(|rest| {
            rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
        })
        // Macros whose names end with `_` are private to the header.
        .filter(|name| !name.ends_with('_'))
        .collect();
    assert!(defined.len() > 35, "{defined:?}");
    let used: BTreeSet<&str> = SOURCE
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter_map(|word| word.strip_prefix("XFFI_"))
        .collect();
    let missing: Vec<_> = defined.difference(&used).collect();
    assert!(missing.is_empty(), "SOURCE does not use {missing:?}");
}
