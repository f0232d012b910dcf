"""HMDB51's splits are followed, and frames are those that are asked for, from videos and from folders of frames."""

import sys
from fractions import Fraction

import numpy as np
import pytest
from PIL import Image

from rnnopt import datasets
from rnnopt.datasets import Video, frames, hmdb51, made_videos

SPLITS = "testTrainMulti_7030_splits"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_videos(tmp_path_factory.mktemp("videos") / "hmdb", classes=3, per_class=4, frames=5, size=16)


@pytest.fixture
def av():
    return pytest.importorskip("av", reason="needs a decoder of videos: pip install 'av>=14'")


def listed(folder, **classes):
    """Write the files of split 1: for each class its videos, with their parts."""
    (folder / SPLITS).mkdir(exist_ok=True)
    for name, videos in classes.items():
        lines = "".join(f"{video}.avi {part} \n" for video, part in videos.items())
        (folder / SPLITS / f"{name}_test_split1.txt").write_text(lines, encoding="utf-8")


def shades(count, size=8):
    """Return pictures of one grey each, 10 apart."""
    return [np.full((size, size, 3), 10 * number, np.uint8) for number in range(count)]


def saved(folder, pictures, name="{:d}.png", first=1):
    folder.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(pictures, first):
        file = folder / name.format(number)
        np.save(file, picture) if file.suffix == ".npy" else Image.fromarray(picture).save(file)
    return folder


def encoded(av, path, pictures, rate=30):
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as file:
        stream = file.add_stream("mpeg4", rate=Fraction(rate))
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt, stream.bit_rate = "yuv420p", 4_000_000
        for picture in pictures:
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        file.mux(stream.encode())
    return path


def test_videos_are_in_the_part_that_the_split_says(tmp_path):
    listed(tmp_path, wave={"b (1)&#_0": 1, "a_1": 2, "c": 0}, run={"d": 2, "e": 1})
    for video in ("wave/b (1)&#_0", "wave/a_1", "run/e"):
        saved(tmp_path / video, shades(2))
    (tmp_path / "run" / "d.avi").touch()
    train, test = hmdb51(tmp_path, partial=True)
    assert train == (Video(tmp_path / "run" / "e", 0, "run"), Video(tmp_path / "wave" / "b (1)&#_0", 1, "wave"))
    assert test == (Video(tmp_path / "run" / "d.avi", 0, "run"), Video(tmp_path / "wave" / "a_1", 1, "wave"))


def test_splits_may_be_in_another_folder(made, tmp_path):
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for file in (made / SPLITS).iterdir():
        (moved / file.name).write_bytes(file.read_bytes())
    assert hmdb51(made, splits=moved, partial=True) == hmdb51(made, partial=True)


def test_a_whole_data_set_of_the_published_numbers_is_accepted_and_no_other(tmp_path):
    names = {f"class_{number:02d}": {f"video_{n}": 1 if n < 70 else 2 for n in range(100)} for number in range(51)}
    listed(tmp_path, **names)
    for name, videos in names.items():
        (tmp_path / name).mkdir()
        for video in videos:
            (tmp_path / name / f"{video}.avi").touch()
    train, test = hmdb51(tmp_path)
    assert (len(train), len(test)) == (51 * 70, 51 * 30)
    assert {video.label for video in train} == set(range(51))
    file = tmp_path / SPLITS / "class_07_test_split1.txt"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(ValueError, match=r"class_07_test_split1\.txt should name 70 videos to train .* and 30 to test .*, got 70 and 29"):
        hmdb51(tmp_path)
    file.unlink()
    with pytest.raises(ValueError, match=r"files of split 1 for 51 classes, got 50: .*; for a part of the data give partial=True"):
        hmdb51(tmp_path)


def test_frames_are_taken_where_there_is_a_video_too(tmp_path):
    listed(tmp_path, run={"a": 1})
    saved(tmp_path / "run" / "a", shades(1))
    (tmp_path / "run" / "a.avi").touch()
    assert hmdb51(tmp_path, partial=True)[0][0].path == tmp_path / "run" / "a"


def test_a_split_that_is_none_is_refused(made):
    with pytest.raises(ValueError, match="split must be 1, 2 or 3, got 4"):
        hmdb51(made, 4)


def test_what_is_missing_is_named_with_where_to_get_it(tmp_path):
    remedy = "get hmdb51_org.rar and test_train_splits.rar from https://serre-lab"
    with pytest.raises(datasets.DatasetUnavailable, match=rf"gone should hold a folder for each class, but is not there: {remedy}"):
        hmdb51(tmp_path / "gone")
    with pytest.raises(datasets.DatasetUnavailable, match=rf"{SPLITS} should hold the files of the official splits, .*: {remedy}"):
        hmdb51(tmp_path)
    listed(tmp_path, run={"a": 1})
    with pytest.raises(datasets.DatasetUnavailable, match=rf"should hold a file CLASS_test_split2\.txt for each class, .*: {remedy}"):
        hmdb51(tmp_path, 2)
    with pytest.raises(datasets.DatasetUnavailable, match=rf"neither a\.avi nor a folder a of its frames is in .*run, .*: {remedy}"):
        hmdb51(tmp_path, partial=True)
    (tmp_path / "run.rar").touch()
    with pytest.raises(datasets.DatasetUnavailable, match="the split names it; its archive is there, but not unpacked"):
        hmdb51(tmp_path, partial=True)


@pytest.mark.parametrize(("line", "said"), [
    ("b.avi", "'NAME.avi' and 0, 1 or 2 were expected, got 'b.avi'"), ("b.avi 3", "got 'b.avi 3'"), ("b 1", "got 'b 1'"),
    ("../b.avi 1", r"got '\.\./b\.avi 1'"), ("a.avi 2", r"each video was expected once, got a\.avi again")])
def test_a_damaged_line_of_a_split_is_named(tmp_path, line, said):
    listed(tmp_path, run={"a": 1})
    file = tmp_path / SPLITS / "run_test_split1.txt"
    file.write_text(f"a.avi 1 \n{line}\n")
    saved(tmp_path / "run" / "a", shades(1))
    with pytest.raises(ValueError, match=rf"run_test_split1\.txt, line 2: .*{said}"):
        hmdb51(tmp_path, partial=True)


@pytest.mark.parametrize(("count", "expected"), [(1, [5]), (2, [2, 7]), (5, [1, 3, 5, 7, 9]), (10, list(range(10))), (3, [1, 5, 8]),
                                                 (20, [n // 2 for n in range(20)])])
@pytest.mark.parametrize("name", ["{:d}.png", "frame{:03d}.npy", "img_{:d}.png"])
def test_frames_are_the_middle_ones_of_equal_parts_in_the_order_of_their_numbers(tmp_path, count, expected, name):
    found = frames(saved(tmp_path / "video", shades(10), name), count, 8)
    assert found.shape == (count, 3, 8, 8)
    assert found.dtype == np.float32
    assert (255 * found[:, 0, 0, 0]).round().tolist() == [10 * n for n in expected]


def test_frames_have_channels_first_values_to_one_and_the_size_that_is_asked_for(tmp_path):
    picture = np.zeros((10, 20, 3), np.uint8)
    picture[:5, :, 0], picture[:, 10:, 2] = 255, 255
    found = frames(Video(saved(tmp_path / "video", [picture]), 0, "run"), 1, 4)[0]
    assert found[:, 0, 0].tolist() == [1, 0, 0]
    assert found[:, 3, 3].tolist() == [0, 0, 1]
    assert found[:, 0, 3].tolist() == [1, 0, 1]


def test_grey_pictures_and_jpegs_are_read(tmp_path):
    folder = tmp_path / "video"
    folder.mkdir()
    Image.fromarray(np.full((8, 8), 51, np.uint8)).save(folder / "1.jpg")
    assert frames(folder, 1, 8) == pytest.approx(0.2, abs=0.01)


def test_frames_of_several_kinds_are_not_mixed(tmp_path):
    saved(tmp_path / "video", shades(2), "flow_x_{:05d}.png")
    saved(tmp_path / "video", shades(2), "img_{:05d}.png")
    with pytest.raises(ValueError, match=r"holds frames of several kinds \(flow_x_\*\.png, img_\*\.png\)"):
        frames(tmp_path / "video", 2, 8)


def damaged(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    return path.parent


def test_a_frame_that_is_damaged_or_no_picture_is_named(tmp_path):
    for name, content in (("1.png", b"no picture"), ("1.jpg", b""), ("1.npy", b"no array")):
        with pytest.raises(ValueError, match=rf"the frame .*{name} can't be read: .*; extract the frames of its video again"):
            frames(damaged(tmp_path / name / name, content), 1, 8)
    whole = (saved(tmp_path / "whole", shades(1)) / "1.png").read_bytes()
    with pytest.raises(ValueError, match=r"the frame .*1\.png can't be read"):
        frames(damaged(tmp_path / "cut" / "1.png", whole[:len(whole) // 2]), 1, 8)
    saved(tmp_path / "shape", [np.zeros((3, 8, 8), np.uint8)], "{:d}.npy")
    with pytest.raises(ValueError, match=r"uint8 of shape \(height, width, 3\) was expected, got uint8 of shape \(3, 8, 8\)"):
        frames(tmp_path / "shape", 1, 8)


def test_a_pickle_among_the_frames_is_refused(tmp_path):
    (tmp_path / "video").mkdir()
    np.save(tmp_path / "video" / "1.npy", np.array({}, dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"1\.npy can't be read: .*allow_pickle"):
        frames(tmp_path / "video", 1, 8)


def test_a_video_without_frames_or_that_is_gone_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no frame, but files .jpg, .jpeg, .png, .npy were expected"):
        frames(tmp_path, 1, 8)
    with pytest.raises(datasets.DatasetUnavailable, match="gone.avi is not there"):
        frames(tmp_path / "gone.avi", 1, 8)


@pytest.mark.parametrize("name", ["count", "size"])
def test_no_frame_and_no_pixel_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        frames(saved(tmp_path / "video", shades(1)), **{"count": 1, "size": 8, name: 0})


def test_a_video_is_decoded_to_the_frames_that_were_encoded(av, tmp_path):
    path = encoded(av, tmp_path / "run" / "a.avi", shades(20, 32))
    found = frames(path, 10, 16)
    assert found.shape == (10, 3, 16, 16)
    assert 255 * found.mean(axis=(1, 2, 3)) == pytest.approx([10 * (2 * n + 1) for n in range(10)], abs=4)


def test_a_video_and_the_folder_of_its_frames_are_nearly_the_same(av, tmp_path):
    made = made_videos(tmp_path / "made", classes=2, per_class=2, frames=12, size=32)
    folder = hmdb51(made, partial=True)[0][0].path
    pictures = [np.asarray(Image.open(file)) for file in sorted(folder.iterdir())]
    path = encoded(av, tmp_path / "a.avi", pictures)
    assert np.abs(frames(path, 6, 16) - frames(folder, 6, 16)).mean() < 0.05


def test_a_video_that_is_cut_off_or_none_is_refused(av, tmp_path):
    noise = list(np.random.default_rng(0).integers(256, size=(30, 32, 32, 3), dtype=np.uint8))
    path = encoded(av, tmp_path / "a.avi", noise)
    whole = path.read_bytes()
    for content in (b"", b"no video", whole[:100], whole[:len(whole) // 2], bytes(len(whole))):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"the video .*a\.avi can't be read: .*; get hmdb51_org\.rar"):
            frames(path, 4, 8)


def test_a_file_that_holds_only_sound_is_refused(av, tmp_path):
    with av.open(str(tmp_path / "a.avi"), "w") as file:
        stream = file.add_stream("pcm_s16le", rate=8000, layout="mono")
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        sound.sample_rate = 8000
        file.mux(stream.encode(sound))
        file.mux(stream.encode())
    with pytest.raises(ValueError, match=r"a\.avi can't be read: it holds no video"):
        frames(tmp_path / "a.avi", 1, 8)


def test_folders_of_frames_need_no_decoder_and_videos_say_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    frames(saved(tmp_path / "video", shades(2)), 2, 8)
    (tmp_path / "video.avi").touch()
    with pytest.raises(datasets.DatasetUnavailable, match=r"no decoder .*video\.avi: pip install 'av>=14', or extract its frames"):
        frames(tmp_path / "video.avi", 2, 8)


def test_made_videos_are_of_the_layout_and_the_same_for_a_seed(made, tmp_path):
    again = made_videos(tmp_path / "again", classes=3, per_class=4, frames=5, size=16)
    other = made_videos(tmp_path / "other", classes=3, per_class=4, frames=5, size=16, seed=1)
    for split in (1, 2, 3):
        train, test = hmdb51(made, split, partial=True)
        assert len(train) == 6
        assert len({video.path for video in train + test}) == 12
        assert {video.class_name for video in test} == {"moving_000", "moving_120", "moving_240"}
        for video, same, another in zip(train, hmdb51(again, split, partial=True)[0], hmdb51(other, split, partial=True)[0], strict=True):
            assert (frames(video, 5, 16) == frames(same, 5, 16)).all()
            assert (frames(video, 5, 16) != frames(another, 5, 16)).any()
    assert len({hmdb51(made, split, partial=True) for split in (1, 2, 3)}) > 1


def test_the_class_of_a_made_video_is_the_direction_of_what_moves(tmp_path):
    made = made_videos(tmp_path / "made", classes=4, per_class=5, frames=10, size=32)
    towards = {"moving_000": (1, 0), "moving_090": (0, -1), "moving_180": (-1, 0), "moving_270": (0, 1)}
    for part in hmdb51(made, partial=True):
        for video in part:
            bright = (frames(video, 10, 32).max(axis=1) > 0.4).astype(float)
            spectrum = np.fft.fft2(bright)
            turned = [np.angle(spectrum[1:, row, column] / spectrum[:-1, row, column]).sum() for row, column in ((0, 1), (1, 0))]
            assert np.array(turned) / (-2 * np.pi * 0.6) == pytest.approx(np.array(towards[video.class_name]), abs=0.1)


@pytest.mark.parametrize(("arguments", "said"), [
    ({"classes": 1}, "classes must be at least 2, got 1"), ({"classes": 37}, "classes must be at most 36"),
    ({"per_class": 1}, "per_class must be at least 2"), ({"frames": 1}, "frames must be at least 2"),
    ({"size": 7}, "size must be at least 8"), ({"seed": -1}, "seed must be at least 0")])
def test_made_videos_out_of_their_range_are_refused_before_anything_is_written(tmp_path, arguments, said):
    with pytest.raises(ValueError, match=said):
        made_videos(tmp_path / "made", **arguments)
    assert not (tmp_path / "made").exists()


def test_made_videos_overwrite_nothing(made):
    with pytest.raises(FileExistsError, match="must be empty or not there, since videos are written to it"):
        made_videos(made)
