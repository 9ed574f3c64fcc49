//! Edits to the fields of every struct of several headers.

use crate::edit::{Edit, apply, normal};
use crate::own;
use Edit::{Before, Remove, Replace, Swap};
use std::path::Path;
use xla_ffi_abi::diff::Class::{Inserted, Moved, Removed, Resized, Retyped};
use xla_ffi_abi::header::{Error, Source};
use xla_ffi_abi::snapshot::{self, Verdict};
use xla_ffi_testing::headers::{self, api_folder};
use xla_ffi_testing::skip;

/// Which of the possible edits to all fields of all headers are tried: one in so many, always the
/// same ones. (All 1625 were tried once, and caught.)
const STRIDE: usize = 23;

#[test]
fn edits_to_any_field_of_any_header_are_caught() {
    let Some(headers) = headers::folder() else {
        return skip(
            "edits_to_any_field_of_any_header_are_caught",
            "XLA_FFI_JAXLIB_HEADERS is not set (cargo xtask test sets it)",
        );
    };
    let mut number = 0;
    let mut tried = 0;
    for (version, file) in [
        ("0.4.31", "c_api.h"),
        ("0.4.34", "c_api.h"),
        ("0.9.1", "c_api.h"),
        ("0.12.0", "record_c_api.h"),
        ("0.12.0", "collectives_c_api.h"),
    ] {
        let folder = api_folder(&headers, version);
        let include = folder.ancestors().nth(3).unwrap().to_owned();
        let text = normal(&std::fs::read_to_string(folder.join(file)).unwrap());
        let read = |text: String| {
            Source::from_text(Path::new("edited.h"), text)
                .include(&include)
                .opinions()
        };
        let base = match read(text.clone()).map(|opinions| snapshot::identify(&opinions.abi)) {
            Ok(Ok(Verdict::Known(base))) => base,
            Err(Error::NoReader { .. }) => {
                return skip(
                    "edits_to_any_field_of_any_header_are_caught",
                    "nothing here can read a header",
                );
            }
            other => panic!("jaxlib {version} {file}: {other:?}"),
        };
        for (name, layout) in &base.abi.structs {
            for (at, field) in layout.fields.iter().enumerate() {
                let (owner, member) = (leak(name), leak(&field.name));
                let other = leak(&format!("double* {member}"));
                let class = if field.size == 8 { Retyped } else { Resized };
                let mut edits = vec![
                    (Before(owner, member, "double xtra"), Inserted),
                    (Remove(owner, member), Removed),
                    (Replace(owner, member, other), class),
                ];
                if let Some(next) = layout.fields.get(at + 1) {
                    edits.push((Swap(owner, member, leak(&next.name)), Moved));
                }
                for (edit, class) in edits {
                    number += 1;
                    if number % STRIDE != 0 {
                        continue;
                    }
                    let opinions = match read(apply(&edit, &text)) {
                        Ok(opinions) => opinions,
                        // STRUCT_SIZE names a field that was removed, for instance.
                        Err(Error::Parse { .. }) => continue,
                        Err(error) => panic!("{name}.{member}: {error}"),
                    };
                    tried += 1;
                    assert!(opinions.disagreement.is_empty(), "{name}.{member}");
                    match snapshot::identify(&opinions.abi).unwrap() {
                        Verdict::Unknown { nearest, changes } => {
                            let told = own(&changes);
                            assert_eq!(nearest.edition, base.edition, "{name}.{member}: {told:?}");
                            assert!(
                                told.iter().any(|(told, _)| *told == class) && told.len() <= 2,
                                "{version} {file}, {name}.{member}, {class}: {told:?}"
                            );
                        }
                        Verdict::Known(known) => panic!(
                            "{version} {file}, {name}.{member}, {class}: taken for {}",
                            known.edition.name()
                        ),
                    }
                }
            }
        }
    }
    println!("{tried} edits caught");
    assert!(tried > 40);
}

/// The list of edits is made for names that are written down; these are read.
fn leak(name: &str) -> &'static str {
    Box::leak(name.to_owned().into_boxed_str())
}
