"""Echo over Apache Thrift, a thread for each connection: thrift_server.py FOLDER-OF-GENERATED-CODE PORT; ends by
SIGTERM."""
import signal
import sys

sys.path.insert(0, sys.argv[1])
from echo import Echo  # noqa: E402
from echo.ttypes import Refused  # noqa: E402
from thrift.protocol import TBinaryProtocol  # noqa: E402
from thrift.server import TServer  # noqa: E402
from thrift.transport import TSocket, TTransport  # noqa: E402


class Handler:
    def back(self, bytes):
        if bytes.number < 0:
            raise Refused("a number below 0")
        return bytes


server = TServer.TThreadedServer(
    Echo.Processor(Handler()),
    TSocket.TServerSocket("127.0.0.1", int(sys.argv[2])),
    TTransport.TBufferedTransportFactory(),
    TBinaryProtocol.TBinaryProtocolAcceleratedFactory(),
    daemon=True,
)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
server.serve()
