"""Models are measured in turns and checked first; what they keep is counted exactly; the record says what was done."""

import copy
import importlib.util
import math
from pathlib import Path

import pytest
import torch

from gma_ref.models.grids import EXPERIMENTS
from gma_ref.pytorch import GaussianMixture, gaussian_mixture_attention, native
from gma_ref.timing import load, measurements, memory, model_bench, models, plan, record, write
from gma_ref.timing.compiled import own_program, set_aside, without_program
from gma_ref.timing.model_bench import ModelBench
from gma_ref.timing.plan import KINDS, PARTS, Plan
from tests.models.small import small_task

needs_compiler = pytest.mark.skipif(native.library.compiler() is None, reason="no C compiler here")
HAS_MAMBA = importlib.util.find_spec("mambapy") is not None
LAYERS, WIDTH, HEADS, TAPS, SLOTS = 2, 16, 2, 4, 5
SIZES = {"num_layers": LAYERS, "d_model": WIDTH, "num_heads": HEADS, "convolution": TAPS, "num_components": SLOTS}
SMALL = {"steps": ((2, 16), (1, 32)), "prompts": (8, 20), "model": {"parameters": 6_000} | SIZES, "repeats": 3}


@pytest.fixture(autouse=True)
def small_text(monkeypatch):
    """Train and write in a language of a few symbols, and do not wait to see whether the machine is busy."""
    monkeypatch.setattr(model_bench, "make_task", lambda name: small_task())
    monkeypatch.setattr(load, "watch_for", lambda seconds: load.Watch())


def make(**changes):
    return ModelBench(Plan(threads=1, **SMALL | changes))


def leave(bench, *names):
    """Let a bench measure some of the models only."""
    bench.kinds = [kind for kind in bench.kinds if kind.name in names]
    return bench


def measured(bench):
    return models.measure(bench) | {"load": {"before": 0.0, "during": 0.0, "busy": False}}


@needs_compiler
def test_every_model_is_checked_and_timed_at_every_size_in_one_run_of_each(tmp_path):
    with own_program():
        bench = make(quick=True)
        write(tmp_path / "models.json", measured(bench))
    found = models.read(tmp_path / "models.json")
    names = [kind.name for kind in KINDS if HAS_MAMBA or kind.name != "mamba"]
    sizes = {"step": [(2, 16), (1, 32)], "prefill": [(1, 8), (1, 20)], "decoding": [(1, 8), (1, 20)]}
    assert bench.wrong == found["skipped"] == []
    for part, expected in sizes.items():
        entries = [entry for entry in found["times"] if entry["part"] == part]
        by_run = {}
        for entry in entries:
            by_run.setdefault(entry["run"], []).append((entry["model"], entry["batch"], entry["tokens"]))
        assert [[(name, *size) for name in names] for size in expected] == list(by_run.values())
        assert len({len(entry["samples"]) for entry in entries}) == 1
        checked = {(e["model"], e["batch"], e["tokens"]) for e in found["checks"] if e["part"] == part}
        assert checked == {(e["model"], e["batch"], e["tokens"]) for e in entries}
    programs = {model["name"]: model["program"] for model in found["models"]}
    assert programs == dict.fromkeys(programs) | {"gma": "in C", "gma_pytorch": "in PyTorch"}
    assert set(found["parts"]) == set(PARTS)
    assert found["settings"]["model"] == SMALL["model"]
    for model in found["models"]:
        if not model["missing"]:
            # MLPs whose width is a multiple of 8 come as close as half of such a step
            assert abs(model["parameters"] - 6_000) <= 4 * LAYERS * (2 * WIDTH + 1)
            assert model["parameters"] == sum(p.numel() for p in bench.made[model["name"]].parameters())
            assert model["qk_norm"] == (model["mixer"] != "mamba")


def kept(name, tokens, taps):
    """Return the bytes of a layer's state, in float32, written out."""
    recent = (taps - 1) * 3 * WIDTH if taps else 0
    memory = {
        "softmax": 2 * tokens * WIDTH,
        "gma": HEADS * SLOTS * (WIDTH // HEADS + 1),
        "linear": HEADS * (WIDTH // HEADS) * (WIDTH // HEADS + 1),
        "mamba": 16 * WIDTH + (max(taps, 1) - 1) * WIDTH,
    }
    return 4 * (memory[name] + (recent if name != "mamba" else 0))


@pytest.mark.parametrize("taps", [0, 3, 4])
def test_state_is_counted_exactly(taps):
    chosen = ["softmax", "gma", "linear", *["mamba"] * (HAS_MAMBA and taps > 0)]
    bench = leave(make(model=SMALL["model"] | {"convolution": taps, "parameters": 8_000}), *chosen)
    for tokens in (3, 7, 40):
        bench.time_decoding(tokens)
    assert {(entry["model"], entry["tokens"]): entry["bytes"] for entry in bench.state} == {
        (name, tokens): LAYERS * kept(name, tokens, taps) for name in chosen for tokens in (3, 7, 40)
    }


def test_passes_forward_are_checked_timed_and_measured_at_every_size(tmp_path, monkeypatch):
    asked = []

    def peak_memory(prepare, plan, kind, batch, tokens, threads):
        asked.append((prepare.__name__, kind.name, batch, tokens))
        return memory.PeakMemory(peak=100 * tokens + batch, held=0)

    monkeypatch.setattr(model_bench, "peak_memory", peak_memory)
    sizes, names = ((1, 8), (2, 16)), ("softmax", "linear")
    bench = make(steps=sizes, passes=sizes, prompts=(), kinds=names)
    assert [model["name"] for model in bench.models] == list(names)
    right = bench.made["linear"].norm.forward
    write(tmp_path / "some.json", measured(bench))
    found = models.read(tmp_path / "some.json")
    everything = [(name, *size) for size in sizes for name in names]
    for part in ("step", "forward"):
        assert [(e["model"], e["batch"], e["tokens"]) for e in found["times"] if e["part"] == part] == everything
    for entries, prepare in ((found["memory"], "alone"), (found["forward_memory"], "alone_forward")):
        assert [(e["model"], e["batch"], e["tokens"]) for e in entries] == everything
        assert [asking[1:] for asking in asked if asking[0] == prepare] == everything
        assert all(entry["peak"] == 100 * entry["tokens"] + entry["batch"] for entry in entries)
    # one that is wrong is not timed
    bench.times.clear()
    bench.made["linear"].norm.register_forward_hook(lambda module, given, x: right(*given) + 0.01)
    monkeypatch.setattr(model_bench.copy, "deepcopy", lambda model: spared(model))
    bench.time_passes(1, 8)
    assert [entry["model"] for entry in bench.times] == ["softmax"]


def spared(model, copy=copy.deepcopy):
    """Copy a model without its hooks."""
    made = copy(model)
    made.norm._forward_hooks.clear()
    return made


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="elsewhere it is an upper bound")
def test_memory_of_a_pass_holds_the_logits_but_no_gradients():
    bench = leave(make(task="recall", model=SMALL["model"] | {"parameters": 25_000}), "linear")
    bench.measure_forward_memory(4, 512)
    bench.measure_memory(4, 512)
    assert bench.skipped == []
    assert 4 * 512 * 1024 * 4 < bench.forward_memory[0]["peak"] < bench.memory[0]["peak"]


def test_model_that_writes_something_else_than_it_reads_is_not_timed():
    bench = leave(make(), "linear", "softmax")
    right = bench.made["linear"].step
    bench.made["linear"].step = lambda token, state: (right(token, state)[0] + 0.01, state)
    bench.time_decoding(8)
    assert [(e["part"], e["model"]) for e in bench.times] == [
        ("prefill", "softmax"),
        ("prefill", "linear"),
        ("decoding", "softmax"),
    ]
    (sentence,) = bench.wrong
    assert sentence.startswith("linear, elu + 1, decoding, 1 × 8: logits differ from those in float64 by ")
    assert [(e["model"], e["part"], e["reason"]) for e in bench.skipped] == [("linear", "decoding", sentence)]


def test_prompt_that_is_read_wrongly_is_neither_timed_nor_gone_on_from():
    bench = leave(make(), "softmax")
    model = bench.made["softmax"]
    right = model.prefill

    def first_wrong(tokens, state=None):
        logits, state = right(tokens, state)
        logits[:, 0] += 0.01
        return logits, state

    model.prefill = first_wrong
    bench.time_decoding(8)
    assert bench.times == bench.state == []
    assert [e["part"] for e in bench.skipped] == ["prefill", "decoding"]
    assert len(bench.wrong) == 1


@pytest.mark.parametrize("spoil", [lambda gradient: 1.01 * gradient, lambda gradient: gradient * math.nan])
def test_model_whose_gradient_is_wrong_is_not_timed(spoil):
    bench = leave(make(), "linear", "softmax")
    weight = bench.made["linear"].blocks[1].mixer.w_o.weight
    weight.register_hook(spoil)  # which a copy of the model, made to check it, does not have
    assert not copy.deepcopy(weight)._backward_hooks
    bench.time_steps(2, 16)
    assert [entry["model"] for entry in bench.times] == ["softmax"]
    assert [entry["model"] for entry in bench.skipped] == ["linear"]
    assert len(bench.wrong) == 1


def test_steps_are_those_of_training_and_hardly_move_the_weights():
    bench = leave(make(), "gma")
    before = {name: p.detach().clone() for name, p in bench.made["gma"].named_parameters()}
    bench.time_steps(2, 16)
    settings = bench.settings.settings(KINDS[1], 2, 16)
    for name, parameter in bench.made["gma"].named_parameters():
        moved = (parameter - before[name]).abs().max().item()
        # AdamW moves a weight by the rate in each step, about: here by a hundredth of the highest
        assert 0 < moved < 50 * settings.lr / 100, name


def test_missing_library_leaves_its_model_out_and_is_told(monkeypatch, capsys):
    def missing():
        raise ModuleNotFoundError("planted: no mambapy", name="mambapy")

    monkeypatch.setattr("gma_ref.models.mixers.mamba.library", missing)
    bench = make(steps=((1, 8),), prompts=(4,), quick=True)
    (entry,) = [model for model in bench.models if model["name"] == "mamba"]
    assert (entry["missing"], entry["parameters"], entry["d_mlp"]) == ("planted: no mambapy", None, None)
    made = measured(bench)
    assert "missing, and left out: Mamba (planted: no mambapy)" in capsys.readouterr().out
    assert {"softmax", "gma"} <= {entry["model"] for entry in made["times"]}
    assert "mamba" not in {entry["model"] for entry in made["times"]}
    assert made["skipped"] == []


def test_without_a_compiler_gma_is_measured_once():
    with without_program():
        entries = {model["name"]: model for model in make().models}
    assert (entries["gma"]["program"], entries["gma"]["missing"]) == ("in PyTorch", None)
    assert entries["gma_pytorch"]["missing"] == "GMA is this form here"


@needs_compiler
def test_program_is_set_aside_and_found_again(monkeypatch):
    v, one = torch.randn(4, 600, 32), torch.randn(4, 1, 32)
    mixture = GaussianMixture(torch.randn(64, 32), torch.ones(64, 32), torch.full((64,), -math.log(64)))

    def both():
        """Take a long sequence, and one token."""
        for x in (v, one):
            gaussian_mixture_attention(x, x, x, mixture, causal=True)

    def in_c(*arguments):
        raise ZeroDivisionError("the program is called")

    with own_program(), torch.no_grad():
        with set_aside():
            assert native.decoding.step_function() is None
            with monkeypatch.context() as patch:
                patch.setattr(native.passes, "run", in_c)
                both()
        with pytest.raises(KeyError), set_aside():
            raise KeyError
        assert native.decoding.step_function() is not None
        monkeypatch.setattr(native.passes, "run", in_c)
        with pytest.raises(ZeroDivisionError):
            both()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="elsewhere it is an upper bound")
def test_memory_of_a_step_holds_the_logits_and_their_gradient():
    # a fresh process makes the task by its name; it has 1,024 symbols
    bench = leave(make(task="recall", model=SMALL["model"] | {"parameters": 25_000}), "linear")
    for tokens in (64, 512):
        bench.measure_memory(4, tokens)
    assert bench.skipped == []
    few, many = (entry["peak"] for entry in bench.memory)
    assert many - few > 2 * 4 * (512 - 64) * 1024 * 4
    assert [set(entry) for entry in bench.memory] == [{"model", "batch", "tokens", "peak"}] * 2


def planted_record():
    bench = leave(make(steps=((1, 8),), prompts=(4,), quick=True), "gma", "linear")
    made = measured(bench)
    made["times"] = [
        entry | {"samples": samples, "median": samples[1], "quartiles": [1.5, 3.0], "part": "step", "tokens": tokens}
        for entry in made["times"][:1]
        for run, model, tokens, samples in (
            (1, "gma", 8, [1.0, 2.0, 4.0]),
            (1, "linear", 8, [1.0, 2.0, 4.0]),
            (2, "linear", 16, [1.0, 2.0, 4.0]),
            (3, "gma", 16, [1.0, 2.0, 4.0]),
        )
        for entry in [entry | {"run": run, "model": model}]
    ]
    return made


def test_ratios_are_those_of_the_rounds_of_one_run():
    made = planted_record()
    made["times"][1]["samples"] = [3.0, 1.0, 2.0]
    assert models.ratios(made, "step", "linear") == {(1, 8): (0.5, 0.5, 1.75)}
    assert models.ratios(made, "step", "gma", over="linear") == {(1, 8): (2.0, 7 / 6, 2.0)}
    assert models.ratios(made, "decoding", "linear") == {}


def test_records_of_models_are_read_by_name_and_by_path_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "_FOLDERS", (tmp_path,))
    with pytest.raises(FileNotFoundError):
        models.read()
    write(tmp_path / "models.json", planted_record())
    assert models.read()["format"] == "gma_ref.timing.models 1"
    assert models.read() == models.read("models") == models.read(str(tmp_path / "models.json"))
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"^cpu must hold measurements of models .*, got gma_ref\.timing 1$"):
        models.read("cpu")
    assert "cpu" in measurements()


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("times", 0, "median"), 2.5, r"medians and quartiles of its samples; at \$\.times\[0\]"),
        (("times", 0, "tokens"), -1, r"\$\.times\[0\]\.tokens"),
        (("state", 0, "bytes"), 1.5, r"\$\.state\[0\]\.bytes"),
        (("models", 1, "program"), "in Fortran", r"\$\.models\[1\]\.program"),
        (("provenance", "host"), "my-machine", "'host' was unexpected"),
        (("settings", "model"), {}, "required property"),
    ],
)
def test_invalid_records_are_not_written(tmp_path, place, value, said):
    made = planted_record()
    at = made
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    with pytest.raises(ValueError, match=said):
        write(tmp_path / "models.json", made)
    assert not list(tmp_path.iterdir())


def run(monkeypatch, *arguments):
    monkeypatch.setattr(models, "QUICK", SMALL | {"quick": True})
    monkeypatch.setattr(native.library, "compiler", lambda: None)
    return models.main(["--quick", "--threads", "1", *map(str, arguments)])


def test_program_prints_its_tables_and_writes_what_can_be_read(tmp_path, monkeypatch, capsys):
    threads = torch.get_num_threads()
    path = tmp_path / "new" / "some.json"
    assert run(monkeypatch, "--output", path) == 0
    assert torch.get_num_threads() == threads
    printed, found = capsys.readouterr().out, models.read(path)
    for said in (
        "step, ms, × gma",
        "prefill, ms",
        "decoding, ms",
        "state, kB",
        "1 × 20",
        "GMA without its program in C",
    ):
        assert said in printed
    assert f"gma {found['models'][1]['parameters']:,}" in printed
    assert found["provenance"]["versions"]["torch"] == torch.__version__
    assert found["settings"]["threads"] == 1
    assert found["memory"] == []  # the short run has none


def test_wrong_model_fails_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(model_bench, "state_bytes", lambda state: 1 // 0)
    assert run(monkeypatch, "--output", tmp_path / "some.json") == 1
    assert "Wrong: ZeroDivisionError" in capsys.readouterr().err
    assert {entry["part"] for entry in models.read(tmp_path / "some.json")["times"]} == {"step"}


def test_busy_machine_is_refused_on_request(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(load.Watch, "is_busy", lambda self: True)
    monkeypatch.setattr(models, "measure", lambda bench: pytest.fail("it was measured"))
    assert run(monkeypatch, "--refuse-busy", "--output", tmp_path / "some.json") == 2
    assert capsys.readouterr().err.startswith("Refused: other programs kept ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--threads", "0"], "--threads must be at least 1, got 0"),
        (["--threads", "two"], "invalid int value"),
        (["--output", "."], "--output must be a file, got the folder ."),
        (["--slowly"], "unrecognized arguments"),
    ],
)
def test_bad_arguments_are_refused(arguments, said, capsys):
    with pytest.raises(SystemExit) as refused:
        models.main(arguments)
    assert refused.value.code == 2
    assert said in capsys.readouterr().err


def test_file_that_cannot_be_written_is_refused_before_measuring(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(models, "under_watch", lambda *_: pytest.fail("it measures first"))
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert models.main(["--quick", "--output", str(tmp_path / "file" / "some.json")]) == 2
    assert capsys.readouterr().err.startswith("Refused: [Errno ")


def test_short_run_never_replaces_a_full_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [models._arguments(given).output.name for given in ([], ["--quick"])] == ["models.json", "models-quick.json"]
    long = [models._arguments(["--long-context", *more]).output.name for more in ([], ["--quick"])]
    assert long == ["long_context.json", "long_context-quick.json"]
    (tmp_path / "book").mkdir()
    assert models._arguments([]).output == Path("book/speed/measurements/models.json")


def test_plan_is_that_of_the_experiments():
    chosen = plan.Plan()
    assert (chosen.steps, chosen.prompts) == (((16, 128), (4, 512), (1, 2_048)), (128, 1_024, 4_096))
    for kind in KINDS:
        settings = chosen.settings(kind, 4, 512)
        assert (settings.parameters, settings.num_components, settings.convolution) == (650_000, 64, 4)
        assert (settings.task, settings.mixer, settings.batch, settings.length) == ("shakespeare", kind.mixer, 4, 512)


def test_long_context_is_measured_as_it_is_trained():
    chosen = plan.Plan(**plan.LONG_CONTEXT)
    trained = {}
    for name in ("genre", "genre-2048", "genre-8192"):
        for grid in EXPERIMENTS[name]:
            for settings in grid.runs():
                if settings.num_components == chosen.model["num_components"]:
                    trained.setdefault((settings.batch, settings.length), {})[settings.mixer] = settings
    assert set(chosen.steps) == set(chosen.passes) == set(trained)
    compared = ("task", "mixer", "qk_norm", "causal", "parameters", *SIZES)
    for size, by_mixer in trained.items():
        kinds = [kind for kind in KINDS if kind.name in chosen.kinds]
        assert {kind.mixer for kind in kinds} == set(by_mixer)
        for kind in kinds:
            measured_as = chosen.settings(kind, *size)
            assert all(getattr(measured_as, name) == getattr(by_mixer[kind.mixer], name) for name in compared)


def test_short_run_of_long_context_measures_classifiers(tmp_path, monkeypatch, capsys):
    digits = pytest.importorskip("gma_ref.models.tasks.digits", reason="the digits are those of scikit-learn")
    monkeypatch.setattr(model_bench, "make_task", lambda name: digits.DigitsTask())
    monkeypatch.setattr(models, "QUICK_LONG_CONTEXT", {"steps": ((1, 64),), "passes": ((1, 64),), "quick": True})
    monkeypatch.setattr(native.library, "compiler", lambda: None)
    path = tmp_path / "some.json"
    assert models.main(["--long-context", "--quick", "--threads", "1", "--output", str(path)]) == 0
    assert "forward, ms" in capsys.readouterr().out
    found = models.read(path)
    assert found["forward_memory"] == found["state"] == []
    assert {entry["model"] for entry in found["times"]} == {"softmax", "gma", "linear", "favor"}
