//! The header of a `.npy` file, which contains a Python dictionary.

use crate::value::dtype::Class;
use crate::value::{DType, Shape};
use xla_ffi_sys::{Error, Result};

/// The contents of the header of a `.npy` file.
pub(super) struct Header {
    /// NumPy's type descriptor, for example `<f4`.
    descr: String,
    fortran: bool,
    dims: Vec<i64>,
}

impl Header {
    /// Parses the text of a header, such as `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let entry = |key: &str| Some(text.split_once(&format!("'{key}':"))?.1.trim_start());
        let inside = |key, open: char, close: char| {
            let rest = entry(key)?.strip_prefix(open)?;
            Some(rest.split_once(close)?.0)
        };
        let broken =
            |key: &str| Error::invalid_argument(format!("its header has no proper '{key}'"));
        let descr = inside("descr", '\'', '\'').ok_or_else(|| broken("descr"))?;
        let order = entry("fortran_order").ok_or_else(|| broken("fortran_order"))?;
        let dims = inside("shape", '(', ')').ok_or_else(|| broken("shape"))?;
        let dims = dims.split(',').map(str::trim).filter(|dim| !dim.is_empty());
        let dims: std::result::Result<_, _> = dims.map(str::parse).collect();
        Ok(Self {
            descr: descr.to_owned(),
            fortran: order.starts_with("True"),
            dims: dims.map_err(|_| broken("shape"))?,
        })
    }

    /// Returns the kind of NumPy's type: `f`, `i`, `u`, `c`, `b`, `V` and others.
    pub(super) fn kind(&self) -> char {
        let code = self.descr.trim_start_matches(['<', '>', '|', '=']);
        code.chars().next().unwrap_or('?')
    }

    /// Checks that the header describes an array of the expected shape, and returns the size of an element in bytes.
    pub(super) fn check(&self, shape: &Shape) -> Result<usize> {
        let dtype = shape.dtype();
        let (kinds, width) = expected(dtype);
        let code = self.descr.trim_start_matches(['<', '|', '=']);
        let code = if width == 1 {
            code.trim_start_matches('>')
        } else {
            code
        };
        if !kinds.chars().any(|kind| code == format!("{kind}{width}")) {
            let order = if self.descr.starts_with('>') {
                " (big-endian)"
            } else {
                ""
            };
            return Err(Error::invalid_argument(format!(
                "its elements are '{}'{order}, {dtype} is expected: write them with .astype('{}')",
                self.descr,
                descr(dtype)
            )));
        }
        if self.fortran && self.dims.len() > 1 {
            return Err(Error::invalid_argument(
                "it is in Fortran order; write it with numpy.ascontiguousarray",
            ));
        }
        if self.dims != shape.dims() {
            return Err(Error::invalid_argument(format!(
                "its shape is {:?}, {:?} is expected",
                self.dims,
                shape.dims()
            )));
        }
        Ok(width)
    }
}

/// Returns the accepted kinds of `descr` for a type, and the width in bytes. Types that NumPy lacks are stored as raw
/// bytes (`V`, as ml_dtypes does), or as unsigned integers with the same bits.
fn expected(dtype: DType) -> (&'static str, usize) {
    let width = dtype.bits().div_ceil(8);
    let kinds = match (dtype.class(), dtype) {
        (Class::Bool, _) => "b",
        (Class::Signed, _) if dtype.is_packed() => "iV",
        (Class::Unsigned, _) if dtype.is_packed() => "uV",
        (Class::Signed, _) => "i",
        (Class::Unsigned, _) => "u",
        (Class::Float, DType::F16 | DType::F32 | DType::F64) => "f",
        (Class::Complex, _) => "c",
        _ => "Vu",
    };
    (kinds, width)
}

/// Returns NumPy's descriptor of a type. For a type that NumPy lacks, returns the descriptor of the type that is
/// stored instead.
pub(super) fn descr(dtype: DType) -> String {
    let (kinds, width) = expected(dtype);
    let order = if width == 1 { '|' } else { '<' };
    format!("{order}{}{width}", &kinds[..1])
}
