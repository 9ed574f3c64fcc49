//! Generates the facts that C, C++ and Python share with Rust.
//!
//! The generated files contain the revisions, stages, element types, codes, and the first revision of each feature from
//! ffi-sys. Texts are from ffi.

use std::fmt::Write;
use xla_ffi::__private::wording;
use xla_ffi_sys::{
    ELEMENT_TYPES, ElementClass, Feature, Revision, XLA_FFI_AttrType, XLA_FFI_Error_Code,
    XLA_FFI_ExecutionStage, YANKED_JAXLIBS,
};

/// Returns the text of `include/xla_ffi/facts.h`; `version` is the version of the crates.
pub(super) fn c(version: &str) -> String {
    let mut out = String::from(
        "/* Facts of the ABI and words for them, the same in every language. Part of\n \
          * <xla_ffi/handler.h> and <xla/ffi/api/api.h>.\n \
          * Generated from ffi-sys and ffi by `cargo xtask headers`; do not edit.\n \
          *\n \
          * A list is a macro that applies X to each of its entries.\n */\n\
         #ifndef XLA_FFI_FACTS_H_\n#define XLA_FFI_FACTS_H_\n",
    );
    list(
        &mut out,
        "The revisions, oldest first: number, minor version (the major one is 0), first jaxlib, name \
         and releases.",
        "REVISIONS",
        Revision::ALL.iter().map(|revision| {
            let first = revision.first_jaxlib();
            let (number, minor) = (*revision as u8, revision.minor_version());
            let releases = wording::Releases(*revision);
            format!("{number}, {minor}, {first:?}, \"{releases}\"")
        }),
    );
    list(
        &mut out,
        "The stages in order: enumerator, name.",
        "STAGES",
        XLA_FFI_ExecutionStage::ENUM.values.iter().map(|stage| {
            let stage = XLA_FFI_ExecutionStage(stage.value);
            names(stage.name(), stage.lower_name())
        }),
    );
    list(
        &mut out,
        "The kinds of attributes: enumerator, name.",
        "ATTR_TYPES",
        XLA_FFI_AttrType::ENUM.values.iter().map(|kind| {
            let kind = XLA_FFI_AttrType(kind.value);
            names(kind.name(), kind.lower_name())
        }),
    );
    list(
        &mut out,
        "The element types, but for INVALID: enumerator, name in lower case, bits (0 for tokens; less \
         than 8 share a byte, the first in the low bits).",
        "ELEMENT_TYPES",
        ELEMENT_TYPES.iter().map(|known| {
            let names = names(known.dtype.name(), known.dtype.lower_name());
            format!("{names}, {}", known.bits)
        }),
    );
    comment(&mut out, "The last of absl's codes.");
    let last = XLA_FFI_Error_Code::ENUM.values.last();
    define(
        &mut out,
        "LAST_ERROR_CODE",
        last.map_or("", |code| code.name),
    );
    comment(&mut out, "The version of the SDK.");
    define(&mut out, "VERSION", format!("{version:?}"));
    comment(
        &mut out,
        "Minor version and bytes of the function table of each revision.",
    );
    for revision in Revision::ALL {
        let name = revision.name().to_ascii_uppercase();
        define(&mut out, &format!("MINOR_{name}"), revision.minor_version());
        define(&mut out, &format!("TABLE_{name}"), revision.api_size());
    }
    comment(
        &mut out,
        "Features: the oldest revision that has each, and its name in messages.",
    );
    for feature in Feature::ALL {
        let name = feature.constant();
        define(&mut out, &format!("SINCE_{name}"), feature.since() as u8);
        let words = format!("{:?}", wording::feature(*feature));
        define(&mut out, &format!("NAME_{name}"), words);
    }
    comment(
        &mut out,
        "FEATURE FIRST_JAXLIB jaxlib THIS_HOST VERSION host: what is said of a feature that the host lacks; and \
         of one that its version of an extension lacks, FEATURE THIS_EXTENSION minor \" of the \" extension \
         NEWER_EXTENSION jaxlib. After an error of a host that is newer than the library: THIS_HOST VERSION host \
         NEWER_HOST.",
    );
    for (name, words) in [
        ("FIRST_JAXLIB", wording::FIRST_JAXLIB),
        ("THIS_HOST", wording::THIS_HOST),
        ("NEWER_HOST", wording::NEWER_HOST),
        ("VERSION", wording::VERSION),
        ("THIS_EXTENSION", wording::THIS_EXTENSION),
        ("NEWER_EXTENSION", wording::NEWER_EXTENSION),
    ] {
        text(&mut out, name, words);
    }
    comment(
        &mut out,
        "A host from before r0: what its table says of its size, where its first function lies, and what is said of it \
         behind a name.",
    );
    define(&mut out, "SIZE_BEFORE_R0", Revision::BEFORE_R0_STRUCT_SIZE);
    define(&mut out, "HEAD_BEFORE_R0", Revision::BEFORE_R0_TABLE_HEAD);
    define(&mut out, "SIZE_R0", Revision::R0.api_struct_size());
    text(&mut out, "BEFORE_R0", wording::BEFORE_R0);
    comment(
        &mut out,
        "Behind an element type of less than a byte without its number.",
    );
    text(&mut out, "WITHOUT_NUMBER", wording::WITHOUT_NUMBER);
    comment(
        &mut out,
        "An operand that cannot be used, whose address and multiple follow, or shares memory; then calls that reach the \
         wrong handler.",
    );
    for (name, words) in [
        ("NOT_A_BUFFER", wording::NOT_A_BUFFER),
        ("COUNT", wording::COUNT),
        ("BYTES", wording::BYTES),
        ("NULL_DATA", wording::NULL_DATA),
        ("IS_AT", wording::IS_AT),
        ("NOT_A_MULTIPLE", wording::NOT_A_MULTIPLE),
        ("OVERLAPS", wording::OVERLAPS),
        ("ALIASED", wording::ALIASED),
        ("APART", wording::APART),
        ("ONE_ARRAY", wording::ONE_ARRAY),
        ("DEVICE", wording::DEVICE),
        ("SHORT_FRAME", wording::SHORT_FRAME),
        ("CALLED_AT", wording::CALLED_AT),
        ("OWN_STAGE", wording::OWN_STAGE),
    ] {
        text(&mut out, name, words);
    }
    out + "\n#endif  /* XLA_FFI_FACTS_H_ */\n"
}

/// Returns the text of `python/xla_ffi/_facts.py`.
pub(super) fn python() -> String {
    let mut out = String::from(
        "\"\"\"Facts of the ABI. Generated from ffi-sys by `cargo xtask headers`; do not edit.\"\"\"\n",
    );
    out += "\n# The first jaxlib, the minor version and the number of functions of each revision, oldest first.\n";
    out += "REVISIONS = (\n";
    for revision in Revision::ALL {
        let (first, minor) = (revision.first_jaxlib(), revision.minor_version());
        let _ = writeln!(out, "    ({first:?}, {minor}, {}),", revision.slot_count());
    }
    out += ")\n\n# Releases that were withdrawn, and the revision of each.\nYANKED = {\n";
    for (version, revision) in YANKED_JAXLIBS {
        let _ = writeln!(out, "    {version:?}: {},", revision as u8);
    }
    out += "}\n";
    let stages = XLA_FFI_ExecutionStage::ENUM.values.iter();
    let stages = stages.filter_map(|stage| XLA_FFI_ExecutionStage(stage.value).lower_name());
    let stages: Vec<_> = stages.map(|stage| format!("{stage:?}")).collect();
    let stages = stages.join(", ");
    let _ = writeln!(out, "\n# The stages in order.\nSTAGES = ({stages})");
    out += "\n# What kind of number each element type is, and how many bits one takes.\nELEMENT_TYPES = {\n";
    for known in ELEMENT_TYPES {
        let name = known.dtype.name().unwrap_or_default();
        let class = match known.class {
            ElementClass::Bool => "bool",
            ElementClass::Signed => "int",
            ElementClass::Unsigned => "uint",
            ElementClass::Float => "float",
            ElementClass::Complex => "complex",
            ElementClass::Token => "token",
        };
        let _ = writeln!(out, "    {name:?}: ({class:?}, {}),", known.bits);
    }
    out + "}\n"
}

/// Returns the entry `NAME, "name"` of a list, in which a missing name is empty.
fn names(name: Option<&str>, lower: Option<&str>) -> String {
    format!(
        "{}, {:?}",
        name.unwrap_or_default(),
        lower.unwrap_or_default()
    )
}

/// Writes a macro that applies its argument, which is a macro, to each entry of a list.
fn list(out: &mut String, about: &str, name: &str, entries: impl Iterator<Item = String>) {
    comment(out, about);
    let _ = write!(out, "#define XLA_FFI_SDK_{name}(X)");
    for entry in entries {
        let _ = write!(out, " \\\n  X({entry})");
    }
    out.push('\n');
}

fn define(out: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "#define XLA_FFI_SDK_{name} {value}");
}

/// Writes a macro whose value is a text. A long text is on a separate line.
fn text(out: &mut String, name: &str, words: &str) {
    let gap = if words.len() > 60 { "\\\n  " } else { "" };
    define(out, &format!("TEXT_{name}"), format!("{gap}{words:?}"));
}

/// Writes a comment after an empty line, wrapped at 100 columns.
fn comment(out: &mut String, text: &str) {
    out.push_str("\n/*");
    let mut width = 2;
    for word in text.split(' ') {
        if width + 1 + word.len() > 97 {
            out.push_str("\n *");
            width = 2;
        }
        let _ = write!(out, " {word}");
        width += 1 + word.len();
    }
    out.push_str(" */\n");
}
