"""The workloads of `make bench-lab` on SimPy: `simpy_rival.py WORKLOAD EVENTS` prints
`EVENTS SECONDS`. In SimPy's own style: processes that wait for time-outs and resources.
What counts as an event is what counts in barewire-des: an arrival, a departure, a token.
"""
import random
import sys
import time

import simpy

FIRED = 0


def mm1(env, limit):
    server = simpy.Resource(env, 1)
    sojourns = [0.0, 0]

    def customer():
        global FIRED
        came = env.now
        with server.request() as turn:
            yield turn
            yield env.timeout(random.expovariate(1 / 90.0))
        FIRED += 1
        sojourns[0] += env.now - came
        sojourns[1] += 1

    def source():
        global FIRED
        while FIRED < limit:
            yield env.timeout(random.expovariate(1 / 100.0))
            FIRED += 1
            env.process(customer())

    env.process(source())


def ring(env, limit):
    stations, service, walk = 32, 10.0, 0.5
    queues = [[] for _ in range(stations)]

    def source(station):
        global FIRED
        while FIRED < limit:
            yield env.timeout(random.expovariate(0.6 / (service * stations)))
            FIRED += 1
            queues[station].append(env.now)

    def token():
        global FIRED
        station, waits = 0, 0.0
        while FIRED < limit:
            yield env.timeout(walk)
            FIRED += 1
            if queues[station]:
                waits += env.now - queues[station].pop(0)
                yield env.timeout(random.expovariate(1 / service))
            station = (station + 1) % stations

    for station in range(stations):
        env.process(source(station))
    env.process(token())


def hold(pending):
    def start(env, limit):
        def one():
            global FIRED
            while FIRED < limit:
                yield env.timeout(random.expovariate(1.0))
                FIRED += 1

        for _ in range(pending):
            env.process(one())

    return start


def main():
    workloads = {"mm1": mm1, "ring": ring, "hold-1024": hold(1024), "hold-65536": hold(65536)}
    workload, limit = workloads[sys.argv[1]], int(sys.argv[2])
    random.seed(1)
    env = simpy.Environment()
    workload(env, limit)
    begun = time.perf_counter()
    while FIRED < limit:
        env.step()
    print(FIRED, time.perf_counter() - begun)


main()
