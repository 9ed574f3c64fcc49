//! Tests that `doctor` and `inspect` report invalid descriptions of handlers in C manifests.

use crate::{build, doctor};
use std::process::Command;
use xla_ffi_testing::{root, skip};

/// Returns C code for a handler `h` with a description in the manifest. The function of the handler works on all
/// jaxlibs.
fn source(description: &str) -> String {
    let template = root().join("cli/templates/c/source.c");
    let template = std::fs::read_to_string(template).unwrap();
    let (code, _) = template.split_once("/* Tools and").unwrap();
    let code = code.replace("(scale, scale_impl)", "(h, scale_impl)");
    format!("{code}\nXFFI_LIBRARY(l, {description});\n")
}

/// Splits a line of a table into its columns.
fn parts<const N: usize>(line: &str) -> [&str; N] {
    let parts: Vec<&str> = line.split('|').map(str::trim).collect();
    parts.try_into().unwrap()
}

const X: &str = "XFFI_OPERAND(\"x\", F32, 1)";

fn described(args: &str, rets: &str, more: &str) -> String {
    source(&format!(
        "XFFI_DESCRIBE(h, XFFI_ARGS({args}), XFFI_RETS({rets}), XFFI_ATTRS(){more})"
    ))
}

#[test]
fn what_cannot_be_is_told_by_its_number() {
    let test = "what_cannot_be_is_told_by_its_number";
    let folder = tempfile::tempdir().unwrap();
    let good = "XFFI_OPERAND(\"y\", ANY, ANY)";
    let optional =
        "XFFI_OPERAND_WITH(\"y\", XFFI_DTYPES(\"F32\", \"S4\"), XFFI_RANK(ANY), XFFI_OPTIONAL)";
    let cases = r#"
"y", FLOAT, 1 | | result `y` has the unknown element type "FLOAT"
"y", F32, 1 | , XFFI_SHAPE("n, n") | has the invalid shape contract
"y", F32, 1 | , XFFI_SHAPE("n, n -> n") | has 2 arguments, but the handler has 1
"y", F32, 1 | , XFFI_SHAPE("n -> ") | has 0 results, but the handler has 1
"y", F32, 1 | , XFFI_SHAPE("n -> n m") | entry `n m`
"y", F32, 1 | , XFFI_SHAPE("n? -> n") | entry `n?`
"y", F32, 1 | , XFFI_SHAPE("n -> token") | entry `token`
"y", F32, 1 | , XFFI_VJP("g") | its vjp handler 'g'
"y", F32, 1 | , XFFI_GRADIENT(XFFI_BY(vjp, "h"), XFFI_BY(forward, "f")) | its forward handler 'f'
"y", F32, 1 | , XFFI_BATCHED_BY("b") | its batch handler 'b'
"y", F32, 1 | , XFFI_GRADIENT(XFFI_BY(vjp, "h"), XFFI_RESIDUALS("x", "z")) | residual 'z'
"#;
    for (number, case) in cases.trim().lines().enumerate() {
        let [ret, more, wanted] = parts(case);
        let text = described(X, &format!("XFFI_OPERAND({ret})"), more);
        let name = format!("wrong{number}");
        let Some(library) = build(folder.path(), &name, "gcc", &text, &[]) else {
            return skip(test, "gcc is not there");
        };
        let told = doctor(&library, &["--no-run"]);
        told.proved_to_fail(wanted);
        let findings = told.value["findings"].as_array().unwrap();
        let ours: Vec<_> = findings.iter().filter(|one| one["id"] == "XF119").collect();
        assert_eq!(ours.len(), 1, "{wanted}: {:#}", told.value);
        assert_eq!(ours[0]["about"], "h");
        let output = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .arg("inspect")
            .arg(&library)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{wanted}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("XF119") && said.contains(wanted), "{said}");
        assert!(!output.stdout.is_empty());
    }
    for more in [
        ", XFFI_SHAPE(\"n, ... k? -> _ n\"), XFFI_VJP(\"h\")",
        ", XFFI_SHAPE(\"n, ...? -> ...\"), XFFI_BATCHED_BY(\"h\")",
        // An operand without a declared type may be a token.
        ", XFFI_SHAPE(\"n, token? -> _ _\")",
    ] {
        let optional = match more.contains("token") {
            true => "XFFI_OPERAND_WITH(\"y\", XFFI_DTYPE(ANY), XFFI_RANK(ANY), XFFI_OPTIONAL)",
            false => optional,
        };
        let text = described(&format!("{X}, {optional}"), good, more);
        let library = build(folder.path(), "right", "gcc", &text, &[]).unwrap();
        let told = doctor(&library, &["--no-run"]);
        assert_eq!(told.code, Some(0), "{more}: {:#}", told.value);
    }
}

#[test]
fn user_data_is_told_of_where_jax_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let good = "XFFI_OPERAND(\"y\", ANY, ANY)";
    let text = described(X, good, ", XFFI_CONTEXT(\"user_data\")");
    let Some(library) = build(folder.path(), "user_data", "gcc", &text, &[]) else {
        return skip(
            "user_data_is_told_of_where_jax_has_none",
            "gcc is not there",
        );
    };
    for (jaxlib, told) in [("0.5.0", true), ("0.5.1", false)] {
        let judged = doctor(&library, &["--no-run", "--jaxlib", jaxlib]);
        let findings = judged.value["findings"].as_array().unwrap();
        let found = findings
            .iter()
            .any(|one| one["id"] == "XF208" && one["about"] == "h");
        assert_eq!(found, told, "{jaxlib}: {:#}", judged.value);
    }
}

/// Returns C code with the descriptions of two handlers: `h`, which has the argument `x` and the result `y`, and a
/// related handler `g`.
fn two(y: &str, of_h: &str, args_of_g: &str, rets_of_g: &str, attrs_of_g: &str) -> String {
    source(&format!(
        "XFFI_DESCRIBE(h, XFFI_ARGS({X}), XFFI_RETS(XFFI_OPERAND(\"y\", {y})), XFFI_ATTRS(), {of_h}),
         XFFI_DESCRIBE_WITH(\"g\", XFFI_PLATFORMS(\"cpu\"), XFFI_STAGES(XFFI_STAGE(execute, h)),
            XFFI_FLOOR(r0), XFFI_ARGS({args_of_g}), XFFI_RETS({rets_of_g}), XFFI_ATTRS({attrs_of_g}))"
    ))
}

#[test]
fn handlers_that_do_not_fit_are_told() {
    let folder = tempfile::tempdir().unwrap();
    // The columns are the result of `h`, the attribute of `h` that names `g`, the arguments, results and attributes of
    // `g`, and the expected text. V is a vector and M a matrix.
    let cases = r#"
F32, 1 | XFFI_VJP("g") | V | V | | expected 2 arguments (x, y), got 1
F32, 1 | XFFI_VJP("g") | V, V | V, V | | expected 1 result (x), got 2
F32, 1 | XFFI_VJP("g") | V, V | XFFI_OPERAND("a", S32, 1) | | result `a`: expected F32, as `x`, got S32
F32, 1 | XFFI_JVP("g") | V, V | M | | result `a`: expected rank 1, as `y`, got rank 2
F32, 1 | XFFI_JVP("g") | V, V | XFFI_TOKEN("a") | | only one of them is a token
F32, 1 | XFFI_VJP("g") | V, V | V | XFFI_ATTR("eps", f32) | it needs the attribute `eps`
F32, 1 | FORWARD | V, V | V | | expected 1 argument (x), got 2
F32, 1 | TRANSPOSE | V, V | V | | expected 1 argument (y), got 2
F32, 1 | XFFI_BATCHED_BY("g") | V | M | | argument `a`: expected rank 2, as `x`, got rank 1
S32, 1 | XFFI_VJP("g") | V, V | V | | declares a gradient, but has no result of a float
F32, 1 | XFFI_VJP("g") | V, V | V | XFFI_OPTIONAL_ATTR("eps", f32) |
F32, 1 | XFFI_JVP("g") | V, V | V | |
F32, 1 | TRANSPOSE | V | V | |
F32, 1 | FORWARD | V | V, M | |
F32, 1 | XFFI_BATCHED_BY("g") | M | XFFI_OPERAND("a", ANY, 2) | |
ANY, 1 | XFFI_VJP("g") | V | V | |
"#;
    let long = [
        (
            "FORWARD",
            "XFFI_GRADIENT(XFFI_BY(vjp, \"h\"), XFFI_BY(forward, \"g\"), XFFI_NO_RESIDUALS)",
        ),
        (
            "TRANSPOSE",
            "XFFI_GRADIENT(XFFI_LINEAR, XFFI_BY(transpose, \"g\"))",
        ),
    ];
    let operands = |text: &str| {
        let text = text.replace('M', "XFFI_OPERAND(\"a\", F32, 2)");
        text.replace('V', "XFFI_OPERAND(\"a\", F32, 1)")
    };
    for (number, case) in cases.trim().lines().enumerate() {
        let [y, of_h, args, rets, attrs, told] = parts(case);
        let of_h = long
            .iter()
            .find(|(name, _)| *name == of_h)
            .map_or(of_h, |(_, of_h)| of_h);
        let of = |text: &str| match text.starts_with("XFFI") {
            true => text.to_owned(),
            false => operands(text),
        };
        let text = two(y, of_h, &of(args), &of(rets), attrs);
        let Some(library) = build(folder.path(), &format!("pair{number}"), "gcc", &text, &[])
        else {
            return skip("handlers_that_do_not_fit_are_told", "gcc is not there");
        };
        let found = doctor(&library, &["--no-run"]);
        if told.is_empty() {
            assert_eq!(found.code, Some(0), "{case}: {:#}", found.value);
            continue;
        }
        found.proved_to_fail(told);
        let findings = found.value["findings"].as_array().unwrap();
        let ours = findings.iter().filter(|one| one["id"] == "XF119");
        assert_eq!(ours.count(), 1, "{told}: {:#}", found.value);
    }
}

/// Tests that the doctor compares the traits in a manifest with those in the handler's answer. Runtimes use the answer,
/// but readers of manifests use the manifest.
#[test]
fn traits_are_those_of_the_answer() {
    let test = "traits_are_those_of_the_answer";
    let folder = tempfile::tempdir().unwrap();
    let compatible = ", XFFI_TRAITS(\"command_buffer_compatible\")";
    let definition =
        "XFFI_HANDLER_WITH(h, scale_impl, XLA_FFI_ExecutionStage_EXECUTE, XFFI_R0, 1, NULL)";
    for (at, (manifest, answers, says)) in [
        (compatible, false, Some("the manifest declares")),
        ("", true, Some("the handler declares")),
        (compatible, true, None),
        ("", false, None),
    ]
    .into_iter()
    .enumerate()
    {
        let mut text = described(X, "XFFI_OPERAND(\"y\", F32, 1)", manifest);
        if answers {
            let host = "XFFI_HOST_HANDLER(h, scale_impl)";
            let plain = "XFFI_HANDLER(h, scale_impl)";
            assert!(text.contains(host) || text.contains(plain), "{text}");
            text = text.replace(host, definition).replace(plain, definition);
        }
        let Some(library) = build(folder.path(), &format!("l{at}"), "gcc", &text, &[]) else {
            return skip(test, "gcc is not there");
        };
        let told = doctor(&library, &["--jaxlib", "0.12.0"]);
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        let found = told.finding("command_buffer_compatible");
        let risk = ("proved".to_owned(), "risk".to_owned());
        assert_eq!(found, says.map(|_| risk), "{says:?}");
        assert!(says.is_none_or(|says| told.finding(says).is_some()));
    }
}
