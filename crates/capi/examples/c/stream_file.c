/* Sends a file as a byte stream; the receiver writes it, and says whether its sum is right.
 *
 *     stream_file receive NAME FILE     in one terminal
 *     stream_file send NAME FILE        in another
 *     stream_file                       both, with a file of its own
 */
#include "common.h"

#include <inttypes.h>
#include <string.h>

enum { PIECE_BYTES = 64 << 10, RING_BYTES = 1 << 20, OWN_FILE_BYTES = 4000000 };

/* FNV-1a: to see accidents, not to stop anybody. */
static uint64_t add(uint64_t sum, const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sum = (sum ^ bytes[i]) * 0x100000001b3u;
    }
    return sum;
}

static bw_node make_node(void) {
    bw_node node;
    bw_node_config config = {.struct_bytes = sizeof config, .ring_bytes = RING_BYTES};
    check(bw_node_new(&config, &node), "make a node");
    return node;
}

/* The bytes, then the end. The answer is one line. */
static void send_file(const char *name, const char *path) {
    static unsigned char piece[PIECE_BYTES];
    bw_node node = make_node();
    bw_connection connection;
    bw_stream stream;
    uint64_t sum = 0, sent = 0;
    FILE *file = fopen(path, "rb");
    ensure(file != NULL, "the file to send");
    check(bw_node_connect(node, name, patient(), &connection), "connect");
    check(bw_connection_into_stream(connection, &stream), "make a stream");
    for (;;) {
        size_t len = fread(piece, 1, sizeof piece, file);
        if (len == 0) {
            break;
        }
        sum = add(sum, piece, len);
        sent += len;
        check(bw_stream_write_all(stream, piece, len), "write");
    }
    fclose(file);
    /* The receiver reads to the end of what we wrote; we still read its answer. */
    check(bw_stream_finish(stream), "finish");
    char answer[128], expected[128];
    size_t filled = 0;
    for (;;) {
        int64_t len = bw_stream_read(stream, answer + filled, sizeof answer - filled, BW_FOREVER);
        if (check(len, "read the answer") == 0) {
            break;
        }
        filled += (size_t)len;
    }
    int len = snprintf(expected, sizeof expected, "%" PRIu64 " bytes, sum %016" PRIx64, sent, sum);
    printf("sent %" PRIu64 " bytes; the receiver says: %.*s\n", sent, (int)filled, answer);
    ensure(filled == (size_t)len && memcmp(answer, expected, filled) == 0, "what the receiver has got");
    check(bw_stream_close(stream), "close the stream");
    check(bw_node_close(node), "close the node");
}

static void receive_file(const char *name, const char *path) {
    static unsigned char piece[PIECE_BYTES];
    bw_node node = make_node();
    bw_listener listener;
    bw_request request;
    bw_connection connection;
    bw_stream stream;
    uint64_t sum = 0, received = 0;
    FILE *file = fopen(path, "wb");
    ensure(file != NULL, "the file to write");
    check(bw_node_listen(node, name, NULL, &listener), "listen");
    check(bw_node_next_request(node, BW_FOREVER, &request), "wait for a request");
    check(bw_request_accept(request, 0, &connection), "accept");
    check(bw_connection_into_stream(connection, &stream), "make a stream");
    for (;;) {
        int64_t len = check(bw_stream_read(stream, piece, sizeof piece, BW_FOREVER), "read");
        if (len == 0) {
            break;
        }
        sum = add(sum, piece, (size_t)len);
        received += (uint64_t)len;
        ensure(fwrite(piece, 1, (size_t)len, file) == (size_t)len, "write the file");
    }
    ensure(fclose(file) == 0, "write the file");
    char answer[128];
    int len = snprintf(answer, sizeof answer, "%" PRIu64 " bytes, sum %016" PRIx64, received, sum);
    check(bw_stream_write_all(stream, answer, (size_t)len), "answer");
    /* Closing the stream ends it; what was written before still arrives. */
    check(bw_stream_close(stream), "close the stream");
    check(bw_listener_close(listener), "close the listener");
    check(bw_node_close(node), "close the node");
}

static void demonstrate(void) {
    char name[64], original[128], copy[128];
    snprintf(name, sizeof name, "stream-file-c-%d", (int)getpid());
    snprintf(original, sizeof original, "/tmp/%s.original", name);
    snprintf(copy, sizeof copy, "/tmp/%s.copy", name);
    FILE *file = fopen(original, "wb");
    ensure(file != NULL, "a file to send");
    uint32_t word = 1;
    for (int i = 0; i < OWN_FILE_BYTES / 4; i++) {
        word = word * 1664525u + 1013904223u;
        fwrite(&word, sizeof word, 1, file);
    }
    fclose(file);
    pid_t receiver = start("receive", name, copy, NULL);
    send_file(name, original);
    end(receiver);
    unlink(original);
    unlink(copy);
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "send") == 0) {
        send_file(argv[2], argv[3]);
    } else if (argc == 4 && strcmp(argv[1], "receive") == 0) {
        receive_file(argv[2], argv[3]);
    } else if (argc == 1) {
        demonstrate();
    } else {
        fprintf(stderr, "usage: stream_file [send NAME FILE | receive NAME FILE]\n");
        return 2;
    }
    return 0;
}
