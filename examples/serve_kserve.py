"""An exported model behind KServe's own server, asked by the Open Inference Protocol as any client asks it.

    pip install kserve                                   # beside this package; onnxruntime is here already
    python examples/serve_kserve.py                      # export, serve on a free port of this machine, ask, compare
    python examples/serve_kserve.py --port 8080 --stay   # go on serving

The network is a small one with random weights; docs/serving.md says what else there is to know.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import time
import urllib.request
import uuid
from typing import Any

import numpy as np
import onnxruntime as ort

import jit
from jit import nn

try:
    import kserve
except ImportError as error:
    sys.exit(f"this example needs KServe: {error}; pip install kserve")


class OnnxModel(kserve.Model):  # type: ignore[misc, unused-ignore]
    """A model of KServe that runs an ONNX model.

    Args:
        name: The name in its address.
        path: The ONNX model.
    """

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1  # one thread a request
        self.session = ort.InferenceSession(path, options)
        self.ready = True

    def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        """The answer to a request: every output by its name."""
        feed = {given.name: given.as_numpy() for given in payload.inputs}
        outputs = []
        for about, array in zip(self.session.get_outputs(), self.session.run(None, feed), strict=True):
            found = kserve.InferOutput(about.name, list(array.shape), "FP32")
            found.set_data_from_numpy(array, binary_data=False)
            outputs.append(found)
        return kserve.InferResponse(payload.id or str(uuid.uuid4()), self.name, outputs)


def exported(path: str) -> nn.Module:
    """A network, exported for batches of any size."""
    jit.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).eval()
    jit.export_onnx(
        net, (jit.zeros(2, 1, 8, 8),), path, input_names=["images"], output_names=["scores"],
        dynamic_axes={"images": {0: "batch"}, "scores": {0: "batch"}},
    )  # fmt: skip
    return net


def serve(path: str, port: int) -> None:
    """Serve the model until the process is ended."""
    kserve.ModelServer(http_port=port, enable_grpc=False, workers=1).start([OnnxModel("digits", path)])


def ask(port: int, images: jit.Tensor) -> Any:
    """The scores of images, by a request."""
    given = {"name": "images", "shape": list(images.shape), "datatype": "FP32", "data": images.flatten().tolist()}
    address = f"http://127.0.0.1:{port}/v2/models/digits/infer"
    body = json.dumps({"inputs": [given]}).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        (scores,) = json.load(answer)["outputs"]
    return np.array(scores["data"], np.float32).reshape(scores["shape"])


def is_ready(port: int) -> bool:
    """Whether the server answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def free_port() -> int:
    """A port that nobody listens to."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> None:
    """Export, serve, ask and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="the port; a free one by default")
    parser.add_argument("--stay", action="store_true", help="go on serving after the comparison")
    options = parser.parse_args()
    port = options.port or free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        net = exported(path)
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(path, port), daemon=True)
        server.start()
        try:
            until = time.monotonic() + 120
            while not is_ready(port):
                if time.monotonic() > until or not server.is_alive():
                    sys.exit("the server does not answer")
                time.sleep(0.2)
            for rows in (1, 5):
                images = jit.rand(rows, 1, 8, 8)
                error = np.abs(ask(port, images) - net(images).detach().numpy()).max()
                print(f"{rows} images: the answer is the network's to within 1e-5: {error < 1e-5}")
            if options.stay:
                server.join()
        finally:
            server.terminate()
            server.join()


if __name__ == "__main__":
    main()
