//! Tests the comparison of headers with single edits. The comparison must report each edit in the right class, and must
//! not report edits without an effect.
//!
//! The tests edit this project's header and, if available, the header of jaxlib 0.12.0. Both headers are normalised
//! first, so that one list of edits fits both.

mod cases;
mod edit;

use edit::{apply, normal};
use std::path::{Path, PathBuf};
use xla_ffi_abi::diff::Change;
use xla_ffi_abi::header::{Error, Source};
use xla_ffi_abi::snapshot::{self, Verdict};
use xla_ffi_abi::xla_ffi_sys::Revision;
use xla_ffi_testing::headers::{self, api_folder};
use xla_ffi_testing::{root, skip};

/// Returns the headers to edit, each with a name for messages.
fn subjects() -> Vec<(&'static str, String)> {
    let mut subjects = Vec::new();
    let ours = root().join("include/xla/ffi/api/c_api.h");
    subjects.push(("ours", std::fs::read_to_string(ours).unwrap()));
    match headers::folder() {
        Some(headers) => {
            let path = api_folder(&headers, "0.12.0").join("c_api.h");
            subjects.push(("jaxlib 0.12.0", std::fs::read_to_string(path).unwrap()));
        }
        None => skip(
            "edits to the header of jaxlib 0.12.0",
            "XLA_FFI_JAXLIB_HEADERS is not set (cargo xtask test sets it)",
        ),
    }
    for (_, text) in &mut subjects {
        *text = normal(text);
    }
    subjects
}

/// Compares an edited header with all snapshots and returns the verdict; `None` without libclang.
fn verdict(text: String) -> Option<Verdict> {
    match Source::from_text(&PathBuf::from("edited.h"), text.clone()).read() {
        Ok(abi) => Some(snapshot::identify(&abi).unwrap()),
        Err(Error::Missing(_)) => None,
        Err(error) => panic!("{error}\nin\n{text}"),
    }
}

fn own(changes: &[Change]) -> Vec<String> {
    changes
        .iter()
        .filter(|change| !change.follows)
        .map(|change| format!("{:?} {}", change.class, change.path()))
        .collect()
}

#[test]
fn every_edit_is_caught_and_classified() {
    assert!(cases::all().count() >= 40);
    let mut wrong = Vec::new();
    for (subject, text) in subjects() {
        match verdict(text.clone()) {
            Some(Verdict::Known(known)) => {
                assert_eq!(known.edition.name(), Revision::NEWEST.name(), "{subject}")
            }
            Some(Verdict::Unknown { changes, .. }) => {
                panic!("{subject}, normalised, is flagged: {changes:#?}")
            }
            None => {
                skip(
                    "every_edit_is_caught_and_classified",
                    "there is no libclang",
                );
                return;
            }
        }
        for (what, edit, expected) in cases::all() {
            println!("{subject}: {what}");
            match verdict(apply(&edit, &text)) {
                Some(Verdict::Unknown { nearest, changes }) => {
                    let mut told = own(&changes);
                    let mut expected = expected;
                    told.sort();
                    expected.sort();
                    if nearest.edition.name() != Revision::NEWEST.name() || told != expected {
                        wrong.push(format!(
                            "{subject}, {what}: expected {expected:?}, told {told:?} from {}",
                            nearest.edition.name()
                        ));
                    }
                }
                Some(Verdict::Known(known)) => wrong.push(format!(
                    "{subject}, {what}: taken for {}",
                    known.edition.name()
                )),
                None => unreachable!("a reader was there a moment ago"),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} edits caught and classified", cases::all().count());
}

#[test]
fn harmless_edits_are_not_flagged() {
    let mut wrong = Vec::new();
    for (subject, text) in subjects() {
        for (what, edit) in cases::harmless() {
            println!("{subject}: {what}");
            match verdict(apply(&edit, &text)) {
                Some(Verdict::Known(known)) if known.edition.name() == Revision::NEWEST.name() => {}
                Some(Verdict::Known(known)) => {
                    wrong.push(format!("{subject}, {what}: {}", known.edition.name()));
                }
                Some(Verdict::Unknown { changes, .. }) => {
                    wrong.push(format!("{subject}, {what}: {:?}", own(&changes)));
                }
                None => {
                    skip("harmless_edits_are_not_flagged", "there is no libclang");
                    return;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_no_such_header_is_told() {
    let read = |text: &str| Source::from_text(Path::new("given.h"), text.to_owned()).read();
    match read("struct GLFWwindow { int a; };\n") {
        Err(Error::Foreign { .. } | Error::Missing(_)) => {}
        other => panic!("{other:?}"),
    }
    match read("") {
        Err(Error::Foreign { .. } | Error::Missing(_)) => {}
        other => panic!("{other:?}"),
    }
    for broken in [
        "struct XLA_FFI_Buffer {",
        "#include \"not/there.h\"\nstruct XLA_FFI_Buffer { int a; };",
        "#error no\n",
        "struct XLA_FFI_Buffer { struct XLA_FFI_Buffer b; };",
        "\u{1}\u{2}\u{3}",
    ] {
        match read(broken) {
            Err(Error::Parse { messages, .. }) => assert!(!messages.is_empty(), "{broken}"),
            Err(Error::Missing(_)) => {}
            other => panic!("{broken}: {other:?}"),
        }
    }
}
