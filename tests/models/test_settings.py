"""Settings go to JSON and to a command line, and come back the same."""

import json
import math
import shlex
import typing

import pytest
import tyro

from gma_ref.models.mixers import MIXERS
from gma_ref.models.settings import Settings
from gma_ref.models.tasks import TASKS

EXAMPLES = [
    Settings(),
    Settings(task="recall", task_options={"num_pairs": 16, "interleaved": True, "power": 0.5}, mixer="softmax"),
    Settings(task="wikitext", task_options={"folder": "a folder"}, minutes=2.5, qk_norm=True, betas=(0.8, 0.95)),
    Settings(mixer="gma", mixer_options={"initial_variance": 4.0, "shared_mixture": True}, final_tokens=None, lr=3e-4),
    Settings(task="genre", causal=False, convolution=3, length=2048, patience=3, test=True, precision="float32"),
]


@pytest.mark.parametrize("settings", EXAMPLES)
def test_settings_come_back_from_their_command(settings):
    words = shlex.split(settings.command())
    assert words[:3] == ["python", "-m", "gma_ref.models.training"]
    again = tyro.cli(Settings, args=words[3:])
    assert again == settings
    for one, other in ((again.task_options, settings.task_options), (again.mixer_options, settings.mixer_options)):
        assert [type(value) for value in one.values()] == [type(value) for value in other.values()]


@pytest.mark.parametrize("settings", EXAMPLES)
def test_settings_come_back_from_json(settings):
    assert Settings(**json.loads(json.dumps(settings.as_dict()))) == settings


def test_choices_are_the_tasks_and_mixers_that_there_are():
    hints = typing.get_type_hints(Settings)
    assert typing.get_args(hints["mixer"]) == tuple(MIXERS)
    assert typing.get_args(hints["task"]) == tuple(TASKS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "batch must be at least 1, got 0"),
        ({"minutes": 0.0}, r"minutes must be positive, got 0\.0"),
        ({"steps": -1}, "steps must be positive, got -1"),
        ({"lr": math.nan}, "lr must be positive and finite, got nan"),
        ({"lr": 0.0}, r"lr must be positive and finite, got 0\.0"),
        ({"warmup": 1.0}, r"warmup must be at least 0 and below 1, got 1\.0"),
        ({"clip": -1.0}, r"clip must be at least 0, got -1\.0"),
    ],
)
def test_values_out_of_range_are_refused(changes, message):
    with pytest.raises(ValueError, match=rf"^{message}$"):
        Settings(**changes)


def test_budget_is_a_thousand_steps_if_none_is_given():
    assert Settings().max_steps == 1000
    assert Settings(minutes=1.0).max_steps is None
    assert Settings(minutes=1.0, steps=7).max_steps == 7
