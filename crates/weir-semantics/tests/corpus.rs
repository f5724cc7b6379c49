//! The interpreter, the traffic and the findings on published rulesets.

fn main() {}
