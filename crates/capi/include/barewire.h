/* Barewire: a user-level network. Programs on one Linux host talk through shared memory, without the kernel on the
 * data path. The book's page "C and C++" (docs/c.md) says how to build and use this.
 *
 * Results. A function returns 0 or a count >= 0; if it fails, a negative number of bw_e. bw_last_error() says more:
 * whose fault it is, and a text. What a failed call was to make is all zero.
 *
 * Handles. An object is named by a small structure, which is copied freely. All zero is none. A handle that was closed
 * is an error (BW_E_HANDLE), and so is every other wrong use: nothing in here ends the process.
 *
 * Threads. One thread at a time uses a handle; it may be another one each time. A handle of a node, an aperture or a
 * shared sender can be cloned for another thread, a connection or stream split. A call while another thread is in one
 * with the same handle fails with BW_E_IN_USE; but if both begin at the same moment, that may not be noticed, and the
 * behaviour is undefined. After fork() the child uses nothing that its parent made.
 *
 * Memory. A pointer with a length leads to so many bytes; with length 0 it may be null. Texts are UTF-8 and end with a
 * zero byte.
 *
 * Times are in nanoseconds: BW_FOREVER and every negative time wait as long as it takes, BW_NO_WAIT not at all.
 *
 * This file is written from the sources in crates/capi: change it there. */
// tidy: long file: each function has its comment, and nobody reads it from one end to the other

#ifndef BAREWIRE_H
#define BAREWIRE_H

#include <stddef.h>
#include <stdint.h>

// Wait as long as it takes.
#define BW_FOREVER -1

// Do not wait.
#define BW_NO_WAIT 0

// Longest out-of-band message.
#define BW_OUT_OF_BAND_BYTES_MAX 4096

// Most data in a request to connect.
#define BW_REQUEST_DATA_BYTES_MAX 4096

// Longest name.
#define BW_NAME_BYTES_MAX 80

// What a function returned that failed: a negative number. BW_E_OK is 0.
typedef enum bw_e {
  // It worked. (Only here so that it has a name: a function returns a count >= 0.)
  BW_E_OK = 0,
  // A pointer is null that must not be, or a handle is all zero.
  BW_E_NULL = -1,
  // The handle is not open: closed already, never opened, or made of something else.
  BW_E_HANDLE = -2,
  // Another thread is in a call with this handle. Clone it, or split the connection.
  BW_E_IN_USE = -3,
  // Not possible now: first commit or abandon what is reserved, or peek before you read.
  BW_E_WRONG_ORDER = -4,
  // An argument has a value that it cannot have.
  BW_E_ARGUMENT = -5,
  // The library itself is at fault. Please report it, with the text.
  BW_E_INTERNAL = -6,
  // Nothing is there to receive, or there is no room to send, and the call was not to wait.
  BW_E_WOULD_BLOCK = -7,
  // The time allowed has passed.
  BW_E_TIMEOUT = -8,
  // A name is empty, too long, or has a zero byte.
  BW_E_BAD_NAME = -9,
  // Somebody listens under the name already.
  BW_E_NAME_TAKEN = -10,
  // Nobody listens under the name.
  BW_E_NO_SUCH_NAME = -11,
  // This node connected to a name of its own, and did not accept.
  BW_E_OWN_NAME = -12,
  // The process that holds the name belongs to another user than expected.
  BW_E_WRONG_OWNER = -13,
  // Another host cannot be reached, or is not one to talk to.
  BW_E_HOST_UNREACHABLE = -14,
  // The link to another host is down.
  BW_E_HOST_LOST = -15,
  // The other side refused the connection.
  BW_E_REFUSED = -16,
  // A value is outside what is allowed.
  BW_E_OUT_OF_LIMITS = -17,
  // There are as many as there may be.
  BW_E_LIMIT_REACHED = -18,
  // The peer's node has this aperture already.
  BW_E_GRANTED_ALREADY = -19,
  // The message is longer than the receiver takes.
  BW_E_TOO_LONG = -20,
  // The buffer is too small. needed_bytes of bw_error says how large it must be; nothing is lost.
  BW_E_BUFFER_TOO_SMALL = -21,
  // The peer has finished sending, and everything it sent has been received.
  BW_E_FINISHED = -22,
  // The peer has stopped receiving.
  BW_E_PEER_DEAF = -23,
  // The peer closed the connection or its node.
  BW_E_PEER_GONE = -24,
  // The peer's process died.
  BW_E_PEER_DIED = -25,
  // The peer broke the protocol; the connection is closed.
  BW_E_PEER_MISBEHAVED = -26,
  // This side has finished sending, or a long message timed out half-sent.
  BW_E_CLOSED = -27,
  // A forked child cannot use what its parent made.
  BW_E_FORKED = -28,
  // The aperture and the connection belong to different nodes.
  BW_E_OTHER_NODE = -29,
  // An access to an aperture lies outside of it, or not at a multiple of 8.
  BW_E_OUT_OF_RANGE = -30,
  // The aperture may only be read.
  BW_E_READ_ONLY = -31,
  // The owner has revoked the aperture.
  BW_E_REVOKED = -32,
  // A tripwire could not be set.
  BW_E_TRIPWIRE = -33,
  // A setting of the node was not changed.
  BW_E_BAD_SETTING = -34,
  // The capture file cannot be written.
  BW_E_CAPTURE = -35,
  // The system refused something.
  BW_E_SYSTEM = -36,
  // An error that this version of the library has no code for; its text says what it is.
  BW_E_OTHER = -37,
} bw_e;

// Whose fault an error is.
typedef enum bw_fault {
  // There was no error yet.
  BW_FAULT_NONE = 0,
  // The caller asked for something that cannot be done, and can fix the call.
  BW_FAULT_CALLER = 1,
  // The peer left, died, refused, broke the protocol, or took too long.
  BW_FAULT_PEER = 2,
  // The machine: a limit, memory, a missing kernel feature; with BW_E_INTERNAL the library.
  BW_FAULT_SYSTEM = 3,
} bw_fault;

// What an event is about.
typedef enum bw_event_kind {
  // One that this version of the library has no word for. Pass over it.
  BW_EVENT_KIND_OTHER = 0,
  // Somebody wants to connect to one of our names: request.
  BW_EVENT_KIND_REQUEST = 1,
  // What bw_node_start_connect began is open: connection, connection_number.
  BW_EVENT_KIND_CONNECTED = 2,
  // What bw_node_start_connect began has failed: connection_number, error_code, error_fault, text.
  BW_EVENT_KIND_CONNECT_FAILED = 3,
  // Try connection_number: there may be something to receive, room to send, or an end. It comes again if you receive
  // and stop before BW_E_WOULD_BLOCK.
  BW_EVENT_KIND_READY = 4,
  // The peer of connection_number closed it, died or broke the protocol: error_code, error_fault, text. What it had
  // sent before can still be received. Comes once.
  BW_EVENT_KIND_CLOSED = 5,
  // A message outside the queue: connection_number, data, data_bytes.
  BW_EVENT_KIND_OUT_OF_BAND = 6,
  // The peer granted an aperture: connection_number, cookie, aperture.
  BW_EVENT_KIND_GRANTED = 7,
  // A tripwire with BW_ACTION_ENQUEUE fired: cookie, aperture_number.
  BW_EVENT_KIND_TRIPWIRE = 8,
  // A bulk transfer has ended: cookie, and data with data_bytes; or error_code, error_fault and text.
  BW_EVENT_KIND_COMPLETION = 9,
} bw_event_kind;

// What a peer may do with an aperture.
typedef enum bw_rights {
  // Load. The kernel refuses it a writable mapping.
  BW_RIGHTS_READ = 0,
  // Load and store.
  BW_RIGHTS_READ_WRITE = 1,
} bw_rights;

// How often a tripwire fires.
typedef enum bw_mode {
  // Once; then it is disarmed.
  BW_MODE_ONE_SHOT = 0,
  // Until it is disarmed.
  BW_MODE_STICKY = 1,
} bw_mode;

// What a tripwire does when a transfer touches its range.
typedef enum bw_action {
  // Puts BW_EVENT_KIND_TRIPWIRE with its cookie into the event queue, at most one at a time.
  BW_ACTION_ENQUEUE = 0,
  // Counts the transfers: bw_tripwire_count.
  BW_ACTION_COUNT = 1,
  // Wakes whoever waits for events, without an event.
  BW_ACTION_WAKE = 2,
} bw_action;

// How long to poll before sleeping, where something is waited for.
typedef enum bw_spin {
  // At most spin_ns, or without it what two wake-ups cost on this machine; less while it does not pay.
  BW_SPIN_ADAPTIVE = 0,
  // Sleep at once.
  BW_SPIN_NEVER = 1,
  // Never sleep.
  BW_SPIN_FOREVER = 2,
  // Exactly spin_ns.
  BW_SPIN_FOR = 3,
} bw_spin;

// Whether memory lies on transparent huge pages.
typedef enum bw_huge_pages {
  // As the kernel does it.
  BW_HUGE_PAGES_NEVER = 0,
  // Where it can be had.
  BW_HUGE_PAGES_TRY = 1,
  // Or else an error.
  BW_HUGE_PAGES_REQUIRE = 2,
} bw_huge_pages;

// How nodes on different hosts make sure of each other.
typedef enum bw_security {
  // They do not: no link to another host can be made or accepted.
  BW_SECURITY_NONE = 0,
  // By TLS, with the keys that `barewire node keygen` makes.
  BW_SECURITY_KEYS = 1,
  // Nothing is proved and nothing is encrypted. Refused for addresses that are neither loopback nor private.
  BW_SECURITY_INSECURE = 2,
  // The same, for all addresses.
  BW_SECURITY_INSECURE_ANYWHERE = 3,
} bw_security;

// What carries links to other hosts.
typedef enum bw_transport {
  // The connection over which the nodes have made sure of each other: TLS or TCP.
  BW_TRANSPORT_STREAM = 0,
  // libfabric, if both nodes want it. Nothing that it carries is encrypted.
  BW_TRANSPORT_LIBFABRIC = 1,
} bw_transport;

// How a peer on another host has proved who it is.
typedef enum bw_proof {
  // Not at all.
  BW_PROOF_NOTHING = 0,
  // By the secret that both hosts have.
  BW_PROOF_SECRET = 1,
  // By the key of a certificate that this host trusts.
  BW_PROOF_CERTIFICATE = 2,
} bw_proof;

// The last error of a thread.
typedef struct bw_error {
  // A value of bw_e: what the call returned.
  int32_t code;
  // A value of bw_fault.
  int32_t fault;
  // What was wrong, and where possible what to do; never null.
  const char *text;
  // With BW_E_BUFFER_TOO_SMALL: how many bytes the buffer must have.
  uint64_t needed_bytes;
  // With BW_E_PEER_DIED: the process, if it is known.
  int32_t pid;
} bw_error;

// A node: a place on the network, with an event queue. All zero: none.
typedef struct bw_node {
  // For the library only.
  uint64_t id;
} bw_node;

// A request to connect, which wants an answer.
typedef struct bw_request {
  // For the library only.
  uint64_t id;
} bw_request;

// A connection: messages both ways.
typedef struct bw_connection {
  // For the library only.
  uint64_t id;
} bw_connection;

// A peer's memory, as far as it has granted it.
typedef struct bw_remote_aperture {
  // For the library only.
  uint64_t id;
} bw_remote_aperture;

// Something that happened on a node. What its kind does not name is zero.
// You own the handles in it: accept or reject a request, close a connection or an aperture, or have
// bw_event_discard do that.
typedef struct bw_event {
  // A value of bw_event_kind.
  int32_t kind;
  // The number of a connection on this node: small, and used again, so that it can index a table.
  uint32_t connection_number;
  // Of a grant, a tripwire or a bulk transfer.
  uint64_t cookie;
  // The aperture that a tripwire was set on, as bw_aperture_number says it.
  uint64_t aperture_number;
  // A request to connect.
  struct bw_request request;
  // A connection that was opened.
  struct bw_connection connection;
  // An aperture that was granted.
  struct bw_remote_aperture aperture;
  // Bytes, until the next wait or poll with the same handle of the node.
  const void *data;
  // How many.
  size_t data_bytes;
  // A value of bw_e; 0 if nothing failed.
  int32_t error_code;
  // A value of bw_fault.
  int32_t error_fault;
  // What failed, until the next wait or poll with the same handle of the node; null if nothing did.
  const char *text;
} bw_event;

// What peers of other users may use up of a node. What is 0 is the default.
typedef struct bw_budget {
  // Nodes of these users that are linked to this one.
  uint64_t links;
  // Connections, with those that wait to be accepted.
  uint64_t connections;
  // Bytes of this process's private memory for them.
  uint64_t private_bytes;
  // Mappings of shared memory.
  uint64_t mappings;
  // Open descriptors.
  uint64_t descriptors;
  // Out-of-band messages and apertures that still wait in the event queue.
  uint64_t events;
} bw_budget;

// Settings of a node. Set struct_bytes to sizeof(bw_node_config) and what you want; the rest is zero, which means
// the default.
typedef struct bw_node_config {
  // sizeof(bw_node_config)
  size_t struct_bytes;
  // Bytes of each connection's receive ring: a power of two. Default: 4096.
  size_t ring_bytes;
  // Longest message that will be received. Default: 16 MiB.
  size_t message_bytes_max;
  // Most connections at a time. Default: 131072.
  uint32_t connections_max;
  // Apertures that one peer may grant. Default: 1024.
  uint32_t granted_apertures_max;
  // Bulk transfers at a time. Default: 64.
  uint32_t bulk_max;
  // Requests of one listener that may wait. Default: 1024.
  uint32_t backlog_max;
  // A value of bw_spin.
  int32_t spin;
  // 1 if the memory of the node is to be locked.
  int32_t lock_memory;
  // For BW_SPIN_FOR and BW_SPIN_ADAPTIVE.
  uint64_t spin_ns;
  // A value of bw_huge_pages.
  int32_t huge_pages;
  // 1 if numa_node counts.
  int32_t use_numa_node;
  // The NUMA node from which memory is taken.
  uint32_t numa_node;
  // A value of bw_security.
  int32_t security;
  // A value of bw_transport.
  int32_t transport;
  // 1 if two nodes on one host, which have met by an address, are not to use shared memory.
  int32_t no_shortcut;
  // A link to another host is lost if nothing came for this time. Default: 5 s.
  uint64_t hosts_timeout_ns;
  // Bytes of the receive ring of a connection to another host. Default: 512 KiB.
  size_t hosts_ring_bytes;
  // With BW_SECURITY_KEYS: the folder of the keys; null for the default.
  const char *keys_folder;
  // With BW_TRANSPORT_LIBFABRIC: its provider; null for the best.
  const char *provider;
  // File to record everything in, which Wireshark opens; null for none.
  const char *capture_path;
  // Largest ring of a peer of another user. Default: 16 MiB.
  size_t foreign_ring_bytes_max;
  // What all processes of one other user may use up.
  struct bw_budget user_budget;
  // What all processes of all other users may use up.
  struct bw_budget foreign_budget;
} bw_node_config;

// A process, as the kernel says.
typedef struct bw_credentials {
  // Its process id; 0 if it cannot be seen from here.
  int32_t pid;
  // Its user.
  uint32_t uid;
  // Its group.
  uint32_t gid;
} bw_credentials;

// Settings of a listener: who may connect. Set struct_bytes; with everything else zero, processes of the same user.
typedef struct bw_listen_options {
  // sizeof(bw_listen_options)
  size_t struct_bytes;
  // 1 if any user in this network namespace may connect.
  int32_t anyone;
  // Not used: zero.
  int32_t reserved;
  // These users may connect, too.
  const uint32_t *users;
  // How many.
  size_t users_count;
  // Members of these groups may connect, too.
  const uint32_t *groups;
  // How many.
  size_t groups_count;
  // Nodes on other hosts may connect whose certificates this host trusts under these names.
  const char *const *certificates;
  // How many.
  size_t certificates_count;
} bw_listen_options;

// A name that is listened to.
typedef struct bw_listener {
  // For the library only.
  uint64_t id;
} bw_listener;

// An address at which nodes of other hosts reach a node.
typedef struct bw_port {
  // For the library only.
  uint64_t id;
} bw_port;

// Settings of one connection, on the connecting side. Set struct_bytes; what is zero is the default.
typedef struct bw_connect_options {
  // sizeof(bw_connect_options)
  size_t struct_bytes;
  // How long to try; BW_FOREVER. Default: 5 s.
  int64_t timeout_ns;
  // 1 to fail at once if nobody listens under the name yet.
  int32_t no_wait_for_name;
  // 1 if owner counts.
  int32_t use_owner;
  // The user who must hold the name. Default: our own.
  uint32_t owner;
  // Not used: zero.
  uint32_t reserved;
  // Handed to the listener with the request; at most BW_REQUEST_DATA_BYTES_MAX.
  const void *data;
  // How many.
  size_t data_bytes;
  // Bytes of our receive ring. Default: as the node's.
  size_t ring_bytes;
} bw_connect_options;

// Bytes of a message: where they are, and how many.
typedef struct bw_bytes {
  // The first byte; may be null if there are none.
  const void *data;
  // How many.
  size_t bytes;
} bw_bytes;

// Memory of this process that peers may be granted.
typedef struct bw_aperture {
  // For the library only.
  uint64_t id;
} bw_aperture;

// A node on another host. Texts that do not fit are cut off.
typedef struct bw_remote_peer {
  // Its address and port, as the transport has it.
  char address[128];
  // With BW_PROOF_CERTIFICATE the name under which this host trusts it.
  char identity[256];
  // Transport and provider that carry the link, such as "tcp".
  char transport[64];
  // A value of bw_proof.
  int32_t proof;
  // 1 if what the link carries is encrypted.
  int32_t is_encrypted;
  // Its process, as it says.
  uint32_t pid;
  // How long it takes to hear from the other node, smoothed; -1 before the first sign of life.
  int64_t round_trip_ns;
} bw_remote_peer;

// The sending half of a connection.
typedef struct bw_sender {
  // For the library only.
  uint64_t id;
} bw_sender;

// The receiving half of a connection.
typedef struct bw_receiver {
  // For the library only.
  uint64_t id;
} bw_receiver;

// A byte stream both ways.
typedef struct bw_stream {
  // For the library only.
  uint64_t id;
} bw_stream;

// A sender for many threads.
typedef struct bw_shared_sender {
  // For the library only.
  uint64_t id;
} bw_shared_sender;

// The reading direction of a stream.
typedef struct bw_stream_reader {
  // For the library only.
  uint64_t id;
} bw_stream_reader;

// The writing direction of a stream.
typedef struct bw_stream_writer {
  // For the library only.
  uint64_t id;
} bw_stream_writer;

// A trap on a range of an aperture.
typedef struct bw_tripwire {
  // For the library only.
  uint64_t id;
} bw_tripwire;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The error of the last call of this thread that failed. Calls that succeed do not change it.
// The result is never null; it is valid until the next call of this thread that fails.
const struct bw_error *bw_last_error(void);

// The name of a code, such as "BW_E_TIMEOUT"; for any other number "BW_E_UNKNOWN". Never null.
const char *bw_code_name(int32_t code);

// Waits for events, and stores at most events_max of them. Returns how many: 0 when the time has passed, or when a
// tripwire with BW_ACTION_WAKE fired. A signal does not end the wait.
// timeout_ns: BW_FOREVER, or BW_NO_WAIT.
int64_t bw_node_wait(struct bw_node node,
                     struct bw_event *events,
                     size_t events_max,
                     int64_t timeout_ns);

// Stores events that are there, at most events_max, and returns how many; never waits. After a 0, the node's
// descriptor becomes readable with the next event. Poll until 0, and only then wait for the descriptor.
int64_t bw_node_poll(struct bw_node node,
                     struct bw_event *events,
                     size_t events_max);

// Closes whatever handle an event brings, for events that a program does not want: a request is refused, a
// connection closed, an aperture given back.
int32_t bw_event_discard(const struct bw_event *event);

// The version of the library, such as "0.1.0".
const char *bw_version(void);

// Makes a node. config may be null.
int32_t bw_node_new(const struct bw_node_config *config, struct bw_node *out);

// Another handle of the same node, for another thread: several threads may wait for its events, and each event goes
// to one of them. The node lives until its last handle, connection, listener and aperture is closed.
int32_t bw_node_clone(struct bw_node node,
                      struct bw_node *out);

// Closes this handle of the node.
int32_t bw_node_close(struct bw_node node);

// The descriptor of the node, for select, poll and epoll: readable when there are events, provided that bw_node_poll
// has returned 0 since the last ones. Do not read from it or close it. Valid as long as the node.
int32_t bw_node_descriptor(struct bw_node node);

// The credentials that peers see of us.
int32_t bw_node_credentials(struct bw_node node, struct bw_credentials *out);

// Listens under a name. Whoever connects appears with bw_node_next_request or as BW_EVENT_KIND_REQUEST.
// options may be null: then only processes of the same user may connect.
int32_t bw_node_listen(struct bw_node node,
                       const char *name,
                       const struct bw_listen_options *options,
                       struct bw_listener *out);

// Gives the name up. Connections stay.
int32_t bw_listener_close(struct bw_listener listener);

// Lets nodes of other hosts reach this one at an address, such as "0.0.0.0:7400", under all names that it listens
// to. Set bw_node_config.security first.
int32_t bw_node_listen_on(struct bw_node node,
                          const char *address,
                          struct bw_port *out);

// The address with the port, which the system has chosen if it was 0. Returns its length, without the zero byte at
// its end.
int64_t bw_port_address(struct bw_port port,
                        char *into,
                        size_t into_bytes);

// Closes the port. Links that came by it stay.
int32_t bw_port_close(struct bw_port port);

// Connects to a name, such as "prices", or "host:7400/prices" for one on another host; waits up to five seconds, also
// for the name to appear. options may be null.
int32_t bw_node_connect(struct bw_node node,
                        const char *name,
                        const struct bw_connect_options *options,
                        struct bw_connection *out);

// Begins to connect and returns at once with the number that the connection will have. The answer comes as
// BW_EVENT_KIND_CONNECTED or BW_EVENT_KIND_CONNECT_FAILED with that number. The time-out of the options does not
// apply, nor does their waiting for a name.
int64_t bw_node_start_connect(struct bw_node node,
                              const char *name,
                              const struct bw_connect_options *options);

// Gives up what bw_node_start_connect began and no event has reported yet.
int32_t bw_node_cancel_connect(struct bw_node node, uint32_t connection_number);

// Waits for the next request to connect to any of our names. Other events stay where they are.
// timeout_ns: BW_FOREVER, or BW_NO_WAIT (then BW_E_TIMEOUT if there is none).
int32_t bw_node_next_request(struct bw_node node, int64_t timeout_ns, struct bw_request *out);

// The process that asks, as the kernel says.
int32_t bw_request_peer(struct bw_request request, struct bw_credentials *out);

// The name that was asked for. Returns its length, without the zero byte at its end.
int64_t bw_request_name(struct bw_request request, char *into, size_t into_bytes);

// What the peer sent along. Returns how many bytes that is.
int64_t bw_request_data(struct bw_request request, void *into, size_t into_bytes);

// Accepts. The handle of the request is closed, also if this fails. ring_bytes: size of our receive ring, a power of
// two; 0 for the node's.
int32_t bw_request_accept(struct bw_request request,
                          size_t ring_bytes,
                          struct bw_connection *out);

// Refuses, with a reason that the other side gets to read. The handle of the request is closed.
int32_t bw_request_reject(struct bw_request request, const char *reason);

// Refuses without a reason.
int32_t bw_request_close(struct bw_request request);

// Changes a setting of a live node, such as "spin" to "20us": those that `barewire set` changes.
int32_t bw_node_set(struct bw_node node, const char *key, const char *value);

// A setting of a live node, as it is now. Returns the length of its text, without the zero byte at its end.
int64_t bw_node_get(struct bw_node node,
                    const char *key,
                    char *into,
                    size_t into_bytes);

// Writes out what bw_node_config.capture_path has recorded. That is also done when the node goes away.
int32_t bw_node_flush_capture(struct bw_node node);

// Sends a message, whole; waits while the receiver's memory is full.
// timeout_ns: BW_FOREVER, or BW_NO_WAIT to send only if there is room for all of it now.
// Returns 0, or BW_E_WOULD_BLOCK, BW_E_TIMEOUT, BW_E_TOO_LONG, BW_E_PEER_DEAF, BW_E_CLOSED, or why the
// connection is down. BW_NO_WAIT has a limit on the length of its own
// (bw_connection_try_send_bytes_max): BW_E_OUT_OF_LIMITS.
int32_t bw_connection_send(struct bw_connection connection,
                           const void *data,
                           size_t data_bytes,
                           int64_t timeout_ns);

// Sends as many of the messages as there is room for now, and wakes the receiver once.
// Returns how many were sent, which may be 0.
int64_t bw_connection_send_batch(struct bw_connection connection,
                                 const struct bw_bytes *batch,
                                 size_t count);

// Receives a message into a buffer, and returns its length, which may be 0.
// timeout_ns: BW_FOREVER, or BW_NO_WAIT.
// Fails with BW_E_WOULD_BLOCK, BW_E_TIMEOUT, BW_E_BUFFER_TOO_SMALL (the message stays, and needed_bytes of
// bw_last_error() says its length), BW_E_FINISHED when the peer has finished and everything was received, or why
// the connection is down, again only when everything was received.
int64_t bw_connection_recv(struct bw_connection connection,
                           void *buffer,
                           size_t buffer_bytes,
                           int64_t timeout_ns);

// Receives as many messages as are there and fit, one behind the other in the buffer, at most count_max of them.
// The length of each goes into lengths. Returns how many; never waits: BW_E_WOULD_BLOCK if there is none.
int64_t bw_connection_recv_batch(struct bw_connection connection,
                                 void *buffer,
                                 size_t buffer_bytes,
                                 size_t *lengths,
                                 size_t count_max);

// Reserves room for a message of at most this length in the receiver's memory, to be filled with
// bw_connection_reserved_write and sent with bw_connection_commit. Until then, or bw_connection_abandon, every
// other call with this handle fails with BW_E_WRONG_ORDER, except to close it.
// timeout_ns: BW_FOREVER, or BW_NO_WAIT. The limit is bw_connection_reserve_bytes_max.
int32_t bw_connection_reserve(struct bw_connection connection,
                              size_t len_bytes,
                              int64_t timeout_ns);

// Stores bytes in the reserved room, at an offset.
int32_t bw_connection_reserved_write(struct bw_connection connection,
                                     size_t at,
                                     const void *data,
                                     size_t data_bytes);

// Sends the first len_bytes of the reserved room as a message.
int32_t bw_connection_commit(struct bw_connection connection, size_t len_bytes);

// Gives the reserved room up; nothing is sent.
int32_t bw_connection_abandon(struct bw_connection connection);

// Waits for a message and leaves it where it is; returns its length. Read it with bw_connection_peeked_read,
// then take it away with bw_connection_release. Until then it is the next message of every call.
// timeout_ns: BW_FOREVER, or BW_NO_WAIT.
int64_t bw_connection_peek(struct bw_connection connection,
                           int64_t timeout_ns);

// Copies bytes of the message that bw_connection_peek has found, from an offset. A hostile sender may change the
// message while it lies there: copy once, then check.
int32_t bw_connection_peeked_read(struct bw_connection connection,
                                  size_t at,
                                  void *into,
                                  size_t into_bytes);

// Takes away the message that bw_connection_peek has found: it has been received.
int32_t bw_connection_release(struct bw_connection connection);

// The longest message that the receiver takes.
int64_t bw_connection_message_bytes_max(struct bw_connection connection);

// The longest message that bw_connection_send takes with BW_NO_WAIT.
int64_t bw_connection_try_send_bytes_max(struct bw_connection connection);

// The most that bw_connection_reserve takes.
int64_t bw_connection_reserve_bytes_max(struct bw_connection connection);

// Says that nothing more will be sent. The peer receives what was sent, and then BW_E_FINISHED. Receiving goes on.
int32_t bw_connection_finish(struct bw_connection connection);

// Sends a short message (at most BW_OUT_OF_BAND_BYTES_MAX) past the queue. It arrives as
// BW_EVENT_KIND_OUT_OF_BAND. BW_E_WOULD_BLOCK if the peer has too many unread: try again later.
int32_t bw_connection_send_out_of_band(struct bw_connection connection,
                                       const void *data,
                                       size_t data_bytes);

// Grants the peer an aperture of the same node. The peer gets it with bw_connection_import or as
// BW_EVENT_KIND_GRANTED, with the cookie.
int32_t bw_connection_grant(struct bw_connection connection,
                            struct bw_aperture aperture,
                            uint64_t cookie);

// Waits for an aperture that the peer grants on this connection. cookie may be null.
int32_t bw_connection_import(struct bw_connection connection,
                             int64_t timeout_ns,
                             uint64_t *cookie,
                             struct bw_remote_aperture *out);

// Its number on its node, as events name it: small, and used again after the connection was closed.
int64_t bw_connection_number(struct bw_connection connection);

// The name that was connected to. Returns its length, without the zero byte at its end.
int64_t bw_connection_name(struct bw_connection connection, char *into, size_t into_bytes);

// Who is at the other end, as the kernel says. For a peer on another host: this process itself.
int32_t bw_connection_peer(struct bw_connection connection, struct bw_credentials *out);

// What is known of the node at the other end, if it is on another host: 1; 0 if it is on this host.
int32_t bw_connection_remote(struct bw_connection connection, struct bw_remote_peer *out);

// Closes the connection for two halves, for two threads. Its handle is closed. A connection that is not split is faster.
int32_t bw_connection_split(struct bw_connection connection,
                            struct bw_sender *sender,
                            struct bw_receiver *receiver);

// Turns the connection into a byte stream. To be done on both sides, before the first message. Its handle is closed.
int32_t bw_connection_into_stream(struct bw_connection connection,
                                  struct bw_stream *out);

// Closes the connection. What was sent before stays receivable.
int32_t bw_connection_close(struct bw_connection connection);

// As bw_connection_send, which this is for one half.
int32_t bw_sender_send(struct bw_sender sender,
                       const void *data,
                       size_t data_bytes,
                       int64_t timeout_ns);

// As bw_connection_send_batch, which this is for one half.
int64_t bw_sender_send_batch(struct bw_sender sender, const struct bw_bytes *batch, size_t count);

// As bw_connection_reserve, which this is for one half.
int32_t bw_sender_reserve(struct bw_sender sender, size_t len_bytes, int64_t timeout_ns);

// As bw_connection_reserved_write, which this is for one half.
int32_t bw_sender_reserved_write(struct bw_sender sender,
                                 size_t at,
                                 const void *data,
                                 size_t data_bytes);

// As bw_connection_commit, which this is for one half.
int32_t bw_sender_commit(struct bw_sender sender, size_t len_bytes);

// As bw_connection_abandon, which this is for one half.
int32_t bw_sender_abandon(struct bw_sender sender);

// As bw_connection_message_bytes_max, which this is for one half.
int64_t bw_sender_message_bytes_max(struct bw_sender sender);

// As bw_connection_try_send_bytes_max, which this is for one half.
int64_t bw_sender_try_send_bytes_max(struct bw_sender sender);

// As bw_connection_reserve_bytes_max, which this is for one half.
int64_t bw_sender_reserve_bytes_max(struct bw_sender sender);

// As bw_connection_finish, which this is for one half.
int32_t bw_sender_finish(struct bw_sender sender);

// Closes the sender for one that many threads can use: each message is sent whole, in some order. Its handle is
// closed.
int32_t bw_sender_share(struct bw_sender sender,
                        struct bw_shared_sender *out);

// Closes this direction. What was sent before stays receivable.
int32_t bw_sender_close(struct bw_sender sender);

// As bw_connection_recv, which this is for one half.
int64_t bw_receiver_recv(struct bw_receiver receiver,
                         void *buffer,
                         size_t buffer_bytes,
                         int64_t timeout_ns);

// As bw_connection_recv_batch, which this is for one half.
int64_t bw_receiver_recv_batch(struct bw_receiver receiver,
                               void *buffer,
                               size_t buffer_bytes,
                               size_t *lengths,
                               size_t count_max);

// As bw_connection_peek, which this is for one half.
int64_t bw_receiver_peek(struct bw_receiver receiver, int64_t timeout_ns);

// As bw_connection_peeked_read, which this is for one half.
int32_t bw_receiver_peeked_read(struct bw_receiver receiver,
                                size_t at,
                                void *into,
                                size_t into_bytes);

// As bw_connection_release, which this is for one half.
int32_t bw_receiver_release(struct bw_receiver receiver);

// Closes this direction: the peer can send nothing more.
int32_t bw_receiver_close(struct bw_receiver receiver);

// Another handle of the same sender, for another thread.
int32_t bw_shared_sender_clone(struct bw_shared_sender sender, struct bw_shared_sender *out);

// Sends a message; other threads wait behind it. timeout_ns: BW_FOREVER or BW_NO_WAIT, nothing else.
int32_t bw_shared_sender_send(struct bw_shared_sender sender,
                              const void *data,
                              size_t data_bytes,
                              int64_t timeout_ns);

// As bw_connection_send_batch, with no message of another thread between these.
int64_t bw_shared_sender_send_batch(struct bw_shared_sender sender,
                                    const struct bw_bytes *batch,
                                    size_t count);

// Closes this handle. With the last one, the direction is closed.
int32_t bw_shared_sender_close(struct bw_shared_sender sender);

// Reads what is there, at most so many bytes; waits for the first one. Returns how many, 0 at the end of what the
// peer writes. timeout_ns: BW_FOREVER, or BW_NO_WAIT.
int64_t bw_stream_read(struct bw_stream stream,
                       void *into,
                       size_t into_bytes,
                       int64_t timeout_ns);

// Writes as much as there is room for; waits for room for the first byte. Returns how many bytes, of which the peer
// sees all at once. timeout_ns: BW_FOREVER, or BW_NO_WAIT.
int64_t bw_stream_write(struct bw_stream stream,
                        const void *data,
                        size_t data_bytes,
                        int64_t timeout_ns);

// Writes all of it, however long that takes. Returns 0.
int32_t bw_stream_write_all(struct bw_stream stream, const void *data, size_t data_bytes);

// Says that nothing more will be written: the peer reads what was, and then the end. Reading goes on.
int32_t bw_stream_finish(struct bw_stream stream);

// The number of its connection, as events name it.
int64_t bw_stream_number(struct bw_stream stream);

// As bw_connection_peer.
int32_t bw_stream_peer(struct bw_stream stream, struct bw_credentials *out);

// The two directions, for two threads. The handle of the stream is closed.
int32_t bw_stream_split(struct bw_stream stream,
                        struct bw_stream_reader *reader,
                        struct bw_stream_writer *writer);

// Closes the stream. What was written before stays readable.
int32_t bw_stream_close(struct bw_stream stream);

// As bw_stream_read.
int64_t bw_stream_reader_read(struct bw_stream_reader reader,
                              void *into,
                              size_t into_bytes,
                              int64_t timeout_ns);

// Closes the reading direction.
int32_t bw_stream_reader_close(struct bw_stream_reader reader);

// As bw_stream_write.
int64_t bw_stream_writer_write(struct bw_stream_writer writer,
                               const void *data,
                               size_t data_bytes,
                               int64_t timeout_ns);

// As bw_stream_write_all.
int32_t bw_stream_writer_write_all(struct bw_stream_writer writer,
                                   const void *data,
                                   size_t data_bytes);

// As bw_stream_finish.
int32_t bw_stream_writer_finish(struct bw_stream_writer writer);

// Closes the writing direction.
int32_t bw_stream_writer_close(struct bw_stream_writer writer);

// Makes an aperture: memory of this process, of so many bytes, all zero, that peers may be granted.
// rights: a value of bw_rights. tripwires_max: how many tripwires may be set on it; 0 for 1024.
int32_t bw_node_export(struct bw_node node,
                       size_t len_bytes,
                       int32_t rights,
                       uint32_t tripwires_max,
                       struct bw_aperture *out);

// Its length in bytes.
int64_t bw_aperture_len_bytes(struct bw_aperture aperture);

// The number by which events of tripwires name it. Another one for each aperture of a process.
int64_t bw_aperture_number(struct bw_aperture aperture);

// Stores bytes at an offset. When a tripwire tells of it, all of them are there.
int32_t bw_aperture_put(struct bw_aperture aperture,
                        size_t offset,
                        const void *data,
                        size_t data_bytes);

// Loads bytes from an offset.
int32_t bw_aperture_get(struct bw_aperture aperture, size_t offset, void *into, size_t into_bytes);

// Loads a word of 8 bytes at an offset, which is a multiple of 8. This and all other accesses to words are atomic
// for all processes that hold the aperture.
int32_t bw_aperture_load(struct bw_aperture aperture,
                         size_t offset,
                         uint64_t *value);

// Stores a word. Whoever sees it sees what was put before.
int32_t bw_aperture_store(struct bw_aperture aperture, size_t offset, uint64_t value);

// Adds to a word. was, if it is not null, gets what the word was before.
int32_t bw_aperture_add(struct bw_aperture aperture, size_t offset, uint64_t value, uint64_t *was);

// Replaces a word by another if it is *expected: returns 1. Otherwise it returns 0 and stores in *expected what
// the word is.
int32_t bw_aperture_compare_exchange(struct bw_aperture aperture,
                                     size_t offset,
                                     uint64_t *expected,
                                     uint64_t new_value);

// Sets a tripwire on what peers store in len_bytes at an offset.
// mode: a value of bw_mode. action: one of bw_action; cookie is for BW_ACTION_ENQUEUE.
int32_t bw_aperture_tripwire(struct bw_aperture aperture,
                             size_t offset,
                             size_t len_bytes,
                             int32_t mode,
                             int32_t action,
                             uint64_t cookie,
                             struct bw_tripwire *out);

// Another handle of the same aperture, for another thread.
int32_t bw_aperture_clone(struct bw_aperture aperture, struct bw_aperture *out);

// Cuts all peers off: nothing that they store from now on is seen here. Our contents stay.
int32_t bw_aperture_revoke(struct bw_aperture aperture);

// Closes this handle. With the last one, the aperture is revoked.
int32_t bw_aperture_close(struct bw_aperture aperture);

// Its length in bytes.
int64_t bw_remote_aperture_len_bytes(struct bw_remote_aperture aperture);

// The number by which events of tripwires name it. Another one for each aperture of a process.
int64_t bw_remote_aperture_number(struct bw_remote_aperture aperture);

// Stores bytes at an offset. When a tripwire tells of it, all of them are there.
int32_t bw_remote_aperture_put(struct bw_remote_aperture aperture,
                               size_t offset,
                               const void *data,
                               size_t data_bytes);

// Loads bytes from an offset.
int32_t bw_remote_aperture_get(struct bw_remote_aperture aperture,
                               size_t offset,
                               void *into,
                               size_t into_bytes);

// Loads a word of 8 bytes at an offset, which is a multiple of 8. This and all other accesses to words are atomic
// for all processes that hold the aperture.
int32_t bw_remote_aperture_load(struct bw_remote_aperture aperture,
                                size_t offset,
                                uint64_t *value);

// Stores a word. Whoever sees it sees what was put before.
int32_t bw_remote_aperture_store(struct bw_remote_aperture aperture, size_t offset, uint64_t value);

// Adds to a word. was, if it is not null, gets what the word was before.
int32_t bw_remote_aperture_add(struct bw_remote_aperture aperture,
                               size_t offset,
                               uint64_t value,
                               uint64_t *was);

// Replaces a word by another if it is *expected: returns 1. Otherwise it returns 0 and stores in *expected what
// the word is.
int32_t bw_remote_aperture_compare_exchange(struct bw_remote_aperture aperture,
                                            size_t offset,
                                            uint64_t *expected,
                                            uint64_t new_value);

// Sets a tripwire on what this process itself stores in len_bytes at an offset.
// mode: a value of bw_mode. action: one of bw_action; cookie is for BW_ACTION_ENQUEUE.
int32_t bw_remote_aperture_tripwire(struct bw_remote_aperture aperture,
                                    size_t offset,
                                    size_t len_bytes,
                                    int32_t mode,
                                    int32_t action,
                                    uint64_t cookie,
                                    struct bw_tripwire *out);

// Another handle of the same aperture, for another thread.
int32_t bw_remote_aperture_clone(struct bw_remote_aperture aperture,
                                 struct bw_remote_aperture *out);

// Sets a tripwire on what the owner stores in len_bytes at an offset. A store that begins after this returns fires it;
// so does the end of the owner. To wait for a change: set it, read, and only then wait.
int32_t bw_remote_aperture_tripwire_on_owner(struct bw_remote_aperture aperture,
                                             size_t offset,
                                             size_t len_bytes,
                                             int32_t mode,
                                             int32_t action,
                                             uint64_t cookie,
                                             struct bw_tripwire *out);

// What we may do with it: a value of bw_rights.
int32_t bw_remote_aperture_rights(struct bw_remote_aperture aperture);

// Copies bytes into the aperture in the background. They are copied before this returns, so the buffer is free again.
// The end comes as BW_EVENT_KIND_COMPLETION with this cookie.
int32_t bw_remote_aperture_bulk_put(struct bw_remote_aperture aperture,
                                    size_t offset,
                                    const void *data,
                                    size_t data_bytes,
                                    uint64_t cookie);

// Copies bytes out of the aperture in the background. They come with BW_EVENT_KIND_COMPLETION and this cookie.
int32_t bw_remote_aperture_bulk_get(struct bw_remote_aperture aperture,
                                    size_t offset,
                                    size_t len_bytes,
                                    uint64_t cookie);

// Closes this handle. With the last one, the aperture is given back.
int32_t bw_remote_aperture_close(struct bw_remote_aperture aperture);

// 1 if the tripwire is still set, 0 if it was disarmed or is a one-shot that has fired.
int32_t bw_tripwire_is_armed(struct bw_tripwire tripwire);

// How many transfers it has counted, with BW_ACTION_COUNT.
int64_t bw_tripwire_count(struct bw_tripwire tripwire);

// The number of its aperture, as events name it.
int64_t bw_tripwire_aperture(struct bw_tripwire tripwire);

// Takes it away. A transfer that is under way may still be reported.
int32_t bw_tripwire_disarm(struct bw_tripwire tripwire);

// Takes it away, and closes its handle.
int32_t bw_tripwire_close(struct bw_tripwire tripwire);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BAREWIRE_H */
