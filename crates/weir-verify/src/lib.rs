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
mod flow;
mod hotdrop;
mod oracle;
mod probe;
mod report;
mod run;
mod testbed;

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_kernel::KernelError;
use weir_model::{Firewall, Packet};
use weir_semantics::Entry;

pub use report::{DiagramReport, Difference, VerifyReport, WayReport};

/// How to verify.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// How many packets to compare at least, where the ruleset has so many to offer.
    pub packets: usize,
    /// Seed of the packets.
    pub seed: u64,
    /// How many packets at most are tried one at a time, because only the kernel can say whether
    /// some match held.
    pub singles_max: usize,
    /// How long that may take in all.
    pub singles_time: Duration,
    /// How many differences are looked at closely; the others are counted.
    pub differences_max: usize,
    /// Where to write the packets that differ.
    pub pcap: Option<PathBuf>,
    /// Whether the diagram of the ruleset is asked of each packet, too: what it says must be what
    /// the interpreter says.
    pub diagrams: bool,
    /// Just these packets, each with the way it goes, instead of generated ones.
    pub only: Option<Vec<(Entry, Packet)>>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions {
            packets: 100_000,
            seed: 1,
            singles_max: 5_000,
            singles_time: Duration::from_secs(60),
            differences_max: 20,
            pcap: None,
            diagrams: false,
            only: None,
        }
    }
}

/// Why a comparison could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Namespaces, links, tools.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// An artefact that cannot be read.
    #[error("read artefact {path}: {source}")]
    Artefact {
        /// Its folder.
        path: PathBuf,
        /// What is wrong with it.
        source: weir_artefact::ReadError,
    },
    /// An artefact whose files do not say what weir writes.
    #[error("read artefact {path}: {what}")]
    Form {
        /// Its folder.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A ruleset that could not be loaded.
    #[error("load {way}: {source}")]
    Load {
        /// Which form.
        way: String,
        /// What the tool said.
        source: KernelError,
    },
    /// The manifest says nothing about an original rule.
    #[error("{way}: the manifest names no counters for {key}")]
    NoCounter {
        /// Which form.
        way: String,
        /// The rule.
        key: String,
    },
    /// The manifest names a counter that is not there.
    #[error("{way}: the manifest names a counter that the kernel does not have: {counter}")]
    CounterNotThere {
        /// Which form.
        way: String,
        /// The counter.
        counter: String,
    },
    /// A set that is counted by has another number of elements than when it was loaded.
    #[error("set {set} was changed while packets were compared")]
    SetChanged {
        /// Its name.
        set: String,
    },
    /// A packet could not be put on its way.
    #[error("send packets: {0}")]
    Send(std::io::Error),
    /// Packets went in and were never through.
    #[error("packets into {way} were not through in time")]
    Stuck {
        /// Which firewall.
        way: String,
    },
    /// Packets were lost before the first hook, twice.
    #[error("{lost} packets were lost on their way into {way}")]
    Lost {
        /// Which firewall.
        way: String,
        /// How many.
        lost: usize,
    },
    /// A file could not be written.
    #[error("write {path}: {source}")]
    Write {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl VerifyError {
    fn send(source: std::io::Error) -> Self {
        VerifyError::Send(source)
    }
}

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
