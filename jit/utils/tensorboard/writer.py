"""`SummaryWriter`: scalars, histograms, images and texts as events in a file that TensorBoard shows."""

from __future__ import annotations

import io
import json
import os
import socket
import time
import wave
from collections.abc import Mapping
from typing import Any

import numpy as np

from jit.eager.tensors import Tensor
from jit.ir.errors import UsageError
from jit.late import imported


class MissingPackageError(UsageError, ImportError):
    """The error for a package that is needed and not installed."""


def _package(module: str) -> Any:
    try:
        return imported(module)
    except ImportError as error:
        raise MissingPackageError(
            "SummaryWriter writes through the package tensorboard, which is not installed; pip install tensorboard"
        ) from error


def _array(value: Any) -> Any:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype.itemsize == 2 and value.is_floating_point() else value).numpy()
    return np.asarray(value)


class FileWriter:
    """A file of events.

    Args:
        log_dir: The folder.
        max_queue: The number of events that wait before they are written.
        flush_secs: The seconds between two times that all is written.
        filename_suffix: The end of the file's name.
    """

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = "") -> None:
        module = _package("tensorboard.summary.writer.event_file_writer")
        self._messages = _package("tensorboard.compat.proto.event_pb2")
        self.event_writer = module.EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        folder: str = self.event_writer.get_logdir()
        return folder

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Add an event.

        Args:
            summary: What it shows.
            global_step: The step that it belongs to.
            walltime: The time that it belongs to; now if left out.
        """
        event = self._messages.Event(summary=summary, wall_time=time.time() if walltime is None else walltime)
        if global_step is not None:
            event.step = int(global_step)
        self.event_writer.add_event(event)

    def flush(self) -> None:
        """Write what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.event_writer.close()


class SummaryWriter:
    """Events for TensorBoard.

    Args:
        log_dir: The folder; `runs/<date>_<host>` if left out.
        comment: The end of the folder's name, where that is left out.
        purge_step: The step from which on former events of the folder are to be forgotten.
        max_queue: The number of events that wait before they are written.
        flush_secs: The seconds between two times that all is written.
        filename_suffix: The end of the file's name.

    Raises:
        MissingPackageError: The package tensorboard is not installed.
    """

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
        flush_secs: float = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if not log_dir:
            log_dir = os.path.join("runs", f"{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step = purge_step
        self._options = max_queue, flush_secs, filename_suffix
        self._messages = _package("tensorboard.compat.proto.summary_pb2")
        self._writers: dict[str, FileWriter] = {}
        self._writer()

    def _writer(self, part: str = "") -> FileWriter:
        """The file of this folder, or of one within."""
        if part not in self._writers:
            self._writers[part] = FileWriter(os.path.join(self.log_dir, part) if part else self.log_dir, *self._options)
        return self._writers[part]

    @property
    def file_writer(self) -> FileWriter:
        """The file of events."""
        return self._writer()

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def _add(self, step: Any, walltime: float | None, **value: Any) -> None:
        summary = self._messages.Summary(value=[self._messages.Summary.Value(**value)])
        self._writer().add_summary(summary, step, walltime)

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: Any = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """Add a number.

        Args:
            tag: The name of the curve.
            scalar_value: The number.
            global_step: The step that it belongs to.
            walltime: The time that it belongs to; now if left out.
            new_style: Accepted and ignored.
            double_precision: Accepted and ignored.
        """
        self._add(global_step, walltime, tag=tag, simple_value=float(_array(scalar_value).squeeze()))

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Add several numbers, whose curves are drawn in one picture.

        Args:
            main_tag: The name of the picture.
            tag_scalar_dict: The numbers by the names of their curves.
            global_step: The step that they belong to.
            walltime: The time that they belong to; now if left out.
        """
        for name, value in tag_scalar_dict.items():
            shown = self._messages.Summary.Value(tag=main_tag, simple_value=float(_array(value).squeeze()))
            writer = self._writer(f"{main_tag.replace('/', '_')}_{name}")
            writer.add_summary(self._messages.Summary(value=[shown]), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: Any = None, bins: Any = "tensorflow", walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """Add the distribution of elements.

        Args:
            tag: The name.
            values: The elements.
            global_step: The step that they belong to.
            bins: What `numpy.histogram` takes as bins; 30 of one width unless it does.
            walltime: The time that they belong to; now if left out.
            max_bins: The most bins.
        """
        flat = _array(values).astype(np.float64).reshape(-1)
        counts, limits = np.histogram(flat, bins=(max_bins or 30) if bins == "tensorflow" else bins)
        made = self._messages.HistogramProto(
            min=flat.min(), max=flat.max(), num=len(flat), sum=flat.sum(), sum_squares=flat.dot(flat),
            bucket_limit=limits[1:].tolist(), bucket=counts.tolist(),
        )  # fmt: skip
        self._add(global_step, walltime, tag=tag, histo=made)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """Add an image.

        Args:
            tag: The name.
            img_tensor: Bytes, or numbers from 0 to 1.
            global_step: The step that it belongs to.
            walltime: The time that it belongs to; now if left out.
            dataformats: What its dims are: "CHW", "HWC" or "HW".
        """
        pixels = _pixels(_array(img_tensor), dataformats)
        height, width, channels = pixels.shape
        encoded = self._messages.Summary.Image(
            height=height, width=width, colorspace=channels, encoded_image_string=_png(pixels)
        )
        self._add(global_step, walltime, tag=tag, image=encoded)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Add several images side by side; arguments as of `add_image`, with N for the images among the dims."""
        images = np.moveaxis(_array(img_tensor), dataformats.index("N"), 0)
        single = dataformats.replace("N", "")
        joined = np.concatenate([_pixels(image, single) for image in images], axis=1)
        self.add_image(tag, joined, global_step, walltime, "HWC")

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Add a figure of matplotlib.

        Args:
            tag: The name.
            figure: The figure.
            global_step: The step that it belongs to.
            close: Whether it is closed.
            walltime: The time that it belongs to; now if left out.
        """
        canvas = imported("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
        canvas.draw()
        self.add_image(tag, np.asarray(canvas.buffer_rgba())[..., :3], global_step, walltime, "HWC")
        if close:
            imported("matplotlib.pyplot").close(figure)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:  # fmt: skip
        """Add a text in Markdown.

        Args:
            tag: The name.
            text_string: The text.
            global_step: The step that it belongs to.
            walltime: The time that it belongs to; now if left out.
        """
        made = _package("tensorboard.plugins.text.summary_v2").text_pb(f"{tag}/text_summary", text_string)
        self._writer().add_summary(made, global_step, walltime)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: Any = None, sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a sound.

        Args:
            tag: The name.
            snd_tensor: Numbers from -1 to 1, one after the other.
            global_step: The step that it belongs to.
            sample_rate: Numbers in a second.
            walltime: The time that it belongs to; now if left out.
        """
        samples = (np.clip(_array(snd_tensor).reshape(-1), -1, 1) * np.iinfo(np.int16).max).astype("<i2")
        file = io.BytesIO()
        with wave.open(file, "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth(2)
            sound.setframerate(sample_rate)
            sound.writeframes(samples.tobytes())
        made = self._messages.Summary.Audio(
            sample_rate=sample_rate, num_channels=1, length_frames=len(samples),
            encoded_audio_string=file.getvalue(), content_type="audio/wav",
        )  # fmt: skip
        self._add(global_step, walltime, tag=tag, audio=made)

    def add_hparams(
        self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any], hparam_domain_discrete: Any = None,
        run_name: str | None = None, global_step: Any = None,
    ) -> None:  # fmt: skip
        """Add hyperparameters and what came of them.

        Args:
            hparam_dict: The hyperparameters by name.
            metric_dict: The numbers that came of them, by name.
            hparam_domain_discrete: Accepted and ignored.
            run_name: The name of the folder; the time if left out.
            global_step: The step that the numbers belong to.
        """
        made = _package("tensorboard.plugins.hparams.summary_v2").hparams_pb(
            {key: value.item() if isinstance(value, Tensor) else value for key, value in hparam_dict.items()}
        )
        writer = self._writer(str(time.time()) if run_name is None else run_name)
        writer.add_summary(made, global_step)
        for name, value in metric_dict.items():
            shown = self._messages.Summary.Value(tag=name, simple_value=float(_array(value).squeeze()))
            writer.add_summary(self._messages.Summary(value=[shown]), global_step)

    def add_graph(self, model: Any, input_to_model: Any = None, verbose: bool = False, **others: Any) -> None:
        """Add the network as text: TensorBoard does not draw the graphs of this package.

        Args:
            model: The network.
            input_to_model: Accepted and ignored.
            verbose: Accepted and ignored.
            others: Likewise.
        """
        self.add_text("graph", f"```\n{model}\n```")

    def add_custom_scalars(self, layout: Mapping[str, Any]) -> None:
        """Add the description of a page of curves, as text."""
        self.add_text("custom_scalars", json.dumps(layout))

    def flush(self) -> None:
        """Write what waits."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Write what waits, and close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def _pixels(image: Any, dims: str) -> Any:
    """An image as bytes, its dims being height, width and three channels."""
    if "C" not in dims:
        image, dims = image[..., None], f"{dims}C"
    image = image.transpose([dims.index(dim) for dim in "HWC"])
    image = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image
    return image if image.dtype == np.uint8 else (image * 255).clip(0, 255).astype(np.uint8)


def _png(pixels: Any) -> bytes:
    """The bytes of a PNG file."""
    import struct
    import zlib

    height, width, channels = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 6, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes())) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
