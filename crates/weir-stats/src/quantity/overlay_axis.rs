//! The axis of several runs that are drawn by one quantity.

/// The unit in which values of a quantity are printed on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityUnit {
    /// Numbers: rates, bytes.
    Count,
    /// Seconds.
    Seconds,
}

/// The axis by which several runs are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOverlayYAxis {
    /// The unit of its values.
    pub unit: QuantityUnit,
    /// Its title.
    pub title: &'static str,
}
