//! Arguments of `weir doctor`.

use clap::Args;

/// `weir doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}
