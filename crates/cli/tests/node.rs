//! `barewire node`: keys made, trusted and shown, and what is refused.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use barewire_carrier::tls::Identity;

/// A folder that is removed afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("barewire-cli-node-{}-{name}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn node(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_barewire"))
        .arg("node")
        .args(arguments)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("HOME")
        .stdin(Stdio::null())
        .output()
        .expect("barewire starts")
}

/// What it says if all is well.
fn said(arguments: &[&str]) -> String {
    let output = node(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    assert_eq!(output.stderr, b"", "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What it says if not.
fn refused(arguments: &[&str]) -> String {
    let output = node(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    assert_eq!(output.stdout, b"", "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn two_hosts_get_keys_and_trust_each_other() {
    let place = Folder::new("two");
    let (one, other) = (place.path("one"), place.path("other"));
    let made = said(&["keygen", "--dir", &one, "--name", "one"]);
    assert!(made.contains("barewire node trust FILE --as one"), "{made}");
    said(&["keygen", "--dir", &other, "--name", "other"]);
    let own = Identity::load(Path::new(&other)).unwrap().fingerprint();
    let own = own.unwrap().to_string();
    let certificate = place.path("other/certificate.pem");
    let trusted = said(&["trust", &certificate, "--as", "friend", "--dir", &one]);
    assert!(trusted.contains(&own), "{trusted}");
    let keys = said(&["keys", "--dir", &one]);
    let lines: Vec<Vec<&str>> = keys
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines.len(), 2, "{keys}");
    assert_eq!(lines[0][0], "own");
    assert!(made.contains(lines[0][1]), "{keys}");
    assert_eq!(lines[1], ["trusted", "friend", &own]);
    // Neither is replaced unasked.
    let said_no = refused(&["keygen", "--dir", &one]);
    assert!(
        said_no.contains("exists") && said_no.contains("--force"),
        "{said_no}"
    );
    refused(&["trust", &certificate, "--as", "friend", "--dir", &one]);
    said(&["keygen", "--dir", &one, "--name", "one", "--force"]);
    assert_ne!(said(&["keys", "--dir", &one]), keys);
    // A key is no certificate.
    let key = place.path("other/key.pem");
    assert!(refused(&["trust", &key, "--as", "x", "--dir", &one]).contains("must never leave"));
    // Others can read it.
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused(&["keys", "--dir", &other]).contains("chmod 600"));
}

#[test]
fn a_secret_is_made_and_never_shown() {
    let place = Folder::new("secret");
    let folder = place.path("");
    let made = said(&["keygen", "--secret", "--dir", &folder]);
    let secret = std::fs::read_to_string(place.path("secret")).unwrap();
    assert_eq!(secret.trim().len(), 64);
    let keys = said(&["keys", "--dir", &folder]);
    assert!(keys.contains("a secret"), "{keys}");
    for shown in [made, keys] {
        assert!(!shown.contains(secret.trim()), "{shown}");
    }
    assert!(refused(&["keygen", "--secret", "--dir", &folder]).contains("exists"));
    assert!(
        refused(&["keygen", "--name", "x", "--dir", &folder]).contains("both key.pem and secret")
    );
    assert_eq!(
        std::fs::read_to_string(place.path("secret")).unwrap(),
        secret
    );
}

#[test]
fn what_is_missing_is_named() {
    assert!(refused(&["keys"]).contains("--dir"));
    let place = Folder::new("missing");
    std::fs::create_dir(&place.0).unwrap();
    assert!(refused(&["keys", "--dir", &place.path("")]).contains("barewire node keygen"));
    assert!(refused(&["keygen", "--name", "a b", "--dir", &place.path("")]).contains("`a b`"));
}
