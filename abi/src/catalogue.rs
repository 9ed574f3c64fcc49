//! What can be found about a header or a mirror, under the number by which lists and other programs know it.

use crate::diff::Class;

/// What a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `XF303`. It never changes its meaning, and none is used again.
    pub id: &'static str,
    /// Its name for programs.
    pub name: &'static str,
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

const fn rule(
    id: &'static str,
    name: &'static str,
    meaning: &'static str,
    remedy: &'static str,
) -> Rule {
    Rule {
        id,
        name,
        meaning,
        remedy,
    }
}

const COPY: &str =
    "Copy the header of the jaxlib that you mean, or allow the difference with its reason.";

/// All of them, in the order of their numbers. The book lists them in the same words.
pub const CATALOGUE: [Rule; 17] = [
    rule(
        "XF301",
        "Added",
        "A struct, enumeration, function type or name that the revision does not have.",
        COPY,
    ),
    rule(
        "XF302",
        "AddedAtEnd",
        "A field or slot behind all others.",
        COPY,
    ),
    rule("XF303", "Inserted", "A field or slot between others.", COPY),
    rule("XF304", "Moved", "A field or slot at another offset.", COPY),
    rule("XF305", "Resized", "Another size.", COPY),
    rule("XF306", "Retyped", "The same size, another type.", COPY),
    rule(
        "XF307",
        "Renamed",
        "The same thing under another name.",
        COPY,
    ),
    rule(
        "XF308",
        "Removed",
        "Something of the revision is not there.",
        COPY,
    ),
    rule(
        "XF309",
        "EnumValueAdded",
        "An enumerator that the revision does not have.",
        COPY,
    ),
    rule(
        "XF310",
        "EnumValueChanged",
        "An enumerator with another value.",
        COPY,
    ),
    rule(
        "XF311",
        "EnumValueRenamed",
        "An enumerator under another name.",
        COPY,
    ),
    rule(
        "XF312",
        "EnumValueRemoved",
        "An enumerator of the revision is not there.",
        COPY,
    ),
    rule(
        "XF313",
        "SizeMacroChanged",
        "`NAME_STRUCT_SIZE` counts up to another field.",
        COPY,
    ),
    rule(
        "XF314",
        "ConstantChanged",
        "A version macro or an extension's number has another value.",
        COPY,
    ),
    rule(
        "XF321",
        "Mirror",
        "A mirror states something otherwise than the revision.",
        "Mend the mirror, or say in the naming map what it mirrors.",
    ),
    rule(
        "XF331",
        "Unreadable",
        "A header, a layout or a library cannot be read.",
        "The message says what is wrong with it; `-I` and `-D` give what a header needs.",
    ),
    rule(
        "XF332",
        "NotJudged",
        "A mirror states nothing of the revision, so that nothing was judged.",
        "Say in a naming map what it mirrors, or build the library with `-g`.",
    ),
];

/// What a mirror states otherwise.
pub const MIRROR: &Rule = &CATALOGUE[14];
/// What cannot be read.
pub const UNREADABLE: &Rule = &CATALOGUE[15];
/// What states nothing of a revision.
pub const NOT_JUDGED: &Rule = &CATALOGUE[16];

impl Class {
    /// The number of a change.
    #[must_use]
    pub fn rule(self) -> &'static Rule {
        &CATALOGUE[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_number_and_the_book_has_it() {
        assert!(CATALOGUE.is_sorted_by_key(|rule| rule.id));
        // The last class, and the first: what stands between them is in the same order.
        assert_eq!(Class::Added.rule().name, format!("{:?}", Class::Added));
        for class in [
            Class::AddedAtEnd,
            Class::Inserted,
            Class::Moved,
            Class::Resized,
            Class::Retyped,
            Class::Renamed,
            Class::Removed,
            Class::EnumValueAdded,
            Class::EnumValueChanged,
            Class::EnumValueRenamed,
            Class::EnumValueRemoved,
            Class::SizeMacroChanged,
            Class::ConstantChanged,
        ] {
            assert_eq!(class.rule().name, format!("{class:?}"));
        }
        assert_eq!(MIRROR.name, "Mirror");
        assert_eq!(UNREADABLE.name, "Unreadable");
        assert_eq!(NOT_JUDGED.name, "NotJudged");
        let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/findings.md");
        let book = std::fs::read_to_string(book).unwrap();
        let lines = book.lines().filter(|line| line.starts_with("| XF3"));
        let expected = CATALOGUE
            .iter()
            .map(|rule| format!("| {} | {} | {} |", rule.id, rule.meaning, rule.remedy));
        assert_eq!(lines.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}
