//! Draws the bytes, holes and moved fields of structs.

use crate::declared::Edition;
use crate::diff::{self, Change, Class};
use crate::model::{Abi, Field, Struct};
use crate::snapshot::Snapshot;
use std::fmt::Write;

/// A struct next to its most recent different layout.
#[derive(Debug)]
pub struct Picture<'a> {
    /// The struct's name.
    pub name: &'a str,
    /// The struct's layout.
    pub layout: &'a Struct,
    /// The newest older edition with another layout, and what changed since.
    pub before: Option<(Edition, Vec<Change>)>,
}

/// Returns pictures of the structs of `snapshot`, or of the struct called `only`. `older` are the snapshots to
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

/// Returns the name that `abi` has for the struct `name`, with or without prefix.
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

    /// Returns the changes of a field since the older layout.
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

    /// Returns the changes that are not about a remaining field.
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

    /// Renders the picture as text: one line per field, one mark per byte.
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

/// Returns one mark per byte if the bytes fit one row of eight, otherwise their number.
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

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --line: #c6ccd4; --field: #e8eef7;
  --slot: #e6f2ea; --new: #ffe9b8; --moved: #ffd3cc; --hole: #0001; --dim: #68717d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --paper: #16191d; --line: #3c444f;
  --field: #25303f; --slot: #20372a; --new: #55430f; --moved: #5c2a22; --hole: #fff2; --dim: #98a2af; } }
body { font: 14px/1.4 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .2rem; font-family: ui-monospace, monospace; }
p { margin: .2rem 0; color: var(--dim); } nav { columns: 3 18rem; font-size: .85rem; }
nav a { display: block; color: inherit; }
.key span { display: inline-block; padding: 0 .6rem; margin-right: .5rem; border: 1px solid var(--line); color: var(--ink); }
.bytes { display: grid; grid-template-columns: 3.5rem repeat(8, minmax(0, 1fr)); gap: 2px; margin-top: .5rem; grid-auto-rows: minmax(2.4em, auto);
  font-family: ui-monospace, monospace; font-size: .8rem; }
.bytes > * { padding: .25rem .4rem; overflow: hidden; }
.at { color: var(--dim); text-align: right; }
.cell { border: 1px solid var(--line); background: var(--field); }
.cell.slot { background: var(--slot); } .cell.new { background: var(--new); } .cell.moved { background: var(--moved); }
.cell.hole { background: repeating-linear-gradient(45deg, transparent 0 5px, var(--hole) 5px 10px); color: var(--dim); }
.cell b { display: block; overflow-wrap: anywhere; } .cell i { font-style: normal; color: var(--dim); overflow-wrap: anywhere; }
.cell u { text-decoration: none; display: block; font-weight: 600; }
";

/// Returns a self-contained page.
#[must_use]
pub fn html(title: &str, pictures: &[Picture<'_>]) -> String {
    let title = escape(title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n\
         <p class=\"key\"><span class=\"cell\">field</span><span class=\"cell slot\">function</span>\
         <span class=\"cell new\">new</span><span class=\"cell moved\">moved or changed</span>\
         <span class=\"cell hole\">hole</span> A row is eight bytes.</p>\n"
    );
    if pictures.len() > 1 {
        out.push_str("<nav>");
        for picture in pictures {
            let name = escape(picture.name);
            let _ = write!(out, "<a href=\"#{name}\">{name}</a>");
        }
        out.push_str("</nav>\n");
    }
    for picture in pictures {
        section(picture, &mut out);
    }
    out.push_str("</body></html>\n");
    out
}

fn section(picture: &Picture<'_>, out: &mut String) {
    let name = escape(picture.name);
    let _ = writeln!(
        out,
        "<section id=\"{name}\"><h2>{name}</h2>\n<p>{}</p>",
        escape(&picture.heading())
    );
    if let Some(compared) = picture.compared() {
        let _ = writeln!(out, "<p>{}</p>", escape(&compared));
    }
    out.push_str("<div class=\"bytes\">\n");
    for part in picture.parts() {
        let (start, end) = part.range();
        for (from, to) in pieces(start, end) {
            let row = from / 8 + 1;
            let rows = (to - from).div_ceil(8);
            if from % 8 == 0 {
                let _ = write!(
                    out,
                    "<div class=\"at\" style=\"grid-column:1;grid-row:{row}/span {rows}\">{from}</div>"
                );
            }
            let _ = write!(
                out,
                "<div class=\"cell{}\" style=\"grid-column:{}/span {};grid-row:{row}/span {rows}\">",
                class(picture, &part),
                from % 8 + 2,
                (to - from).min(8)
            );
            match &part {
                Part::Field(field) => {
                    let _ = write!(
                        out,
                        "<b>{}</b><i>{}</i>",
                        escape(&field.name),
                        escape(&field.ty)
                    );
                    for note in picture.notes(field) {
                        let _ = write!(out, "<u>{}</u>", escape(&note));
                    }
                }
                Part::Hole(start, end) => {
                    let _ = write!(out, "{} bytes", end - start);
                }
            }
            out.push_str("</div>\n");
        }
    }
    out.push_str("</div>\n");
    for remark in picture.remarks() {
        let _ = writeln!(out, "<p>{}</p>", escape(&remark));
    }
    out.push_str("</section>\n");
}

fn class(picture: &Picture<'_>, part: &Part<'_>) -> &'static str {
    let Part::Field(field) = part else {
        return " hole";
    };
    let notes = picture.notes(field);
    if notes.iter().any(|note| note.starts_with("new")) {
        " new"
    } else if !notes.is_empty() {
        " moved"
    } else if field.is_function() {
        " slot"
    } else {
        ""
    }
}

/// Cuts a range into pieces for the grid: the whole rows in one piece, and the partial rows before and after them.
fn pieces(start: u64, end: u64) -> Vec<(u64, u64)> {
    let first = start.checked_next_multiple_of(8).unwrap_or(end).min(end);
    let last = (end - end % 8).max(first);
    let pieces = [(start, first), (first, last), (last, end)];
    pieces.into_iter().filter(|(from, to)| from < to).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot;
    use xla_ffi_sys::Revision;

    fn drawn(revision: Revision, name: &str) -> (String, String) {
        let all = snapshot::all().unwrap();
        let edition = Edition::of_revision(revision);
        let at = all.iter().position(|s| s.edition == edition).unwrap();
        let older: Vec<_> = all[..at].iter().collect();
        let pictures = pictures(&all[at], &older, Some(name));
        (pictures[0].text(), html("page", &pictures))
    }

    #[test]
    fn moved_fields_are_seen() {
        let (text, html) = drawn(Revision::R3, "XLA_FFI_Api");
        assert!(text.contains("compared with r2-0.4.35"), "{text}");
        assert!(text.contains("new, in between"), "{text}");
        assert_eq!(text.matches("moved, was byte").count(), 3, "{text}");
        assert_eq!(html.matches("moved, was byte").count(), 3);
    }

    #[test]
    fn holes_are_seen() {
        let (text, html) = drawn(Revision::R10, "XLA_FFI_Metadata");
        assert!(text.contains("····░░░░  (4 bytes of nothing)"), "{text}");
        assert!(text.contains("counted only up to traits"), "{text}");
        assert!(
            html.contains("class=\"cell hole\" style=\"grid-column:6/span 4"),
            "{html}"
        );
    }

    #[test]
    fn the_page_fetches_nothing() {
        let (_, html) = drawn(Revision::R10, "XLA_FFI_CallFrame");
        for foreign in ["http", "src=", "<script", "@import", "url("] {
            assert!(!html.contains(foreign), "{foreign}");
        }
    }
}
