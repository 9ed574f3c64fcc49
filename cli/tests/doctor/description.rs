//! What a manifest in C says of a handler and cannot be, by `doctor` and `inspect`.

use crate::{build, doctor};
use std::process::Command;
use xla_ffi_testing::{root, skip};

/// The template's handler, described so; it loads everywhere.
fn source(description: &str) -> String {
    let template = root().join("cli/templates/c/source.c");
    let template = std::fs::read_to_string(template).unwrap();
    let (code, _) = template.split_once("/* What tools").unwrap();
    let code = code.replace("(scale, scale_impl)", "(h, scale_impl)");
    format!("{code}\nXFFI_LIBRARY(l, {description});\n")
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
    let good = "XFFI_OPERAND(\"y\", ANY, 2)";
    let optional =
        "XFFI_OPERAND_WITH(\"y\", XFFI_DTYPES(\"F32\", \"S4\"), XFFI_RANK(ANY), XFFI_OPTIONAL)";
    let cases = [
        (
            "\"y\", FLOAT, 1",
            "",
            "result 'y' has the unknown dtype \"FLOAT\"",
        ),
        ("\"y\", F32, 1", ", XFFI_SHAPE(\"n, n\")", "cannot be read"),
        (
            "\"y\", F32, 1",
            ", XFFI_SHAPE(\"n, n -> n\")",
            "has 2 arguments, and the handler 1",
        ),
        (
            "\"y\", F32, 1",
            ", XFFI_SHAPE(\"n -> \")",
            "has 0 results, and the handler 1",
        ),
        ("\"y\", F32, 1", ", XFFI_SHAPE(\"n -> n m\")", "entry `n m`"),
        ("\"y\", F32, 1", ", XFFI_SHAPE(\"n? -> n\")", "entry `n?`"),
        (
            "\"y\", F32, 1",
            ", XFFI_SHAPE(\"n -> token\")",
            "entry `token`",
        ),
        (
            "\"y\", F32, 1",
            ", XFFI_VJP(\"g\")",
            "its vjp is the handler 'g'",
        ),
        (
            "\"y\", F32, 1",
            ", XFFI_GRADIENT(XFFI_BY(vjp, \"h\"), XFFI_BY(forward, \"f\"))",
            "its forward is the handler 'f'",
        ),
        (
            "\"y\", F32, 1",
            ", XFFI_BATCHED_BY(\"b\")",
            "its batch is the handler 'b'",
        ),
        (
            "\"y\", F32, 1",
            ", XFFI_GRADIENT(XFFI_BY(vjp, \"h\"), XFFI_RESIDUALS(\"x\", \"z\"))",
            "residual 'z'",
        ),
    ];
    for (number, (ret, more, wanted)) in cases.into_iter().enumerate() {
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
    ] {
        let text = described(&format!("{X}, {optional}"), good, more);
        let library = build(folder.path(), "right", "gcc", &text, &[]).unwrap();
        let told = doctor(&library, &["--no-run"]);
        assert_eq!(told.code, Some(0), "{more}: {:#}", told.value);
    }
}
