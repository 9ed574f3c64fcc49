//! What can stand as a name in a language: a test of a mirror is code, and a name that is none would be code of its own.

use crate::emit::Language;

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Type,
    Field,
    Value,
}

impl Kind {
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Type => "a type",
            Self::Field => "a field",
            Self::Value => "a value",
        }
    }
}

const C: &str = "_Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert _Thread_local auto \
     break case char const continue default do double else enum extern float for goto if inline int long register restrict \
     return short signed sizeof static struct switch typedef union unsigned void volatile while";
const CPP: &str = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl \
     const const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern \
     false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq \
     private protected public register reinterpret_cast return short signed sizeof static static_assert static_cast struct \
     switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile \
     wchar_t while xor xor_eq";
const RUST: &str = "Self abstract as async await become box break const continue do dyn else enum extern false final fn for \
     gen if impl in let loop macro match mod move mut override priv pub ref return static struct trait true try type typeof \
     unsafe unsized use virtual where while yield";
const PYTHON: &str = "False None True and as assert async await break class continue def del elif else except finally for \
     from global if import in is lambda nonlocal not or pass raise return try while with yield";
const ZIG: &str = "addrspace align allowzero and anyframe anytype asm async await break callconv catch comptime const \
     continue defer else enum errdefer error export extern fn for if inline linksection noalias noinline nosuspend opaque \
     or orelse packed pub resume return struct suspend switch test threadlocal try union unreachable usingnamespace var \
     volatile while";
const GO: &str = "break case chan const continue default defer else fallthrough for func go goto if import interface map \
     package range return select struct switch type var";

/// Whether `name` can stand for such a thing in the test of a mirror. A keyword that is upstream's own name (`is_own`) is
/// left to the mirror, which cannot have it either.
pub(crate) fn is_name(language: Language, kind: Kind, name: &str, is_own: bool) -> bool {
    let word = |word: &str| is_word(language, word, is_own);
    match (language, kind) {
        (Language::C | Language::Cpp, Kind::Type) => {
            let tags = ["struct ", "union "];
            let tagged = tags.iter().find_map(|tag| name.strip_prefix(tag));
            scoped(language, tagged.unwrap_or(name), word)
        }
        // Where a mirror has a struct in place of fields.
        (Language::C | Language::Cpp | Language::Go, Kind::Field) => name.split('.').all(word),
        (Language::Rust, Kind::Field) => {
            let is_place =
                |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            name.split('.').all(|part| word(part) || is_place(part))
        }
        // These are looked up by one name each.
        (Language::Python, _) | (Language::Zig, Kind::Field) => word(name),
        (Language::Zig | Language::Go, _) => name.split('.').all(word),
        (Language::C | Language::Cpp | Language::Rust, _) => scoped(language, name, word),
    }
}

/// A name, with its namespaces or modules where the language has them.
fn scoped(language: Language, name: &str, word: impl Fn(&str) -> bool) -> bool {
    if language == Language::C {
        return word(name);
    }
    let name = name.strip_prefix("::").unwrap_or(name);
    let (modules, last) = name.rsplit_once("::").unwrap_or(("", name));
    let is_root = |part| language == Language::Rust && ["crate", "self", "super"].contains(&part);
    let mut modules = modules.split("::").filter(|_| name != last);
    modules.all(|part| is_root(part) || word(part)) && word(last)
}

fn is_word(language: Language, word: &str, is_own: bool) -> bool {
    let raw = word
        .strip_prefix("r#")
        .filter(|_| language == Language::Rust);
    let letters = raw.unwrap_or(word);
    let is_letter = |c: char| c == '_' || c.is_alphabetic();
    let keywords = match language {
        Language::C => C,
        Language::Cpp => CPP,
        Language::Rust => RUST,
        Language::Python => PYTHON,
        Language::Zig => ZIG,
        Language::Go => GO,
    };
    let is_keyword = || {
        let paths = ["crate", "self", "super"];
        let is_path = language == Language::Rust && paths.contains(&word);
        is_path || keywords.split_whitespace().any(|keyword| keyword == word)
    };
    letters.starts_with(is_letter)
        && letters.chars().all(|c| is_letter(c) || c.is_numeric())
        && letters != "_"
        && (is_own || !is_keyword())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Language; 6] = [
        Language::C,
        Language::Cpp,
        Language::Rust,
        Language::Python,
        Language::Zig,
        Language::Go,
    ];

    #[test]
    fn what_is_no_name_is_none_anywhere() {
        for name in [
            "",
            " ",
            "_",
            "a b",
            "1x",
            "x-y",
            "x::",
            "x.",
            "::",
            ".",
            "a\nb",
            "a;b",
            "a\"b",
            "a)b",
            "a//",
            "a\\",
            "for",
            "x::y z",
            "r#",
            "struct ",
            "a<b>",
            "a\u{202e}b",
        ] {
            for language in ALL {
                for kind in [Kind::Type, Kind::Field, Kind::Value] {
                    assert!(
                        !is_name(language, kind, name, false),
                        "{language:?} {kind:?} {name:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn names_are_those_of_the_language() {
        use Language::{C, Cpp, Go, Python, Rust, Zig};
        for (name, kind, languages) in [
            ("Buffer_2", Kind::Type, &ALL[..]),
            ("größe", Kind::Field, &ALL),
            ("struct Buffer", Kind::Type, &[C, Cpp]),
            ("ffi::Buffer", Kind::Type, &[Cpp, Rust]),
            ("::ffi::Stage::Execute", Kind::Value, &[Cpp, Rust]),
            ("crate::ffi::Buffer", Kind::Type, &[Cpp, Rust]),
            ("crate", Kind::Type, &[C, Cpp, Python, Zig, Go]),
            ("Stage.Execute", Kind::Value, &[Zig, Go]),
            ("inner.rank", Kind::Field, &[C, Cpp, Rust, Go]),
            ("r#type", Kind::Field, &[Rust]),
            ("0", Kind::Field, &[Rust]),
            ("class", Kind::Type, &[C, Rust, Zig, Go]),
            ("type", Kind::Field, &[C, Cpp, Python, Zig]),
        ] {
            for language in ALL {
                let expected = languages.contains(&language);
                assert_eq!(
                    is_name(language, kind, name, false),
                    expected,
                    "{language:?} {name}"
                );
            }
        }
        // Upstream's own.
        assert!(is_name(Rust, Kind::Field, "type", true));
    }
}
