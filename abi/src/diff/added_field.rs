//! Where an added field stands: in padding that was there before, or in a struct that others hold by value.
//! Its severity is judged there.

use crate::change::{Change, Class, Subject};
use crate::meaning;
use crate::model::{Abi, Struct};

/// Structs in structs in structs: no deeper.
const DEPTH: usize = 8;

pub(super) fn assess(old: &Abi, new: &Abi, changes: &mut [Change]) {
    for change in changes {
        let adds = matches!(change.class, Class::Inserted | Class::AddedAtEnd)
            && matches!(change.subject, Subject::Field | Subject::Slot);
        let (Some(was), Some(is)) = (
            old.structs.get(&change.owner),
            new.structs.get(&change.owner),
        ) else {
            continue;
        };
        if !adds {
            continue;
        }
        if was.size == is.size && has_same_offsets(was, is) {
            change.effect = meaning::in_padding(&change.owner);
        } else if was.size != is.size {
            if let Some(effect) = embedded(old, new, &change.owner, 0) {
                change.effect = effect;
            }
        }
    }
}

/// Whether every field that both have stands where it stood.
fn has_same_offsets(was: &Struct, is: &Struct) -> bool {
    was.fields.iter().all(|field| {
        is.field(&field.name)
            .is_none_or(|other| other.offset == field.offset)
    })
}

/// What the growth of a struct means for those that hold it by value; `None` where nobody does.
fn embedded(old: &Abi, new: &Abi, name: &str, depth: usize) -> Option<meaning::Effect> {
    let array = format!("[{name}; ");
    let mut worst = None;
    for (holder, layout) in &old.structs {
        if depth > DEPTH || !new.structs.contains_key(holder) {
            continue;
        }
        let Some(field) = layout
            .fields
            .iter()
            .rev()
            .find(|field| field.ty == name || field.ty.starts_with(&array))
        else {
            continue;
        };
        let next = layout
            .fields
            .iter()
            .filter(|other| other.offset >= field.end())
            .min_by_key(|other| other.offset);
        let effect = match next {
            Some(next) => meaning::pushed(holder, &next.name),
            None => embedded(old, new, holder, depth + 1).unwrap_or_else(|| meaning::grown(holder)),
        };
        if worst
            .as_ref()
            .is_none_or(|known: &meaning::Effect| known.severity() < effect.severity())
        {
            worst = Some(effect);
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use crate::declared::Edition;
    use crate::diff::{Class, changes};
    use crate::meaning::Severity;
    use crate::model::Field;

    /// A field put into the first hole of a struct of the newest header: what it means, in both directions.
    fn in_first_hole(name: &str) -> (Severity, Severity, String) {
        let old = Edition::find("r10").unwrap().declared();
        let mut new = old.clone();
        let layout = new.structs.get_mut(name).unwrap();
        let (start, end) = layout.holes()[0];
        layout.fields.push(Field {
            name: "added".to_owned(),
            ty: "u32".to_owned(),
            offset: start,
            size: end - start,
        });
        layout.fields.sort_by_key(|field| field.offset);
        let changed = changes(&old, &new);
        let change = changed
            .iter()
            .find(|change| change.member.as_deref() == Some("added"))
            .unwrap();
        assert!(matches!(change.class, Class::Inserted | Class::AddedAtEnd));
        let effect = &change.effect;
        let words = format!("{} {}", effect.old_on_new.why, effect.new_on_old.why);
        assert!(
            !words.contains("other offset") && !words.contains("past the end"),
            "{words}"
        );
        (
            effect.old_on_new.severity,
            effect.new_on_old.severity,
            words,
        )
    }

    #[test]
    fn a_field_in_padding_moves_nothing() {
        // The runtime fills it: only a newer handler misses it.
        let (old, new, words) = in_first_hole("XLA_FFI_Buffer");
        assert_eq!((old, new), (Severity::None, Severity::Breaks), "{words}");
        // The handler fills it: only a newer runtime misses it.
        let (old, new, words) = in_first_hole("XLA_FFI_Error_Create_Args");
        assert_eq!((old, new), (Severity::Breaks, Severity::None), "{words}");
    }

    #[test]
    fn growth_is_judged_where_the_struct_is_held() {
        let old = Edition::find("r10").unwrap().declared();
        let mut new = old.clone();
        // Behind `attrs` in the call frame stands `future`; `args` comes before both.
        for name in ["XLA_FFI_Args", "XLA_FFI_Attrs"] {
            let layout = new.structs.get_mut(name).unwrap();
            layout.fields.push(Field {
                name: "more".to_owned(),
                ty: "u64".to_owned(),
                offset: layout.size,
                size: 8,
            });
            layout.size += 8;
        }
        for change in changes(&old, &new) {
            if change.member.as_deref() == Some("more") {
                let (old, new) = (&change.effect.old_on_new, &change.effect.new_on_old);
                assert_eq!(
                    (old.severity, new.severity),
                    (Severity::Breaks, Severity::Breaks),
                    "{change:?}"
                );
                assert!(
                    old.why.contains("by value in XLA_FFI_CallFrame, before"),
                    "{old:?}"
                );
            }
        }
    }
}
