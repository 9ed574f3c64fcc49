//! One library under attack, in a process of its own.

use crate::frame::{Copied, Wanted};
use crate::rng::Rng;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{
    Attributes, Bundle, Handler, PreparedCall, Revision, Runtime, Stage, Stages,
};
use xla_ffi_sys::{Slot, XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Handler};

/// A handler of the conformance library and a call that it takes: name, attributes, arguments, results.
struct Case {
    name: &'static str,
    attrs: &'static str,
    args: &'static [&'static str],
    rets: &'static [&'static str],
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Every operand and attribute is asked for.
    Strict,
    /// It takes operands in any number.
    Variadic,
    /// An operand of any type, or attributes that may be absent.
    Lenient,
}

const fn case(
    name: &'static str,
    attrs: &'static str,
    args: &'static [&'static str],
    rets: &'static [&'static str],
    kind: Kind,
) -> Case {
    Case {
        name,
        attrs,
        args,
        rets,
        kind,
    }
}

use Kind::{Lenient, Strict, Variadic};

const INTS: &str = "{i8 = -128 : i8, i16 = 2 : i16, i32 = 3 : i32, i64 = -4 : i64, u8 = 255 : ui8, \
    u16 = 6 : ui16, u32 = 7 : ui32, u64 = 8 : ui64}";
const ARRAYS: &str = "{i8 = array<i8: -1>, i16 = array<i16: 2>, i32 = array<i32: 3, 4>, \
    i64 = array<i64: 5>, f32 = array<f32: 0.5>, f64 = array<f64: 0.25>}";
const DICT: &str = "{options = {flag = true, n = 3 : i64, x = 0.5 : f64, name = \"four\"}}";
const NESTED: &str = "{options = {n = 3 : i64, inner = {x = 0.5 : f64}, list = array<i64: 1, 2>}}";
const SCALED: &str = "{factor = 3.0 : f32, delay_ms = 0 : i64}";
const TOLD: &str = "{code = 9 : i32, message = \"told\"}";

const CASES: [Case; 24] = [
    case(
        "scale",
        "{factor = 1.5 : f32}",
        &["f32[2,3]=iota"],
        &["f32[2,3]"],
        Strict,
    ),
    case("echo_bool", "{value = true}", &[], &["s64[]"], Strict),
    case("echo_ints", INTS, &[], &["s64[8]"], Strict),
    case(
        "echo_floats",
        "{f32 = 0.5 : f32, f64 = 0.1 : f64}",
        &[],
        &["f64[2]"],
        Strict,
    ),
    case("echo_string", "{text = \"abc\"}", &[], &["u8[3]"], Strict),
    case("echo_string", "{text = \"\"}", &[], &["u8[0]"], Strict),
    case("echo_arrays", ARRAYS, &[], &["f64[7]"], Strict),
    case("echo_dict", DICT, &[], &["f64[4]"], Strict),
    case("echo_nested", NESTED, &[], &["f64[3]"], Strict),
    case(
        "echo_optional",
        "{n = 3 : i64, x = 0.5 : f64}",
        &[],
        &["f64[2]"],
        Lenient,
    ),
    case("describe", "{}", &["f32[2,1,3]=iota"], &["s64[8]"], Lenient),
    case("copy", "{}", &["f32[5]=iota"], &["f32[5]"], Lenient),
    case("unpack_s4", "{}", &["s4[5]=iota"], &["s8[5]"], Lenient),
    case("unpack", "{}", &["s4[5]=iota"], &["s8[5]"], Lenient),
    case("pack", "{}", &["s8[5]=iota"], &["s4[5]"], Lenient),
    case(
        "sum_all",
        "{}",
        &["f32[2]=iota", "f32[]=iota"],
        &["f32[]"],
        Variadic,
    ),
    case("fail", TOLD, &["f32[1]=iota"], &["f32[1]"], Strict),
    case(
        "counter",
        "{start = 10 : i64}",
        &["f32[]=iota"],
        &["s64[]"],
        Lenient,
    ),
    case("counter_stats", "{}", &[], &["s64[2]"], Strict),
    case("async_scale", SCALED, &["f32[4]=iota"], &["f32[4]"], Strict),
    case("async_fail", TOLD, &["f32[1]=iota"], &["f32[1]"], Strict),
    case(
        "pool_sum",
        "{tasks = 4 : i64}",
        &["f32[9]=iota"],
        &["f32[]", "s64[2]"],
        Strict,
    ),
    case("optional_parts", "{}", &["f32[]=iota"], &["s64[3]"], Strict),
    case("run_id", "{}", &["f32[]=iota"], &["s64[]"], Strict),
];

/// Other handlers that ask the context, which have nothing to spoil but that.
const ASKING: [(&str, &[&str], &str); 3] = [
    ("device_ordinal", &["f32[]=iota"], "s32[]"),
    ("custom_options", &["f32[]=iota"], "s64[]"),
    ("pool_threads", &[], "s64[]"),
];

/// What the next call through [`execute`] and [`instantiate`] is to do.
#[derive(Default)]
struct Plan {
    targets: [Option<XLA_FFI_Handler>; 2],
    /// Spoils the frame of this stage.
    attack: Option<(usize, Rng)>,
    mutations: usize,
    kind: Option<Kind>,
    /// The table that handlers see instead of the host's own.
    table: u64,
    has_future: bool,
    wanted: Option<Wanted>,
    kept: Vec<Copied>,
}

thread_local! {
    static PLAN: RefCell<Plan> = RefCell::default();
}

unsafe extern "C" fn execute(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the host's frame.
    unsafe { call(frame, 0) }
}

unsafe extern "C" fn instantiate(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the host's frame.
    unsafe { call(frame, 1) }
}

/// # Safety
/// A host's frame.
unsafe fn call(frame: *mut XLA_FFI_CallFrame, stage: usize) -> *mut XLA_FFI_Error {
    let (target, copied) = PLAN.with_borrow_mut(|plan| {
        let target = plan.targets[stage].expect("the call has a target");
        if plan.table == 0 {
            return (target, None);
        }
        // SAFETY: the caller's promise.
        let mut copied = unsafe { Copied::of(frame.cast_const().cast()) };
        if plan.has_future {
            copied.with_future();
        }
        copied.frame[2] = plan.table;
        if plan.attack.as_ref().is_some_and(|(at, _)| *at == stage) {
            let (_, mut rng) = plan.attack.take().expect("there, as seen");
            let kind = plan.kind.expect("the call has a kind");
            for _ in 0..plan.mutations {
                let wanted = copied.mutate(&mut rng, kind == Variadic, kind == Lenient);
                plan.wanted = Some(wanted);
            }
        }
        copied.lay();
        (target, Some(copied))
    });
    let Some(mut copied) = copied else {
        // SAFETY: the library's handler, and a host's frame.
        return unsafe { target(frame) };
    };
    let at = std::ptr::with_exposed_provenance_mut(copied.frame.as_mut_ptr().expose_provenance());
    // SAFETY: a handler takes every frame that is as large as it says; that is what is tested.
    let error = unsafe { target(at) };
    if let Some(future) = copied.frame.get(21) {
        // SAFETY: from r2 on the future is the frame's last field.
        unsafe { frame.cast::<u64>().wrapping_add(21).write(*future) };
    }
    // The frame ends with the call, its elements with what the call began.
    let elements = std::mem::take(&mut copied.elements);
    drop(copied);
    PLAN.with_borrow_mut(|plan| plan.kept.push(Copied::only(elements)));
    error
}

/// The table of a revision, in memory of exactly its size.
struct Table {
    revision: Revision,
    words: Vec<u64>,
    true_words: Vec<u64>,
}

impl Table {
    fn of(runtime: &Runtime) -> Self {
        let revision = runtime.revision();
        let from = runtime.api().cast::<u64>();
        let count = revision.api_size() / 8;
        // SAFETY: the revision's table has so many bytes.
        let mut words: Vec<u64> = (0..count)
            .map(|i| unsafe { from.wrapping_add(i).read() })
            .collect();
        words.shrink_to_fit();
        // What lies behind the table tells the older revisions apart: the distance stays.
        let distance = words[5].wrapping_sub(from.expose_provenance() as u64);
        words[5] = (words.as_ptr().expose_provenance() as u64).wrapping_add(distance);
        let true_words = words.clone();
        Self {
            revision,
            words,
            true_words,
        }
    }

    fn address(&self) -> u64 {
        self.words.as_ptr().expose_provenance() as u64
    }

    fn mend(&mut self) {
        self.words.copy_from_slice(&self.true_words);
    }

    fn without(&mut self, slot: Slot) -> bool {
        let Some(index) = slot.index(self.revision) else {
            return false;
        };
        self.words[Slot::HEAD / 8 + index] = 0;
        true
    }

    /// Says less than is there, or another version where that makes no difference to what is there.
    fn spoil(&mut self, rng: &mut Rng) {
        let minor = self.revision.minor_version();
        let version = |major: i32, minor: i32| {
            u64::from(major.cast_unsigned()) | u64::from(minor.cast_unsigned()) << 32
        };
        match rng.below(4) {
            0 | 1 => {
                let slot = rng.pick(&Slot::ALL);
                self.without(slot);
            }
            2 if self.revision >= Revision::R5 => {
                let size = rng.below(self.words.len() + 1) * 8;
                self.words[0] = size as u64;
            }
            _ if self.revision == Revision::NEWEST => {
                let any = rng.pick(&[i32::MIN, -1, 0, 1, 2, 3, 4, 5, 6, 7, i32::MAX]);
                self.words[4] = version(rng.pick(&[0, 0, 0, 1, -1]), any);
            }
            _ => {
                let any = rng.pick(&[i32::MIN, -1, 0, minor]);
                self.words[4] = version(0, any.min(minor));
            }
        }
    }
}

/// One handler on one revision.
struct Subject<'a> {
    case: &'a Case,
    targets: [Option<XLA_FFI_Handler>; 2],
    handler: Handler,
    attributes: Attributes,
    prepared: Option<PreparedCall>,
    /// Takes the call as it is.
    takes: bool,
}

impl Subject<'_> {
    /// Calls it with the plan as it is; whether it succeeded.
    fn call(&mut self) -> bool {
        let fresh = self.targets[1].is_some();
        if fresh || self.prepared.is_none() {
            self.prepared = None;
            let Ok(executable) = self.handler.instantiate(&self.attributes) else {
                return false;
            };
            let tensor = |text: &&str| {
                let tensor = Spec::parse(text).expect("the test's SPEC parses").tensor();
                tensor.expect("a small tensor")
            };
            let mut call = executable
                .call()
                .stages(Stages::Cpu)
                .run_id(77)
                .device_ordinal(3);
            call = call.args(self.case.args.iter().map(tensor));
            for text in self.case.rets {
                call = call.ret(parse_result(text).expect("the test's SPEC parses"));
            }
            match call.prepare() {
                Ok(prepared) => self.prepared = Some(prepared),
                Err(_) => return false,
            }
        }
        self.prepared
            .as_mut()
            .is_some_and(|call| call.invoke().is_ok())
    }

    fn plan(&self, table: &Table) {
        PLAN.with_borrow_mut(|plan| {
            plan.targets = self.targets;
            plan.table = table.address();
            plan.has_future = table.revision >= Revision::R2;
            plan.kind = Some(self.case.kind);
            plan.attack = None;
            plan.wanted = None;
            plan.kept.clear();
        });
    }
}

/// Every handler on every revision with each function of the table missing in turn; then so many frames.
pub(crate) fn run(library: &Path, first: u64, count: u64, seed_file: &Path) {
    // SAFETY: a library of the tests.
    let library = unsafe { libloading::Library::new(library) }.expect("the library loads");
    let note = File::create(seed_file).expect("the target folder");
    let asking: Vec<Case> = ASKING
        .iter()
        .map(|(name, args, ret)| case(name, "{}", args, std::slice::from_ref(ret), Strict))
        .collect();
    let runtimes: Vec<Runtime> = Revision::ALL.into_iter().map(Runtime::new).collect();
    let mut all = vec![];
    for runtime in &runtimes {
        let table = Table::of(runtime);
        let mut subjects = vec![];
        for case in CASES.iter().chain(&asking) {
            let find = |name: &str| {
                // SAFETY: the library's symbols of these names are handlers.
                let found = unsafe { library.get::<XLA_FFI_Handler>(name.as_bytes()) };
                found.ok().map(|symbol| *symbol)
            };
            let targets = [find(case.name), find(&format!("{}_instantiate", case.name))];
            PLAN.with_borrow_mut(|plan| {
                *plan = Plan {
                    targets,
                    ..Plan::default()
                };
            });
            // SAFETY: these are handlers.
            let mut bundle = unsafe { Bundle::execute(execute) };
            if targets[1].is_some() {
                // SAFETY: as above.
                bundle = unsafe { bundle.with(Stage::Instantiate, instantiate) };
            }
            let Ok(handler) = runtime.handler(case.name, bundle) else {
                continue;
            };
            let mut subject = Subject {
                case,
                targets,
                handler,
                attributes: Attributes::parse(case.attrs).expect("the test's attributes parse"),
                prepared: None,
                takes: false,
            };
            subject.plan(&table);
            subject.takes = subject.call();
            subjects.push(subject);
        }
        let taken = subjects.iter().filter(|subject| subject.takes).count();
        // The oldest revisions take no dictionaries, which two of the cases have.
        assert!(
            taken >= 13,
            "{}: {taken} of the calls succeed",
            runtime.revision()
        );
        all.push((table, subjects));
    }
    let (_, newest) = all.last().expect("there are revisions");
    for subject in newest {
        let fails = subject.case.name.ends_with("fail");
        assert_eq!(subject.takes, !fails, "{} on the newest", subject.case.name);
    }
    let mut without = 0;
    for (table, subjects) in &mut all {
        for slot in Slot::ALL {
            for subject in subjects.iter_mut() {
                let text = format!("slot {slot:?}, {}, {}\n", table.revision, subject.case.name);
                let _ = note.set_len(0);
                let _ = note.write_at(text.as_bytes(), 0);
                if table.without(slot) {
                    subject.plan(table);
                    subject.call();
                    without += 1;
                }
                table.mend();
            }
        }
    }
    let _ = note.set_len(0);
    let mut refused = 0_u64;
    for seed in first..first + count {
        let _ = note.write_at(format!("{seed}\n").as_bytes(), 0);
        let mut rng = Rng(seed);
        let (table, subjects) = &mut all[rng.below(Revision::ALL.len())];
        let at = rng.below(subjects.len());
        let subject = &mut subjects[at];
        subject.plan(table);
        if count == 1 {
            println!("{} on {}", subject.case.name, table.revision);
        }
        let spoilt = rng.below(5) == 0;
        if spoilt {
            table.spoil(&mut rng);
        }
        let mutations = rng.pick(&[1, 1, 2, 3]);
        let stage = usize::from(subject.targets[1].is_some() && rng.below(2) == 0);
        PLAN.with_borrow_mut(|plan| {
            plan.mutations = mutations;
            plan.attack = Some((stage, rng));
        });
        let succeeded = subject.call();
        table.mend();
        let wanted = PLAN.with_borrow_mut(|plan| {
            plan.attack = None;
            plan.wanted.take()
        });
        // Several mutations may undo each other, and a spoilt table may have no way to tell.
        if mutations == 1 && !spoilt && wanted == Some(Wanted::Error) {
            let (name, revision) = (subject.case.name, table.revision);
            assert!(
                !succeeded,
                "seed {seed}: {name} on {revision} took what it must refuse"
            );
            refused += 1;
        }
        // A call that is left open by an error is not to be used again.
        if subject.prepared.as_ref().is_some_and(PreparedCall::is_open) {
            subject.prepared = None;
        }
    }
    assert!(
        count < 1000 || refused > count / 10,
        "{refused} of {count} had to be refused"
    );
    println!(
        "survived {count} frames from seed {first}, {refused} of which had to be refused, and {without} tables"
    );
}
