//! Checks of the kernel, each in a process of its own: a sandbox may end whoever tries what it
//! forbids.

use std::process::{Command, Stdio};

use super::check::Check;
use super::kernel;

/// All of them.
pub fn checks() -> Vec<Check> {
    let all = kernel::CHECKS.iter().enumerate();
    all.flat_map(|(number, (name, check))| in_child(number, name).unwrap_or_else(check))
        .collect()
}

/// One of them; none if there cannot be another process.
fn in_child(number: usize, name: &str) -> Option<Vec<Check>> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(["doctor-end", "--check", &number.to_string()]);
    let output = command.stdin(Stdio::null()).output().ok()?;
    let checks = serde_json::from_slice(&output.stdout).ok();
    Some(checks.unwrap_or_else(|| {
        let change = format!(
            "{}, or have it refuse instead (systemd: SystemCallErrorNumber=EPERM): programs with \
             the library would be ended like this",
            kernel::SANDBOX
        );
        let found = format!("whoever tries it is ended: {}", output.status);
        vec![Check::bad(name, found, change)]
    }))
}

/// What such a process does: says what it found.
///
/// # Errors
/// It could not be said.
pub fn check(number: usize) -> std::io::Result<()> {
    let found = kernel::CHECKS.get(number).map(|(_, check)| check());
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}
