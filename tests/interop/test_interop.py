"""Weights of other frameworks compute here what they compute there, and go back unchanged."""

import copy

import numpy as np
import pytest
from helpers import host, sized

import rnnopt
from rnnopt import training
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

    def test_a_module_derived_from_torchs_is_taken_for_what_it_is_derived_from(self, torch):
        class Mine(torch.nn.GRU):
            pass

        torch.manual_seed(0)
        peer = Mine(5, 7, 2)
        fields, weights = from_torch(peer)
        assert fields["cell"] == "gru"
        assert all((weights[name] == value.numpy()).all() for name, value in peer.state_dict().items())

    def test_a_module_that_is_only_called_like_torchs_is_refused(self, torch):
        class LSTM(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = torch.nn.GRU(5, 7)

        with pytest.raises(ValueError, match=r"got LSTM: of a larger module give the state_dict\(\), and prefix="):
            from_torch(LSTM(), prefix="rnn.")

    def test_a_cell_that_contradicts_the_module_is_refused(self, torch):
        with pytest.raises(ValueError, match="the module is of cell 'gru', not 'implicit_gru': leave cell out, or give the module's"):
            from_torch(module(torch, "gru"), cell="implicit_gru")
        assert from_torch(module(torch, "gru").state_dict(), cell="implicit_gru")[0]["cell"] == "implicit_gru"
        with pytest.raises(ValueError, match=r"\(3 × hidden, hidden\) for a gru, got \(28, 7\), which lstm has: give the cell"):
            from_torch(module(torch, "lstm").state_dict(), cell="gru")

    @pytest.mark.parametrize("name", ["bias_hh_l0", "bias_ih_l1", "weight_ih_l0", "weight_hh_l1", "weight_ih_l0_reverse"])
    def test_a_parameter_that_is_missing_is_named(self, torch, name):
        state = dict(module(torch, "lstm", bidirectional=True).state_dict())
        del state[name]
        with pytest.raises(ValueError, match=rf"weights lacks? {name}\b"):
            from_torch(state)

    def test_a_layer_that_is_missing_is_named(self, torch):
        state = {name.replace("_l1", "_l2"): value for name, value in module(torch, "lstm").state_dict().items()}
        with pytest.raises(ValueError, match="lacks bias_hh_l1, .* and has unknown bias_hh_l2, .*a 2-layer lstm has"):
            from_torch(state)

    @pytest.mark.parametrize(("name", "shape", "said"), [
        ("weight_ih_l1", (28, 6), r"weights\['weight_ih_l1'\] must have shape \(28, 7\), got \(28, 6\)"),
        ("bias_hh_l0", (27,), r"weights\['bias_hh_l0'\] must have shape \(28,\), got \(27,\)"),
        ("weight_ih_l0", (24, 5), r"weights\['weight_ih_l0'\] must have shape \(28, 5\), got \(24, 5\)"),
        ("weight_hh_l0", (28,), r"weight_hh_l0 must have shape \(gates × hidden, features\), none of them 0, got \(28,\)"),
        ("weight_hh_l0", (0, 0), "none of them 0"),
    ])
    def test_shapes_that_do_not_fit_each_other_are_refused(self, name, shape, said):
        weights = rnnopt.init_weights(sized()) | {name: np.zeros(shape, np.float32)}
        with pytest.raises(ValueError, match=said):
            from_torch(weights, cell="lstm")

    @pytest.mark.parametrize("kind", ["double", "half", "bfloat16"])
    def test_other_precisions_are_refused_not_rounded(self, torch, kind):
        with pytest.raises(TypeError, match=r"weight_ih_l0.*float32"):
            from_torch(getattr(module(torch, "lstm"), kind)())

    def test_training_in_place_trains_the_module_and_a_copy_of_it_does_not(self, torch):
        peer = module(torch, "lstm")
        before = {name: value.clone() for name, value in peer.state_dict().items()}
        data = [(np.ones((4, 3, 5), np.float32), np.array([0, 1, 1]))]
        for source, changes in ((copy.deepcopy(peer), False), (peer, True)):
            fields, weights = from_torch(source)
            network = rnnopt.compile(rnnopt.NetworkSpec(**fields, batch=3, steps=4), weights, device=host(), training=True)
            head, optimizer = training.init_head(network.spec, 2), training.SGD(0.1, device=host())
            training.train(network, head, lambda epoch: data, optimizer=optimizer, epochs=1)
            assert any(not torch.equal(before[name], value) for name, value in peer.state_dict().items()) == changes

    def test_a_tensor_never_writes_into_a_read_only_array(self, torch):
        weights = rnnopt.init_weights(sized())
        for value in weights.values():
            value.flags.writeable = False
        before = {name: value.copy() for name, value in weights.items()}
        for name, tensor in to_torch(weights).items():
            assert tensor.numpy().tolist() == before[name].tolist()
            tensor.zero_()
        assert all((weights[name] == value).all() for name, value in before.items())

    def test_arrays_that_torch_can_not_share_are_copied_or_refused(self, torch):
        assert to_torch({"w": np.arange(3, dtype=np.float32)[::-1]})["w"].tolist() == [2, 1, 0]
        with pytest.raises(TypeError, match=r"w must be float32, got float64: convert it with \.astype"):
            to_torch({"w": np.zeros(3)})

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

    @pytest.mark.parametrize("which", range(3))
    def test_other_precisions_are_refused_not_rounded(self, which):
        layer = self.layers("lstm")[0]
        layer[which] = layer[which].astype(np.float64)
        with pytest.raises(TypeError, match="of layer 0 must be float32, got float64: convert it"):
            from_keras([layer], "lstm")
        weights = rnnopt.init_weights(sized())
        weights["bias_hh_l1"] = weights["bias_hh_l1"].astype(np.float64)
        with pytest.raises(TypeError, match="must be float32, got float64"):
            to_keras(weights, "lstm")

    @pytest.mark.parametrize("each", [2, 3])
    def test_a_bidirectional_layer_is_refused_whole_and_taken_in_halves(self, each):
        forward, backward = (layer[:each] for layer in self.layers("lstm", (5, 5, 5)))
        with pytest.raises(ValueError, match=f"layer 0 must have 2 or 3 arrays .*got {2 * each}: .* {each} forward and {each} backward"):
            from_keras([forward + backward], "lstm")
        halves = [from_keras([half], "lstm") for half in (forward, backward)]
        weights = halves[0] | {name + "_reverse": value for name, value in halves[1].items()}
        assert weights.keys() == rnnopt.init_weights(sized(layers=1, bidirectional=True)).keys()

    @pytest.mark.parametrize(("cell", "shape"), [("lstm", (27,)), ("lstm", (2, 28)), ("gru", (1, 21)), ("gru", (2, 20)), ("rnn_tanh", ())])
    def test_a_bias_of_another_shape_is_refused(self, cell, shape):
        kernel, recurrent, _ = self.layers(cell)[0]
        with pytest.raises(ValueError, match="the bias of layer 0 must have shape"):
            from_keras([[kernel, recurrent, np.zeros(shape, np.float32)]], cell)

    def test_layers_that_do_not_fit_on_each_other_are_refused(self):
        with pytest.raises(ValueError, match="layer 1 reads 6 features and has 7 units, but both must be the 7 units of the layer below"):
            from_keras([self.layers("lstm")[0], self.layers("lstm", (6, 7))[0]], "lstm")

    def test_what_is_no_list_of_layers_is_refused(self):
        kernel, recurrent, bias = self.layers("lstm")[0]
        with pytest.raises(TypeError, match="layer 0 must be a list .*got ndarray: give what get_weights.* in a list of its own"):
            from_keras([kernel, recurrent, bias], "lstm")
        with pytest.raises(ValueError, match=r"must have 2 or 3 arrays \(kernel, recurrent kernel, bias\), got 1$"):
            from_keras([[kernel]], "lstm")
        with pytest.raises(ValueError, match="layers must hold .* but is empty"):
            from_keras([], "lstm")
        with pytest.raises(TypeError, match="layers must be a list .*, got dict"):
            from_keras({}, "lstm")

    @pytest.mark.parametrize(("name", "said"), [("weight_ih_l0", "weights lack weight_ih_l0"), ("weight_hh_l1", "lacks weight_hh_l1"),
                                                ("bias_hh_l0", "lacks bias_hh_l0; a 2-layer lstm")])
    def test_weights_that_are_not_all_there_do_not_go_back(self, name, said):
        weights = rnnopt.init_weights(sized())
        del weights[name]
        with pytest.raises(ValueError, match=said):
            to_keras(weights, "lstm")

    def test_weights_of_another_cell_do_not_go_back(self):
        with pytest.raises(ValueError, match=r"\(3 × hidden, hidden\) for a gru, got \(28, 7\), which lstm has"):
            to_keras(rnnopt.init_weights(sized()), "gru")

    def test_wrong_shapes_cells_and_directions_are_refused(self):
        with pytest.raises(ValueError, match="layer 0 has a kernel of shape"):
            from_keras(self.layers("lstm"), "gru")
        with pytest.raises(ValueError, match="Keras has no implicit_gru"):
            from_keras(self.layers("gru"), "implicit_gru")
        with pytest.raises(ValueError, match="directions"):
            to_keras(rnnopt.init_weights(sized(bidirectional=True)), "lstm")
