//! Look-ups of rulesets against the interpreter: verdict, rules that count, effects and packet.

mod odd_rulesets;
mod random_rulesets;
mod ruleset_comparison;
mod testdata_rulesets;
