"""Fig. 1 is valid, readable, the same every time, and shows a true calculation."""

import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gma_ref import plots
from gma_ref.plots import diagram
from gma_ref.plots.palette import CARD, DIMMED, FAINT, PALETTE
from gma_ref.plots.svg import mix

SVG = "{http://www.w3.org/2000/svg}"
STAGES = [None, "project", "route", "write", "read"]
DRAWINGS = {**{f"workflow, {stage}": plots.workflow(stage) for stage in STAGES}, "paths": plots.compare_paths()}
WITHOUT_MATPLOTLIB = (
    "import sys; sys.modules['matplotlib'] = None; import gma_ref.plots; print(gma_ref.plots.workflow())"
)


def tree(stage):
    return ElementTree.fromstring(str(plots.workflow(stage)))


@pytest.fixture(params=DRAWINGS)
def drawing(request):
    return DRAWINGS[request.param]


def luminance(colour):
    srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


def test_a_drawing_is_svg_with_a_name_and_a_description(drawing):
    root = ElementTree.fromstring(str(drawing))
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert title.text
    assert len(description.text) > 100
    assert drawing._repr_svg_() == str(drawing)


def test_drawings_can_stand_on_one_page():
    ids = [identifier for drawing in DRAWINGS.values() for identifier in re.findall(r' id="(.*?)"', str(drawing))]
    assert len(ids) == len(set(ids)) == 2 * len(DRAWINGS)
    assert len(set(map(str, DRAWINGS.values()))) == len(DRAWINGS)


def test_letters_can_be_read_on_a_phone_lit_or_dimmed(drawing):
    root = ElementTree.fromstring(str(drawing))
    assert float(root.get("viewBox").split()[2]) <= 460
    for text in root.iter(f"{SVG}text"):
        assert float(text.get("font-size")) >= 16
        for span in [text, *text]:
            assert float(span.get("font-size")) >= 12  # indices
            colour = span.get("fill")
            if colour is not None:
                for background in ("#ffffff", CARD, DIMMED):
                    assert (luminance(background) + 0.05) / (luminance(colour) + 0.05) >= 4.5


def test_a_drawing_uses_nothing_from_outside(drawing):
    assert not re.findall(r"(?:href|url\(|@import|<script|<style|class=)", str(drawing))


@pytest.mark.parametrize("stage", STAGES[1:])
def test_only_the_current_stage_is_in_colour(stage):
    lit = {
        "project": {"val", "key", "query"},
        "route": {"key", "query"},
        "write": {"val", "key", "mem"},
        "read": {"query", "mem"},
    }[stage]
    fills = {span.get("fill") for span in tree(stage).iter(f"{SVG}tspan")}
    assert {name for name, shades in PALETTE.items() if shades.light in fills} == lit
    assert FAINT in fills
    everything = {span.get("fill") for span in tree(None).iter(f"{SVG}tspan")}
    assert everything >= {shades.light for shades in PALETTE.values()}
    assert FAINT not in everything


def test_an_unknown_stage_is_refused():
    with pytest.raises(
        ValueError, match="stage must be one of 'project', 'route', 'write', 'read' or None, got 'match'"
    ):
        plots.workflow("match")


def test_its_cells_are_the_numbers_that_the_equations_give():
    """The tints of Ṽ, taken from the picture, against densities from SciPy and plain sums."""
    mixture, keys = diagram.MIXTURE, diagram.KEYS
    joint = np.stack(
        [
            np.exp(prior) * multivariate_normal(mean, np.diag(variance)).pdf(keys)
            for mean, variance, prior in zip(mixture.mu, mixture.variance, mixture.log_prior, strict=True)
        ],
        axis=1,
    )
    gamma = joint / joint.sum(axis=1, keepdims=True)
    share = (gamma.T @ diagram.VALUES) / gamma.sum(axis=0).max()
    expected = [mix(PALETTE["mem"].light, "#ffffff", 0.06 + 0.8 * entry) for entry in share.ravel()]
    drawn = [
        cell.get("fill")
        for cell in tree(None).iter(f"{SVG}rect")
        if cell.get("width") == cell.get("height") == str(diagram.SLOT)
    ]
    assert drawn[: len(expected)] == expected


def test_tokens_have_projections_that_give_these_queries_keys_and_values():
    for projected in (diagram.QUERIES, diagram.KEYS, diagram.VALUES):
        weights = np.linalg.lstsq(diagram.TOKENS, projected, rcond=None)[0]
        np.testing.assert_allclose(diagram.TOKENS @ weights, projected, atol=1e-10)


def test_it_needs_no_matplotlib_and_comes_out_the_same_elsewhere():
    elsewhere = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", WITHOUT_MATPLOTLIB], check=True, capture_output=True, encoding="utf-8"
    )
    assert elsewhere.stdout.strip() == str(plots.workflow()).strip()


def test_paths_are_as_many_as_the_words_say():
    lines = str(plots.compare_paths()).count("<path")
    assert lines == 7 * 7 + 2 * 7 * 2
    root = ElementTree.fromstring(str(plots.compare_paths()))
    words = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert {"N2 = 49 similarities", "2NK = 28 shares"} < set(words)
