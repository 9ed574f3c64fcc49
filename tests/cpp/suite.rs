//! Runs the C++ handler cases with our headers and with XLA's own, and compares the results. With our headers, the
//! cases run on every revision.

use crate::cases::{For, cases, check, traits};
use crate::{Headers, build, sources};
use std::path::Path;
use xla_ffi_runtime::{Error, ErrorCode, Revision, Runtime, Stage};
use xla_ffi_testing::{compiler::cpp_compilers, headers};

/// Runs the cases of a library on one revision and returns the failures, one per case.
fn run(source: &Path, library: &Path, revision: Revision, upstream: bool) -> Vec<String> {
    let mut wrong = vec![];
    for case in cases(source) {
        let skip = if upstream { For::Ours } else { For::Upstream };
        if case.of == skip || revision < case.only() {
            continue;
        }
        let runtime = Runtime::new(revision);
        let outcome = runtime.open(library).and_then(|library| case.run(&library));
        // Libraries identify a copy of XLA by the address of its function table. The runtime is leaked, so that its
        // address is not reused.
        std::mem::forget(runtime);
        // r0 and r1 report every handler's error as INTERNAL.
        let codes = revision >= Revision::R2;
        let parsed = case.parsed_from();
        let verdict = if revision < parsed && !case.is_beyond_jax() {
            match outcome {
                Err(error) if is_unparsed(&error) => Ok(()),
                other => Err(format!(
                    "the parser takes it from {parsed} on, got {other:?}"
                )),
            }
        } else if revision < case.from() {
            match outcome {
                Ok(got) => Err(format!("expected a lack, got {got:?}")),
                Err(error) if error.is_from_handler() => {
                    let text = error.message();
                    let told = text.contains("the first jaxlib that has it is")
                        && (!codes || error.code().name() == "UNIMPLEMENTED");
                    if told {
                        Ok(())
                    } else {
                        Err(format!("expected a clear lack, got {error}"))
                    }
                }
                Err(error) if refuses_version(&error, revision, case.from()) => Ok(()),
                Err(error) if refuses_operand(&error, revision) => Ok(()),
                Err(error) => Err(format!("neither a lack nor a refusal: {error}")),
            }
        } else {
            let outcome = outcome.map_err(Into::into);
            check(&case, outcome, codes, !upstream || case.of == For::Upstream)
        };
        if let Err(problem) = verdict {
            let whose = if upstream { "upstream" } else { "ours" };
            wrong.push(format!("{whose} {revision} {}: {problem}", case.line));
        }
    }
    wrong
}

/// Returns true if the host rejected the handler because the handler requires a newer revision.
fn refuses_version(error: &Error, host: Revision, floor: Revision) -> bool {
    let answered = format!("it answers version 0.{}, {host} ", floor.minor_version());
    // r0 does not check the version.
    host != Revision::R0
        && floor.minor_version() > host.minor_version()
        && error.code() == ErrorCode::InvalidArgument
        && error.message().contains(&answered)
}

/// Returns true if the host does not support the operands of a case, and the error names the first revision that does.
fn refuses_operand(error: &Error, host: Revision) -> bool {
    let text = error.message();
    error.code() == ErrorCode::Unimplemented
        && text.starts_with("argument ")
        && text.contains(&format!(" or later, this is {host} "))
}

/// Returns true if the host's attribute parser does not support the attributes of a case.
fn is_unparsed(error: &Error) -> bool {
    let text = error.message();
    !error.is_from_handler()
        && error.code() == ErrorCode::InvalidArgument
        && text.starts_with("Unsupported attribute type for attribute: ")
        && text.contains("the first jaxlib whose attributes may be ")
}

#[test]
fn ours_on_every_revision() {
    let mut wrong = vec![];
    let Some(compiler) = cpp_compilers("ours_on_every_revision").first().copied() else {
        return;
    };
    let mut count = 0;
    for source in sources() {
        let library = build(compiler, &source, &Headers::Ours, &[]);
        count += cases(&source).len();
        for revision in Revision::ALL.into_iter().rev() {
            wrong.extend(run(&source, &library, revision, false));
        }
        for (symbol, bits) in traits(&source) {
            let library = Runtime::new(Revision::NEWEST)
                .open(&library)
                .expect("it loads");
            let handler = library
                .handler(&symbol, &[(Stage::Execute, &symbol)])
                .expect("it registers");
            assert_eq!(
                handler.metadata().expect("metadata").traits.bits(),
                bits,
                "{symbol}"
            );
        }
    }
    println!("{count} cases on {} revisions", Revision::ALL.len());
    assert!(count > 100, "only {count} cases were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn results_equal_those_of_upstream() {
    let Some(headers) = headers::newest("results_equal_those_of_upstream") else {
        return;
    };
    let Some(compiler) = cpp_compilers("results_equal_those_of_upstream")
        .first()
        .copied()
    else {
        return;
    };
    let mut wrong = vec![];
    for source in sources() {
        let library = build(
            compiler,
            &source,
            &Headers::Upstream(headers.clone()),
            &["-DNDEBUG"],
        );
        wrong.extend(run(&source, &library, Revision::NEWEST, true));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
