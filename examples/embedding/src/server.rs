//! A small server. Requests of eight numbers arrive on a Unix socket; one thread per connection calls the
//! handler and sends the answer.
//!
//! `embedding-server SOCKET` serves. `embedding-server SOCKET SECONDS [RATE]` also sends itself requests for
//! that time, as many as possible or RATE per second. It prints the number of answers, and the memory in use at
//! the start and at the end.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use xla_ffi::embed::{self, Attributes, DType, Runtime, Shape, Tensor, calls::PreparedCall};
use xla_ffi::prelude::*;

/// The number of values in a request, and in an answer.
const WIDTH: usize = 8;
/// The number of connections that send requests.
const CLIENTS: usize = 4;

/// y = x / sqrt(mean(x^2))
#[xla_ffi::handler(shape = "n -> n")]
fn normalise(x: Buffer<f32>, mut y: Out<f32>, served: UserData<Served>) -> Result<()> {
    let mean = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
    y.write_with(|i| x[i] / mean.sqrt().max(f32::MIN_POSITIVE));
    served.0.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
embed::register_handler!("my_server.normalise", "Host", normalise);

/// The number of calls on all connections.
#[derive(xla_ffi::HostType)]
struct Served(AtomicU64);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Answers one connection until it ends.
fn answer(mut stream: UnixStream, mut call: PreparedCall) -> Result<(), Failure> {
    let mut bytes = [0_u8; 4 * WIDTH];
    // A connection ends when there are no more requests.
    while stream.read_exact(&mut bytes).is_ok() {
        let numbers: Vec<f32> = bytes
            .chunks_exact(4)
            .map(|bytes| f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        let x = Tensor::from_vec([WIDTH as i64], numbers)?;
        call.set_args([x])?;
        call.invoke()?;
        stream.write_all(call.ret_bytes(0)?)?;
    }
    Ok(())
}

fn serve(listener: &UnixListener, prepared: &PreparedCall) -> Result<(), Failure> {
    for stream in listener.incoming() {
        let (stream, call) = (stream?, prepared.try_clone()?);
        std::thread::spawn(move || {
            if let Err(error) = answer(stream, call) {
                eprintln!("a connection: {error}");
            }
        });
    }
    Ok(())
}

/// Sends requests until the end time, with a pause before each. Returns the number of correct answers.
fn load(socket: &Path, end: Instant, pause: Duration) -> Result<u64, Failure> {
    let mut stream = UnixStream::connect(socket)?;
    let request: Vec<u8> = [2.0_f32; WIDTH]
        .iter()
        .flat_map(|x| x.to_ne_bytes())
        .collect();
    let expected: Vec<u8> = [1.0_f32; WIDTH]
        .iter()
        .flat_map(|x| x.to_ne_bytes())
        .collect();
    let mut reply = vec![0; expected.len()];
    let mut count = 0;
    while Instant::now() < end {
        std::thread::sleep(pause);
        stream.write_all(&request)?;
        stream.read_exact(&mut reply)?;
        if reply != expected {
            return Err("a wrong answer".into());
        }
        count += 1;
    }
    Ok(count)
}

/// Returns the program's resident memory in kilobytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0)
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments
        .next()
        .ok_or("embedding-server SOCKET [SECONDS [RATE]]")?;
    let socket = Path::new(&socket).to_owned();
    let mut number = || {
        arguments
            .next()
            .map(|number| number.parse::<u32>())
            .transpose()
    };
    let (seconds, rate) = (number()?, number()?);
    let seconds = seconds.map(u64::from);
    let pause = rate.map_or(Duration::ZERO, |rate| {
        Duration::from_secs(CLIENTS as u64) / rate.max(1)
    });

    let runtime = Runtime::default();
    runtime.register_static()?;
    let handler = runtime.find("my_server.normalise", "Host")?;
    let data = embed::UserData::new(&runtime).with(Served(AtomicU64::new(0)))?;
    let shape = Shape::new(DType::F32, [WIDTH as i64])?;
    let prepared = handler
        .instantiate(&Attributes::new())?
        .call()
        .user_data(data.clone())
        .arg(Tensor::zeros(shape.clone())?)
        .ret(shape)
        .prepare()?;
    let listener = UnixListener::bind(&socket)?;
    let Some(seconds) = seconds else {
        return serve(&listener, &prepared);
    };
    std::thread::spawn(move || serve(&listener, &prepared));

    // Warms up for a second before memory is measured.
    let warm = Duration::from_secs(1).min(Duration::from_secs(seconds) / 2);
    let start = Instant::now();
    let clients = |end: Instant| -> Result<u64, Failure> {
        std::thread::scope(|scope| {
            let load = || scope.spawn(|| load(&socket, end, pause));
            let clients: Vec<_> = (0..CLIENTS).map(|_| load()).collect();
            clients
                .into_iter()
                .map(|client| client.join().map_err(|_| "a client panicked")?)
                .sum()
        })
    };
    let mut answered = clients(start + warm)?;
    let before = memory();
    answered += clients(start + Duration::from_secs(seconds))?;
    let after = memory();
    // From here on no call is running, and new calls are refused.
    runtime.shutdown(Duration::from_secs(5))?;
    std::fs::remove_file(&socket)?;
    let served = data
        .get::<Served>()
        .map_or(0, |served| served.0.load(Ordering::Relaxed));
    if served != answered {
        return Err(format!("{answered} answers of {served} calls").into());
    }
    println!("{answered} requests in {seconds} s, memory {before} kB, then {after} kB");
    if after > before + before / 4 + 1024 {
        return Err("memory grows".into());
    }
    Ok(())
}
