"""Limits of CuPy 14 beside numpy, for the simulated device: the names, arguments, dtypes and lists that it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# -- names -------------------------------------------------------------------------------------------------------

ABSENT = frozenset(
    (
        "asmatrix", "block", "bmat", "einsum_path", "errstate", "frompyfunc", "geomspace", "geterr",
        "histogram_bin_edges", "insert", "longdouble", "matrix", "matvec", "memmap", "nanpercentile", "nanquantile",
        "ndenumerate", "nditer", "nested_iters", "object_", "polyder", "polydiv", "polyint", "recarray", "record",
        "seterr", "spacing", "str_", "unstack", "vecdot", "vecmat", "void",
    )
)  # fmt: skip
"""Names of numpy's that CuPy 14 does not have."""
ABSENT_LINALG = frozenset(
    ("diagonal", "matrix_norm", "multi_dot", "outer", "svdvals", "tensordot", "trace", "vecdot", "vector_norm")
)
"""Names of numpy.linalg's that it does not have."""
SPECIAL = frozenset(
    (
        "bdtr", "bdtrc", "bdtri", "beta", "betainc", "betaincinv", "betaln", "binom", "boxcox", "boxcox1p", "btdtr",
        "btdtri", "cbrt", "chdtr", "chdtrc", "chdtri", "cosdg", "cosm1", "cotdg", "digamma", "ellipeinc", "ellipj",
        "ellipk", "ellipkinc", "ellipkm1", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp1", "exp10",
        "exp2", "expi", "expit", "expm1", "expn", "exprel", "fdtr", "fdtrc", "fdtri", "gamma", "gammainc", "gammaincc",
        "gammainccinv", "gammaincinv", "gammaln", "gammasgn", "gdtr", "gdtrc", "huber", "i0", "i0e", "i1", "i1e",
        "inv_boxcox", "inv_boxcox1p", "j0", "j1", "k0", "k0e", "k1", "k1e", "kl_div", "lambertw", "log1p", "log_expit",
        "log_ndtr", "log_softmax", "loggamma", "logit", "logsumexp", "lpmv", "multigammaln", "nbdtr", "nbdtrc",
        "nbdtri", "ndtr", "ndtri", "pdtr", "pdtrc", "pdtri", "poch", "polygamma", "pseudo_huber", "psi", "radian",
        "rel_entr", "rgamma", "round", "shichi", "sici", "sinc", "sindg", "softmax", "sph_harm", "sph_harm_y",
        "spherical_yn", "tandg", "wright_bessel", "xlog1py", "xlogy", "y0", "y1", "yn", "zeta", "zetac",
    )
)  # fmt: skip
"""The functions of scipy.special that CuPy 14 has."""
METHODS = frozenset(
    (
        "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip", "compress", "conj",
        "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "fill", "flatten", "max", "mean", "min", "nonzero",
        "partition", "prod", "put", "ravel", "repeat", "reshape", "round", "searchsorted", "sort", "squeeze", "std",
        "sum", "swapaxes", "take", "trace", "transpose", "var", "view",
    )
)  # fmt: skip
"""The methods of arrays that CuPy's have, too."""

# -- arguments ---------------------------------------------------------------------------------------------------

OF_UFUNCS = frozenset(("out", "dtype", "casting"))
"""The only arguments by name that its ufuncs take."""
REFUSED = frozenset(
    (
        "initial", "where", "signature", "like", "device", "subok", "correction", "stable", "descending", "weights",
        "hermitian", "rtol", "upper", "p_indices",
    )
)  # fmt: skip
"""Arguments that its functions do not take, whichever they are."""
TAKEN = {"copyto": {"where"}, "average": {"weights"}, "bincount": {"weights"}, "histogram": {"weights"}}
"""The functions that take some of them all the same."""
REFUSED_BY = {
    "take": {"mode"}, "isin": {"kind"}, "lexsort": {"axis"}, "sort": {"order"}, "argsort": {"order"},
    "partition": {"kind", "order"}, "argpartition": {"kind", "order"}, "clip": {"min", "max"}, "reshape": {"shape"},
    "astype": {"casting"}, "count_nonzero": {"keepdims"}, "indices": {"sparse"}, "unique": {"sorted"},
    "trim_zeros": {"axis"}, "unpackbits": {"count"}, "matrix_rank": {"A"},
    "concatenate": {"arrays"}, "concat": {"arrays"}, "stack": {"arrays"},
    **{f"{way}{dims}": {"out"} for way in ("fft", "ifft", "rfft", "irfft") for dims in ("", "2", "n")},
}  # fmt: skip
"""Further arguments that a function does not take."""
KINDS = (None, "stable")
"""The kinds of sorting that there are."""

# -- methods of ufuncs -------------------------------------------------------------------------------------------

_EXTREMA = "ilqILQfd"
_BITS = "ilqILQ"
METHODS_OF = {
    "reduce": {"add", "multiply"},
    "accumulate": {"add", "multiply"},
    "reduceat": {"add"},
    "at": {
        "add": _EXTREMA + "e", "subtract": "iI", "maximum": _EXTREMA, "minimum": _EXTREMA,
        "bitwise_and": _BITS, "bitwise_or": _BITS, "bitwise_xor": _BITS,
    },
}  # fmt: skip
"""The ufuncs that have a method; for `at` with the codes of the dtypes that they do it for."""

# -- operands ----------------------------------------------------------------------------------------------------

NOT_COMPLEX = frozenset(("logical_and", "logical_or", "logical_xor", "logical_not", "clip"))
"""Functions that take no complex numbers."""
JOINING = frozenset(("concatenate", "concat", "stack", "vstack", "hstack", "dstack", "column_stack"))
"""Functions of a list of arrays, in which every item has to be one."""
OF_ARRAYS = frozenset(("lexsort", "choose"))
"""Functions that take a single array where numpy's take a list of several."""


def refuse(function: Any, args: Sequence[Any], kwargs: dict[str, Any], array: type[Any]) -> None:
    """Raise, TypeError as a rule, if CuPy refuses this call of a function of numpy's or of a method.

    Args:
        function: The function, or bound method.
        args: Its arguments, in which arrays are of the class `array`.
        kwargs: Those by name.
        array: The class of arrays on the device.
    """
    owner, name = getattr(function, "__self__", None), function.__name__
    if isinstance(owner, np.ufunc):
        _refuse_method(owner.__name__, name, args)
    is_ufunc = isinstance(function, np.ufunc)
    unknown = set(kwargs) - OF_UFUNCS if is_ufunc else set(kwargs) & _refused_by(name)
    if unknown:
        raise TypeError(f"{name} has no argument {min(unknown)!r} on the simulated device")
    if name in ("sort", "argsort") and kwargs.get("kind") not in KINDS:
        raise ValueError(f"{name}: kind={kwargs['kind']!r} on the simulated device; it can be None or 'stable'")
    _refuse_operands(name, args, is_ufunc, array)


def _refused_by(name: str) -> set[str]:
    return (set(REFUSED) - TAKEN.get(name, set())) | REFUSED_BY.get(name, set())


def _refuse_method(ufunc: str, method: str, args: Sequence[Any]) -> None:
    if method not in METHODS_OF:
        return
    known: Any = METHODS_OF[method]
    if ufunc not in known:
        raise NotImplementedError(f"{ufunc}.{method} is not on the simulated device")
    if method == "at" and args[0].dtype.char not in known[ufunc]:
        raise TypeError(f"{ufunc}.at takes no {args[0].dtype} on the simulated device")


def _refuse_operands(name: str, args: Sequence[Any], is_ufunc: bool, array: type[Any]) -> None:
    if is_ufunc and any(isinstance(value, (list, tuple)) for value in args):
        raise TypeError(f"{name} takes no lists on the simulated device")
    if name in JOINING and not all(isinstance(item, array) for item in args[0]):
        raise TypeError(f"{name} joins arrays alone on the simulated device")
    if name in OF_ARRAYS and any(isinstance(value, (list, tuple)) for value in args):
        raise TypeError(f"{name} takes no list of arrays on the simulated device")
    if name in NOT_COMPLEX and any(isinstance(value, array) and value.dtype.kind == "c" for value in args):
        raise TypeError(f"{name} takes no complex numbers on the simulated device")
    if name == "expm" and args[0].ndim > 2:
        raise ValueError("expm takes one matrix on the simulated device")


def refuse_dtype(dtype: np.dtype[Any]) -> None:
    """ValueError if CuPy makes no arrays of this dtype: of those that are not numpy's own, it knows bfloat16 alone."""
    if dtype.isbuiltin == 2 and dtype.name != "bfloat16":
        raise ValueError(f"there is no {dtype} on the simulated device")


def refuse_key(key: Any, array: type[Any]) -> None:
    """TypeError if CuPy refuses to index by lists in which there are arrays."""
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, list) and any(isinstance(item, array) for item in part):
            raise TypeError("an array in a list of indices on the simulated device")
