"""Models as people write them: nn modules, in the sizes of the benchmark and in small ones, for tests."""

from __future__ import annotations

from benchmarks.models.dense import gcn, mlp
from benchmarks.models.generative import dcgan, diffusion, vae, wgan_gp
from benchmarks.models.model import Model
from benchmarks.models.text import bert, gpt, gpt_decoding, language_model
from benchmarks.models.vision import convnext, efficientnet, mixer, mobilenet, resnet, unet, vit


def _named(*models: Model) -> dict[str, Model]:
    return {model.name: model for model in models}


MODELS = _named(
    mlp("mlp"),
    resnet("resnet18", False, (2, 2, 2, 2)),
    resnet("resnet50", True, (3, 4, 6, 3)),
    mobilenet("mobilenet_v2"),
    efficientnet("efficientnet_b0"),
    convnext("convnext"),
    unet("unet"),
    vit("vit"),
    mixer("mixer"),
    bert("bert"),
    gpt("gpt"),
    gpt_decoding("gpt_decode"),
    language_model("lstm_lm", "LSTM"),
    language_model("gru_lm", "GRU"),
    vae("vae"),
    dcgan("dcgan"),
    wgan_gp("wgan_gp"),
    diffusion("diffusion"),
    gcn("gcn"),
)
"""About 1 to 100 ms for a forward pass on one core."""

_TEXT = dict(vocabulary=23, length=6, width=8, layers=1, heads=2)
SMALL = _named(
    mlp("mlp", (12, 8, 8, 5)),
    resnet("resnet18", False, (1, 1), width=4, size=16, training_size=16),
    resnet("resnet50", True, (1,), width=4, size=16, training_size=16),
    mobilenet("mobilenet_v2", ((1, 4, 1, 1), (2, 4, 2, 1)), last=8, size=16, training_size=16),
    efficientnet("efficientnet_b0", ((1, 4, 1, 1, 3), (2, 4, 2, 2, 5)), last=8, size=16, training_size=16),
    convnext("convnext", (1, 1), (4, 8), size=16, training_size=16),
    unet("unet", width=4, levels=1, size=16, training_size=16),
    vit("vit", size=16, patch=8, width=8, depth=1, heads=2),
    mixer("mixer", size=16, patch=8, width=8, depth=1),
    bert("bert", **_TEXT),
    gpt("gpt", **_TEXT),
    gpt_decoding("gpt_decode", **_TEXT),
    language_model("lstm_lm", "LSTM", vocabulary=23, length=6, width=8),
    language_model("gru_lm", "GRU", vocabulary=23, length=6, width=8),
    vae("vae", side=6, hidden=16, latent=4),
    dcgan("dcgan", latent=6, width=4, levels=2),
    wgan_gp("wgan_gp", latent=6, width=4, levels=2),
    diffusion("diffusion", side=8, width=8, levels=2, groups=2),
    gcn("gcn", nodes=20, links=40, features=12, hidden=8, classes=3),
)
"""The same, so small that a test has the results of all of them in a minute."""
