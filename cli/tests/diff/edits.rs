//! A manifest, and edits of it with what each asks of the version number.

use serde_json::{Value, json};

pub(crate) fn manifest() -> Value {
    json!({
        "library": "lib", "sdk": "0.1.0", "handlers": [{
            "name": "f", "platforms": ["cpu"], "doc": "Words.",
            "stages": { "execute": "one", "instantiate": "make" },
            "args": [
                { "name": "x", "kind": "buffer", "dtypes": ["F32", "F64"], "rank": 2 },
                { "name": "w", "kind": "buffer", "dtypes": null, "rank": null, "optional": true },
            ],
            "rets": [{ "name": "y", "kind": "buffer", "dtypes": ["F32"], "rank": null }],
            "attrs": [
                { "name": "k", "type": "i64" },
                { "name": "eps", "type": "f32", "optional": true, "default": 1e-5 },
            ],
            "shape": "n k, m? -> n", "context": ["thread_pool"], "traits": ["command_buffer_compatible"],
            "gradient": { "vjp": "g" }, "state": { "type": "S" }, "floor": "r4",
        }, {
            "name": "g", "platforms": ["cpu"], "stages": { "execute": "one" }, "described": false, "floor": "r4",
        }],
        "legacy": [{
            "name": "old", "platforms": ["Host", "CUDA"], "signature": "cpu_status", "api_version": 2, "symbol": "make",
            "args": [{ "dtypes": ["F32"], "dims": [128] }], "rets": [{ "dtypes": ["F32"], "dims": [] }],
        }, {
            "name": "bare", "platforms": ["Host"], "signature": "cpu", "api_version": 1, "symbol": "make",
            "tuples": "leaves", "structure": "(_), _ -> _",
        }],
    })
}

/// What is edited, how, and what has to be told: the step, and what it is about. An empty step says that
/// nothing is told.
pub(crate) fn edits() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let operand = |name: &str, optional: bool| json!({ "name": name, "kind": "buffer", "dtypes": null, "rank": null, "optional": optional });
    let attribute =
        |name: &str, optional: bool| json!({ "name": name, "type": "i64", "optional": optional });
    vec![
        (
            "/handlers/0/args",
            json!([
                { "name": "w", "kind": "buffer", "dtypes": ["F32", "F64"], "rank": 2 },
                { "name": "x", "kind": "buffer", "dtypes": null, "rank": null, "optional": true },
            ]),
            "major",
            "argument x: place",
        ),
        // The same f32.
        (
            "/handlers/0/attrs/1/default",
            json!(1.000_000_000_1e-5),
            "",
            "",
        ),
        ("/library", json!("other"), "major", "name of the library"),
        ("/sdk", json!("0.2.0"), "patch", "made with xla-ffi"),
        ("/handlers/1", Value::Null, "major", "handler"),
        (
            "/handlers/-",
            json!({ "name": "h", "platforms": ["cpu"], "stages": { "execute": "one" },
            "described": false, "floor": "r0" }),
            "minor",
            "handler",
        ),
        (
            "/handlers/0/doc",
            json!("Other words."),
            "patch",
            "its words",
        ),
        (
            "/handlers/0/platforms",
            json!(["cuda"]),
            "major",
            "platforms",
        ),
        (
            "/handlers/0/platforms/-",
            json!("cuda"),
            "minor",
            "platforms",
        ),
        (
            "/handlers/0/stages/execute",
            json!("make"),
            "major",
            "execute stage",
        ),
        (
            "/handlers/0/stages/instantiate",
            Value::Null,
            "major",
            "instantiate stage",
        ),
        (
            "/handlers/0/stages/prepare",
            json!("one"),
            "major",
            "prepare stage",
        ),
        (
            "/handlers/0/args/0/name",
            json!("input"),
            "patch",
            "argument x: name",
        ),
        (
            "/handlers/0/args/0/kind",
            json!("token"),
            "major",
            "argument x: kind",
        ),
        (
            "/handlers/0/args/0/dtypes",
            json!(["F32"]),
            "major",
            "argument x: element types",
        ),
        (
            "/handlers/0/args/0/dtypes",
            Value::Null,
            "minor",
            "argument x: element types",
        ),
        (
            "/handlers/0/args/0/dtypes/-",
            json!("F16"),
            "minor",
            "argument x: element types",
        ),
        (
            "/handlers/0/args/1/dtypes",
            json!(["F32"]),
            "major",
            "argument w: element types",
        ),
        (
            "/handlers/0/args/0/rank",
            json!(3),
            "major",
            "argument x: rank",
        ),
        (
            "/handlers/0/args/0/rank",
            Value::Null,
            "minor",
            "argument x: rank",
        ),
        (
            "/handlers/0/args/0/optional",
            json!(true),
            "minor",
            "argument x: may be missing",
        ),
        (
            "/handlers/0/args/1/optional",
            json!(false),
            "major",
            "argument w: may be missing",
        ),
        (
            "/handlers/0/args/1/variadic",
            json!(true),
            "minor",
            "argument w: stands for all that remain",
        ),
        ("/handlers/0/args/0/layout", json!("row"), "", ""),
        (
            "/handlers/0/args/0/layout",
            json!("column"),
            "major",
            "argument x: order of its elements",
        ),
        ("/handlers/0/args/1", Value::Null, "major", "argument"),
        (
            "/handlers/0/args/-",
            operand("more", true),
            "minor",
            "argument",
        ),
        (
            "/handlers/0/args/-",
            operand("more", false),
            "major",
            "argument",
        ),
        (
            "/handlers/0/rets/0",
            json!({ "name": "x", "kind": "buffer", "dtypes": ["F32"], "rank": null, "inout": true }),
            "major",
            "result y: shares memory with its argument",
        ),
        (
            "/handlers/0/rets/0/dtypes/-",
            json!("F64"),
            "major",
            "result y: the type that follows by itself",
        ),
        ("/handlers/0/rets/-", operand("z", false), "major", "result"),
        ("/handlers/0/attrs/0", Value::Null, "major", "attribute"),
        (
            "/handlers/0/attrs/-",
            attribute("more", true),
            "minor",
            "attribute",
        ),
        (
            "/handlers/0/attrs/-",
            attribute("p", false),
            "major",
            "attribute",
        ),
        (
            "/handlers/0/attrs/1/type",
            json!("f64"),
            "major",
            "attribute eps: type",
        ),
        (
            "/handlers/0/attrs/1/type",
            json!("any"),
            "minor",
            "attribute eps: type",
        ),
        (
            "/handlers/0/attrs/1/default",
            json!(1e-6),
            "major",
            "attribute eps: default",
        ),
        (
            "/handlers/0/attrs/1/optional",
            json!(false),
            "major",
            "attribute eps: may be missing",
        ),
        (
            "/handlers/0/attrs/0/optional",
            json!(true),
            "minor",
            "attribute k: may be missing",
        ),
        (
            "/handlers/0/attrs/1/narrow",
            json!(true),
            "minor",
            "attribute eps: wider types converted",
        ),
        ("/handlers/0/attrs/1/from", json!("d"), "major", "attribute"),
        (
            "/handlers/0/open_attrs",
            json!(true),
            "minor",
            "other attributes",
        ),
        ("/handlers/0/shape", json!("rows k, m? -> rows"), "", ""),
        (
            "/handlers/0/shape",
            json!("... n k, m? -> ... n"),
            "minor",
            "shape contract",
        ),
        (
            "/handlers/0/shape",
            json!("n k, m? -> n 1"),
            "major",
            "shape contract",
        ),
        (
            "/handlers/0/shape",
            json!("n k, n? -> n"),
            "major",
            "shape contract",
        ),
        ("/handlers/0/shape", Value::Null, "major", "shape contract"),
        // An attribute that is called as a size of the contract tells that size.
        (
            "/handlers/0/attrs/-",
            attribute("n", true),
            "major",
            "shape contract",
        ),
        (
            "/handlers/0/attrs/-",
            attribute("m", true),
            "major",
            "shape contract",
        ),
        ("/handlers/0/platforms", json!(["Host"]), "", ""),
        ("/handlers/0/platforms/-", json!("HOST"), "", ""),
        ("/legacy/0/platforms", json!(["cuda", "cpu"]), "", ""),
        (
            "/handlers/0/context",
            json!([]),
            "minor",
            "taken from its context",
        ),
        (
            "/handlers/0/context/-",
            json!("scratch"),
            "major",
            "taken from its context",
        ),
        ("/handlers/0/traits", json!([]), "patch", "trait"),
        (
            "/handlers/0/traits/-",
            json!("nondeterministic"),
            "major",
            "trait",
        ),
        (
            "/handlers/0/gradient/residuals",
            json!(["x"]),
            "patch",
            "gradient, residuals",
        ),
        (
            "/handlers/0/args/0/doc",
            json!("The input."),
            "patch",
            "argument x: its words",
        ),
        (
            "/handlers/0/attrs/0/doc",
            json!("How many."),
            "patch",
            "attribute k: its words",
        ),
        (
            "/handlers/0/gradient",
            Value::Null,
            "major",
            "gradient, vjp",
        ),
        (
            "/handlers/1/gradient",
            json!({ "linear": true, "transpose": "f" }),
            "minor",
            "gradient, jvp",
        ),
        ("/handlers/0/batch", json!("none"), "major", "batching"),
        (
            "/handlers/0/batch",
            json!("sequential"),
            "patch",
            "batching",
        ),
        (
            "/handlers/0/state/type",
            json!("T"),
            "major",
            "type of its state",
        ),
        ("/handlers/0/async", json!(true), "patch", "completes"),
        ("/handlers/0/floor", json!("r6"), "major", "oldest revision"),
        ("/handlers/0/floor", json!("r2"), "minor", "oldest revision"),
        (
            "/handlers/1/described",
            json!(true),
            "minor",
            "operands described",
        ),
        ("/legacy/0", Value::Null, "major", "target"),
        (
            "/legacy/-",
            json!({ "name": "new", "platforms": ["Host"], "signature": "cpu_unified", "api_version": 3, "symbol": "one" }),
            "minor",
            "target",
        ),
        ("/legacy/0/platforms", json!(["Host"]), "major", "platforms"),
        ("/legacy/1/platforms/-", json!("CUDA"), "minor", "platforms"),
        ("/legacy/0/symbol", json!("one"), "major", "symbol"),
        ("/legacy/0/args/0/dims", json!([129]), "major", "argument 0"),
        (
            "/legacy/0/rets/0/dtypes",
            json!(["F64"]),
            "major",
            "result 0",
        ),
        ("/legacy/0/args/0", Value::Null, "major", "argument 0"),
        (
            "/legacy/0/rets/-",
            json!({ "dtypes": ["S4"], "dims": [2, 3] }),
            "major",
            "result 1",
        ),
        ("/legacy/1/tuples", json!("roots"), "major", "tuples"),
        (
            "/legacy/1/structure",
            json!("(_, _) -> _"),
            "major",
            "tuples",
        ),
        ("/legacy/0/args", Value::Null, "major", "operands described"),
    ]
}

/// Sets, appends (`-`) or, for null in a list or map, takes away.
pub(crate) fn edit(value: &mut Value, at: &str, with: &Value) {
    let (owner, key) = at.rsplit_once('/').unwrap();
    let owner = value.pointer_mut(owner).unwrap();
    match (owner, key) {
        (Value::Array(list), "-") => list.push(with.clone()),
        (Value::Array(list), at) if with.is_null() => drop(list.remove(at.parse().unwrap())),
        (Value::Array(list), at) => list[at.parse::<usize>().unwrap()] = with.clone(),
        (owner, key) => {
            owner[key] = with.clone();
            if key == "described" {
                for key in ["args", "rets", "attrs"] {
                    owner[key] = json!([]);
                }
            }
        }
    }
}
