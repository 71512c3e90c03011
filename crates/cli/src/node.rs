//! `barewire node`: the keys with which nodes of different hosts prove who they are.
//!
//! What a key is, and what is checked, is in `barewire_carrier::tls`.

use std::path::{Path, PathBuf};

use barewire_carrier::How;
use barewire_carrier::tls::{GenerateOptions, Generated, Identity, IdentityError, generate, trust};
use barewire_report::columns::{PrintError, in_columns, print};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Keys are missing, faulty or open to others.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Nobody has said how this host is called.
    #[error("how this host is called is not known ({0}): name it (`--name`)")]
    NoHostName(std::io::Error),
    /// What was done could not be said.
    #[error(transparent)]
    Print(#[from] PrintError),
}

/// What to do with keys.
#[derive(Clone, Debug, Subcommand)]
pub enum NodeCommand {
    /// Make this host's key and certificate, or a secret that all hosts share
    Keygen(KeygenArgs),
    /// Trust another host's certificate
    Trust(TrustArgs),
    /// Show this host's certificate and those that it trusts
    Keys(KeysArgs),
}

/// Where the keys are.
#[derive(Clone, Debug, Args)]
struct Folder {
    /// Folder of the keys [default: barewire in $XDG_CONFIG_HOME or ~/.config]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Folder {
    fn path(&self) -> Result<PathBuf, IdentityError> {
        match &self.dir {
            Some(path) => Ok(path.clone()),
            None => Identity::default_folder(),
        }
    }
}

/// Make this host's key and certificate, or a secret that all hosts share
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  barewire node keygen                    a key and a certificate with this host's name
  barewire node keygen --name builder-3   the same with another name
  barewire node keygen --secret           a secret, to be copied to all hosts
  barewire node keygen --force            in place of those that are there
With certificates each host says whom it trusts. With a secret all hosts that have it
trust each other, and each can pass for any of them.")]
pub struct KeygenArgs {
    #[command(flatten)]
    folder: Folder,
    /// Make a secret in place of a key and a certificate
    #[arg(long, conflicts_with = "name")]
    secret: bool,
    /// Name in the certificate, for people only [default: the host's name]
    #[arg(long)]
    name: Option<String>,
    /// Replace what is there
    #[arg(long)]
    force: bool,
}

/// Trust another host's certificate
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  barewire node trust builder-3.pem --as builder-3
  barewire node trust new.pem --as builder-3 --force   it has a new key
Policies name the host as you do here. Compare the SHA-256 that is shown with what
`barewire node keys` shows on that host. To trust it no longer, remove its file from
trusted/.")]
pub struct TrustArgs {
    /// The other host's certificate.pem, copied here
    file: PathBuf,
    /// What the other host is called here
    #[arg(long = "as", value_name = "NAME")]
    name: String,
    #[command(flatten)]
    folder: Folder,
    /// Replace the certificate that has this name
    #[arg(long)]
    force: bool,
}

/// Show this host's certificate and those that it trusts
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  barewire node keys
  barewire node keys --dir keys
  barewire node keys --json | jq '.trusted[].name'
It also checks what a node would check: that nobody else can read or change the files.")]
pub struct KeysArgs {
    #[command(flatten)]
    folder: Folder,
    /// Print JSON: one object
    #[arg(long)]
    json: bool,
}

/// Does it, and says what is to be done next.
pub fn run(command: &NodeCommand) -> Result<(), NodeError> {
    let said = match command {
        NodeCommand::Keygen(args) => keygen(args)?,
        NodeCommand::Trust(args) => trusted(args)?,
        NodeCommand::Keys(args) => keys(args)?,
    };
    Ok(print(&said)?)
}

fn keygen(args: &KeygenArgs) -> Result<String, NodeError> {
    let folder = args.folder.path()?;
    let name = match (&args.name, args.secret) {
        (Some(name), _) => name.clone(),
        (None, true) => String::new(),
        (None, false) => host_name()?,
    };
    let options = GenerateOptions {
        is_secret: args.secret,
        name: name.clone(),
        replace: args.force,
    };
    Ok(match generate(&folder, &options)? {
        Generated::Certificate {
            certificate,
            fingerprint,
        } => format!(
            "{}\n  SHA-256 {fingerprint}\n\
             The key beside it never leaves this host. Copy the certificate to each host that is to \
             trust this one, and there:\n  \
             barewire node trust FILE --as {name}\n\
             Then do the same the other way round: both hosts must trust each other.\n",
            certificate.display()
        ),
        Generated::Secret { secret } => format!(
            "{}\n\
             All hosts that have this file trust each other. Copy it to each, encrypted on the way, \
             readable by its owner alone:\n  \
             ssh HOST mkdir -p -m 700 {}\n  \
             scp -p {} HOST:{}\n",
            secret.display(),
            shown_folder(&secret),
            secret.display(),
            secret.display()
        ),
    })
}

fn shown_folder(file: &Path) -> String {
    let folder = file.parent().unwrap_or(file);
    folder.display().to_string()
}

fn trusted(args: &TrustArgs) -> Result<String, NodeError> {
    let folder = args.folder.path()?;
    let fingerprint = trust(&folder, &args.file, &args.name, args.force)?;
    Ok(format!(
        "trusted as {}\n  SHA-256 {fingerprint}\n\
         Compare it with what `barewire node keys` shows on that host.\n",
        args.name
    ))
}

fn keys(args: &KeysArgs) -> Result<String, NodeError> {
    let folder = args.folder.path()?;
    let identity = Identity::load(&folder)?;
    if args.json {
        return Ok(format!("{:#}\n", object(&folder, &identity)));
    }
    let Some(own) = identity.fingerprint() else {
        return Ok(format!(
            "{}: a {}, and all hosts that have it are trusted\n",
            folder.display(),
            How::Secret
        ));
    };
    let line = |of: &str, name: &str, fingerprint: String| {
        vec![of.to_owned(), name.to_owned(), fingerprint]
    };
    let mut lines = vec![line("own", "", own.to_string())];
    for it in identity.trusted() {
        lines.push(line("trusted", &it.name, it.fingerprint.to_string()));
    }
    Ok(in_columns(&lines, &[0, 1, 2], "  "))
}

fn object(folder: &Path, identity: &Identity) -> Value {
    let own = identity.fingerprint();
    let trusted = identity.trusted().iter();
    let trusted =
        trusted.map(|it| json!({ "name": it.name, "sha256": it.fingerprint.to_string() }));
    json!({
        "folder": folder.to_string_lossy(),
        "proof": if own.is_some() { "certificate" } else { "secret" },
        "sha256": own.map(|it| it.to_string()),
        "trusted": trusted.collect::<Vec<_>>(),
    })
}

/// How the kernel calls this host.
fn host_name() -> Result<String, NodeError> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    Ok(name.map_err(NodeError::NoHostName)?.trim().to_owned())
}
