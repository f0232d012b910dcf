"""A training loop for the classification of sequences, to be read and changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path

import numpy as np

from rnnopt.training import checkpoint as checkpoints
from rnnopt.training.clipping import clip_by_norm
from rnnopt.training.losses import checked, cross_entropy, linear, linear_backward


def init_head(spec, classes: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Draw a linear layer from the last hidden states of the top layer to `classes` logits."""
    rng = np.random.default_rng([seed, 5])
    weight = rng.standard_normal((classes, spec.output_size)) / np.sqrt(spec.output_size)
    return {"head.weight": weight.astype(np.float32), "head.bias": np.zeros(classes, np.float32)}


def train(network, head: dict[str, np.ndarray], batches: Callable[[int], Iterable], *, optimizer, epochs: int,
          max_norm: float = np.inf, checkpoint: str | PathLike | None = None, every: int = 50,
          on_epoch: Callable[[int, list[float]], None] | None = None) -> list[float]:
    """Train a network and its head, in place; return the loss of every mini-batch.

    Parameters
    ----------
    network : rnnopt.TrainingNetwork
        Its weights are changed where they are: on the host also in the module that :func:`rnnopt.interop.from_torch` took them from.
    head : dict of str to ndarray
        See :func:`init_head`.
    batches : callable
        Number of the epoch -> iterable of (inputs, labels): arrays of the network's input shape and of shape (batch,). It
        must be the same whenever it is asked for the same epoch; then a run can resume within one.
    optimizer : rnnopt.training.SGD or rnnopt.training.Adam
    epochs : int
    max_norm : float
        Gradients of a larger norm are clipped to it.
    checkpoint : path-like, optional
        File of the run's state. If it exists the run goes on from there, to the same bits as if it had never stopped.
    every : int
        Mini-batches between two states written.
    on_epoch : callable, optional
        Called with the number of an epoch and its losses when it ends.

    Raises
    ------
    FloatingPointError
        If the loss or a gradient is NaN or infinite: where it happened, and what to try. Weights are those before the mini-batch.
    ValueError
        If an epoch has no mini-batch, or a checkpoint is of another run.
    """
    parameters = network.weights | head
    epoch, done, losses = 0, 0, []
    if checkpoint is not None and Path(checkpoint).exists():
        progress = checkpoints.load(checkpoint, weights=parameters, optimizer=optimizer)
        epoch, done, losses, network.calls = (progress[key] for key in ("epoch", "batch", "losses", "calls"))
        network.load_weights()
    while epoch < epochs:
        number = -1
        for number, (inputs, labels) in enumerate(batches(epoch)):
            if number < done:
                continue
            try:
                losses.append(step(network, head, inputs, labels, optimizer, max_norm))
            except FloatingPointError as error:
                raise FloatingPointError(f"epoch {epoch}, mini-batch {number}: {error} (learning rate {optimizer.learning_rate:g}: "
                                         f"try a smaller one, a smaller max_norm, or look at the inputs)") from None
            done = number + 1
            if checkpoint is not None and done % every == 0:
                _save(checkpoint, network, parameters, optimizer, epoch, done, losses)
        if number < 0:
            raise ValueError(f"epoch {epoch} has no mini-batch: are there fewer sequences than the {network.spec.batch} of one?")
        if on_epoch is not None:
            on_epoch(epoch, losses[-done:])
        epoch, done = epoch + 1, 0
        if checkpoint is not None:
            _save(checkpoint, network, parameters, optimizer, epoch, done, losses)
    return losses


def step(network, head, inputs, labels, optimizer, max_norm=np.inf) -> float:
    """One forward pass, backward pass and update; return the loss."""
    outputs, state = network(inputs)
    features = last_hidden(network.spec, state)
    if not np.isfinite(features).all():
        raise FloatingPointError("the network's hidden states are not finite")
    loss, d_logits = cross_entropy(linear(features, head["head.weight"], head["head.bias"]), labels)
    d_features, d_weight, d_bias = linear_backward(features, head["head.weight"], d_logits)
    d_state = tuple(np.zeros_like(part) for part in state)
    for direction, part in enumerate(np.split(d_features, network.spec.directions, axis=1)):
        d_state[0][direction - network.spec.directions] = part
    gradients = network.backward(np.zeros_like(outputs), d_state)
    gradients |= {"head.weight": d_weight, "head.bias": d_bias}
    parameters = network.weights | head
    _, scale = clip_by_norm({name: gradients[name] for name in parameters}, max_norm)
    optimizer.update(parameters, gradients, scale=scale)
    network.load_weights()
    return loss


def last_hidden(spec, state) -> np.ndarray:
    """Final hidden states of the top layer, (batch, directions × hidden): of each sequence that of its own last step."""
    return np.concatenate(list(state[0][-spec.directions:]), axis=1)


def evaluate(network, head, batches: Iterable) -> float:
    """Return the share of sequences that are classified right.

    Parameters
    ----------
    network : rnnopt.Network
        One compiled for training drops outputs here too, if its spec has dropout: evaluate with one that is not.
    head : dict of str to ndarray
        See :func:`init_head`.
    batches : iterable of (inputs, labels)
        Of a mini-batch with fewer labels than sequences only the first are counted, as many as have labels. So all
        sequences are, where :func:`rnnopt.datasets.batches` is told ``remainder="pad"``; else it leaves the last ones out.

    Raises
    ------
    TypeError
        If labels are no integers.
    ValueError
        If no mini-batch comes, or one without labels, with more of them than sequences, or with one that is no class.
    FloatingPointError
        If a logit is NaN or infinite.
    """
    right = total = 0
    for inputs, labels in batches:
        _, state = network(inputs)
        logits = linear(last_hidden(network.spec, state), head["head.weight"], head["head.bias"])
        logits, labels = checked(logits[:len(labels)], labels)
        right += int((logits.argmax(axis=1) == labels).sum())
        total += len(labels)
    if not total:
        raise ValueError("there is nothing to evaluate: no mini-batch came")
    return right / total


def _save(path, network, parameters, optimizer, epoch, batch, losses):
    checkpoints.save(path, weights=parameters, optimizer=optimizer, epoch=epoch, batch=batch, losses=losses, calls=network.calls)
