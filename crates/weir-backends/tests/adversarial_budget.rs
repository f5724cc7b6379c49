//! No command exceeds its budget, whatever the ruleset: steps and memory are counted, not time.

mod adversarial;

use weir_testkit::adversarial_ruleset::{
    AdversarialShape, generate_adversarial_ruleset, generate_adversarial_shape,
};

use self::adversarial::{CommandBudget, UsedBudget, use_budgets};

const BUDGET: CommandBudget = CommandBudget { steps: 300_000, memory_bytes: 16 << 20, packets: 60 };
/// Percent that may be exceeded: what is counted afterwards.
const EXCEEDED_STEPS_PERCENT_MAX: u64 = 20;

fn assert_budget_kept(used: &UsedBudget, what: &str) {
    let steps = used.steps.unwrap_or(0);
    let limit = BUDGET.steps + BUDGET.steps * EXCEEDED_STEPS_PERCENT_MAX / 100;
    let (command, time) = (used.command, used.time);
    assert!(steps <= limit, "{what}: {command} took {steps} steps ({time:?})");
    let bytes = used.memory_bytes.unwrap_or(0);
    assert!(bytes <= BUDGET.memory_bytes, "{what}: {command} took {bytes} bytes ({time:?})");
}

#[test]
fn commands_stay_within_budgets_on_adversarial_rulesets() {
    let (mut decided, mut undecided) = (0, 0);
    for seed in 0..200 {
        let ruleset = generate_adversarial_ruleset(seed, 120);
        for used in use_budgets(&ruleset, seed, BUDGET) {
            assert_budget_kept(&used, &format!("seed {seed} {:?}", ruleset.shapes));
            *(if used.is_decided { &mut decided } else { &mut undecided }) += 1;
        }
    }
    // The rulesets are neither all easy nor all hard.
    assert!(decided > 100 && undecided > 20, "{decided} decided, {undecided} undecided");
}

#[test]
fn commands_stay_within_budgets_on_each_adversarial_shape() {
    for shape in AdversarialShape::ALL {
        for size in [20, 150] {
            let ruleset = generate_adversarial_shape(shape, size);
            for used in use_budgets(&ruleset, 1, BUDGET) {
                assert_budget_kept(&used, &format!("{size} of {shape:?}"));
            }
        }
    }
}
