//! Tests that handlers in every language accept exactly the calls that the contract crate allows.

use crate::{Done, Given, Kind, Languages, takes};
use crate::{handler_in_c, handler_in_cpp, operand_in_c, operand_in_cpp};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use xla_ffi::Result;
use xla_ffi::prelude::*;
use xla_ffi_contract::{Contract, Dim, Entry};
use xla_ffi_runtime::{Attributes, DType};

/// Number of calls per contract.
const CALLS: usize = 200;

/// Defines handlers, each with a contract, and the list of contracts.
macro_rules! handlers {
    ($($name:ident, $shape:tt, ($($arg:ident: $arg_type:ty),*), ($($ret:ident: $ret_type:ty),*), ($($attr:ident),*);)*) => {
        $(
            #[xla_ffi::handler(shape = $shape)]
            fn $name($($arg: $arg_type,)* $(mut $ret: $ret_type,)* $($attr: i64,)*) -> Result<()> {
                $(let _ = $arg;)*
                $($ret.done();)*
                $(let _ = $attr;)*
                Ok(())
            }
            xla_ffi::embed::register_handler!(stringify!($name), "Host", $name);
        )*
        const CONTRACTS: &[(&str, &str, &[&str])] = &[$((stringify!($name), $shape, &[$(stringify!($attr)),*])),*];
    };
}

type Maybe<'f> = Option<Buffer<'f, f32>>;

handlers! {
    same, "n -> n", (x: Buffer<f32>), (y: Out<f32>), ();
    product, "n k, k m -> n m", (x: Buffer<f32>, y: Buffer<f32>), (z: Out<f32>), ();
    rows, "... n, n -> ... n", (x: Buffer<f32>, y: Buffer<f32>), (z: Out<f32>), ();
    middle, "n ... k -> ... k n", (x: Buffer<f32>), (y: Out<f32>), ();
    any_shape, "... -> ...", (x: Buffer<f32>), (y: Out<f32>), ();
    numbers, "2 n _ -> n 3", (x: Buffer<f32>), (y: Out<f32>), ();
    computed, "n m -> 2*n, m/2, n+1 m-1, 3*n/2-1", (x: Buffer<f32>), (y: Out<f32>, z: Out<f32>, u: Out<f32>, v: Out<f32>), ();
    optional, "n, n? -> n", (x: Buffer<f32>, y: Maybe), (z: Out<f32>), ();
    optional_result, "n m -> m, m n?", (x: Buffer<f32>), (y: Out<f32>, z: Option<Out<f32>>), ();
    many, "n, n m* -> n", (x: Buffer<f32>, rest: RemainingArgs), (y: Out<f32>), ();
    apart, "n , n ? -> n , n ?", (x: Buffer<f32>, y: Maybe), (z: Out<f32>, u: Option<Out<f32>>), ();
    rows_apart, "... n * -> n", (rest: RemainingArgs), (y: Out<f32>), (n);
    all_apart, "n, ... * -> n", (x: Buffer<f32>, rest: RemainingArgs), (y: Out<f32>), ();
    many_alike, "... k* -> k", (rest: RemainingArgs), (y: Out<f32>), (k);
    tokens, "token, n -> token, n", (t: Token, x: Buffer<f32>), (d: TokenOut, y: Out<f32>), ();
    attribute, "n -> n k", (x: Buffer<f32>), (y: Out<f32>), (k);
    attribute_of_arguments, "k n -> n k", (x: Buffer<f32>), (y: Out<f32>), (k);
    several_attributes, "_ -> 2*k/3 n, ka-1", (x: Buffer<f32>), (y: Out<f32>, z: Out<f32>), (k, n, ka);
    scalar, "(), n -> n, ()", (x: Buffer<f32>, y: Buffer<f32>), (z: Out<f32>, u: Out<f32>), ();
    squares, "n n n -> n n", (x: Buffer<f32>), (y: Out<f32>), ();
    long_names, "aa ab, ab aa -> aa a_1", (x: Buffer<f32>, y: Buffer<f32>), (z: Out<f32>), (a_1);
    turned, "a b c d e -> e d c b a", (x: Buffer<f32>), (y: Out<f32>), ();
    last, "n ... 2, ... m -> m ... n 1", (x: Buffer<f32>, y: Buffer<f32>), (z: Out<f32>), ();
    nothing, "-> 4", (), (y: Out<f32>), ();
}

fn kind(entry: &Entry) -> Kind {
    match (entry.token, entry.optional, entry.repeats) {
        (true, ..) => Kind::Token,
        (_, true, _) => Kind::Optional,
        (_, _, true) => Kind::Many,
        _ => Kind::Array,
    }
}

fn in_c(name: &str, contract: &Contract, attrs: &[&str]) -> String {
    let mut body = String::new();
    for (side, entries) in [("arg", &contract.args), ("ret", &contract.rets)] {
        for (at, entry) in entries.iter().enumerate() {
            body.push_str(&operand_in_c(kind(entry), side, at, "F32, XFFI_ANY_RANK"));
        }
    }
    for attr in attrs {
        body.push_str(&format!("  xffi_attr_i64(call, \"{attr}\");\n"));
    }
    body.push_str(&format!("  xffi_shapes(call, \"{}\");\n", contract.text));
    handler_in_c(name, &body)
}

fn in_cpp(name: &str, contract: &Contract, attrs: &[&str]) -> String {
    let mut binding = String::new();
    for (side, entries) in [("Arg", &contract.args), ("Ret", &contract.rets)] {
        for entry in entries {
            binding.push_str(&operand_in_cpp(kind(entry), side, "ffi::Buffer<ffi::F32>"));
        }
    }
    for attr in attrs {
        binding.push_str(&format!(".Attr<int64_t>(\"{attr}\")"));
    }
    binding.push_str(&format!(".Shape(XLA_FFI_SHAPE(\"{}\"))", contract.text));
    handler_in_cpp(name, &binding)
}

/// The operands and attributes of a call.
#[derive(Clone, Debug)]
struct Frame {
    args: Vec<Given>,
    rets: Vec<Given>,
    attrs: Vec<i64>,
}

/// Returns the shape of a contract entry for these sizes of names and these dimensions of the ellipsis, if it exists.
fn shape(entry: &Entry, sizes: &[i64], ellipsis: &[i64]) -> Option<Vec<i64>> {
    let mut shape = vec![];
    for dim in &entry.dims {
        match dim {
            Dim::Ellipsis => shape.extend(ellipsis),
            Dim::Size(size) => shape.push(i64::from(*size)),
            Dim::Name(name) => shape.push(sizes[*name]),
            Dim::Computed(computed) => shape.push(computed.of(sizes[computed.name]).ok()?),
            _ => shape.push(1),
        }
    }
    Some(shape)
}

/// Returns true if a call satisfies the contract, as the contract crate evaluates it.
fn wanted(contract: &Contract, attrs: &[&str], frame: &Frame) -> bool {
    let args: Vec<_> = frame.args.iter().map(|(_, dims)| ("", &dims[..])).collect();
    let attrs = attrs
        .iter()
        .copied()
        .zip(frame.attrs.iter().copied().map(i128::from));
    let Ok(inferred) = contract.infer(&args, &attrs.collect::<Vec<_>>()) else {
        return false;
    };
    // Results of absent arguments, which the contract cannot determine, may have any shape.
    let fits = |(told, (_, dims)): (&Option<Vec<i64>>, &Given)| {
        told.as_ref().is_none_or(|told| told == dims)
    };
    inferred.iter().zip(&frame.rets).all(fits)
}

/// Generates calls that may satisfy the contract: random sizes, and possibly a modification.
fn frames(contract: &Contract, attrs: &[&str]) -> impl Strategy<Value = Frame> + use<> {
    let contract = contract.clone();
    let number = |name: &&str| {
        contract
            .names
            .iter()
            .position(|known| known == name)
            .expect("a name")
    };
    let attrs: Vec<usize> = attrs.iter().map(number).collect();
    let sizes = proptest::collection::vec(0..5_i64, contract.names.len());
    let ellipsis = proptest::collection::vec(0..4_i64, 0..3);
    let change = (any::<Index>(), 0..5_u8, any::<Index>());
    let change = proptest::option::weighted(0.6, change);
    let other = prop_oneof![0..5_i64, Just(-1), Just(i64::MAX)];
    let attributes = proptest::collection::vec(proptest::option::weighted(0.1, other), attrs.len());
    let optional = (0..4_usize, any::<bool>());
    (sizes, ellipsis, optional, attributes, change).prop_map(
        move |(sizes, ellipsis, (many, absent), attributes, change)| {
            let attributes = attrs
                .iter()
                .zip(attributes)
                .map(|(name, other)| other.unwrap_or(sizes[*name]))
                .collect();
            let side = |entries: &[Entry]| -> Vec<Given> {
                let mut operands = vec![];
                for entry in entries {
                    let count = match kind(entry) {
                        Kind::Optional => usize::from(!absent),
                        Kind::Many => many,
                        _ => 1,
                    };
                    let shape = shape(entry, &sizes, &ellipsis).unwrap_or_else(|| vec![1]);
                    let operand = match entry.token {
                        true => (DType::Token, vec![]),
                        false => (DType::F32, shape),
                    };
                    operands.extend(std::iter::repeat_n(operand, count));
                }
                operands
            };
            let mut frame = Frame {
                args: side(&contract.args),
                rets: side(&contract.rets),
                attrs: attributes,
            };
            if let Some((operand, how, place)) = change {
                let arguments = frame.args.len();
                let at = operand.index(arguments + frame.rets.len());
                let (dtype, shape) = match at.checked_sub(arguments) {
                    None => &mut frame.args[at],
                    Some(at) => &mut frame.rets[at],
                };
                if *dtype != DType::Token {
                    let at = place.index(shape.len() + 1);
                    match how {
                        0 => shape.insert(at, 2),
                        1 if at < shape.len() => drop(shape.remove(at)),
                        2 if at < shape.len() => shape[at] += 1,
                        3 if at < shape.len() => shape[at] = 0,
                        _ => shape.reverse(),
                    }
                }
            }
            frame
        },
    )
}

#[test]
fn every_language_accepts_the_same_calls() {
    let test = "every_language_accepts_the_same_calls";
    let contracts: Vec<(Contract, &str, &[&str])> = CONTRACTS
        .iter()
        .map(|(name, text, attrs)| (Contract::parse(text).expect(text), *name, *attrs))
        .collect();
    let source = |handler: fn(&str, &Contract, &[&str]) -> String| {
        let handlers = contracts
            .iter()
            .map(|(contract, name, attrs)| handler(name, contract, attrs));
        handlers.collect::<String>()
    };
    let languages = Languages::new(test, &source(in_c), &source(in_cpp));
    let mut runner = TestRunner::deterministic();
    for (contract, name, attrs) in &contracts {
        let frames = frames(contract, attrs);
        let mut taken = 0;
        for _ in 0..CALLS {
            let frame = frames.new_tree(&mut runner).unwrap().current();
            let mut attributes = Attributes::new();
            for (name, value) in attrs.iter().zip(&frame.attrs) {
                attributes = attributes.with(*name, *value);
            }
            let wants = wanted(contract, attrs, &frame);
            taken += usize::from(wants);
            for (language, executable) in languages.handlers(name, &attributes) {
                let takes = takes(&executable, &frame.args, &frame.rets);
                assert_eq!(
                    takes.is_ok(),
                    wants,
                    "{name} by {language}, '{}': {takes:?}\n{frame:?}",
                    contract.text
                );
                let told = takes.err().unwrap_or_default();
                assert!(
                    told.is_empty() || told.contains(&contract.text),
                    "{name} by {language}: {told}"
                );
            }
        }
        assert!(
            (CALLS / 20..CALLS * 19 / 20).contains(&taken),
            "{name}: {taken} of {CALLS} calls fit"
        );
    }
}
