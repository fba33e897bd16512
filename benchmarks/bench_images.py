"""Compares image input with plain tf.data and whole runs with plain Keras, and measures default models on digits.

    python -m benchmarks.bench_images [--sets jpeg png] [--images 2000] [--only rates whole ...]

There are four tables:
- rates: images per second and per CPU second, of the first pass and of later passes over generated photographs. The
  JPEG files are downscaled, the PNG files already have the right size. `input` decodes in the input function,
  `transform` in Transform, `ingest` in Ingest.
- whole: the YAML of `init` run unchanged on 60,000 grey pictures of 28 x 28 pixels, and a plain Keras network of two
  convolutions that trains on the same files until it is as accurate.
- untouched: scikit-learn's digits as PNG files, with the YAML of `init` run unchanged.
- augmentation: training on 200 of the digits, with and without augmentation.
"""

import argparse
import csv
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.table import Table

from benchmarks.common import FULLPASS, Ratio, print_ratios, run_json, time_command, write_results, write_yaml

FEW = 200
AUGMENT = {"shift": 0.05, "rotate": 10.0, "crop": 0.05}
_TABLES = ("rates", "whole", "untouched", "augmentation")
PLACES = ("input", "transform", "ingest")
_SIDE = (sys.executable, "-m", "benchmarks.images_side")
_KERAS = (sys.executable, "-m", "benchmarks.images_keras")
_SIDE_OF_GLYPH = 28
Figures = dict[str, float]


@dataclass(frozen=True)
class Photos:
    """A set of photographs of `given` (height, width), which training reads as `size` x `size`."""

    ending: str
    given: tuple[int, int]
    size: int


SETS = {"jpeg": Photos("jpg", (256, 320), 160), "png": Photos("png", (128, 128), 128)}


def write_photos(photos: Photos, count: int, folder: Path) -> None:
    """Writes photographs into one folder per class, for two classes."""
    random = np.random.default_rng(1)
    for number in range(count):
        place = folder / f"class_{number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        photo(random, photos.given).save(place / f"{number:05d}.{photos.ending}", quality=90)


def photo(random: np.random.Generator, shape: tuple[int, int]) -> Image.Image:
    """Returns an image like a photograph, of shape (height, width): soft shapes with camera noise on top."""
    shapes = Image.fromarray(random.integers(0, 256, (9, 11, 3), dtype=np.uint8))
    soft = np.asarray(shapes.resize(shape[::-1], Image.Resampling.BICUBIC), np.int16)
    noisy = soft + random.normal(0, 4, soft.shape)
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def decoded_at(place: str, photos: Photos, folder: Path, work: Path) -> tuple[Path, Path]:
    """Runs a pipeline that decodes images at `place`, up to Transform; returns its YAML and its root."""
    source: dict[str, Any] = {"format": "images", "path": str(folder)}
    feature: dict[str, Any] = {"type": "image", "size": [photos.size, photos.size]}
    if place == "ingest":
        source["decode"] = {"height": photos.size, "width": photos.size, "channels": 3}
        feature |= {"column": "pixels", "pixels": [photos.size, photos.size, 3]}
    else:
        feature["compute_at"] = place
    content = {
        "name": f"photos-{place}",
        "data": {"source": source, "split": {"method": "random", "ratios": {"train": 99, "eval": 1}}},
        "label": {"name": "label", "task": "binary", "positive": "class_1"},
        "features": {"image": feature},
        "model": "mlp",
        "evaluation": {"thresholds": {"auc": {"min": 0.5}}},
    }
    yaml, root = write_yaml(work / f"{place}.yaml", content), work / place
    time_command([*FULLPASS, "run", str(yaml), "--root", str(root), "--to", "Transform"], log=work / f"{place}.log")
    return yaml, root


def measure_rates(photos: Photos, count: int, repeat: int, work: Path) -> dict[str, Figures]:
    """Returns the figures of images_side per side, as medians of `repeat` alternating runs."""
    write_photos(photos, count, work / "photos")
    prepared = {place: decoded_at(place, photos, work / "photos", work) for place in PLACES}
    plain = [*_SIDE, "plain", f"--files={work}/photos/*/*", f"--size={photos.size}"]
    commands = {"plain": plain, "averaged": [*plain, "--antialias"]}
    commands |= {at: [*_SIDE, "ours", f"--yaml={yaml}", f"--root={root}"] for at, (yaml, root) in prepared.items()}
    runs = [
        {side: run_json(command, log=work / f"{side}.log") for side, command in commands.items()} for _ in range(repeat)
    ]
    return {side: {key: statistics.median(run[side][key] for run in runs) for key in runs[0][side]} for side in runs[0]}


def compare_rates(found: Mapping[str, Figures]) -> list[Ratio]:
    """Returns the comparison lines of a set: images per second, and per CPU second."""

    def line(what: str, stock: str, at: str, key: str) -> Ratio:
        unit = "images/s of processor" if key.endswith("_cpu") else "images/s"
        plain, of_ours = (found[side]["images"] / found[side][key] for side in (stock, at))
        return Ratio(f"{what}, decoded at {at}", plain, of_ours, unit, "higher")

    lines = [line("first pass", "plain", at, key) for at in PLACES for key in ("first", "first_cpu")]
    lines += [line("first pass, both averaging", "averaged", "input", key) for key in ("first", "first_cpu")]
    lines += [line("later passes", "plain", at, key) for at in PLACES for key in ("later", "later_cpu")]
    return [*lines, Ratio("peak memory", found["plain"]["peak_mib"], found["input"]["peak_mib"], "MiB")]


def write_glyphs(count: int, folder: Path) -> None:
    """Writes grey pictures of the figures 0 to 9 into train/CLASS and a sixth as many into test/CLASS."""
    random = np.random.default_rng(1)
    for number in range(count + count // 6):
        place = folder / ("train" if number < count else "test") / str(number % 10)
        place.mkdir(parents=True, exist_ok=True)
        glyph(random, str(number % 10)).save(place / f"{number:05d}.png")


def glyph(random: np.random.Generator, text: str) -> Image.Image:
    """Returns a figure, 28 x 28 pixels: of any size and thickness, bent, pale, and with noise on top."""
    side = 2 * _SIDE_OF_GLYPH
    large = Image.new("L", (side, side))
    font, stroke = ImageFont.load_default(int(random.integers(30, 44))), int(random.integers(0, 4))
    ImageDraw.Draw(large).text((side / 2, side / 2), text, 255, font, "mm", stroke_width=stroke)
    corners = np.array([0, 0, 0, side, side, side, side, 0]) + random.uniform(-14, 14, 8)
    shape = (_SIDE_OF_GLYPH, _SIDE_OF_GLYPH)
    bent = large.transform(shape, Image.Transform.QUAD, corners.tolist(), Image.Resampling.BILINEAR)
    noisy = np.asarray(bent) * random.uniform(0.4, 1.0) + random.normal(0, 40, shape)
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def measure_whole(count: int, work: Path) -> list[Ratio]:
    """Returns the comparison of `init` and `run` with plain Keras, which trains until it is as accurate."""
    write_glyphs(count, work / "glyphs")
    ours = untouched(work / "glyphs", work)
    log = work / "keras.log"
    plain = time_command([*_KERAS, str(work / "glyphs"), f"--accuracy={ours['accuracy']}"], log=log)
    keras = vars(plain) | json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
    return [
        Ratio("from files to a model", keras["seconds"], ours["seconds"]),
        Ratio("from files to a model", keras["cpu"], ours["cpu"], "s of processor"),
        Ratio("training", keras["images_per_second"], ours["images_per_second"], "images/s", "higher"),
        Ratio("accuracy", keras["accuracy"], ours["accuracy"], "", "higher"),
    ]


def write_digits(folder: Path) -> list[tuple[str, str]]:
    """Writes scikit-learn's digits as PNG files, one folder per class; returns path and class of each."""
    from sklearn.datasets import load_digits

    digits, written = load_digits(), []
    for number, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        path = folder / str(label) / f"{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 255 / 16).round().astype(np.uint8)).save(path)
        written.append((str(path.relative_to(folder)), str(label)))
    return written


def untouched(images: Path, work: Path) -> Figures:
    """Runs the YAML of `init` unchanged; returns the time of both, the accuracy on eval, and the rate of training."""
    yaml = work / "pipeline.yaml"
    init = time_command([*FULLPASS, "init", str(images), "-o", str(yaml)], log=work / "init.log")
    run = time_command([*FULLPASS, "run", str(yaml)], log=work / "run.log")
    patterns = ("runs/*/logs/*/run.json", "runs/*/Trainer/model_run/*/training.json")
    summary, training = (json.loads(next(work.glob(pattern)).read_text(encoding="utf-8")) for pattern in patterns)
    return {
        "accuracy": summary["metrics"]["multiclass_accuracy"],
        "seconds": init.seconds + run.seconds,
        "cpu": init.cpu + run.cpu,
        "images_per_second": training["examples_per_second"],
    }


def learned_of_few(seed: int, augment: Mapping[str, Any] | None, work: Path) -> tuple[float, float]:
    """Trains on 200 digits; returns accuracy and log loss of the best epoch on all other digits."""
    digits = write_digits(work / "digits")
    chosen = set(np.random.default_rng(seed).permutation(len(digits))[:FEW].tolist())
    with (work / "digits/list.csv").open("w", newline="", encoding="utf-8") as file:
        rows = ((*digit, "few" if i in chosen else "rest") for i, digit in enumerate(digits))
        csv.writer(file).writerows([("file", "label", "part"), *rows])
    split = {"method": "column", "column": "part", "values": {"train": "few", "eval": "rest"}}
    feature = {"type": "image", "size": [8, 8], "channels": 1, **({"augment": augment} if augment else {})}
    content = {
        "name": "few-digits",
        "data": {"source": {"format": "images", "path": "digits/list.csv", "labels": "manifest"}, "split": split},
        "label": {"name": "label", "task": "multiclass"},
        "features": {"image": feature},
        "model": {"kind": "mlp", "hidden": [64]},
        "training": {"epochs": 60, "early_stopping": None, "seed": seed},
        "evaluation": {"thresholds": {"multiclass_accuracy": {"min": 0.5}}},
    }
    yaml = write_yaml(work / "pipeline.yaml", content)
    time_command([*FULLPASS, "run", str(yaml), "--root", str(work / "root"), "--to", "Trainer"], log=work / "run.log")
    (trained,) = work.glob("root/Trainer/model_run/*/training.json")
    record = json.loads(trained.read_text(encoding="utf-8"))
    history, best = record["history"], record["best_epoch"] - 1
    return history["val_accuracy"][best], history["val_log_loss"][best]


def measure_augmentation(seeds: int, work: Path) -> dict[str, list[tuple[float, float]]]:
    """Returns accuracy and log loss per seed, without and with augmentation."""
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(1, seeds + 1):
        for name, augment in (("none", None), (json.dumps(AUGMENT), AUGMENT)):
            folder = work / f"{seed}-{'plain' if augment is None else 'augmented'}"
            folder.mkdir()
            found.setdefault(name, []).append(learned_of_few(seed, augment, folder))
    return found


def show_augmentation(found: Mapping[str, list[tuple[float, float]]], console: Console) -> None:
    """Prints one line without augmentation and one with it."""
    seeds = range(1, 1 + len(next(iter(found.values()))))
    title = f"{FEW} digits to train on: accuracy, log loss of the others"
    table = Table("augment", *(f"seed {seed}" for seed in seeds), "mean", title=title)
    for name, figures in found.items():
        mean = tuple(statistics.mean(column) for column in zip(*figures, strict=True))
        table.add_row(name, *(f"{accuracy:.3f}, {loss:.3f}" for accuracy, loss in (*figures, mean)))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=_TABLES, default=_TABLES, help="tables to measure")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS), help="image sets of the rates")
    parser.add_argument("--images", type=int, default=2000, help="images per set")
    parser.add_argument("--glyphs", type=int, default=60_000, help="train pictures of the whole run")
    parser.add_argument("--repeat", type=int, default=2, help="runs of each side; the median counts")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the augmentation")
    arguments = parser.parse_args()
    console = Console()
    lines: list[Ratio] = []
    details: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
        work = Path(temporary)
        for name in arguments.sets if "rates" in arguments.only else ():
            found = measure_rates(SETS[name], arguments.images, arguments.repeat, work / name)
            details[name] = found
            lines += (rates := compare_rates(found))
            title = f"{arguments.images:,} images, {name}, {SETS[name].size} x {SETS[name].size}, batches of 32"
            print_ratios(title, rates, headings=("plain tf.data", "Fullpass"), console=console)
        if "whole" in arguments.only:
            lines += (whole := measure_whole(arguments.glyphs, work / "whole"))
            title = f"{arguments.glyphs:,} pictures of 28 x 28 pixels, init and run untouched"
            print_ratios(title, whole, headings=("plain Keras", "Fullpass"), console=console)
        if "untouched" in arguments.only:
            write_digits(work / "untouched/digits")
            details["untouched"] = digits = untouched(work / "untouched/digits", work / "untouched")
            console.print(f"digits, init and run untouched: accuracy {digits['accuracy']:.4f} on the eval split")
        if "augmentation" in arguments.only:
            (work / "few").mkdir()
            details["augmentation"] = learned = measure_augmentation(arguments.seeds, work / "few")
            show_augmentation(learned, console)
    write_results("images", lines, details)


if __name__ == "__main__":
    main()
