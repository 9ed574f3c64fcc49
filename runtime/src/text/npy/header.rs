//! The header of a `.npy` file: NumPy writes a dictionary of Python's.

use crate::value::dtype::Class;
use crate::{DType, Error, Result, Shape};

/// What the header of a `.npy` file says.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    big_endian: bool,
    /// `f`, `i`, `u`, `c`, `b` or `V`.
    pub(super) kind: char,
    width: usize,
    descr: String,
    fortran: bool,
    dims: Vec<i64>,
}

impl Header {
    /// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let broken = |what: &str| Error::invalid(format!("its header has no proper {what}"));
        let [descr, fortran, dims] = entries(text)?;
        let descr = descr.ok_or_else(|| broken("'descr'"))?;
        if descr.starts_with('[') {
            return Err(Error::invalid("it holds records, not numbers"));
        }
        let descr = quoted(descr).ok_or_else(|| broken("'descr'"))?.to_owned();
        let (order, code) = match descr.chars().next() {
            Some(order @ ('<' | '>' | '|' | '=')) => (order, &descr[1..]),
            _ => ('=', descr.as_str()),
        };
        let kind = code.chars().next().ok_or_else(|| broken("'descr'"))?;
        if kind == 'O' {
            return Err(Error::invalid("it holds Python objects, not numbers"));
        }
        // Their unit follows the width: `<M8[ns]`.
        if matches!(kind, 'M' | 'm') {
            return Err(Error::invalid(format!(
                "it holds dates or times ('{descr}'), not numbers: write them with .astype('<i8')"
            )));
        }
        let width = code[kind.len_utf8()..]
            .parse()
            .map_err(|_| broken("'descr'"))?;
        let fortran = match fortran {
            Some("True") => true,
            Some("False") => false,
            _ => return Err(broken("'fortran_order'")),
        };
        let dims = dims.and_then(tuple).ok_or_else(|| broken("'shape'"))?;
        Ok(Self {
            big_endian: order == '>',
            kind,
            width,
            descr,
            fortran,
            dims,
        })
    }

    /// Checks the header against the expected shape; gives the bytes of an element.
    pub(super) fn check(&self, shape: &Shape) -> Result<usize> {
        let dtype = shape.dtype();
        if self.big_endian && self.width > 1 {
            return Err(Error::invalid(format!(
                "its numbers are big-endian ('{}'); write them with .astype('<{}{}')",
                self.descr, self.kind, self.width
            )));
        }
        let (kinds, width) = expected(dtype);
        if !kinds.contains(self.kind) || self.width != width {
            return Err(Error::invalid(format!(
                "its elements are '{}', {dtype} is expected: write them with .astype('{}')",
                self.descr,
                descr(dtype)
            )));
        }
        if self.fortran && self.dims.len() > 1 {
            return Err(Error::invalid(
                "it is in Fortran order; write it with numpy.ascontiguousarray",
            ));
        }
        if self.dims != shape.dims() {
            return Err(Error::invalid(format!(
                "its shape is {:?}, {:?} is expected",
                self.dims,
                shape.dims()
            )));
        }
        Ok(width)
    }
}

/// The values of a header's three keys, as they are written.
fn entries(text: &str) -> Result<[Option<&str>; 3]> {
    let broken = || Error::invalid("its header is not that of a .npy file");
    let mut rest = text.trim().strip_prefix('{').ok_or_else(broken)?;
    let mut found = [None; 3];
    loop {
        rest = rest.trim_start();
        if rest == "}" {
            return Ok(found);
        }
        let key = quoted(rest).ok_or_else(broken)?;
        let value = rest[key.len() + 2..].trim_start().strip_prefix(':');
        let value = value.ok_or_else(broken)?.trim_start();
        // No value holds another but a list of records, which is refused as it begins.
        let end = match value.chars().next() {
            Some('[') => value.len(),
            Some('(') => value.find(')').ok_or_else(broken)? + 1,
            Some('\'') => quoted(value).ok_or_else(broken)?.len() + 2,
            _ => value.find([',', '}']).ok_or_else(broken)?,
        };
        let at = ["descr", "fortran_order", "shape"]
            .iter()
            .position(|known| *known == key);
        let at = at.filter(|at| found[*at].is_none()).ok_or_else(broken)?;
        found[at] = Some(value[..end].trim_end());
        if at == 0 && value.starts_with('[') {
            return Ok(found);
        }
        rest = value[end..].trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest == "}" => {}
            None => return Err(broken()),
        }
    }
}

/// What stands between the single quotes that a text begins with.
fn quoted(text: &str) -> Option<&str> {
    let (inside, _) = text.strip_prefix('\'')?.split_once('\'')?;
    Some(inside)
}

/// The numbers of `(2, 3)`, `(2,)` or `()`; Python 2 wrote an L behind some.
fn tuple(text: &str) -> Option<Vec<i64>> {
    let inside = text.strip_prefix('(')?.strip_suffix(')')?.trim();
    if inside.is_empty() {
        return Some(vec![]);
    }
    let (numbers, last) = inside.rsplit_once(',')?;
    let numbers = if last.trim().is_empty() {
        numbers
    } else {
        inside
    };
    let number = |part: &str| {
        let part = part.trim();
        part.strip_suffix('L').unwrap_or(part).parse().ok()
    };
    numbers.split(',').map(number).collect()
}

/// The kinds of `descr` that may hold a type, and their width. What NumPy has no type for comes as
/// raw bytes (`V`, as ml_dtypes writes them) or as the bits in an unsigned integer.
fn expected(dtype: DType) -> (&'static str, usize) {
    let width = dtype.bits().div_ceil(8);
    match (dtype.class(), dtype) {
        (Class::Bool, _) => ("b", 1),
        (Class::Signed, _) if dtype.is_packed() => ("iV", 1),
        (Class::Unsigned, _) if dtype.is_packed() => ("uV", 1),
        (Class::Signed, _) => ("i", width),
        (Class::Unsigned, _) => ("u", width),
        (Class::Float, DType::F16 | DType::F32 | DType::F64) => ("f", width),
        (Class::Complex, _) => ("c", width),
        _ => ("Vu", width),
    }
}

/// How NumPy calls a type, or what it has in its place.
pub(super) fn descr(dtype: DType) -> String {
    let (kinds, width) = expected(dtype);
    let kind = kinds.chars().next().unwrap_or('V');
    let order = if width == 1 { '|' } else { '<' };
    format!("{order}{kind}{width}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What NumPy does not read.
    #[test]
    fn headers_that_are_none() {
        let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n";
        let header = Header::parse(good).unwrap();
        for fine in [
            "{'shape':(2,3),'fortran_order':False,'descr':'<f4'}",
            " { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 2L , 3L, ) } ",
        ] {
            assert_eq!(Header::parse(fine).unwrap(), header, "{fine}");
        }
        for (from, to) in [
            ("}", "} s"),
            ("}", ""),
            ("{", ""),
            (", }", ", 'shape': (3, 2)}"),
            (", }", ", 'more': 1}"),
            ("'shape': (2, 3), ", ""),
            ("False, ", "False "),
            ("False", "Falsehood"),
            ("(2, 3)", "(2, , 3)"),
            ("(2, 3)", "(6)"),
            ("(2, 3)", "(2 3,)"),
            ("(2, 3)", "2, 3"),
            ("(2, 3)", "(2, 3"),
            ("'<f4'", "'<f4"),
        ] {
            let wrong = good.replacen(from, to, 1);
            assert_ne!(wrong, good);
            assert!(Header::parse(&wrong).is_err(), "{wrong}");
        }
    }
}
