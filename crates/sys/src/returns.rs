//! Whether the kernel leaves the processor's predictor of returns out of step, as it does on some processors of AMD.

use std::sync::Once;

/// Where the kernel says what it does about the weakness.
const STATE_PATH: &str = "/sys/devices/system/cpu/vulnerabilities/spec_rstack_overflow";

/// Looks once in a process, and tells [`barewire_cpu::after_system_call`]. What can not be read counts as no.
pub fn learn() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let state = std::fs::read_to_string(STATE_PATH).unwrap_or_default();
        barewire_cpu::set_returns_mispredicted(are_mispredicted(&state));
    });
}

/// What the kernel's words mean (`srso_strings` in `arch/x86/kernel/cpu/bugs.c`).
fn are_mispredicted(state: &str) -> bool {
    state.contains(": Safe RET")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_returns_are_mispredicted() {
        for mispredicted in [
            "Mitigation: Safe RET\n",
            "Vulnerable: Safe RET, no microcode\n",
        ] {
            assert!(are_mispredicted(mispredicted), "{mispredicted}");
        }
        for kept in [
            "",
            "Not affected\n",
            "Vulnerable\n",
            "Vulnerable: Microcode, no safe RET\n",
            "Vulnerable: No microcode\n",
            "Mitigation: IBPB\n",
            "Mitigation: IBPB on VMEXIT only\n",
            "Mitigation: Reduced Speculation\n",
            "Mitigation: SMT disabled\n",
        ] {
            assert!(!are_mispredicted(kept), "{kept}");
        }
    }
}
