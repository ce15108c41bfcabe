"""Numbers that a page gives as measured, since its notebook runs where the record is not at hand, are the record's."""

import ast
import json
import re
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[2]
STARTS = {
    "softmax": ("softmax", False),
    r"$\sqrt{d_r}$, priors": ("sqrt(d_r), priors", False),
    r"$\sqrt{d_r}$": ("sqrt(d_r)", False),
    r"$\sqrt{d_r}$, normalised": ("sqrt(d_r), priors", True),
    "$d_r$": ("d_r", False),
    "1": ("1", False),
}


PAGE = (ROOT / "book" / "speed" / "torch_layer.md").read_text(encoding="utf-8")
RECORD = json.loads((ROOT / "book" / "speed" / "measurements" / "initialisation.json").read_text(encoding="utf-8"))


def test_losses_of_the_starts_are_those_on_record():
    printed = ast.literal_eval(re.search(r"^measured = (\{.*?^\})$", PAGE, re.DOTALL | re.MULTILINE)[1])
    recorded = {}
    for run in RECORD["losses"]:
        recorded.setdefault((run["start"], run["qk_norm"]), []).append(run["loss"])
    assert {STARTS[label]: losses for label, losses in printed.items()} == recorded


def test_the_page_says_how_the_starts_were_compared():
    model, made = RECORD["model"], RECORD["made"]
    day, words = date.fromisoformat(made["date"]), " ".join(PAGE.split())
    for said in (
        f"{model['steps']:,} steps",
        f"windows of {model['context']} characters",
        f"$d_r = K = {model['num_components']}$",
        f"measured on {day.day} {day:%B %Y}",
        f"PyTorch {'.'.join(made['torch'].split('.')[:2])}",
    ):
        assert said in words
    assert model["d_model"] // model["num_heads"] == model["num_components"]
