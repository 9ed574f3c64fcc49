//! NumPy's files. An input is a SPEC of a result, a line break, and the file.

use xla_ffi_runtime::npy;
use xla_ffi_runtime::spec::parse_result;

pub(crate) fn attack(input: &[u8]) {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
        return;
    };
    let (line, file) = (&input[..end], &input[end + 1..]);
    let Ok(shape) = std::str::from_utf8(line)
        .map_err(drop)
        .and_then(|line| parse_result(line).map_err(drop))
    else {
        return;
    };
    match npy::decode(file, shape.clone()) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(tensor) => {
            assert_eq!(tensor.shape(), &shape);
            let written = npy::encode(&tensor).expect("what was read can be written");
            let again = npy::decode(&written[..], shape).expect("what was written can be read");
            assert_eq!(again.bytes(), tensor.bytes());
        }
    }
}
