//! Time and memory of commands for each shape of ruleset and each size, up to those that the
//! documentation names, and the exponent at which they grow: 1 is linear, 2 is quadratic.
//!
//! ```sh
//! cargo bench -p weir --bench scale -- [--shape NAME]… [--command NAME]… [--doublings N] [--runs N]
//! ```
//!
//! `weir` runs as a program; processor time is that of all its threads. Of the runs (2 if not given)
//! the one with the least processor time counts: on a virtual machine, memory that the host has to
//! provide first makes a run up to three times slower, and so do other programs. A test of the crate
//! runs the same with small sizes (`tests/scale_growth.rs`).

#[path = "scale/commands.rs"]
mod commands;
#[path = "scale/process_usage.rs"]
mod process_usage;
#[path = "scale/shapes.rs"]
mod shapes;

use std::path::Path;

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
    println!("{:17} {:13} {:>8} {:>8} {:>8} {:>6}", "", "", "size", "cpu s", "wall s", "MiB");
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
        let usage = (0..runs.max(1)).map(run).min_by_key(|u| u.cpu).expect("at least one run");
        println!(
            "{:17} {:13} {size:8} {:8.2} {:8.2} {:6}{}",
            format!("{shape:?}"),
            command.name(),
            usage.cpu.as_secs_f64(),
            usage.wall.as_secs_f64(),
            usage.memory_kib >> 10,
            if usage.exit_status == Some(2) { " undecided" } else { "" },
        );
        measured.push((size, usage));
    }
    let [first, .., last] = &measured[..] else { return };
    let time = |usage: &ProcessUsage| usage.cpu.as_secs_f64().max(0.01);
    let memory = |usage: &ProcessUsage| usage.memory_kib.max(1) as f64;
    let exponent = |from: &(usize, ProcessUsage), to: &(usize, ProcessUsage)| {
        growth_exponent([from.0, to.0], [time(&from.1), time(&to.1)])
    };
    println!(
        "{:17} {:13} exponents: {:.2} of time (of one doubling at most {:.2}), {:.2} of memory",
        "",
        "",
        exponent(first, last),
        measured.windows(2).map(|pair| exponent(&pair[0], &pair[1])).fold(f64::MIN, f64::max),
        growth_exponent([first.0, last.0], [memory(&first.1), memory(&last.1)]),
    );
}
