"""The kinds of files: what a file is, told by its first bytes, and who can open it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .faults import FileError

HEAD = 4096
"""The number of bytes of a file that are looked at."""
TORCH_STREAM = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")
"""The magic number of torch's older format, pickled by protocol 2."""
ZIP = (b"PK\3\4", b"PK\5\6", b"PK\7\x08")

_BY_START: tuple[tuple[bytes, str], ...] = (
    (b"version https://git-lfs", "a pointer of git-lfs and not the file itself; `git lfs pull` fetches that"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes; h5py opens it: jit.from_numpy(h5py.File(path)[name][:])"),
    (b"GGUF", "a GGUF file of llama.cpp; its package gguf opens it: gguf.GGUFReader(path).tensors"),
    (b"\x93NUMPY", "an array of numpy; numpy opens it: jit.from_numpy(numpy.load(path))"),
    (b"\x1f\x8b", "compressed by gzip; unpack it with gunzip first"),
    (b"BZh", "compressed by bzip2; unpack it with bunzip2 first"),
    (b"\xfd7zXZ\0", "compressed by xz; unpack it with unxz first"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it with unzstd first"),
    (b"7z\xbc\xaf", "an archive of 7-Zip; unpack it with 7z first"),
    (b"Rar!", "a RAR archive; unpack it with unrar first"),
    (b"ftrt", "an engine of TensorRT, which that library alone runs"),
    (b"\x89PNG", "a picture; Pillow opens it"),
    (b"\xff\xd8\xff", "a picture; Pillow opens it"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program or a native library, not a file of tensors"),
    (b"PAR1", "a Parquet table; pandas or pyarrow opens it"),
    (b"ARROW1", "an Arrow table; pyarrow opens it"),
)
_TAR = "a tar archive; unpack it with tar first. If torch 0.1 wrote it, torch.load and torch.save make a .pt of it"
_PICKLE = (
    "a pickle, and none of torch's; whoever made it can open it with the pickle module, which runs what it names, and "
    "save what is in it with jit.save"
)
_IN_ZIP: tuple[tuple[str, str], ...] = (
    (
        "constants.pkl",
        "a program of TorchScript; torch.jit.load(path).state_dict() has its tensors, torch.onnx.export its graph",
    ),
    (".data/extern_modules", "a package of torch.package, which is code; torch.package.PackageImporter runs it"),
    ("archive_format", "a program of torch.export; torch.export.load(path).state_dict has its tensors"),
    ("serialized_exported_program.json", "a program of torch.export; torch.export.load opens it"),
    ("model.weights.h5", "a model of Keras; keras.saving.load_model opens it, and h5py the weights in it"),
    ("__MACOSX/", "a zip archive of several files; unpack it first"),
)
_IN_FOLDER: tuple[tuple[str, str], ...] = (
    ("saved_model.pb", "a SavedModel of TensorFlow; tensorflow.saved_model.load opens it, tf2onnx makes ONNX of it"),
    ("model.safetensors", "a model of Hugging Face; load the file model.safetensors in it"),
    ("model.safetensors.index.json", "a model of Hugging Face in parts; load each .safetensors file in it"),
    ("pytorch_model.bin", "a model of Hugging Face; load the file pytorch_model.bin in it"),
    (".metadata", "a checkpoint of torch.distributed; dcp_to_torch_save of torch makes a .pt file of it"),
    ("index.json", "a checkpoint in parts, perhaps; jit.distributed.checkpoint.load opens those"),
    ("data.pkl", "a file of torch that was unpacked; zip it again, uncompressed: zip -0 -r file.pt folder"),
)
_PAGE = (b"<!doctype html", b"<html", b"<head", b"<!--")


def kind_of_start(head: bytes, name: str) -> str:
    """A sentence on what a file is, and who can open it, for one that is not loaded here.

    Args:
        head: Its first bytes.
        name: Its name.
    """
    for start, told in _BY_START:
        if head.startswith(start):
            return told
    if head[4:8] == b"TFL3":
        return "a model of TensorFlow Lite; its interpreter runs it, tf2onnx makes ONNX of it"
    if head[257:262] == b"ustar" or _is_tar(head):
        return _TAR
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        return _PICKLE
    return _kind_of_text(head, name) or _kind_by_name(head, name)


def _is_tar(head: bytes) -> bool:
    """Whether a file is an archive of the first tar: a name, and numbers in octal digits at their places."""
    digits = head[100:107] + head[124:135]
    return len(head) >= 512 and head[0] > 0 and all(byte in b"01234567 " for byte in digits) and len(digits) == 18


def _kind_of_text(head: bytes, name: str) -> str | None:
    if head.lstrip().lower().startswith(_PAGE):
        return "a web page, probably one that says why there was no download; open it in a browser"
    if b"\0" in head or not _is_text(head):
        return None
    first = head.lstrip()[:1]
    if name.endswith(".index.json") and first == b"{":
        return "a table of the parts of a model; load each file that it names"
    return "JSON; the json module opens it" if first in (b"{", b"[") else "text, and not a file of tensors"


def _is_text(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return len(head) == HEAD and error.start > HEAD - 4  # a character is cut in two
    return bool(head)


def _kind_by_name(head: bytes, name: str) -> str:
    if _is_onnx(head) or name.endswith(".onnx"):
        return "a model of ONNX; jit.import_onnx(path) opens it"
    if name.endswith((".pb", ".pbtxt")):
        return "a graph of TensorFlow; tensorflow opens it, tf2onnx makes ONNX of it"
    if name.endswith((".ckpt", ".index")) or ".data-0000" in name:
        return "perhaps a checkpoint of TensorFlow; tensorflow.train.load_checkpoint opens that"
    return "of no kind that is known here, or its beginning is damaged"


def _is_onnx(head: bytes) -> bool:
    """Whether a file begins like a ModelProto: a version of the format, then the name of who wrote it, or the graph."""
    return len(head) > 2 and head[0] == 0x08 and 1 <= head[1] <= 20 and head[2] in (0x12, 0x1A, 0x3A, 0x42)


def kind_of_zip(names: Iterable[str]) -> str:
    """A sentence on what a zip file is, and who can open it, by the names of its members."""
    listed = list(names)
    for part, told in _IN_ZIP:
        if any(part in name for name in listed):
            return told
    if listed and all(name.endswith(".npy") for name in listed):
        return "several arrays of numpy; numpy.load(path) opens it, and jit.from_numpy takes each array in it"
    return "a zip archive without tensors in it; unpack it first"


def check_no_folder(path: Path) -> None:
    """Make sure that a path is none of a folder.

    Raises:
        FileError: It is; the error says of what.
    """
    if not path.is_dir():
        return
    held = {each.name for each in path.iterdir()}
    told = next((told for name, told in _IN_FOLDER if name in held), "a folder; name a file in it")
    raise FileError(f"{path} cannot be loaded: it is no file, but {told}")
