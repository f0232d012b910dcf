"""Wavefront: cells on an anti-diagonal of (layer, step) don't depend on each other.

A layer may start as soon as the layer below has finished its first steps. Each
layer gets streams of its own, and tasks are issued diagonal by diagonal, so
that up to `layers` of them run at once.
"""


def layer_stream(layer):
    return layer


def order(layers, groups):
    for diagonal in range(layers + groups - 1):
        for layer in range(max(0, diagonal - groups + 1), min(layers, diagonal + 1)):
            yield layer, diagonal - layer
