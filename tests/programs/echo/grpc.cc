// Echo over gRPC: a server and a client of the service in echo.proto.
//   grpc server PORT           serves until SIGTERM
//   grpc client PORT CALLS     makes calls, compares what comes back, prints sums
//   grpc endless PORT          makes calls until one fails, and fails then
#include <csignal>
#include <memory>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "common.h"
// In one unit: the headers take a compiler longer than all else.
#include "echo.pb.cc"
#include "echo.grpc.pb.cc"

namespace {

class EchoService final : public echo::Echo::Service {
    grpc::Status Back(grpc::ServerContext *, const echo::Bytes *in, echo::Bytes *out) override {
        *out = *in;
        return grpc::Status::OK;
    }
    grpc::Status BackAll(grpc::ServerContext *,
                         grpc::ServerReaderWriter<echo::Bytes, echo::Bytes> *stream) override {
        echo::Bytes bytes;
        while (stream->Read(&bytes) && stream->Write(bytes)) {
        }
        return grpc::Status::OK;
    }
};

void serve(const std::string &address) {
    // Every thread begins with the signal blocked, so that this one takes it.
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &end, nullptr);
    EchoService service;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(&service);
    auto server = builder.BuildAndStart();
    check(server != nullptr, "the server starts");
    int signal = 0;
    sigwait(&end, &signal);
    server->Shutdown();
}

echo::Bytes bytes_of(uint64_t number, size_t size) {
    std::string data(size, 0);
    fill(reinterpret_cast<unsigned char *>(&data[0]), size, number);
    echo::Bytes bytes;
    bytes.set_number(number);
    bytes.set_data(std::move(data));
    return bytes;
}

uint64_t call(echo::Echo::Stub &stub, uint64_t from, uint64_t number, size_t size) {
    grpc::ClientContext context;
    auto sent = bytes_of(number, size);
    echo::Bytes came;
    auto status = stub.Back(&context, sent, &came);
    check(status.ok(), status.error_message().c_str());
    check(came.number() == number && came.data() == sent.data(), "the same bytes come back");
    return sum(from, came.data().data(), came.data().size());
}

uint64_t stream_all(echo::Echo::Stub &stub, uint64_t count, bool is_short) {
    grpc::ClientContext context;
    auto stream = stub.BackAll(&context);
    auto size = [=](uint64_t i) { return is_short ? 100 : size_of(i); };
    std::thread writer([&] {
        for (uint64_t i = 0; i < count; i++) check(stream->Write(bytes_of(i, size(i))), "the stream takes bytes");
        stream->WritesDone();
    });
    uint64_t all = SUM_START;
    echo::Bytes came;
    for (uint64_t i = 0; i < count; i++) {
        check(stream->Read(&came), "the stream gives bytes");
        check(came.number() == i && came.data().size() == size(i), "the stream keeps order and size");
        all = sum(all, came.data().data(), came.data().size());
    }
    check(!stream->Read(&came), "the stream ends");
    writer.join();
    check(stream->Finish().ok(), "the stream ends well");
    return all;
}

std::unique_ptr<echo::Echo::Stub> connected(const std::string &address) {
    return echo::Echo::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
}

void ask_endlessly(const std::string &address) {
    auto stub = connected(address);
    for (uint64_t i = 0;; i++) {
        call(*stub, SUM_START, i, size_of(i));
        if (i == 200) say_busy();
    }
}

void ask(const std::string &address, uint64_t calls) {
    auto stub = connected(address);
    uint64_t all = SUM_START;
    for (uint64_t i = 0; i < 200; i++) all = call(*stub, all, i, size_of(i));
    for (uint64_t i = 0; i < 3; i++) all = call(*stub, all, i, 3000000);
    printf("calls %llx\n", (unsigned long long)all);
    printf("stream %llx\n", (unsigned long long)stream_all(*stub, 400, false));
    double since = seconds();
    for (uint64_t i = 0; i < calls; i++) all = call(*stub, all, i, 100);
    figure("calls of 100 B a second", calls, since);
    since = seconds();
    stream_all(*stub, calls * 4, true);
    figure("messages of 100 B a second in a stream", calls * 4, since);
    since = seconds();
    for (uint64_t i = 0; i < calls / 50; i++) all = call(*stub, all, i, 1000000);
    figure("calls of 1 MB a second", calls / 50, since);
    printf("all %llx\n", (unsigned long long)all);
}

} // namespace

int main(int count, char **words) {
    check(count > 2, "grpc server PORT | grpc client PORT CALLS | grpc endless PORT");
    auto address = std::string("127.0.0.1:") + words[2];
    if (std::string(words[1]) == "server") {
        serve(address);
    } else if (std::string(words[1]) == "endless") {
        ask_endlessly(address);
    } else {
        check(count > 3, "grpc client PORT CALLS");
        ask(address, std::stoull(words[3]));
    }
    return 0;
}
