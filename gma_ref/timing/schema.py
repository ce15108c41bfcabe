"""What a file of measurements holds, as JSON schemas: one of attention, `SCHEMA`, and one of models, `OF_MODELS`."""

_NUMBER = {"type": "number"}
_COUNT = {"type": "integer", "minimum": 0}
_WORD = {"type": "string", "minLength": 1}
_SECONDS = {"type": "number", "exclusiveMinimum": 0}


def _object(required, optional=()):
    """Return the schema of an object with these entries and no others."""
    properties = {**required, **dict(optional)}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _list(required, optional=()):
    return {"type": "array", "items": _object(required, optional)}


_CASE = {
    "method": _WORD,
    "tokens": _COUNT,
    "causal": {"type": "boolean"},
    "training": {"type": "boolean"},
    "heads": _COUNT,
}
_MODEL = {"model": _WORD, "batch": _COUNT, "tokens": _COUNT}
_RUN = {"run": {"type": "integer", "minimum": 1}, "part": _WORD}
_PROVENANCE = {
    "date": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$"},
    "commit": {"type": ["string", "null"], "pattern": "^[0-9a-f]{40}$"},
    "modified": {"type": ["boolean", "null"]},
    "processor": _WORD,
    "processors": {"type": "integer", "minimum": 1},
    "system": _WORD,
    "python": _WORD,
    "versions": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
    "environment": {"type": "object", "additionalProperties": {"type": "string", "pattern": r"^[^/\\]*$"}},
}
_MADE = _object(_PROVENANCE, {"accelerator": {"type": ["string", "null"]}, "float32_products": _WORD})
# processors that other programs kept busy, before and during the measurements
_LOAD = _object({"before": _NUMBER, "during": _NUMBER, "busy": {"type": "boolean"}})
# what was timed in turns is a run; "others": processors that other programs kept busy in it
_RUNS = _list({**_RUN, "seconds": _SECONDS, "others": _NUMBER})
_TAKEN = {
    "median": _SECONDS,
    "quartiles": {"type": "array", "items": _SECONDS, "minItems": 2, "maxItems": 2},
    "samples": {"type": "array", "items": _SECONDS, "minItems": 1},
    "calls": {"type": "integer", "minimum": 1},
}
_SETTINGS = {
    "device": _WORD,
    "dtype": _WORD,
    "threads": {"type": "integer", "minimum": 1},
    "batch": _COUNT,
    "heads": _COUNT,
    "width": _COUNT,
    "components": _COUNT,
    "seed": _COUNT,
    "repeats": _COUNT,
    "seconds_per_point": _SECONDS,
    "shrink": {"type": "integer", "minimum": 1},
    "quick": {"type": "boolean"},
}

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Measurements of gma_ref.timing",
    **_object(
        {
            "format": {"const": "gma_ref.timing 1"},
            "provenance": _MADE,
            "settings": _object(_SETTINGS),
            "load": _LOAD,
            "methods": _list(
                {"name": _WORD, "title": _WORD, "includes": _WORD, "missing": {"type": ["string", "null"]}}
            ),
            # the largest error against the slow form, over the largest entry of the slow form
            "checks": _list({**_CASE, "what": _WORD, "error": _NUMBER, "allowed": _NUMBER}),
            "runs": _RUNS,
            "times": _list({**_RUN, **_CASE, **_TAKEN}, {"variant": _WORD}),
            # bytes beyond the inputs; "over" leaves the results out too
            "memory": _list({**_CASE, "peak": _COUNT, "held": _COUNT, "over": {"type": "integer"}}),
            "ceilings": {"type": "object", "additionalProperties": _SECONDS},
            "targets": _list(
                {
                    "name": _WORD,
                    "title": _WORD,
                    "at": _WORD,
                    "program": {"enum": ["in C", "in PyTorch"]},
                    "value": {"type": ["number", "null"]},
                    "quartiles": {"type": ["array", "null"], "items": _NUMBER},
                    "bound": {"type": ["number", "null"]},
                    "sense": {"enum": ["<=", ">=", None]},
                    "verdict": {"enum": ["met", "not met", "reported", "not judged", "not measured"]},
                    "note": {"type": "string"},
                }
            ),
            "skipped": _list({**_CASE, "reason": _WORD}),
        }
    ),
}

_OPTIONS = dict.fromkeys("parameters num_layers d_model num_heads convolution num_components".split(), _COUNT)

OF_MODELS = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Measurements of gma_ref.timing.models",
    **_object(
        {
            "format": {"const": "gma_ref.timing.models 1"},
            "provenance": _MADE,
            "settings": _object(
                {
                    "device": _WORD,
                    "dtype": _WORD,
                    "threads": {"type": "integer", "minimum": 1},
                    "task": _WORD,
                    # what the settings of the models' training have in common
                    "model": _object(_OPTIONS, {"causal": {"type": "boolean"}}),
                    "steps": {"type": "array", "items": {"type": "array", "items": _COUNT}},
                    "prompts": {"type": "array", "items": _COUNT},
                    "repeats": _COUNT,
                    "seconds_per_point": _SECONDS,
                    "seed": _COUNT,
                    "quick": {"type": "boolean"},
                },
                {
                    "passes": {"type": "array", "items": {"type": "array", "items": _COUNT}},
                    "kinds": {"type": "array", "items": _WORD},
                },
            ),
            "load": _LOAD,
            "models": _list(
                {
                    "name": _WORD,
                    "title": _WORD,
                    "mixer": _WORD,
                    "program": {"enum": ["in C", "in PyTorch", None]},
                    "qk_norm": {"type": "boolean"},
                    "parameters": {"type": ["integer", "null"]},
                    "d_mlp": {"type": ["integer", "null"]},
                    "missing": {"type": ["string", "null"]},
                }
            ),
            # what each part of the times covers
            "parts": _object({"step": _WORD, "prefill": _WORD, "decoding": _WORD}, {"forward": _WORD}),
            # the largest error against the same model in float64, over the largest entry of that
            "checks": _list({**_MODEL, "part": _WORD, "what": _WORD, "error": _NUMBER, "allowed": _NUMBER}),
            "runs": _RUNS,
            "times": _list({**_RUN, **_MODEL, **_TAKEN}),
            # bytes of the decoding state of one text after so many tokens
            "state": _list({**_MODEL, "bytes": _COUNT}),
            # bytes of a training step beyond weights and the optimiser's moments
            "memory": _list({**_MODEL, "peak": _COUNT}),
            "skipped": _list({**_MODEL, "part": _WORD, "reason": _WORD}),
        },
        # and of a pass forward, where such were measured
        {"forward_memory": _list({**_MODEL, "peak": _COUNT})},
    ),
}
