//! A model that differs in any way is never taken for equal.
//!
//! `XLA_FFI_CASES` sets the number of cases.

use proptest::prelude::*;
use xla_ffi_abi::diff;
use xla_ffi_abi::model::{Abi, Field};
use xla_ffi_abi::snapshot;
use xla_ffi_testing::damage::{cases, runner};

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
