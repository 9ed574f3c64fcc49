//! Compares this crate with the Python package's parser of contracts, on a table of cases and on random cases.
//! Results and messages must be identical.

use std::process::{Command, Stdio};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use xla_ffi_contract::{Contract, Dim};

/// A test case: a contract and the inputs of its inference.
#[derive(Clone, Debug)]
struct Case {
    contract: String,
    args: Vec<Vec<i64>>,
    attrs: Vec<(String, i128)>,
}

impl Case {
    /// Returns this crate's result or message for the case.
    fn answer(&self) -> Value {
        let contract = match Contract::parse(&self.contract) {
            Ok(contract) => contract,
            Err(why) => return json!({"wrong": why}),
        };
        let names: Vec<_> = (0..self.args.len())
            .map(|i| format!("argument {i}"))
            .collect();
        let args: Vec<(&str, &[i64])> = names
            .iter()
            .zip(&self.args)
            .map(|(name, dims)| (name.as_str(), dims.as_slice()))
            .collect();
        let attrs: Vec<(&str, i128)> = self.attrs.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        match contract.infer(&args, &attrs) {
            Ok(rets) => json!({"rets": rets}),
            Err(why) => json!({"error": why.to_string()}),
        }
    }

    fn json(&self) -> Value {
        let attrs: serde_json::Map<String, Value> = self
            .attrs
            .iter()
            .map(|(name, value)| (name.clone(), number(*value)))
            .collect();
        json!({"contract": self.contract, "args": self.args, "attrs": attrs})
    }
}

/// Converts an attribute's value, an `i64` or a `u64`, to JSON.
fn number(value: i128) -> Value {
    match i64::try_from(value) {
        Ok(value) => value.into(),
        Err(_) => u64::try_from(value).expect("an attribute's value").into(),
    }
}

/// A Python program that runs the Python package's parser on the cases, a JSON list on standard input. The program's
/// argument is the path of `_contract.py`.
const ANSWERS: &str = r#"
import importlib.util
import json
import sys

spec = importlib.util.spec_from_file_location("contract", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["contract"] = module
spec.loader.exec_module(module)


def answer(case):
    text, args = case["contract"], case["args"]
    try:
        contract = module.Contract(text)
    except ValueError as error:
        return {"wrong": str(error).removeprefix(f"contract `{text}`: ")}
    try:
        shapes = contract.infer([f"argument {i}" for i in range(len(args))], args, case["attrs"])
    except ValueError as error:
        return {"error": str(error)}
    return {"rets": shapes}


json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)
"#;

/// Returns the Python package's results and messages, or `None` if there is no Python.
fn python(cases: &[Case]) -> Option<Vec<Value>> {
    let root = xla_ffi_testing::root();
    let python = std::env::var_os("XLA_FFI_PYTHON").unwrap_or_else(|| "python3".into());
    let child = Command::new(python)
        .args(["-c", ANSWERS])
        .arg(root.join("python/xla_ffi/_contract.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        xla_ffi_testing::skip("contracts in Python", "no python3");
        return None;
    };
    let cases: Vec<Value> = cases.iter().map(Case::json).collect();
    let input = child.stdin.take().expect("a pipe");
    // Writing all cases first cannot block, because Python reads all of its input before it writes.
    serde_json::to_writer(&input, &cases).expect("Python reads");
    drop(input);
    let output = child.wait_with_output().expect("Python ends");
    assert!(output.status.success(), "Python: {}", output.status);
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// Asserts that Python returns the same results and messages as this crate.
fn agree(cases: &[Case], answers: &[Value]) {
    let Some(pythons) = python(cases) else { return };
    assert_eq!(pythons.len(), cases.len());
    for ((case, rust), python) in cases.iter().zip(answers).zip(&pythons) {
        assert_eq!(rust, python, "Rust, Python: {case:?}");
    }
}

#[test]
fn the_table() {
    let path = xla_ffi_testing::root().join("tests/fixtures/contracts.json");
    let table = std::fs::read_to_string(path).expect("the table");
    let table: Vec<Value> = serde_json::from_str(&table).expect("JSON");
    let (mut cases, mut answers) = (vec![], vec![]);
    for row in &table {
        let attrs = row["attrs"].as_object().into_iter().flatten();
        let case = Case {
            contract: row["contract"].as_str().expect("text").to_owned(),
            args: serde_json::from_value(row.get("args").cloned().unwrap_or(json!([])))
                .expect("shapes"),
            attrs: attrs
                .map(|(name, value)| {
                    let value = value.as_i64().map(i128::from);
                    let value = value.or(row["attrs"][name].as_u64().map(i128::from));
                    (name.clone(), value.expect("an integer"))
                })
                .collect(),
        };
        let answer = case.answer();
        for key in ["wrong", "error"] {
            let (words, said) = (row[key].as_str(), answer[key].as_str());
            let good = match (words, said) {
                (Some(words), Some(said)) => said.contains(words),
                (words, said) => words == said,
            };
            assert!(good, "{row}: {answer}");
        }
        assert_eq!(row.get("rets"), answer.get("rets"), "{row}");
        cases.push(case);
        answers.push(answer);
    }
    agree(&cases, &answers);
}

/// Generates a word of an entry, usually a dimension.
fn word() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["n", "m", "n", "m", "n", "m", "k", "q_1", "_"]);
    let number = prop_oneof![
        80 => (1_u64..5).boxed(),
        1 => Just(0).boxed(),
        1 => (u64::from(u32::MAX) - 1..=u64::from(u32::MAX) + 1).boxed(),
    ];
    let computed = (
        prop::option::of(number.clone()),
        name.clone(),
        prop::option::of(number.clone()),
        prop::option::of((any::<bool>(), number)),
    );
    let computed = computed.prop_map(|(times, name, over, plus)| {
        let times = times.map_or(String::new(), |times| format!("{times}*"));
        let over = over.map_or(String::new(), |over| format!("/{over}"));
        let plus = plus.map_or(String::new(), |(minus, plus)| {
            format!("{}{plus}", if minus { '-' } else { '+' })
        });
        format!("{times}{name}{over}{plus}")
    });
    prop_oneof![
        24 => name.prop_map(str::to_owned),
        6 => (0..4_u8).prop_map(|size| size.to_string()),
        6 => Just("...".to_owned()),
        12 => computed,
        1 => "[-+*/nm20_.?é]{1,5}",
    ]
}

/// Generates the arguments or the results of a contract. Computed sizes are errors in arguments, so arguments have
/// few of them (`computed` is false).
fn side(computed: bool) -> impl Strategy<Value = String> {
    // Some of these characters separate words, and other characters do not.
    let odd = [
        "\t", "\r\n", "\x0b", "\x0c", "\x1c", "\x1f", "\u{85}", "\u{a0}", "\u{2028}", "\u{3000}",
        "\u{200b}",
    ];
    let blank = prop_oneof![30 => Just(" "), 1 => prop::sample::select(odd.to_vec())];
    let words = (vec(word(), 1..4), blank).prop_map(move |(mut words, blank)| {
        if !computed && words.iter().any(|word| word.len() > 1) {
            // Some arguments keep their computed sizes, to test the errors.
            let rare = words.concat().len() % 7 == 0;
            words.retain(|word| rare || word.len() == 1 || word == "...");
        }
        if words.is_empty() {
            "()".to_owned()
        } else {
            words.join(blank)
        }
    });
    let mark = prop_oneof![20 => Just(""), 1 => Just("?"), 1 => Just("*"), 1 => Just(" ?")];
    let entry = (words, mark).prop_map(|(words, mark)| words + mark);
    vec(entry, 0..4).prop_map(|entries| entries.join(", "))
}

fn size() -> impl Strategy<Value = i64> {
    prop_oneof![
        12 => 0..7_i64,
        1 => (i64::MAX - 3)..=i64::MAX,
        1 => i64::MAX / 2..i64::MAX / 2 + 3,
    ]
}

fn value() -> impl Strategy<Value = i128> {
    prop_oneof![
        12 => 0..7_i128,
        1 => -3..0_i128,
        1 => i128::from(i64::MAX) - 2..i128::from(i64::MAX) + 3,
        1 => Just(i128::from(i64::MIN)),
    ]
}

/// Generates a contract and operands. Most operands fit their contract.
fn case() -> impl Strategy<Value = Case> {
    let attrs = prop::collection::btree_map(
        prop::sample::select(vec!["n", "m", "k", "q_1", "other"]),
        value(),
        0..3,
    );
    let noise = (vec(size(), 40), vec(0..16_u8, 40));
    (side(false), side(true), attrs, noise).prop_map(|(args, rets, attrs, (sizes, dice))| {
        let contract = format!("{args} -> {rets}");
        let attrs: Vec<(String, i128)> = attrs
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let args = Contract::parse(&contract).map_or(vec![], |contract| {
            arguments(&contract, &attrs, &sizes, &dice)
        });
        Case {
            contract,
            args,
            attrs,
        }
    })
}

fn arguments(
    contract: &Contract,
    attrs: &[(String, i128)],
    sizes: &[i64],
    dice: &[u8],
) -> Vec<Vec<i64>> {
    let (mut sizes, mut dice) = (sizes.iter().cycle(), dice.iter().cycle());
    let mut take = || *sizes.next().expect("a cycle");
    let mut rarely = || *dice.next().expect("a cycle") == 0;
    let mut named: Vec<i64> = (0..contract.names.len()).map(|_| take()).collect();
    for (name, value) in contract.names.iter().zip(&mut named) {
        let attr = attrs.iter().find(|(attr, _)| attr == name);
        if let Some(given) = attr.and_then(|(_, value)| i64::try_from(*value).ok())
            && !rarely()
        {
            *value = given;
        }
    }
    let ellipsis: Vec<i64> = (0..take() % 3).map(|_| take()).collect();
    let mut args = vec![];
    for entry in &contract.args {
        let count = match (entry.optional, entry.repeats) {
            (true, _) => i64::from(!rarely()),
            (_, true) => take() % 3,
            _ => 1,
        };
        for _ in 0..count {
            let mut dims = vec![];
            for dim in &entry.dims {
                match dim {
                    Dim::Name(name) => dims.push(named[*name]),
                    Dim::Size(size) => dims.push(i64::from(*size)),
                    Dim::Ellipsis => dims.extend(&ellipsis),
                    Dim::Any | Dim::Computed(_) => dims.push(take()),
                }
            }
            if rarely() {
                match dims.last_mut() {
                    Some(last) if take() % 2 == 0 => *last = take(),
                    _ => dims.push(take()),
                }
            }
            args.push(dims);
        }
    }
    if rarely() {
        args.pop();
    }
    args
}

#[test]
fn random_contracts() {
    let mut runner = TestRunner::default();
    let strategy = case();
    let cases: Vec<Case> = (0..4000)
        .map(|_| strategy.new_tree(&mut runner).expect("a case").current())
        .collect();
    let answers: Vec<Value> = cases.iter().map(Case::answer).collect();
    // Checks that the random cases are useful: each kind of result and message must be frequent.
    for (key, words, least) in [
        ("rets", "[[", 100),
        ("rets", "null", 100),
        ("wrong", "not a dimension", 100),
        ("wrong", "only results", 50),
        ("error", "remainder", 20),
        ("error", "negative", 5),
        ("error", "too large", 3),
        ("error", "expected a size", 30),
        ("error", "from attribute", 15),
        ("error", "from argument", 20),
        ("error", "the call has", 20),
    ] {
        let says = |answer: &&Value| {
            let said = answer.get(key);
            said.is_some_and(|said| said.to_string().contains(words))
        };
        let found = answers.iter().filter(says).count();
        assert!(found >= least, "{found} of {key} with {words:?}");
    }
    agree(&cases, &answers);
}
