//! Tests signatures: dtypes, ranks, operand counts, and the names and types of attributes.

use crate::{Done, Given, Kind, Languages, takes};
use crate::{handler_in_c, handler_in_cpp, operand_in_c, operand_in_cpp};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use xla_ffi::Result;
use xla_ffi::prelude::*;
use xla_ffi_runtime::{Attribute, Attributes, DType};

/// Number of calls per signature.
const CALLS: usize = 300;

/// An operand: its kind, dtype and rank. `None` allows any dtype or rank.
type Operand = (Kind, Option<DType>, Option<usize>);

/// An attribute: its name, its type, and whether it is optional.
type Declared = (&'static str, Type, bool);

/// The type of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Bool,
    I8,
    I64,
    U32,
    F32,
    F64,
    Text,
    Ints,
    Floats,
}

const TYPES: [Type; 9] = [
    Type::Bool,
    Type::I8,
    Type::I64,
    Type::U32,
    Type::F32,
    Type::F64,
    Type::Text,
    Type::Ints,
    Type::Floats,
];

impl Type {
    /// Returns the type's name in C, its name in C++, and an example value.
    fn told(self) -> (&'static str, &'static str, Attribute) {
        match self {
            Self::Bool => ("bool", "bool", true.into()),
            Self::I8 => ("i8", "int8_t", (-1_i8).into()),
            Self::I64 => ("i64", "int64_t", 3_i64.into()),
            Self::U32 => ("u32", "uint32_t", 4_u32.into()),
            Self::F32 => ("f32", "float", 0.5_f32.into()),
            Self::F64 => ("f64", "double", 0.5_f64.into()),
            Self::Text => ("str", "std::string_view", "text".into()),
            Self::Ints => {
                let list = Attribute::array(&[1_i64, 2]);
                ("i64_array", "ffi::Span<const int64_t>", list)
            }
            Self::Floats => {
                let none = Attribute::array::<f32>(&[]);
                ("f32_array", "ffi::Span<const float>", none)
            }
        }
    }
}

/// A handler's declaration, which is the same in every language.
struct Signature {
    name: &'static str,
    args: &'static [Operand],
    rets: &'static [Operand],
    attrs: &'static [Declared],
}

const ARRAY: Operand = (Kind::Array, Some(DType::F32), None);

macro_rules! handlers {
    ($($name:ident, ($($arg:ident: $arg_type:ty),*), ($($ret:ident: $ret_type:ty),*), ($($attr:ident: $attr_type:ty),*),
       $args:expr, $rets:expr, $attrs:expr;)*) => {
        $(
            #[xla_ffi::handler]
            fn $name($($arg: $arg_type,)* $(mut $ret: $ret_type,)* $($attr: $attr_type,)*) -> Result<()> {
                $(let _ = $arg;)*
                $($ret.done();)*
                $(let _ = $attr;)*
                Ok(())
            }
            xla_ffi::embed::register_handler!(stringify!($name), "Host", $name);
        )*
        const SIGNATURES: &[Signature] =
            &[$(Signature { name: stringify!($name), args: &$args, rets: &$rets, attrs: &$attrs }),*];
    };
}

handlers! {
    ranks, (x: Buffer<f32, 2>, i: Buffer<i32, 1>), (y: Out<f32, 2>), (),
        [(Kind::Array, Some(DType::F32), Some(2)), (Kind::Array, Some(DType::S32), Some(1))],
        [(Kind::Array, Some(DType::F32), Some(2))], [];
    no_dimension, (x: Buffer<u8, 0>), (y: Out<u8, 0>, z: Out<f64>), (),
        [(Kind::Array, Some(DType::U8), Some(0))], [(Kind::Array, Some(DType::U8), Some(0)), (Kind::Array, Some(DType::F64), None)], [];
    anything, (x: AnyBuffer, y: Buffer<f32>), (z: Out<f32>), (),
        [(Kind::Array, None, None), ARRAY], [ARRAY], [];
    absent, (x: Buffer<f32>, y: Option<Buffer<i64, 1>>, z: Option<Buffer<f32, 2>>), (u: Out<f32>, v: Option<Out<i32, 1>>), (),
        [ARRAY, (Kind::Optional, Some(DType::S64), Some(1)), (Kind::Optional, Some(DType::F32), Some(2))],
        [ARRAY, (Kind::Optional, Some(DType::S32), Some(1))], [];
    rest, (x: Buffer<f32>, rest: RemainingArgs), (y: Out<f32>), (), [ARRAY, (Kind::Many, None, None)], [ARRAY], [];
    ordered, (t: Token, x: Buffer<f32>), (y: Out<f32>, d: TokenOut), (),
        [(Kind::Token, Some(DType::Token), Some(0)), ARRAY], [ARRAY, (Kind::Token, Some(DType::Token), Some(0))], [];
    scalars, (x: Buffer<f32>), (), (a: i64, b: f32, c: bool, d: i8, e: u32, f: f64), [ARRAY], [],
        [("a", Type::I64, false), ("b", Type::F32, false), ("c", Type::Bool, false), ("d", Type::I8, false),
         ("e", Type::U32, false), ("f", Type::F64, false)];
    lists, (), (y: Out<f32>), (ints: &[i64], floats: &[f32], text: &str), [], [ARRAY],
        [("ints", Type::Ints, false), ("floats", Type::Floats, false), ("text", Type::Text, false)];
    choices, (x: Buffer<f32>), (), (b: Option<f32>, a: i64, c: Option<&str>, list: Option<&[i64]>), [ARRAY], [],
        [("b", Type::F32, true), ("a", Type::I64, false), ("c", Type::Text, true), ("list", Type::Ints, true)];
    bare, (), (), (), [], [], [];
}

/// Returns the C names of a dtype and a rank, or the constants that allow any dtype and any rank.
fn of_c((_, dtype, rank): &Operand) -> String {
    let dtype = dtype.map_or("ANY", |dtype| dtype.c_name());
    let rank = rank.map_or("XFFI_ANY_RANK".to_owned(), |rank| rank.to_string());
    format!("{dtype}, {rank}").replacen("XLA_FFI_DataType_ANY", "XFFI_ANY_DTYPE", 1)
}

fn of_cpp((_, dtype, rank): &Operand) -> String {
    match (dtype, rank) {
        (None, _) => "ffi::AnyBuffer".to_owned(),
        (Some(dtype), None) => format!("ffi::Buffer<ffi::{}>", dtype.c_name()),
        (Some(dtype), Some(rank)) => format!("ffi::Buffer<ffi::{}, {rank}>", dtype.c_name()),
    }
}

fn in_c(signature: &Signature) -> String {
    let mut body = String::new();
    for (side, operands) in [("arg", signature.args), ("ret", signature.rets)] {
        for (at, operand) in operands.iter().enumerate() {
            let text = operand_in_c(operand.0, side, at, &of_c(operand));
            body.push_str(&text.replace("XLA_FFI_DataType_ANY", "XFFI_ANY_DTYPE"));
        }
    }
    for (name, ty, optional) in signature.attrs {
        let fetch = format!("xffi_attr_{}(call, \"{name}\");\n", ty.told().0);
        let when = format!("if (xffi_has_attr(call, \"{name}\")) ");
        body.push_str(&format!(
            "  {}{fetch}",
            if *optional { when.as_str() } else { "" }
        ));
    }
    handler_in_c(signature.name, &body)
}

fn in_cpp(signature: &Signature) -> String {
    let mut binding = String::new();
    for (side, operands) in [("Arg", signature.args), ("Ret", signature.rets)] {
        for operand in operands {
            binding.push_str(&operand_in_cpp(operand.0, side, &of_cpp(operand)));
        }
    }
    for (name, ty, optional) in signature.attrs {
        let ty = match optional {
            true => format!("std::optional<{}>", ty.told().1),
            false => ty.told().1.to_owned(),
        };
        binding.push_str(&format!(".Attr<{ty}>(\"{name}\")"));
    }
    // Without declarations, a handler that binds no operands or no attributes ignores them, as with upstream's headers.
    binding.push_str(".HostOnly()");
    handler_in_cpp(signature.name, &binding)
}

/// A call: its operands with dtypes and dimensions, and its attributes with names and types.
#[derive(Clone, Debug)]
struct Frame {
    args: Vec<Given>,
    rets: Vec<Given>,
    attrs: Vec<(&'static str, Type)>,
}

/// Dtypes that replace the dtypes of operands. Most operands have a different dtype.
const DTYPES: [DType; 5] = [DType::F32, DType::S32, DType::S64, DType::U8, DType::F64];

/// Generates calls that match the signature, with up to two modifications.
fn frames(signature: &'static Signature) -> impl Strategy<Value = Frame> {
    let change = (0..10_u8, any::<Index>(), any::<Index>());
    let changes = proptest::collection::vec(change, 0..3);
    (0..4_usize, 0..4_usize, any::<[bool; 8]>(), changes).prop_map(
        |(args, rets, absent, changes)| {
            let side = |operands: &[Operand], most: usize| {
                let mut given = vec![];
                for (kind, dtype, rank) in operands {
                    let count = match kind {
                        Kind::Many => most,
                        // Absent operands follow the present ones.
                        Kind::Optional if given.len() > most => 0,
                        _ => 1,
                    };
                    let rank = rank.unwrap_or(most % 3);
                    let one = (dtype.unwrap_or(DType::U8), vec![2; rank]);
                    given.extend(std::iter::repeat_n(one, count));
                }
                given
            };
            let attrs = signature.attrs.iter().zip(absent);
            let attrs = attrs.filter(|((.., optional), absent)| !(*optional && *absent));
            let mut frame = Frame {
                args: side(signature.args, args),
                rets: side(signature.rets, rets),
                attrs: attrs.map(|((name, ty, _), _)| (*name, *ty)).collect(),
            };
            for (how, place, other) in changes {
                change_one(&mut frame, how, place, other);
            }
            frame
        },
    )
}

fn change_one(frame: &mut Frame, how: u8, place: Index, other: Index) {
    let operands = match how % 2 {
        0 => &mut frame.args,
        _ => &mut frame.rets,
    };
    match how {
        0..6 if operands.is_empty() => operands.push((*other.get(&DTYPES), vec![2])),
        0 | 1 => {
            let at = place.index(operands.len());
            if operands[at].0 != DType::Token {
                operands[at].0 = *other.get(&DTYPES);
            }
        }
        2 | 3 => {
            let at = place.index(operands.len());
            if operands[at].0 != DType::Token {
                operands[at].1 = vec![2; other.index(4)];
            }
        }
        4 => drop(operands.pop()),
        5 => operands.push((*other.get(&DTYPES), vec![2; place.index(3)])),
        6 => frame.attrs.push(("unknown", *other.get(&TYPES))),
        _ if frame.attrs.is_empty() => {}
        7 => drop(frame.attrs.remove(place.index(frame.attrs.len()))),
        _ => {
            let at = place.index(frame.attrs.len());
            frame.attrs[at].1 = *other.get(&TYPES);
        }
    }
}

/// Returns true if a call matches the signature.
fn wanted(signature: &Signature, frame: &Frame) -> bool {
    let fits = |operands: &[Operand], given: &[Given]| {
        let mut given = given.iter();
        operands.iter().all(|(kind, dtype, rank)| {
            let is = |(got, dims): &Given| {
                dtype.is_none_or(|dtype| dtype == *got)
                    && rank.is_none_or(|rank| rank == dims.len())
            };
            match kind {
                Kind::Many => given.by_ref().count() < usize::MAX,
                Kind::Optional => given.next().is_none_or(is),
                _ => given.next().is_some_and(is),
            }
        }) && given.next().is_none()
    };
    let known = |(name, ty): &(&str, Type)| {
        signature
            .attrs
            .iter()
            .any(|(known, of, _)| known == name && of == ty)
    };
    let there = |(name, _, optional): &Declared| {
        *optional || frame.attrs.iter().any(|(given, _)| given == name)
    };
    fits(signature.args, &frame.args)
        && fits(signature.rets, &frame.rets)
        && frame.attrs.iter().all(known)
        && signature.attrs.iter().all(there)
}

#[test]
fn every_language_accepts_exactly_the_declared_calls() {
    let test = "every_language_accepts_exactly_the_declared_calls";
    let source =
        |handler: fn(&Signature) -> String| SIGNATURES.iter().map(handler).collect::<String>();
    let languages = Languages::new(test, &source(in_c), &source(in_cpp));
    let mut runner = TestRunner::deterministic();
    for signature in SIGNATURES {
        let (frames, mut taken) = (frames(signature), 0);
        for _ in 0..CALLS {
            let frame = frames.new_tree(&mut runner).unwrap().current();
            let give = |attributes: Attributes, (name, ty): &(&str, Type)| {
                attributes.with(*name, ty.told().2)
            };
            let attributes = frame.attrs.iter().fold(Attributes::new(), give);
            let wants = wanted(signature, &frame);
            taken += usize::from(wants);
            for (language, executable) in languages.handlers(signature.name, &attributes) {
                let takes = takes(&executable, &frame.args, &frame.rets);
                assert_eq!(
                    takes.is_ok(),
                    wants,
                    "{} by {language}: {takes:?}\n{frame:?}",
                    signature.name
                );
            }
        }
        assert!(
            (CALLS / 20..CALLS).contains(&taken),
            "{}: {taken} of {CALLS} calls fit",
            signature.name
        );
    }
}
