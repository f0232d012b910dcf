"""Weights of other frameworks compute here what they compute there, and go back unchanged."""

import numpy as np
import pytest
from helpers import host, sized

import rnnopt
from rnnopt.interop import from_keras, from_torch, to_keras, to_torch

KINDS = {"lstm": ("LSTM", {}), "gru": ("GRU", {}), "rnn_tanh": ("RNN", {}), "rnn_relu": ("RNN", {"nonlinearity": "relu"})}


def module(torch, cell, **options):
    torch.manual_seed(0)
    kind, more = KINDS[cell]
    return getattr(torch.nn, kind)(5, 7, 2, **more, **options)


class TestTorch:
    @pytest.mark.parametrize("cell", KINDS)
    @pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"bias": False}], ids=str)
    def test_a_module_computes_the_same_here(self, torch, cell, options):
        peer = module(torch, cell, **options)
        fields, weights = from_torch(peer)
        assert fields["cell"] == cell
        spec = rnnopt.NetworkSpec(**fields, batch=3, steps=4)
        x = np.random.default_rng(0).standard_normal((4, 3, 5), dtype=np.float32)
        outputs, _ = rnnopt.compile(spec, weights, device=host())(x)
        with torch.no_grad():
            np.testing.assert_allclose(outputs, peer(torch.from_numpy(x))[0].numpy(), rtol=1e-4, atol=1e-6)

    @pytest.mark.parametrize("cell", KINDS)
    def test_weights_share_memory_and_load_back_unchanged(self, torch, cell):
        peer = module(torch, cell, bidirectional=True)
        _, weights = from_torch(peer)
        for name, value in peer.state_dict().items():
            assert weights[name].ctypes.data == value.data_ptr()
        other = module(torch, cell, bidirectional=True)
        other.load_state_dict(to_torch(weights), strict=True)
        assert all(torch.equal(a, b) for a, b in zip(peer.state_dict().values(), other.state_dict().values(), strict=True))

    def test_weights_drawn_here_load_there(self, torch):
        weights = rnnopt.init_weights(sized(bidirectional=True))
        module(torch, "lstm", bidirectional=True).load_state_dict(to_torch(weights), strict=True)

    def test_a_part_of_a_larger_model_is_found_by_its_prefix(self, torch):
        model = torch.nn.ModuleDict({"rnn": module(torch, "lstm"), "head": torch.nn.Linear(7, 2)})
        fields, weights = from_torch(model.state_dict(), prefix="rnn.")
        assert fields == dict(cell="lstm", layers=2, input_size=5, hidden_size=7, bidirectional=False)
        assert to_torch(weights, "rnn.").keys() == {name for name in model.state_dict() if name.startswith("rnn.")}
        with pytest.raises(ValueError, match=r"no recurrent network has the prefix ''; there are 'rnn\.'"):
            from_torch(model.state_dict())

    def test_a_state_dict_that_may_be_of_several_cells_needs_the_cell(self, torch):
        state = module(torch, "gru").state_dict()
        with pytest.raises(ValueError, match="may be of gru, implicit_gru: give cell="):
            from_torch(state)
        assert from_torch(state, cell="gru")[0]["cell"] == "gru"

    def test_projections_and_other_modules_are_refused(self, torch):
        with pytest.raises(ValueError, match="projections"):
            from_torch(torch.nn.LSTM(5, 7, proj_size=3))
        with pytest.raises(ValueError, match="expected a torch.nn.LSTM, GRU or RNN, or a state dict, got Linear"):
            from_torch(torch.nn.Linear(2, 2))

    def test_a_safetensors_file_is_a_state_dict(self, torch, tmp_path):
        from safetensors.numpy import load_file
        from safetensors.torch import save_file

        peer = module(torch, "lstm")
        save_file(peer.state_dict(), tmp_path / "model.safetensors")
        fields, weights = from_torch(load_file(tmp_path / "model.safetensors"))
        assert fields["layers"] == 2
        assert all((weights[name] == value.numpy()).all() for name, value in peer.state_dict().items())


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def keras_step(cell, kernel, recurrent, bias, x, h, c):
    """One step as Keras' source has it."""
    units = h.shape[1]
    if cell == "lstm":
        z = x @ kernel + h @ recurrent + bias
        i, f, g, o = (z[:, k * units:(k + 1) * units] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    if cell == "gru":
        x_z, x_r, x_h = np.split(x @ kernel + bias[0], 3, axis=1)
        r_z, r_r, r_h = np.split(h @ recurrent + bias[1], 3, axis=1)
        z, r = sigmoid(x_z + r_z), sigmoid(x_r + r_r)
        return z * h + (1 - z) * np.tanh(x_h + r * r_h), c
    pre = x @ kernel + h @ recurrent + bias
    return (np.tanh(pre) if cell == "rnn_tanh" else np.maximum(pre, 0)), c


class TestKeras:
    @staticmethod
    def layers(cell, sizes=(5, 7, 7)):
        rng, gates = np.random.default_rng(0), {"lstm": 4, "gru": 3}.get(cell, 1)
        bias = (2, gates * 7) if cell == "gru" else (gates * 7,)
        return [[(0.4 * rng.standard_normal(shape)).astype(np.float32) for shape in ((features, gates * 7), (7, gates * 7), bias)]
                for features in sizes[:-1]]

    @pytest.mark.parametrize("cell", KINDS)
    def test_a_stack_computes_the_same_here(self, cell):
        layers = self.layers(cell)
        x = np.random.default_rng(1).standard_normal((4, 3, 5), dtype=np.float32)
        expected = x.astype(np.float64)
        for layer in layers:
            h = c = np.zeros((3, 7))
            outputs = []
            for step in expected:
                h, c = keras_step(cell, *layer, step, h, c)
                outputs.append(h)
            expected = np.array(outputs)
        outputs, _ = rnnopt.compile(sized(cell=cell), from_keras(layers, cell), device=host())(x)
        np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-6)

    @pytest.mark.parametrize("cell", KINDS)
    def test_weights_go_back_unchanged(self, cell):
        layers = self.layers(cell)
        for layer, same in zip(layers, to_keras(from_keras(layers, cell), cell), strict=True):
            assert all((a == b).all() and a.shape == b.shape for a, b in zip(layer, same, strict=True))

    def test_without_bias(self):
        weights = from_keras([layer[:2] for layer in self.layers("gru")], "gru")
        assert not weights["bias_ih_l0"].any()
        assert weights["bias_hh_l1"].shape == (21,)

    def test_a_reset_gate_before_the_product_is_refused(self):
        kernel, recurrent, bias = self.layers("gru")[0]
        with pytest.raises(ValueError, match="reset_after=False"):
            from_keras([[kernel, recurrent, bias[0]]], "gru")

    def test_wrong_shapes_cells_and_directions_are_refused(self):
        with pytest.raises(ValueError, match="layer 0 has a kernel of shape"):
            from_keras(self.layers("lstm"), "gru")
        with pytest.raises(ValueError, match="Keras has no implicit_gru"):
            from_keras(self.layers("gru"), "implicit_gru")
        with pytest.raises(ValueError, match="directions"):
            to_keras(rnnopt.init_weights(sized(bidirectional=True)), "lstm")
