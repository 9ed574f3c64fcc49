//! Damaged and hostile input: headers, libraries, manifests. Whatever comes, the answer is a value
//! or an error, never a panic; and a model that differs is never taken for equal.
//!
//! `XLA_FFI_CASES` sets the number of cases: that many of what is cheap, a fraction of what is not.

mod common;

use common::{root, skip};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use xla_ffi_abi::diff;
use xla_ffi_abi::doctor::Examination;
use xla_ffi_abi::header::{Error, Reader, Source};
use xla_ffi_abi::model::{Abi, Field};
use xla_ffi_abi::{dwarf, library, manifest, snapshot};

/// One damage to bytes.
#[derive(Clone, Debug)]
enum Damage {
    Truncate(prop::sample::Index),
    Flip(prop::sample::Index, u8),
    Word(prop::sample::Index, u64),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    Insert(prop::sample::Index, Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    use prop::sample::Index;
    let extreme = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::from(u32::MAX)),
        Just(1 << 40),
        any::<u64>()
    ];
    prop_oneof![
        any::<Index>().prop_map(Damage::Truncate),
        (any::<Index>(), any::<u8>()).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        (any::<Index>(), extreme).prop_map(|(at, word)| Damage::Word(at, word)),
        (any::<Index>(), 1..200_usize).prop_map(|(at, n)| Damage::Remove(at, n)),
        (any::<Index>(), 1..200_usize).prop_map(|(at, n)| Damage::Repeat(at, n)),
        (any::<Index>(), prop::collection::vec(any::<u8>(), 1..16))
            .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match damage {
        Damage::Truncate(at) => bytes.truncate(at.index(length)),
        Damage::Flip(at, bits) => bytes[at.index(length)] ^= bits,
        Damage::Word(at, word) => {
            // Fields of object files lie at multiples of eight.
            let at = at.index(length) & !7;
            for (place, byte) in bytes[at..].iter_mut().zip(word.to_le_bytes()) {
                *place = byte;
            }
        }
        Damage::Remove(at, n) => {
            let at = at.index(length);
            bytes.drain(at..(at + n).min(length));
        }
        Damage::Repeat(at, n) => {
            let at = at.index(length);
            let chunk = bytes[at..(at + n).min(length)].to_vec();
            bytes.splice(at..at, chunk);
        }
        Damage::Insert(at, chunk) => {
            let at = at.index(length);
            bytes.splice(at..at, chunk.iter().copied());
        }
    }
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases,
        // Nothing is written beside the sources; a failure prints what it was.
        failure_persistence: None,
        ..Config::default()
    })
}

/// One in `share` of `XLA_FFI_CASES`, or so many.
fn cases(otherwise: u32, share: u32) -> u32 {
    let given = std::env::var("XLA_FFI_CASES")
        .ok()
        .and_then(|text| text.parse::<u32>().ok());
    given.map_or(otherwise, |cases| cases / share)
}

fn header_survives(reader: Reader, cases: u32) {
    let text = std::fs::read(root().join("include/xla/ffi/api/c_api.h")).unwrap();
    let whole = Source::from_text(
        Path::new("whole.h"),
        String::from_utf8(text.clone()).unwrap(),
    );
    if let Err(Error::Missing(why)) = whole.read(reader) {
        return skip("damaged headers", &why);
    }
    runner(cases)
        .run(&prop::collection::vec(damage(), 1..4), |damages| {
            let mut bytes = text.clone();
            for damage in &damages {
                apply(&mut bytes, damage);
            }
            let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
            match Source::from_text(Path::new("damaged.h"), text).read(reader) {
                Ok(abi) => {
                    snapshot::identify(&abi).map_err(|e| TestCaseError::fail(e.to_string()))?;
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn damaged_headers_are_survived_by_libclang() {
    header_survives(Reader::Clang, 60);
}

#[test]
fn damaged_headers_are_survived_by_the_compiler() {
    header_survives(Reader::Dwarf, 15);
}

#[test]
fn headers_that_never_end_are_stopped() {
    // Each macro is ten times as long as the one before.
    let mut text = String::from("#define L0 int x;\n");
    for level in 1..13 {
        let body = format!(" L{}", level - 1).repeat(10);
        text.push_str(&format!("#define L{level}{body}\n"));
    }
    text.push_str("struct XLA_FFI_Buffer { L12 };\n");
    let limit = Duration::from_secs(2);
    let source = Source::from_text(Path::new("endless.h"), text).limit(limit);
    let start = Instant::now();
    match source.read(Reader::Dwarf) {
        Err(Error::Missing(why)) => return skip("headers_that_never_end_are_stopped", &why),
        Err(Error::Time { .. } | Error::Parse { .. }) => {}
        other => panic!("{other:?}"),
    }
    // Both readers together: the compiler's word keeps libclang from trying.
    match source.opinions() {
        Err(Error::Time { .. } | Error::Parse { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(start.elapsed() < Duration::from_secs(30));
}

const LIBRARY: &str = r#"
#include "xla/ffi/api/c_api.h"
__attribute__((section(".xla_ffi_manifest"), used, aligned(16)))
const unsigned char xla_ffi_manifest[] = "XLAFFIMF\1\0\0\0\101\0\0\0"
  "{\"library\":\"l\",\"sdk\":\"0\",\"handlers\":[]}                          ";
XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) { return frame->api ? NULL : NULL; }
"#;

/// A small library with debug information and a manifest.
fn sample() -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("sample.c");
    let library = folder.path().join("libsample.so");
    std::fs::write(&source, LIBRARY).unwrap();
    let output = Command::new("gcc")
        .args(["-shared", "-fPIC", "-g", "-o"])
        .arg(&library)
        .arg(&source)
        .arg(format!("-I{}", root().join("include").display()))
        .output()
        .ok()?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(std::fs::read(&library).unwrap())
}

#[test]
fn damaged_libraries_are_survived() {
    let Some(whole) = sample() else {
        return skip("damaged_libraries_are_survived", "gcc is not there");
    };
    let path = Path::new("damaged.so");
    assert!(library::read(path, &whole).is_ok());
    assert_eq!(manifest::read(&whole).unwrap().len(), 1);
    assert!(!dwarf::read_library(&whole).unwrap().is_empty());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("damaged.so");
    runner(cases(600, 20))
        .run(&prop::collection::vec(damage(), 1..5), |damages| {
            let mut bytes = whole.clone();
            for damage in &damages {
                apply(&mut bytes, damage);
            }
            let _ = library::read(path, &bytes);
            let _ = manifest::read(&bytes);
            let _ = dwarf::read_library(&bytes);
            Ok(())
        })
        .unwrap();
    runner(30)
        .run(&damage(), |damage| {
            let mut bytes = whole.clone();
            apply(&mut bytes, &damage);
            std::fs::write(&file, &bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let _ = Examination::of(&file);
            Ok(())
        })
        .unwrap();
}

#[test]
fn every_truncation_of_a_library_is_survived() {
    let Some(whole) = sample() else {
        return skip(
            "every_truncation_of_a_library_is_survived",
            "gcc is not there",
        );
    };
    for length in (0..whole.len()).step_by(41) {
        let bytes = &whole[..length];
        let _ = library::read(Path::new("short.so"), bytes);
        let _ = manifest::read(bytes);
        let _ = dwarf::read_library(bytes);
    }
}

#[test]
fn damaged_manifests_are_survived() {
    let payload = r#"{"library":"l","sdk":"0.1.0","register":"l__r","handlers":[{"name":"h",
        "platforms":["cpu"],"stages":{"execute":"l__h"},"args":[{"name":"x","kind":"buffer",
        "dtypes":["F32"],"rank":null}],"rets":[],"attrs":[{"name":"a","type":"[f32]"}],
        "floor":"r1","state":{"type":"T"}}]}"#;
    let mut whole = b"XLAFFIMF\x01\0\0\0".to_vec();
    whole.extend((payload.len() as u32).to_le_bytes());
    whole.extend(payload.bytes());
    assert_eq!(manifest::read_section(&whole, 0).unwrap().len(), 1);
    runner(cases(2000, 1))
        .run(
            &(prop::collection::vec(damage(), 1..4), any::<u64>()),
            |(damages, address)| {
                let mut bytes = whole.clone();
                for damage in &damages {
                    apply(&mut bytes, damage);
                }
                if let Err(error) = manifest::read_section(&bytes, address) {
                    prop_assert!(!error.to_string().is_empty());
                }
                Ok(())
            },
        )
        .unwrap();
}

/// One change to a model.
#[derive(Clone, Debug)]
enum Change {
    Offset(u64),
    Size(u64),
    Type(String),
    Name(String),
    Drop,
    Duplicate(String),
    StructSize(Option<u64>),
    Sizeof(u64),
    Align(u64),
    DropStruct,
    Enumerator(i64),
    EnumSize(u64),
    DropEnum,
    Constant(i64),
    Function(String),
    Alias(String),
    Opaque(String),
}

fn change() -> impl Strategy<Value = Change> {
    let word = "[A-Za-z_]{1,12}";
    let number = prop_oneof![0..400_u64, any::<u64>()];
    prop_oneof![
        number.clone().prop_map(Change::Offset),
        number.clone().prop_map(Change::Size),
        word.prop_map(Change::Type),
        word.prop_map(Change::Name),
        Just(Change::Drop),
        word.prop_map(Change::Duplicate),
        prop::option::of(number.clone()).prop_map(Change::StructSize),
        number.clone().prop_map(Change::Sizeof),
        number.clone().prop_map(Change::Align),
        Just(Change::DropStruct),
        any::<i64>().prop_map(Change::Enumerator),
        number.prop_map(Change::EnumSize),
        Just(Change::DropEnum),
        any::<i64>().prop_map(Change::Constant),
        word.prop_map(Change::Function),
        word.prop_map(Change::Alias),
        word.prop_map(Change::Opaque),
    ]
}

fn pick<K: Ord + Clone, V>(
    map: &mut std::collections::BTreeMap<K, V>,
    at: prop::sample::Index,
) -> (K, &mut V) {
    let key = map.keys().nth(at.index(map.len())).unwrap().clone();
    let value = map.get_mut(&key).unwrap();
    (key, value)
}

fn edit(abi: &mut Abi, change: &Change, one: prop::sample::Index, two: prop::sample::Index) {
    let field = |abi: &mut Abi, with: &dyn Fn(&mut Field)| {
        let (_, layout) = pick(&mut abi.structs, one);
        if !layout.fields.is_empty() {
            let at = two.index(layout.fields.len());
            with(&mut layout.fields[at]);
        }
    };
    match change {
        Change::Offset(value) => field(abi, &|f| f.offset = *value),
        Change::Size(value) => field(abi, &|f| f.size = *value),
        Change::Type(ty) => field(abi, &|f| f.ty.clone_from(ty)),
        Change::Name(name) => field(abi, &|f| f.name.clone_from(name)),
        Change::Drop => {
            let (_, layout) = pick(&mut abi.structs, one);
            if !layout.fields.is_empty() {
                layout.fields.remove(two.index(layout.fields.len()));
            }
        }
        Change::Duplicate(name) => {
            let (_, layout) = pick(&mut abi.structs, one);
            if let Some(mut last) = layout.fields.last().cloned() {
                last.name.clone_from(name);
                layout.fields.push(last);
            }
        }
        Change::StructSize(size) => pick(&mut abi.structs, one).1.struct_size = *size,
        Change::Sizeof(size) => pick(&mut abi.structs, one).1.size = *size,
        Change::Align(align) => pick(&mut abi.structs, one).1.align = *align,
        Change::DropStruct => {
            let (name, _) = pick(&mut abi.structs, one);
            abi.structs.remove(&name);
        }
        Change::Enumerator(value) => {
            let (_, layout) = pick(&mut abi.enums, one);
            if !layout.values.is_empty() {
                *pick(&mut layout.values, two).1 = *value;
            }
        }
        Change::EnumSize(size) => pick(&mut abi.enums, one).1.size = *size,
        Change::DropEnum => {
            let (name, _) = pick(&mut abi.enums, one);
            abi.enums.remove(&name);
        }
        Change::Constant(value) => *pick(&mut abi.constants, one).1 = *value,
        Change::Function(ty) => *pick(&mut abi.functions, one).1 = ty.clone(),
        Change::Alias(ty) => *pick(&mut abi.aliases, one).1 = ty.clone(),
        Change::Opaque(name) => {
            abi.opaque.insert(name.clone());
        }
    }
}

#[test]
fn a_model_that_differs_has_changes() {
    use prop::sample::Index;
    let snapshots = snapshot::all().unwrap();
    let main: Vec<&Abi> = snapshots[..14].iter().map(|s| &s.abi).collect();
    let edits = prop::collection::vec((change(), any::<Index>(), any::<Index>()), 1..4);
    runner(cases(3000, 100))
        .run(&(any::<Index>(), edits), |(which, edits)| {
            let old = main[which.index(main.len())];
            let mut new = old.clone();
            for (change, one, two) in &edits {
                edit(&mut new, change, *one, *two);
            }
            let told = diff::changes(old, &new);
            prop_assert_eq!(told.is_empty(), *old == new, "{:?}", told);
            prop_assert_eq!(
                told.iter().any(|change| !change.follows),
                *old != new,
                "{:?}",
                told
            );
            prop_assert!(diff::changes(&new, &new).is_empty());
            Ok(())
        })
        .unwrap();
}

#[test]
fn all_pairs_of_snapshots_can_be_compared() {
    let snapshots = snapshot::all().unwrap();
    for old in snapshots {
        for new in snapshots {
            let told = diff::changes(&old.abi, &new.abi);
            assert_eq!(told.is_empty(), old.edition == new.edition);
            for change in told {
                assert!(!change.effect.old_on_new.why.is_empty(), "{change}");
                assert!(!change.effect.new_on_old.why.is_empty(), "{change}");
            }
        }
    }
}
