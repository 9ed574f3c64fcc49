//! The numbers, meanings and remedies of findings about ABI headers and mirrors.

use crate::diff::Class;

/// An entry of the catalogue: one kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The number of the finding, for example `XF303`. Its meaning never changes, and numbers are not reused.
    pub id: &'static str,
    /// The name of the finding in machine-readable output.
    pub name: &'static str,
    /// The meaning of the finding, in one sentence.
    pub meaning: &'static str,
    /// An action that fixes the problem.
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

/// All kinds of findings about ABI headers and mirrors, in the order of their numbers. docs/findings.md contains the
/// same texts.
pub const CATALOGUE: [Rule; 17] = [
    rule(
        "XF301",
        "Added",
        "A struct, enumeration, function type or name that the revision does not have.",
        "Remove the declaration from the header, or add it to the allow-list.",
    ),
    rule(
        "XF302",
        "AddedAtEnd",
        "A field or slot after all fields of the revision.",
        "Remove the field or slot, or require the revision that has it with `--revision`.",
    ),
    rule(
        "XF303",
        "Inserted",
        "A field or slot between those of the revision.",
        "Remove the field or slot, or move it to the end of the struct.",
    ),
    rule(
        "XF304",
        "Moved",
        "A field or slot at a different offset.",
        "Restore the order and the sizes of the fields before it.",
    ),
    rule(
        "XF305",
        "Resized",
        "A type or field of a different size.",
        "Restore the integer width, array length or packing of the type.",
    ),
    rule(
        "XF306",
        "Retyped",
        "A field of the same size and a different type, or a function with a different signature.",
        "Restore the type, parameters or return type of the revision.",
    ),
    rule(
        "XF307",
        "Renamed",
        "A declaration with a different name.",
        "Restore the name, or pass `--prefix` or `--namespace` for a renamed copy.",
    ),
    rule(
        "XF308",
        "Removed",
        "A declaration of the revision is missing.",
        "Restore the declaration, or include the header that has it with `-I`.",
    ),
    rule(
        "XF309",
        "EnumValueAdded",
        "An enumerator that the revision does not have.",
        "Remove the enumerator, or require the revision that has it with `--revision`.",
    ),
    rule(
        "XF310",
        "EnumValueChanged",
        "An enumerator with a different value.",
        "Restore the value of the enumerator.",
    ),
    rule(
        "XF311",
        "EnumValueRenamed",
        "An enumerator with a different name.",
        "Restore the name of the enumerator.",
    ),
    rule(
        "XF312",
        "EnumValueRemoved",
        "An enumerator of the revision is missing.",
        "Add the enumerator with its value in the revision.",
    ),
    rule(
        "XF313",
        "SizeMacroChanged",
        "`NAME_STRUCT_SIZE` ends at a different field.",
        "Define the macro with the field at which the revision ends.",
    ),
    rule(
        "XF314",
        "ConstantChanged",
        "A version macro or an extension's number has a different value.",
        "Restore the value, or require the revision of that version with `--revision`.",
    ),
    rule(
        "XF321",
        "Mirror",
        "A mirror differs from the revision.",
        "Correct the mirror, or map its names with `--names`.",
    ),
    rule(
        "XF331",
        "Unreadable",
        "A header, a layout or a library cannot be read.",
        "Follow the message; pass include folders with `-I` and macros with `-D`.",
    ),
    rule(
        "XF332",
        "NotJudged",
        "A mirror contains nothing of the revision, so nothing was judged.",
        "Map the mirror's names with `--names`, or build the library with `-g`.",
    ),
];

/// The finding that a mirror differs from the ABI.
pub const MIRROR: &Rule = &CATALOGUE[14];
/// The finding that a file cannot be read.
pub const UNREADABLE: &Rule = &CATALOGUE[15];
/// The finding that a mirror contains nothing to compare.
pub const NOT_JUDGED: &Rule = &CATALOGUE[16];

impl Class {
    /// Returns the catalogue's entry for this class of changes.
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
        // The names of the first and the last class show that `Class` and `CATALOGUE` have the same order.
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
