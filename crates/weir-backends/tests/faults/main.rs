//! Faults of `load.sh` and `unload.sh`: kills at every command, failing writes, and scripts that
//! run concurrently, while one flow must be accepted and another must be dropped.
//!
//! In all cases, a later load or unload must end with exactly the old or exactly the new ruleset in
//! force, and meanwhile each packet must traverse at least one of them. `cargo xtask faults --seed
//! S
//! --kills N --pairs N --changes N` runs this at length; without environment variables it is small.
//! Needs root: everything happens in separate network namespaces.

mod changes;
mod edited;
mod flows;
mod kills;
mod meanwhile;
mod order;
mod pairs;
mod process;
mod refusals;
mod replaced;
mod rollback;
mod rulesets;
mod sets;
mod snapshot;
mod stub;
mod tools;
mod variants;
mod world;
mod writes;

/// A number from the environment, as `cargo xtask faults` sets it.
fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}
