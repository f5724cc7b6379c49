//! Time and memory of commands for each shape of ruleset and each size, up to those that the
//! documentation names, and the exponent at which they grow: 1 is linear, 2 is quadratic.
//!
//! ```sh
//! cargo bench -p weir --bench scale -- [--shape NAME]… [--command NAME]… [--doublings N] [--runs N]
//! ```
//!
//! `weir` runs as a program; processor time is that of all its threads. Of the runs (2 if not given)
//! the one with the least processor time counts. The growth of one doubling is printed for the
//! program's own time (`user`), too: on a virtual machine, memory that the host has to provide first
//! adds up to a second of the kernel's time to one run and little to the next. A test of the
//! crate runs the same with small sizes (`tests/scale_growth.rs`).

#[path = "scale/commands.rs"]
mod commands;
#[path = "scale/process_usage.rs"]
mod process_usage;
#[path = "scale/shapes.rs"]
mod shapes;

use std::path::Path;
use std::time::Duration;

use weir_testkit::TempFolder;

use self::commands::{ScaleCommand, growth_exponent, write_ruleset_files};
use self::process_usage::ProcessUsage;
use self::shapes::ScaleShape;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|w| w != "--bench").collect();
    let (mut shapes, mut commands, mut doublings, mut runs) = (Vec::new(), Vec::new(), 4, 2);
    for pair in words.chunks(2) {
        let [option, value] = pair else { panic!("{} has no value", pair[0]) };
        let is_value = |name: &str| name.eq_ignore_ascii_case(value);
        match option.as_str() {
            "--shape" => {
                let found = ScaleShape::ALL.into_iter().find(|s| is_value(&format!("{s:?}")));
                shapes.push(found.unwrap_or_else(|| panic!("shapes are {:?}", ScaleShape::ALL)));
            }
            "--command" => {
                let found = ScaleCommand::ALL.into_iter().find(|c| is_value(&c.name()));
                let names = ScaleCommand::ALL.map(ScaleCommand::name);
                commands.push(found.unwrap_or_else(|| panic!("commands are {names:?}")));
            }
            "--doublings" => doublings = value.parse().expect("a number"),
            "--runs" => runs = value.parse().expect("a number"),
            other => panic!("unknown option {other}"),
        }
    }
    if shapes.is_empty() {
        shapes.extend(ScaleShape::ALL);
    }
    if commands.is_empty() {
        commands.extend(ScaleCommand::ALL);
    }
    println!(
        "{:17} {:13} {:>8} {:>8} {:>8} {:>8} {:>6}",
        "", "", "size", "user s", "system s", "wall s", "MiB"
    );
    for shape in shapes {
        for command in &commands {
            measure_doubled_sizes(shape, *command, doublings, runs);
        }
    }
}

fn measure_doubled_sizes(shape: ScaleShape, command: ScaleCommand, doublings: u32, runs: u32) {
    let folder = TempFolder::new("scale");
    let mut measured: Vec<(usize, ProcessUsage)> = Vec::new();
    for doubling in (0..=doublings).rev() {
        let size = shape.largest_size() >> doubling;
        write_ruleset_files(shape, size, folder.path());
        let run = |_| command.run(Path::new(env!("CARGO_BIN_EXE_weir")), folder.path());
        let usage =
            (0..runs.max(1)).map(run).min_by_key(ProcessUsage::cpu).expect("at least one run");
        println!(
            "{:17} {:13} {size:8} {:8.2} {:8.2} {:8.2} {:6}{}",
            format!("{shape:?}"),
            command.name(),
            usage.user.as_secs_f64(),
            usage.system.as_secs_f64(),
            usage.wall.as_secs_f64(),
            usage.memory_kib >> 10,
            if usage.exit_status == Some(2) { " undecided" } else { "" },
        );
        measured.push((size, usage));
    }
    let [first, .., last] = &measured[..] else { return };
    let seconds = |time: Duration| time.as_secs_f64().max(0.01);
    for (name, with_system) in [("processor time", true), ("user time", false)] {
        let time = |usage: &ProcessUsage| if with_system { usage.cpu() } else { usage.user };
        let growth = |from: &(usize, ProcessUsage), to: &(usize, ProcessUsage)| {
            seconds(time(&to.1)) / seconds(time(&from.1))
        };
        let ratios = measured.windows(2).map(|pair| growth(&pair[0], &pair[1]));
        println!(
            "{:17} {:13} {name}: exponent {:.2}, of one doubling at most {:.2} times",
            "",
            "",
            growth_exponent([first.0, last.0], [1.0, growth(first, last)]),
            ratios.fold(f64::MIN, f64::max),
        );
    }
    let memory = |usage: &ProcessUsage| usage.memory_kib.max(1) as f64;
    println!(
        "{:17} {:13} memory: exponent {:.2}",
        "",
        "",
        growth_exponent([first.0, last.0], [memory(&first.1), memory(&last.1)]),
    );
}
