//! Arguments of `weir status`.

use std::path::PathBuf;

use clap::Args;

/// `weir status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The network namespace to look at, as `ip netns` lists it; by default the current one.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Directory with the generations of weir apply.
    #[arg(long, value_name = "DIR", env = "WEIR_STATE", default_value = "/var/lib/weir")]
    pub state: PathBuf,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}
