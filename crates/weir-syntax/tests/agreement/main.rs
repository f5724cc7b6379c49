//! weir accepts the lines that `iptables-legacy-restore` and `ip6tables-legacy-restore` accept,
//! refuses those that they refuse, and prints what `iptables-legacy-save` prints after loading.
//!
//! For each module that weir knows, at least 200 seeded lines are generated from its option table
//! with valid and invalid values. Lines that weir accepts are loaded together; refused ones are
//! tried one by one. The reference is a real load in a fresh network namespace, which is stricter
//! than `--test`: lines that only the kernel refuses are counted separately.

mod generate;
mod tool;
mod values;

use std::process::{Command, ExitCode, Stdio};

use generate::ModuleSubject;
use weir_model::Family;
use weir_syntax::iptables::extension_descriptions::describe_extensions;
use weir_testkit::option_samples::read_module_option_samples;

/// Lines for each module and family.
const LINES: usize = 200;
/// Namespaces that work at the same time.
const WORKERS: usize = 2;
const SEED: u64 = 0x77_65_69_72;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let Some(i) = args.iter().position(|a| a == "--worker") {
        let number: usize = args.get(i + 1).and_then(|n| n.parse().ok()).unwrap_or(0);
        let only = args.get(i + 2).cloned();
        return worker(number, only.as_deref());
    }
    if args.iter().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    if let Some(lack) = tool::lacking() {
        weir_testkit::skip_test(&format!("agreement needs {lack}"));
        return ExitCode::SUCCESS;
    }
    println!("agreement: seed {SEED:#x}, {LINES} lines a module and family");
    let Ok(program) = std::env::current_exe() else { return ExitCode::FAILURE };
    let only = std::env::var("WEIR_MODULE").unwrap_or_default();
    let children: Vec<_> = (0..WORKERS)
        .map(|n| {
            let mut command = Command::new("unshare");
            command.arg("-n").arg(&program).args(["--worker", &n.to_string(), &only]);
            command.stdout(Stdio::piped()).spawn()
        })
        .collect();
    let mut good = true;
    for child in children {
        match child.and_then(|c| c.wait_with_output()) {
            Ok(out) => {
                print!("{}", String::from_utf8_lossy(&out.stdout));
                good &= out.status.success();
            }
            Err(error) => {
                println!("agreement: {error}");
                good = false;
            }
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Modules that are not compared: their values are names of objects of the host (accounting
/// objects, contexts of a security module), which this test does not create.
const MODULES_OF_HOST_OBJECTS: [&str; 2] = ["nfacct", "SECMARK"];

/// All other modules of iptables that weir knows.
fn modules_to_compare() -> impl Iterator<Item = ModuleSubject> {
    let modules = describe_extensions().into_iter().map(|description| {
        let samples = read_module_option_samples(description.is_target, description.name);
        ModuleSubject { description, samples }
    });
    modules.filter(|m| {
        m.description.is_part_of_iptables && !MODULES_OF_HOST_OBJECTS.contains(&m.description.name)
    })
}

/// FNV-1a.
fn hash_name(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// Goes through its share of the modules, in the namespace that it was started in.
fn worker(number: usize, only: Option<&str>) -> ExitCode {
    tool::prepare_sets();
    let mut good = true;
    let mut total = tool::Counts::default();
    let mut subjects: Vec<Option<ModuleSubject>> = vec![None];
    subjects.extend(modules_to_compare().map(Some));
    for (i, module) in subjects.iter().enumerate() {
        let description = module.as_ref().map(|m| &m.description);
        let name = description.map_or("base", |m| m.name);
        let wanted = only.is_none_or(|o| o.is_empty() || o == name);
        if i % WORKERS != number || !wanted {
            continue;
        }
        for family in [Family::V4, Family::V6] {
            if description.is_some_and(|m| m.family.is_some_and(|f| f != family)) {
                continue;
            }
            if module.as_ref().is_some_and(|m| tool::lacks_kernel_module(family, m)) {
                println!("{name:<12} {family:?} not compared: this kernel has no such module");
                continue;
            }
            // By the name: another module does not change the lines of this one.
            let seed = SEED ^ hash_name(name) << 8 ^ family.addr_bits() as u64;
            let lines = generate::lines(module.as_ref(), family, seed, LINES);
            let (counts, differences) = tool::compare(family, module.as_ref(), &lines);
            total.add(&counts);
            println!("{name:<12} {family:?} {counts}");
            for d in differences.iter().take(12) {
                println!("    {d}");
            }
            if counts.accepted == 0 || counts.refused == 0 {
                // NOTRACK and the like take no options: nothing but their place can be wrong.
                let plain = description.is_some_and(|m| m.options.is_empty());
                if counts.accepted == 0 || !plain {
                    println!("    only good or only bad lines were made");
                    good = false;
                }
            }
            good &= differences.is_empty();
        }
    }
    println!("worker {number}: {total}");
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
