//! pcap files of Ethernet frames (draft-ietf-opsawg-pcap), so that other tools can show packets.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINKTYPE_ETHERNET: u32 = 1;
const SNAPLEN: u32 = 262_144;

/// Writes frames as a pcap file. The time of a frame is its number in microseconds, so that the
/// same frames make the same file.
///
/// # Errors
/// If the file cannot be written.
pub fn write_frames<F: AsRef<[u8]>>(
    path: &Path,
    frames: impl IntoIterator<Item = F>,
) -> io::Result<()> {
    let mut out = BufWriter::new(fs::File::create(path)?);
    write_frames_to(&mut out, frames)?;
    out.flush()
}

/// Frames as the bytes of a pcap file.
///
/// # Errors
/// If a frame is longer than a pcap file can say.
pub fn encode_frames<F: AsRef<[u8]>>(frames: impl IntoIterator<Item = F>) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    write_frames_to(&mut out, frames)?;
    Ok(out)
}

fn write_frames_to<F: AsRef<[u8]>>(
    out: &mut impl Write,
    frames: impl IntoIterator<Item = F>,
) -> io::Result<()> {
    out.write_all(&MAGIC_MICROSECONDS.to_le_bytes())?;
    out.write_all(&2u16.to_le_bytes())?;
    out.write_all(&4u16.to_le_bytes())?;
    for word in [0, 0, SNAPLEN, LINKTYPE_ETHERNET] {
        out.write_all(&word.to_le_bytes())?;
    }
    for (number, frame) in frames.into_iter().enumerate() {
        let frame = frame.as_ref();
        let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
        let (seconds, micros) = (number / 1_000_000, number % 1_000_000);
        for word in [seconds as u32, micros as u32, length, length] {
            out.write_all(&word.to_le_bytes())?;
        }
        out.write_all(frame)?;
    }
    Ok(())
}

/// Reads the frames of a pcap file of Ethernet frames, of either byte order and time unit.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if the file is no such file, or ends inside a frame.
pub fn read_frames(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let bytes = fs::read(path)?;
    parse_frames(&bytes).map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))
}

fn parse_frames(bytes: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let first: [u8; 4] = bytes.get(..4).and_then(|b| b.try_into().ok()).ok_or("no pcap file")?;
    let is_magic = |n: u32| n == MAGIC_MICROSECONDS || n == MAGIC_NANOSECONDS;
    let word_of: fn([u8; 4]) -> u32 = match (u32::from_le_bytes(first), u32::from_be_bytes(first)) {
        (le, _) if is_magic(le) => u32::from_le_bytes,
        (_, be) if is_magic(be) => u32::from_be_bytes,
        _ => return Err("no pcap file"),
    };
    let word = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(word_of);
    if word(20).ok_or("pcap file without a whole header")? & 0xffff != LINKTYPE_ETHERNET {
        return Err("pcap file of another link type than Ethernet");
    }
    let mut frames = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let length = word(at + 8).ok_or("pcap file that ends inside a frame")? as usize;
        at += 16;
        let end = at.checked_add(length).ok_or("pcap file with a wrong length")?;
        let frame = bytes.get(at..end).ok_or("pcap file that ends inside a frame")?;
        frames.push(frame.to_vec());
        at = end;
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_frames_are_read_back() {
        let path = std::env::temp_dir().join(format!("weir-pcap-{}.pcap", std::process::id()));
        let frames = vec![vec![1u8; 60], vec![], vec![2; 1514]];
        write_frames(&path, &frames).unwrap();
        assert_eq!(read_frames(&path).unwrap(), frames);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_ends_inside_a_frame_is_refused() {
        let path = std::env::temp_dir().join(format!("weir-cut-{}.pcap", std::process::id()));
        write_frames(&path, [[7u8; 20]]).unwrap();
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(parse_frames(&bytes).unwrap().len(), 1);
        for cut in [3, 10, 30, bytes.len() - 1] {
            assert!(parse_frames(&bytes[..cut]).is_err(), "{cut}");
        }
    }
}
