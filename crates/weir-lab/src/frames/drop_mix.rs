//! An even mix of frames that a ruleset must drop and frames that it must accept.
//!
//! RFC 3511 (section 5.8) and RFC 9411 test how a firewall handles illegal traffic together with
//! legal traffic. The share is exact over the whole table and, up to one frame, over every part of
//! it; the table is sent in order. Offered, dropped and accepted frames are counted by their tags
//! as usual.

use crate::frames::{Frame, SMALL_FRAME_TABLE_MAX_SLOTS};

/// The table's length is a multiple of this, so that whole percents are exact.
const WHOLE_PERCENT_TABLE_MULTIPLE: usize = 100;

/// A table of at least as many frames, `percent` of them to be dropped, each kind in its order and
/// again from its beginning where it is too short.
///
/// # Errors
/// If the share is not a number up to 100, or there are no frames of a kind that it needs.
pub(crate) fn mix_by_drop_percent(
    frames: &[Frame],
    percent: Option<u64>,
) -> Result<Vec<Frame>, String> {
    let Some(percent) = percent.filter(|percent| *percent <= 100) else {
        return Err("the share of frames to drop is 0 to 100 percent".to_owned());
    };
    let percent = percent as usize;
    let length = frames.len().next_multiple_of(WHOLE_PERCENT_TABLE_MULTIPLE).min(
        SMALL_FRAME_TABLE_MAX_SLOTS / WHOLE_PERCENT_TABLE_MULTIPLE * WHOLE_PERCENT_TABLE_MULTIPLE,
    );
    let of_kind = |to_drop: bool, share: usize, name: &str| {
        let kind: Vec<&Frame> = frames.iter().filter(|frame| frame.to_drop == to_drop).collect();
        match kind.is_empty() && share > 0 {
            true => Err(format!("{share} % are to be {name}, but none of the frames is")),
            false => Ok(kind.into_iter().cycle()),
        }
    };
    let mut illegal = of_kind(true, percent, "dropped")?;
    let mut legal = of_kind(false, WHOLE_PERCENT_TABLE_MULTIPLE - percent, "accepted")?;
    let before = |at: usize| at * percent / WHOLE_PERCENT_TABLE_MULTIPLE;
    let pick = |at: usize| if before(at + 1) > before(at) { illegal.next() } else { legal.next() };
    Ok((0..length).filter_map(pick).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(legal: u8, illegal: u8) -> Vec<Frame> {
        let kinds = (0..legal).map(|_| false).chain((0..illegal).map(|_| true));
        kinds.zip(0..).map(|(to_drop, number)| Frame { bytes: vec![number], to_drop }).collect()
    }

    #[test]
    fn every_prefix_of_a_mix_has_the_drop_percentage() {
        for percent in [0, 1, 10, 50, 90, 100] {
            let mix = mix_by_drop_percent(&frames(7, 3), Some(percent)).unwrap();
            assert_eq!(mix.len(), 100);
            for length in 1..=mix.len() {
                let dropped = mix[..length].iter().filter(|frame| frame.to_drop).count();
                assert_eq!(dropped, length * percent as usize / 100, "{percent} % of {length}");
            }
        }
    }

    #[test]
    fn accepted_and_dropped_frames_each_keep_their_order() {
        let mix = mix_by_drop_percent(&frames(3, 2), Some(50)).unwrap();
        let numbers: Vec<u8> = mix[..8].iter().map(|frame| frame.bytes[0]).collect();
        assert_eq!(numbers, [0, 3, 1, 4, 2, 3, 0, 4]);
    }

    #[test]
    fn a_mix_requires_frames_of_both_kinds() {
        assert!(
            mix_by_drop_percent(&frames(5, 0), Some(10)).unwrap_err().contains("to be dropped")
        );
        assert!(
            mix_by_drop_percent(&frames(0, 5), Some(10)).unwrap_err().contains("to be accepted")
        );
        assert!(mix_by_drop_percent(&frames(5, 0), Some(0)).is_ok());
        assert!(mix_by_drop_percent(&frames(5, 5), Some(101)).is_err());
        assert!(mix_by_drop_percent(&frames(5, 5), None).is_err(), "a name is no share");
    }
}
