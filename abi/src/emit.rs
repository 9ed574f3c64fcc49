//! Generates tests of mirrors: files in a mirror's language that check the sizes, offsets and values in the mirror.

use crate::mirror::{Layout, Names};
use crate::model::{Abi, STRUCT_SIZE};
use std::fmt::Write;

/// The language of a mirror and its test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C11, with static assertions.
    C,
    /// C++17, with static assertions.
    Cpp,
    /// Rust, with constant assertions. Include the file in a scope that has the mirror's names.
    Rust,
    /// Python, as a program that checks the `ctypes` classes of the module `mirror`.
    Python,
    /// Zig, with comptime assertions about `mirror.zig`.
    Zig,
    /// Go, with constant assertions. Replace `PACKAGE` by the name of the mirror's package.
    Go,
}

impl Language {
    /// All languages with their names on the command line.
    pub const NAMED: [(&str, Self); 6] = [
        ("c", Self::C),
        ("cpp", Self::Cpp),
        ("rust", Self::Rust),
        ("python", Self::Python),
        ("zig", Self::Zig),
        ("go", Self::Go),
    ];

    /// Returns the language with this name on the command line.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut named = Self::NAMED.into_iter();
        named.find_map(|(known, language)| (known == name).then_some(language))
    }

    fn comment(self) -> &'static str {
        match self {
            Self::Python => "#",
            _ => "//",
        }
    }

    fn usage(self) -> &'static str {
        match self {
            Self::C => "cc -std=c11 -fsyntax-only -include MIRROR.h FILE",
            Self::Cpp => "c++ -std=c++17 -fsyntax-only -include MIRROR.h FILE",
            Self::Rust => "include!(\"FILE\"); after the mirror; differences are compile errors",
            Self::Python => "python FILE, next to mirror.py",
            Self::Zig => "zig build-obj -fno-emit-bin FILE, next to mirror.zig",
            Self::Go => "go build, next to the mirror, with its package's name as PACKAGE",
        }
    }
}

/// Returns the source code of a test for mirrors of `abi`. The first line contains `name`, the name of the edition.
#[must_use]
pub fn emit(abi: &Abi, name: &str, names: &Names, language: Language) -> String {
    let mut layout = Layout::of(abi, names);
    // Most mirrors use `sizeof` instead of the constants `STRUCT_SIZE`, so the test contains only constants that the
    // naming map names.
    for name in abi
        .structs
        .keys()
        .map(|name| format!("{name}{STRUCT_SIZE}"))
    {
        if let Some(theirs) = names.of(&name).filter(|_| !names.has_name_for(&name)) {
            layout.constants.remove(&theirs);
        }
    }
    let comment = language.comment();
    let mut text = format!(
        "{comment} Written by `xla-ffi abi emit {name}`: the layouts of XLA's FFI.\n{comment} Run it: {}\n",
        language.usage()
    );
    let head = match language {
        Language::C => "#include <assert.h>\n#include <stddef.h>\n",
        Language::Cpp => "#include <cstddef>\n",
        // A test without fields does not need the function that computes a field's size.
        Language::Rust if layout.structs.values().all(|stated| stated.fields.is_empty()) => "",
        Language::Rust => {
            "const fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {\n    core::mem::size_of::<F>()\n}\n"
        }
        Language::Python => {
            "import ctypes\nimport sys\n\nimport mirror\n\nwrong = []\n\n\ndef expect(what, got, wanted):\n    \
             if got != wanted:\n        wrong.append(f\"{what} is {got}, expected {wanted}\")\n\n\n\
             def field(owner, name, offset, size):\n    found = getattr(getattr(mirror, owner), name, None)\n    \
             if found is None:\n        wrong.append(f\"{owner}.{name} is missing\")\n        return\n    \
             expect(f\"{owner}.{name} offset\", found.offset, offset)\n    expect(f\"{owner}.{name} size\", found.size, size)\n\n\n"
        }
        Language::Zig => {
            "const std = @import(\"std\");
const mirror = @import(\"mirror.zig\");

\
             fn expect(comptime what: []const u8, comptime got: comptime_int, comptime wanted: comptime_int) void {
    \
             if (got != wanted) @compileError(std.fmt.comptimePrint(\"{s} is {d}, expected {d}\", .{ what, got, wanted }));
}

\
             comptime {
"
        }
        Language::Go => "package PACKAGE\n\nimport \"unsafe\"\n\n// Arrays of two lengths do not compile: the message has what differs, and both numbers.\n",
    };
    text.push_str(head);
    for (owner, stated) in &layout.structs {
        size(&mut text, language, owner, stated.size);
        for (field, place) in &stated.fields {
            let size = place.size.unwrap_or(0);
            member(&mut text, language, owner, field, place.offset, size);
        }
    }
    let values = layout.enums.values().flat_map(|stated| &stated.values);
    for (name, number) in values.chain(&layout.constants) {
        value(&mut text, language, name, *number);
    }
    text.push_str(match language {
        Language::C | Language::Cpp | Language::Rust | Language::Go => "",
        Language::Python => {
            "print(\"\\n\".join(wrong) or \"every layout is right\")\nsys.exit(bool(wrong))\n"
        }
        Language::Zig => "}\n",
    });
    text
}

fn size(text: &mut String, language: Language, owner: &str, size: u64) {
    let _ = match language {
        Language::C | Language::Cpp => writeln!(
            text,
            "static_assert(sizeof({owner}) == {size}, \"size of {owner}\");"
        ),
        Language::Rust => writeln!(
            text,
            "const _: () = assert!(core::mem::size_of::<{owner}>() == {size}, \"size of {owner}\");"
        ),
        Language::Python => writeln!(
            text,
            "expect(\"{owner} size\", ctypes.sizeof(mirror.{owner}), {size})"
        ),
        Language::Zig => writeln!(
            text,
            "    expect(\"size of {owner}\", @sizeOf(mirror.{owner}), {size});"
        ),
        Language::Go => writeln!(
            text,
            "var _ [{size}]struct{{}} = [unsafe.Sizeof({owner}{{}})]struct{{}}{{}}"
        ),
    };
}

fn member(text: &mut String, language: Language, owner: &str, field: &str, offset: u64, size: u64) {
    let _ = match language {
        Language::C | Language::Cpp => writeln!(
            text,
            "static_assert(offsetof({owner}, {field}) == {offset}, \"offset of {owner}.{field}\");\n\
             static_assert(sizeof((({owner}*)0)->{field}) == {size}, \"size of {owner}.{field}\");"
        ),
        Language::Rust => writeln!(
            text,
            "const _: () = assert!(core::mem::offset_of!({owner}, {field}) == {offset}, \"offset of {owner}.{field}\");\n\
             const _: () = assert!(size_of_field(|x: &{owner}| &x.{field}) == {size}, \"size of {owner}.{field}\");"
        ),
        Language::Python => writeln!(text, "field(\"{owner}\", \"{field}\", {offset}, {size})"),
        Language::Zig => writeln!(
            text,
            "    expect(\"offset of {owner}.{field}\", @offsetOf(mirror.{owner}, \"{field}\"), {offset});\n    \
             expect(\"size of {owner}.{field}\", @sizeOf(std.meta.fieldInfo(mirror.{owner}, .{field}).type), {size});"
        ),
        Language::Go => writeln!(
            text,
            "var _ [{offset}]struct{{}} = [unsafe.Offsetof({owner}{{}}.{field})]struct{{}}{{}}\n\
             var _ [{size}]struct{{}} = [unsafe.Sizeof({owner}{{}}.{field})]struct{{}}{{}}"
        ),
    };
}

fn value(text: &mut String, language: Language, name: &str, number: i64) {
    let _ = match language {
        Language::C | Language::Cpp => writeln!(
            text,
            "static_assert({name} == {number}, \"value of {name}\");"
        ),
        Language::Rust => writeln!(
            text,
            "const _: () = assert!({name} as i64 == {number}, \"value of {name}\");"
        ),
        Language::Python => writeln!(
            text,
            "expect(\"{name}\", getattr(mirror, \"{name}\", None), {number})"
        ),
        Language::Zig => writeln!(text, "    expect(\"{name}\", mirror.{name}, {number});"),
        Language::Go => writeln!(text, "var _ [{number}]struct{{}} = [{name}]struct{{}}{{}}"),
    };
}
