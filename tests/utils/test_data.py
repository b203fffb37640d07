"""`jit.utils.data`: what loaders, samplers and data sets give, here and in workers; what they refuse."""

import collections
import os
import pickle
import random
import time
from itertools import chain
from typing import Any

import numpy as np
import pytest

import jit
from jit.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)  # fmt: skip

Point = collections.namedtuple("Point", "x y")


class Numbers(Dataset):
    def __init__(self, count=10, at_seven=None):
        self.count, self.at_seven = count, at_seven

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == 7 and self.at_seven is not None:
            self.at_seven()
        return jit.tensor([float(index)]), index


class Shares(IterableDataset):
    """The numbers up to 10, shared among the workers."""

    def __iter__(self):
        info = get_worker_info()
        return iter(range(10)) if info is None else iter(range(info.id, 10, info.num_workers))


class Large(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return {"image": jit.full((40, 1000), float(index)), "half": jit.full((999,), float(index), dtype=jit.bfloat16)}


class Draws(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return random.random(), float(np.random.rand()), float(jit.rand(())), vars(get_worker_info())["seed"]


def raise_key_error():
    raise KeyError("seven")


class Odd(Exception):
    def __init__(self, first, second):
        super().__init__(first, second)


def raise_odd():
    raise Odd(1, 2)


def die():
    os._exit(3)


def sleep():
    time.sleep(60)


def remember_id(worker):
    global remembered
    remembered = worker


remembered = None


class Remembered(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return remembered


def labels(loader):
    return [batch[1].tolist() for batch in loader]


# -- data sets -------------------------------------------------------------------------------------------------------


def test_data_sets_of_data_sets():
    tensors = TensorDataset(jit.arange(4), jit.arange(4) * 2)
    assert [int(t) for t in tensors[3]] == [3, 6] and len(tensors) == 4
    joined = Numbers(3) + Numbers(2)
    assert len(joined) == 5 and joined[3][1] == 0 and joined[-1][1] == 1 and joined.cumulative_sizes == [3, 5]
    assert list(ChainDataset([Shares(), Shares()])) == [*range(10), *range(10)]
    assert list(Shares() + Shares()) == [*range(10), *range(10)]
    assert StackDataset(a=Numbers(2), b=range(2))[1]["b"] == 1
    assert StackDataset(range(3), range(3)).__getitems__([2, 0]) == [(2, 2), (0, 0)]
    subset: Any = Subset(range(10), [5, 6, 7])
    assert len(subset) == 3 and subset[1] == 6 and subset.__getitems__([2, 0]) == [7, 5]


def test_data_sets_that_do_not_fit():
    with pytest.raises(ValueError, match="size mismatch"):
        TensorDataset(jit.ones(2), jit.ones(3))
    with pytest.raises(ValueError, match="should not be an empty"):
        ConcatDataset([])
    with pytest.raises(ValueError, match="IterableDataset"):
        ConcatDataset([Shares()])
    with pytest.raises(ValueError, match="exceed dataset length"):
        ConcatDataset([range(3)])[-4]
    with pytest.raises(ValueError, match="at least one"):
        StackDataset()
    with pytest.raises(NotImplementedError, match="__getitem__"):
        Dataset()[0]


def test_random_split():
    parts: Any = random_split(range(10), [3, 7], jit.Generator().manual_seed(1))
    assert sorted([*parts[0], *parts[1]]) == list(range(10)) and [len(p) for p in parts] == [3, 7]
    again = random_split(range(10), [3, 7], jit.Generator().manual_seed(1))
    assert [p.indices for p in parts] == [p.indices for p in again]
    assert [len(p) for p in random_split(range(17), [1 / 3, 1 / 3, 1 / 3])] == [6, 6, 5]
    with pytest.raises(ValueError, match="does not equal"):
        random_split(range(10), [3, 3])
    with pytest.raises(ValueError, match="not between"):
        random_split(range(10), [2.0, -1.0])


# -- samplers --------------------------------------------------------------------------------------------------------


def test_samplers():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    generator = jit.Generator().manual_seed(3)
    assert sorted(RandomSampler(range(9), generator=generator)) == list(range(9))
    assert len(list(RandomSampler(range(3), num_samples=7))) == 7
    drawn = list(RandomSampler(range(5), replacement=True, num_samples=100))
    assert len(drawn) == 100 and set(drawn) == set(range(5))
    assert sorted(SubsetRandomSampler([4, 8, 2])) == [2, 4, 8]
    assert set(WeightedRandomSampler([0.0, 1.0, 1.0], 50)) == {1, 2}
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]] and len(BatchSampler(range(5), 2, False)) == 3


def test_orders_follow_from_the_seed():
    jit.manual_seed(5)
    first, second = list(RandomSampler(range(100))), list(RandomSampler(range(100)))
    jit.manual_seed(5)
    assert list(RandomSampler(range(100))) == first != second


def test_distributed_samplers_share_the_samples():
    parts = [list(DistributedSampler(range(10), 3, rank, seed=1)) for rank in range(3)]
    assert [len(part) for part in parts] == [4, 4, 4] and {i for part in parts for i in part} == set(range(10))
    short = [list(DistributedSampler(range(10), 3, rank, drop_last=True)) for rank in range(3)]
    assert len({i for part in short for i in part}) == 9
    sampler = DistributedSampler(range(100))
    before = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != before and sorted(before) == list(range(100))
    with pytest.raises(ValueError, match="Invalid rank 2"):
        DistributedSampler(range(3), 2, 2)


@pytest.mark.parametrize(("size", "count"), [(0, 2), (1, 4), (5, 2), (5, 7), (10, 4), (12, 4)])
@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed_samplers_take_turns_in_an_order_that_is_filled_up(size, count, drop_last):
    order = jit.randperm(size, generator=jit.Generator().manual_seed(3 + 2)).tolist()
    share = size // count if drop_last else -(-size // count)
    filled = (order * (count * share // max(size, 1) + 1))[: count * share]
    for rank in range(count):
        sampler = DistributedSampler(range(size), count, rank, seed=3, drop_last=drop_last)
        sampler.set_epoch(2)
        assert list(sampler) == filled[rank::count] and len(sampler) == share


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomSampler(range(3), num_samples=-1), "num_samples"),
        (lambda: RandomSampler(range(3), replacement=1), "replacement"),  # type: ignore[arg-type]
        (lambda: WeightedRandomSampler([1.0], 0), "num_samples"),
        (lambda: WeightedRandomSampler([[1.0]], 1), "1d sequence"),  # type: ignore[list-item]
        (lambda: BatchSampler(range(3), 0, False), "batch_size"),
        (lambda: BatchSampler(range(3), 1, 0), "drop_last"),  # type: ignore[arg-type]
    ],
    ids=["negative", "no bool", "none", "matrix", "empty batches", "no bool to drop"],
)
def test_samplers_refuse(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


# -- batches ---------------------------------------------------------------------------------------------------------


def test_collating():
    made = default_collate([{"p": Point(1, 2.0), "s": "a"}, {"p": Point(3, 4.0), "s": "b"}])
    assert made["p"].x.tolist() == [1, 3] and made["p"].y.dtype is jit.float64 and made["s"] == ["a", "b"]
    assert default_collate([(np.float32(1), np.ones(2)), (np.float32(2), np.ones(2))])[0].dtype is jit.float32
    assert default_collate([True, False]).dtype is jit.bool
    assert default_collate([[jit.ones(2), 1], [jit.ones(2), 2]])[0].shape == (2, 2)
    with pytest.raises(TypeError, match="must contain tensors"):
        default_collate([object()])
    with pytest.raises(TypeError, match="must contain tensors"):
        default_collate([np.array(["a"]), np.array(["b"])])
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1], [1, 2]])


def test_converting():
    made = default_convert({"a": np.ones(2), "b": (1, np.array("x")), "c": Point(np.zeros(1), "s")})
    assert isinstance(made["a"], jit.Tensor) and isinstance(made["c"].x, jit.Tensor)
    assert made["b"][0] == 1 and made["c"].y == "s" and isinstance(made["b"][1], np.ndarray)


def test_passes():
    assert labels(DataLoader(Numbers(5), 2)) == [[0, 1], [2, 3], [4]]
    assert labels(DataLoader(Numbers(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert labels(DataLoader(Numbers(5), batch_sampler=[[4, 0], [1]])) == [[4, 0], [1]]
    assert labels(DataLoader(Numbers(5), 2, sampler=[3, 2, 1])) == [[3, 2], [1]]
    assert [i for _, i in DataLoader(Numbers(3), batch_size=None)] == [0, 1, 2]
    assert [b.tolist() for b in DataLoader(Shares(), 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(list(DataLoader(Shares(), 4, drop_last=True))) == 2
    assert list(DataLoader(Shares(), batch_size=None)) == list(range(10))
    assert len(DataLoader(Numbers(5), 2)) == 3 and len(DataLoader(Numbers(5), 2, drop_last=True)) == 2
    assert next(iter(DataLoader(Numbers(4), 4, collate_fn=len))) == 4


def test_shuffled_passes_follow_from_the_generator():
    def passes():
        loader: Any = DataLoader(Numbers(50), 50, shuffle=True, generator=jit.Generator().manual_seed(3))
        return labels(loader) + labels(loader)

    first, second = passes()
    assert [first, second] == passes() and first != second and sorted(first) == list(range(50))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "num_workers"),
        ({"timeout": -1}, "timeout"),
        ({"prefetch_factor": 2}, "prefetch_factor"),
        ({"persistent_workers": True}, "persistent_workers"),
        ({"shuffle": True, "sampler": [0]}, "mutually exclusive with shuffle"),
        ({"batch_size": 2, "batch_sampler": [[0]]}, "mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "auto-batching"),
        ({"multiprocessing_context": "fork"}, "num_workers > 0"),
        ({"multiprocessing_context": "spoon", "num_workers": 1}, "choose one of"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_loaders_refuse(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(Numbers(), **options)


def test_what_a_loader_is_made_for_stays():
    with pytest.raises(ValueError, match="shuffle"):
        DataLoader(Shares(), shuffle=True)
    with pytest.raises(ValueError, match="should not be set"):
        DataLoader(Numbers()).batch_size = 3


# -- workers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_give_what_the_main_process_gives(context):
    loader: Any = DataLoader(Numbers(11), 2, num_workers=2, multiprocessing_context=context)
    assert labels(loader) == labels(DataLoader(Numbers(11), 2))


def test_large_batches_cross_whole_and_can_be_written_to():
    (first, second) = DataLoader(Large(), 3, num_workers=1)
    assert first["image"].shape == (3, 40, 1000) and first["image"][2, 39, 999] == 2 and second["image"][0, 0, 0] == 3
    assert second["half"].dtype is jit.bfloat16 and second["half"][2].float().tolist() == [5.0] * 999
    first["image"].add_(1)
    assert first["image"][0, 0, 0] == 1


def test_workers_share_an_iterable_data_set():
    assert sorted(i for b in DataLoader(Shares(), 2, num_workers=3) for i in b.tolist()) == list(range(10))
    assert get_worker_info() is None


def test_batches_as_workers_get_ready():
    loader: Any = DataLoader(Numbers(20), 2, num_workers=2, in_order=False, prefetch_factor=3)
    assert sorted(chain(*labels(loader))) == list(range(20))


def test_persistent_workers_stay_for_another_pass():
    loader: Any = DataLoader(Numbers(8), 2, num_workers=2, persistent_workers=True, shuffle=True)
    passes = [labels(loader) for _ in range(3)]
    assert all(sorted(chain(*each)) == list(range(8)) for each in passes)
    kept = loader._kept
    next(iter(loader))  # a pass that is left early
    assert loader._kept is kept and sorted(chain(*labels(loader))) == list(range(8))
    kept.close()
    assert not any(process.is_alive() for process in kept._processes)


def test_workers_draw_numbers_of_their_own():
    def drawn():
        jit.manual_seed(9)
        return list(DataLoader(Draws(), batch_size=None, num_workers=2))

    first = drawn()
    assert first == drawn()
    assert len({each[3] for each in first}) == 2
    assert all(len({each[place] for each in first}) == 4 for place in range(3))


def test_the_init_function_runs_in_each_worker():
    loader: Any = DataLoader(Remembered(), batch_size=None, num_workers=2, worker_init_fn=remember_id)
    assert list(loader) == [0, 1, 0, 1] and remembered is None


def test_an_error_of_a_worker_is_raised_with_its_traceback():
    with pytest.raises(KeyError, match="in DataLoader worker process 1") as caught:
        list(DataLoader(Numbers(10, raise_key_error), 2, num_workers=2))
    assert "in raise_key_error" in str(caught.value)
    with pytest.raises(RuntimeError, match="Caught Odd"):
        list(DataLoader(Numbers(10, raise_odd), 2, num_workers=1))
    with pytest.raises((AttributeError, pickle.PicklingError), match="worker process 0"):
        list(DataLoader(range(2), 2, num_workers=1, collate_fn=lambda batch: lambda: batch))


def test_a_worker_that_dies_is_an_error():
    with pytest.raises(RuntimeError, match=r"exit code 3\)\) exited unexpectedly"):
        list(DataLoader(Numbers(10, die), 2, num_workers=2))


def test_waiting_has_an_end():
    loader: Any = DataLoader(Numbers(10, sleep), 8, num_workers=1, timeout=0.5)
    with pytest.raises(RuntimeError, match=r"timed out after 0\.5 seconds"):
        list(loader)


def test_workers_end_with_their_pass():
    passing = iter(DataLoader(Numbers(100), 2, num_workers=2))
    next(passing)
    processes = vars(passing)["_processes"]
    del passing
    assert not any(process.is_alive() for process in processes)


def test_a_network_learns_from_a_loader():
    jit.manual_seed(0)
    inputs = jit.randn(64, 3)
    data = TensorDataset(inputs, inputs @ jit.tensor([[1.0], [-2.0], [0.5]]))
    model = jit.nn.Linear(3, 1)
    optimizer = jit.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        for x, y in DataLoader(data, batch_size=16, shuffle=True):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
    assert loss.item() < 1e-4
