"""Networks of PyTorch in float64, and a plain recurrence for what PyTorch does not have: independent of the package's own."""

from itertools import product

import numpy as np
from hypothesis import strategies as st

import rnnopt
from rnnopt import cells

#: Cells that PyTorch has.
PEERS = {"lstm": ("LSTM", {}), "gru": ("GRU", {}), "rnn_tanh": ("RNN", {"nonlinearity": "tanh"}),
         "rnn_relu": ("RNN", {"nonlinearity": "relu"})}


@st.composite
def specs(draw, cell=None, **options):
    """Networks of all cells, in one direction or both, with sequences of one length or packed."""
    size = st.integers(1, 4)
    steps, batch = draw(size), draw(size)
    lengths = draw(st.none() | st.lists(st.integers(1, steps), min_size=batch - 1, max_size=batch - 1))
    if lengths is not None:
        lengths = sorted([steps, *lengths], reverse=True)
    return rnnopt.NetworkSpec(cell or draw(st.sampled_from(cells.CELLS)), draw(st.integers(1, 3)), draw(size), draw(size), batch, steps,
                              bidirectional=draw(st.booleans()), lengths=lengths, **options)


def module(torch, spec, weights=None):
    """The network of PyTorch that a spec describes, in float64."""
    name, options = PEERS[spec.cell]
    made = getattr(torch.nn, name)(spec.input_size, spec.hidden_size, spec.layers, bidirectional=spec.bidirectional,
                                   dtype=torch.float64, **options)
    if weights is not None:
        made.load_state_dict({key: torch.from_numpy(value.astype(np.float64)) for key, value in weights.items()})
    return made


def solution(torch, p, d_outputs=None, d_state=None):
    """Outputs and final states by PyTorch, and the gradients of :func:`rnnopt.reference.backward` if `d_outputs` is given."""
    network, inputs, state = module(torch, p.spec, p.weights), *_leaves(torch, p)
    single = state[0] if len(state) == 1 else state
    sequence = inputs
    if p.spec.lengths is not None:
        sequence = torch.nn.utils.rnn.PackedSequence(inputs, torch.tensor(p.spec.batch_sizes))
    outputs, final = network(sequence, single)
    outputs = outputs.data if p.spec.lengths is not None else outputs
    final = final if isinstance(final, tuple) else (final,)
    return _results(torch, dict(network.named_parameters()), inputs, state, outputs, final, d_outputs, d_state)


def plain(torch, p, d_outputs=None, d_state=None, masks=None):
    """The same for any cell, one sequence after the other, each as a list of its own tokens.

    `masks` are what the outputs of each layer but the last are multiplied
    with, of shape (rows, directions × hidden), laid out as the outputs are.
    """
    spec, (inputs, state) = p.spec, _leaves(torch, p)
    weights = {key: torch.from_numpy(value.astype(np.float64)).requires_grad_() for key, value in p.weights.items()}
    lengths = spec.lengths or (spec.steps,) * spec.batch
    row = {}  # of each (step, sequence)
    for step, number in product(range(spec.steps), range(spec.batch)):
        if step < lengths[number]:
            row[step, number] = len(row)
    rows = inputs.reshape(-1, spec.input_size)
    outputs, final = {}, {}
    for number, length in enumerate(lengths):
        sequence = [rows[row[step, number]] for step in range(length)]
        for layer in range(spec.layers):
            halves = []
            for reverse in range(spec.directions):
                place, suffix = layer * spec.directions + reverse, f"_l{layer}" + "_reverse" * reverse
                w, r, b, b2 = (weights[key + suffix] for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
                current, half = [part[place, number] for part in state], {}
                for step in (reversed(range(length)) if reverse else range(length)):
                    current = _cell(torch, spec.cell, w @ sequence[step] + b, r @ current[0] + b2, *current)
                    half[step] = current[0]
                halves.append(half)
                for kind, part in enumerate(current):
                    final[kind, place, number] = part
            sequence = [torch.cat([half[step] for half in halves]) for step in range(length)]
            if masks is not None and layer < spec.layers - 1:
                sequence = [token * torch.from_numpy(masks[layer][row[step, number]]) for step, token in enumerate(sequence)]
        outputs |= {row[step, number]: token for step, token in enumerate(sequence)}
    outputs = torch.stack([outputs[k] for k in range(len(outputs))]).reshape(*spec.rows, -1)
    final = tuple(torch.stack([torch.stack([final[kind, place, number] for number in range(spec.batch)])
                               for place in range(spec.state_shape[0])]) for kind in range(len(state)))
    return _results(torch, weights, inputs, state, outputs, final, d_outputs, d_state)


def _cell(torch, name, a, b, h, c=None):
    """New states, given W x + b_W and R h + b_R of one token."""
    if name == "lstm":
        i, f, g, o = (a + b).reshape(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
    if name == "rnn_tanh":
        return (torch.tanh(a + b),)
    if name == "rnn_relu":
        return (torch.relu(a + b),)
    (a_r, a_z, a_n), (b_r, b_z, b_n) = a.reshape(3, -1), b.reshape(3, -1)
    z, n = torch.sigmoid(a_z + b_z), torch.tanh(a_n + torch.sigmoid(a_r + b_r) * b_n)
    return ((1 - z) * n + z * h if name == "gru" else (h + (1 - z) * n) / (2 - z),)


def _leaves(torch, p):
    state = p.state or tuple(np.zeros(p.spec.state_shape) for _ in cells.get(p.spec.cell).STATES)
    inputs, *state = (torch.from_numpy(array.astype(np.float64)).requires_grad_() for array in (p.inputs, *state))
    return inputs, tuple(state)


def _results(torch, weights, inputs, state, outputs, final, d_outputs, d_state):
    results = tuple(part.detach().numpy() for part in (outputs, *final))
    if d_outputs is None:
        return results
    loss = (outputs * torch.from_numpy(d_outputs.astype(np.float64))).sum()
    for part, gradient in zip(final, d_state or (), strict=d_state is not None):
        loss = loss + (part * torch.from_numpy(gradient.astype(np.float64))).sum()
    loss.backward()
    gradient = lambda leaf: np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy()  # noqa: E731
    return results, {**{key: gradient(value) for key, value in weights.items()}, "inputs": gradient(inputs),
                     "state": tuple(gradient(part) for part in state)}
