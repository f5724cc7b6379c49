//! Arguments of `weir calibrate`.

use std::path::PathBuf;

use clap::Args;

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
