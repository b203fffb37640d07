"""Sizes and what `item()` reads work wherever an int or a float does, or say where a plain one is wanted."""

import array
import base64
import bisect
import calendar
import cmath
import collections
import contextlib
import copy
import csv
import ctypes
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import heapq
import io
import ipaddress
import itertools
import json
import locale
import math
import numbers
import operator
import pickle
import pprint
import random
import re
import sqlite3
import statistics
import string
import struct
import textwrap
import time
import types
import uuid
import zlib
from typing import Any

import numpy as np
import pytest

import jit

MODULES = (
    array, base64, bisect, calendar, cmath, collections, copy, csv, ctypes, datetime, decimal, fractions, functools,
    hashlib, heapq, io, ipaddress, itertools, json, locale, math, numbers, operator, pickle, pprint, random, re,
    sqlite3, statistics, string, struct, textwrap, time, types, uuid, zlib,
)  # fmt: skip


class Color(enum.IntEnum):
    A = 1
    B = 2
    C = 3
    D = 4


OF_INTEGERS = r"""
json.dumps({'a': n})
json.dumps([n, n])
json.dumps({'a': n}, indent=1)
json.dumps({n: 1})
decimal.Decimal(n)
fractions.Fraction(n)
fractions.Fraction(n, 7)
statistics.mean([n, 2, 3])
statistics.stdev([n, 2, 7])
statistics.median([n, 1, 9])
datetime.timedelta(seconds=n)
datetime.timedelta(n)
datetime.date(2020, n, n)
datetime.datetime(2020, 1, n, n)
datetime.datetime.fromtimestamp(n, datetime.timezone.utc)
collections.deque([1, 2, 3, 4, 5], maxlen=n)
collections.deque([1, 2, 3, 4, 5], n).maxlen
struct.pack('<i', n)
struct.pack('q', n)
struct.pack('B', n)
~n
pow(n, 3, 7)
pow(2, n, 7)
pow(2, 5, n)
divmod(n, 2)
divmod(17, n)
round(n)
round(n, -1)
round(12345, -n)
round(1.23456, n)
math.sqrt(n)
math.factorial(n)
math.gcd(n, 6)
math.lcm(n, 4)
math.isqrt(n)
math.comb(7, n)
math.perm(7, n)
math.prod([n, 2])
math.fsum([n, 0.5])
math.ldexp(1.5, n)
math.floor(n)
math.ceil(n)
math.trunc(n)
math.hypot(n, 4)
math.log2(n)
math.copysign(n, -1)
math.isclose(n, 3)
math.dist([n], [1])
bytes(n)
bytes([n, n])
bytearray(n)
chr(n + 60)
hex(n)
oct(n)
bin(n)
f'{n}'
f'{n:05d}'
f'{n:x}'
f'{1.5:.{n}f}'
f'{n!r}'
'%d' % n
'%s' % n
'%5.2f' % n
'%x' % n
'%*d' % (n, 5)
'%c' % (n + 60)
'{:>{w}}'.format('a', w=n)
'{0:d}'.format(n)
random.Random(n).random()
random.Random(1).randint(0, n)
random.Random(1).getrandbits(n)
random.Random(1).sample(range(10), n)
random.Random(1).choices(range(10), k=n)
np.full((2,), n)
np.full(n, 1.0)
np.zeros((n, n))
np.arange(n)
np.array([n, n])
np.int64(n)
np.float32(n)
np.linspace(0, 1, n)
np.eye(n)
np.arange(10)[n]
np.arange(10)[:n]
np.arange(3) + n
np.arange(6).reshape(n, -1)
np.random.default_rng(n).random()
np.ones([2, n])
np.sqrt(n)
np.maximum(n, 2)
(lambda a: (a.__setitem__(0, n), a)[1])(np.zeros(3))
np.roll(np.arange(5), n)
np.tile([1, 2], n)
np.asarray(n).dtype
np.isin(n, [3])
np.clip(n, 0, 2)
np.round(n, 1)
n + np.arange(3)
n - np.float64(1)
n < np.float64(5)
[1, 2, 3, 4, 5][n]
[1, 2, 3, 4, 5][:n]
list(range(9))[::n]
[0] * n
n * [0]
'a' * n
n * 'a'
b'a' * n
(1,) * n
(lambda l: (l.__setitem__(slice(0, n), [9]), l)[1])([1, 2, 3, 4])
(lambda l: (l.insert(n, 9), l)[1])([1, 2, 3, 4])
[1, 2, 3, 4].pop(n)
(lambda l: (l.__delitem__(n), l)[1])([1, 2, 3, 4, 5])
'abcdef'[n]
list(range(n))
range(0, 10, n)
n in range(5)
n in [1, 2, 3]
n in {1, 2, 3}
n in {3: 1}
[1, 2, 3].index(n)
[3, 2, 3].count(n)
{3: 'x'}[n]
{n: 1}
{n, 3}
{3: 'x'}.get(n)
min(n, 5)
max(n, 5)
max([n, 1, 2])
sum([n, 1])
sorted([n, 1, 9])
sorted([1, 2, 3], key=lambda v: v * -n)
any([n])
all([n])
abs(-n)
n.bit_length()
n.to_bytes(2, 'big')
n.real
n.imag
n.conjugate()
n.as_integer_ratio()
n.numerator
n.bit_count()
int.from_bytes(bytes([n]), 'big')
int(n)
float(n)
complex(n)
complex(1, n)
bool(n)
str(n)
repr(n)
hash(n)
operator.index(n)
isinstance(n, int)
isinstance(n, __import__('numbers').Integral)
isinstance(n, (int, float))
int(str(n))
int('11', n)
n << 1
1 << n
n >> 1
n & 1
n | 8
n ^ 1
-n
+n
n // 2
n % 2
n ** 2
2 ** n
n ** (-1)
n ** 0.5
n / 2
2 / n
n * 1j
17 // n
17 % n
17 - n
decimal.Decimal(1) + n
fractions.Fraction(1, 2) * n
n + fractions.Fraction(1, 2)
n * decimal.Decimal('1.5')
n * datetime.timedelta(1)
datetime.timedelta(1) * n
datetime.timedelta(6) / n
n == decimal.Decimal(3)
n < fractions.Fraction(9, 2)
fractions.Fraction(3) == n
n == None
n != 'a'
(lambda v: operator.iadd(v, n))(1)
list(itertools.islice(range(9), n))
list(itertools.repeat(1, n))
len(list(itertools.combinations(range(5), n)))
len(list(itertools.product([1, 2], repeat=n)))
next(itertools.count(n))
list(itertools.accumulate([n, 1]))
functools.reduce(operator.add, [n, 1])
functools.lru_cache(lambda v: v + 1)(n)
functools.partial(pow, 2)(n)
list(enumerate('ab', n))
list(zip([n], [1]))
slice(0, n).indices(10)
slice(None).indices(n)
bytes(memoryview(b'abcdef')[:n])
array.array('i', [n, 1])
array.array('d', [n])
array.array('i', [1]) * n
heapq.nsmallest(n, [3, 1, 2, 5])
bisect.bisect([1, 2, 3, 4], n)
collections.Counter({'a': n})['a']
collections.Counter('aabbc').most_common(n)
'a'.ljust(n)
'1'.zfill(n)
'a'.center(n, '*')
'\ta'.expandtabs(n)
'a b c d e'.split(' ', n)
','.join(map(str, [n, n]))
'aaaa'.replace('a', 'b', n)
'abcabc'.find('a', n)
textwrap.wrap('aa bb cc dd', n + 2)
pickle.loads(pickle.dumps(n))
copy.copy(n)
copy.deepcopy([n])
(lambda d: (d.rotate(n), d)[1])(collections.deque([1, 2, 3, 4]))
io.BytesIO(b'abcdef').read(n)
io.StringIO('abcdef').read(n)
(lambda b: (b.seek(n), b.read())[1])(io.BytesIO(b'abcdef'))
re.findall('a{%d}' % n, 'aaaaaa')
re.sub('a', 'b', 'aaaa', n)
hashlib.sha256(str(n).encode()).hexdigest()[:8]
cmath.sqrt(n)
ctypes.c_int(n).value
len((ctypes.c_int * n)())
str(uuid.UUID(int=n))
str(ipaddress.ip_address(n))
calendar.monthrange(2020, n)
zlib.compress(b'aaa', n)
base64.b64encode(bytes([n]))
string.Template('$a').substitute(a=n)
collections.namedtuple('T', 'a')(n).a
types.SimpleNamespace(a=n).a
time.gmtime(n).tm_year
zlib.crc32(b'a', n)
(lambda s: (csv.writer(s).writerow([n]), s.getvalue())[1])(io.StringIO())
pprint.pformat([n])
{3: 'three'}.get(n)
operator.itemgetter(n)([1, 2, 3, 4, 5])
operator.methodcaller('bit_length')(n)
'abcdef'[n:]
sum([1, 2], n)
round(n / 2)
math.pow(n, 2)
math.fmod(n, 2)
math.nextafter(n, 9)
[v for v in range(n)]
(m := n) + m
0 < n < 5
1 if n > 2 else 0
not n
(n > 2) is True
divmod(-7, n)
n.__add__(1)
int.__add__(n, 1)
int.bit_length(n)
float.hex(float(n))
'{a}'.format_map({'a': n})
min([1, 2, 3], key=lambda v: abs(v - n))
Color(n)
list(Color)[n]
n < Color.D
n == None
n != 'a'
sqlite3.connect(':memory:').execute('select ?', (n,)).fetchone()
(random.seed(n), random.random())[1]
""".strip().splitlines()
OF_FLOATS = r"""
json.dumps({'loss': n})
json.dumps([n])
decimal.Decimal(n)
fractions.Fraction(n)
fractions.Fraction.from_float(n)
decimal.Decimal.from_float(n)
fractions.Fraction(n).limit_denominator(10)
statistics.mean([n, 2.0])
statistics.fmean([n, 2.0])
statistics.stdev([n, 2.0, 7])
statistics.median([n, 2.0, 7])
statistics.NormalDist(n, 1).cdf(0)
statistics.quantiles([n, 1, 2, 3])
datetime.timedelta(seconds=n)
datetime.timedelta(2) * n
n * datetime.timedelta(2)
datetime.datetime.fromtimestamp(n, datetime.timezone.utc)
struct.pack('<d', n)
struct.pack('<f', n)
pow(n, 2)
divmod(n, 2)
divmod(7, n)
round(n)
round(n, 1)
int(n)
math.trunc(n)
math.floor(n)
math.ceil(n)
math.atan2(n, 1)
math.hypot(n, 1)
math.fsum([n, 0.1])
math.prod([n, 2])
math.isclose(n, 2.5)
math.copysign(n, -1.0)
math.ldexp(n, 2)
math.dist([n], [0.0])
math.remainder(n, 2)
f'{n}'
f'{n:.2f}'
'%f' % n
'%d' % n
'%s' % n
'%g' % n
'%.3e' % n
'{:6.2f}'.format(n)
str(n)
repr(n)
random.Random(1).uniform(0, n)
random.Random(1).gauss(n, 1)
np.full((2,), n)
np.array([n])
np.float32(n)
np.float64(n)
np.sqrt(n)
np.arange(3) + n
n * np.arange(3)
(lambda a: (a.__setitem__(0, n), a)[1])(np.zeros(3))
np.isnan(n)
np.mean([n, 1.0])
np.clip(n, 0, 1)
np.linspace(0, n, 3)
np.where(n > 1, n, 0.0)
min(n, 1.0)
max(n, 1.0)
sum([n, 1.0])
sorted([n, 1.0])
hash(n)
{n: 1}
{n}
n in [2.5]
n.is_integer()
n.hex()
n.as_integer_ratio()
n.real
n.conjugate()
complex(n)
complex(1, n)
cmath.exp(n)
bool(n)
float(n)
n // 2
n % 2
n ** 2
2 ** n
-n
abs(n)
n * 1j
n + fractions.Fraction(1, 2)
n == decimal.Decimal('2.5')
n < fractions.Fraction(9, 2)
array.array('d', [n])
array.array('f', [n])
pickle.loads(pickle.dumps(n))
copy.deepcopy(n)
ctypes.c_double(n).value
ctypes.c_float(n).value
isinstance(n, float)
float.hex(n)
float.__add__(n, 1.0)
bisect.bisect([1.0, 2.0, 3.0], n)
(lambda h: (heapq.heappush(h, n), h)[1])([1.0])
(lambda s: (csv.writer(s).writerow([n]), s.getvalue())[1])(io.StringIO())
list(itertools.accumulate([n, 1.0]))
collections.Counter({'a': n})
[n, (n,)]
float.__round__(n)
n < float('inf')
n == float('nan')
statistics.variance([n, 1.0, 2.0])
statistics.correlation([n, 1.0, 2.0], [1.0, 2.0, 4.0])
time.gmtime(n).tm_year
int(n).to_bytes(1, 'big')
f'{n:%}'
pprint.pformat({'a': n})
math.sqrt(n)
math.exp(n)
math.log(n)
math.log2(n)
math.sin(n)
math.tan(n)
math.atan(n)
math.sinh(n)
math.gamma(n)
math.erf(n)
math.fabs(n)
math.isnan(n)
math.modf(n)
math.frexp(n)
math.ulp(n)
locale.format_string('%.1f', n)
sqlite3.connect(':memory:').execute('select ?', (n,)).fetchone()
(random.seed(n), random.random())[1]
""".strip().splitlines()

SPACE = {module.__name__: module for module in MODULES} | {"np": np, "Color": Color}
SOURCES = {
    "size": (OF_INTEGERS, lambda x: x.shape[0], [jit.ones(3), jit.ones(4), jit.ones(5)]),
    "integer": (OF_INTEGERS, lambda x: x.sum().item(), [jit.tensor([1, 2]), jit.tensor([2, 2])]),
    "float": (OF_FLOATS, lambda x: x.sum().item(), [jit.tensor([1.0, 1.5]), jit.tensor([1.5, 1.5])]),
}
CASES = [(source, text) for source, (texts, _, _) in SOURCES.items() for text in texts]


def shown(value):
    """A value as text, as plain as it is: what of it is still traced counts as what it stands for."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.tolist()}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} {list(map(shown, value))}"
    return f"{value.__class__.__name__} {value!r}"


def outcome(f, n):
    try:
        return shown(f(n))
    except Exception as error:
        return f"{type(error).__name__} {error}"


WAYS = ("as it is", "by another name", "afterwards")


def sampled(*ways):
    """Each case in each of some ways; one way in turn of every other case is tested everywhere, the rest is slow."""
    for number, (source, text) in enumerate(CASES):
        for place, way in enumerate(ways):
            marks = () if number % 2 == 0 and place == number // 2 % len(ways) else pytest.mark.slow
            yield pytest.param(source, text, way, id=f"{source} {text[:60]}-{way}", marks=marks)


@pytest.mark.parametrize(("source", "text", "way"), sampled(*WAYS))
def test_a_traced_number_is_a_number(source, text, way):
    """In the first call and in later ones, whether or not the code says what it will do with the number.

    By another name nothing of what is called stands in code before it runs; afterwards a tensor has been written to
    and random numbers have been drawn by then, which has to happen once.
    """
    _, read, arguments = SOURCES[source]
    function = eval(f"lambda n: {text}", dict(SPACE))
    hidden = {"function": function}

    def directly(x):
        function(read(x))
        return x + 1

    def by_another_name(x):
        n = read(x)
        hidden["function"](n)
        return x + 1

    def afterwards(x):
        count.add_(1)
        drawn, n = jit.rand(1), read(x)
        hidden["function"](n)
        return x + drawn

    f = {"as it is": directly, "by another name": by_another_name, "afterwards": afterwards}[way]
    traced, count = jit.trace(f, optimize=False), jit.zeros(1)
    if "sqlite3" in text and f is not directly:  # nobody knows whether a database may be opened twice
        with pytest.raises(jit.TraceError, match=r"test_plain_numbers.py:\d+ in .*give it int\(n\) or float\(n\)"):
            traced(arguments[0])
    for x in (*arguments[:2], arguments[0]):
        found = []
        for called in (f, traced):
            count = jit.zeros(1)
            jit.manual_seed(3)
            found.append((outcome(called, x.clone()), count.item(), jit.rand(1).item()))
        assert found[0] == found[1]


@pytest.mark.parametrize(("source", "text", "place"), sampled(0, 1, 2))
def test_what_is_made_of_a_traced_number_is_what_is_made_of_a_number(source, text, place):
    _, read, arguments = SOURCES[source]
    function = eval(f"lambda n: {text}", dict(SPACE))
    kind = float if source == "float" else int
    seen: list = []

    @jit.trace(optimize=False)
    def f(x):
        n = read(x)
        seen.append(outcome(hidden["function"], n))
        return x + 1

    hidden, x = {"function": function}, arguments[place % len(arguments)]
    f(x)
    assert seen[-1] == outcome(function, kind(read(x)))


def test_mistakes_of_the_function_itself_stay_what_they_are():
    for f in (lambda x: x.shape[0] + "a", lambda x: "a" + x.sum().item(), lambda x: int("no") + x.shape[0]):
        with pytest.raises((TypeError, ValueError)) as eager:
            f(jit.ones(2))
        with pytest.raises(type(eager.value)):
            jit.trace(f)(jit.ones(2))


def test_what_is_computed_is_guarded():
    """A number that foreign code has seen is part of the path: another one is computed anew."""
    f = jit.trace(lambda x: x * (1 if x.sum().item() * fractions.Fraction(1, 2) > 2 else 2))
    assert [f(jit.full((2,), v)).tolist()[0] for v in (1.0, 2.0, 3.0, 1.0)] == [2.0, 4.0, 3.0, 2.0]
    g = jit.trace(lambda x: x * ~x.shape[0] + pow(x.shape[0], 3, 7))
    assert [g(jit.ones(n)).tolist()[0] for n in (2, 3, 4, 5, 2)] == [~n + pow(n, 3, 7) for n in (2, 3, 4, 5, 2)]


# -- functions that are run anew ----------------------------------------------------------------------------------

HIDDEN: dict[str, Any] = {"deque": collections.deque, "dumps": json.dumps, "sum": sum}


def test_a_function_that_fits_traced_numbers_keeps_one_recording_for_all_sizes():
    """Errors in C that have nothing to do with traced numbers are looked into once."""

    def f(x):
        n = x.shape[0]
        with contextlib.suppress(ValueError):
            int("no")
        return x * n

    traced = jit.trace(f)
    for size in (2, 3, 4, 5, 6):
        assert traced(jit.ones(size)).tolist() == [size] * size
    assert traced.misses == 2


def test_an_error_that_the_function_raises_itself_is_raised_by_one_run():
    runs = itertools.count()

    class Loud(jit.nn.Module):
        def forward(self, x):
            if x.shape[0] > 2:
                runs.__next__()
                raise ValueError(f"too long: {x.shape[0]}")
            return x

    with pytest.raises(ValueError, match="too long: 3"):
        jit.trace(Loud())(jit.ones(3))
    assert next(runs) == 1


def test_what_a_run_has_changed_in_python_is_not_changed_twice():
    seen = []

    def f(x):
        seen.append(1)
        n = x.shape[0]
        return x * len(HIDDEN["deque"](range(9), n))

    traced = jit.trace(f)
    with pytest.raises(TypeError, match=r"give it int\(n\)"):
        traced(jit.ones(3))
    assert seen == [1]
    assert traced(jit.ones(3)).tolist() == [3.0] * 3
    assert seen == [1, 1]


def test_memory_gradients_and_modes_are_put_back_before_a_second_run():
    def f(x, w):
        x.mul_(2)
        (w * x).sum().backward()
        with jit.no_grad():
            w -= w.grad
        jit.set_grad_enabled(False)
        n = x.shape[0]
        length = len(HIDDEN["deque"](range(9), n))
        jit.set_grad_enabled(True)
        return x * length

    def after(f):
        x, w = jit.ones(3), jit.full((3,), 5.0, requires_grad=True)
        made = f(x, w)
        return made.tolist(), x.tolist(), w.tolist(), w.grad.tolist(), x._version, w.is_leaf, w.requires_grad

    assert after(jit.trace(f)) == after(f)
    g = jit.trace(f)
    assert [after(g) for _ in range(3)] == [after(f)] * 3


def test_a_captured_tensor_that_was_written_to_keeps_its_history():
    def after(wrap):
        w = jit.ones(3, requires_grad=True)
        state = w * 1
        f = wrap(lambda x: (state.mul_(2), x * len(HIDDEN["deque"](range(9), x.shape[0])))[1])
        f(jit.ones(2))
        state.sum().backward()
        return state.tolist(), w.grad.tolist()

    assert after(jit.trace) == after(lambda f: f)


@pytest.mark.parametrize("catch", ["except TypeError", "except (KeyError, TypeError)", "except Exception", "except"])
def test_an_error_that_a_traced_number_causes_and_the_function_catches_does_not_come(catch):
    space: dict[str, Any] = {"take": struct.Struct("q").pack}
    exec(f"def f(x):\n try:\n  k = len(take(x.shape[0]))\n {catch}:\n  k = 100\n return x * k\n", space)
    f = space["f"]
    traced = jit.trace(f)
    for size in (2, 3, 4, 2):
        assert traced(jit.ones(size)).tolist() == f(jit.ones(size)).tolist()


def test_code_that_asks_for_exact_types_late_is_answered_in_the_first_call():
    def late(n):
        return 1 if type(n) is int else 2

    hidden = {"late": late}
    f = jit.trace(lambda x: x * hidden["late"](x.shape[0]))
    assert [f(jit.ones(n)).tolist() for n in (1, 2, 1)] == [[1.0], [1.0, 1.0], [1.0]]
    assert f.hits == 1, f.explain()


def test_what_is_printed_by_a_run_that_is_put_aside_is_printed_again(capsys):
    f = jit.trace(lambda x: (print("here"), x * len(HIDDEN["deque"](range(9), x.shape[0])))[1])
    assert f(jit.ones(2)).tolist() == [2.0, 2.0]
    assert capsys.readouterr().out == "here\nhere\n"
