/* Uses every function wrongly: null handles, handles that are closed, invented or of another kind, null pointers, huge
 * lengths, calls in the wrong order. Each must be an error, and nothing may end the process. */
#include "../examples/c/common.h"

#include <pthread.h>
#include <string.h>

static int misuses;

/* The call fails, with this code (0: any), and the last error says the same. */
static void fails_as(int64_t result, int code, const char *what, int line) {
    misuses++;
    if (result >= 0 || (code != 0 && result != code)) {
        fprintf(stderr, "line %d: %s returned %s\n", line, what, result < 0 ? bw_code_name((int)result) : "success");
        exit(1);
    }
    if (bw_last_error()->code != result || bw_last_error()->text == NULL || bw_last_error()->text[0] == '\0') {
        fprintf(stderr, "line %d: %s: the last error is another one\n", line, what);
        exit(1);
    }
}
#define FAILS(call, code) fails_as((call), (code), #call, __LINE__)

static char big[70000];
static const size_t HUGE = SIZE_MAX;

/* Every function that takes a handle, with handles whose number is `id`. */
static void every_function(uint64_t id, int code) {
    bw_node node = {id};
    bw_listener listener = {id};
    bw_port port = {id};
    bw_request request = {id};
    bw_connection connection = {id};
    bw_sender sender = {id};
    bw_receiver receiver = {id};
    bw_shared_sender shared = {id};
    bw_stream stream = {id};
    bw_stream_reader reader = {id};
    bw_stream_writer writer = {id};
    bw_aperture aperture = {id};
    bw_remote_aperture remote = {id};
    bw_tripwire tripwire = {id};
    bw_credentials who;
    bw_remote_peer peer;
    bw_event event;
    bw_bytes batch = {"x", 1};
    uint64_t word = 0;
    size_t length;
    char b[8];

    FAILS(bw_node_clone(node, &node), code);
    node.id = id;
    FAILS(bw_node_close(node), code);
    FAILS(bw_node_descriptor(node), code);
    FAILS(bw_node_credentials(node, &who), code);
    FAILS(bw_node_listen(node, "hostile", NULL, &listener), code);
    FAILS(bw_node_listen_on(node, "127.0.0.1:0", &port), code);
    FAILS(bw_node_connect(node, "hostile", NULL, &connection), code);
    FAILS(bw_node_start_connect(node, "hostile", NULL), code);
    FAILS(bw_node_cancel_connect(node, 0), code);
    FAILS(bw_node_next_request(node, BW_NO_WAIT, &request), code);
    FAILS(bw_node_export(node, 4096, BW_RIGHTS_READ, 0, &aperture), code);
    FAILS(bw_node_wait(node, &event, 1, BW_NO_WAIT), code);
    FAILS(bw_node_poll(node, &event, 1), code);
    FAILS(bw_node_set(node, "spin", "never"), code);
    FAILS(bw_node_get(node, "spin", b, sizeof b), code);
    FAILS(bw_node_flush_capture(node), code);

    listener.id = port.id = request.id = connection.id = aperture.id = id;
    FAILS(bw_listener_close(listener), code);
    FAILS(bw_port_address(port, b, sizeof b), code);
    FAILS(bw_port_close(port), code);
    FAILS(bw_request_peer(request, &who), code);
    FAILS(bw_request_name(request, b, sizeof b), code);
    FAILS(bw_request_data(request, b, sizeof b), code);
    FAILS(bw_request_accept(request, 0, &connection), code);
    FAILS(bw_request_reject(request, "no"), code);
    FAILS(bw_request_close(request), code);

    connection.id = id;
    FAILS(bw_connection_send(connection, "x", 1, BW_NO_WAIT), code);
    FAILS(bw_connection_send_batch(connection, &batch, 1), code);
    FAILS(bw_connection_recv(connection, b, sizeof b, BW_NO_WAIT), code);
    FAILS(bw_connection_recv_batch(connection, b, sizeof b, &length, 1), code);
    FAILS(bw_connection_reserve(connection, 1, BW_NO_WAIT), code);
    FAILS(bw_connection_reserved_write(connection, 0, "x", 1), code);
    FAILS(bw_connection_commit(connection, 1), code);
    FAILS(bw_connection_abandon(connection), code);
    FAILS(bw_connection_peek(connection, BW_NO_WAIT), code);
    FAILS(bw_connection_peeked_read(connection, 0, b, 1), code);
    FAILS(bw_connection_release(connection), code);
    FAILS(bw_connection_message_bytes_max(connection), code);
    FAILS(bw_connection_try_send_bytes_max(connection), code);
    FAILS(bw_connection_reserve_bytes_max(connection), code);
    FAILS(bw_connection_finish(connection), code);
    FAILS(bw_connection_send_out_of_band(connection, "x", 1), code);
    FAILS(bw_connection_grant(connection, aperture, 0), code);
    FAILS(bw_connection_import(connection, BW_NO_WAIT, &word, &remote), code);
    FAILS(bw_connection_number(connection), code);
    FAILS(bw_connection_name(connection, b, sizeof b), code);
    FAILS(bw_connection_peer(connection, &who), code);
    FAILS(bw_connection_remote(connection, &peer), code);
    FAILS(bw_connection_split(connection, &sender, &receiver), code);
    FAILS(bw_connection_into_stream(connection, &stream), code);
    FAILS(bw_connection_close(connection), code);

    sender.id = receiver.id = stream.id = remote.id = id;
    FAILS(bw_sender_send(sender, "x", 1, BW_NO_WAIT), code);
    FAILS(bw_sender_send_batch(sender, &batch, 1), code);
    FAILS(bw_sender_reserve(sender, 1, BW_NO_WAIT), code);
    FAILS(bw_sender_reserved_write(sender, 0, "x", 1), code);
    FAILS(bw_sender_commit(sender, 1), code);
    FAILS(bw_sender_abandon(sender), code);
    FAILS(bw_sender_message_bytes_max(sender), code);
    FAILS(bw_sender_try_send_bytes_max(sender), code);
    FAILS(bw_sender_reserve_bytes_max(sender), code);
    FAILS(bw_sender_finish(sender), code);
    FAILS(bw_sender_share(sender, &shared), code);
    FAILS(bw_sender_close(sender), code);
    FAILS(bw_receiver_recv(receiver, b, sizeof b, BW_NO_WAIT), code);
    FAILS(bw_receiver_recv_batch(receiver, b, sizeof b, &length, 1), code);
    FAILS(bw_receiver_peek(receiver, BW_NO_WAIT), code);
    FAILS(bw_receiver_peeked_read(receiver, 0, b, 1), code);
    FAILS(bw_receiver_release(receiver), code);
    FAILS(bw_receiver_close(receiver), code);
    shared.id = id;
    FAILS(bw_shared_sender_send(shared, "x", 1, BW_NO_WAIT), code);
    FAILS(bw_shared_sender_send_batch(shared, &batch, 1), code);
    FAILS(bw_shared_sender_clone(shared, &shared), code);
    shared.id = id;
    FAILS(bw_shared_sender_close(shared), code);

    FAILS(bw_stream_read(stream, b, sizeof b, BW_NO_WAIT), code);
    FAILS(bw_stream_write(stream, "x", 1, BW_NO_WAIT), code);
    FAILS(bw_stream_write_all(stream, "x", 1), code);
    FAILS(bw_stream_finish(stream), code);
    FAILS(bw_stream_number(stream), code);
    FAILS(bw_stream_peer(stream, &who), code);
    FAILS(bw_stream_split(stream, &reader, &writer), code);
    FAILS(bw_stream_close(stream), code);
    reader.id = writer.id = id;
    FAILS(bw_stream_reader_read(reader, b, sizeof b, BW_NO_WAIT), code);
    FAILS(bw_stream_reader_close(reader), code);
    FAILS(bw_stream_writer_write(writer, "x", 1, BW_NO_WAIT), code);
    FAILS(bw_stream_writer_write_all(writer, "x", 1), code);
    FAILS(bw_stream_writer_finish(writer), code);
    FAILS(bw_stream_writer_close(writer), code);

    FAILS(bw_aperture_len_bytes(aperture), code);
    FAILS(bw_aperture_number(aperture), code);
    FAILS(bw_aperture_put(aperture, 0, "x", 1), code);
    FAILS(bw_aperture_get(aperture, 0, b, 1), code);
    FAILS(bw_aperture_load(aperture, 0, &word), code);
    FAILS(bw_aperture_store(aperture, 0, 1), code);
    FAILS(bw_aperture_add(aperture, 0, 1, &word), code);
    FAILS(bw_aperture_compare_exchange(aperture, 0, &word, 1), code);
    FAILS(bw_aperture_tripwire(aperture, 0, 8, BW_MODE_STICKY, BW_ACTION_WAKE, 0, &tripwire), code);
    FAILS(bw_aperture_revoke(aperture), code);
    FAILS(bw_aperture_clone(aperture, &aperture), code);
    aperture.id = id;
    FAILS(bw_aperture_close(aperture), code);
    FAILS(bw_remote_aperture_len_bytes(remote), code);
    FAILS(bw_remote_aperture_number(remote), code);
    FAILS(bw_remote_aperture_rights(remote), code);
    FAILS(bw_remote_aperture_put(remote, 0, "x", 1), code);
    FAILS(bw_remote_aperture_get(remote, 0, b, 1), code);
    FAILS(bw_remote_aperture_load(remote, 0, &word), code);
    FAILS(bw_remote_aperture_store(remote, 0, 1), code);
    FAILS(bw_remote_aperture_add(remote, 0, 1, &word), code);
    FAILS(bw_remote_aperture_compare_exchange(remote, 0, &word, 1), code);
    FAILS(bw_remote_aperture_bulk_put(remote, 0, "x", 1, 0), code);
    FAILS(bw_remote_aperture_bulk_get(remote, 0, 1, 0), code);
    FAILS(bw_remote_aperture_tripwire(remote, 0, 8, BW_MODE_STICKY, BW_ACTION_WAKE, 0, &tripwire), code);
    FAILS(bw_remote_aperture_tripwire_on_owner(remote, 0, 8, BW_MODE_STICKY, BW_ACTION_WAKE, 0, &tripwire), code);
    FAILS(bw_remote_aperture_clone(remote, &remote), code);
    remote.id = id;
    FAILS(bw_remote_aperture_close(remote), code);
    tripwire.id = id;
    FAILS(bw_tripwire_is_armed(tripwire), code);
    FAILS(bw_tripwire_count(tripwire), code);
    FAILS(bw_tripwire_aperture(tripwire), code);
    FAILS(bw_tripwire_disarm(tripwire), code);
    FAILS(bw_tripwire_close(tripwire), code);
}

static void nodes(bw_node node) {
    bw_node other = {1};
    bw_listener listener;
    bw_connection connection;
    bw_event event;
    char b[4];
    FAILS(bw_node_new(NULL, NULL), BW_E_NULL);
    bw_node_config config = {0};
    FAILS(bw_node_new(&config, &other), BW_E_ARGUMENT);
    ensure(other.id == 0, "what a failed call was to make is zero");
    config.struct_bytes = HUGE;
    FAILS(bw_node_new(&config, &other), BW_E_ARGUMENT);
    config.struct_bytes = sizeof config;
    config.spin = 77;
    FAILS(bw_node_new(&config, &other), BW_E_ARGUMENT);
    config.spin = 0;
    config.ring_bytes = 5;
    FAILS(bw_node_new(&config, &other), BW_E_OUT_OF_LIMITS);
    /* A structure of a later version that asks for something. */
    struct {
        bw_node_config config;
        uint64_t more;
    } later = {.config.struct_bytes = sizeof later, .more = 1};
    FAILS(bw_node_new(&later.config, &other), BW_E_ARGUMENT);
    later.more = 0;
    check(bw_node_new(&later.config, &other), "a later structure that asks for nothing");
    check(bw_node_close(other), "close");
    FAILS(bw_node_listen(node, NULL, NULL, &listener), BW_E_NULL);
    FAILS(bw_node_listen(node, "", NULL, &listener), BW_E_BAD_NAME);
    FAILS(bw_node_listen(node, "\xff\xfe", NULL, &listener), BW_E_ARGUMENT);
    memset(big, 'x', sizeof big - 1);
    FAILS(bw_node_listen(node, big, NULL, &listener), BW_E_BAD_NAME);
    FAILS(bw_node_listen(node, "hostile-null", NULL, NULL), BW_E_NULL);
    bw_listen_options open = {.struct_bytes = sizeof open, .users_count = 3};
    FAILS(bw_node_listen(node, "hostile-users", &open, &listener), BW_E_NULL);
    bw_connect_options options = {.struct_bytes = sizeof options, .no_wait_for_name = 1};
    FAILS(bw_node_connect(node, "hostile-nobody", &options, &connection), BW_E_NO_SUCH_NAME);
    ensure(bw_last_error()->fault == BW_FAULT_PEER, "whose fault that is");
    options.data_bytes = 5;
    FAILS(bw_node_connect(node, "hostile-nobody", &options, &connection), BW_E_NULL);
    options.data = big;
    options.data_bytes = sizeof big;
    FAILS(bw_node_connect(node, "hostile-nobody", &options, &connection), 0);
    FAILS(bw_node_connect(node, "nowhere:1/x", NULL, &connection), 0);
    FAILS(bw_node_next_request(node, BW_NO_WAIT, NULL), BW_E_NULL);
    FAILS(bw_node_wait(node, NULL, 3, BW_NO_WAIT), BW_E_NULL);
    FAILS(bw_node_wait(node, &event, 0, BW_NO_WAIT), BW_E_ARGUMENT);
    FAILS(bw_node_poll(node, NULL, 1), BW_E_NULL);
    FAILS(bw_node_set(node, "colour", "red"), BW_E_BAD_SETTING);
    FAILS(bw_node_set(node, NULL, "red"), BW_E_NULL);
    FAILS(bw_node_get(node, "colour", b, sizeof b), BW_E_BAD_SETTING);
    FAILS(bw_node_get(node, "spin", b, sizeof b), BW_E_BUFFER_TOO_SMALL);
    ensure(bw_last_error()->needed_bytes == sizeof "adaptive", "how many bytes are needed");
    FAILS(bw_node_export(node, 0, BW_RIGHTS_READ, 0, &(bw_aperture){0}), BW_E_OUT_OF_LIMITS);
    FAILS(bw_node_export(node, HUGE, BW_RIGHTS_READ, 0, &(bw_aperture){0}), BW_E_OUT_OF_LIMITS);
    FAILS(bw_node_export(node, 4096, 9, 0, &(bw_aperture){0}), BW_E_ARGUMENT);
    FAILS(bw_event_discard(NULL), BW_E_NULL);
    ensure(strcmp(bw_code_name(BW_E_TIMEOUT), "BW_E_TIMEOUT") == 0, "the name of a code");
    ensure(strcmp(bw_code_name(BW_E_OTHER), "BW_E_OTHER") == 0, "the name of the last code");
    ensure(strcmp(bw_code_name(INT32_MIN), "BW_E_UNKNOWN") == 0, "the name of no code");
    ensure(strcmp(bw_code_name(17), "BW_E_UNKNOWN") == 0, "the name of no code");
}

/* Two connections of this process, one to each of two nodes. */
static void open_pair(bw_node server, bw_node client, const char *name, bw_connection *one, bw_connection *other) {
    bw_event event;
    bw_request request;
    int64_t number = check(bw_node_start_connect(client, name, NULL), "start to connect");
    check(bw_node_next_request(server, SECONDS(30), &request), "the request");
    check(bw_request_accept(request, 0, one), "accept");
    FAILS(bw_request_accept(request, 0, &(bw_connection){0}), BW_E_HANDLE);
    FAILS(bw_request_reject(request, "too late"), BW_E_HANDLE);
    do {
        check(bw_node_wait(client, &event, 1, SECONDS(30)), "wait");
    } while (event.kind != BW_EVENT_KIND_CONNECTED);
    ensure(event.connection_number == number, "the number of the connection");
    *other = event.connection;
}

static void lengths(bw_connection a, bw_connection b) {
    bw_bytes batch[2] = {{"x", 1}, {NULL, 1}};
    size_t sizes[4];
    char buffer[4];
    FAILS(bw_connection_send(a, NULL, 1, BW_NO_WAIT), BW_E_NULL);
    FAILS(bw_connection_send(a, "x", HUGE, BW_NO_WAIT), BW_E_ARGUMENT);
    FAILS(bw_connection_send(a, NULL, HUGE, BW_FOREVER), BW_E_NULL);
    FAILS(bw_connection_send_batch(a, NULL, 1), BW_E_NULL);
    FAILS(bw_connection_send_batch(a, batch, 2), BW_E_NULL);
    FAILS(bw_connection_send_batch(a, batch, HUGE), BW_E_ARGUMENT);
    FAILS(bw_connection_recv(a, NULL, 1, BW_NO_WAIT), BW_E_NULL);
    FAILS(bw_connection_recv(a, buffer, HUGE, BW_NO_WAIT), BW_E_ARGUMENT);
    FAILS(bw_connection_recv(a, buffer, sizeof buffer, BW_NO_WAIT), BW_E_WOULD_BLOCK);
    FAILS(bw_connection_recv(a, buffer, sizeof buffer, 1000), BW_E_TIMEOUT);
    FAILS(bw_connection_recv_batch(a, buffer, sizeof buffer, NULL, 3), BW_E_NULL);
    FAILS(bw_connection_recv_batch(a, buffer, sizeof buffer, sizes, 4), BW_E_WOULD_BLOCK);
    FAILS(bw_connection_send(a, big, sizeof big, BW_NO_WAIT), BW_E_OUT_OF_LIMITS);
    FAILS(bw_connection_send_out_of_band(a, big, sizeof big), BW_E_OUT_OF_LIMITS);

    /* Nothing at all is a message, too. */
    check(bw_connection_send(a, NULL, 0, BW_FOREVER), "send nothing");
    ensure(check(bw_connection_recv(b, NULL, 0, SECONDS(30)), "receive nothing") == 0, "an empty message");
    check(bw_connection_send(a, "12345", 5, BW_FOREVER), "send");
    FAILS(bw_connection_recv(b, buffer, sizeof buffer, SECONDS(30)), BW_E_BUFFER_TOO_SMALL);
    ensure(bw_last_error()->needed_bytes == 5, "the length of the message");
    FAILS(bw_connection_recv_batch(b, buffer, sizeof buffer, sizes, 4), BW_E_BUFFER_TOO_SMALL);
    ensure(check(bw_connection_peek(b, SECONDS(30)), "peek") == 5, "the message stays");
    FAILS(bw_connection_peeked_read(b, 2, buffer, 4), BW_E_OUT_OF_LIMITS);
    FAILS(bw_connection_peeked_read(b, HUGE, buffer, 4), BW_E_OUT_OF_LIMITS);
    FAILS(bw_connection_peeked_read(b, 0, NULL, 4), BW_E_NULL);
    check(bw_connection_peeked_read(b, 1, buffer, 4), "read");
    ensure(memcmp(buffer, "2345", 4) == 0, "what was read");
    check(bw_connection_release(b), "release");
    FAILS(bw_connection_release(b), BW_E_WRONG_ORDER);
    FAILS(bw_connection_peeked_read(b, 0, buffer, 1), BW_E_WRONG_ORDER);

    batch[1] = (bw_bytes){"yz", 2};
    ensure(check(bw_connection_send_batch(a, batch, 2), "send two") == 2, "two messages");
    ensure(check(bw_connection_recv_batch(b, buffer, sizeof buffer, sizes, 4), "receive both") == 2, "two messages");
    ensure(sizes[0] == 1 && sizes[1] == 2 && memcmp(buffer, "xyz", 3) == 0, "both messages");
}

static void order(bw_connection a, bw_connection b) {
    char buffer[8];
    FAILS(bw_connection_commit(a, 0), BW_E_WRONG_ORDER);
    FAILS(bw_connection_abandon(a), BW_E_WRONG_ORDER);
    FAILS(bw_connection_reserved_write(a, 0, "x", 1), BW_E_WRONG_ORDER);
    FAILS(bw_connection_reserve(a, HUGE, BW_NO_WAIT), 0);
    FAILS(bw_connection_commit(a, 0), BW_E_WRONG_ORDER);
    check(bw_connection_reserve(a, 8, BW_NO_WAIT), "reserve");
    FAILS(bw_connection_reserve(a, 8, BW_NO_WAIT), BW_E_WRONG_ORDER);
    FAILS(bw_connection_send(a, "x", 1, BW_NO_WAIT), BW_E_WRONG_ORDER);
    FAILS(bw_connection_recv(a, buffer, sizeof buffer, BW_NO_WAIT), BW_E_WRONG_ORDER);
    FAILS(bw_connection_split(a, &(bw_sender){0}, NULL), BW_E_NULL);
    FAILS(bw_connection_reserved_write(a, 5, "1234", 4), BW_E_OUT_OF_LIMITS);
    FAILS(bw_connection_reserved_write(a, HUGE, "1234", 4), BW_E_OUT_OF_LIMITS);
    FAILS(bw_connection_reserved_write(a, 0, NULL, 4), BW_E_NULL);
    FAILS(bw_connection_commit(a, 9), BW_E_OUT_OF_LIMITS);
    check(bw_connection_reserved_write(a, 4, "5678", 4), "write");
    check(bw_connection_reserved_write(a, 0, "1234", 4), "write");
    check(bw_connection_commit(a, 8), "commit");
    FAILS(bw_connection_commit(a, 8), BW_E_WRONG_ORDER);
    ensure(check(bw_connection_recv(b, buffer, sizeof buffer, SECONDS(30)), "receive") == 8, "its length");
    ensure(memcmp(buffer, "12345678", 8) == 0, "what was built in place");
    check(bw_connection_reserve(a, 8, BW_NO_WAIT), "reserve");
    check(bw_connection_abandon(a), "abandon");
    FAILS(bw_connection_recv(b, buffer, sizeof buffer, BW_NO_WAIT), BW_E_WOULD_BLOCK);
    check(bw_connection_finish(b), "finish");
    FAILS(bw_connection_send(b, "x", 1, BW_NO_WAIT), BW_E_CLOSED);
    FAILS(bw_connection_reserve(b, 1, BW_NO_WAIT), BW_E_CLOSED);
    FAILS(bw_connection_recv(a, buffer, sizeof buffer, SECONDS(30)), BW_E_FINISHED);
    /* Closed with room reserved. */
    check(bw_connection_reserve(a, 8, BW_NO_WAIT), "reserve");
    check(bw_connection_close(a), "close");
    FAILS(bw_connection_close(a), BW_E_HANDLE);
    FAILS(bw_connection_commit(a, 8), BW_E_HANDLE);
}

static void memory(bw_node node, bw_node other_node, bw_connection a, bw_connection b) {
    bw_aperture page, foreign;
    bw_remote_aperture far;
    bw_tripwire wire;
    uint64_t word = 0;
    char buffer[8];
    check(bw_node_export(node, 4096, BW_RIGHTS_READ, 0, &page), "export");
    check(bw_node_export(other_node, 4096, BW_RIGHTS_READ, 0, &foreign), "export");
    FAILS(bw_connection_grant(a, foreign, 0), BW_E_OTHER_NODE);
    check(bw_aperture_close(foreign), "close");
    FAILS(bw_connection_grant(a, foreign, 0), BW_E_HANDLE);
    FAILS(bw_connection_import(b, 1000, NULL, &far), BW_E_TIMEOUT);
    FAILS(bw_connection_import(b, 1000, NULL, NULL), BW_E_NULL);
    check(bw_connection_grant(a, page, 1), "grant");
    check(bw_connection_import(b, SECONDS(30), NULL, &far), "import");
    FAILS(bw_connection_grant(a, page, 1), BW_E_GRANTED_ALREADY);
    FAILS(bw_aperture_put(page, 4090, buffer, 8), BW_E_OUT_OF_RANGE);
    FAILS(bw_aperture_put(page, HUGE, buffer, 8), BW_E_OUT_OF_RANGE);
    FAILS(bw_aperture_put(page, 0, NULL, 8), BW_E_NULL);
    FAILS(bw_aperture_put(page, 0, buffer, HUGE), BW_E_ARGUMENT);
    FAILS(bw_aperture_get(page, 8, buffer, HUGE / 4), BW_E_OUT_OF_RANGE);
    FAILS(bw_aperture_load(page, 4, &word), BW_E_OUT_OF_RANGE);
    FAILS(bw_aperture_load(page, 0, NULL), BW_E_NULL);
    FAILS(bw_aperture_compare_exchange(page, 0, NULL, 1), BW_E_NULL);
    FAILS(bw_aperture_tripwire(page, 0, 0, BW_MODE_STICKY, BW_ACTION_WAKE, 0, &wire), BW_E_TRIPWIRE);
    FAILS(bw_aperture_tripwire(page, 0, HUGE, BW_MODE_STICKY, BW_ACTION_WAKE, 0, &wire), BW_E_TRIPWIRE);
    FAILS(bw_aperture_tripwire(page, 0, 8, 5, BW_ACTION_WAKE, 0, &wire), BW_E_ARGUMENT);
    FAILS(bw_aperture_tripwire(page, 0, 8, BW_MODE_STICKY, -1, 0, &wire), BW_E_ARGUMENT);
    FAILS(bw_remote_aperture_put(far, 0, "x", 1), BW_E_READ_ONLY);
    FAILS(bw_remote_aperture_store(far, 0, 1), BW_E_READ_ONLY);
    FAILS(bw_remote_aperture_bulk_put(far, 0, "x", 1, 0), BW_E_READ_ONLY);
    FAILS(bw_remote_aperture_bulk_put(far, 0, "x", HUGE / 2, 0), BW_E_OUT_OF_RANGE);
    FAILS(bw_remote_aperture_bulk_get(far, 4096, HUGE / 2, 0), BW_E_OUT_OF_RANGE);
    check(bw_aperture_store(page, 8, 5), "store");
    word = 4;
    ensure(bw_aperture_compare_exchange(page, 8, &word, 6) == 0 && word == 5, "an exchange that fails");
    ensure(bw_aperture_compare_exchange(page, 8, &word, 6) == 1, "an exchange");
    check(bw_remote_aperture_load(far, 8, &word), "load");
    ensure(word == 6, "the word");
    check(bw_aperture_revoke(page), "revoke");
    FAILS(bw_remote_aperture_store(far, 0, 1), 0);
    check(bw_remote_aperture_close(far), "close");
    check(bw_aperture_close(page), "close");
    FAILS(bw_remote_aperture_close(far), BW_E_HANDLE);
}

static void *wait_for_nothing(void *connection) {
    char buffer[8];
    int64_t result = bw_connection_recv(*(bw_connection *)connection, buffer, sizeof buffer, BW_FOREVER);
    ensure(result == BW_E_FINISHED, "how the waiting thread ended");
    return NULL;
}

/* A call, and a close, while another thread is in a call. */
static void in_use(bw_connection a, bw_connection b) {
    pthread_t thread;
    char buffer[8];
    ensure(pthread_create(&thread, NULL, wait_for_nothing, &b) == 0, "a thread");
    /* Until it is in its call. */
    while (bw_connection_number(b) >= 0) {
        usleep(100);
    }
    FAILS(bw_connection_recv(b, buffer, sizeof buffer, BW_NO_WAIT), BW_E_IN_USE);
    FAILS(bw_connection_close(b), BW_E_IN_USE);
    check(bw_connection_finish(a), "finish");
    pthread_join(thread, NULL);
    check(bw_connection_close(b), "close");
    check(bw_connection_close(a), "close");
}

static void streams_and_halves(bw_connection a, bw_connection b) {
    bw_sender sender;
    bw_receiver receiver;
    bw_shared_sender shared, again;
    bw_stream stream;
    bw_stream_reader reader;
    bw_stream_writer writer;
    char buffer[8];
    FAILS(bw_connection_split(a, NULL, &receiver), BW_E_NULL);
    check(bw_connection_split(a, &sender, &receiver), "split");
    FAILS(bw_connection_send(a, "x", 1, BW_NO_WAIT), BW_E_HANDLE);
    FAILS(bw_connection_close(a), BW_E_HANDLE);
    /* Handles of one kind as handles of another: the compiler would not let us, so by their number. */
    every_function(UINT64_MAX, 0);
    FAILS(bw_receiver_close((bw_receiver){sender.id}), BW_E_HANDLE);
    FAILS(bw_sender_close((bw_sender){receiver.id}), BW_E_HANDLE);
    check(bw_sender_share(sender, &shared), "share");
    FAILS(bw_sender_close(sender), BW_E_HANDLE);
    check(bw_shared_sender_clone(shared, &again), "clone");
    FAILS(bw_shared_sender_send(shared, "x", 1, 5), BW_E_ARGUMENT);
    check(bw_shared_sender_send(again, "ab", 2, BW_FOREVER), "send");
    check(bw_shared_sender_close(again), "close");
    check(bw_shared_sender_send(shared, "cd", 2, BW_FOREVER), "send");
    ensure(check(bw_connection_recv(b, buffer, sizeof buffer, SECONDS(30)), "receive") == 2, "a message");
    ensure(check(bw_connection_recv(b, buffer, sizeof buffer, SECONDS(30)), "receive") == 2, "a message");
    check(bw_connection_into_stream(b, &stream), "make a stream");
    FAILS(bw_connection_close(b), BW_E_HANDLE);
    FAILS(bw_stream_read(stream, NULL, 3, BW_NO_WAIT), BW_E_NULL);
    FAILS(bw_stream_read(stream, buffer, HUGE, BW_NO_WAIT), BW_E_ARGUMENT);
    FAILS(bw_stream_read(stream, buffer, sizeof buffer, BW_NO_WAIT), BW_E_WOULD_BLOCK);
    FAILS(bw_stream_write(stream, NULL, 3, BW_NO_WAIT), BW_E_NULL);
    ensure(check(bw_stream_read(stream, NULL, 0, BW_NO_WAIT), "read nothing") == 0, "nothing read");
    check(bw_stream_split(stream, &reader, &writer), "split");
    FAILS(bw_stream_close(stream), BW_E_HANDLE);
    check(bw_stream_writer_finish(writer), "finish");
    FAILS(bw_stream_writer_write(writer, "x", 1, BW_NO_WAIT), BW_E_CLOSED);
    FAILS(bw_stream_writer_write_all(writer, "x", 1), BW_E_CLOSED);
    check(bw_stream_writer_close(writer), "close");
    check(bw_stream_reader_close(reader), "close");
    check(bw_shared_sender_close(shared), "close");
    check(bw_receiver_close(receiver), "close");
}

/* A child has the number of its parent's handles, but cannot use them. */
static void forked(bw_node node, bw_connection a) {
    bw_event event;
    pid_t child = fork();
    ensure(child >= 0, "fork");
    if (child == 0) {
        FAILS(bw_connection_send(a, "x", 1, BW_NO_WAIT), BW_E_FORKED);
        FAILS(bw_node_poll(node, &event, 1), BW_E_FORKED);
        _exit(0);
    }
    end(child);
}

/* With an argument, all but what a forked child does. */
int main(int argc, char **argv) {
    (void)argv;
    char name[64];
    bw_node server, client;
    bw_listener listener;
    bw_connection a, b;
    ensure(bw_last_error()->code == BW_E_OK && bw_last_error()->text != NULL, "the error before any");
    every_function(0, BW_E_NULL);
    /* Numbers that nobody has made. */
    uint64_t id = 1;
    for (int nth = 0; nth < 60; nth++, id = id * 3 + 1) {
        every_function(id, BW_E_HANDLE);
    }
    snprintf(name, sizeof name, "hostile-c-%d", (int)getpid());
    check(bw_node_new(NULL, &server), "make a node");
    check(bw_node_new(NULL, &client), "make a node");
    check(bw_node_listen(server, name, NULL, &listener), "listen");
    FAILS(bw_node_listen(client, name, NULL, &(bw_listener){0}), BW_E_NAME_TAKEN);
    nodes(server);
    open_pair(server, client, name, &a, &b);
    lengths(a, b);
    memory(server, client, a, b);
    if (argc == 1) {
        forked(server, a);
    }
    order(a, b);
    check(bw_connection_close(b), "close");
    open_pair(server, client, name, &a, &b);
    in_use(a, b);
    open_pair(server, client, name, &a, &b);
    streams_and_halves(a, b);
    check(bw_listener_close(listener), "close");
    FAILS(bw_listener_close(listener), BW_E_HANDLE);
    check(bw_node_close(server), "close");
    check(bw_node_close(client), "close");
    every_function(server.id, BW_E_HANDLE);
    printf("%d misuses were errors\n", misuses);
    return 0;
}
