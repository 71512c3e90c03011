"""Echo over gRPC in Python, as grpc.cc: grpc_server.py FOLDER-OF-GENERATED-CODE PORT; ends by SIGTERM."""
import signal
import sys
from concurrent import futures

sys.path.insert(0, sys.argv[1])
import echo_pb2_grpc  # noqa: E402
import grpc  # noqa: E402


class Echo(echo_pb2_grpc.EchoServicer):
    def Back(self, request, context):
        return request

    def BackAll(self, requests, context):
        yield from requests


server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
echo_pb2_grpc.add_EchoServicer_to_server(Echo(), server)
assert server.add_insecure_port("127.0.0.1:" + sys.argv[2])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
server.start()
signal.sigwait([signal.SIGTERM])
server.stop(1).wait()
