//! Per-CPU values, as the C structs that a skeleton declares.
//!
//! Fields are accessed by name, so a struct that changes in C changes here as well.

use libbpf_rs::{MapCore, MapFlags};

use crate::BpfError;

/// A struct of C whose every pattern of bits is a value of it.
///
/// # Safety
/// It has no padding that matters, no pointers, and no enumerations or booleans.
pub unsafe trait PlainCStruct: Copy + Default {}

// SAFETY: every pattern of bits is a number.
unsafe impl PlainCStruct for u64 {}

/// The values of all cores at one key.
///
/// # Errors
/// If the kernel refuses.
///
/// # Panics
/// Where the map's values are shorter than `T`.
pub fn read_per_cpu_values<T: PlainCStruct>(
    map: &impl MapCore,
    key: u32,
    action: &'static str,
) -> Result<Vec<T>, BpfError> {
    let cores = map
        .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
        .map_err(BpfError::from_libbpf(action))?;
    Ok(cores.unwrap_or_default().iter().map(|bytes| read_leading_struct(bytes)).collect())
}

/// Arrays of values of all cores at one key, for maps whose value is an array of `T`.
///
/// # Errors
/// If the kernel refuses.
pub fn read_per_cpu_array_at_key<T: PlainCStruct>(
    map: &impl MapCore,
    key: u32,
    action: &'static str,
) -> Result<Vec<Vec<T>>, BpfError> {
    let cores = map
        .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
        .map_err(BpfError::from_libbpf(action))?;
    let array =
        |bytes: &Vec<u8>| bytes.chunks_exact(size_of::<T>()).map(read_leading_struct).collect();
    Ok(cores.unwrap_or_default().iter().map(array).collect())
}

/// Sets the values of all cores at one key to zeroes, as many bytes as the map's values have.
///
/// # Errors
/// If the kernel refuses.
pub fn clear_per_cpu_values(
    map: &impl MapCore,
    key: u32,
    action: &'static str,
) -> Result<(), BpfError> {
    let cores = libbpf_rs::num_possible_cpus().map_err(BpfError::from_libbpf("count the cores"))?;
    let zeroes = vec![vec![0; map.value_size() as usize]; cores];
    map.update_percpu(&key.to_ne_bytes(), &zeroes, MapFlags::ANY)
        .map_err(BpfError::from_libbpf(action))
}

/// The struct at the beginning of some bytes.
fn read_leading_struct<T: PlainCStruct>(bytes: impl AsRef<[u8]>) -> T {
    let bytes = bytes.as_ref();
    assert!(bytes.len() >= size_of::<T>(), "the map's values are those of the struct");
    // SAFETY: there are as many bytes, every pattern is a value (`PlainCStruct`), and no alignment
    // is taken for granted.
    unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_is_read_from_bytes_at_any_address() {
        let bytes = [1, 0, 0, 0, 0, 0, 0, 0, 2];
        assert_eq!(
            read_leading_struct::<u64>(
                &bytes[1..].iter().chain(&[0; 4]).copied().collect::<Vec<u8>>()
            ),
            2 << 56
        );
        assert_eq!(read_leading_struct::<u64>(&bytes[..8]), 1);
    }
}
