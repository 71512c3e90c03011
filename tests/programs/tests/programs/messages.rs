//! RabbitMQ (Erlang) with a client in Python (pika): confirmed messages, several queues, large messages.

use barewire_programs::{Need, Observed, Program, Scenario, Stage, is_long};
use rustix::process::Signal;

const NEEDS: &[Need] = &[
    // The script beside it, in the path, insists on a user of its own.
    (RABBITMQ, "rabbitmq-server"),
    ("epmd", "erlang-base"),
    (PYTHON, "python3"),
    (
        "/usr/lib/python3/dist-packages/pika/__init__.py",
        "python3-pika",
    ),
];
const RABBITMQ: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const PYTHON: &str = "/usr/bin/python3";
/// All of them end long before, also beside builds.
const LIMIT_S: u64 = 300;

const CLIENT: &str = r#"
import hashlib, random, sys, time
import pika
port, count = int(sys.argv[1]), int(sys.argv[2])

def body(i, size):
    return random.Random(i).randbytes(size)
def figure(name, count, since):
    print(f"figure: {name}: {count / (time.monotonic() - since)}", file=sys.stderr)

connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
channel = connection.channel()
channel.confirm_delivery()
channel.queue_declare("small", exclusive=True)
channel.queue_declare("large", exclusive=True)

# Each is confirmed by the server.
sizes = (0, 1, 200, 5000, 60000)
for i in range(100):
    channel.basic_publish("", "small", body(i, sizes[i % 5]), mandatory=True)
for i in range(3):
    channel.basic_publish("", "large", body(i, 5_000_000), mandatory=True)
sums = hashlib.sha256()
for i, (method, properties, came) in enumerate(channel.consume("small", inactivity_timeout=60)):
    assert came == body(i, sizes[i % 5]), i
    sums.update(came)
    channel.basic_ack(method.delivery_tag)
    if i == 99: break
channel.cancel()
for i in range(3):
    method, properties, came = channel.basic_get("large", auto_ack=True)
    assert came == body(i, 5_000_000), i
    sums.update(came)
assert channel.basic_get("large") == (None, None, None)
print(sums.hexdigest())
try:
    channel.basic_publish("", "no such queue", b"x", mandatory=True)
except pika.exceptions.UnroutableError:
    print("returned")

since = time.monotonic()
for i in range(count): channel.basic_publish("", "small", b"x" * 100)
figure("confirmed messages of 100 B a second", count, since)
since = time.monotonic()
for i, (method, properties, came) in enumerate(channel.consume("small", auto_ack=True, inactivity_timeout=60)):
    assert came == b"x" * 100
    if i == count - 1: break
figure("consumed messages of 100 B a second", count, since)
channel.cancel()
connection.close()
print(count)
"#;

/// A program of Erlang's, all of whose files are in the stage's folder, as is its name server's port.
fn erlang<'stage>(
    stage: &Stage,
    program: Program<'stage>,
    names: u16,
    port: u16,
) -> Program<'stage> {
    let folder = |name: &str| stage.path(name).into_os_string();
    program
        .env("ERL_EPMD_PORT", names.to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODENAME", format!("barewire-{port}@localhost"))
        .env("RABBITMQ_NODE_PORT", port.to_string())
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_DIST_PORT", (port + 1).to_string())
        .env("RABBITMQ_MNESIA_BASE", folder("data"))
        .env("RABBITMQ_LOG_BASE", folder("logs"))
        .env("RABBITMQ_LOGS", "-")
        .env("RABBITMQ_PID_FILE", folder("pid"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder("plugins"))
        .env("RABBITMQ_CONFIG_FILE", folder("config"))
        .env("RABBITMQ_ADVANCED_CONFIG_FILE", folder("advanced"))
        .env("RABBITMQ_CONF_ENV_FILE", folder("environment"))
}

fn play(stage: &Stage) -> Observed {
    let names = stage.free_port();
    let port = stage.free_ports(2);
    stage.write("plugins", "[].");
    // Erlang would start its name server by itself, and leave it.
    let epmd = stage.tool("epmd").env("ERL_EPMD_ADDRESS", "127.0.0.1");
    let epmd = epmd.args(["-port", &names.to_string()]).start();
    epmd.wait_for_listener(names);
    let server = erlang(stage, stage.server(RABBITMQ), names, port);
    let mut server = server.without_report().start();
    server.wait_for_text("Server startup complete", LIMIT_S);
    let script = stage.write("client.py", CLIENT);
    let client = stage.client(PYTHON).arg(script);
    let count = if is_long() { "5000" } else { "200" };
    let output = client.args([&port.to_string(), count]).run(LIMIT_S);
    let output = output.success();
    stage.figures_of(&output);
    let seen = output.stdout;
    assert!(seen.contains("returned\n"), "{seen}");
    let _ = server.stop(Signal::TERM, LIMIT_S).success();
    let _ = epmd.stop(Signal::TERM, 60);
    seen
}

#[test]
fn rabbitmq() {
    Scenario::new("rabbitmq")
        .one_sided()
        .explained()
        .run_with(NEEDS, play);
}
