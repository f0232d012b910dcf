"""What the README shows is what is committed."""

from rnnopt import measure, paths, readme


def test_results_are_those_of_the_committed_record():
    text = (paths.checkout_root() / "README.md").read_text(encoding="utf-8")
    assert text.count(readme.BEGIN) == text.count(readme.END) == 1
    assert readme.rewritten(text) == text, "run: python -m rnnopt.readme"


def test_a_change_of_the_record_would_show(monkeypatch):
    record = measure.recorded(readme.RECORD)[0]
    record["networks"]["wavefront"]["gflops"] *= 2
    monkeypatch.setattr(measure, "recorded", lambda name: [record])
    text = (paths.checkout_root() / "README.md").read_text(encoding="utf-8")
    assert readme.rewritten(text) != text
