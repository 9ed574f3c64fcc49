//! Tests of all behaviours that XLA's tests name, as listed in `behaviours.txt`. Each call runs on the embedded
//! runtime and, for comparison, in the jaxlib of `XLA_FFI_PYTHON`.

mod support;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use support::{MEASURED, build, source};
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{Attributes, Library, Outcome, Result, Revision, Runtime, Stage, Stages};
use xla_ffi_testing::headers;
use xla_ffi_testing::skip;

/// The names of XLA's tests. Each name needs a row in the table, and each row has at least one of the names.
const NAMES: &[&str] = &[
    // XLA's tests of the external API.
    "DataTypeEnumValue",
    "DataTypeByteWidth",
    "ErrorEnumValue",
    "Expected",
    "FutureSetAvailable",
    "FutureSetError",
    "FutureSetAvailableFromThreadPool",
    "FutureSetErrorFromThreadPool",
    "FutureRace",
    "CountDownSuccess",
    "CountDownError",
    "CountDownSuccessFromThreadPool",
    "CountDownErrorFromThreadPool",
    "ReturnError",
    "RunId",
    "RunIdViaContext",
    "DeviceOrdinal",
    "AnyBufferArgument",
    "BufferArgument",
    "AnyBufferResult",
    "MissingBufferArgument",
    "WrongRankBufferArgument",
    "WrongTypeBufferArgument",
    "WrongNumberOfArguments",
    "TokenArgument",
    "RemainingArgs",
    "RemainingRets",
    "OptionalArgs",
    "OptionalRets",
    "AutoBinding",
    "AutoBindingResult",
    "AutoBindingStructs",
    "AutoBindingDictionary",
    "VariantAttrDecoding",
    "BindingPlatformStreamInference",
    "ArrayAttr",
    "AttrsAsDictionary",
    "DictionaryAttr",
    "StructAttr",
    "AttrsAsStruct",
    "PointerAttr",
    "EnumAttr",
    "WrongEnumAttrType",
    "UserData",
    "StatefulHandler",
    "ScratchAllocator",
    "ScratchAllocatorUnimplemented",
    "ThreadPool",
    "AsyncHandler",
    "Metadata",
    "MetadataTraits",
    "DefineAutoSymbol",
    "Match",
    "Verify",
    "CustomOptions",
    "FindExtension",
    "Prepared",
    "Initialized",
    // XLA's tests of its runtime.
    "StaticHandlerRegistration",
    "RegistrationTraitsBackwardsCompatibility",
    "StaticHandlerSymbolRegistration",
    "ForwardError",
    "CatchException",
    "WrongNumArgs",
    "WrongNumAttrs",
    "IgnoreAttrs",
    "BuiltinAttributes",
    "BuiltinAttributesAutoBinding",
    "DecodingErrors",
    "TypedAndRankedBufferArgument",
    "ComplexBufferArgument",
    "RunOptionsCtx",
    "UpdateBufferArgumentsAndResults",
    "DuplicateHandlerTraits",
    "DuplicateHandlerAddress",
    "AllowRegisterDuplicateWhenEqual",
    "PlatformStream",
    "UpdateCallFrame",
    "RegisterTypeId",
    "GetOrAssignTypeId",
    "GetTypeId",
    "GetTypeInfo",
    "state set external",
    "state get external",
    "state set internal",
    "state get internal",
    "user data emplace",
    "user data insert owned",
    "user data insert with id",
    "user data not found",
    "attribute maps: scalars",
    "attribute maps: strings",
    "attribute maps: strings with a null byte",
    "attribute maps: arrays",
    "attribute maps: nested",
    "attribute maps: deeply nested",
    "attribute maps: empty",
    "attribute maps: empty dictionary",
    "record: create and update commands",
    "record: function-pointer launch",
    "record: version mismatch",
    "collectives: request communicator",
    "collectives: get communicator",
];

/// The kind of test in a row of the table: a call, a question of `cxx/rules.c`, or a separate test.
#[derive(Debug)]
enum Ask {
    Call([String; 5]),
    Question(String),
    Test(String),
}

#[derive(Debug)]
struct Row {
    line: usize,
    names: Vec<String>,
    /// The reason why the row runs only on the embedded runtime; `None` if it also runs in JAX.
    alone: Option<String>,
    ask: Ask,
}

fn table() -> PathBuf {
    source("behaviours.txt")
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(table()).expect("the table");
    let mut rows = vec![];
    for (line, text) in (1..).zip(text.lines()) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let columns: Vec<_> = text.split('|').map(|column| column.trim().into()).collect();
        let ask = match &columns[..] {
            [_, _, rest @ ..] if rest.len() == 5 => {
                Ask::Call(rest.to_vec().try_into().expect("five"))
            }
            [_, _, rules, question] if rules == "rules" => Ask::Question(question.clone()),
            [_, _, test] => Ask::Test(test.strip_prefix("test ").expect("a test").into()),
            _ => panic!("line {line} has {} columns", columns.len()),
        };
        rows.push(Row {
            line,
            names: names(&columns[0]),
            alone: (columns[1] != "both").then(|| columns[1].clone()),
            ask,
        });
    }
    rows
}

/// Returns the names in a column. The text `A, B (c, d)` contains the names A and B.
fn names(column: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut depth = 0;
    for letter in column.chars() {
        depth += i32::from(letter == '(');
        if depth == 0 {
            plain.push(letter);
        }
        depth -= i32::from(letter == ')');
    }
    plain.split(',').map(|name| name.trim().into()).collect()
}

/// The outcome of a row: the types and bytes of the results, or an error code and message.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    code: String,
    message: String,
    results: Vec<(String, String)>,
}

impl Answer {
    fn of(outcome: Result<Outcome>) -> Self {
        match outcome {
            Err(error) => Self {
                code: error.code().to_string(),
                message: error.message().to_owned(),
                results: vec![],
            },
            Ok(outcome) => Self {
                code: "OK".into(),
                message: String::new(),
                results: outcome
                    .rets
                    .iter()
                    .map(|ret| {
                        let hex = ret.bytes().iter().map(|byte| format!("{byte:02x}"));
                        (ret.shape().to_string(), hex.collect())
                    })
                    .collect(),
            },
        }
    }

    fn of_jax(line: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let results = line["results"].as_array().map_or(&[][..], Vec::as_slice);
        let shape = |result: &Value| {
            let dtype = text(&result["dtype"]);
            let dims = result["dims"].as_array().map_or(&[][..], Vec::as_slice);
            let dims: Vec<_> = dims.iter().map(ToString::to_string).collect();
            match dtype.as_str() {
                "token" => dtype,
                _ => format!("{dtype}[{}]", dims.join(",")),
            }
        };
        Self {
            code: text(&line["code"]),
            message: text(&line["message"]),
            results: results
                .iter()
                .map(|result| (shape(result), text(&result["bytes"])))
                .collect(),
        }
    }

    /// Returns true if the outcomes of two hosts are equal. Parts of a message that `wanted` omits may differ.
    fn agrees(&self, other: &Self, wanted: &str) -> bool {
        let text = wanted.split_once(' ').map_or("", |(_, text)| text);
        let told = if let Some(own) = text.strip_suffix("...") {
            let said = |answer: &Self| Some(answer.message.split_once(own)?.0.to_owned());
            said(self).is_some() && said(self) == said(other)
        } else if let Some(own) = text.strip_prefix("...") {
            self.message.contains(own) && other.message.contains(own)
        } else {
            self.message == other.message
        };
        self.code == other.code && self.results == other.results && told
    }
}

/// Builds the libraries of `behaviours.cc` and `rules.c` with the newest available headers.
fn libraries(test: &str) -> Option<(PathBuf, PathBuf)> {
    let newest = headers::all(test)?.pop()?;
    assert_eq!(newest.revision, Revision::NEWEST);
    let flags = [format!("-I{}", newest.include.display())];
    let library = |file: &str, name| build("differential", &source(file), name, &flags);
    Some((
        library("cxx/behaviours.cc", "behaviours")?,
        library("cxx/rules.c", "rules")?,
    ))
}

/// Runs the call of a row on the embedded runtime.
fn call(library: &Library, columns: &[String; 5]) -> Result<Outcome> {
    let [handler, operands, results, attributes, _] = columns;
    let mut words = handler.split_whitespace();
    let execute = words.next().expect("a symbol");
    let mut stages = vec![(Stage::Execute, execute)];
    for word in words {
        match word.split_once('=').expect("KEY=VALUE") {
            ("traits", _) => {}
            ("type", name) => {
                let info = format!("{}_info", name.to_lowercase());
                let info = library.symbol(&info).is_ok().then_some(info);
                let id = format!("_ZN{}{name}2idE", name.len());
                library.register_type(name, &id, info.as_deref())?;
            }
            (stage, symbol) => stages.push((Stage::from_name(stage).expect("a stage"), symbol)),
        }
    }
    let handler = library.handler(handler, &stages)?;
    let attributes = Attributes::parse(&called(library, attributes))?;
    // JAX does not support complex attributes, but XLA's call frame builder does.
    let executable = if attributes.get("c64").is_some() {
        handler.instantiate_any(&attributes)?
    } else {
        handler.instantiate(&attributes)?
    };
    let mut outcome = None;
    for operands in operands.split("then") {
        let mut call = executable.call().stages(Stages::Cpu).device_ordinal(0);
        for operand in operands.split_whitespace() {
            call = call.arg(Spec::parse(operand)?.tensor()?);
        }
        for result in results.split_whitespace() {
            call = call.ret(parse_result(result)?);
        }
        outcome = Some(call.run()?);
    }
    Ok(outcome.expect("one call"))
}

/// Replaces each `$FUNCTION` in the text by the result of this function of the library.
fn called(library: &Library, text: &str) -> String {
    let Some((before, rest)) = text.split_once('$') else {
        return text.to_owned();
    };
    let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
    let function = library.symbol(name).expect("the table names a function");
    // SAFETY: the functions in the table have no parameters and return an `i64`.
    let function: extern "C" fn() -> i64 = unsafe { std::mem::transmute(function) };
    format!("{before}{}{}", function(), called(library, after))
}

/// Compares an outcome of the embedded runtime with the expected outcome, and describes the first difference; `None`
/// if they are equal.
fn complaint(outcome: &Result<Outcome>, wanted: &str) -> Option<String> {
    let (code, text) = wanted.split_once(' ').unwrap_or((wanted, ""));
    let text = text.trim_matches('.');
    let fits = match outcome {
        Err(error) => error.code().name() == code && error.message().contains(text),
        Ok(outcome) if outcome.rets.is_empty() => wanted == "ok",
        Ok(outcome) => {
            let values: Vec<_> = outcome.rets.iter().map(ToString::to_string).collect();
            values.join("; ") == wanted
        }
    };
    (!fits).then(|| format!("expected {wanted}, got {outcome:?}"))
}

/// Returns the outcome of `cxx/rules.c` on the embedded runtime.
fn rules(library: &Library) -> Result<Outcome> {
    let columns = ["rules instantiate=rules_instantiate", "", "s64[64]", "", ""];
    call(library, &columns.map(String::from))
}

/// The time after which JAX is stopped if it prints no output.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the outcome of each row in JAX, by the row's line in the table. Key 0 has the outcome of `cxx/rules.c`. If a
/// row ends the process, the exit is the row's outcome, and the remaining rows run in a new process.
fn jax(python: &Path, behaviours: &Path, rules: &Path) -> BTreeMap<usize, Answer> {
    let mut answers = BTreeMap::new();
    let mut first = 0;
    loop {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut child = Command::new(python)
            .arg(root.join("tests/jax/differential.py"))
            .args([table().as_path(), behaviours, rules])
            .arg(first.to_string())
            .env("PYTHONPATH", root.join("python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("JAX_PLATFORMS", "cpu")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("XLA_FFI_PYTHON starts");
        let (sender, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let reader = std::thread::spawn(move || {
            for line in stdout.lines().map_while(std::result::Result::ok) {
                drop(sender.send(line));
            }
        });
        let mut errors = child.stderr.take().expect("piped");
        let said = std::thread::spawn(move || {
            let mut text = vec![];
            drop(errors.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut begun = None;
        let silent = loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let line: Value = serde_json::from_str(&line).expect("a line of JSON");
                    let row = line["row"].as_u64().expect("a row") as usize;
                    begun = match line.get("code") {
                        None => Some(row),
                        Some(_) => {
                            answers.insert(row, Answer::of_jax(&line));
                            None
                        }
                    };
                }
                Err(error) => break error == mpsc::RecvTimeoutError::Timeout,
            }
        };
        if silent {
            child.kill().expect("it can be ended");
        }
        let status = child.wait().expect("it ends");
        reader.join().expect("it reads");
        let said = said.join().expect("it reads");
        let tail: String = said.chars().rev().take(400).collect();
        let tail: String = tail.chars().rev().collect();
        let Some(row) = begun else {
            assert!(status.success(), "differential.py: {status}: {tail}");
            return answers;
        };
        let message = if silent {
            "no answer in time".into()
        } else {
            format!("{status}: {tail}")
        };
        let answer = Answer {
            code: "CRASH".into(),
            message,
            results: vec![],
        };
        answers.insert(row, answer);
        first = row + 1;
    }
}

#[test]
fn every_behaviour_is_the_same_here_and_in_jaxlib() {
    let test = "every_behaviour_is_the_same_here_and_in_jaxlib";
    let Some((behaviours, rules_path)) = libraries(test) else {
        return;
    };
    let python = std::env::var_os("XLA_FFI_PYTHON").map(PathBuf::from);
    let theirs = match &python {
        Some(python) => Some(jax(python, &behaviours, &rules_path)),
        None => {
            let reason = "XLA_FFI_PYTHON is not set (`cargo xtask test` sets it): no JAX beside it";
            skip(test, reason);
            None
        }
    };
    let runtime = Runtime::default();
    let library = runtime.open(behaviours).unwrap();
    let answered = rules(&runtime.open(rules_path).unwrap());
    let mut codes: BTreeMap<&str, [Option<i64>; 2]> = BTreeMap::new();
    let here = answered.as_ref().expect("the rules run").rets[0].to_vec::<i64>();
    let here = here.expect("s64");
    let in_jax = theirs
        .as_ref()
        .map(|theirs| numbers(theirs.get(&0).expect("row 0")));
    for (index, (label, _)) in MEASURED.iter().enumerate() {
        let there = in_jax
            .as_ref()
            .and_then(|numbers| numbers.get(index).copied());
        codes.insert(label, [Some(here[index]), there]);
    }

    let (mut wrong, mut compared, mut alone) = (vec![], 0, vec![]);
    for row in rows() {
        let names = format!("behaviours.txt:{}: {}", row.line, row.names.join(", "));
        match &row.ask {
            Ask::Test(by) => alone.push(format!(
                "{names}: {} (test {by})",
                row.alone.as_deref().expect("a reason")
            )),
            Ask::Question(question) => match codes.get(question.as_str()) {
                None => wrong.push(format!("{names}: nobody asks {question:?}")),
                Some([_, None]) => {}
                Some([here, there]) => {
                    compared += 1;
                    if here != there {
                        wrong.push(format!("{names}: {here:?} here, {there:?} in JAX"));
                    }
                }
            },
            Ask::Call(columns) => {
                let outcome = call(&library, columns);
                if let Some(complaint) = complaint(&outcome, &columns[4]) {
                    wrong.push(format!("{names}: {complaint}"));
                }
                if let Some(why) = &row.alone {
                    alone.push(format!("{names}: {why}"));
                    continue;
                }
                let Some(theirs) = &theirs else { continue };
                compared += 1;
                let here = Answer::of(outcome);
                match theirs.get(&row.line) {
                    Some(there) if there.agrees(&here, &columns[4]) => {}
                    there => wrong.push(format!("{names}: {here:?} here, {there:?} in JAX")),
                }
            }
        }
    }
    // The comparison also includes questions that are not part of a row.
    for (question, [here, there]) in &codes {
        if there.is_some() && here != there {
            wrong.push(format!("{question}: {here:?} here, {there:?} in JAX"));
        }
    }
    let asked = codes.values().filter(|codes| codes[1].is_some()).count();
    println!("{compared} rows and {asked} questions compared with JAX; on the runtime alone:");
    alone.iter().for_each(|row| println!("  {row}"));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Returns the numbers in the result of `cxx/rules.c`.
fn numbers(answer: &Answer) -> Vec<i64> {
    let [(shape, hex)] = &answer.results[..] else {
        panic!("the rules in JAX: {answer:?}")
    };
    assert_eq!(shape, "s64[64]");
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..64)
        .map(|index| i64::from_ne_bytes(std::array::from_fn(|i| byte(index * 16 + 2 * i))))
        .collect()
}

#[test]
fn every_name_has_a_row_and_every_row_a_name() {
    let rows = rows();
    let rowed: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| row.names.iter().map(String::as_str))
        .collect();
    let names: BTreeSet<&str> = NAMES.iter().copied().collect();
    assert_eq!(rowed, names);
    assert_eq!(names.len(), NAMES.len());
    // A row can name a separate test, which must exist in one of these crates.
    let crates = [source(""), source("../c/tests")];
    let mut text = String::new();
    for folder in crates {
        for entry in std::fs::read_dir(folder).expect("a folder of tests") {
            let path = entry.expect("its entries").path();
            if path.extension().is_some_and(|ending| ending == "rs") {
                text += &std::fs::read_to_string(path).expect("a source");
            }
        }
    }
    for row in rows {
        if let Ask::Test(name) = &row.ask {
            let test = format!("#[test]\nfn {name}()");
            assert!(text.contains(&test), "line {}: no test {name}", row.line);
            assert!(row.alone.is_some(), "line {}", row.line);
        }
    }
}
