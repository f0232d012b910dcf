"""Random numbers that are a function of a position: the counter-based generator Philox4x32-10, and dropout from it.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(SC 2011). Ten rounds encrypt a counter under a key: no number waits for
another, none is stored, and whoever asks for the same one gets it, in
whatever order and on whatever device.
"""

from __future__ import annotations

from operator import index

import numpy as np

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)

#: What the key grows by from round to round: the golden ratio and √3 - 1, in 32 bits.
WEYL = (0x9E3779B9, 0xBB67AE85)

_LOW = np.uint64(0xFFFFFFFF)


def philox(counter, key):
    """Return the four output words of Philox4x32-10.

    Parameters
    ----------
    counter : four ints or arrays of int
        Words of 32 bits, broadcast against each other.
    key : two ints or arrays of int
        Likewise.

    Returns
    -------
    tuple of four ndarray of uint32
    """
    # Held in 64 bits, so that products are whole.
    *words, key_0, key_1 = np.broadcast_arrays(*(np.asarray(word, np.uint64) & _LOW for word in (*counter, *key)))
    for number in range(ROUNDS):
        product_0, product_1 = (np.uint64(m) * word for m, word in zip(MULTIPLIERS, words[::2], strict=True))
        key_a, key_b = (key + np.uint64(number * weyl) & _LOW for key, weyl in zip((key_0, key_1), WEYL, strict=True))
        words = [product_1 >> 32 ^ words[1] ^ key_a, product_1 & _LOW, product_0 >> 32 ^ words[3] ^ key_b, product_0 & _LOW]
    return tuple(word.astype(np.uint32) for word in words)


def dropout_threshold(probability: float) -> int:
    """Return what a word of 32 bits must reach to be kept; words below it, a share of `probability`, are dropped."""
    return min(round(probability * 2**32), 2**32 - 1)


def dropout_mask(shape, probability: float, *, seed: int, call: int, layer: int, first: int = 0) -> np.ndarray:
    """Return what the outputs of a layer are multiplied with: 1 / (1 - probability), or 0 where they are dropped.

    Element e of the whole sequence is kept if the first word of counter
    (e, layer, call, 0) under key (low, high half of the seed) reaches
    :func:`dropout_threshold`.

    Parameters
    ----------
    shape : tuple of int
        E.g. (steps, batch, features), or (tokens, features).
    probability : float
        Of being dropped: at least 0, less than 1.
    seed : int
        At least 0, less than 2**64.
    call : int
        Number of the training step: at least 0, less than 2**32.
    layer : int
        The layer whose outputs these are.
    first : int
        Where in the sequence, in row-major order, the first element of the mask is.

    Returns
    -------
    ndarray of float64, of `shape`
    """
    if not 0 <= probability < 1:
        raise ValueError(f"probability must be at least 0 and less than 1, got {probability}")
    for name, value, bits in (("seed", seed, 64), ("call", call, 32), ("layer", layer, 32)):
        if not 0 <= index(value) < 2**bits:
            raise ValueError(f"{name} must be an integer of at least 0 and less than 2**{bits}, got {value}")
    if not probability:
        return np.ones(shape)
    element = np.arange(np.prod(shape, dtype=int), dtype=np.uint64).reshape(shape) + np.uint64(first)
    word, *_ = philox((element, layer, call, 0), (seed & 0xFFFFFFFF, seed >> 32))
    return (word >= dropout_threshold(probability)) / (1 - probability)
