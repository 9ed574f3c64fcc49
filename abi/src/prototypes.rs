//! Functions that a header declares. libclang sees them; a compiler writes nothing about a function that nobody calls,
//! so that the unit for it asks for their types by name. The names are found in the text.

use crate::header::{PROTOTYPE, Source};
use crate::model::Abi;
use crate::snapshot;
use std::collections::{BTreeMap, BTreeSet};

impl Source {
    /// What may be a function that the text declares, by upstream's name; not what it defines.
    pub(crate) fn prototypes(&self) -> BTreeSet<String> {
        let text = in_one_line(self.text());
        let names = declared(&text).into_iter();
        names.filter_map(|name| self.upstream(name)).collect()
    }

    /// The same, and what headers are known to declare where a file that is included may do so.
    pub(crate) fn prototypes_of_all_files(&self) -> BTreeSet<String> {
        let mut names = self.prototypes();
        if self.text().contains("#include \"") {
            let snapshots = snapshot::all().into_iter().flatten();
            let known = snapshots.flat_map(|snapshot| snapshot.abi.prototypes.keys());
            names.extend(known.cloned());
        }
        names
    }
}

/// The line of the unit that gives a function's type a name; nothing where a macro has the function's name.
pub(crate) fn typedef(name: &str) -> String {
    format!("#ifndef {name}\ntypedef decltype({name}) {PROTOTYPE}{name};\n#endif\n")
}

/// The names without those at whose line the compiler stumbled; none where it was not a line of ours. Three lines a
/// name, which follow `lines` others.
pub(crate) fn without(names: &BTreeSet<String>, lines: usize, messages: &str) -> BTreeSet<String> {
    let wrong: BTreeSet<usize> = messages
        .split("unit.cc:")
        .skip(1)
        .filter_map(|rest| rest.split(':').next()?.parse::<usize>().ok())
        .filter_map(|line| Some(line.checked_sub(lines + 1)? / 3))
        .collect();
    let mut kept = names.clone();
    let mut at = 0;
    kept.retain(|_| {
        at += 1;
        !wrong.contains(&(at - 1))
    });
    match kept.len() == names.len() {
        true => BTreeSet::new(),
        false => kept,
    }
}

/// libclang's word on which functions and variables there are holds: it sees the source. Types of those that both know are
/// compared. What nothing uses, compilers leave out of the debug information more or less: enumerations and typedefs
/// within a struct, enumerations without values, constants that are no macros.
pub(crate) fn adopt(clang: &Abi, dwarf: &mut Abi) {
    fn only<V: Clone>(clang: &BTreeMap<String, V>, dwarf: &mut BTreeMap<String, V>) {
        dwarf.retain(|name, _| clang.contains_key(name));
        missing(clang, dwarf);
    }
    fn missing<V: Clone>(clang: &BTreeMap<String, V>, dwarf: &mut BTreeMap<String, V>) {
        for (name, one) in clang {
            dwarf.entry(name.clone()).or_insert_with(|| one.clone());
        }
    }
    only(&clang.prototypes, &mut dwarf.prototypes);
    only(&clang.variables, &mut dwarf.variables);
    dwarf.links.clone_from(&clang.links);
    missing(&clang.enums, &mut dwarf.enums);
    missing(&clang.aliases, &mut dwarf.aliases);
    missing(&clang.constants, &mut dwarf.constants);
}

/// The text with each directive in a line of its own, which may go on in the next, and without comments.
pub(crate) fn in_one_line(text: &str) -> String {
    without_comments(&text.replace("\\\r\n", " ").replace("\\\n", " "))
}

/// The text with blanks for comments.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (before, comment) = rest.split_at(at);
        out.push_str(before);
        let end = match comment.as_bytes().get(1) {
            Some(b'/') => comment.find('\n').unwrap_or(comment.len()),
            Some(b'*') => comment[2..].find("*/").map_or(comment.len(), |end| end + 4),
            _ => {
                out.push('/');
                1
            }
        };
        if end > 1 {
            out.push(' ');
        }
        rest = &comment[end..];
    }
    out.push_str(rest);
    out
}

/// The functions that a text declares for others: nothing with a body, nothing that stays in the file.
fn declared(text: &str) -> BTreeSet<&str> {
    let (mut names, mut own) = (BTreeSet::new(), BTreeSet::new());
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // Where a statement ends; a preprocessor's line is none.
    let mut statement: Vec<&str> = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
    {
        let mut rest = line;
        while let Some(next) = rest.chars().next() {
            let end = match is_word(next) {
                true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                false => next.len_utf8(),
            };
            let (token, behind) = rest.split_at(end);
            rest = behind;
            if matches!(next, ';' | '{' | '}') {
                let stays = statement
                    .iter()
                    .any(|word| matches!(*word, "static" | "inline"));
                let found = match stays || next == '{' {
                    true => &mut own,
                    false => &mut names,
                };
                found.extend(functions(&statement));
                statement.clear();
            } else if !next.is_whitespace() {
                statement.push(token);
            }
        }
    }
    names.retain(|name| !own.contains(name));
    names
}

/// What a statement may declare as a function: the words before its parentheses, behind a type. A macro may stand
/// there too.
fn functions<'a>(statement: &[&'a str]) -> Vec<&'a str> {
    let others = ["typedef", "return", "using", "friend", "="];
    if statement.iter().any(|token| others.contains(token)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut depth = 0_usize;
    for (at, token) in statement.iter().enumerate() {
        match *token {
            "(" => {
                let name = at.checked_sub(1).map(|before| statement[before]);
                let is_name =
                    |name: &&str| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
                found.extend(name.filter(is_name).filter(|_| depth == 0 && at > 1));
                depth += 1;
            }
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn functions_are_found_in_a_text() {
        let text = "/* XLA_FFI_No(void); */ // XLA_FFI_Neither(void);\n#define XLA_FFI_Macro(x) x\n\
            #define XLA_FFI_Long(a) \\\n enum { size = a }; \\\n XLA_FFI_Error* XLA_FFI_More(a)\n\
            extern \"C\" {\nconst XLA_FFI_Api* XLA_FFI_GetApi(void);\nMY_EXPORT int\nXLA_FFI_Get(\n  int a, void (*f)(int));\n}\n\
            typedef void XLA_FFI_Task(void* data);\nstruct XLA_FFI_Api { void (*XLA_FFI_Slot)(void); };\n\
            static inline int XLA_FFI_Help(void) { return XLA_FFI_Get(1, 0); }\nint XLA_FFI_Help(void);\n\
            int XLA_FFI_value = XLA_FFI_Get(2, 0); int Other(void);";
        let source = Source::from_text(Path::new("x.h"), text.to_owned());
        let found: Vec<String> = source.prototypes().into_iter().collect();
        assert_eq!(found, ["XLA_FFI_Get", "XLA_FFI_GetApi"]);
    }

    #[test]
    fn names_that_a_compiler_does_not_know_are_left_out() {
        let names: BTreeSet<String> = ["A", "B", "C"].map(str::to_owned).into();
        let said = |line: usize| format!("/tmp/x/unit.cc:{line}:18: error: 'B' was not declared");
        let kept = without(&names, 10, &said(15));
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), ["A", "C"]);
        assert!(without(&names, 10, &said(9)).is_empty());
    }
}
