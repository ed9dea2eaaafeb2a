//! The kernels that abort the restartable sequences of aarch64.
//!
//! Linux 6.19 looks at them only where a thread was interrupted outside a system call, and does not note that on this
//! machine: a sequence goes on after a preemption, a signal or a fence. 7.1 notes it, and so does 7.0.14 (decision 0066).
//! No call tells; a trial would need a signal or a child. So the release is asked.

/// The first release of each series that aborts them again, of those that began without.
const BROKEN_FROM: [u32; 3] = [6, 19, 0];
const MENDED_FROM: [u32; 3] = [7, 0, 14];

/// Ubuntu's releases are named after the first of a series; the last word here is the release whose patches are in.
#[cfg(target_arch = "aarch64")]
pub(super) const SIGNATURE: &core::ffi::CStr = c"/proc/version_signature";

/// The first three numbers: "7.0.0-14-generic".
fn numbers(release: &[u8]) -> Option<[u32; 3]> {
    let mut numbers = [0; 3];
    let mut rest = release;
    for (place, number) in numbers.iter_mut().enumerate() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (these, behind) = rest.split_at_checked(digits)?;
        *number = core::str::from_utf8(these).ok()?.parse().ok()?;
        match behind.split_first() {
            Some((b'.', behind)) => rest = behind,
            // Some name the first of a series by two numbers.
            _ if place > 0 => break,
            _ => return None,
        }
    }
    Some(numbers)
}

fn is_mended(release: &[u8]) -> bool {
    numbers(release).is_some_and(|numbers| numbers < BROKEN_FROM || numbers >= MENDED_FROM)
}

/// Whether a kernel of this release, and of this signature if there is one, aborts sequences. Not where nobody can say.
pub(super) fn aborts_sequences(release: &[u8], signature: impl FnOnce(&mut [u8]) -> usize) -> bool {
    let mut room = [0; 128];
    is_mended(release) || {
        let length = signature(&mut room);
        let line = room.get(..length).unwrap_or(&[]).trim_ascii();
        line.rsplit(|byte| *byte == b' ').next().is_some_and(is_mended)
    }
}

/// Calls `take` with the release of the running kernel; with nothing where the system refuses to tell.
#[cfg(target_arch = "aarch64")]
pub(super) fn with_release<R>(take: impl FnOnce(&[u8]) -> R) -> R {
    // SAFETY: the call fills the structure that it is given.
    let (mut name, answer) = unsafe {
        let mut name: libc::utsname = core::mem::zeroed();
        let answer = libc::syscall(libc::SYS_uname, &raw mut name);
        (name, answer)
    };
    if answer != 0 {
        name.release.fill(0);
    }
    let length = name.release.iter().position(|byte| *byte == 0).unwrap_or(0);
    // SAFETY: the first bytes of an array of bytes, whatever the C library calls their type.
    take(unsafe { core::slice::from_raw_parts(name.release.as_ptr().cast(), length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aborts(release: &str, signature: &str) -> bool {
        aborts_sequences(release.as_bytes(), |room| {
            room[..signature.len()].copy_from_slice(signature.as_bytes());
            signature.len()
        })
    }

    #[test]
    fn kernels_from_6_19_to_7_0_13_do_not_abort_sequences() {
        for release in ["6.19.0", "6.19.14+deb13-arm64", "6.19-rc3", "7.0.0-14-generic-64k", "7.0.13", "7.0"]
        {
            assert!(!aborts(release, ""), "{release}");
        }
        for release in [
            "5.10.0-32-arm64",
            "6.12.117+deb13-arm64",
            "6.18.99",
            "7.0.14-200.fc44.aarch64",
            "7.1.0",
            "7.2.13",
        ] {
            assert!(aborts(release, ""), "{release}");
        }
    }

    #[test]
    fn what_an_ubuntu_kernel_has_is_in_its_signature() {
        assert!(!aborts("7.0.0-14-generic", "Ubuntu 7.0.0-14.14-generic 7.0.0\n"));
        assert!(aborts("7.0.0-30-generic", "Ubuntu 7.0.0-30.30-generic 7.0.14\n"));
        assert!(aborts("6.17.0-8-generic", "Ubuntu 6.17.0-8.8-generic 6.17.2\n"));
    }

    #[test]
    fn a_kernel_that_nobody_can_name_is_not_trusted() {
        for (release, signature) in [("", ""), ("next", ""), ("7", "7"), ("99999999999.1", " ")] {
            assert!(!aborts(release, signature), "{release} {signature}");
        }
    }
}
