//! What commands cost grows as the ruleset does. Processor time is compared, of the same program on
//! the same machine, never with a limit in seconds.

#[path = "../benches/scale/commands.rs"]
mod commands;
#[expect(dead_code, reason = "the bench prints memory and wall-clock time")]
#[path = "../benches/scale/process_usage.rs"]
mod process_usage;
#[expect(dead_code, reason = "the bench measures the largest sizes")]
#[path = "../benches/scale/shapes.rs"]
mod shapes;

use std::path::Path;

use weir_testkit::TempFolder;

use self::commands::{ScaleCommand, growth_exponent, write_ruleset_files};
use self::shapes::ScaleShape;

/// The exponent that is allowed: 1 is linear, 2 is quadratic. The bench, on larger rulesets, is to
/// stay below 1.2; at these sizes the larger ruleset leaves the caches, and the clock of processor
/// time has ticks of 10 ms.
const EXPONENT_MAX: f64 = 1.35;
/// The larger ruleset has as many times the rules of the smaller one.
const SIZE_RATIO: usize = 8;
/// Runs of which the fastest counts: other programs make some of them slower.
const RUNS: usize = 3;
/// Shorter times are too short to be measured in ticks of the kernel.
const MEASURABLE_SECONDS: f64 = 0.1;

/// Rules of the larger ruleset.
fn larger_size(shape: ScaleShape) -> usize {
    match shape {
        ScaleShape::Services => 400,
        ScaleShape::LimitedLogs => 320,
        ScaleShape::Multiport | ScaleShape::EitherPort | ScaleShape::AddressEitherPort => 6_400,
        ScaleShape::SetElements => 64_000,
        ScaleShape::Chains => 6_400,
        _ => 12_800,
    }
}

#[test]
fn cost_of_commands_grows_at_most_with_the_stated_exponent() {
    let weir = Path::new(env!("CARGO_BIN_EXE_weir"));
    let (mut too_steep, mut measured) = (Vec::new(), 0);
    for shape in ScaleShape::ALL {
        let sizes = [larger_size(shape) / SIZE_RATIO, larger_size(shape)];
        let folders = sizes.map(|size| {
            let folder = TempFolder::new(&format!("scale-growth-{size}"));
            write_ruleset_files(shape, size, folder.path());
            folder
        });
        for command in ScaleCommand::ALL {
            let mut fastest = [f64::INFINITY; 2];
            // Interleaved, so that both meet the same noise.
            for _ in 0..RUNS {
                for (fastest, folder) in fastest.iter_mut().zip(&folders) {
                    let usage = command.run(weir, folder.path());
                    *fastest = fastest.min(usage.cpu().as_secs_f64());
                }
                let [small, large] = fastest.map(|seconds| seconds.max(MEASURABLE_SECONDS));
                if growth_exponent(sizes, [small, large]) <= EXPONENT_MAX {
                    break;
                }
            }
            let [small, large] = fastest.map(|seconds| seconds.max(MEASURABLE_SECONDS));
            let exponent = growth_exponent(sizes, [small, large]);
            let found = format!("{shape:?} {}: {exponent:.2} ({fastest:?} s)", command.name());
            println!("{found}");
            measured += usize::from(large > MEASURABLE_SECONDS);
            if exponent > EXPONENT_MAX {
                too_steep.push(found);
            }
        }
    }
    assert!(measured > 5, "only {measured} commands took long enough");
    assert!(too_steep.is_empty(), "{too_steep:#?}");
}

#[test]
fn the_growth_exponent_distinguishes_linear_from_quadratic() {
    assert!((growth_exponent([100, 800], [1.0, 8.0]) - 1.0).abs() < 1e-9);
    assert!((growth_exponent([100, 800], [1.0, 64.0]) - 2.0).abs() < 1e-9);
}
