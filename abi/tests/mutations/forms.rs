//! One edit, three forms: a header, the layout that a program prints of it, and the debug information of a library.

use crate::cases;
use crate::edit::{apply, normal};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::diff::{self, Change, Class, Subject};
use xla_ffi_abi::dwarf;
use xla_ffi_abi::header::{Error, Source};
use xla_ffi_abi::mirror::{Layout, Names};
use xla_ffi_abi::reader::Reader;
use xla_ffi_abi::xla_ffi_sys::Revision;
use xla_ffi_testing::compiler::{library_of_text, works};
use xla_ffi_testing::{root, skip};

/// The library that a compiler makes of a header, with the debug information of all that it declares.
fn compiled(folder: &Path, text: &str) -> Vec<u8> {
    let flags = ["-g", "-fno-eliminate-unused-debug-types"];
    let library = library_of_text(folder, "edited", "g++", text, &flags).unwrap();
    std::fs::read(library).unwrap()
}

/// What a mirror's layout says of a change, or why it can say nothing.
fn stated(change: &Change, before: &Layout, after: &Layout) -> Result<String, &'static str> {
    let path = change.path();
    let told = match (change.class, change.subject) {
        (Class::Moved, _) => "is at byte",
        (Class::Resized, Subject::Field | Subject::Slot) => "takes",
        (Class::Resized, _) => "is",
        (Class::Inserted | Class::AddedAtEnd | Class::Renamed, Subject::Field | Subject::Slot) => {
            "is no field of this revision"
        }
        (Class::Renamed, Subject::Struct | Subject::Enum) | (Class::Added, Subject::Prototype) => {
            "is nothing of this revision"
        }
        (Class::Removed, Subject::Field | Subject::Slot) | (Class::EnumValueRemoved, _) => {
            "is missing"
        }
        (Class::EnumValueAdded | Class::EnumValueRenamed, _) => "is no value of this revision",
        (Class::EnumValueChanged | Class::ConstantChanged, _) => "is",
        (Class::SizeMacroChanged, _) => return Ok(format!("{path}_STRUCT_SIZE is")),
        (Class::Retyped, Subject::Field | Subject::Slot) => {
            let member = change.member.as_deref().unwrap_or_default();
            let of = |layout: &Layout| layout.structs[&change.owner].fields[member].number.clone();
            match (of(before), of(after)) {
                (Some(was), Some(now)) if was != now => "is",
                _ => return Err(TARGET),
            }
        }
        (Class::Retyped, Subject::Function | Subject::Prototype) => {
            let of = |layout: &Layout| layout.functions[&change.owner].clone();
            let (was, now) = (of(before), of(after));
            match (was.parameters == now.parameters, was.result == now.result) {
                (false, _) => "takes",
                (true, false) => "gives",
                (true, true) => return Err(TARGET),
            }
        }
        // Its fields are told in its place.
        (Class::Retyped, Subject::Alias) => return Err(ALIAS),
        (Class::Renamed, Subject::Opaque) => return Err(OPAQUE),
        (Class::Removed, Subject::Constant | Subject::Prototype) => return Err(ABSENT),
        other => panic!("{other:?} is in no form"),
    };
    Ok(format!("{path} {told}"))
}

const TARGET: &str = "what a pointer points to, const, and a number in an enumeration's place have no bytes of their own";
const ALIAS: &str = "a typedef has no bytes; the fields of its type do";
const OPAQUE: &str = "a type that is declared alone has no layout";
const ABSENT: &str = "a number or function that is not stated is not judged";

#[test]
fn every_form_judges_an_edit_alike() {
    let name = "every_form_judges_an_edit_alike";
    if !works("g++") {
        return skip(name, "g++ is not there");
    }
    let text =
        normal(&std::fs::read_to_string(root().join("include/xla/ffi/api/c_api.h")).unwrap());
    let abi = Edition::of_revision(Revision::NEWEST).declared();
    let names = Names::default();
    let expected = Layout::of(&abi, &names);
    let (mut wrong, mut expressed) = (Vec::new(), 0);
    let mut silent: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (what, edit, _) in cases::all() {
        let edited = apply(edit, &text);
        let source = Source::from_text(&PathBuf::from("edited.h"), edited.clone());
        let read = match source.read(Reader::Clang) {
            Ok(read) => read,
            Err(Error::Missing(why)) => return skip(name, &why),
            Err(error) => panic!("{what}: {error}"),
        };
        // What a program prints of its own layouts, through JSON as `--layout` reads it.
        let printed = serde_json::to_string(&Layout::of(&read, &names)).unwrap();
        let printed = Layout::parse(&printed).unwrap();
        let layout = printed.compare(&abi, &names);
        let folder = tempfile::tempdir().unwrap();
        let library = compiled(folder.path(), &edited);
        let dwarf = dwarf::read_mirror(&library, &expected).unwrap();
        assert_eq!(dwarf.len(), 1, "{what}");
        let dwarf = dwarf[0].compare(&abi, &names);
        let changes = diff::changes(&abi, &read);
        let own = changes.iter().filter(|change| !change.follows);
        let (mut wanted, mut why) = (Vec::new(), None);
        for told in own.map(|change| stated(change, &expected, &printed)) {
            match told {
                Ok(told) => wanted.push(told),
                Err(reason) => why = Some(reason),
            }
        }
        match why.filter(|_| wanted.is_empty()) {
            None => expressed += 1,
            Some(why) => {
                silent.entry(why).or_default().push(what);
                // That no layout states it is looked at: none differs, but in the fields of a typedef's type.
                if why != ALIAS && !layout.mistakes.is_empty() {
                    wrong.push(format!("{what}: {why}, and yet: {:?}", layout.mistakes));
                }
            }
        }
        for wanted in &wanted {
            if !layout.mistakes.iter().any(|told| told.starts_with(wanted)) {
                wrong.push(format!(
                    "{what}: the layout does not say {wanted}: {:?}",
                    layout.mistakes
                ));
            }
        }
        // Debug information has neither macros nor functions that nobody calls and tells no alignment; a type of another
        // name is not looked for, and not judged then.
        let is_in_dwarf = |told: &&String| {
            let name = told.split([' ', '.']).next().unwrap_or_default();
            let name = name.strip_suffix("_STRUCT_SIZE").unwrap_or(name);
            (abi.structs.contains_key(name) || abi.enums.contains_key(name))
                && !told.contains(" is aligned to ")
        };
        let seen: Vec<&String> = layout.mistakes.iter().filter(is_in_dwarf).collect();
        let told: Vec<&String> = dwarf.mistakes.iter().collect();
        if seen != told {
            wrong.push(format!(
                "{what}: the layout says {seen:?}, the library {told:?}"
            ));
        }
        let gone = |told: &Vec<String>| {
            told.iter()
                .filter(|name| !layout.absent.contains(name))
                .count()
        };
        if gone(&dwarf.absent) > 0 {
            wrong.push(format!("{what}: not in the library: {:?}", dwarf.absent));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (why, which) in &silent {
        println!(
            "{} edits in the header alone, since {why}: {}",
            which.len(),
            which.join(", ")
        );
    }
    println!("{expressed} edits in three forms");
    let silent: Vec<_> = silent
        .iter()
        .map(|(why, which)| (*why, which.len()))
        .collect();
    let expected = [(ABSENT, 1), (OPAQUE, 1), (ALIAS, 1), (TARGET, 19)];
    assert_eq!((expressed, silent), (54, expected.to_vec()));
}
