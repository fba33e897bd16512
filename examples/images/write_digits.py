"""Writes scikit-learn's 1,797 handwritten digits as PNG files beside this file, one folder per class."""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

FOLDER = Path(__file__).parent / "data" / "digits"


def main() -> None:
    """Writes data/digits/CLASS/NUMBER.png, grayscale images of 8 x 8 pixels."""
    digits = load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        folder = FOLDER / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 255 / 16).round().astype(np.uint8)).save(folder / f"{number:04d}.png")
    print(f"{len(digits.target):,} images in {FOLDER}")


if __name__ == "__main__":
    main()
