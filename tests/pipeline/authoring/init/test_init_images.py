"""`init` and `check --data` on images: folders of classes, a CSV file of paths, and what is broken among them."""

import csv
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from PIL import Image
from ruamel.yaml import YAML

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.data_check.data_check import check_data
from fullpass.pipeline.authoring.init.init import init
from fullpass.pipeline.authoring.loading.load import load


def draw(folder, count, size=(12, 10), mode="L", ending="png"):
    draws = np.random.default_rng(len(str(folder)))
    folder.mkdir(parents=True)
    for number in range(count):
        pixels = draws.integers(0, 255, (size[0], size[1], 3), dtype=np.uint8)
        Image.fromarray(pixels).convert(mode).save(folder / f"{number}.{ending}")


def written(data, folder, **options):
    init(str(data), output=str(folder / "p.yaml"), **options)
    return YAML(typ="safe", pure=True).load(folder / "p.yaml")


def problems(folder):
    messages = [problem.message for problem in check_data(load(folder / "p.yaml")).problems]
    return [message for message in messages if "eval gets" not in message]


def test_a_folder_for_each_class(tmp_path):
    for name in ("cat", "dog"):
        draw(tmp_path / "photos" / name, 30)
    found = written(tmp_path / "photos", tmp_path)
    assert found["data"]["source"] == {"format": "images", "path": "photos"}
    assert found["data"]["split"]["method"] == "hash"
    assert found["label"]["name"] == "label"
    assert found["features"] == {"image": {"type": "image", "size": [12, 10], "channels": 1}}
    assert problems(tmp_path) == []


def test_folders_of_splits_and_large_pictures_in_colour(tmp_path):
    for split in ("train", "test"):
        for name in ("cat", "dog"):
            draw(tmp_path / "photos" / split / name, 5, (200, 400), "RGB", "jpg")
    found = written(tmp_path / "photos", tmp_path)
    assert found["data"]["source"]["path"] == {"train": "photos/train", "eval": "photos/test"}
    assert found["features"]["image"] == {"type": "image", "size": [64, 128]}
    assert found["training"] == {"time": "15m"}


def test_images_of_ten_million_pixels_get_a_network_with_a_stride(tmp_path):
    """A picture of 60 x 60 has 3,600 pixels; 2,778 of them have ten million."""
    cells = []
    for number in range(10):
        file = io.BytesIO()
        pixels = np.random.default_rng(number).integers(0, 255, (60, 60), dtype=np.uint8)
        Image.fromarray(pixels).save(file, "PNG")
        cells.append(file.getvalue())
    for rows in (2_770, 2_780):
        table = pa.table({"image": pa.array(cells * (rows // 10), pa.binary()), "label": ["a", "b"] * (rows // 2)})
        pa.parquet.write_table(table, tmp_path / f"{rows}.parquet")
        init(str(tmp_path / f"{rows}.parquet"), label="label", output=str(tmp_path / f"{rows}.yaml"))
        found = YAML(typ="safe", pure=True).load(tmp_path / f"{rows}.yaml")["features"]["image"]
        assert found.get("encoder") == ({"cnn": {"stride": 2}} if rows == 2_780 else None)


def test_a_csv_file_of_paths_beside_numbers(tmp_path):
    draw(tmp_path / "files", 60)
    with (tmp_path / "list.csv").open("w", newline="") as file:
        rows = [[f"files/{i}.png", round(1.5 * i % 7, 2), "yes" if i % 3 else "no"] for i in range(60)]
        csv.writer(file).writerows([["photo", "price", "sold"], *rows])
    found = written(tmp_path / "list.csv", tmp_path, label="sold")
    source = {"format": "images", "path": "list.csv", "labels": "manifest", "path_column": "photo"}
    assert found["data"]["source"] == source
    assert found["features"]["image"]["type"] == "image" and "price" in found["features"]
    assert problems(tmp_path) == []


@pytest.mark.integration
def test_a_parquet_file_that_names_images_of_another_folder(tmp_path):
    draw(tmp_path / "photos" / "all", 60)
    names, sold = [f"{i}.png" for i in range(60)], ["yes" if i % 3 else "no" for i in range(60)]
    (tmp_path / "tables").mkdir()
    for table in ("photos/list.parquet", "tables/list.parquet"):
        paths = names if table.startswith("photos") else [f"../photos/all/{name}" for name in names]
        pa.parquet.write_table(pa.table({"photo": paths, "sold": sold}), tmp_path / table)
        found = written(tmp_path / table, tmp_path, label="sold")
        assert found["data"]["source"]["folders"] == ["photos/all"]
        assert found["features"]["image"]["size"] == [12, 10] and problems(tmp_path) == []
        (tmp_path / "p.yaml").unlink()


@pytest.mark.integration
def test_columns_of_encoded_images(tmp_path):
    draw(tmp_path / "files", 60)
    contents = [path.read_bytes() for path in sorted((tmp_path / "files").iterdir())]
    labels = ["yes" if i % 3 else "no" for i in range(60)]
    sounds = [b"RIFF\xff\xfe" + bytes([i]) for i in range(60)]
    photo = [{"bytes": content, "path": None} for content in contents]
    tables = {
        "photo": pa.table({"photo": contents, "sound": sounds, "sold": labels}),
        "photo.bytes": pa.table({"photo": photo, "sold": labels}),
        "of one": pa.table({"of one": pa.array([[c] for c in contents], pa.list_(pa.binary(), 1)), "sold": labels}),
    }
    for name, table in tables.items():
        (tmp_path / "p.yaml").unlink(missing_ok=True)
        pa.parquet.write_table(table, tmp_path / "data.parquet")
        found = written(tmp_path / "data.parquet", tmp_path)
        assert found["features"] == {name: {"type": "image", "size": [12, 10], "channels": 1}}
        assert problems(tmp_path) == []
        text = (tmp_path / "p.yaml").read_text()
        assert ("sound: bytes that are neither text" in text) == ("sound" in table.column_names)


def test_pictures_without_classes_are_refused_with_what_to_do(tmp_path):
    draw(tmp_path / "photos", 4)
    with pytest.raises(UserError, match="no folder for each class"):
        written(tmp_path / "photos", tmp_path)


def test_broken_pictures_are_found_before_a_run(tmp_path):
    for name in ("cat", "dog"):
        draw(tmp_path / "photos" / name, 30)
    (tmp_path / "photos" / "cat" / "empty.png").write_bytes(b"")
    (tmp_path / "photos" / "cat" / "text.png").write_bytes(b"hello")
    written(tmp_path / "photos", tmp_path, bad_rows=0.05)
    (message,) = [message for message in problems(tmp_path) if "cannot be read" in message]
    assert "2 of 62 rows" in message


@pytest.mark.parametrize("kind", [pa.binary(), pa.list_(pa.binary(), 1)], ids=str)
def test_a_column_of_bytes_is_looked_at(tmp_path, kind):
    draw(tmp_path / "photos", 60)
    cells = [(tmp_path / "photos" / f"{i}.png").read_bytes() for i in range(60)]
    cells[7] = b"\xff\xfe no image"
    cells = cells if kind == pa.binary() else [[cell] for cell in cells]
    table = pa.table({"image": pa.array(cells, kind), "label": ["a", "b"] * 30})
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    (tmp_path / "p.yaml").write_text(
        "name: p\ndata: {source: {format: parquet, path: rows.parquet}}\nlabel: {name: label, task: multiclass}\n"
        "features: {image: {type: image, size: [8, 8]}}\nmodel: mlp\n"
    )
    (message,) = problems(tmp_path)
    assert "1.67% of cells are no image" in message and "no JPEG, PNG, GIF or BMP image" in message
