//! A manifest, and edits of the manifest. Each edit requires a known step of the version number.

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
                { "name": "k", "type": "i64", "min": 1, "max": 64 },
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

/// Returns the edits: the place in the manifest, the new value, the required step and the property that differs. An
/// empty step means that `diff` reports no difference.
pub(crate) fn edits() -> impl Iterator<Item = (&'static str, Value, &'static str, &'static str)> {
    EDITS.trim().lines().map(|line| {
        let parts: Vec<&str> = line.split(" | ").collect();
        let with = serde_json::from_str(parts[1]).unwrap();
        (parts[0], with, parts[2].trim_matches('-'), parts[3])
    })
}

const EDITS: &str = r#"
/handlers/0/args | [ { "name": "w", "kind": "buffer", "dtypes": ["F32", "F64"], "rank": 2 }, { "name": "x", "kind": "buffer", "dtypes": null, "rank": null, "optional": true }] | major | argument x: position
/handlers/0/attrs/1/default | 1.0000000001e-5 | - | -
/library | "other" | major | name of the library
/sdk | "0.2.0" | patch | SDK version
/handlers/1 | null | major | handler
/handlers/- | { "name": "h", "platforms": ["cpu"], "stages": { "execute": "one" }, "described": false, "floor": "r0" } | minor | handler
/handlers/0/platforms | ["cuda"] | major | platforms
/handlers/0/platforms/- | "cuda" | minor | platforms
/handlers/0/stages/execute | "make" | major | execute stage
/handlers/0/stages/instantiate | null | major | instantiate stage
/handlers/0/stages/prepare | "one" | major | prepare stage
/handlers/0/args/0/name | "input" | patch | argument x: name
/handlers/0/args/0/kind | "token" | major | argument x: kind
/handlers/0/args/0/dtypes | ["F32"] | major | argument x: element types
/handlers/0/args/0/dtypes | null | minor | argument x: element types
/handlers/0/args/0/dtypes/- | "F16" | minor | argument x: element types
/handlers/0/args/1/dtypes | ["F32"] | major | argument w: element types
/handlers/0/args/0/rank | 3 | major | argument x: rank
/handlers/0/args/0/rank | null | minor | argument x: rank
/handlers/0/args/0/optional | true | minor | argument x: optional
/handlers/0/args/1/optional | false | major | argument w: optional
/handlers/0/args/1/variadic | true | minor | argument w: variadic
/handlers/0/args/0/layout | "row" | - | -
/handlers/0/args/0/layout | "column" | major | argument x: layout
/handlers/0/args/1 | null | major | argument
/handlers/0/args/- | {"name": "more", "kind": "buffer", "dtypes": null, "rank": null, "optional": true} | minor | argument
/handlers/0/args/- | {"name": "more", "kind": "buffer", "dtypes": null, "rank": null, "optional": false} | major | argument
/handlers/0/rets/0 | { "name": "x", "kind": "buffer", "dtypes": ["F32"], "rank": null, "inout": true } | major | result y: alias of its argument
/handlers/0/rets/0/dtypes/- | "F64" | major | result y: inferred element type
/handlers/0/rets/- | {"name": "z", "kind": "buffer", "dtypes": null, "rank": null, "optional": false} | major | result
/handlers/0/attrs/0 | null | major | attribute
/handlers/0/attrs/- | {"name": "more", "type": "i64", "optional": true} | minor | attribute
/handlers/0/attrs/- | {"name": "p", "type": "i64", "optional": false} | major | attribute
/handlers/0/attrs/1/type | "f64" | major | attribute eps: type
/handlers/0/attrs/1/type | "any" | minor | attribute eps: type
/handlers/0/attrs/1/default | 1e-6 | major | attribute eps: default
/handlers/0/attrs/1/optional | false | major | attribute eps: optional
/handlers/0/attrs/0/optional | true | minor | attribute k: optional
/handlers/0/attrs/0/min | 2 | major | attribute k: min
/handlers/0/attrs/0/min | 0 | minor | attribute k: min
/handlers/0/attrs/0/min | null | minor | attribute k: min
/handlers/0/attrs/0/max | 65 | minor | attribute k: max
/handlers/0/attrs/0/max | 63 | major | attribute k: max
/handlers/0/attrs/1/narrow | true | minor | attribute eps: wider types accepted
/handlers/0/attrs/1/from | "d" | major | attribute
/handlers/0/open_attrs | true | minor | other attributes
/handlers/0/shape | "rows k, m? -> rows" | - | -
/handlers/0/shape | "... n k, m? -> ... n" | major | shape contract
/handlers/0/shape | "n k, m? -> n 1" | major | shape contract
/handlers/0/shape | "n k, n? -> n" | major | shape contract
/handlers/0/shape | null | major | shape contract
/handlers/0/attrs/- | {"name": "n", "type": "i64", "optional": true} | major | shape contract
/handlers/0/attrs/- | {"name": "m", "type": "i64", "optional": true} | major | shape contract
/handlers/0/platforms | ["Host"] | - | -
/handlers/0/platforms/- | "HOST" | - | -
/legacy/0/platforms | ["cuda", "cpu"] | - | -
/handlers/0/context | [] | minor | context
/handlers/0/context/- | "scratch" | major | context
/handlers/0/traits | [] | patch | trait
/handlers/0/traits/- | "nondeterministic" | major | trait
/handlers/0/gradient/residuals | ["x"] | patch | gradient, residuals
/handlers/0/gradient | null | major | gradient, vjp
/handlers/1/gradient | { "linear": true, "transpose": "f" } | minor | gradient, jvp
/handlers/0/batch | "none" | major | batching
/handlers/0/batch | "sequential" | patch | batching
/handlers/0/state/type | "T" | major | state type
/handlers/0/async | true | patch | completion
/handlers/0/floor | "r6" | major | oldest revision
/handlers/0/floor | "r2" | minor | oldest revision
/handlers/1/described | true | minor | described operands
/legacy/0 | null | major | target
/legacy/- | { "name": "new", "platforms": ["Host"], "signature": "cpu_unified", "api_version": 3, "symbol": "one" } | minor | target
/legacy/0/platforms | ["Host"] | major | platforms
/legacy/1/platforms/- | "CUDA" | minor | platforms
/legacy/0/symbol | "one" | major | symbol
/legacy/0/args/0/dims | [129] | major | argument 0
/legacy/0/rets/0/dtypes | ["F64"] | major | result 0
/legacy/0/args/0 | null | major | argument 0
/legacy/0/rets/- | { "dtypes": ["S4"], "dims": [2, 3] } | major | result 1
/legacy/1/tuples | "roots" | major | tuples
/legacy/1/structure | "(_, _) -> _" | major | tuples
/legacy/0/args | null | major | described operands
"#;

/// Sets the value at a place in the manifest. In places, `-` appends to a list. The value null removes an item of a
/// list.
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
