//! Faults of `load.sh` and `unload.sh`: kills at every command, writes that fail, scripts that run
//! at the same time, all under one flow that must pass and one that must not.
//!
//! Whatever happens, a later load or unload must end with exactly the old or exactly the new
//! ruleset in force, and in the meantime no packet may meet none. `cargo xtask faults --seed S
//! --kills N --pairs N --changes N` runs this at length; without words of the environment it is
//! small. Needs root: all of it happens in network namespaces of its own.

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
