//! Declarations by chance: libclang and the compiler's debug information tell the same of each, and what is told of them in
//! C declares the same.
//!
//! `XLA_FFI_CASES` sets the number of headers, a hundred times.

use proptest::prelude::*;
use std::path::Path;
use xla_ffi_abi::dwarf;
use xla_ffi_abi::header::{Error, Source};
use xla_ffi_abi::model::Abi;
use xla_ffi_abi::reader::Reader;
use xla_ffi_abi::spelling::declaration;
use xla_ffi_testing::compiler::{cpp_compilers, library_of_text};
use xla_ffi_testing::damage::{cases, runner};
use xla_ffi_testing::skip;

/// What the declarations name.
const BEFORE: &str = "#include <stddef.h>\n#include <stdint.h>\n\
    struct Pair { const int first; volatile char second[2]; };\n\
    union Either { int a; volatile float b[2]; };\n\
    enum Plain { PLAIN_A, PLAIN_B = 7 };\n\
    enum class Scoped : unsigned char { A, B };\n\
    struct Unknown;\n\
    struct XLA_FFI_Known { int64_t number; };\n\
    enum XLA_FFI_Choice { XLA_FFI_Choice_ONE = 1 };\n\
    typedef const int Constant;\n\
    typedef Constant Constants[2];\n\
    typedef char* Text;\n\
    typedef int Function(const int, volatile char*);\n\
    typedef float Lanes __attribute__((vector_size(16)));\n";

const VALUES: [&str; 37] = [
    "char",
    "signed char",
    "unsigned char",
    "short",
    "unsigned short",
    "int",
    "unsigned",
    "long",
    "unsigned long",
    "long long",
    "unsigned long long",
    "float",
    "double",
    "long double",
    "bool",
    "wchar_t",
    "char16_t",
    "char32_t",
    "size_t",
    "ptrdiff_t",
    "int8_t",
    "uint8_t",
    "int16_t",
    "int64_t",
    "uint64_t",
    "__int128",
    "unsigned __int128",
    "Pair",
    "Either",
    "Plain",
    "Scoped",
    "XLA_FFI_Known",
    "XLA_FFI_Choice",
    "Constant",
    "Constants",
    "Text",
    "_Complex double",
];

/// What may stand behind a pointer besides.
const BEHIND: [&str; 4] = ["void", "Function", "Unknown", "Lanes"];

const QUALIFIERS: [&str; 4] = ["", "const ", "volatile ", "const volatile "];

/// Choices that a test has made.
struct Choices<'a>(std::slice::Iter<'a, u16>);

impl Choices<'_> {
    fn below(&mut self, count: usize) -> usize {
        usize::from(*self.0.next().unwrap_or(&0)) % count
    }

    fn one_of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len())]
    }

    /// A declaration of `name`, from the name outward.
    fn declaration(&mut self, name: &str, depth: usize) -> String {
        #[derive(PartialEq)]
        enum Is {
            Value,
            Pointer,
            Array,
            Result,
        }
        let mut declarator = name.to_owned();
        let mut is = Is::Value;
        for _ in 0..self.below(5) {
            let stars = declarator.starts_with('*');
            match self.below(3) {
                0 => {
                    declarator = format!("*{}{declarator}", self.one_of(&QUALIFIERS));
                    is = Is::Pointer;
                }
                1 if is != Is::Result => {
                    if stars {
                        declarator = format!("({declarator})");
                    }
                    declarator = format!("{declarator}[{}]", 1 + self.below(3));
                    is = Is::Array;
                }
                2 if is == Is::Pointer && depth < 3 => {
                    let parameters: Vec<String> = (0..self.below(3))
                        .map(|_| self.declaration("", depth + 1))
                        .collect();
                    declarator = format!("({declarator})({})", parameters.join(", "));
                    is = Is::Result;
                }
                _ => {}
            }
        }
        let base = match is {
            Is::Pointer if self.below(4) == 0 => {
                let behind = self.one_of(&BEHIND);
                if behind == "Function" {
                    return format!("{behind} {declarator}");
                }
                behind
            }
            Is::Result if self.below(4) == 0 => "void",
            // Functions give no arrays.
            Is::Result => match self.one_of(&VALUES) {
                "Constants" => "Constant",
                other => other,
            },
            _ => self.one_of(&VALUES),
        };
        // Of an array under a name GCC loses what is said besides.
        let all = if base == "Constants" {
            &QUALIFIERS[..1]
        } else {
            &QUALIFIERS
        };
        format!("{}{base} {declarator}", self.one_of(all))
    }

    /// A field, which may be bits or hold fields of its own.
    fn field(&mut self, name: &str) -> String {
        match self.below(8) {
            0 => {
                let ty = self.one_of(&["int", "unsigned", "int64_t", "unsigned char", "Plain"]);
                // Of all bits Clang tells nothing, not even where they lie.
                let bits = 1 + self.below(7);
                format!("{}{ty} {name} : {bits};", self.one_of(&QUALIFIERS))
            }
            1 => {
                let word = self.one_of(&["struct", "union"]);
                let inside = self.declaration("inside", 0);
                format!("{word} {{ {inside}; int more; }} {name};")
            }
            _ => format!("{};", self.declaration(name, 0)),
        }
    }
}

/// A header of structs by chance.
fn header(choices: &[Vec<u16>]) -> String {
    let mut text = BEFORE.to_owned();
    for (index, choices) in choices.iter().enumerate() {
        let mut choices = Choices(choices.iter());
        let (first, second) = (choices.field("first"), choices.field("second"));
        let attribute = choices.one_of(&["", "", "__attribute__((packed)) ", "alignas(32) "]);
        text += &format!("struct {attribute}XLA_FFI_T{index} {{\n  {first}\n  {second}\n}};\n");
    }
    text
}

/// A header that declares each field as it is told in C, in a struct of its own, and what the model has for each.
fn spelled(abi: &Abi) -> (String, Vec<&str>) {
    let fields = abi.structs.values().flat_map(|layout| &layout.fields);
    let types = fields.map(|field| field.ty.as_str());
    // What has no name is not told in C, and neither is how many lanes a vector has.
    let types = types.filter(|ty| !ty.contains("anonymous") && !ty.contains("vector"));
    let types: Vec<&str> = types.collect();
    let mut text = BEFORE.to_owned();
    for (index, ty) in types.iter().enumerate() {
        text += &format!(
            "struct XLA_FFI_S{index} {{ {}; }};\n",
            declaration(ty, "field")
        );
    }
    (text, types)
}

#[test]
fn both_readers_tell_the_same() {
    let one = prop::collection::vec(any::<u16>(), 40);
    let all = prop::collection::vec(one, 1..150);
    let read =
        |text: &str, reader| match Source::from_text(Path::new("declarations.h"), text.to_owned())
            .read(reader)
        {
            Ok(abi) => Some(abi),
            Err(Error::Missing(why)) => {
                skip("declarations by chance", &why);
                None
            }
            Err(error) => panic!("{error}\n{text}"),
        };
    runner(cases(16, 100))
        .run(&all, |choices| {
            let text = header(&choices);
            let told = read(&text, Reader::Clang).zip(read(&text, Reader::Dwarf));
            let Some((clang, dwarf)) = told else {
                return Ok(());
            };
            prop_assert!(clang.structs.len() > choices.len());
            for (name, layout) in &clang.structs {
                let body = text.split(&format!("{name} {{")).nth(1);
                let body = body.and_then(|rest| rest.split("};\n").next());
                let mut other = dwarf.structs[name].clone();
                // A packed struct whose fields would lie there anyway looks as any other there.
                if text.contains(&format!("((packed)) {name} ")) {
                    other.align = layout.align;
                }
                prop_assert_eq!(layout, &other, "{} {:?}", name, body);
            }
            let (text, types) = spelled(&clang);
            let again = read(&text, Reader::Clang).expect("it is there");
            for (index, ty) in types.iter().enumerate() {
                let field = &again.structs[&format!("XLA_FFI_S{index}")].fields[0];
                let is = field.ty.split(" from bit").next();
                prop_assert_eq!(
                    is,
                    ty.split(" from bit").next(),
                    "{}",
                    declaration(ty, "field")
                );
            }
            Ok(())
        })
        .unwrap();
}

/// What debug information of different ages, and compilers, write in different ways.
#[test]
fn every_age_of_debug_information_tells_the_same() {
    let fields = "int a : 3; unsigned b : 7; int64_t c : 40; unsigned char d : 5; int e : 1; _Complex float f; \
        Lanes g; volatile wchar_t h[2][3]; char16_t i; long double j; bool k; struct { int64_t l : 2; \
        int64_t m : 60; }; uint16_t n : 9;";
    let text = format!(
        "{BEFORE}struct XLA_FFI_Ages {{ {fields} }};\n\
         struct __attribute__((packed)) XLA_FFI_Packed {{ int a : 3; int64_t b : 62; int c : 30; }};\n"
    );
    let clang = match Source::from_text(Path::new("ages.h"), text.clone()).read(Reader::Clang) {
        Ok(abi) => abi,
        Err(Error::Missing(why)) => return skip("ages of debug information", &why),
        Err(error) => panic!("{error}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "{text} XLA_FFI_Ages* ages; XLA_FFI_Packed* packed; XLA_FFI_Ages a; XLA_FFI_Packed p;"
    );
    for compiler in cpp_compilers("every_age_of_debug_information_tells_the_same") {
        for age in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
            let library = library_of_text(folder.path(), "ages", compiler, &text, &[age]);
            let library = std::fs::read(library.unwrap()).unwrap();
            let found = dwarf::read_library(&library).unwrap();
            for name in ["XLA_FFI_Ages", "XLA_FFI_Packed"] {
                let layout = &found[0].structs[name];
                for (is, was) in layout.fields.iter().zip(&clang.structs[name].fields) {
                    assert_eq!(is, was, "{compiler} {age}");
                }
                assert_eq!(layout.size, clang.structs[name].size);
            }
        }
    }
}
