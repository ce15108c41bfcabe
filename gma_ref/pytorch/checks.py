"""Argument checks, in one place so that the functions read as their equations.

``@accepts(...)`` names the trailing axes of each tensor argument (``q="N_q d_r"``), as in the reference: axes of one
name must have one size, leading axes must broadcast. It looks at types, shapes, dtypes and devices, and never at
values, since then the host would wait for the device. Every refusal is one sentence: which argument, what came, what
was expected. What has passed once, with the same shapes, dtypes and devices, passes again without being looked through.
"""

import functools
import inspect
import operator

import torch

from ..reference.checks import as_flag, as_size

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
ORDINARY = (torch.Tensor, torch.nn.Parameter)
REMEMBERED = 1000  # signatures of a function that have passed


def accepts(result_dtype_of=None, promote=True, **specs):
    """Check the arguments of a function before it runs, and run it without autocast.

    Parameters
    ----------
    result_dtype_of : str, optional
        The tensor argument whose dtype the result takes.
    promote : bool
        Whether the tensors, those in containers too, come to the function in their common dtype, which is float32 at
        least. Otherwise they come as they are.
    **specs
        For each argument to check: the names of its trailing axes (a tensor), a class with ``AXES`` (a container of
        tensors), or, for ``key_mask``, the argument that holds the keys. A container or mask that is None by default
        may be None. ``eps``, ``eps_sigma``, ``causal`` and ``return_state`` are checked wherever a
        function has them.
    """

    def decorate(function):
        signature = inspect.signature(function)
        names = set(signature.parameters)
        positional = tuple(p.name for p in signature.parameters.values() if p.kind is not p.KEYWORD_ONLY)
        defaults = {p.name: p.default for p in signature.parameters.values() if p.default is not p.empty}
        sizes = [name for name in ("eps", "eps_sigma") if name in names]
        flags = [name for name in ("causal", "return_state") if name in names]
        kinds = {
            name: (None, None) if isinstance(spec, str) else (spec, operator.attrgetter(*spec.AXES))
            for name, spec in specs.items()
        }
        passed = {}  # signature -> common dtype and device

        def bind(args, kwargs):
            """Return all arguments by name; by hand, since a compiler cannot follow ``Signature.bind``."""
            given = dict(zip(positional, args, strict=False))
            clear = len(args) <= len(positional) and len({**given, **kwargs}) == len(given) + len(kwargs)
            given = {**defaults, **given, **kwargs}
            if not clear or given.keys() != names:
                try:
                    signature.bind(*args, **kwargs)
                except TypeError as error:
                    raise TypeError(f"{function.__name__}: {error}") from None
            return given

        def look_through(given):
            """Refuse what does not fit, and return the common dtype and the device."""
            tensors = Tensors()
            for name, spec in specs.items():
                value = given[name]
                if value is None and defaults.get(name, value) is None and name in defaults:
                    continue
                if name == "key_mask":
                    tensors.check_key_mask(value, given[spec].shape, spec)
                elif isinstance(spec, str):
                    tensors.check(name, value, spec)
                else:
                    tensors.check_container(name, value, spec)
            if "causal" in given:
                check_causal(as_flag("causal", given["causal"]), tensors.sizes)
            return tensors.dtype, tensors.device

        @functools.wraps(function)
        def checked(*args, **kwargs):
            given = bind(args, kwargs)
            key = signature_of(given, kinds)
            dtype, device = (key and passed.get(key)) or look_through(given)
            if key and len(passed) < REMEMBERED:
                passed[key] = dtype, device
            for name in sizes:
                given[name] = as_size(name, given[name])
            for name in flags:
                given[name] = as_flag(name, given[name])
            wanted = given[result_dtype_of].dtype if result_dtype_of else None
            if promote:
                for name in specs:
                    if name != "key_mask" and given[name] is not None:
                        given[name] = given[name].to(dtype)
            result = without_autocast(device, function, given)
            return result.to(wanted) if result_dtype_of else result

        return checked

    return decorate


def without_autocast(device, function, given):
    """Call a function where no product is squeezed to 16 bits."""
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):
        return function(**given)
    with torch.autocast(device.type, enabled=False):
        return function(**given)


def signature_of(given, kinds):
    """Return all that the checks look at, to recognise it, or None where something is of an unusual kind."""
    causal = given.get("causal", False)
    if torch.compiler.is_compiling() or type(causal) is not bool:
        return None
    tensors, key = [], [causal]
    for name, (kind, parts) in kinds.items():
        value = given[name]
        if kind is None or value is None:
            tensors.append(value)
        elif type(value) is kind:
            tensors += parts(value)
        else:
            return None
    for tensor in tensors:
        if tensor is None:
            key.append(None)
        elif type(tensor) in ORDINARY and not tensor.is_nested:
            key += (tensor.shape, tensor.dtype, tensor.device, tensor.layout)
        else:
            return None
    return tuple(key)


class Tensors:
    """What is known of the tensors seen so far in one call."""

    def __init__(self):
        self.sizes = {}  # axis name -> (size, where it was seen)
        self.leading = ()  # the broadcast of all leading axes
        self.dtype = torch.float32  # the common dtype
        self.device = None
        self.first = ""  # the argument that has set the device

    def check(self, name, value, axes):
        """Refuse a value that is no floating tensor, or does not fit the named axes and the tensors before it."""
        check_tensor(name, value)
        if value.dtype not in FLOATING:
            hint = " (for integers, try .float())" if not (value.is_floating_point() or value.is_complex()) else ""
            raise TypeError(f"{name} must be float16, bfloat16, float32 or float64, got {value.dtype}{hint}")
        self.check_device(name, value)
        self.dtype = torch.promote_types(self.dtype, value.dtype)
        names, shape = axes.split(), tuple(value.shape)
        split = len(shape) - len(names)
        if split < 0:
            raise ValueError(f"{name} must have shape (..., {', '.join(names)}), got shape {shape}")
        for axis, size in zip(names, shape[split:], strict=True):
            known, where = self.sizes.setdefault(axis, (size, name))
            if size != known:
                raise ValueError(
                    f"{name} must have shape (..., {', '.join(names)}) with {axis} = {known} as in {where}, "
                    f"got shape {shape}"
                )
        leading = broadcast(self.leading, shape[:split])
        if leading is None:
            raise ValueError(f"{name} must have leading axes that broadcast with {self.leading}, got shape {shape}")
        self.leading = leading

    def check_container(self, name, value, cls):
        """Refuse a value that is no `cls`, or whose tensors do not fit."""
        if not isinstance(value, cls):
            came = type(value)
            raise TypeError(
                f"{name} must be a gma_ref.pytorch.{cls.__name__}, got {came.__name__}"
                + (f" of {came.__module__}" if came.__name__ == cls.__name__ else "")
            )
        for field, axes in cls.AXES.items():
            self.check(f"{name}.{field}", getattr(value, field), axes)

    def check_key_mask(self, mask, shape, keys):
        """Refuse a mask that is not boolean or does not fit keys of the given shape; True means: takes part."""
        check_tensor("key_mask", mask)
        if mask.dtype != torch.bool:
            raise TypeError(f"key_mask must be boolean (True: this key takes part), got dtype {mask.dtype}")
        self.check_device("key_mask", mask)
        shape, came = tuple(shape), tuple(mask.shape)
        fits = came == shape[-2:-1]
        if len(came) == len(shape) - 1:
            fits = fits or all(m in (1, n) for m, n in zip(came, shape[:-1], strict=True))
        if not fits:
            raise ValueError(
                f"key_mask must have shape ({shape[-2]},), or {len(shape) - 1} axes that broadcast to {shape[:-1]}, "
                f"since {keys} has shape {shape}; got shape {came} (for a mask per batch, try key_mask[:, None])"
            )

    def check_device(self, name, value):
        """Refuse a tensor that is not where the first one is."""
        if self.device is None:
            self.device, self.first = value.device, name
        if value.device != self.device:
            raise ValueError(f"{name} must be on {self.device} as {self.first} is, got a tensor on {value.device}")


def broadcast(one, other):
    """Return the broadcast of two shapes, or None; PyTorch's function takes longer than a step of a sequence."""
    if len(one) < len(other):
        one, other = other, one
    pairs = zip(one, (1,) * (len(one) - len(other)) + other, strict=True)
    shape = tuple(b if a == 1 else a if b == 1 or a == b else None for a, b in pairs)
    return None if None in shape else shape


def check_tensor(name, value):
    """Refuse what is not an ordinary tensor."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(value).__name__} (torch.as_tensor makes one)")
    if value.layout != torch.strided or value.is_nested:
        came = "a nested tensor" if value.is_nested else f"layout {value.layout}"
        raise TypeError(f"{name} must be a dense tensor, got {came}")


def check_index(index):
    """Refuse what does not list positions along an axis."""
    check_tensor("index", index)
    if index.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"index must be int32 or int64, got {index.dtype}")
    if index.ndim != 1:
        raise ValueError(f"index must have one axis, got shape {tuple(index.shape)}")


def check_causal(causal, sizes):
    """Refuse a causal call whose queries and keys are not the same tokens."""
    (num_queries, _), (num_keys, _) = sizes["N_q"], sizes["N_k"]
    if causal and num_queries != num_keys:
        raise ValueError(
            f"causal=True must get as many queries as keys, got {num_queries} queries and {num_keys} keys "
            "(to continue a sequence, pass its state)"
        )
