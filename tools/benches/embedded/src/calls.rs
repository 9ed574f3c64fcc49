//! The measured calls: one call of each kind that an embedding program makes.

use xla_ffi::embed::{
    self, Attributes, Executable, Invocation, Runtime, Shape, Stage, Tensor, calls::PreparedCall,
};
use xla_ffi::prelude::*;

/// The user data of a call: the number that the handler adds to its argument.
#[derive(xla_ffi::HostType)]
struct Offset(f32);

#[xla_ffi::handler]
fn plain(x: Buffer<f32, 1>, mut y: Out<f32, 1>) -> Result<()> {
    y.write_with(|i| x[i] + 1.0);
    Ok(())
}

struct Stateful(f32);

#[xla_ffi::stateful]
impl Stateful {
    fn instantiate() -> Result<Self> {
        Ok(Self(1.0))
    }

    fn execute(&self, x: Buffer<f32, 1>, mut y: Out<f32, 1>) -> Result<()> {
        y.write_with(|i| x[i] + self.0);
        Ok(())
    }
}

#[xla_ffi::handler]
fn user_data(x: Buffer<f32, 1>, mut y: Out<f32, 1>, offset: UserData<Offset>) -> Result<()> {
    y.write_with(|i| x[i] + offset.0);
    Ok(())
}

#[xla_ffi::handler]
fn absent(x: Buffer<f32, 1>, mut y: Out<f32, 1>, offset: Option<UserData<Offset>>) -> Result<()> {
    let offset = offset.map_or(1.0, |offset| offset.0);
    y.write_with(|i| x[i] + offset);
    Ok(())
}

struct Inside;

#[xla_ffi::stateful]
impl Inside {
    fn prepare(call: Invocation) -> Result<()> {
        call.set_state(1.0_f32)
    }

    fn execute(x: Buffer<f32, 1>, mut y: Out<f32, 1>, call: Invocation) -> Result<()> {
        let one = *call.state::<f32>(Stage::Prepare)?;
        let offset = call.user_data::<Offset>().map_or(one, |offset| offset.0);
        y.write_with(|i| x[i] + offset);
        Ok(())
    }
}

/// The kinds of calls, with their names in the report.
pub const KINDS: [&str; 5] = ["plain", "stateful", "user_data", "absent", "internal"];

fn executable(runtime: &Runtime, kind: &str) -> Executable {
    let bundle = match kind {
        "plain" => embed::bundle::<plain>(),
        "stateful" => embed::bundle::<Stateful>(),
        "user_data" => embed::bundle::<user_data>(),
        "absent" => embed::bundle::<absent>(),
        _ => embed::bundle::<Inside>(),
    };
    let handler = runtime.handler(kind, bundle).expect("it registers");
    handler.instantiate(&Attributes::new()).expect("it is made")
}

/// Returns a handler without state, an argument, and the shape of the result, for calls that are not prepared.
///
/// # Panics
/// Panics if the runtime rejects the handler.
#[must_use]
pub fn parts(runtime: &Runtime) -> (Executable, Tensor, Shape) {
    let x = Tensor::from_slice([4], &[1.0_f32, 2.0, 3.0, 4.0]).expect("memory");
    let y = x.shape().clone();
    (executable(runtime, "plain"), x, y)
}

/// Returns a prepared call of the kind `kind`, after a first run that checks the result.
///
/// # Panics
/// Panics if the handler fails or its result is wrong.
#[must_use]
pub fn prepared(runtime: &Runtime, kind: &str) -> PreparedCall {
    let (_, x, y) = parts(runtime);
    let mut call = executable(runtime, kind).call().arg(x).ret(y);
    if kind == "user_data" || kind == "internal" {
        let data = embed::UserData::new(runtime).with(Offset(1.0));
        call = call.user_data(data.expect("one object"));
    }
    let mut call = call.prepare().expect("it lays out");
    call.invoke().expect("it runs");
    let bytes = call.ret_bytes(0).expect("a result");
    assert_eq!(bytes[..4], 2.0_f32.to_ne_bytes(), "{kind}");
    call
}

/// Prepared calls of every kind do not allocate.
///
/// Debug builds allocate because they check for results that handlers do not write, so `cargo xtask test` runs this test
/// in release mode.
#[cfg(all(test, not(debug_assertions)))]
mod tests {
    use super::{KINDS, prepared};
    use xla_ffi::{Revision, embed::Runtime};
    use xla_ffi_testing::cost::{Counting, allocations};

    #[global_allocator]
    static COUNTING: Counting = Counting;

    /// There is only one test, because the allocations of all threads are counted.
    #[test]
    fn prepared_calls_allocate_nothing() {
        let runtime = Runtime::new(Revision::NEWEST);
        for kind in KINDS {
            let mut call = prepared(&runtime, kind);
            let count = allocations(|| (0..100).for_each(|_| call.invoke().expect("it runs")));
            // A call without its user data fails and copies the host's error message. The copy is an allocation, which
            // shows that allocations are counted.
            assert_eq!(count > 0, kind == "absent", "{kind}: {count} allocations");
        }
    }
}
