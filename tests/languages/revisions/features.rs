//! The features of the support matrix, each with a test of the conformance libraries.

use super::subject::{
    Check, Failure, Subject, copied, expect, f32s, gives, number, packed, refused, run, scalar,
    tells, values,
};
use xla_ffi_runtime::{
    Attributes, DType, Error, ErrorCode, Revision, Shape, Stage, Stages, Tensor,
};

/// A feature: its name in the table, and its test.
pub(crate) type Feature = (&'static str, fn(&Subject) -> Check);

pub(crate) const FEATURES: &[Feature] = &[
    ("stateless", |s| {
        let (attrs, x) = ("{factor = 1.5 : f32}", vec![f32s(&[1.0, 2.0])]);
        gives(s, "scale", attrs, x, &[2], &[1.5_f32, 3.0])
    }),
    ("attribute: bool", |s| {
        gives(s, "echo_bool", "{value = true}", vec![], &[], &[1_i64])
    }),
    ("attribute: integers", |s| {
        let attrs = "{i8 = -128 : i8, i16 = 2 : i16, i32 = 3 : i32, i64 = -4 : i64, u8 = 255 : ui8, \
                     u16 = 6 : ui16, u32 = 7 : ui32, u64 = 8 : ui64}";
        tells(s, "echo_ints", attrs, &[-128_i64, 2, 3, -4, 255, 6, 7, 8])
    }),
    ("attribute: floats", |s| {
        let attrs = "{f32 = 0.5 : f32, f64 = 0.1 : f64}";
        tells(s, "echo_floats", attrs, &[0.5, 0.1])
    }),
    ("attribute: string", |s| {
        tells(s, "echo_string", "{text = \"abc\"}", b"abc")
    }),
    ("attribute: arrays", |s| {
        let attrs = "{i8 = array<i8: -1>, i16 = array<i16: 2>, i32 = array<i32: 3, 4>, \
                     i64 = array<i64: 5>, f32 = array<f32: 0.5>, f64 = array<f64: 0.25>}";
        let wanted = [-1.0, 2.0, 3.0, 4.0, 5.0, 0.5, 0.25];
        tells(s, "echo_arrays", attrs, &wanted)
    }),
    ("attribute: unsigned arrays", |s| {
        let attrs = "{u8 = dense<[1, 255]> : tensor<2xui8>, u16 = dense<2> : tensor<1xui16>, \
                     u32 = dense<3> : tensor<1xui32>, u64 = dense<4> : tensor<1xui64>}";
        let wanted = [1.0, 255.0, 2.0, 3.0, 4.0];
        tells(s, "echo_unsigned_arrays", attrs, &wanted)
    }),
    ("attribute: dictionary with dictionary and array", |s| {
        let attrs =
            "{options = {n = 2 : i64, inner = {x = 0.25 : f64}, list = array<i64: 1, 2, 3>}}";
        tells(s, "echo_nested", attrs, &[2.0, 0.25, 6.0])
    }),
    ("attribute: dictionary", |s| {
        let attrs = "{options = {flag = true, n = 3 : i64, x = 0.5 : f64, name = \"four\"}}";
        tells(s, "echo_dict", attrs, &[1.0, 3.0, 0.5, 4.0])
    }),
    ("attribute: optional and default", |s| {
        tells(s, "echo_optional", "{}", &[7.0, -1.0])?;
        let attrs = "{n = 3 : i64, x = 0.5 : f64}";
        tells(s, "echo_optional", attrs, &[3.0, 0.5])
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
        gives(s, "sum_all", "{}", args, &[], &[7.0_f32])
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
            let error = refused(told)?;
            if error.message() != "fail (execute): told" {
                return Err(Failure::Wrong(format!("{error:?}")));
            }
            if s.runtime.revision() <= Revision::R1 {
                expect(error.code(), ErrorCode::Internal)?;
            } else {
                expect(error.code() as u32, code)?;
            }
        }
        if s.runtime.revision() <= Revision::R1 {
            return Err(Error::new(ErrorCode::Unimplemented, "every code is INTERNAL").into());
        }
        Ok(())
    }),
    ("error texts", |s| {
        let handler = Subject::handler(&s.library, "fail", &[(Stage::Execute, "fail")])?;
        let told = |text: &str| {
            let attributes = Attributes::new().with("code", 3_i32).with("message", text);
            let executable = handler.instantiate(&attributes)?;
            let error = refused(run(&executable, vec![scalar()], &[(DType::F32, &[])]))?;
            let own = error.message().strip_prefix("fail (execute): ");
            Ok::<_, Failure>(own.unwrap_or("no handler's name").to_owned())
        };
        let long = "x".repeat(5000);
        for text in ["line one\nline two", "grüße, 世界", &long] {
            expect(told(text)?.as_str(), text)?;
        }
        // Text after a NUL must not be lost.
        let text = told("before\0after")?;
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
            let error = refused(told)?;
            expect(error.message().contains("at the disco"), true)?;
            expect(error.is_from_handler(), true)?;
        }
        let x = vec![f32s(&[1.0])];
        let out = s.call("scale", "{factor = 1.5 : f32}", x, &[(DType::F32, &[1])])?;
        expect(values::<f32>(&out, 0), vec![1.5])
    }),
    ("a wrong call is refused", |s| {
        let told = s.call(
            "scale",
            "{factor = 1.5 : f64}",
            vec![f32s(&[1.0])],
            &[(DType::F32, &[1])],
        );
        let error = refused(told)?;
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
        let error = refused(told)?;
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
        // The check creates and drops one object per library, and compares the library's counts.
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
        // The handler returns the bits 0 to 6, which represent these values.
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
        if s.seen() < Revision::R2 {
            return Err(Error::new(
                ErrorCode::Unimplemented,
                "no futures: it completed before it returned",
            )
            .into());
        }
        expect(told[1], 1)
    }),
    ("async: result", |s| {
        let attrs = "{factor = 3.0 : f32, delay_ms = 20 : i64}";
        let x = vec![f32s(&[1.0, 2.0])];
        gives(s, "async_scale", attrs, x, &[2], &[3.0_f32, 6.0])
    }),
    ("async: errors", |s| {
        let attrs = "{code = 9 : i32, message = \"later\"}";
        let told = s.call(
            "async_fail",
            attrs,
            vec![f32s(&[1.0])],
            &[(DType::F32, &[1])],
        );
        let error = refused(told)?;
        if error.message() != "async_fail (execute): later" {
            return Err(Failure::Wrong(format!("{error:?}")));
        }
        if s.runtime.revision() <= Revision::R1 {
            return Err(Error::new(ErrorCode::Unimplemented, "every code is INTERNAL").into());
        }
        expect(error.code(), ErrorCode::FailedPrecondition)
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
    ("run id", |s| number(s, "run_id", 77_i64)),
    ("device ordinal", |s| number(s, "device_ordinal", 2048_i32)),
    ("custom options", |s| number(s, "custom_options", 0_i64)),
    ("optional context parts", |s| {
        let out = s.call(
            "optional_parts",
            "{}",
            vec![scalar()],
            &[(DType::S64, &[3])],
        )?;
        let revision = s.seen();
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
    ("a library that registers itself", |s| {
        let entry = s.library.symbol("xla_ffi_register")? as usize;
        let own = s.library.symbol("xla_ffi_manifest").is_ok();
        let name = if own { "scale" } else { "conformance_c.scale" };
        // The library is registered twice, because registration is idempotent.
        for _ in 0..2 {
            let bootstrap = Subject::executable_of(
                &s.bootstrap,
                "bootstrap",
                &format!("{{entry = {entry} : i64}}"),
            )?;
            let told = run(&bootstrap, vec![scalar()], &[(DType::F32, &[])]);
            // Handlers that need a newer runtime are reported. The other handlers are registered.
            let beyond = own
                && s.newest == Revision::NEWEST
                && (Revision::R1..Revision::R10).contains(&s.runtime.revision());
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
