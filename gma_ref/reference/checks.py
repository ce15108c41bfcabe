"""Argument checks, in one place so that the functions read as their equations.

``@accepts(...)`` names the trailing axes of each array argument (``q="N_q d_r"``). Before the function runs, its
arrays become floating arrays of at least float32, axes of one name must have one size, and leading axes must
broadcast. Every refusal is one sentence: which argument, what came, what was expected.
"""

import functools
import inspect
import math
import numbers

import numpy as np


def accepts(result_dtype_of=None, **specs):
    """Check and convert the arguments of a function before it runs.

    Parameters
    ----------
    result_dtype_of : str or tuple of str, optional
        The array argument whose floating dtype the result takes; or, where the result is a dict of gradients, the
        arguments that it names, each of which gives its dtype to its own gradient.
    **specs
        For each argument to check: the names of its trailing axes (an array), a class with ``AXES`` (a container of
        arrays), or, for ``key_mask``, the argument that holds the keys. ``eps``, ``eps_sigma``, ``radius``, ``ridge``
        and ``causal`` are checked wherever a function has them.
    """

    def decorate(function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args, **kwargs):
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__}: {error}") from None
            bound.apply_defaults()
            given = bound.arguments
            axes = Axes()
            dtypes = {}
            for name, spec in specs.items():
                if name == "key_mask":
                    given[name] = as_key_mask(given[name], given[spec].shape, spec)
                elif isinstance(spec, type):
                    given[name] = _as_container(name, given[name], spec, axes)
                else:
                    array = as_array(name, given[name])
                    dtypes[name] = array.dtype
                    given[name] = axes.check(name, at_least_float32(array), spec)
            for name in ("eps", "eps_sigma", "radius", "ridge"):
                if name in given:
                    given[name] = as_size(name, given[name])
            if "causal" in given:
                given["causal"] = as_flag("causal", given["causal"])
                check_causal(given["causal"], axes.sizes)
            result = function(*bound.args, **bound.kwargs)
            if isinstance(result_dtype_of, tuple):
                return {name: result[name].astype(dtypes[name], copy=False) for name in result_dtype_of}
            return result.astype(dtypes[result_dtype_of], copy=False) if result_dtype_of else result

        return checked

    return decorate


class Axes:
    """The axis sizes seen so far in one call."""

    def __init__(self):
        self.sizes = {}  # axis name -> (size, where it was seen)
        self.leading = ()  # the broadcast of all leading axes

    def check(self, name, array, axes):
        """Return `array` if its trailing axes fit the names in `axes`."""
        names = axes.split()
        expected = f"(..., {', '.join(names)})"
        if array.ndim < len(names):
            raise ValueError(f"{name} must have shape {expected}, got shape {array.shape}")
        split = array.ndim - len(names)
        for axis, size in zip(names, array.shape[split:], strict=True):
            known, where = self.sizes.setdefault(axis, (size, name))
            if size != known:
                raise ValueError(
                    f"{name} must have shape {expected} with {axis} = {known} as in {where}, got shape {array.shape}"
                )
        try:
            self.leading = np.broadcast_shapes(self.leading, array.shape[:split])
        except ValueError:
            raise ValueError(
                f"{name} must have leading axes that broadcast with {self.leading}, got shape {array.shape}"
            ) from None
        return array


def _as_container(name, value, cls, axes):
    """Return `value` as a `cls` whose arrays were checked like arguments."""
    if not isinstance(value, cls):
        raise TypeError(f"{name} must be a gma_ref.{cls.__name__}, got {type(value).__name__}")
    arrays = {field: as_float(f"{name}.{field}", getattr(value, field)) for field in cls.AXES}
    for field, names in cls.AXES.items():
        axes.check(f"{name}.{field}", arrays[field], names)
    # a mixture was checked when it was made; a memory is a plain tuple and may hold anything
    return cls(**arrays) if isinstance(value, tuple) else value


def as_array(name, value):
    """Return `value` as a floating array; integers become float64."""
    array = _as_ordinary_array(name, value)
    if array.dtype.kind in "iu":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array


def _as_ordinary_array(name, value):
    """Return `value` as an array of whatever it holds."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must be an ordinary array, got a masked array (key_mask says which keys take part)")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be an array, got what NumPy cannot read: {error}") from error
    except (TypeError, RuntimeError) as error:  # another library's tensor, such as one that requires a gradient
        raise TypeError(f"{name} must be an array, got what NumPy cannot read: {error}") from error


def at_least_float32(array):
    """Return `array` in float32 if it is narrower, unchanged otherwise."""
    return array.astype(np.promote_types(array.dtype, np.float32), copy=False)


def as_float(name, value):
    """Return `value` as a floating array of at least float32."""
    return at_least_float32(as_array(name, value))


def as_size(name, value):
    """Return a stabilizer (ε, ε_σ, a ridge) or a radius as a float that is finite and not negative."""
    if type(value) is float and 0 <= value < math.inf:  # nearly always
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}")
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be finite and at least 0, got {value}")
    return value


def as_key_mask(key_mask, shape, keys, name="key_mask", what="key"):
    """Return `key_mask` as a boolean array that fits keys of the given shape; True means: takes part."""
    if key_mask is None:
        return None
    mask = _as_ordinary_array(name, key_mask)
    if mask.dtype != np.bool_:
        raise TypeError(f"{name} must be boolean (True: this {what} takes part), got dtype {mask.dtype}")
    fits = mask.shape == shape[-2:-1]
    if mask.ndim == len(shape) - 1:
        fits = fits or all(m in (1, n) for m, n in zip(mask.shape, shape[:-1], strict=True))
    if not fits:
        hint = f" (for a mask per batch, try {name}[:, None])" if mask.ndim == len(shape) - 2 > 1 else ""
        raise ValueError(
            f"{name} must have shape ({shape[-2]},), or {len(shape) - 1} axes that broadcast to {shape[:-1]}, since "
            f"{keys} has shape {shape}; got shape {mask.shape}{hint}"
        )
    return mask


def as_flag(name, value):
    """Return a switch as True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}")
    return bool(value)


def check_causal(causal, sizes):
    """Refuse a causal call whose queries and keys are not the same tokens."""
    (num_queries, _), (num_keys, _) = sizes["N_q"], sizes["N_k"]
    if causal and num_queries != num_keys:
        raise ValueError(
            f"causal=True must get as many queries as keys, got {num_queries} queries and {num_keys} keys "
            "(to continue a sequence, use update_memory)"
        )


def as_count(name, value):
    """Return a count as a Python int that is not negative."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    if value < 0:
        raise ValueError(f"{name} must be at least 0, got {value}")
    return int(value)
