//! Limits of proofs, and of the time that a command may take.

use clap::Args;

/// The time that a command may take.
#[derive(Clone, Debug, Args)]
pub struct TimeLimitArgs {
    /// End with exit status 2 after so many seconds, without writing anything.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
}

/// What the proofs of a command may take.
#[derive(Clone, Debug, Args)]
pub struct ProofLimitArgs {
    /// Steps of all proofs of the command, in millions; independent of the machine's speed. The
    /// default takes about a minute at most. What is not proven is checked on packets.
    #[arg(id = "steps", long = "steps", default_value_t = 200, value_name = "MILLIONS")]
    pub step_millions: u64,
    /// Memory limit of the decision diagrams for the proof of one IP family and hook, in MiB.
    #[arg(id = "memory", long = "memory", default_value_t = 2048, value_name = "MB")]
    pub memory_mib: usize,
    /// The time that all of it may take.
    #[command(flatten)]
    pub time: TimeLimitArgs,
}

impl ProofLimitArgs {
    /// The steps as a number.
    pub const fn step_count(&self) -> u64 {
        self.step_millions.saturating_mul(1_000_000)
    }

    /// The memory in bytes.
    pub const fn memory_bytes(&self) -> usize {
        self.memory_mib.saturating_mul(1 << 20)
    }
}
