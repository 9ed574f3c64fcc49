//! Tests invalid call frames: short structs, null and misaligned data, negative and overflowing
//! dimensions, unknown tags, and duplicates. Each invalid frame causes an error that names the
//! problem.

use std::ffi::{CStr, c_void};
use std::sync::Mutex;
use xla_ffi::__private::Handler;
use xla_ffi::prelude::*;
use xla_ffi::sys::*;

/// The errors that handlers created. The address of an error is its index plus one.
static ERRORS: Mutex<Vec<(u32, String)>> = Mutex::new(Vec::new());

unsafe extern "C" fn error_create(args: *mut XLA_FFI_Error_Create_Args) -> *mut XLA_FFI_Error {
    // SAFETY: handlers pass the argument struct of this slot.
    let args = unsafe { args.read() };
    // SAFETY: the ABI requires a C string.
    let text = unsafe { CStr::from_ptr(args.message) }.to_str().unwrap();
    let mut errors = ERRORS.lock().unwrap();
    errors.push((args.errc.0, text.to_owned()));
    std::ptr::without_provenance_mut(errors.len())
}

/// A call frame and the data that it points to. Tests make the frame invalid.
struct Spoilt {
    args: Vec<XLA_FFI_Buffer>,
    rets: Vec<XLA_FFI_Buffer>,
    dims: Vec<Vec<i64>>,
    arg_types: Vec<XLA_FFI_ArgType>,
    attrs: Vec<(&'static str, XLA_FFI_AttrType, *mut c_void)>,
    sizes: Sizes,
    stage: u32,
}

/// A function that makes a frame invalid.
type Spoil = fn(&mut Spoilt);

/// The values of `struct_size` in the structs of the frame.
struct Sizes {
    api: usize,
    frame: usize,
    args: usize,
    rets: usize,
    attrs: usize,
}

const SIZES: Sizes = Sizes {
    api: 208,
    frame: 168,
    args: 40,
    rets: 40,
    attrs: 48,
};

fn buffer<T>(dtype: XLA_FFI_DataType, data: &mut [T]) -> XLA_FFI_Buffer {
    XLA_FFI_Buffer {
        struct_size: 48,
        extension_start: std::ptr::null_mut(),
        dtype,
        data: data.as_mut_ptr().cast(),
        rank: 1,
        dims: std::ptr::null_mut(),
    }
}

impl Spoilt {
    fn new(args: Vec<(XLA_FFI_Buffer, Vec<i64>)>, rets: Vec<(XLA_FFI_Buffer, Vec<i64>)>) -> Self {
        let arg_types = vec![XLA_FFI_ArgType::BUFFER; args.len()];
        let mut dims = Vec::new();
        let mut place = |(mut buffer, shape): (XLA_FFI_Buffer, Vec<i64>)| {
            buffer.rank = shape.len() as i64;
            dims.push(shape);
            let last: &mut Vec<i64> = dims.last_mut().unwrap();
            buffer.dims = last.as_mut_ptr();
            buffer
        };
        Self {
            args: args.into_iter().map(&mut place).collect(),
            rets: rets.into_iter().map(&mut place).collect(),
            dims,
            arg_types,
            attrs: vec![],
            sizes: SIZES,
            stage: 3,
        }
    }

    /// Calls the handler's execute function.
    fn call<H: Handler>(mut self) -> std::result::Result<(), (u32, String)> {
        // SAFETY: the table consists of numbers, pointers and optional functions.
        let mut api: XLA_FFI_Api = unsafe { std::mem::zeroed() };
        api.struct_size = self.sizes.api;
        api.api_version.minor_version = 5;
        api.XLA_FFI_Error_Create = Some(error_create);
        let pointers = |buffers: &mut Vec<XLA_FFI_Buffer>| -> Vec<*mut c_void> {
            buffers
                .iter_mut()
                .map(|b| std::ptr::from_mut(b).cast())
                .collect()
        };
        let (mut args, mut rets) = (pointers(&mut self.args), pointers(&mut self.rets));
        let mut ret_types = vec![XLA_FFI_RetType::BUFFER; rets.len()];
        let mut names: Vec<XLA_FFI_ByteSpan> = self
            .attrs
            .iter()
            .map(|(name, ..)| XLA_FFI_ByteSpan {
                ptr: name.as_ptr().cast(),
                len: name.len(),
            })
            .collect();
        let mut names: Vec<*mut XLA_FFI_ByteSpan> =
            names.iter_mut().map(std::ptr::from_mut).collect();
        let mut types: Vec<_> = self.attrs.iter().map(|(_, kind, _)| *kind).collect();
        let mut values: Vec<_> = self.attrs.iter().map(|(_, _, value)| *value).collect();
        let mut frame = XLA_FFI_CallFrame {
            struct_size: self.sizes.frame,
            extension_start: std::ptr::null_mut(),
            api: &raw const api,
            ctx: std::ptr::null_mut(),
            stage: XLA_FFI_ExecutionStage(self.stage),
            args: XLA_FFI_Args {
                struct_size: self.sizes.args,
                extension_start: std::ptr::null_mut(),
                size: args.len() as i64,
                types: self.arg_types.as_mut_ptr(),
                args: args.as_mut_ptr(),
            },
            rets: XLA_FFI_Rets {
                struct_size: self.sizes.rets,
                extension_start: std::ptr::null_mut(),
                size: rets.len() as i64,
                types: ret_types.as_mut_ptr(),
                rets: rets.as_mut_ptr(),
            },
            attrs: XLA_FFI_Attrs {
                struct_size: self.sizes.attrs,
                extension_start: std::ptr::null_mut(),
                size: names.len() as i64,
                types: types.as_mut_ptr(),
                names: names.as_mut_ptr(),
                attrs: values.as_mut_ptr(),
            },
            future: std::ptr::null_mut(),
        };
        let entry = H::ENTRIES[3].unwrap();
        // SAFETY: apart from the changes that the test makes, the frame has the layout of the ABI.
        let error = unsafe { entry(&raw mut frame) };
        match error as usize {
            0 => Ok(()),
            number => Err(ERRORS.lock().unwrap()[number - 1].clone()),
        }
    }

    fn refused<H: Handler>(self) -> String {
        let (code, text) = self.call::<H>().unwrap_err();
        assert_eq!(code, XLA_FFI_Error_Code::INVALID_ARGUMENT.0, "{text}");
        text
    }
}

#[xla_ffi::handler]
fn copy(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
    y.copy_from(&x)
}

#[xla_ffi::handler]
fn any(x: AnyBuffer, y: AnyOut, rest: RemainingArgs) -> Result<()> {
    assert_eq!(x.bytes().len(), y.byte_size());
    assert_eq!(rest.iter().count(), rest.len());
    Ok(())
}

#[xla_ffi::handler]
fn rest(_args: RemainingArgs, rets: RemainingRets) -> Result<()> {
    rets.leave_unwritten();
    Ok(())
}

#[xla_ffi::handler]
fn in_out(mut x: InOut<f32>) -> Result<()> {
    x.iter_mut().for_each(|x| *x += 1.0);
    Ok(())
}

const F32: XLA_FFI_DataType = XLA_FFI_DataType::F32;

/// Returns a valid frame of `copy`, with one argument and one result of two elements each.
fn whole(x: &mut [f32; 4], y: &mut [f32; 4]) -> Spoilt {
    Spoilt::new(
        vec![(buffer(F32, x), vec![2])],
        vec![(buffer(F32, y), vec![2])],
    )
}

#[test]
fn short_structs_are_refused() {
    let spoil: [Spoil; 4] = [
        |s| s.sizes.frame = 160,
        |s| s.sizes.args = 39,
        |s| s.sizes.rets = 0,
        |s| s.sizes.attrs = 40,
    ];
    for spoil in spoil {
        let (mut x, mut y) = ([1.0; 4], [0.0; 4]);
        let mut spoilt = whole(&mut x, &mut y);
        spoil(&mut spoilt);
        let text = spoilt.refused::<copy>();
        assert!(text.contains("shorter than the ABI's"), "{text}");
    }
    let (mut x, mut y) = ([1.0; 4], [0.0; 4]);
    let mut spoilt = whole(&mut x, &mut y);
    spoilt.args[0].struct_size = 40;
    assert_eq!(
        spoilt.refused::<copy>(),
        "copy (execute): argument `x`: not a buffer, or shorter than the ABI's"
    );
    let mut spoilt = whole(&mut x, &mut y);
    spoilt.stage = 7;
    assert_eq!(
        spoilt.refused::<copy>(),
        "copy (execute): called in stage number 7; register each function of the handler for its own stage"
    );
}

#[test]
fn operands_that_cannot_be_slices_are_refused() {
    let (short, huge) = ("has a negative dimension", "takes more bytes");
    let spoil: [(Spoil, &str); 10] = [
        (
            |s| s.args[0].data = std::ptr::null_mut(),
            "has a null data pointer",
        ),
        (
            |s| s.rets[0].data = std::ptr::null_mut(),
            "has a null data pointer",
        ),
        (
            |s| s.args[0].data = s.args[0].data.wrapping_byte_add(2),
            " is at ",
        ),
        (|s| s.dims[0][0] = -2, short),
        (|s| s.args[0].rank = -1, short),
        (|s| s.args[0].dims = std::ptr::null_mut(), short),
        (|s| s.dims[0][0] = i64::MAX, huge),
        (|s| s.arg_types[0] = XLA_FFI_ArgType(9), "not a buffer"),
        (
            |s| s.args[0].dtype = XLA_FFI_DataType(77),
            "got element type 77",
        ),
        (
            |s| s.args[0].dtype = XLA_FFI_DataType::INVALID,
            "got element type 0",
        ),
    ];
    for (spoil, text) in spoil {
        let (mut x, mut y) = ([1.0; 4], [0.0; 4]);
        let mut spoilt = whole(&mut x, &mut y);
        spoil(&mut spoilt);
        let refusal = spoilt.refused::<copy>();
        assert!(refusal.contains(text), "{refusal}");
        assert_eq!(y, [0.0; 4]);
    }
}

/// Errors name the place of a remaining operand.
#[test]
fn remaining_operands_that_cannot_be_slices_are_refused() {
    let (mut x, mut y) = ([1.0; 4], [0.0; 4]);
    let three = |memory: &mut [f32; 4]| vec![(buffer(F32, memory), vec![1]); 3];
    let mut spoilt = Spoilt::new(three(&mut x), vec![]);
    spoilt.args[2].data = std::ptr::null_mut();
    let text = spoilt.refused::<rest>();
    assert!(text.contains("argument `args` (2)"), "{text}");
    let mut spoilt = Spoilt::new(vec![], three(&mut y));
    spoilt.rets[2].data = std::ptr::null_mut();
    let text = spoilt.refused::<rest>();
    assert!(text.contains("result `rets` (2)"), "{text}");
}

/// Empty buffers may have any address, including null, and their dimensions may be huge.
#[test]
fn empty_operands_need_no_memory() {
    for dims in [
        vec![0],
        vec![1 << 40, 1 << 40, 0],
        vec![0, i64::MAX, i64::MAX],
    ] {
        for data in [0, 1, 7] {
            let (mut x, mut y) = ([1.0; 4], [0.0; 4]);
            let operand = |from: &mut [f32; 4]| {
                let mut buffer = buffer(F32, from);
                buffer.data = std::ptr::without_provenance_mut(data);
                (buffer, dims.clone())
            };
            let mut spoilt = || Spoilt::new(vec![operand(&mut x)], vec![operand(&mut y)]);
            spoilt().call::<copy>().unwrap();
            spoilt().call::<any>().unwrap();
            spoilt().call::<in_out>().unwrap();
        }
    }
}

/// A result at the address of a different operand is rejected. Empty operands and separate operands
/// are accepted.
#[test]
fn results_in_the_place_of_other_operands_are_refused() {
    let mut memory = [0.0_f32; 8];
    let start = memory.as_mut_ptr();
    let at = |offset: usize, len: i64| {
        let mut view = buffer(F32, &mut [0.0_f32; 0]);
        view.data = start.wrapping_add(offset).cast();
        (view, vec![len])
    };
    let run = |arg, ret| Spoilt::new(vec![arg], vec![ret]).call::<copy>();
    assert!(run(at(0, 2), at(2, 2)).is_ok());
    assert!(run(at(2, 2), at(0, 2)).is_ok());
    assert!(run(at(0, 0), at(0, 0)).is_ok());
    let text = run(at(4, 4), at(4, 4)).unwrap_err().1;
    assert!(text.contains("result `y` overlaps argument `x`"), "{text}");
}

/// Leaks the value of an attribute, so the scalars and arrays of these tests live as long as the
/// process.
fn leak<T>(value: T) -> *mut c_void {
    std::ptr::from_mut(Box::leak(Box::new(value))).cast()
}

fn array(
    dtype: XLA_FFI_DataType,
    size: usize,
    data: *mut c_void,
) -> (XLA_FFI_AttrType, *mut c_void) {
    (
        XLA_FFI_AttrType::ARRAY,
        leak(XLA_FFI_Array { dtype, size, data }),
    )
}

#[xla_ffi::handler]
fn slice(v: &[f32]) -> Result<()> {
    assert_eq!(v.iter().sum::<f32>(), 3.0);
    Ok(())
}

#[xla_ffi::handler]
fn vec(v: Vec<f32>) -> Result<()> {
    assert_eq!(v, [1.0, 2.0]);
    Ok(())
}

#[xla_ffi::handler]
fn fixed(v: [f32; 2]) -> Result<()> {
    assert_eq!(v, [1.0, 2.0]);
    Ok(())
}

#[xla_ffi::handler]
async fn kept(v: [f32; 2]) -> Result<()> {
    assert_eq!(v, [1.0, 2.0]);
    Ok(())
}

fn attr<H: Handler>(
    attrs: &[(&'static str, (XLA_FFI_AttrType, *mut c_void))],
) -> std::result::Result<(), String> {
    let mut spoilt = Spoilt::new(vec![], vec![]);
    let attrs = attrs
        .iter()
        .map(|(name, (kind, value))| (*name, *kind, *value));
    spoilt.attrs = attrs.collect();
    spoilt.call::<H>().map_err(|(_, text)| text)
}

#[test]
fn arrays_that_cannot_be_slices() {
    // Eight bytes at an unaligned address.
    let bytes = leak([0_u8, 0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 0]);
    let unaligned = array(F32, 2, bytes.wrapping_byte_add(1));
    let text = attr::<slice>(&[("v", unaligned)]).unwrap_err();
    assert!(
        text.starts_with("slice (execute): attribute `v`: its elements are at 0x"),
        "{text}"
    );
    assert!(text.ends_with("which is not a multiple of 4; take them as a `Vec`"));
    attr::<vec>(&[("v", unaligned)]).unwrap();
    attr::<fixed>(&[("v", unaligned)]).unwrap();
    attr::<kept>(&[("v", unaligned)]).unwrap();
    let null = array(F32, 2, std::ptr::null_mut());
    for text in [
        attr::<slice>(&[("v", null)]),
        attr::<vec>(&[("v", null)]),
        attr::<fixed>(&[("v", null)]),
        attr::<kept>(&[("v", null)]),
    ] {
        assert!(
            text.unwrap_err()
                .contains("attribute `v`: an array of 2 elements has a null")
        );
    }
    let huge = array(F32, usize::MAX / 2, bytes);
    assert!(attr::<slice>(&[("v", huge)]).is_err());
    assert!(attr::<vec>(&[("v", huge)]).is_err());
    let empty = array(F32, 0, std::ptr::null_mut());
    assert!(attr::<fixed>(&[("v", empty)]).is_err());
}

#[xla_ffi::handler]
fn caused() -> xla_ffi::Result<()> {
    let source = std::io::Error::other("the disk is full");
    Err(xla_ffi::Error::new(xla_ffi::ErrorCode::DataLoss, "cannot load").with_source(source))
}

/// Other hosts cannot free the error objects of the embedded runtime.
#[test]
fn an_error_with_a_source_reaches_other_hosts_as_their_own_error() {
    let result = Spoilt::new(vec![], vec![]).call::<caused>();
    assert_eq!(
        result,
        Err((15, "caused (execute): cannot load".to_owned()))
    );
    let (code, text) = crate::failed(crate::call::<caused>("{}"));
    assert_eq!(code, xla_ffi::ErrorCode::DataLoss);
    assert_eq!(text, "caused (execute): cannot load");
}

xla_ffi::library! {
    name = "frames";
    caused,
    copy, any, in_out, slice, vec, fixed, kept,
}
