//! Commands about the machine rather than a ruleset: `status`, `tune`, `calibrate`, `doctor`.

use std::path::PathBuf;

use clap::Args;

/// `weir status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The network namespace to look at, as `ip netns` lists it; by default the current one.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir tune`.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// File to write, as TOML; standard output by default.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Length and number of trials: smoke or quick.
    #[arg(long, default_value = "quick")]
    pub preset: String,
    /// Seed for order and packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// `weir doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}
