//! Names of the variables that commands see; [`crate::subject`] says what they hold.

/// Variables of commands that are no axes, with the `FRAMES` of the command that writes them.
pub(crate) const COMMAND_VARIABLE_NAMES: [&str; 10] =
    ["RULESET", "MORE", "FRAMES", "DIR", "SEED", "IN", "OUT", "TRIAL_SECONDS", "CORE", "WEIR"];
