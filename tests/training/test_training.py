"""Losses, clipping and updates are torch's; a run resumes to the same bits; what goes wrong is said."""

import signal
import subprocess
import sys
import time
from textwrap import dedent

import numpy as np
import pytest
from helpers import host, sized

import rnnopt
from rnnopt import datasets, training
from rnnopt.training import loop, losses


class TestCrossEntropy:
    def test_value_and_gradient_are_those_of_torch(self, torch):
        rng = np.random.default_rng(0)
        logits, labels = (50 * rng.standard_normal((9, 5))).astype(np.float32), rng.integers(5, size=9)
        loss, d_logits = training.cross_entropy(logits, labels)
        peer = torch.from_numpy(logits).double().requires_grad_()
        expected = torch.nn.functional.cross_entropy(peer, torch.from_numpy(labels))
        expected.backward()
        assert loss == pytest.approx(expected.item(), rel=1e-12)
        np.testing.assert_allclose(d_logits, peer.grad.numpy(), rtol=1e-6, atol=1e-12)

    @pytest.mark.parametrize(("logits", "labels", "error", "said"), [
        (np.zeros((0, 3)), np.zeros(0, int), ValueError, r"neither of them empty; got \(0, 3\) and \(0,\)"),
        (np.zeros((2, 3)), np.zeros(3, int), ValueError, r"got \(2, 3\) and \(3,\)"),
        (np.zeros((2, 3)), np.zeros(2), TypeError, "labels must be integers, got float64"),
        (np.zeros((2, 3)), np.array([0, 3]), ValueError, "less than the 3 classes, got values from 0 to 3"),
        (np.zeros((2, 3)), np.array([-1, 0]), ValueError, "got values from -1 to 0"),
        (np.array([[0.0, 1.0], [2.0, np.nan]]), np.array([0, 1]), FloatingPointError, r"the loss is not finite: logits\[1, 1\] is nan"),
        (np.array([[0.0, np.inf]]), np.array([0]), FloatingPointError, r"logits\[0, 1\] is inf"),
    ])
    def test_what_has_no_loss_is_refused(self, logits, labels, error, said):
        with pytest.raises(error, match=said):
            training.cross_entropy(logits, labels)

    def test_the_head_has_the_gradient_of_differences(self):
        rng = np.random.default_rng(0)
        x, w, b, d_y = (rng.standard_normal(shape) for shape in ((3, 4), (2, 4), (2,), (3, 2)))
        gradients = losses.linear_backward(x, w, d_y)
        for n, (value, gradient) in enumerate(zip((x, w, b), gradients, strict=True)):
            along = rng.standard_normal(value.shape)
            sides = [losses.linear(*(v + sign * 1e-6 * along if k == n else v for k, v in enumerate((x, w, b)))) for sign in (1, -1)]
            assert ((sides[0] - sides[1]) * d_y).sum() / 2e-6 == pytest.approx((gradient * along).sum(), rel=1e-7)


class TestClipping:
    @pytest.mark.parametrize("max_norm", [0.1, 5.0, 1e6, np.inf])
    def test_norm_and_factor_are_those_of_torch(self, torch, max_norm):
        rng = np.random.default_rng(0)
        gradients = {"a": rng.standard_normal((3, 4)).astype(np.float32), "b": rng.standard_normal(5).astype(np.float32)}
        tensors = [torch.zeros(value.shape, requires_grad=True) for value in gradients.values()]
        for tensor, value in zip(tensors, gradients.values(), strict=True):
            tensor.grad = torch.from_numpy(value.copy())
        expected = torch.nn.utils.clip_grad_norm_(tensors, max_norm)
        norm, scale = training.clip_by_norm(gradients, max_norm)
        assert norm == pytest.approx(expected.item(), rel=1e-6)
        np.testing.assert_allclose(scale * gradients["a"], tensors[0].grad.numpy(), rtol=1e-6)

    def test_gradients_that_are_not_finite_are_named(self):
        wrong = {"a": np.ones(3, np.float32), "b": np.array([1, np.nan], np.float32), "c": np.array([np.inf], np.float32)}
        with pytest.raises(FloatingPointError, match="gradients are not finite: b, c;"):
            training.clip_by_norm(wrong, 1.0)

    def test_squares_beyond_float32_are_no_overflow(self):
        norm, scale = training.clip_by_norm({"a": np.full(4, 1e25, np.float32)}, 1.0)
        assert norm == pytest.approx(2e25)
        assert scale == pytest.approx(5e-26)

    @pytest.mark.parametrize("wrong", [0, -1.0, np.nan])
    def test_a_norm_that_is_none_is_refused(self, wrong):
        with pytest.raises(ValueError, match="max_norm must be more than 0"):
            training.clip_by_norm({}, wrong)


OPTIMIZERS = [
    (lambda device: training.SGD(0.1, device=device), lambda torch, p: torch.optim.SGD(p, 0.1)),
    (lambda device: training.SGD(0.1, 0.9, 0.01, device=device), lambda torch, p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01)),
    (lambda device: training.Adam(device=device), lambda torch, p: torch.optim.Adam(p)),
    (lambda device: training.Adam(0.02, (0.8, 0.95), 1e-5, 0.03, device=device),
     lambda torch, p: torch.optim.Adam(p, 0.02, betas=(0.8, 0.95), eps=1e-5, weight_decay=0.03)),
]


class TestOptimizers:
    @pytest.mark.parametrize("device", ["host", "reference"])
    @pytest.mark.parametrize(("make", "peer"), OPTIMIZERS, ids=["SGD", "SGD with all", "Adam", "Adam with all"])
    def test_twenty_updates_are_those_of_torch(self, torch, device, make, peer):
        rng = np.random.default_rng(0)
        weights = {"matrix": rng.standard_normal((33, 7)).astype(np.float32), "bias": rng.standard_normal(5).astype(np.float32)}
        tensors = {name: torch.from_numpy(value.copy()).requires_grad_() for name, value in weights.items()}
        optimizer, other = make(host() if device == "host" else device), peer(torch, list(tensors.values()))
        for _ in range(20):
            gradients = {name: rng.standard_normal(value.shape).astype(np.float32) for name, value in weights.items()}
            for name, tensor in tensors.items():
                tensor.grad = 0.5 * torch.from_numpy(gradients[name])
            optimizer.update(weights, gradients, scale=0.5)
            other.step()
        for name, tensor in tensors.items():
            np.testing.assert_allclose(weights[name], tensor.detach().numpy(), rtol=2e-6, atol=1e-6)

    def test_a_missing_or_wrong_gradient_is_refused(self):
        optimizer = training.SGD(0.1, device="reference")
        weights = {"a": np.zeros((2, 3), np.float32)}
        with pytest.raises(ValueError, match=r"gradients\['a'\] must have the shape \(2, 3\) of the weight, got none"):
            optimizer.update(weights, {})
        with pytest.raises(ValueError, match=r"got \(3, 2\)"):
            optimizer.update(weights, {"a": np.zeros((3, 2), np.float32)})

    @pytest.mark.parametrize("device", ["host", "reference"])
    def test_a_read_only_or_double_weight_is_refused_and_nothing_changes(self, device):
        fine, gradient = np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)
        optimizer = training.SGD(0.1, device=host() if device == "host" else device)
        fixed = np.ones((2, 3), np.float32)
        fixed.flags.writeable = False
        with pytest.raises(ValueError, match=r"weights\['b'\] is read-only, .*give a copy"):
            optimizer.update({"a": fine, "b": fixed}, {"a": gradient, "b": gradient})
        with pytest.raises(TypeError, match=r"weights\['b'\] must be float32, got float64"):
            optimizer.update({"a": fine, "b": fixed.astype(np.float64)}, {"a": gradient, "b": gradient})
        assert (fine == 1).all()
        assert (fixed == 1).all()
        assert (optimizer.steps, optimizer.state) == (0, {})


SPEC = sized(layers=2, input_size=4, hidden_size=8, batch=5, steps=6, dropout=0.2)


def data(epoch, count=4):
    """Sequences whose sum over steps and channels decides their class; the same ones for the same epoch."""
    rng = np.random.default_rng([7, epoch])
    for _ in range(count):
        inputs = rng.standard_normal((SPEC.steps, SPEC.batch, SPEC.input_size), dtype=np.float32)
        yield inputs, (inputs.sum(axis=(0, 2)) > 0).astype(int)


def ones(epoch):
    yield np.ones((SPEC.steps, SPEC.batch, SPEC.input_size), np.float32), np.arange(SPEC.batch) % 2


def fresh(stage="wavefront", spec=SPEC, **options):
    network = rnnopt.compile(spec, rnnopt.init_weights(spec), stage=stage, device=host(), training=True, **options)
    return network, training.init_head(spec, 2)


def final(network, head):
    return b"".join(value.tobytes() for value in (network.weights | head).values())


class TestLoop:
    @pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh"])
    @pytest.mark.parametrize("bidirectional", [False, True])
    def test_it_learns(self, cell, bidirectional):
        spec = sized(layers=1, input_size=4, hidden_size=8, batch=5, steps=6, cell=cell, bidirectional=bidirectional)
        network, head = fresh(spec=spec)
        losses = training.train(network, head, data, optimizer=training.Adam(0.02, device=host()), epochs=40, max_norm=5.0)
        assert np.mean(losses[-20:]) < 0.6 * np.mean(losses[:20])
        assert training.evaluate(network, head, data(1000, 40)) > 0.8

    def test_all_stages_have_the_same_losses(self):
        found = []
        for stage in ("naive", "wavefront"):
            network, head = fresh(stage)
            found.append(training.train(network, head, data, optimizer=training.SGD(0.1, 0.9, device=host()), epochs=3))
        assert found[0] == pytest.approx(found[1], rel=1e-4)

    def test_checkpointed_networks_train_too(self):
        found = []
        for options in ({}, {"checkpoint_every": 4}):
            network, head = fresh(**options)
            found.append(training.train(network, head, data, optimizer=training.Adam(0.01, device=host()), epochs=3))
        assert found[0] == pytest.approx(found[1], rel=1e-4)

    def test_an_interrupted_run_ends_with_the_same_bits(self, tmp_path):
        class Interrupt(Exception):
            pass

        def interrupted(epoch):
            for number, batch in enumerate(data(epoch)):
                if (epoch, number) == stop:
                    raise Interrupt
                yield batch

        whole = fresh()
        expected = training.train(*whole, data, optimizer=training.Adam(0.01, device=host()), epochs=3)
        for stop in ((0, 0), (0, 3), (1, 0), (1, 2), (2, 3)):
            path = tmp_path / f"{stop}.safetensors"
            with pytest.raises(Interrupt):
                training.train(*fresh(), interrupted, optimizer=training.Adam(0.01, device=host()), epochs=3, checkpoint=path, every=1)
            again = fresh()
            losses = training.train(*again, data, optimizer=training.Adam(0.01, device=host()), epochs=3, checkpoint=path, every=1)
            assert losses == expected
            assert final(*again) == final(*whole)

    def test_a_killed_run_ends_with_the_same_bits(self, tmp_path):
        script = dedent("""
            import hashlib, sys, numpy as np, rnnopt
            from rnnopt import training
            spec = rnnopt.NetworkSpec("lstm", 2, 4, 8, 5, 6, dropout=0.2)
            def data(epoch):
                rng = np.random.default_rng([7, epoch])
                for _ in range(4):
                    inputs = rng.standard_normal((6, 5, 4), dtype=np.float32)
                    yield inputs, (inputs.sum(axis=(0, 2)) > 0).astype(int)
            network = rnnopt.compile(spec, rnnopt.init_weights(spec), device="host", training=True)
            head = training.init_head(spec, 2)
            training.train(network, head, data, optimizer=training.Adam(0.01, device="host"), epochs=150, checkpoint=sys.argv[1], every=1)
            print(hashlib.sha256(b"".join(value.tobytes() for value in (network.weights | head).values())).hexdigest())
        """)

        def start(path):
            return subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)

        expected = start(tmp_path / "whole").communicate(timeout=120)[0]
        kills = 0
        for attempt in range(6):
            process = start(tmp_path / "killed")
            time.sleep(0.9 + 0.17 * attempt)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += process.returncode == -signal.SIGKILL
        assert kills
        assert start(tmp_path / "killed").communicate(timeout=120)[0] == expected != ""

    def test_a_loss_that_is_not_finite_stops_the_run_and_says_where(self):
        def poisoned(epoch):
            for number, (inputs, labels) in enumerate(data(epoch)):
                if (epoch, number) == (1, 2):
                    inputs[0, 0, 0] = np.nan
                yield inputs, labels

        network, head = fresh()
        with pytest.raises(FloatingPointError, match=r"^epoch 1, mini-batch 2: the network's hidden states are not finite "
                                                     r"\(learning rate 0\.1: try a smaller one"):
            training.train(network, head, poisoned, optimizer=training.SGD(0.1, device=host()), epochs=2)
        assert all(np.isfinite(value).all() for value in network.weights.values())

    def test_an_exploding_gradient_stops_the_run_and_says_where(self):
        """Hidden states stay small where the gradient does not: it is multiplied by 1e10 at every step."""
        spec = sized(layers=1, input_size=4, hidden_size=8, batch=5, steps=6, cell="rnn_relu")
        network, head = fresh(spec=spec)
        for name, value in network.weights.items():
            value[...] = 1e10 if name == "weight_hh_l0" else 1e-38 if name.startswith("weight") else 0
        head["head.weight"][...] = [[1e-10], [-1e-10]]
        with pytest.raises(FloatingPointError, match="^epoch 0, mini-batch 0: (gradients|the network's hidden states) are not finite"):
            training.train(network, head, ones, optimizer=training.SGD(0.1, device=host()), epochs=1)
        network.weights["weight_hh_l0"][...] = 1e5
        network.load_weights()
        training.train(network, head, ones, optimizer=training.SGD(0.1, device=host()), epochs=1, max_norm=1.0)  # clipped, it goes on

    def test_an_epoch_without_a_mini_batch_is_refused(self):
        with pytest.raises(ValueError, match="epoch 0 has no mini-batch: are there fewer sequences than the 5 of one"):
            training.train(*fresh(), lambda epoch: [], optimizer=training.SGD(0.1, device=host()), epochs=1)
        with pytest.raises(ValueError, match="nothing to evaluate"):
            training.evaluate(*fresh(), [])

    @pytest.mark.parametrize("count", [3, 5, 12])
    def test_accuracy_is_of_all_sequences(self, count):
        rng, spec = np.random.default_rng(0), sized(layers=1, input_size=4, hidden_size=8, batch=5, steps=6)
        inputs = tuple(rng.standard_normal((spec.steps, spec.input_size), dtype=np.float32) for _ in range(count))
        network, head = fresh(spec=spec)
        logits = []
        for one in inputs:  # each in a mini-batch of itself
            _, state = network(np.repeat(one[:, None], spec.batch, axis=1))
            logits.append((loop.last_hidden(spec, state) @ head["head.weight"].T)[0])
        best = np.argmax(logits, axis=1)
        labels = np.where(np.arange(count) < count - 1, best, 1 - best)  # only the last one is wrong
        sequences = datasets.Sequences(inputs, labels, np.zeros(count, int), ("a", "b"), tuple("wxyz"), "made here")
        assert training.evaluate(network, head, datasets.batches(sequences, spec.batch, remainder="pad")) == (count - 1) / count

    def test_training_refuses_a_mini_batch_that_is_padded(self):
        def padded(epoch):
            return ((inputs, labels[:-1]) for inputs, labels in data(epoch))

        with pytest.raises(ValueError, match=r"labels \(batch,\), neither of them empty; got \(5, 2\) and \(4,\)"):
            training.train(*fresh(), padded, optimizer=training.SGD(0.1, device=host()), epochs=1)

    @pytest.mark.parametrize(("labels", "error", "said"), [
        (np.zeros(6, int), ValueError, r"got \(5, 2\) and \(6,\)"),
        (np.zeros((5, 1), int), ValueError, r"got \(5, 2\) and \(5, 1\)"),
        (np.zeros(0, int), ValueError, "neither of them empty"),
        (np.full(5, 2), ValueError, "less than the 2 classes, got values from 2 to 2"),
        (np.zeros(5), TypeError, "labels must be integers"),
    ])
    def test_labels_that_can_not_be_counted_are_refused(self, labels, error, said):
        inputs = np.zeros((SPEC.steps, SPEC.batch, SPEC.input_size), np.float32)
        with pytest.raises(error, match=said):
            training.evaluate(*fresh(), [(inputs, labels)])

    def test_a_network_that_is_not_finite_is_not_counted_as_right(self):
        network, head = fresh()
        head["head.bias"][0] = np.nan
        with pytest.raises(FloatingPointError, match=r"logits\[0, 0\] is nan"):
            training.evaluate(network, head, ones(0))


class TestCheckpoints:
    def state(self):
        network, head = fresh()
        return network.weights | head, training.Adam(0.01, device=host())

    def test_what_was_saved_comes_back(self, tmp_path):
        weights, optimizer = self.state()
        optimizer.update(weights, {name: np.ones_like(value) for name, value in weights.items()})
        training.save(tmp_path / "state", weights=weights, optimizer=optimizer, epoch=3, losses=[0.1, 1 / 3])
        others, other = self.state()
        assert training.load(tmp_path / "state", weights=others, optimizer=other) == {"epoch": 3, "losses": [0.1, 1 / 3]}
        assert all((others[name] == value).all() for name, value in weights.items())
        assert other.steps == 1
        assert all((other.state[name] == value).all() for name, value in optimizer.state.items())

    @pytest.mark.parametrize("damage", [lambda b: b[:50], lambda b: b"", lambda b: b"{}" * 40, lambda b: b[:-1]])
    def test_a_damaged_file_is_refused_and_nothing_changes(self, tmp_path, damage):
        weights, optimizer = self.state()
        training.save(tmp_path / "state", weights=weights, optimizer=optimizer)
        (tmp_path / "state").write_bytes(damage((tmp_path / "state").read_bytes()))
        before = {name: value.copy() for name, value in weights.items()}
        with pytest.raises(ValueError, match="is damaged or no safetensors file"):
            training.load(tmp_path / "state", weights=weights, optimizer=optimizer)
        assert all((weights[name] == value).all() for name, value in before.items())

    def test_foreign_files_are_refused(self, tmp_path):
        from safetensors.numpy import save_file

        weights, optimizer = self.state()
        save_file({"a": np.zeros(3)}, tmp_path / "model")
        with pytest.raises(ValueError, match="no checkpoint of a training run"):
            training.load(tmp_path / "model", weights=weights, optimizer=optimizer)
        training.save(tmp_path / "state", weights=weights, optimizer=optimizer)
        with pytest.raises(ValueError, match="is of a run with Adam, not SGD"):
            training.load(tmp_path / "state", weights=weights, optimizer=training.SGD(0.1, device=host()))
        with pytest.raises(ValueError, match="is of another network: it has .*bias_hh_l0"):
            training.load(tmp_path / "state", weights={"a": np.zeros(3, np.float32)}, optimizer=optimizer)
        with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
            training.load(tmp_path / "missing", weights=weights, optimizer=optimizer)
