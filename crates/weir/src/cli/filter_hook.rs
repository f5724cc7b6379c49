//! The argument `--hook` of commands that trace packets.

use clap::ValueEnum;

/// A hook where a packet begins its journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FilterHookArg {
    /// Through the host.
    Forward,
    /// To the host.
    Input,
    /// From the host.
    Output,
}

impl FilterHookArg {
    /// The hook in the interpreter.
    pub fn to_journey_kind(self) -> weir_semantics::JourneyKind {
        match self {
            FilterHookArg::Forward => weir_semantics::JourneyKind::Forward,
            FilterHookArg::Input => weir_semantics::JourneyKind::Input,
            FilterHookArg::Output => weir_semantics::JourneyKind::Output,
        }
    }
}
