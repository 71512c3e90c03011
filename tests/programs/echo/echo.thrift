// What the programs thrift_server.py and thrift_client.py say to one another.
namespace py echo

struct Bytes {
    1: i64 number,
    2: binary data,
}

exception Refused {
    1: string why,
}

service Echo {
    // Sends back what came; refuses a number below 0.
    Bytes back(1: Bytes bytes) throws (1: Refused refused),
}
