//! Whole numbers in as few bytes as they need: seven bits a byte, the lowest first.

/// Why bytes are not what a writer makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// They end too early.
    Short,
    /// A value that no writer makes.
    Malformed,
}

/// Appends a number.
pub fn push(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// The number at `at`, which moves behind it.
///
/// # Errors
/// They end too early, or no writer makes them.
#[inline]
pub fn pull(bytes: &[u8], at: &mut usize) -> Result<u64, Fault> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = byte(bytes, at)?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return Err(Fault::Malformed);
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Fault::Malformed)
}

/// The byte at `at`, which moves behind it.
pub(crate) fn byte(bytes: &[u8], at: &mut usize) -> Result<u8, Fault> {
    let byte = *bytes.get(*at).ok_or(Fault::Short)?;
    *at += 1;
    Ok(byte)
}

/// Pushes a value as its distance from the last, which it becomes.
pub(crate) fn push_near(bytes: &mut Vec<u8>, last: &mut u64, value: u64) {
    let distance = value.wrapping_sub(*last) as i64;
    push(bytes, ((distance << 1) ^ (distance >> 63)) as u64);
    *last = value;
}

/// Pulls what [`push_near`] pushed.
pub(crate) fn pull_near(bytes: &[u8], at: &mut usize, last: &mut u64) -> Result<u64, Fault> {
    let word = pull(bytes, at)?;
    let distance = (word >> 1) ^ (word & 1).wrapping_neg();
    *last = last.wrapping_add(distance);
    Ok(*last)
}
