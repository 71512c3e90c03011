//! Remote procedure calls over libraries that we did not write: gRPC in C++ and in Python, Apache Thrift in
//! Python, ONC RPC (libtirpc); and messages over ZeroMQ. Small programs in `echo/` send bytes,
//! which come back; the clients compare them.

use std::path::{Path, PathBuf};
use std::process::Command;

use barewire_programs::{
    Need, Observed, Output, Running, Scenario, Stage, compile, is_long, made, run, source,
};
use rustix::process::Signal;

const PYTHON: Need = ("/usr/bin/python3", "python3");
/// All of them end long before, also beside builds.
const LIMIT_S: u64 = 300;

/// What all connections of gRPC stay with the kernel for: `TCP_INQ`.
const KERNEL_ONLY: &str = "kernel, used in a way that only the kernel serves";

fn sources(names: &[&str]) -> Vec<PathBuf> {
    let file = |name: &&str| source("echo").join(name);
    names.iter().map(file).collect()
}

/// A folder for what is generated of one program, and the program in it.
fn place(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("echo-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join("program")
}

/// The option by which the compiler finds what `echo/` has.
fn include(folder: &Path) -> String {
    format!("-I{}", folder.display())
}

/// `PROGRAM server PORT`.
fn serve<'stage>(stage: &'stage Stage, program: &Path, port: u16) -> Running<'stage> {
    let server = stage.server(program).arg("server").arg(port.to_string());
    let running = server.start();
    running.wait_for_listener(port);
    running
}

/// `PROGRAM client PORT COUNT`, to its end; gives what it printed.
fn ask(stage: &Stage, program: &Path, port: u16, count: u32) -> Observed {
    let client = stage.client(program).arg("client");
    let words = [port.to_string(), count.to_string()];
    observed(stage, client.args(words).run(LIMIT_S))
}

/// What a client printed; its figures are entered.
fn observed(stage: &Stage, output: Output) -> Observed {
    let output = output.success();
    stage.figures_of(&output);
    assert!(!output.stdout.is_empty(), "the client prints sums");
    output.stdout
}

fn end(server: Running<'_>) {
    let _ = server.stop(Signal::TERM, 60).success();
}

/// A folder of the stage for generated code.
fn generated(stage: &Stage) -> PathBuf {
    let folder = stage.path("generated");
    std::fs::create_dir(&folder).unwrap();
    folder
}

/// A server and a client in Python, on generated code: `server.py FOLDER PORT`, `client.py FOLDER PORT COUNT`.
fn scripts_of_python(stage: &Stage, folder: &Path, scripts: [&str; 2], count: u32) -> Observed {
    let [server, client] = scripts.map(|name| source("echo").join(name));
    let port = stage.free_port();
    let server = stage.server(PYTHON.0).arg(server).arg(folder);
    let server = server.arg(port.to_string()).start();
    server.wait_for_listener(port);
    let client = stage.client(PYTHON.0).arg(client).arg(folder);
    let words = [port.to_string(), count.to_string()];
    let seen = observed(stage, client.args(words).run(LIMIT_S));
    end(server);
    seen
}

/// How many exchanges: few, or as many as some seconds take.
fn amount(few: u32, many: u32) -> u32 {
    if is_long() { many } else { few }
}

/// No connection was upgraded where both ends have the library, and the library says why.
fn check_kernel_only(stage: &Stage) {
    if stage.preload_of(true).is_some() && stage.preload_of(false).is_some() {
        let whys = stage.whys();
        assert!(whys.contains_key(KERNEL_ONLY), "{whys:?}");
    }
}

const GRPC_NEEDS: &[Need] = &[
    ("c++", "g++"),
    ("pkg-config", "pkg-config"),
    ("protoc", "protobuf-compiler"),
    ("grpc_cpp_plugin", "protobuf-compiler-grpc"),
    ("/usr/include/grpcpp/grpcpp.h", "libgrpc++-dev"),
];

/// Generates code from `echo.proto`, in a folder.
fn protoc(folder: &Path, plugin: &str, options: &[&str]) {
    let plugin = barewire_programs::find(plugin).unwrap();
    let mut protoc = Command::new("protoc");
    protoc.arg(format!("--plugin=protoc-gen-grpc={}", plugin.display()));
    for option in options {
        protoc.arg(format!("{option}={}", folder.display()));
    }
    let proto = source("echo");
    run(protoc.arg(include(&proto)).arg(proto.join("echo.proto")));
}

fn grpc_program() -> PathBuf {
    let from = sources(&["grpc.cc", "echo.proto", "common.h"]);
    made(place("grpc"), &from, |program| {
        let folder = program.parent().unwrap();
        protoc(folder, "grpc_cpp_plugin", &["--cpp_out", "--grpc_out"]);
        let mut flags = Command::new("pkg-config");
        let flags = run(flags.args(["--cflags", "--libs", "grpc++", "protobuf"]));
        let includes = [folder, &source("echo")].map(include);
        let mut options: Vec<_> = includes.iter().map(String::as_str).collect();
        options.extend(["-O1", "-g0"]);
        options.extend(flags.split_whitespace());
        compile("c++", &from[..1], program, &options);
    })
}

#[test]
fn grpc_cpp() {
    let play = |stage: &Stage| -> Observed {
        let program = grpc_program();
        let port = stage.free_port();
        let server = serve(stage, &program, port);
        let seen = ask(stage, &program, port, amount(400, 20_000));
        end(server);
        check_kernel_only(stage);
        seen
    };
    Scenario::new("grpc-cpp")
        .one_sided()
        .explained()
        .never_upgraded()
        .run_with(GRPC_NEEDS, play);
}

#[test]
fn grpc_python() {
    let needs = [
        PYTHON,
        ("protoc", "protobuf-compiler"),
        ("grpc_python_plugin", "protobuf-compiler-grpc"),
        (
            "/usr/lib/python3/dist-packages/grpc/__init__.py",
            "python3-grpcio",
        ),
    ];
    let play = |stage: &Stage| -> Observed {
        let folder = generated(stage);
        protoc(
            &folder,
            "grpc_python_plugin",
            &["--python_out", "--grpc_out"],
        );
        let scripts = ["grpc_server.py", "grpc_client.py"];
        let seen = scripts_of_python(stage, &folder, scripts, amount(100, 4000));
        check_kernel_only(stage);
        seen
    };
    Scenario::new("grpc-python")
        .one_sided()
        .explained()
        .never_upgraded()
        .run_with(&needs, play);
}

#[test]
fn zeromq() {
    let needs = [("cc", "gcc"), ("/usr/include/zmq.h", "libzmq3-dev")];
    let play = |stage: &Stage| -> Observed {
        let from = sources(&["zeromq.c", "common.h"]);
        let program = made(place("zeromq"), &from, |program| {
            compile("cc", &from[..1], program, &["-lzmq"]);
        });
        let port = stage.free_ports(3);
        let server = serve(stage, &program, port);
        let seen = ask(stage, &program, port, amount(400, 10_000));
        let _ = server.wait(LIMIT_S).success();
        seen
    };
    Scenario::new("zeromq")
        .one_sided()
        .explained()
        .run_with(&needs, play);
}

const ONC_RPC_NEEDS: &[Need] = &[
    ("cc", "gcc"),
    ("rpcgen", "rpcsvc-proto"),
    ("/usr/include/tirpc/rpc/rpc.h", "libtirpc-dev"),
];

fn onc_rpc_program() -> PathBuf {
    let from = sources(&["onc_rpc.c", "echo.x", "common.h"]);
    made(place("onc_rpc"), &from, |program| {
        let folder = program.parent().unwrap();
        std::fs::copy(&from[1], folder.join("echo.x")).unwrap();
        let mut all = vec![from[0].clone()];
        // The header, what both ends encode by, the client's functions and the server's, without `main`.
        for (option, file) in [
            ("-h", "echo.h"),
            ("-c", "echo_xdr.c"),
            ("-l", "echo_clnt.c"),
            ("-m", "echo_svc.c"),
        ] {
            let file = folder.join(file);
            // It writes over nothing.
            let _ = std::fs::remove_file(&file);
            let mut rpcgen = Command::new("rpcgen");
            let rpcgen = rpcgen.current_dir(folder);
            run(rpcgen.arg(option).arg("-o").arg(&file).arg("echo.x"));
            all.push(file);
        }
        all.retain(|file| file.extension().is_some_and(|ending| ending == "c"));
        let includes = [folder, &source("echo"), Path::new("/usr/include/tirpc")].map(include);
        let mut options: Vec<_> = includes.iter().map(String::as_str).collect();
        options.push("-ltirpc");
        compile("cc", &all, program, &options);
    })
}

#[test]
fn onc_rpc() {
    let play = |stage: &Stage| -> Observed {
        let program = onc_rpc_program();
        let port = stage.free_port();
        let server = serve(stage, &program, port);
        let seen = ask(stage, &program, port, amount(400, 100_000));
        let words = ["end", &port.to_string()];
        stage.client(&program).args(words).text(LIMIT_S);
        let _ = server.wait(LIMIT_S).success();
        seen
    };
    Scenario::new("onc-rpc")
        .one_sided()
        .explained()
        .run_with(ONC_RPC_NEEDS, play);
}

#[test]
fn thrift() {
    let needs = [
        PYTHON,
        ("thrift", "thrift-compiler"),
        (
            "/usr/lib/python3/dist-packages/thrift/Thrift.py",
            "python3-thrift",
        ),
    ];
    let play = |stage: &Stage| -> Observed {
        let folder = generated(stage);
        let mut thrift = Command::new("thrift");
        thrift.arg("-out").arg(&folder).args(["--gen", "py"]);
        run(thrift.arg(source("echo").join("echo.thrift")));
        let scripts = ["thrift_server.py", "thrift_client.py"];
        scripts_of_python(stage, &folder, scripts, amount(100, 20_000))
    };
    Scenario::new("thrift")
        .one_sided()
        .explained()
        .run_with(&needs, play);
}

/// A client that is busy is killed, and the server serves the next one; then the server is killed, and a
/// client that is busy ends by itself, and says that a call has failed.
fn killed(stage: &Stage, program: &Path) -> Observed {
    let port = stage.free_port();
    let server = serve(stage, program, port);
    let busy = || {
        let words = ["endless", &port.to_string()];
        let mut client = stage.client(program).args(words).start();
        client.wait_for_text("busy", LIMIT_S);
        client
    };
    let _ = busy().stop(Signal::KILL, 60);
    let mut seen = ask(stage, program, port, 400);
    let client = busy();
    let _ = server.stop(Signal::KILL, 60);
    let output = client.wait(LIMIT_S);
    // In which words depends on the moment.
    seen += &format!("{}\n", output.status);
    assert!(output.stderr.contains("not so: "), "{}", output.stderr);
    seen
}

#[test]
fn grpc_killed() {
    let play = |stage: &Stage| killed(stage, &grpc_program());
    Scenario::new("grpc-killed")
        .one_sided()
        .never_upgraded()
        .run_with(GRPC_NEEDS, play);
}

#[test]
fn onc_rpc_killed() {
    let play = |stage: &Stage| killed(stage, &onc_rpc_program());
    Scenario::new("onc-rpc-killed")
        .one_sided()
        .run_with(ONC_RPC_NEEDS, play);
}
