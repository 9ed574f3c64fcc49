//! `cargo xtask soak`: attacks that go on for as long as one has time. What was tried is kept under
//! `target/soak`, so that the next run goes on where this one ended.

mod frames;
mod fuzz;
mod grown;
mod leaks;

use crate::jaxlibs;
use anyhow::{Context, Result, bail};
use frames::Frames;
use fuzz::Fuzz;
use std::path::Path;
use std::time::{Duration, Instant};

/// Command line of `soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to attack: a test of `tests/hostile`, a folder of `fuzz/corpus`. Everything, where nothing is
    /// said, in turns of a minute at least.
    what: Vec<String>,
    /// How long, in all.
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Forget what earlier runs tried.
    #[arg(long)]
    anew: bool,
    /// Keep the inputs by which fuzzing found what it has in `fuzz/grown`, where runs on other machines begin.
    #[arg(long)]
    keep: bool,
    /// Call every example 100,000 times and look at the memory, instead of attacking.
    #[arg(long)]
    leaks: bool,
}

/// How long an attack goes on before the next has its turn: as long as there is for it, but not so long that nobody hears
/// of it, nor so short that it does little but begin.
fn turn(minutes: u64, attacks: usize) -> Duration {
    Duration::from_secs((60 * minutes / attacks.max(1) as u64).clamp(60, 600))
}

/// Something that is tried for as long as there is time.
trait Attack {
    fn name(&self) -> &str;

    /// Makes what it needs, once.
    fn build(&self, root: &Path) -> Result<()>;

    /// Goes on for about so long. An error is what broke; it is tried again first.
    fn go_on(&mut self, root: &Path, turn: Duration) -> Result<()>;

    /// What this run tried, and all runs together.
    fn report(&self) -> String;

    /// Keeps what it has learnt for runs on other machines, and says what.
    fn keep(&self, _root: &Path) -> Result<Option<String>> {
        Ok(None)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = jaxlibs::root();
    let folder = root.join("target/soak");
    std::fs::create_dir_all(&folder).context("making target/soak")?;
    if args.leaks {
        let end = Instant::now() + Duration::from_secs(60 * args.minutes);
        return leaks::run(&root, &folder, end, args.anew);
    }
    let mut attacks = chosen(&root, &folder, args)?;
    for attack in &attacks {
        attack.build(&root)?;
    }
    let end = Instant::now() + Duration::from_secs(60 * args.minutes);
    let longest = turn(args.minutes, attacks.len());
    let mut broken = vec![];
    while broken.len() < attacks.len() && Instant::now() < end {
        for attack in &mut attacks {
            // What broke waits for somebody to look at it, the others go on.
            if broken.iter().any(|name| name == attack.name()) {
                continue;
            }
            let turn = longest.min(end.saturating_duration_since(Instant::now()));
            if turn.as_secs() == 0 {
                break;
            }
            match attack.go_on(&root, turn) {
                Ok(()) => println!("{}: {}", attack.name(), attack.report()),
                Err(error) => {
                    println!("{}: {error:#}", attack.name());
                    broken.push(attack.name().to_owned());
                }
            }
        }
    }
    println!("in all:");
    for attack in &attacks {
        println!("{}: {}", attack.name(), attack.report());
    }
    for attack in attacks.iter().filter(|_| args.keep) {
        if let Some(kept) = attack.keep(&root)? {
            println!("{}: {kept}", attack.name());
        }
    }
    if !broken.is_empty() {
        bail!("{} broke: see above", broken.join(", "));
    }
    Ok(())
}

/// The attacks that the command line names.
fn chosen(root: &Path, folder: &Path, args: &Args) -> Result<Vec<Box<dyn Attack>>> {
    let mut all: Vec<Box<dyn Attack>> = vec![];
    let (libraries, targets) = (frames::LIBRARIES, fuzz::targets(root)?);
    let known: Vec<&str> = libraries
        .into_iter()
        .chain(targets.iter().map(String::as_str))
        .collect();
    if let Some(other) = args
        .what
        .iter()
        .find(|what| !known.contains(&what.as_str()))
    {
        bail!(
            "no attack is called '{other}'; there are {}",
            known.join(", ")
        );
    }
    let wanted = |name: &str| args.what.is_empty() || args.what.iter().any(|what| what == name);
    for library in libraries.into_iter().filter(|name| wanted(name)) {
        all.push(Box::new(Frames::new(folder, library, args.anew)?));
    }
    for target in targets.iter().filter(|name| wanted(name)) {
        all.push(Box::new(Fuzz::new(root, folder, target, args.anew)?));
    }
    Ok(all)
}
