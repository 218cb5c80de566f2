"""Times of PyTorch calls on a GPU, for the tools of this folder."""
import statistics
import time

import torch


def graph_of(call, times=1):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            call()
    return graph


def replayed(call, samples=21, sample_us=2000.0):
    """The median time of a call, µs: replays of a CUDA graph."""
    def sample(graph, count):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / count

    graph = graph_of(call)
    once = min(sample(graph, 2) for _ in range(3))
    if once < 100:  # for longer calls, launching them costs little
        graph = graph_of(call, 20)
        return statistics.median(sample(graph, max(1, int(sample_us / once / 20))) for _ in range(samples)) / 20
    return statistics.median(sample(graph, max(1, int(sample_us / once))) for _ in range(samples))


def host_us(call, calls=300, wait=False):
    """The median time of a call on the host, µs: until it returns; wait: until the GPU has finished."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    took = []
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        if wait:
            torch.cuda.synchronize()
        took.append((time.perf_counter() - begin) / calls * 1e6)
        torch.cuda.synchronize()
    return statistics.median(took)
