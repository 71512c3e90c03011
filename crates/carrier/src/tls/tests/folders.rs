//! Folders of keys: what is made, what is refused, and that nothing secret is shown.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::super::{Fingerprint, Generated, Identity, IdentityError, generate, trust};
use super::support::{Folder, options};
use crate::peer::How;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Why the folder cannot be used, as text.
fn refusal(folder: &Folder) -> String {
    Identity::load(folder.path()).unwrap_err().to_string()
}

#[test]
fn keys_are_private_from_the_beginning_and_nothing_else_is_left() {
    let folder = Folder::new();
    let place = folder.file("a/b");
    let made = generate(&place, &options(false)).unwrap();
    let Generated::Certificate {
        certificate,
        fingerprint,
    } = made
    else {
        panic!("{made:?}");
    };
    assert_eq!(mode(&place), 0o700);
    assert_eq!(mode(&place.join("trusted")), 0o700);
    assert_eq!(mode(&place.join("key.pem")), 0o600);
    let mut names: Vec<_> = fs::read_dir(&place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["certificate.pem", "key.pem", "trusted"]);
    let identity = Identity::load(&place).unwrap();
    assert_eq!(identity.how(), How::Certificate);
    assert_eq!(identity.fingerprint(), Some(fingerprint));
    let pem = fs::read_to_string(certificate).unwrap();
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"), "{pem}");
    let other = Folder::with_secret();
    assert_eq!(mode(&other.file("secret")), 0o600);
    assert_eq!(other.load().how(), How::Secret);
}

#[test]
fn a_key_that_others_can_read_is_refused_and_the_remedy_named() {
    for (folder, file) in [
        (Folder::with_certificate(), "key.pem"),
        (Folder::with_secret(), "secret"),
    ] {
        for bad in [0o640, 0o604, 0o620, 0o602, 0o601, 0o610] {
            set_mode(&folder.file(file), bad);
            let said = refusal(&folder);
            assert!(said.contains("others can read it"), "{bad:o}: {said}");
            assert!(said.contains("chmod 600 "), "{bad:o}: {said}");
        }
        for good in [0o600, 0o400] {
            set_mode(&folder.file(file), good);
            folder.load();
        }
    }
}

#[test]
fn what_others_can_write_decides_nothing() {
    let folder = Folder::with_certificate();
    folder.trust(&Folder::with_certificate(), "friend");
    for name in ["", "trusted", "trusted/friend.pem", "certificate.pem"] {
        let path = folder.file(name);
        let good = mode(&path);
        for bad in [good | 0o020, good | 0o002] {
            set_mode(&path, bad);
            let said = refusal(&folder);
            assert!(said.contains("others can change it"), "{name}: {said}");
            assert!(said.contains("chmod go-w"), "{name}: {said}");
        }
        set_mode(&path, good | 0o044);
        folder.load();
        set_mode(&path, good);
    }
}

#[test]
fn the_file_behind_a_link_is_what_is_checked() {
    let folder = Folder::with_certificate();
    let elsewhere = folder.file("trusted/.elsewhere");
    fs::rename(folder.file("key.pem"), &elsewhere).unwrap();
    symlink(&elsewhere, folder.file("key.pem")).unwrap();
    folder.load();
    set_mode(&elsewhere, 0o644);
    assert!(refusal(&folder).contains("others can read it"));
}

#[test]
fn what_is_no_file_makes_nobody_wait() {
    let folder = Folder::with_certificate();
    let key = folder.file("key.pem");
    fs::remove_file(&key).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &key, fifo, mode, 0).unwrap();
    assert!(refusal(&folder).contains("no regular file"));
}

#[test]
fn nothing_is_replaced_unless_told() {
    let folder = Folder::with_certificate();
    let before = fs::read(folder.file("key.pem")).unwrap();
    let error = generate(folder.path(), &options(false)).unwrap_err();
    assert!(matches!(error, IdentityError::Exists { .. }), "{error}");
    assert!(error.to_string().contains("--force"), "{error}");
    // A certificate without a key counts, too.
    fs::remove_file(folder.file("key.pem")).unwrap();
    let error = generate(folder.path(), &options(false)).unwrap_err();
    assert!(matches!(error, IdentityError::Exists { .. }), "{error}");
    let mut replace = options(false);
    replace.replace = true;
    generate(folder.path(), &replace).unwrap();
    assert_ne!(fs::read(folder.file("key.pem")).unwrap(), before);
    folder.load();
    // Another kind of key is never replaced.
    replace.is_secret = true;
    let error = generate(folder.path(), &replace).unwrap_err();
    assert!(matches!(error, IdentityError::TwoWays { .. }), "{error}");
    let error = generate(Folder::with_secret().path(), &options(false)).unwrap_err();
    assert!(matches!(error, IdentityError::TwoWays { .. }), "{error}");
}

#[test]
fn what_is_missing_or_ambiguous_is_named() {
    let folder = Folder::new();
    assert!(refusal(&folder).contains("barewire node keygen"));
    generate(folder.path(), &options(false)).unwrap();
    fs::copy(Folder::with_secret().file("secret"), folder.file("secret")).unwrap();
    assert!(refusal(&folder).contains("both key.pem and secret"));
    fs::remove_file(folder.file("secret")).unwrap();
    // The certificate of another key.
    let other = Folder::with_certificate();
    fs::copy(
        other.file("certificate.pem"),
        folder.file("certificate.pem"),
    )
    .unwrap();
    let said = refusal(&folder);
    assert!(
        said.contains("cannot be used with certificate.pem"),
        "{said}"
    );
    fs::remove_file(folder.file("certificate.pem")).unwrap();
    assert!(refusal(&folder).contains("missing beside key.pem"));
    fs::write(folder.file("key.pem"), "no key").unwrap();
    assert!(refusal(&folder).contains("no private key"));
}

#[test]
fn secrets_that_could_be_guessed_or_read_wrongly_are_refused() {
    let folder = Folder::with_secret();
    let file = folder.file("secret");
    let good = fs::read_to_string(&file).unwrap();
    assert_eq!(good.trim().len(), 64);
    for (text, what) in [
        (String::new(), "holds 0 bytes"),
        (good.trim()[..62].to_owned(), "holds 31 bytes"),
        (good.trim()[..63].to_owned(), "odd number"),
        (format!("{}zz", good.trim()), "other than hexadecimal"),
        (good.replace('\n', " \n0x"), "other than hexadecimal"),
        ("00".repeat(40_000), "larger than 64 KiB"),
    ] {
        fs::write(&file, &text).unwrap();
        let said = refusal(&folder);
        assert!(said.contains(what), "{what}: {said}");
        assert!(text.is_empty() || !said.contains(&text), "{said}");
    }
    fs::write(&file, format!(" {}\r\n\n", good.trim().to_uppercase())).unwrap();
    folder.load();
}

#[test]
fn trusted_certificates_have_one_name_each() {
    let folder = Folder::with_certificate();
    let (one, other) = (Folder::with_certificate(), Folder::with_certificate());
    let fingerprint = trust(folder.path(), &one.file("certificate.pem"), "one", false).unwrap();
    assert_eq!(Some(fingerprint), one.load().fingerprint());
    let found = folder.load();
    assert_eq!(found.trusted().len(), 1);
    assert_eq!(
        (&*found.trusted()[0].name, found.trusted()[0].fingerprint),
        ("one", fingerprint)
    );
    // The name is taken.
    let error = trust(folder.path(), &other.file("certificate.pem"), "one", false).unwrap_err();
    assert!(matches!(error, IdentityError::Exists { .. }), "{error}");
    trust(folder.path(), &other.file("certificate.pem"), "one", true).unwrap();
    assert_eq!(
        folder.load().trusted()[0].fingerprint,
        other.load().fingerprint().unwrap()
    );
    // The certificate has a name.
    let error = trust(folder.path(), &other.file("certificate.pem"), "two", false).unwrap_err();
    assert!(
        matches!(error, IdentityError::TrustedTwice { .. }),
        "{error}"
    );
    fs::copy(
        other.file("certificate.pem"),
        folder.file("trusted/two.pem"),
    )
    .unwrap();
    assert!(refusal(&folder).contains("are the same"));
    fs::remove_file(folder.file("trusted/two.pem")).unwrap();
    // Nothing is passed over in silence.
    fs::write(folder.file("trusted/three.pem~"), "").unwrap();
    assert!(refusal(&folder).contains("only files NAME.pem"));
}

#[test]
fn only_certificates_are_trusted_and_only_under_plain_names() {
    let folder = Folder::with_certificate();
    let other = Folder::with_certificate();
    let file = other.file("certificate.pem");
    let long = "x".repeat(65);
    for name in [
        "", "secret", "nobody", ".x", "-x", "a/b", "..", "a b", "é", &long,
    ] {
        let error = trust(folder.path(), &file, name, false).unwrap_err();
        assert!(
            matches!(error, IdentityError::BadName { .. }),
            "{name}: {error}"
        );
    }
    let error = trust(folder.path(), &other.file("key.pem"), "x", false).unwrap_err();
    assert!(error.to_string().contains("must never leave"), "{error}");
    let bad = folder.file("trusted/.bad");
    let pem = fs::read_to_string(&file).unwrap();
    for text in [
        String::new(),
        "certificate".to_owned(),
        pem.replace("CERTIFICATE", "CERTIFICATE REQUEST"),
        pem.replace("\nM", "\nA"),
        format!("{pem}{pem}"),
        pem[..pem.len() / 2].to_owned(),
    ] {
        fs::write(&bad, &text).unwrap();
        let error = trust(folder.path(), &bad, "x", false).unwrap_err();
        assert!(
            matches!(error, IdentityError::Content { .. }),
            "{text}: {error}"
        );
    }
    assert_eq!(folder.load().trusted().len(), 0);
}

#[test]
fn no_secret_is_shown() {
    let (with_secret, with_key) = (Folder::with_secret(), Folder::with_certificate());
    let secret = fs::read_to_string(with_secret.file("secret")).unwrap();
    let key = fs::read_to_string(with_key.file("key.pem")).unwrap();
    let key = key.lines().nth(1).unwrap();
    for shown in [
        format!("{:?}", with_secret.load()),
        format!("{:#?}", with_key.load()),
    ] {
        assert!(shown.contains("Identity"), "{shown}");
        assert!(
            !shown.contains(secret.trim()) && !shown.contains(key),
            "{shown}"
        );
    }
    assert_eq!(
        Fingerprint::of(b"").to_string(),
        "E3:B0:C4:42:98:FC:1C:14:9A:FB:F4:C8:99:6F:B9:24:27:AE:41:E4:64:9B:93:4C:A4:95:99:1B:78:52:B8:55"
    );
}
