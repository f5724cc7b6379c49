//! Arguments of `weir tune`.

use clap::Args;

/// `weir tune`.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}
