//! `barewire run --edge`: the gateway beside a program, which has its connections through a bridge.
//!
//! The gateway is a process of its own. This process becomes the program, as without the option, so process id, signals
//! and exit status are the program's own. So that the program does not find a child that it knows nothing of, the
//! gateway is the child of a child that ends at once.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use barewire_edge::gateway::{Gateway, GatewayError, GatewayOptions};
use barewire_proto::edge::program::{NETWORKS_MAX, Network};
use clap::Args;

/// What this program starts itself as.
pub const GATEWAY: &str = "edge-gateway";
/// What the gateway's first line begins with if it is open.
const OPEN: &str = "open ";

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// It did not open.
    #[error("--edge: {0}")]
    Gateway(String),
    /// It could not be started.
    #[error("--edge: the gateway cannot be started: {0}")]
    Start(#[from] std::io::Error),
}

/// The arguments of the gateway's process.
#[derive(Debug, Args)]
pub struct GatewayArgs {
    /// The name of the bridge
    #[arg(long)]
    bridge: String,
    /// What goes through it
    #[arg(long, value_parser = network)]
    network: Vec<Network>,
    /// The process id of the program
    #[arg(long)]
    program: i32,
    /// Be the gateway, and not who starts it
    #[arg(long)]
    stay: bool,
}

/// A network, as an argument.
pub fn network(text: &str) -> Result<Network, String> {
    Network::parse(text)
        .ok_or_else(|| "it is no network; write ADDRESS/PREFIX, as in 10.0.0.0/8".to_owned())
}

/// Starts a gateway for the program that this process becomes, and returns what its environment has to say.
pub fn start(bridge: &str, networks: &[Network]) -> Result<String, EdgeError> {
    if networks.len() > NETWORKS_MAX {
        let error = GatewayError::Networks(networks.len());
        return Err(EdgeError::Gateway(error.to_string()));
    }
    let mut arguments = vec![
        GATEWAY.to_owned(),
        format!("--bridge={bridge}"),
        format!("--program={}", std::process::id()),
    ];
    arguments.extend(networks.iter().map(|it| format!("--network={it}")));
    let mut starter = command(&arguments)?.stdout(Stdio::piped()).spawn()?;
    let said = starter.stdout.take();
    let ended = starter.wait()?;
    let mut line = String::new();
    if let (Some(said), true) = (said, ended.success()) {
        // The gateway may live long, and keeps its end open; a line is all that it says.
        BufReader::new(said.take(1 << 16)).read_line(&mut line)?;
    }
    match line.trim_end().strip_prefix(OPEN) {
        Some(value) => Ok(value.to_owned()),
        None if line.is_empty() => Err(EdgeError::Gateway("the gateway has died".to_owned())),
        None => Err(EdgeError::Gateway(line.trim_end().to_owned())),
    }
}

/// This program again, with nothing of the other program's: no input, no errors, no library.
fn command(arguments: &[String]) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(arguments)
        .env_remove("LD_PRELOAD")
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    Ok(command)
}

/// Is the gateway's process, or the one that starts it.
pub fn gateway(args: &GatewayArgs) -> Result<(), Box<dyn std::error::Error>> {
    if !args.stay {
        let mut arguments: Vec<String> = std::env::args().skip(1).collect();
        arguments.push("--stay".to_owned());
        // What the terminal sends to the program's group is not for the gateway.
        let _: Child = command(&arguments)?.process_group(0).spawn()?;
        return Ok(());
    }
    let options = GatewayOptions {
        bridge: args.bridge.clone(),
        networks: args.network.clone(),
        program: args.program,
    };
    let node = barewire::Node::new()?;
    let mut said = std::io::stdout();
    match Gateway::open(&node, &options) {
        Ok(mut gateway) => {
            writeln!(said, "{OPEN}{}", gateway.place())?;
            gateway.serve()?;
        }
        Err(error) => writeln!(said, "{error}")?,
    }
    Ok(())
}
