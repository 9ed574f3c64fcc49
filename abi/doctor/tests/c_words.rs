//! Every word that a description in C may use: what the macros of `xla_ffi/manifest.h` put together is the format that
//! docs/manifest.md has, and no word is left out here.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use xla_ffi_doctor::manifest;
use xla_ffi_testing::{compiler, root, target_folder};

const SOURCE: &str = include_str!("c_words/words.c");

/// The description as it stands in the library.
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

/// A handler of the cpu, of one stage.
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

/// A handler of `x` and `y`, and what else there is.
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
fn words_of_c_are_the_formats() {
    let folder = target_folder().join("tmp/c-words");
    let source = root().join("abi/doctor/tests/c_words/words.c");
    let include = root().join("include").display().to_string();
    let flags = ["-I".to_owned(), include];
    let test = "words_of_c_are_the_formats";
    let Some(library) = compiler::shared_library(&folder, test, &source, "words", &flags) else {
        return;
    };
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
}

#[test]
fn no_word_of_c_is_left_out() {
    let header = std::fs::read_to_string(root().join("include/xla_ffi/manifest.h")).unwrap();
    let defined = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define XFFI_"));
    let defined: BTreeSet<&str> = defined
        .filter_map(|rest| {
            rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
        })
        // What ends so is of the header itself.
        .filter(|name| !name.ends_with('_'))
        .collect();
    assert!(defined.len() > 35, "{defined:?}");
    let used: BTreeSet<&str> = SOURCE
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter_map(|word| word.strip_prefix("XFFI_"))
        .collect();
    let missing: Vec<_> = defined.difference(&used).collect();
    assert!(missing.is_empty(), "words.c does not say {missing:?}");
}
