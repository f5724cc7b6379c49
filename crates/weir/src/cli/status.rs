//! Arguments of `weir status`.

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
