//! Compares forms with the kernel, packet by packet.
//!
//! [`verify`] sets up a firewall for the original ruleset, one for each form, and one without
//! rules, in separate namespaces. Every packet is sent through all of them. It compares:
//!
//! - the verdict and the outgoing packet with the interpreter, packet by packet;
//! - every counter with the interpreter, for up to 900 packets at once, most of them with a unique
//!   length; if counters differ, the packets are halved and sent again until the packet with the
//!   different count is found.
//!
//! The firewall without rules provides what the interpreter cannot know: which packets the host
//! itself does not deliver (martians, its own addresses, fragments without the rest of their
//! datagram), which are excluded and counted, and the conntrack state of each packet.
//!
//! What only the kernel knows (does this `limit` have a token left?) is taken from the rule's own
//! counter in each firewall, one packet at a time.
//!
//! Replies that a firewall itself sends (REJECT, echo replies) are dropped before OUTPUT: they are
//! not part of the comparison.
//!
//! Modules:
//!
//! - `verify_run`, `verify_options`, `verify_report`: the comparison: rounds of packets through
//!   every firewall, its options and its result;
//! - `testbed`, `observing_rules`, `link_macs`, `conntrack_setup`: a firewall under test, what
//!   observes it, and what must exist before a packet;
//! - `packet_batch`, `packet_numbering`: packets that can be sent together, and told apart where
//!   they are logged;
//! - `counters`, `result_difference`: what was counted and what arrived, compared with what was
//!   expected;
//! - `kernel_oracle`, `drop_prediction`: answers that the packet does not determine;
//! - `diagram_check`: the diagram of the ruleset, evaluated for each packet;
//! - `rule_effect_tester`: the effects of single rules, measured;
//! - `error`: reasons why a comparison fails.

#![forbid(unsafe_code)]

mod conntrack_setup;
mod counters;
mod diagram_check;
mod drop_prediction;
mod error;
mod kernel_oracle;
mod link_macs;
mod observing_rules;
mod packet_batch;
mod packet_numbering;
mod result_difference;
pub mod rule_effect_tester;
mod testbed;
mod verify_options;
mod verify_report;
mod verify_run;

use std::path::Path;

use weir_model::Firewall;

pub use error::VerifyError;
pub use verify_options::VerifyOptions;
pub use verify_report::{
    ComparedPacket, DiagramCheckReport, PacketDifference, RulesetReport, VerifyReport,
};

/// Sends packets through the original ruleset and through each artefact, in namespaces.
///
/// `progress` gets the current activity and its progress (0.0 to 1.0).
///
/// # Errors
/// If namespaces cannot be made or rulesets not loaded; differences are no error.
pub fn verify(
    firewall: &Firewall,
    artefact_dirs: &[&Path],
    options: &VerifyOptions,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<VerifyReport, VerifyError> {
    verify_run::run_verification(firewall, artefact_dirs, options, progress)
}
