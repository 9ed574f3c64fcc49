//! The conformance libraries on every revision of the embedded runtime: the cells are those that
//! `tests/jax/expected.txt` gives for real runtimes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_runtime::spec::Spec;
use xla_ffi_runtime::{
    Attributes, Code, DType, Error, Executable, Library, Outcome, Revision, Runtime, Shape, Stage,
    Stages, Tensor,
};
use xla_ffi_testing::examples::rust_examples;
use xla_ffi_testing::{once, skip};

type Check = Result<(), Failure>;

/// Why a feature is not as it should be.
#[derive(Debug)]
enum Failure {
    /// What the handler or the runtime answered.
    Answer(Error),
    /// A wrong result.
    Wrong(String),
    /// The language has no such thing.
    Moot,
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
    /// The handler that calls a registration entry with the table of its own call.
    bootstrap: Library,
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

/// Six elements of a type, copied by the handler, and their sizes.
fn copied(s: &Subject, dtype: DType) -> Check {
    let shape = Shape::new(dtype, [2, 3])?;
    let size = 6 * dtype.bits() / 8;
    let bytes: Vec<u8> = (1..=size as u8)
        .map(|byte| if dtype == DType::Pred { byte % 2 } else { byte })
        .collect();
    let x = Tensor::from_bytes(shape, &bytes)?;
    let out = s.call("copy", "{}", vec![x.clone()], &[(dtype, &[2, 3])])?;
    expect(out.rets[0].bytes(), x.bytes())?;
    let out = s.call("describe", "{}", vec![x], &[(DType::S64, &[8])])?;
    expect(
        values::<i64>(&out, 0)[1..6].to_vec(),
        vec![2, 6, size as i64, 2, 3],
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
    ("attribute: unsigned arrays", |s| {
        let attrs = "{u8 = array<ui8: 1, 255>, u16 = array<ui16: 2>, u32 = array<ui32: 3>, \
                     u64 = array<ui64: 4>}";
        let rets: &[(DType, &[i64])] = &[(DType::F64, &[5])];
        let out = s.call("echo_unsigned_arrays", attrs, vec![], rets)?;
        expect(values::<f64>(&out, 0), vec![1.0, 255.0, 2.0, 3.0, 4.0])
    }),
    ("attribute: dictionary with dictionary and array", |s| {
        let attrs =
            "{options = {n = 2 : i64, inner = {x = 0.25 : f64}, list = array<i64: 1, 2, 3>}}";
        let out = s.call("echo_nested", attrs, vec![], &[(DType::F64, &[3])])?;
        expect(values::<f64>(&out, 0), vec![2.0, 0.25, 6.0])
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
    ("tokens", |s| {
        let args = vec![Tensor::zeros(Shape::token())?, f32s(&[1.0, 2.0])];
        let out = s.call(
            "add_tokens",
            "{}",
            args,
            &[(DType::Token, &[]), (DType::F32, &[2])],
        )?;
        expect(values::<f32>(&out, 1), vec![2.0, 3.0])
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
    ("error texts", |s| {
        let long = "x".repeat(5000);
        for text in ["line one\nline two", "grüße, 世界", &long] {
            let attributes = Attributes::new().with("code", 3_i32).with("message", text);
            let executable = s.library.handler("fail", &[(Stage::Execute, "fail")])?;
            let told = run(
                &executable.instantiate(&attributes)?,
                vec![f32s(&[1.0])],
                &[(DType::F32, &[1])],
            );
            expect(
                told.err().map(|error| error.message().to_owned()),
                Some(text.to_owned()),
            )?;
        }
        // What follows a NUL must not get lost.
        let attributes = Attributes::new()
            .with("code", 3_i32)
            .with("message", "before\0after");
        let executable = s.library.handler("fail", &[(Stage::Execute, "fail")])?;
        let told = run(
            &executable.instantiate(&attributes)?,
            vec![f32s(&[1.0])],
            &[(DType::F32, &[1])],
        );
        let text = told
            .err()
            .map(|error| error.message().to_owned())
            .unwrap_or_default();
        expect(text.starts_with("before") && text.ends_with("after"), true)
    }),
    ("a panic is an error", |s| {
        if s.library.symbol("panic").is_err() {
            return Err(Failure::Moot);
        }
        for _ in 0..3 {
            let told = s.call(
                "panic",
                "{message = \"at the disco\"}",
                vec![f32s(&[1.0])],
                &[(DType::F32, &[1])],
            );
            let error = told
                .err()
                .ok_or_else(|| Failure::Wrong("no error".to_owned()))?;
            expect(error.message().contains("at the disco"), true)?;
            expect(error.is_from_handler(), true)?;
        }
        let x = vec![f32s(&[1.0])];
        let out = s.call("scale", "{factor = 1.5 : f32}", x, &[(DType::F32, &[1])])?;
        expect(values::<f32>(&out, 0), vec![1.5])
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
    ("sub-byte: float4", |s| {
        // The bits 0 to 6 stand for these values; the handler tells the bits.
        packed(
            s,
            "unpack",
            "f4e2m1fn[7]=0,0.5,1,1.5,2,3,4",
            &[0, 1, 2, 3, 4, 5, 6],
        )
    }),
    ("dtypes of whole bytes", |s| {
        let new = [DType::F8E3M4, DType::F8E4M3, DType::F8E8M0FNU];
        let whole = DType::all().filter(|dtype| dtype.bits() >= 8 && !new.contains(dtype));
        let count = whole
            .map(|dtype| copied(s, dtype))
            .collect::<Result<Vec<_>, _>>()?;
        expect(count.len(), 20)
    }),
    ("dtypes F8E3M4, F8E4M3, F8E8M0FNU", |s| {
        [DType::F8E3M4, DType::F8E4M3, DType::F8E8M0FNU]
            .into_iter()
            .try_for_each(|dtype| copied(s, dtype))
    }),
    ("async: completed later by another thread", |s| {
        let out = s.call("async_probe", "{}", vec![], &[(DType::S64, &[2])])?;
        let told = values::<i64>(&out, 0);
        expect(told[0], 1)?;
        if s.runtime.revision() < Revision::R2 {
            return Err(Error::new(
                Code::Unimplemented,
                "no futures: it completed before it returned",
            )
            .into());
        }
        expect(told[1], 1)
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
    ("calls from several threads", |s| {
        let executable = s.executable("scale", "{factor = 2.0 : f32}")?;
        let work = || {
            for n in 0..50_u8 {
                let x: Vec<f32> = (0..1000_u16).map(|i| f32::from(i) + f32::from(n)).collect();
                let out = run(&executable, vec![f32s(&x)], &[(DType::F32, &[1000])])?;
                let twice: Vec<f32> = x.iter().map(|x| x * 2.0).collect();
                expect(values::<f32>(&out, 0), twice)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            let mut done = threads
                .into_iter()
                .map(|thread| thread.join().expect("it ends"));
            done.find(Result::is_err).unwrap_or(Ok(()))
        })
    }),
    ("a library that registers itself", |s| {
        let entry = s.library.symbol("xla_ffi_register")? as usize;
        let own = s.library.symbol("xla_ffi_manifest").is_ok();
        let name = if own { "scale" } else { "conformance_c.scale" };
        // Twice: registration is idempotent.
        for _ in 0..2 {
            let bootstrap = Subject::executable_of(
                &s.bootstrap,
                "bootstrap",
                &format!("{{entry = {entry} : i64}}"),
            )?;
            let told = run(&bootstrap, vec![scalar()], &[(DType::F32, &[])]);
            // Handlers that need more than this runtime has are told; the others are there.
            let beyond = own && (Revision::R1..Revision::R10).contains(&s.runtime.revision());
            match told {
                Err(error) if beyond => {
                    let text = error.message();
                    let named = text.contains("custom_options") && !text.contains("scale");
                    expect((named, text), (true, text))?;
                }
                told => expect((told?.rets.len(), beyond), (1, false))?,
            }
        }
        let registered = s.runtime.find(name, "cpu")?;
        let executable = registered.instantiate(&Attributes::new().with("factor", 2.0_f32))?;
        let out = run(&executable, vec![f32s(&[1.0])], &[(DType::F32, &[1])])?;
        expect(values::<f32>(&out, 0), vec![2.0])
    }),
];

/// Rows that are not exercised here: what they ask of, and for those that a test asks the embedded runtime on
/// every revision, its name in `tests/legacy.rs`.
const ELSEWHERE: &[(&str, &str)] = &[
    ("vmap", "jax"),
    ("registration before the backend exists", "jax"),
    ("registration after the backend exists", "jax"),
    ("gradient by custom_vjp", "jax"),
    ("shard_map", "jax"),
    (
        "original custom calls: API_VERSION_ORIGINAL",
        "the_documents_example_in_every_convention",
    ),
    (
        "original custom calls: a tuple result, by its leaves",
        "tuples_by_their_leaves",
    ),
    (
        "original custom calls: nested tuples of operands and result, by their leaves",
        "tuples_by_their_leaves",
    ),
    (
        "original custom calls: a tuple operand",
        "tuples_by_their_roots",
    ),
    (
        "original custom calls: API_VERSION_STATUS_RETURNING",
        "the_documents_example_in_every_convention",
    ),
    (
        "original custom calls: API_VERSION_STATUS_RETURNING_UNIFIED, opaque",
        "the_documents_example_in_every_convention",
    ),
    (
        "original custom calls: a failure reaches the caller",
        "failures_arrive_whole",
    ),
    (
        "adapted custom calls: results",
        "adapted_functions_on_every_revision",
    ),
    (
        "adapted custom calls: a failure reaches the caller, its message whole",
        "adapted_functions_on_every_revision",
    ),
];

/// Cells that jax or the loader decide, not the ABI: since when the embedded runtime has them.
const SINCE: &[(&str, Revision)] = &[
    // Older CPU runtimes of XLA abort on a token operand.
    ("tokens", Revision::R0),
    // jax has the three types later than XLA.
    ("dtypes F8E3M4, F8E4M3, F8E8M0FNU", Revision::R3),
    // jax has it from 0.5.3 on; the ABI names it, as all packed types, since r5.
    ("sub-byte: float4", Revision::R5),
];

/// The features that `tests/jax/expected.txt` lists for a library.
fn rows(table: &'static str, library: &str) -> BTreeSet<&'static str> {
    let mut here = false;
    let mut rows = BTreeSet::new();
    for line in table.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(names) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            here = names.split(',').any(|name| name.trim() == library);
        } else if let Some((name, _)) = line.split_once(" = ").filter(|_| here) {
            rows.insert(name.trim());
        }
    }
    rows
}

#[test]
fn every_row_is_exercised_or_has_its_place() {
    let table = include_str!("jax/expected.txt");
    let legacy = include_str!("legacy.rs");
    for library in ["rust", "c", "cpp"] {
        let here = FEATURES.iter().map(|(name, _)| *name);
        let known: BTreeSet<&str> = here
            .chain(ELSEWHERE.iter().map(|(name, _)| *name))
            .collect();
        assert_eq!(known.len(), FEATURES.len() + ELSEWHERE.len());
        assert_eq!(rows(table, library), known, "{library}");
    }
    for (row, place) in ELSEWHERE {
        let found = *place == "jax" || legacy.contains(&format!("#[test]\nfn {place}() {{"));
        assert!(found, "{row}: {place} is not there");
    }
}

/// A version's numbers.
fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split('.');
    parts.map(|part| part.parse().expect("a number")).collect()
}

/// The cell that `tests/jax/expected.txt` wants of the first jaxlib of a revision, `ok` where no rule holds.
fn expected(table: &'static str, library: &str, feature: &str, revision: Revision) -> &'static str {
    if let Some((_, since)) = SINCE.iter().find(|(name, _)| *name == feature) {
        return if revision < *since { "absent" } else { "ok" };
    }
    let jaxlib = numbers(revision.first_jaxlib());
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
            // What follows in quotes is what jaxlib says.
            let rule = rule.split('"').next().unwrap_or_default();
            let words: Vec<&'static str> = rule.split_whitespace().collect();
            let parse = |name: &str| Revision::from_name(name).expect("a revision");
            let holds = match words[1..] {
                [] => true,
                ["before", to] => revision < parse(to),
                ["before", "jaxlib", to] => jaxlib < numbers(to),
                ["from", from] => revision >= parse(from),
                [range] => {
                    let (from, to) = range.split_once("..").expect("a range of revisions");
                    (parse(from)..=parse(to)).contains(&revision)
                }
                _ => panic!("a rule that is not known here: {rule}"),
            };
            if holds {
                return words[0];
            }
        }
    }
    "ok"
}

/// The library of `testing/fixtures/upstream/bootstrap.c`.
fn bootstrap(compiler: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join("testing/fixtures/upstream/bootstrap.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libbootstrap.so");
    let mut command = Command::new(compiler);
    command.args(["-std=c99", "-O0", "-shared", "-fPIC"]);
    command.arg(format!("-I{}", env!("SDK_INCLUDE_DIR")));
    command.arg(&source);
    let inputs = [source.as_path(), Path::new(env!("SDK_INCLUDE_DIR"))];
    once::compile(&mut command, &inputs, Some(&library)).unwrap_or_else(|error| panic!("{error}"));
    library
}

fn cell(outcome: Check) -> (&'static str, String) {
    match outcome {
        Ok(()) => ("ok", String::new()),
        Err(Failure::Wrong(why)) => ("wrong", why),
        Err(Failure::Moot) => ("moot", String::new()),
        Err(Failure::Answer(error)) => {
            let text = format!("{:?}: {}", error.code(), error.message());
            // r0 and r1 lose the code; the text says which jaxlib is the first to have it.
            let lacks = error.message().contains("first jaxlib");
            // A handler whose floor is above the host's version is refused when it is registered.
            let refused = error.message().contains("it answers version");
            // The runtime's attribute parser is asked before any handler.
            let unparsed = !error.is_from_handler()
                && error
                    .message()
                    .starts_with("Unsupported attribute type for attribute: ");
            let absent = error.code() == Code::Unimplemented
                || (error.code() == Code::Internal && lacks)
                || refused
                || unparsed;
            (if absent { "absent" } else { "error" }, text)
        }
    }
}

fn check(library: &str, first: &Path, twin: &Path) {
    let Some(compiler) = option_env!("C_COMPILER") else {
        skip(library, "no C compiler when the tests were built");
        return;
    };
    let bootstrap = bootstrap(compiler);
    let table = include_str!("jax/expected.txt");
    let mut differences = Vec::new();
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let subject = Subject {
            library: runtime.open(first).expect("the library opens"),
            twin: runtime.open(twin).expect("the twin opens"),
            bootstrap: runtime.open(&bootstrap).expect("the bootstrap opens"),
            runtime,
        };
        for (feature, exercise) in FEATURES {
            let (got, why) = cell(exercise(&subject));
            let wanted = expected(table, library, feature, revision);
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
