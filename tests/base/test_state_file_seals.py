"""A file that differs from what was written is found by its size or its checksum."""

import pytest

from fullpass.base.state_file import Seal, damage_of, seal_of


def test_a_file_is_sealed_by_its_size_and_crc32c(tmp_path):
    (tmp_path / "a").write_bytes(b"123456789")
    assert seal_of(str(tmp_path / "a")) == Seal(9, 0xE3069283)  # the check value of CRC-32C


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"12345", "it has 5 of 9 bytes"), (b"12345678x", "its content is not what was written"), (None, "is gone")],
)
def test_damage_is_named_with_the_file(tmp_path, content, why):
    file = tmp_path / "a"
    file.write_bytes(b"123456789")
    written = seal_of(str(file))
    assert damage_of(str(file), written) is None
    file.unlink() if content is None else file.write_bytes(content)
    damage = damage_of(str(file), written)
    assert damage.startswith(str(file)) and damage.endswith(why)


def test_without_reading_only_the_size_is_compared(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"12345678x")
    assert damage_of(str(file), Seal(9, 0xE3069283), read=False) is None
    assert damage_of(str(file), Seal(8, 0), read=False) is not None
