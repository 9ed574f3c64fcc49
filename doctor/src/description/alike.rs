//! The doctor and Python's loader judge manifests alike: those that somebody changed, here and there.

use super::findings;
use crate::manifest;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use xla_ffi_testing::damage::{apply, damage};

const CASES: usize = 1_500;

/// A library that has a bit of everything.
fn whole() -> Value {
    let x = json!({"name": "x", "kind": "buffer", "dtypes": ["F32"], "rank": 2});
    let any = json!({"name": "x", "kind": "buffer", "dtypes": ["F32"], "rank": null});
    let y = json!({"name": "y", "kind": "buffer", "dtypes": ["F32", "F64"], "rank": null, "layout": "row"});
    let handler = |name: &str, args: Value, rets: Value, more: Value| {
        let mut handler = json!({
            "name": name, "platforms": ["cpu"], "stages": {"execute": name}, "floor": "r0",
            "args": args, "rets": rets, "attrs": [],
        });
        let keys = handler.as_object_mut().unwrap();
        keys.extend(more.as_object().unwrap().clone());
        handler
    };
    let attrs = json!([
        {"name": "eps", "type": "f32", "optional": true, "default": 1e-5, "narrow": false},
        {"name": "k", "type": "u8", "optional": true, "default": 3},
        {"name": "scale", "type": "dict"},
        {"name": "unit", "type": "str", "from": "scale", "optional": true, "default": "m"},
        {"name": "weights", "type": "[f64]"},
    ]);
    let state = json!({
        "stages": {"instantiate": "begin", "execute": "in_place"}, "floor": "r1", "platforms": ["cpu", "cuda"],
        "state": {"type": "l::Counter"}, "context": ["stream"], "traits": ["nondeterministic"], "async": true,
    });
    let many =
        json!({"name": "xs", "kind": "buffer", "dtypes": ["S32"], "rank": 1, "variadic": true});
    let shared = json!({"name": "xs", "kind": "buffer", "dtypes": ["S32"], "rank": 1, "variadic": true, "inout": true});
    json!({"library": "l", "sdk": "0.1.0", "register": "l__xla_ffi_register", "handlers": [
        handler("f", json!([x]), json!([y]), json!({
            "attrs": attrs, "shape": "n k -> k n", "doc": "What it does.", "batch": {"handler": "many"},
            "gradient": {"vjp": "back", "forward": "forth", "residuals": ["x"]},
        })),
        handler("forth", json!([x]), json!([y, x]), json!({"open_attrs": true})),
        handler("back", json!([any, y]), json!([any]), json!({"attrs": [attrs[0]], "batch": ["leading", "shared"]})),
        handler("many", json!([{"name": "x", "kind": "buffer", "dtypes": ["F32"], "rank": 3}]), json!([y]), json!({})),
        handler("tangent", json!([any]), json!([any]), json!({
            "gradient": {"linear": true, "transpose": "tangent"}, "batch": "leading", "shape": "... 2 -> ... 2",
        })),
        handler("in_place", json!([{"name": "t", "kind": "token", "dtypes": null, "rank": 0}, many]),
            json!([{"name": "t", "kind": "token", "dtypes": null, "rank": 0}, shared]), state),
        {"name": "bare", "platforms": ["cpu"], "stages": {"execute": "bare"}, "floor": "r0", "described": false},
    ], "legacy": [
        {"name": "old", "platforms": ["Host"], "signature": "cpu_status", "api_version": 2, "symbol": "old",
         "args": [{"dtypes": ["F32"], "dims": [2, 3]}], "rets": null, "tuples": "leaves", "structure": "_ -> (_, _)"},
    ]})
}

/// The places of a value, by the way to them.
fn places(value: &Value, here: &str, found: &mut Vec<String>) {
    found.push(here.to_owned());
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                places(item, &format!("{here}/{at}"), found);
            }
        }
        Value::Object(keys) => {
            for (key, item) in keys {
                places(item, &format!("{here}/{key}"), found);
            }
        }
        _ => {}
    }
}

fn changed(value: &mut Value, (place, how, other): (Index, usize, Index)) {
    let mut ways = vec![];
    places(value, "", &mut ways);
    let way = place.get(&ways);
    let from: &String = other.get(&ways);
    let from = value.pointer(from).unwrap().clone();
    let parent = way
        .rsplit_once('/')
        .map(|(parent, key)| (parent, key.to_owned()));
    if let (Some((parent, key)), 0..=2) = (parent, how) {
        match value.pointer_mut(parent).unwrap() {
            Value::Array(items) => {
                let at: usize = key.parse().unwrap();
                let item = items.remove(at);
                match how {
                    0 => {}
                    1 => items.extend([item.clone(), item]),
                    _ => items.push(item),
                }
            }
            Value::Object(keys) => {
                let item = keys.remove(&key).unwrap();
                match how {
                    0 => {}
                    1 => drop(keys.insert(format!("{key}_"), item)),
                    _ => drop(keys.insert("default".to_owned(), item)),
                }
            }
            _ => {}
        }
        return;
    }
    let to = value.pointer_mut(way).unwrap();
    *to = match how {
        3 => Value::Null,
        4 => json!(!to.as_bool().unwrap_or(false)),
        5 => json!(to.as_i64().unwrap_or(-2) + 1),
        6 => json!(256),
        7 => json!(2.0),
        8 => json!(""),
        9 => json!([]),
        10 => json!({}),
        11 => json!("x"),
        12 => json!([to.clone()]),
        _ => from,
    };
}

/// A record of a manifest, and what fills its last place.
fn record(payload: &str) -> Vec<u8> {
    let mut bytes = manifest::MAGIC.to_vec();
    bytes.extend(manifest::VERSION.to_le_bytes());
    bytes.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
    bytes.extend(payload.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    bytes
}

/// What the doctor finds.
fn ours(section: &[u8]) -> Option<String> {
    let manifests = match manifest::read_section(section, 0) {
        Ok(manifests) => manifests,
        Err(why) => return Some(why.to_string()),
    };
    let mut found = vec![];
    findings(&manifests, &mut found);
    found.first().map(|finding| format!("{finding:?}"))
}

/// What Python's loader says of each; `None`, told, where there is no Python.
fn theirs(test: &str, sections: &[Vec<u8>]) -> Option<Vec<Option<String>>> {
    let Some(python) = std::env::var_os("XLA_FFI_PYTHON") else {
        xla_ffi_testing::skip(test, "XLA_FFI_PYTHON names no Python with jax");
        return None;
    };
    let root = xla_ffi_testing::repository::root();
    let mut child = Command::new(python)
        .arg(root.join("doctor/tests/loader.py"))
        .env("PYTHONPATH", root.join("python"))
        .env("JAX_PLATFORMS", "cpu")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    // It reads all of it before it writes.
    serde_json::to_writer(child.stdin.take().unwrap(), sections).expect("Python reads");
    let output = child.wait_with_output().expect("Python ends");
    assert!(output.status.success(), "{}", output.status);
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// Both have to say the same of each section, and a share of them is to be refused.
fn agree(test: &str, sections: &[Vec<u8>]) {
    let Some(theirs) = theirs(test, sections) else {
        return;
    };
    let all = sections.len();
    assert_eq!(theirs.len(), all);
    let (mut refused, mut apart) = (0, vec![]);
    for (section, theirs) in sections.iter().zip(theirs) {
        let ours = ours(section);
        refused += usize::from(ours.is_some());
        let bare = theirs.as_ref().is_some_and(|why| why.starts_with("bare"));
        if bare || ours.is_some() != theirs.is_some() {
            let section = String::from_utf8_lossy(section);
            apart.push(format!(
                "the doctor: {ours:?}\nthe loader: {theirs:?}\n{section}"
            ));
        }
    }
    let count = apart.len();
    let first = apart[..count.min(5)].join("\n");
    assert!(apart.is_empty(), "{count} of {all}:\n{first}");
    assert!(
        (all / 4..all * 19 / 20).contains(&refused),
        "{refused} of {all} are refused"
    );
}

#[test]
fn descriptions_that_somebody_changed() {
    let change = (any::<Index>(), 0..16_usize, any::<Index>());
    let changes = proptest::collection::vec(change, 0..4);
    let mut runner = TestRunner::deterministic();
    let sections: Vec<_> = (0..CASES)
        .map(|_| {
            let mut value = whole();
            for change in changes.new_tree(&mut runner).unwrap().current() {
                changed(&mut value, change);
            }
            record(&value.to_string())
        })
        .collect();
    agree("descriptions_that_somebody_changed", &sections);
}

/// What a manifest says of batches, and whether both take it.
#[test]
fn batches() {
    let operand = |name: &str, rank: Value| json!({"name": name, "kind": "buffer", "dtypes": ["F32"], "rank": rank});
    let token = json!({"name": "t", "kind": "token", "dtypes": null, "rank": 0});
    let handler = |name: &str, args: Value, rets: Value| {
        json!({
            "name": name, "platforms": ["cpu"], "stages": {"execute": name}, "floor": "r0",
            "args": args, "rets": rets, "attrs": [],
        })
    };
    let library = |handlers: Value| json!({"library": "l", "sdk": "0.1.0", "handlers": handlers});
    let mut cases = vec![];
    // Tokens have no further dimension.
    for (rank, takes) in [(1, false), (2, true)] {
        let side = |rank: u32| json!([token, operand("x", json!(rank))]);
        let mut one = handler("one", side(1), side(1));
        one["batch"] = json!({"handler": "many"});
        let many = handler("many", side(rank), side(rank));
        cases.push((library(json!([one, many])), takes));
    }
    let any = json!(null);
    for (batch, shape, ranks, takes) in [
        // What all elements share has not the leading dimensions that `...` stands for in the others.
        (
            json!(["leading", "shared"]),
            Some("... n, ... -> ... n"),
            [&any; 3],
            false,
        ),
        (
            json!(["leading", "shared"]),
            Some("... n, n ...? -> ..."),
            [&any; 3],
            false,
        ),
        (
            json!(["leading", "shared"]),
            Some("... n, n -> ... n"),
            [&any; 3],
            true,
        ),
        (
            json!(["shared", "shared"]),
            Some("..., ... -> ..."),
            [&any; 3],
            true,
        ),
        // Nor does what has a rank take one more dimension.
        (json!("leading"), None, [&any; 3], true),
        (json!("leading"), None, [&json!(1), &any, &any], false),
        (json!("leading"), None, [&any, &any, &json!(1)], false),
        (
            json!("leading"),
            Some("..., ... -> ..."),
            [&any, &json!(1), &any],
            false,
        ),
        (
            json!(["leading", "shared"]),
            None,
            [&any, &json!(1), &any],
            true,
        ),
        (
            json!(["leading", "shared"]),
            None,
            [&any, &any, &json!(0)],
            false,
        ),
        (
            json!(["leading", "shared"]),
            Some("..., n -> ..."),
            [&any, &json!(1), &any],
            true,
        ),
        (
            json!(["shared", "shared"]),
            None,
            [&json!(1), &any, &json!(1)],
            true,
        ),
        (json!("sequential"), None, [&json!(1); 3], true),
        (json!(null), Some("..., ... -> ..."), [&json!(1); 3], true),
    ] {
        let [x, y, z] = ranks.map(Value::clone);
        let args = json!([operand("x", x), operand("y", y)]);
        let mut one = handler("one", args, json!([operand("z", z)]));
        if shape.is_some_and(|shape| shape.contains('?')) {
            one["args"][1]["optional"] = json!(true);
        }
        one["batch"] = batch;
        one["shape"] = json!(shape);
        cases.push((library(json!([one])), takes));
    }
    let sections: Vec<_> = cases
        .iter()
        .map(|(case, _)| record(&case.to_string()))
        .collect();
    let mut wrong = vec![];
    let doctor = sections.iter().map(|section| ours(section)).collect();
    for (who, found) in [
        ("the doctor", Some(doctor)),
        ("the loader", theirs("batches", &sections)),
    ] {
        let found: Vec<_> = found.unwrap_or_default();
        let pairs = cases
            .iter()
            .zip(found)
            .filter(|((_, takes), found)| found.is_none() != *takes);
        wrong.extend(pairs.map(|((case, _), found)| format!("{who}: {found:?}\n{case}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sections_with_other_bytes() {
    let other = json!({"library": null, "handlers": [{"name": "g", "platforms": [], "stages": {"execute": "g"},
        "described": false, "floor": "r0"}]});
    let text = whole().to_string();
    let half = text.replacen("What it does.", "\\ud800", 1);
    let whole = [
        record(&text),
        record(&other.to_string()),
        record(&text.replacen("\"l\"", "\"m\"", 1)),
    ];
    // A byte of the text, which stays a text, or any of the file's.
    let letter =
        (any::<Index>(), prop_oneof![any::<u8>(), b' '..127]).prop_map(|(at, byte)| (at, byte));
    let (letters, damages) = (
        proptest::collection::vec(letter, 0..3),
        proptest::option::weighted(0.2, damage()),
    );
    let cases = (0..4_usize, letters, damages);
    let mut runner = TestRunner::deterministic();
    let mut sections: Vec<_> = (0..CASES)
        .map(|_| {
            let (records, letters, damage) = cases.new_tree(&mut runner).unwrap().current();
            let mut section = whole[..records].concat();
            for (at, byte) in letters.into_iter().filter(|_| records > 0) {
                let at = at.index(section.len());
                section[at] = byte;
            }
            if let Some(damage) = damage {
                apply(&mut section, &damage);
            }
            section
        })
        .collect();
    sections.push(record(&half));
    agree("sections_with_other_bytes", &sections);
}
