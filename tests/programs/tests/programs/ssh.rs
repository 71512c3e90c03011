//! OpenSSH over a local connection: a command's large output, sftp, a forwarded port.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use barewire_programs::{Observed, Program, Running, Scenario, Stage, is_long};
use rustix::process::{Signal, geteuid};

struct Ssh<'stage> {
    stage: &'stage Stage,
    port: u16,
    running: Running<'stage>,
    user: String,
    /// A folder that sshd demands of root; ours if we made it.
    _privileges: Option<Folder>,
}

/// A folder that goes when this does.
struct Folder(&'static Path);

impl Drop for Folder {
    fn drop(&mut self) {
        // Another sshd may use it by now.
        let _ = fs::remove_dir(self.0);
    }
}

/// Debian's sshd refuses to start as root without this folder, which its service makes.
fn privileges() -> Option<Folder> {
    let folder = Path::new("/run/sshd");
    let is_ours = geteuid().is_root() && fs::create_dir(folder).is_ok();
    is_ours.then_some(Folder(folder))
}

impl<'stage> Ssh<'stage> {
    fn start(stage: &'stage Stage) -> Self {
        let port = stage.free_port();
        for key in ["host", "user"] {
            let file = stage.path(key);
            stage
                .tool("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(file)
                .text(20);
        }
        let folder = stage.folder().display();
        let sftp = [
            "/usr/lib/openssh/sftp-server",
            "/usr/libexec/openssh/sftp-server",
        ];
        let sftp = sftp
            .iter()
            .find(|file| Path::new(file).exists())
            .expect("openssh-sftp-server");
        let config = stage.write(
            "sshd_config",
            format!(
                "ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nPidFile none\n\
                 AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nUsePAM no\n\
                 PasswordAuthentication no\nPermitRootLogin yes\nAllowTcpForwarding yes\n\
                 Subsystem sftp {sftp}\n"
            ),
        );
        let _privileges = privileges();
        // It and its children leave by _exit().
        let sshd = stage
            .server("sshd")
            .without_report()
            .args(["-D", "-e", "-f"]);
        let mut running = sshd.arg(config).start();
        running.wait_for_port("127.0.0.1", port);
        let user = stage.tool("id").arg("-un").text(10).trim().to_owned();
        Self {
            stage,
            port,
            running,
            user,
            _privileges,
        }
    }

    fn client(&self, program: &str) -> Program<'stage> {
        let folder = self.stage.folder().display();
        let options = [
            "StrictHostKeyChecking=accept-new",
            "IdentitiesOnly=yes",
            "BatchMode=yes",
        ];
        let known = format!("UserKnownHostsFile={folder}/known");
        let client = self.stage.client(program).args(["-F", "none", "-q"]);
        let client = client.args(["-o", &known, "-i", &format!("{folder}/user")]);
        options
            .iter()
            .fold(client, |client, option| client.args(["-o", option]))
    }

    fn ssh(&self) -> Program<'stage> {
        let client = self.client("ssh").args(["-p", &self.port.to_string()]);
        client.args(["-l", &self.user, "127.0.0.1"])
    }

    fn stop(self) {
        let _ = self.running.stop(Signal::TERM, 20);
    }
}

fn content(size: usize) -> Vec<u8> {
    (0..size as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as u8)
        .collect()
}

/// Sends back what comes, on each connection.
fn echo(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept() {
        let mut word = [0; 65536];
        while let Ok(size @ 1..) = stream.read(&mut word) {
            if word[..size] == *b"quit" {
                return;
            }
            stream.write_all(&word[..size]).expect("the client reads");
        }
    }
}

/// Bytes through the forwarded port and back.
fn through(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut sender = stream.try_clone().unwrap();
    let mut back = Vec::new();
    thread::scope(|scope| {
        scope.spawn(move || {
            sender.write_all(bytes).unwrap();
            sender.shutdown(Shutdown::Write).unwrap();
        });
        stream.read_to_end(&mut back).unwrap();
    });
    back
}

#[test]
fn openssh() {
    let play = |stage: &Stage| -> Observed {
        let large = content(if is_long() { 500 << 20 } else { 50 << 20 });
        let file = stage.write("large", &large);
        let ssh = Ssh::start(stage);
        let output = ssh.ssh().arg("echo one; echo two >&2; exit 7").run(60);
        let mut seen = format!(
            "{:?} {} {}",
            output.status.code(),
            output.stdout,
            output.stderr
        );
        ssh.ssh()
            .arg(format!("cat > {}/back", stage.folder().display()))
            .input(&file)
            .text(120);
        assert!(
            fs::read(stage.path("back")).unwrap() == large,
            "other bytes came to the server"
        );
        let cat = ssh
            .ssh()
            .arg(format!("cat {}", file.display()))
            .run(120)
            .success();
        assert!(
            fs::read(cat.stdout_file).unwrap() == large,
            "other bytes came from the server"
        );
        let fetched = stage.path("fetched");
        let batch = format!("get large {}\nput large put\nls\n", fetched.display());
        let batch = stage.write("batch", format!("cd {}\n{batch}", stage.folder().display()));
        let sftp = ssh
            .client("sftp")
            .arg("-b")
            .arg(batch)
            .args(["-P", &ssh.port.to_string()]);
        sftp.arg(format!("{}@127.0.0.1", ssh.user)).text(120);
        for name in ["fetched", "put"] {
            assert!(
                fs::read(stage.path(name)).unwrap() == large,
                "{name}: other bytes"
            );
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let behind = listener.local_addr().unwrap().port();
        let forwarded = stage.free_port();
        let echoing = thread::spawn(move || echo(listener));
        let rule = format!("{forwarded}:127.0.0.1:{behind}");
        let forward = ssh.ssh().without_report().args(["-N", "-L", &rule]).start();
        forward.wait_for_listener(forwarded);
        let part = &large[..5 << 20];
        assert!(through(forwarded, part) == part, "other bytes came through");
        through(forwarded, b"quit");
        echoing.join().unwrap();
        let _ = forward.stop(Signal::TERM, 10);
        ssh.stop();
        seen += &format!("{} bytes each way\n", large.len());
        seen
    };
    // sshd begins another program for each connection, which finds the socket open: the
    // library knows of sockets that are connected or accepted while it is there.
    // Its halves talk over pairs, and the one that an unknown client speaks to is confined.
    Scenario::new("openssh")
        .with_unix()
        .without_upgrades()
        .run(&["sshd", "ssh", "sftp", "ssh-keygen"], play);
}
