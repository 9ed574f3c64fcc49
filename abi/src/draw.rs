//! Draws structs as text, with their bytes, their holes and the fields that moved.

use crate::declared::Edition;
use crate::diff::{self, Change, Class};
use crate::model::{Abi, Field, Struct};
use crate::snapshot::Snapshot;
use std::fmt::Write;

/// A struct to draw, with its changes since the most recent edition that has a different layout of the struct.
#[derive(Debug)]
pub struct Picture<'a> {
    /// The name of the struct.
    pub name: &'a str,
    /// The layout of the struct.
    pub layout: &'a Struct,
    /// The most recent older edition with a different layout of the struct, and the changes since that edition.
    pub before: Option<(Edition, Vec<Change>)>,
}

/// Returns pictures of all structs of `snapshot`, or only of the struct named `only`. `older` contains the snapshots to
/// compare with, oldest first.
///
/// ```
/// use xla_ffi_abi::{draw, snapshot};
///
/// let [all @ .., newest] = snapshot::all()? else { panic!() };
/// let older: Vec<_> = all.iter().collect();
/// let name = newest.abi.structs.keys().next().unwrap();
/// let pictures = draw::pictures(newest, &older, Some(name));
/// assert!(pictures[0].text().contains(name.as_str()));
/// # Ok::<(), snapshot::Broken>(())
/// ```
#[must_use]
pub fn pictures<'a>(
    snapshot: &'a Snapshot,
    older: &[&Snapshot],
    only: Option<&str>,
) -> Vec<Picture<'a>> {
    let mut pictures: Vec<Picture<'a>> = snapshot
        .abi
        .structs
        .iter()
        .filter(|(name, _)| only.is_none_or(|only| *name == only))
        .map(|(name, layout)| Picture {
            name,
            layout,
            before: None,
        })
        .collect();
    for old in older.iter().rev() {
        if pictures.iter().all(|picture| picture.before.is_some()) {
            break;
        }
        let changes = diff::changes(&old.abi, &snapshot.abi);
        for picture in pictures.iter_mut().filter(|one| one.before.is_none()) {
            let own = changes.iter().filter(|change| change.owner == picture.name);
            let own: Vec<Change> = own.cloned().collect();
            picture.before = (!own.is_empty()).then_some((old.edition, own));
        }
    }
    pictures
}

/// Returns the full name of the struct `name` in `abi`. `name` may lack the prefix `XLA_FFI_`.
#[must_use]
pub fn find_struct<'a>(abi: &'a Abi, name: &str) -> Option<&'a str> {
    let full = format!("{}{name}", crate::model::PREFIX);
    abi.structs
        .keys()
        .find(|known| known.as_str() == name || **known == full)
        .map(String::as_str)
}

enum Part<'a> {
    Field(&'a Field),
    Hole(u64, u64),
}

impl Part<'_> {
    fn range(&self) -> (u64, u64) {
        match self {
            Self::Field(field) => (field.offset, field.end()),
            Self::Hole(start, end) => (*start, *end),
        }
    }
}

impl Picture<'_> {
    fn parts(&self) -> Vec<Part<'_>> {
        let fields = self.layout.fields.iter().map(Part::Field);
        let holes = self.layout.holes().into_iter();
        let mut parts: Vec<_> = fields
            .chain(holes.map(|(start, end)| Part::Hole(start, end)))
            .collect();
        parts.sort_by_key(Part::range);
        parts
    }

    /// Returns the changes of a field since the edition in `before`, as short texts.
    fn notes(&self, field: &Field) -> Vec<String> {
        let Some((_, changes)) = &self.before else {
            return Vec::new();
        };
        changes
            .iter()
            .filter(|change| change.member.as_deref() == Some(&field.name))
            .map(|change| {
                let was = change.was.as_deref().unwrap_or_default();
                match change.class {
                    Class::AddedAtEnd => "new, at the end".to_owned(),
                    Class::Inserted => "new, in between".to_owned(),
                    Class::Moved => format!("moved, was {was}"),
                    Class::Renamed => format!("was called {was}"),
                    Class::Retyped => format!("was {was}"),
                    Class::Resized => format!("resized, was {was}"),
                    other => other.to_string(),
                }
            })
            .collect()
    }

    /// Returns the changes of the struct that do not belong to one of its current fields, such as removed fields.
    fn remarks(&self) -> Vec<String> {
        let Some((_, changes)) = &self.before else {
            return Vec::new();
        };
        let is_gone = |member: &String| self.layout.field(member).is_none();
        let others = changes
            .iter()
            .filter(|change| change.member.as_ref().is_none_or(is_gone));
        others.map(ToString::to_string).collect()
    }

    fn heading(&self) -> String {
        let mut heading = format!(
            "{} bytes, aligned to {}",
            self.layout.size, self.layout.align
        );
        if let Some(size) = self.layout.struct_size {
            let _ = write!(heading, "; struct_size {size}");
            match self.layout.last_counted() {
                Some(field) if field.end() < self.layout.fields_end() => {
                    let _ = write!(heading, ", counted only up to {}", field.name);
                }
                Some(_) => {}
                None => heading.push_str(", which ends no field"),
            }
        }
        heading
    }

    fn compared(&self) -> Option<String> {
        let (edition, _) = self.before.as_ref()?;
        Some(format!(
            "compared with {} (jaxlib {})",
            edition.name(),
            edition.last_jaxlib.unwrap_or(edition.first_jaxlib)
        ))
    }

    /// Returns the picture as text, with one line per field or hole and one mark per byte.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("{}\n  {}\n", self.name, self.heading());
        if let Some(compared) = self.compared() {
            let _ = writeln!(out, "  {compared}");
        }
        let widths = self.layout.fields.iter().map(|field| field.name.len());
        let width = widths.max().unwrap_or(0);
        for part in self.parts() {
            let (start, end) = part.range();
            let bytes = end.saturating_sub(start);
            match part {
                Part::Field(field) => {
                    let _ = write!(
                        out,
                        "  {start:>4}  {}  {:<width$}  {}",
                        bar(start, bytes, '█'),
                        field.name,
                        field.ty
                    );
                    for note in self.notes(field) {
                        let _ = write!(out, "  <- {note}");
                    }
                }
                Part::Hole(..) => {
                    let _ = write!(
                        out,
                        "  {start:>4}  {}  ({bytes} bytes of nothing)",
                        bar(start, bytes, '░')
                    );
                }
            }
            out.push('\n');
        }
        for remark in self.remarks() {
            let _ = writeln!(out, "  {remark}");
        }
        out
    }
}

/// Returns one mark per byte if all bytes are in one row of eight bytes; otherwise returns the number of bytes as text.
fn bar(start: u64, bytes: u64, mark: char) -> String {
    let column = start % 8;
    if bytes > 8 || column + bytes > 8 {
        return format!("{:<8}", format!("{mark}×{bytes}"));
    }
    let is_marked = |at| (column..column + bytes).contains(&at);
    (0..8)
        .map(|at| if is_marked(at) { mark } else { '·' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot;
    use xla_ffi_sys::Revision;

    fn drawn(revision: Revision, name: &str) -> String {
        let all = snapshot::all().unwrap();
        let edition = Edition::of_revision(revision);
        let at = all.iter().position(|s| s.edition == edition).unwrap();
        let older: Vec<_> = all[..at].iter().collect();
        let pictures = pictures(&all[at], &older, Some(name));
        pictures[0].text()
    }

    #[test]
    fn moved_fields_are_seen() {
        let text = drawn(Revision::R3, "XLA_FFI_Api");
        assert!(text.contains("compared with r2-0.4.35"), "{text}");
        assert!(text.contains("new, in between"), "{text}");
        assert_eq!(text.matches("moved, was byte").count(), 3, "{text}");
    }

    #[test]
    fn holes_are_seen() {
        let text = drawn(Revision::R10, "XLA_FFI_Metadata");
        assert!(text.contains("····░░░░  (4 bytes of nothing)"), "{text}");
        assert!(text.contains("counted only up to traits"), "{text}");
    }
}
