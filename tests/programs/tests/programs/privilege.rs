//! Programs with more rights than whoever begins them, with the library in `/etc/ld.so.preload`: it
//! does nothing in them, whatever the environment says, and nothing in what they begin that the
//! environment of the one with fewer rights says.
//!
//! All of it plays in a mount namespace of its own, with a copy of `/etc`: the machine's own is
//! never touched, and the namespace goes with its last process.

use std::fs;
use std::path::Path;

use barewire_programs::{Observed, Scenario, Stage, built, find, skip};
use rustix::process::geteuid;

/// Makes the namespace and what plays in it, and runs the words behind the sixth as the user.
/// `$1`: a folder; `$2`: the program; `$3`: the library, or nothing; `$4`: the user's id.
const NAMESPACE: &str = r#"
set -e
folder=$1 program=$2 library=$3 user=$4
shift 4
mount -t tmpfs -o mode=755 none "$folder"
cp -a /etc "$folder/etc"
cp "$program" "$folder/ordinary"
cp "$program" "$folder/set-user"
chmod 4755 "$folder/set-user"
cp "$program" "$folder/set-group"
chgrp 0 "$folder/set-group"
chmod 2755 "$folder/set-group"
cp "$program" "$folder/capable"
setcap cap_dac_override+ep "$folder/capable"
echo "barewire-test:x:$user:$user::/:/bin/sh" >>"$folder/etc/passwd"
echo "barewire-test:x:$user:" >>"$folder/etc/group"
for service in su sudo; do
    printf '%s sufficient pam_permit.so\n' auth account session >"$folder/etc/pam.d/$service"
done
echo 'barewire-test ALL=(ALL:ALL) NOPASSWD:SETENV: ALL' >"$folder/etc/sudoers"
chmod 440 "$folder/etc/sudoers"
rm -f "$folder/etc/ld.so.preload"
[ -z "$library" ] || echo "$library" >"$folder/etc/ld.so.preload"
mount --bind "$folder/etc" /etc
cd "$folder"
exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
"#;

/// A user that nobody is.
const USER: u32 = 12_345;

/// What nobody but root may write to.
const SECRET: &str = "what only root may write\n";

/// The facts that `words` print, run by the user, and whether it could be run at all.
fn facts(stage: &Stage, program: &Path, words: &[&str]) -> String {
    let folder = stage.path("private");
    fs::create_dir_all(&folder).unwrap();
    let secret = stage.path("secret");
    let library = stage.preload_of(true).unwrap_or(Path::new(""));
    let unshare = stage
        .tool("unshare")
        .args(["-m", "sh", "-c", NAMESPACE, "sh"]);
    let unshare = unshare.arg(&folder).arg(program).arg(library);
    let said = unshare
        .arg(USER.to_string())
        .args(words)
        .env("BAREWIRE_WHY", &secret)
        .env("BAREWIRE_SOCKETS_REPORT", &secret)
        .env("BAREWIRE_CALLS_BEFORE", "4")
        .text(60);
    let found = fs::read_to_string(&secret).unwrap();
    assert_eq!(found, SECRET, "{words:?} wrote to another's file");
    said
}

/// Facts but for the variables, which the library takes away.
fn without_variables(facts: &str) -> String {
    let kept = facts
        .split_whitespace()
        .filter(|fact| !fact.starts_with("variables="));
    kept.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_program_with_more_rights_than_its_caller_is_left_alone() {
    let name = "privilege";
    if !geteuid().is_root() {
        return skip(name, "only root can make programs with other rights");
    }
    for program in ["unshare", "setpriv", "setcap", "su"] {
        if find(program).is_none() {
            return skip(name, &format!("{program} is not installed"));
        }
    }
    if !makes_namespaces() {
        return skip(name, "no mount namespace can be made here");
    }
    let has_sudo = find("sudo").is_some();
    if !has_sudo {
        skip("privilege-sudo", "sudo is not installed");
    }
    Scenario::new(name)
        .without_upgrades()
        .run_always(|stage| play(stage, has_sudo));
}

fn makes_namespaces() -> bool {
    let made = std::process::Command::new("unshare")
        .args(["-m", "true"])
        .output();
    made.is_ok_and(|output| output.status.success())
}

fn play(stage: &Stage, has_sudo: bool) -> Observed {
    let program = built("secure", stage.folder().to_str().unwrap());
    stage.write("secret", SECRET);
    let is_preloaded = stage.preload_of(true).is_some();
    let facts = |words: &[&str]| facts(stage, &program, words);

    // The library is there, and does something where nobody has other rights.
    let ordinary = facts(&["./ordinary"]);
    assert!(ordinary.contains("secure=0"), "{ordinary}");
    assert_eq!(ordinary.contains("handlers=1"), is_preloaded, "{ordinary}");

    let mut observed = Observed::new();
    for secure in ["./set-user", "./set-group", "./capable"] {
        let facts = facts(&[secure]);
        assert!(
            facts.contains("secure=1 mark=1 handlers=0 threads=1 large=0"),
            "{secure}: {facts}"
        );
        assert_eq!(
            facts.contains("variables=0"),
            is_preloaded,
            "{secure}: {facts}"
        );
        observed += &format!("{secure} {}\n", without_variables(&facts));
    }

    // What they begin has their rights for good, and is no secure execution.
    let mut begun = vec![
        vec!["./set-user", "-x"],
        vec!["su", "-c", "./ordinary", "root"],
    ];
    if has_sudo {
        begun.push(vec!["sudo", "-n", "-E", "./ordinary"]);
    }
    for words in begun {
        let facts = facts(&words);
        assert!(facts.contains("secure=0"), "{words:?}: {facts}");
        assert_eq!(
            facts.contains("variables=0"),
            is_preloaded,
            "{words:?}: {facts}"
        );
    }
    observed
}
