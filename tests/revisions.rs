//! The conformance libraries on every revision of the embedded runtime: the cells are those that
//! `tests/jax/expected.txt` gives for real runtimes.

use std::path::Path;
use xla_ffi_runtime::spec::Spec;
use xla_ffi_runtime::{
    Attributes, Code, DType, Error, Executable, Library, Outcome, Revision, Runtime, Shape, Stage,
    Stages, Tensor,
};
use xla_ffi_testing::examples::rust_examples;
use xla_ffi_testing::skip;

type Check = Result<(), Failure>;

/// Why a feature is not as it should be.
#[derive(Debug)]
enum Failure {
    /// What the handler or the runtime answered.
    Answer(Error),
    /// A wrong result.
    Wrong(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Answer(error)
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(got: T, wanted: T) -> Check {
    if got == wanted {
        return Ok(());
    }
    Err(Failure::Wrong(format!("expected {wanted:?}, got {got:?}")))
}

/// A library on one runtime.
struct Subject {
    runtime: Runtime,
    library: Library,
    twin: Library,
}

impl Subject {
    fn executable_of(library: &Library, name: &str, attrs: &str) -> Result<Executable, Error> {
        let instantiate = format!("{name}_instantiate");
        let mut stages = vec![(Stage::Execute, name)];
        if library.symbol(&instantiate).is_ok() {
            stages.push((Stage::Instantiate, instantiate.as_str()));
        }
        let attributes = Attributes::parse(attrs).expect("the test's attributes parse");
        library.handler(name, &stages)?.instantiate(&attributes)
    }

    fn executable(&self, name: &str, attrs: &str) -> Result<Executable, Error> {
        Self::executable_of(&self.library, name, attrs)
    }

    fn call(
        &self,
        name: &str,
        attrs: &str,
        args: Vec<Tensor>,
        rets: &[(DType, &[i64])],
    ) -> Result<Outcome, Error> {
        run(&self.executable(name, attrs)?, args, rets)
    }
}

fn run(
    executable: &Executable,
    args: Vec<Tensor>,
    rets: &[(DType, &[i64])],
) -> Result<Outcome, Error> {
    let mut call = executable
        .call()
        .stages(Stages::Cpu)
        .run_id(77)
        .device_ordinal(2048)
        .args(args);
    for (dtype, dims) in rets {
        call = call.ret(Shape::new(*dtype, *dims)?);
    }
    call.run()
}

fn f32s(values: &[f32]) -> Tensor {
    Tensor::from_slice([values.len() as i64], values).expect("a vector")
}

fn scalar() -> Tensor {
    Tensor::from_slice([], &[1.0_f32]).expect("a scalar")
}

fn values<T: xla_ffi_runtime::Element + Clone>(outcome: &Outcome, index: usize) -> Vec<T> {
    outcome.rets[index]
        .to_vec::<T>()
        .expect("the result's type")
}

/// Elements of less than a byte, an odd number of them: unpacked by `handler`, and their sizes.
fn packed(s: &Subject, handler: &str, spec: &str, wanted: &[i8]) -> Check {
    let x = Spec::parse(spec)
        .expect("the test's SPEC parses")
        .tensor()?;
    let (count, bytes) = (wanted.len() as i64, x.bytes().len() as i64);
    let rets: &[(DType, &[i64])] = &[(DType::S8, &[count])];
    let out = s.call(handler, "{}", vec![x.clone()], rets)?;
    expect(values::<i8>(&out, 0), wanted.to_vec())?;
    let out = s.call("describe", "{}", vec![x], &[(DType::S64, &[8])])?;
    expect(
        values::<i64>(&out, 0)[1..5].to_vec(),
        vec![1, count, bytes, count],
    )
}

/// A feature: its name in the table and what it does.
type Feature = (&'static str, fn(&Subject) -> Check);

const FEATURES: &[Feature] = &[
    ("stateless", |s| {
        let out = s.call(
            "scale",
            "{factor = 1.5 : f32}",
            vec![f32s(&[1.0, 2.0])],
            &[(DType::F32, &[2])],
        )?;
        expect(values::<f32>(&out, 0), vec![1.5, 3.0])
    }),
    ("attribute: bool", |s| {
        let out = s.call("echo_bool", "{value = true}", vec![], &[(DType::S64, &[])])?;
        expect(values::<i64>(&out, 0), vec![1])
    }),
    ("attribute: integers", |s| {
        let attrs = "{i8 = -128 : i8, i16 = 2 : i16, i32 = 3 : i32, i64 = -4 : i64, u8 = 255 : ui8, \
                     u16 = 6 : ui16, u32 = 7 : ui32, u64 = 8 : ui64}";
        let out = s.call("echo_ints", attrs, vec![], &[(DType::S64, &[8])])?;
        expect(values::<i64>(&out, 0), vec![-128, 2, 3, -4, 255, 6, 7, 8])
    }),
    ("attribute: floats", |s| {
        let out = s.call(
            "echo_floats",
            "{f32 = 0.5 : f32, f64 = 0.1 : f64}",
            vec![],
            &[(DType::F64, &[2])],
        )?;
        expect(values::<f64>(&out, 0), vec![0.5, 0.1])
    }),
    ("attribute: string", |s| {
        let out = s.call(
            "echo_string",
            "{text = \"abc\"}",
            vec![],
            &[(DType::U8, &[3])],
        )?;
        expect(values::<u8>(&out, 0), b"abc".to_vec())
    }),
    ("attribute: arrays", |s| {
        let attrs = "{i8 = array<i8: -1>, i16 = array<i16: 2>, i32 = array<i32: 3, 4>, \
                     i64 = array<i64: 5>, f32 = array<f32: 0.5>, f64 = array<f64: 0.25>}";
        let out = s.call("echo_arrays", attrs, vec![], &[(DType::F64, &[7])])?;
        expect(
            values::<f64>(&out, 0),
            vec![-1.0, 2.0, 3.0, 4.0, 5.0, 0.5, 0.25],
        )
    }),
    ("attribute: dictionary", |s| {
        let attrs = "{options = {flag = true, n = 3 : i64, x = 0.5 : f64, name = \"four\"}}";
        let out = s.call("echo_dict", attrs, vec![], &[(DType::F64, &[4])])?;
        expect(values::<f64>(&out, 0), vec![1.0, 3.0, 0.5, 4.0])
    }),
    ("attribute: optional and default", |s| {
        let out = s.call("echo_optional", "{}", vec![], &[(DType::F64, &[2])])?;
        expect(values::<f64>(&out, 0), vec![7.0, -1.0])?;
        let out = s.call(
            "echo_optional",
            "{n = 3 : i64, x = 0.5 : f64}",
            vec![],
            &[(DType::F64, &[2])],
        )?;
        expect(values::<f64>(&out, 0), vec![3.0, 0.5])
    }),
    ("zero-size buffers", |s| {
        let empty = Tensor::zeros(Shape::new(DType::F32, [2, 0, 3])?)?;
        let out = s.call("describe", "{}", vec![empty], &[(DType::S64, &[8])])?;
        expect(
            values::<i64>(&out, 0)[1..].to_vec(),
            vec![3, 0, 0, 2, 0, 3, -1],
        )
    }),
    ("variadic operands", |s| {
        let args = vec![f32s(&[1.0]), f32s(&[1.0, 2.0]), f32s(&[3.0])];
        let out = s.call("sum_all", "{}", args, &[(DType::F32, &[])])?;
        expect(values::<f32>(&out, 0), vec![7.0])
    }),
    ("in-out operands", |s| {
        let call = s.executable("increment", "{}")?.call().stages(Stages::Cpu);
        let out = call.arg(f32s(&[1.0, 2.0])).ret_alias(0).run()?;
        expect(values::<f32>(&out, 0), vec![2.0, 3.0])
    }),
    ("error codes", |s| {
        for code in 1..=16 {
            let attrs = format!("{{code = {code} : i32, message = \"told\"}}");
            let told = s.call("fail", &attrs, vec![f32s(&[1.0])], &[(DType::F32, &[1])]);
            let error = told
                .err()
                .ok_or_else(|| Failure::Wrong("no error".to_owned()))?;
            if error.message() != "told" {
                return Err(Failure::Wrong(format!("{error:?}")));
            }
            if s.runtime.revision() <= Revision::R1 {
                expect(error.code(), Code::Internal)?;
            } else {
                expect(error.code() as u32, code)?;
            }
        }
        if s.runtime.revision() <= Revision::R1 {
            return Err(Error::new(Code::Unimplemented, "every code is INTERNAL").into());
        }
        Ok(())
    }),
    ("a wrong call is told", |s| {
        let told = s.call(
            "scale",
            "{factor = 1.5 : f64}",
            vec![f32s(&[1.0])],
            &[(DType::F32, &[1])],
        );
        let error = told
            .err()
            .ok_or_else(|| Failure::Wrong("no error".to_owned()))?;
        expect(
            error.message().contains("factor") && error.message().contains("F64"),
            true,
        )
    }),
    ("state", |s| {
        let before = s.call("counter_stats", "{}", vec![], &[(DType::S64, &[2])])?;
        let counter = s.executable("counter", "{start = 10 : i64}")?;
        for step in 0..3 {
            let out = run(&counter, vec![scalar()], &[(DType::S64, &[])])?;
            expect(values::<i64>(&out, 0), vec![10 + step])?;
        }
        drop(counter);
        let after = s.call("counter_stats", "{}", vec![], &[(DType::S64, &[2])])?;
        let (before, after) = (values::<i64>(&before, 0), values::<i64>(&after, 0));
        expect(after, before.iter().map(|count| count + 1).collect())
    }),
    ("an error in instantiate", |s| {
        let counter = s.executable("counter", "{start = -1 : i64}");
        let told = counter.and_then(|counter| run(&counter, vec![scalar()], &[(DType::S64, &[])]));
        let error = told
            .err()
            .ok_or_else(|| Failure::Wrong("no error".to_owned()))?;
        if s.runtime.revision() == Revision::R0 {
            return Err(error.into());
        }
        expect(error.message().contains("start"), true)
    }),
    ("the same state type in two libraries", |s| {
        let stats = |library| {
            let executable = Subject::executable_of(library, "counter_stats", "{}")?;
            let out = run(&executable, vec![], &[(DType::S64, &[2])])?;
            Ok::<_, Error>(values::<i64>(&out, 0))
        };
        let both = || Ok::<_, Error>([stats(&s.library)?, stats(&s.twin)?]);
        let before = both()?;
        let first = s.executable("counter", "{start = 10 : i64}")?;
        let second = Subject::executable_of(&s.twin, "counter", "{start = 20 : i64}")?;
        for step in 0..3 {
            let out = run(&first, vec![scalar()], &[(DType::S64, &[])])?;
            expect(values::<i64>(&out, 0), vec![10 + step])?;
            let out = run(&second, vec![scalar()], &[(DType::S64, &[])])?;
            expect(values::<i64>(&out, 0), vec![20 + step])?;
        }
        drop((first, second));
        // Each library builds and drops its own.
        let wanted = before.map(|counts| counts.iter().map(|count| count + 1).collect());
        expect(both()?, wanted)
    }),
    ("sub-byte: int4 where the type is declared", |s| {
        packed(s, "unpack_s4", "s4[5]=-8,7,-1,0,3", &[-8, 7, -1, 0, 3])
    }),
    ("sub-byte: int4, uint4", |s| {
        packed(s, "unpack", "s4[3]=-8,7,1", &[-8, 7, 1])?;
        packed(s, "unpack", "u4[3]=15,0,9", &[15, 0, 9])
    }),
    ("sub-byte: int2, uint2", |s| {
        packed(s, "unpack", "s2[5]=-2,1,0,-1,1", &[-2, 1, 0, -1, 1])?;
        packed(s, "unpack", "u2[5]=3,0,2,1,3", &[3, 0, 2, 1, 3])
    }),
    ("async: result", |s| {
        let attrs = "{factor = 3.0 : f32, delay_ms = 20 : i64}";
        let out = s.call(
            "async_scale",
            attrs,
            vec![f32s(&[1.0, 2.0])],
            &[(DType::F32, &[2])],
        )?;
        expect(values::<f32>(&out, 0), vec![3.0, 6.0])
    }),
    ("async: errors", |s| {
        let attrs = "{code = 9 : i32, message = \"later\"}";
        let told = s.call(
            "async_fail",
            attrs,
            vec![f32s(&[1.0])],
            &[(DType::F32, &[1])],
        );
        let error = told
            .err()
            .ok_or_else(|| Failure::Wrong("no error".to_owned()))?;
        if error.message() != "later" {
            return Err(Failure::Wrong(format!("{error:?}")));
        }
        if s.runtime.revision() <= Revision::R1 {
            return Err(Error::new(Code::Unimplemented, "every code is INTERNAL").into());
        }
        expect(error.code(), Code::FailedPrecondition)
    }),
    ("thread pool", |s| {
        let x: Vec<f32> = (1..=1000_u16).map(f32::from).collect();
        let rets: &[(DType, &[i64])] = &[(DType::F32, &[]), (DType::S64, &[2])];
        let out = s.call("pool_sum", "{tasks = 8 : i64}", vec![f32s(&x)], rets)?;
        expect(values::<f32>(&out, 0), vec![500_500.0])?;
        expect(values::<i64>(&out, 1)[0], 8)
    }),
    ("thread pool size", |s| {
        let out = s.call("pool_threads", "{}", vec![], &[(DType::S64, &[])])?;
        expect(values::<i64>(&out, 0)[0] >= 1, true)
    }),
    ("run id", |s| {
        let out = s.call("run_id", "{}", vec![scalar()], &[(DType::S64, &[])])?;
        expect(values::<i64>(&out, 0), vec![77])
    }),
    ("device ordinal", |s| {
        let out = s.call("device_ordinal", "{}", vec![scalar()], &[(DType::S32, &[])])?;
        expect(values::<i32>(&out, 0), vec![2048])
    }),
    ("custom options", |s| {
        let out = s.call("custom_options", "{}", vec![scalar()], &[(DType::S64, &[])])?;
        expect(values::<i64>(&out, 0), vec![0])
    }),
    ("optional context parts", |s| {
        let out = s.call(
            "optional_parts",
            "{}",
            vec![scalar()],
            &[(DType::S64, &[3])],
        )?;
        let revision = s.runtime.revision();
        let has = |since: Revision| i64::from(revision >= since);
        let parts = vec![has(Revision::R4), has(Revision::R5), has(Revision::R3)];
        expect(values::<i64>(&out, 0), parts)
    }),
    ("two libraries at once", |s| {
        let out = s.call(
            "scale",
            "{factor = 2.0 : f32}",
            vec![f32s(&[1.0])],
            &[(DType::F32, &[1])],
        )?;
        let twin = Subject::executable_of(&s.twin, "scale", "{factor = 2.0 : f32}")?;
        let other = run(&twin, vec![f32s(&[1.0])], &[(DType::F32, &[1])])?;
        expect(values::<f32>(&out, 0), vec![2.0])?;
        expect(values::<f32>(&other, 0), vec![3.0])
    }),
];

/// The cell that `tests/jax/expected.txt` wants: rules by revision alone, `ok` without one. Rules
/// by jaxlib version speak of jax and of single releases, and do not count here.
fn expected(table: &str, library: &str, feature: &str, revision: Revision) -> &'static str {
    let mut here = false;
    for line in table.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(names) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            here = names.split(',').any(|name| name.trim() == library);
            continue;
        }
        let Some((name, rules)) = line.split_once(" = ") else {
            continue;
        };
        if !here || name.trim() != feature {
            continue;
        }
        for rule in rules.split(';') {
            let words: Vec<&str> = rule.split_whitespace().collect();
            let parse = |name: &str| Revision::from_name(name).expect("a revision");
            let holds = match words[1..] {
                [] => true,
                ["before", to] => revision < parse(to),
                ["from", from] => revision >= parse(from),
                [range] => {
                    let (from, to) = range.split_once("..").expect("a range of revisions");
                    (parse(from)..=parse(to)).contains(&revision)
                }
                _ => false,
            };
            if holds {
                return if words[0] == "absent" { "absent" } else { "ok" };
            }
        }
    }
    "ok"
}

fn cell(outcome: Check) -> (&'static str, String) {
    match outcome {
        Ok(()) => ("ok", String::new()),
        Err(Failure::Wrong(why)) => ("wrong", why),
        Err(Failure::Answer(error)) => {
            let text = format!("{:?}: {}", error.code(), error.message());
            // r0 and r1 lose the code; the text says which jaxlib is the first to have it.
            let lacks = error.message().contains("first jaxlib");
            // A handler whose floor is above the host's version is refused when it is registered.
            let refused = error.message().contains("it answers version");
            let absent = error.code() == Code::Unimplemented
                || (error.code() == Code::Internal && lacks)
                || refused;
            (if absent { "absent" } else { "error" }, text)
        }
    }
}

fn check(library: &str, first: &Path, twin: &Path) {
    let table = include_str!("jax/expected.txt");
    let mut differences = Vec::new();
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let subject = Subject {
            library: runtime.open(first).expect("the library opens"),
            twin: runtime.open(twin).expect("the twin opens"),
            runtime,
        };
        for (feature, exercise) in FEATURES {
            let (got, why) = cell(exercise(&subject));
            // What old runtimes lack there is their parser of attributes; the embedded runtime takes
            // them all.
            let wanted = if feature.starts_with("attribute: ") {
                "ok"
            } else {
                expected(table, library, feature, revision)
            };
            if got != wanted {
                differences.push(format!(
                    "{library}, {revision}, {feature}: expected {wanted}, got {got} {why}"
                ));
            }
        }
        let findings = subject.runtime.take_findings();
        differences.extend(
            findings
                .iter()
                .map(|f| format!("{library}, {revision}: {f}")),
        );
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn the_rust_library_on_every_revision() {
    let folder = rust_examples();
    check(
        "rust",
        &folder.join("libconformance.so"),
        &folder.join("libconformance_twin.so"),
    );
}

#[test]
fn the_c_library_on_every_revision() {
    if option_env!("C_COMPILER").is_none() {
        skip("the C library", "no C compiler when the tests were built");
        return;
    }
    check(
        "c",
        &Path::new(env!("C_EXAMPLES_DIR")).join("libconformance.so"),
        &Path::new(env!("C_EXAMPLES_DIR")).join("libconformance_twin.so"),
    );
}

#[test]
fn the_cpp_library_on_every_revision() {
    if option_env!("CPP_COMPILER").is_none() {
        skip(
            "the C++ library",
            "no C++ compiler when the tests were built",
        );
        return;
    }
    check(
        "cpp",
        &Path::new(env!("C_EXAMPLES_DIR")).join("libconformance_cpp.so"),
        &Path::new(env!("C_EXAMPLES_DIR")).join("libconformance_twin_cpp.so"),
    );
}
