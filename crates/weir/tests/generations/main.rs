//! `weir plan`, `apply`, `confirm`, `rollback` and `history` on rulesets of real kernels, in
//! network namespaces: which rules packets traverse, what is restored, and what becomes of killed
//! commands, full disks, changes by others and confirmations that do not come.

mod boot;
mod confirmation;
mod counters;
mod damaged_state;
mod filtering_host;
mod forms;
mod guide;
mod hanging_tools;
mod kills;
mod metrics;
mod other_programs;
mod refusals;
