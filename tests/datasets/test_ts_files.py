"""Files of the .ts format are read as they are meant, or refused with the line and what is wrong there."""

import numpy as np
import pytest

from rnnopt.datasets import parse_ts

HEAD = """#A comment, with ü and : in it
@problemName Small
@timeStamps false
@missing false
@univariate false
@dimensions 2
@equalLength true
@seriesLength 3
@classLabel true walking rest
@data
"""
LINES = "1,2,3:4,5,6:rest\n-1.5,2e-3,3:4,5,6:walking\n"


def parsed(text):
    return parse_ts(text.encode())


def test_a_sequence_has_its_dimensions_as_channels_and_the_class_of_the_head():
    found = parsed(HEAD + LINES)
    assert found.problem == "Small"
    assert [x.tolist() for x in found.inputs] == [[[1, 4], [2, 5], [3, 6]], [[-1.5, 4], [np.float32(2e-3), 5], [3, 6]]]
    assert {x.dtype for x in found.inputs} == {np.dtype(np.float32)}
    assert (found.labels.tolist(), found.classes) == ([1, 0], ("walking", "rest"))


@pytest.mark.parametrize("change", [lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text,
                                    lambda text: text.replace("@data", "%\n\n@DATA\n# more").replace("@classLabel", "@CLASSLABEL"),
                                    lambda text: text.rstrip("\n")],
                         ids=["line ends", "byte order mark", "small and capital letters", "no last line end"])
def test_spellings_that_programs_differ_in_mean_the_same(change):
    found, plain = parsed(change(HEAD + LINES)), parsed(HEAD + LINES)
    assert all((a == b).all() for a, b in zip(found.inputs, plain.inputs, strict=True))
    assert found.labels.tolist() == plain.labels.tolist()


def test_sequences_may_have_other_lengths_where_the_head_does_not_deny_it():
    found = parsed(HEAD.replace("@equalLength true\n@seriesLength 3\n", "@equalLength false\n") + LINES + "1:2:rest\n")
    assert [x.shape for x in found.inputs] == [(3, 2), (3, 2), (1, 2)]


def test_a_file_of_one_dimension_is_read():
    found = parsed("@univariate true\n@classLabel true 1 2\n@data\n1,2:2\n3:1\n")
    assert [x.tolist() for x in found.inputs] == [[[1], [2]], [[3]]]
    assert found.labels.tolist() == [1, 0]


@pytest.mark.parametrize(("lines", "said"), [
    ("1,2,3:4,?,6:rest", r"line 11: value 2 of dimension 2 is missing \('\?'\), but every value is needed: fill missing ones in first"),
    ("1,NaN,3:4,5,6:rest", r"line 11: value 2 of dimension 1 is missing \('NaN'\)"),
    (LINES + "1,2,3:4,5", "line 13: it has 1 dimensions and then its class, but 2 were expected: the line is cut off"),
    ("1,2,3", "line 11: it has no ':', after which its class was expected"),
    ("1,2,3:4,5:rest", "line 11: its dimensions must have equally many values, got 3, 2"),
    ("1,2:4,5:rest", r"line 11: it has 2 steps, but 3 were expected \(@seriesLength\)"),
    ("1,2,3:4,5,6:run", "line 11: its class must be one of walking, rest, which the head names, got 'run'"),
    ("1,2,3:4,x5,6:rest", "line 11: value 2 of dimension 2 must be a finite number that float32 can hold, got 'x5'"),
    ("1,2,3:4,1e39,6:rest", "line 11: value 2 of dimension 2 must be a finite number that float32 can hold, got '1e39'"),
    ("1,2,:4,5,6:rest", "line 11: value 3 of dimension 1 must be a finite number that float32 can hold, got ''"),
    ("", "no sequence follows its @data; one on each line was expected"),
])
def test_a_damaged_line_is_named_with_what_was_expected(lines, said):
    with pytest.raises(ValueError, match=said):
        parsed(HEAD + lines)


@pytest.mark.parametrize(("line", "other", "said"), [
    ("@timeStamps false", "@timeStamps true", "its values have time stamps, but evenly spaced values alone were expected"),
    ("@classLabel true walking rest", "@targetlabel true", "@classLabel must be 'true' and the names of all classes, got 'no such line'"),
    ("@classLabel true walking rest", "@classLabel true", "@classLabel must be 'true' and the names of all classes, got 'true'"),
    ("@classLabel true walking rest", "@classLabel true a a", "@classLabel must name each class once"),
    ("@dimensions 2", "@dimensions two", "@dimensions of the head must be a number from 1, got 'two'"),
    ("@dimensions 2", "1,2:3,4:rest", "line 6: '1,2:3,4:rest' stands before @data"),
    ("@data", "", "line 11: '1,2,3:4,5,6:rest' stands before @data"),
])
def test_a_head_that_cannot_be_followed_is_refused(line, other, said):
    with pytest.raises(ValueError, match=said):
        parsed(HEAD.replace(line, other) + LINES)


@pytest.mark.parametrize("file", [b"", b"# only a comment", b"\xff\xfe@data"])
def test_what_is_no_ts_file_is_refused(file):
    with pytest.raises(ValueError, match="it has no line '@data'|can't decode"):
        parse_ts(file)


def test_a_file_cut_off_or_damaged_anywhere_is_refused_or_is_another_valid_one():
    whole = (HEAD + LINES).encode()
    for place, value in enumerate(np.random.default_rng(0).bytes(len(whole))):
        for damaged in (whole[:place], whole[:place] + bytes([value]) + whole[place + 1:]):
            try:
                found = parse_ts(damaged)
            except ValueError:
                continue
            assert all(np.isfinite(x).all() for x in found.inputs)
