//! The text of attributes, `--attrs` of the command line.

use crate::text::{text, told};
use xla_ffi_runtime::Attributes;

pub(crate) fn attack(input: &[u8]) {
    let Some(text) = text(input) else { return };
    if has_large_splat(text) {
        return;
    }
    match Attributes::parse(text) {
        Err(error) => told(text, &error),
        Ok(attributes) => {
            let printed = attributes.to_string();
            let again = Attributes::parse(&printed);
            let again =
                again.unwrap_or_else(|error| panic!("{printed} does not read back: {error}"));
            assert_eq!(again, attributes, "as it was printed: {printed}");
            assert_eq!(again.to_string(), printed);
        }
    }
}

/// `dense<0> : tensor<1000000xi8>` means a million elements: its memory is what it asks for.
fn has_large_splat(text: &str) -> bool {
    text.split("tensor<").skip(1).any(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == 'x' || c.is_whitespace()));
        let dims = rest[..end.unwrap_or(rest.len())].split('x');
        let sizes = dims.filter_map(|dim| dim.trim().parse::<usize>().ok());
        sizes.fold(1_usize, usize::saturating_mul) > 1 << 12
    })
}
