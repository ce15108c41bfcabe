"""The colours of the book can be read, and told apart."""

from itertools import combinations

import numpy as np
import pytest

from gma_ref.plots.palette import PALETTE

# Pages that formulas and figures stand on: white, code and admonition surfaces of the site's light theme ...
LIGHT = ["#ffffff", "#f6f8fa", "#f3f4f5"]
# ... its dark theme's page and surfaces ...
DARK = ["#121212", "#222832", "#29313d"]
# ... and a notebook's page, of which we do not know the theme (Colab's dark one is #383838).
NOTEBOOK = ["#ffffff", "#383838"]

BACKGROUNDS = {"light": (LIGHT, 4.5), "dark": (DARK, 4.5), "both": (NOTEBOOK, 3.0)}

# Machado, Oliveira and Fernandes (2009), severity 1, acting on linear RGB.
VISION = {
    "full": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}

# Ottosson (2020), "A perceptual color space for image processing": linear RGB -> LMS, cube root, -> Oklab.
RGB_TO_LMS = np.array(
    [[0.4122214708, 0.5363325363, 0.0514459929],
     [0.2119034982, 0.6806995451, 0.1073969566],
     [0.0883024619, 0.2817188376, 0.6299787005]]
)  # fmt: skip
LMS_TO_OKLAB = np.array(
    [[0.2104542553, 0.7936177850, -0.0040720468],
     [1.9779984951, -2.4285922050, 0.4505937099],
     [0.0259040371, 0.7827717662, -0.8086757660]]
)  # fmt: skip


def linear_rgb(colour):
    srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """WCAG 2.2: the ratio of the relative luminances, each with 0.05 of flare."""
    dim, bright = sorted(linear_rgb(colour) @ [0.2126, 0.7152, 0.0722] for colour in (one, other))
    return (bright + 0.05) / (dim + 0.05)


def oklab(colour, vision):
    seen = np.clip(np.asarray(VISION[vision]) @ linear_rgb(colour), 0, 1)
    return LMS_TO_OKLAB @ np.cbrt(RGB_TO_LMS @ seen)


def test_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=1e-3)  # WCAG's best-known near miss


def test_the_four_symbols_have_a_hue_each():
    assert list(PALETTE) == ["query", "key", "val", "mem"]


@pytest.mark.parametrize("shade", BACKGROUNDS)
@pytest.mark.parametrize("symbol", PALETTE)
def test_every_shade_stands_out_where_it_is_used(symbol, shade):
    backgrounds, least = BACKGROUNDS[shade]
    for background in backgrounds:
        assert contrast(getattr(PALETTE[symbol], shade), background) >= least


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("shade", BACKGROUNDS)
def test_hues_stay_apart_for_every_eye(shade, vision):
    # In Oklab a distance of 0.02 is about the least that a reader notices.
    for one, other in combinations(PALETTE.values(), 2):
        distance = np.linalg.norm(oklab(getattr(one, shade), vision) - oklab(getattr(other, shade), vision))
        assert distance > 0.05
