"""What the small models are trained on: text, long passages, recall, pixels, each split before anything is cut from it.

A task has ``name``, ``vocabulary``, ``unit``, ``num_classes``, ``train_batches`` and ``evaluation``; `Task` says what
they mean. `make_task` makes one by its name. Nothing is fetched from a network unless `fetch_wikitext` or
`fetch_listops` is called.
"""

from importlib import import_module

from .task import IGNORED, Batch, Task

__all__ = ["IGNORED", "TASKS", "Batch", "Task", "make_task"]

TASKS = {
    "shakespeare": ("language", "shakespeare"),
    "genre": ("genre", "GenreTask"),
    "recall": ("recall", "RecallTask"),
    "digits": ("digits", "DigitsTask"),
    "wikitext": ("wikitext", "wikitext"),
    "listops": ("listops", "ListOpsTask"),
}


def make_task(name: str, **options) -> Task:
    """Make a task by its name.

    Parameters
    ----------
    name : str
        One of `TASKS`.
    **options
        Those of the task: ``num_pairs`` and ``interleaved`` for ``"recall"``, ``folder`` for ``"wikitext"`` and
        ``"listops"``, and so on.

    Raises
    ------
    ValueError
        If there is no such task.
    """
    if name not in TASKS:
        raise ValueError(f"name must be one of {', '.join(map(repr, TASKS))}, got {name!r}")
    module, maker = TASKS[name]
    return getattr(import_module(f"{__name__}.{module}"), maker)(**options)
