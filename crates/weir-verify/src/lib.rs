//! A form against the kernel, packet by packet.
//!
//! [`verify`] makes a firewall for the original ruleset and one for each form, in namespaces of
//! their own, and one without rules. Every packet goes through all of them. What is compared:
//!
//! - the verdict and the packet as it left, with what the interpreter says, packet by packet;
//! - every counter, with what the interpreter says, for up to 900 packets at once, most of them of
//!   a length of their own; where counters differ, the packets are halved and sent again until the
//!   one that is counted otherwise is found.
//!
//! The firewall without rules says what the interpreter cannot know: which packets the host itself
//! does not deliver (martians, its own addresses, fragments that wait for their datagram), which
//! are excluded and counted, and what conntrack takes each packet for.
//!
//! What only the kernel can say (has this `limit` a token left?) is taken from the rule's own
//! counter in each firewall, one packet at a time.
//!
//! Answers that a firewall sends by itself (REJECT, echo replies) end before OUTPUT: they are no
//! part of the comparison.

#![forbid(unsafe_code)]

mod batch;
mod counters;
mod diagrams;
mod differ;
pub mod effects;
mod error;
mod flow;
mod hotdrop;
mod link_addresses;
mod options;
mod oracle;
mod probe;
mod report;
mod run;
mod testbed;

use std::path::Path;

use weir_model::Firewall;

pub use error::VerifyError;
pub use options::VerifyOptions;
pub use report::{DiagramReport, Difference, VerifyReport, WayReport};

/// Sends packets through the original ruleset and through each artefact, in namespaces.
///
/// `progress` is told what is being done, and how much of it is done (0.0 to 1.0).
///
/// # Errors
/// Where namespaces cannot be made or rulesets not loaded; differences are no error.
pub fn verify(
    firewall: &Firewall,
    artefact_dirs: &[&Path],
    options: &VerifyOptions,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<VerifyReport, VerifyError> {
    run::run(firewall, artefact_dirs, options, progress)
}
