"""`save`: every process writes a share of the tensors, and the first one the index."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from jit.eager.tensors import Tensor
from jit.ir import dtypes
from jit.ir.files import replacing

from ..faults import ContentError
from ..safe_tensors import DTYPES, write_tensors
from .faults import CheckpointError
from .index import INDEX, CheckpointIndex, StoredTensor, StoredValue
from .places import chosen
from .ranks import Ranks
from .trees import as_json, leaves, name_of

_PART = re.compile(r"\.?(index\.json\.|[0-9a-f]{16}-\d+\.safetensors(\.|$)).*")
"""The names of files that saves make and that are removed when no index names them: parts, and temporary files."""


def save(
    state_dict: Mapping[str, Any], *, checkpoint_id: Any = None, storage_writer: Any = None, planner: Any = None,
    process_group: Any = None, no_dist: bool = False,
) -> CheckpointIndex:  # fmt: skip
    """Write a checkpoint that any number of processes can load; all processes of the group call this.

    A tensor that several processes have under one name is written by one of them, so it has to be equal in all. What
    only one has, such as a part of an optimizer's state, is written by that one. See Note [A checkpoint is its index]
    in `jit.files.sharded` for what is there when a process is killed.

    Args:
        state_dict: Tensors, numbers and text in nested dictionaries and lists; also modules, optimizers and whatever
            else has `state_dict()` and `load_state_dict(...)`.
        checkpoint_id: The path of a folder, the same in all processes. A checkpoint in it is replaced.
        storage_writer: A `FileSystemWriter` instead of the path.
        planner: Refused: there is one way to share the work.
        process_group: The processes; all if left out.
        no_dist: Whether this process saves alone.

    Returns:
        What the checkpoint holds.

    Raises:
        ContentError: It holds what no checkpoint can.
        CheckpointError: Another process has failed, or tensors of one name differ in size or dtype.
        Error: The files cannot be written. In all these cases, a whole checkpoint is there if there was one.
    """
    folder = chosen(checkpoint_id, storage_writer, planner)
    ranks = Ranks(process_group, no_dist)
    held: dict[str, Tensor] = {}
    announced = ranks.done(lambda: _announced(state_dict, held))
    generation = ranks.all(secrets.token_hex(8))[0]
    index = shared_out(announced, generation)
    sizes = ranks.done(lambda: _write_part(folder, index, ranks, held))
    index.files = {name: size for part in sizes for name, size in part.items()}
    ranks.done(lambda: _publish(folder, index) if ranks.rank == 0 else None)
    return index


def state_of(value: Any) -> Any:
    """The state of an object that has one; the object itself otherwise."""
    if not hasattr(value, "load_state_dict"):
        return value
    shard = getattr(value, "shard_state_dict", None)
    return value.state_dict() if shard is None else shard()


def _announced(state_dict: Mapping[str, Any], held: dict[str, Tensor]) -> CheckpointIndex:
    """The contents that this process has; their tensors are put into `held`."""
    own = CheckpointIndex()
    for path, value in leaves({key: state_of(value) for key, value in state_dict.items()}):
        name = name_of(path)
        if name in own.tensors or name in own.values:
            raise ContentError(f"two entries of the checkpoint have the name {name!r}; rename one of them")
        if isinstance(value, Tensor):
            _check_writable(name, value)
            held[name] = value
            own.tensors[name] = StoredTensor(path, value.dtype.name, tuple(value.shape))
        else:
            own.values[name] = StoredValue(path, as_json(value, name))
    return own


def _check_writable(name: str, tensor: Tensor) -> None:
    """ContentError for a tensor that files of safetensors do not hold; found before anything is written."""
    if tensor.dtype not in DTYPES.values():
        raise ContentError(f"{name!r} is of {tensor.dtype}, which files of safetensors do not hold; convert it")
    tensor._defined()


# -- who writes what -------------------------------------------------------------------------------------------------


def shared_out(announced: Sequence[CheckpointIndex], generation: str) -> CheckpointIndex:
    """The index of all that the processes have, the same in each: every tensor has the file of one that has it.

    Args:
        announced: What each process has.
        generation: The beginning of the names of the files.

    Raises:
        CheckpointError: Tensors of one name differ in size or dtype, or a tensor has the name of something else.
    """
    whole = CheckpointIndex()
    owners: dict[str, list[int]] = {}
    for rank, own in enumerate(announced):
        for name, tensor in own.tensors.items():
            known = whole.tensors.setdefault(name, tensor)
            if known != tensor:
                raise CheckpointError(
                    f"process {owners[name][0]} has {name!r} as {known.dtype} of sizes {list(known.shape)}, and "
                    f"process {rank} as {tensor.dtype} of sizes {list(tensor.shape)}; give them names of their own"
                )
            owners.setdefault(name, []).append(rank)
        whole.values = {**own.values, **whole.values}
    if both := whole.values.keys() & whole.tensors.keys():
        raise CheckpointError(f"{min(both)!r} is a tensor in one process and none in another; rename one of them")
    files = [f"{generation}-{rank}.safetensors" for rank in range(len(announced))]
    for name, rank in _balanced(whole.tensors, owners, len(files)).items():
        whole.tensors[name] = replace(whole.tensors[name], file=files[rank])
    return whole


def _balanced(tensors: Mapping[str, StoredTensor], owners: Mapping[str, list[int]], count: int) -> dict[str, int]:
    """The process that writes each tensor, so that all have about as much to write."""
    loads = [0] * count
    found: dict[str, int] = {}
    for name in sorted(tensors, key=lambda name: (len(owners[name]) > 1, -_bytes(tensors[name]), name)):
        found[name] = rank = min(owners[name], key=lambda rank: (loads[rank], rank))
        loads[rank] += _bytes(tensors[name])
    return found


def _bytes(tensor: StoredTensor) -> int:
    size = dtypes.by_name(tensor.dtype).itemsize
    for each in tensor.shape:
        size *= each
    return size


# -- files -----------------------------------------------------------------------------------------------------------


def _write_part(folder: FilePath, index: CheckpointIndex, ranks: Ranks, held: Mapping[str, Tensor]) -> dict[str, int]:
    """Write the share of this process; the name and the size of its file, or nothing if it has none."""
    suffix = f"-{ranks.rank}.safetensors"
    own = {name: held[name] for name, each in index.tensors.items() if each.file.endswith(suffix)}
    if not own:
        return {}
    file_name = next(index.tensors[name].file for name in own)
    with replacing(folder / file_name, durable=True) as file:
        write_tensors(own, file)
    return {file_name: (folder / file_name).stat().st_size}


def _publish(folder: FilePath, index: CheckpointIndex) -> None:
    """Let the checkpoint be the one in the folder, and remove what was there before."""
    with replacing(folder / INDEX, durable=True) as file:
        file.write(index.text().encode())
    for path in folder.iterdir():
        if _PART.fullmatch(path.name) and path.name not in index.files:
            with suppress(OSError):  # the checkpoint is there; the next save tries again
                path.unlink()
