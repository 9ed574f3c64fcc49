//! MLIR's dense arrays: `dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>`, or one value for all elements: `dense<0> : …`.

use super::{MAX_ELEMENTS, Parsed, dtype, packed, push};
use crate::value::attribute_array::Spelling;
use crate::value::parse::Cursor;
use crate::value::{Attribute, DType};

/// Parses the rest of a dense array, after `dense<`.
pub(super) fn dense(cursor: &mut Cursor<'_>) -> Parsed<Attribute> {
    let start = cursor.at;
    // The element type is at the end of the text, so the elements are parsed after it.
    let inside = cursor.take_while(|c| c != '>');
    if cursor.peek().is_none() {
        return Err(cursor.unexpected("'>' after the elements"));
    }
    cursor.expect(">", "after the elements")?;
    cursor.expect(":", "and a tensor type after dense<…>")?;
    let is_vector = cursor.eat("vector<");
    if !is_vector {
        cursor.expect("tensor<", "after dense<…> :")?;
    }
    let dims = dims(cursor, is_vector)?;
    let dtype = dtype(cursor)?;
    cursor.expect(">", "after the tensor's type")?;
    let mut body = Cursor {
        text: &cursor.text[..start + inside.len()],
        at: start,
    };
    let elements = elements(&mut body, &dims, dtype)?;
    Ok(packed(dtype, &elements, Spelling::Dense))
}

/// Parses the dimensions, each followed by `x`.
fn dims(cursor: &mut Cursor<'_>, is_vector: bool) -> Parsed<Vec<usize>> {
    let mut dims = vec![];
    let mut total = 1_usize;
    cursor.skip_space();
    while cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
        let at = cursor.at;
        let digits = cursor.take_while(|c| c.is_ascii_digit());
        let dim = digits.parse::<usize>().ok();
        total = dim
            .and_then(|dim| total.checked_mul(dim))
            .filter(|total| *total <= MAX_ELEMENTS)
            .ok_or_else(|| cursor.error(at..cursor.at, "the tensor is too large"))?;
        dims.extend(dim);
        if is_vector && total == 0 {
            return Err(cursor.error(at..cursor.at, "a vector has no dimension of 0"));
        }
        cursor.expect("x", "after a dimension")?;
    }
    Ok(dims)
}

/// Parses the elements, in lists whose nesting depth is the number of dimensions.
fn elements(body: &mut Cursor<'_>, dims: &[usize], dtype: DType) -> Parsed<Vec<u128>> {
    let total = dims.iter().product();
    let start = body.at;
    let count = |body: &Cursor<'_>, given: usize| {
        let message = format!("the tensor has {total} elements, {given} are given");
        body.error(start..body.text.len(), message)
    };
    let mut elements = vec![];
    body.skip_space();
    match body.peek() {
        None if total == 0 => return Ok(elements),
        None => return Err(count(body, 0)),
        Some('[') => {}
        Some(_) => {
            push(body, dtype, &mut elements)?;
            body.skip_space();
            if body.peek().is_some() {
                return Err(body.unexpected("'>' after the one element, or '[' before several"));
            }
            return Ok(vec![elements[0]; total]);
        }
    }
    // The number of parsed entries in each unfinished list.
    let mut open: Vec<usize> = vec![];
    loop {
        if body.eat("[") {
            let Some(dim) = dims.get(open.len()) else {
                let message = format!("the tensor has {} dimensions", dims.len());
                return Err(body.error(body.at - 1..body.at, message));
            };
            open.push(0);
            if *dim > 0 {
                continue;
            }
        } else if open.len() == dims.len() {
            push(body, dtype, &mut elements)?;
            *open.last_mut().expect("a list is open") += 1;
        } else {
            return Err(body.unexpected("'[': the tensor has more dimensions"));
        }
        // A finished list counts as an entry of its parent.
        while !body.eat(",") {
            body.expect("]", "or ',' in a list of elements")?;
            let given = open.pop().expect("a list is open");
            if given != dims[open.len()] {
                return Err(if dims.len() == 1 {
                    count(body, given)
                } else {
                    let dim = dims[open.len()];
                    let message =
                        format!("the list has {given} entries, the tensor's dimension {dim}");
                    body.error(body.at - 1..body.at, message)
                });
            }
            let Some(outer) = open.last_mut() else {
                body.skip_space();
                return match body.peek() {
                    None => Ok(elements),
                    Some(_) => Err(body.unexpected("'>' after the elements")),
                };
            };
            *outer += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::value::{Attribute, Attributes};

    #[test]
    fn lists_have_the_tensors_shape() {
        let same = |text: &str, wanted: Attribute| {
            let parsed = Attributes::parse(&format!("a = {text}")).expect(text);
            assert_eq!(parsed.get("a"), Some(&wanted), "{text}");
            assert_eq!(Attributes::parse(&parsed.to_string()), Ok(parsed));
        };
        let four = Attribute::array(&[1, 2, 3, 4]);
        same("dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>", four.clone());
        same("dense<[ [1,2],[3,4] ]> : vector<2x2xi32>", four);
        same("dense<1> : vector<2xi32>", Attribute::array(&[1, 1]));
        same("dense<1> : tensor<2xsi8>", Attribute::array(&[1_i8, 1]));
        same("dense<1.0> : tensor<f32>", Attribute::array(&[1.0_f32]));
        let none = Attribute::array::<f32>(&[]);
        for text in [
            "<> : tensor<0xf32>",
            "<[]> : tensor<0xf32>",
            "<[[], []]> : tensor<2x0xf32>",
        ] {
            same(&format!("dense{text}"), none.clone());
        }
    }

    /// Checks that texts are rejected which MLIR's parser in jaxlib 0.4.31 and 0.12.0 rejects.
    #[test]
    fn what_mlir_does_not_read() {
        for text in [
            "[[1], [2, 3]]> : tensor<2x1xi32>",
            "[[1, 2], [3, 4]]> : tensor<4xi32>",
            "[1, 2, 3, 4]> : tensor<2x2xi32>",
            "1 2> : tensor<2xi32>",
            "[1]> : tensor<i32>",
            "> : tensor<1xi32>",
            "1> : vector<0xi32>",
            "1> : tensor<f32>",
        ] {
            let text = format!("a = dense<{text}");
            assert!(Attributes::parse(&text).is_err(), "{text}");
        }
    }
}
