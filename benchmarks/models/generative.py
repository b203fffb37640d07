"""Networks that make images, and how they learn: two of them against a critic."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.models.model import Model, Step, images, supervised

# -- VAE ---------------------------------------------------------------------------------------------------------


def _vae(lib: Any, noisy: bool, pixels: int, hidden: int, latent: int) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class VAE(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(pixels, hidden)
            self.fc21, self.fc22 = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
            self.fc3, self.fc4 = nn.Linear(latent, hidden), nn.Linear(hidden, pixels)

        def encode(self, x: Any) -> Any:
            h1 = F.relu(self.fc1(x))
            return self.fc21(h1), self.fc22(h1)

        def reparameterize(self, mu: Any, logvar: Any) -> Any:
            if not (self.training and noisy):
                return mu
            std = lib.exp(0.5 * logvar)
            return mu + lib.randn_like(std) * std

        def decode(self, z: Any) -> Any:
            return lib.sigmoid(self.fc4(F.relu(self.fc3(z))))

        def forward(self, x: Any) -> Any:
            mu, logvar = self.encode(x.view(-1, pixels))
            return self.decode(self.reparameterize(mu, logvar)), mu, logvar

    return VAE()


def vae(name: str, side: int = 28, hidden: int = 400, latent: int = 20) -> Model:
    """A variational auto-encoder of Kingma and Welling (2013), as in PyTorch's examples."""

    def draw(rng: np.random.Generator, batch: int) -> list[Any]:
        return [rng.random((batch, 1, side, side), np.float32)]

    def loss(lib: Any, run: Any, x: Any) -> Any:
        found, mu, logvar = run(x)
        BCE = lib.nn.functional.binary_cross_entropy(found, x.view(-1, side * side), reduction="sum")
        KLD = -0.5 * lib.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return BCE + KLD

    return Model(
        name,
        lambda lib, noisy: _vae(lib, noisy, side * side, hidden, latent),
        draw,
        draw,
        supervised(loss, "Adam", lr=1e-4),
        batch=32,
        training_batch=128,
        noisy=True,
    )


# -- GANs --------------------------------------------------------------------------------------------------------


def _pair(lib: Any, generator: Any, critic: Any) -> Any:
    class Pair(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.generator, self.critic = generator, critic

    return Pair()


def _generator(lib: Any, latent: int, width: int, levels: int) -> Any:
    nn = lib.nn
    layers, channels = [], latent
    for n in reversed(range(levels)):
        first = n == levels - 1
        layers += [nn.ConvTranspose2d(channels, width << n, 4, 1 if first else 2, 0 if first else 1, bias=False)]
        layers += [nn.BatchNorm2d(width << n), nn.ReLU(True)]
        channels = width << n
    return nn.Sequential(*layers, nn.ConvTranspose2d(channels, 3, 4, 2, 1, bias=False), nn.Tanh())


def _critic(lib: Any, width: int, levels: int, norm: Callable[[int], Any]) -> Any:
    nn = lib.nn
    layers = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    for n in range(1, levels):
        layers += [nn.Conv2d(width << (n - 1), width << n, 4, 2, 1, bias=False), norm(width << n)]
        layers += [nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(width << (levels - 1), 1, 4, 1, 0, bias=False), nn.Flatten(0))


def _latent(latent: int) -> Callable[[np.random.Generator, int], list[Any]]:
    return lambda rng, batch: [rng.standard_normal((batch, latent, 1, 1), np.float32)]


def dcgan(name: str, latent: int = 100, width: int = 32, levels: int = 4) -> Model:
    """A DCGAN of Radford et al. (2015): a step of the critic, and one of the generator."""

    def network(lib: Any, noisy: bool) -> Any:
        return _pair(lib, _generator(lib, latent, width, levels), _critic(lib, width, levels, lib.nn.BatchNorm2d))

    def training(lib: Any, network: Any, wrap: Callable[[Any], Any], **options: Any) -> Step:
        generator, critic = wrap(network.generator), wrap(network.critic)
        of_generator, of_critic = (
            lib.optim.Adam(part.parameters(), lr=2e-4, betas=(0.5, 0.999), **options)
            for part in (network.generator, network.critic)
        )
        criterion = lib.nn.BCEWithLogitsLoss()

        def step(real: Any, noise: Any) -> Any:
            ones, zeros = lib.ones(real.size(0), dtype=real.dtype), lib.zeros(real.size(0), dtype=real.dtype)
            of_critic.zero_grad()
            of_real = criterion(critic(real), ones)
            of_real.backward()
            fake = generator(noise)
            of_fake = criterion(critic(fake.detach()), zeros)
            of_fake.backward()
            of_critic.step()
            of_generator.zero_grad()
            of_drawn = criterion(critic(fake), ones)
            of_drawn.backward()
            of_generator.step()
            return of_real + of_fake + of_drawn

        return step

    side = 4 << levels
    return Model(
        name, network, _latent(latent), _images_and_noise(side, latent), training, images=True, part=_the_generator
    )


def wgan_gp(name: str, latent: int = 100, width: int = 32, levels: int = 3) -> Model:
    """A WGAN-GP of Gulrajani et al. (2017): a step of the critic, whose loss contains a gradient."""

    def network(lib: Any, noisy: bool) -> Any:
        def norm(channels: int) -> Any:
            return lib.nn.InstanceNorm2d(channels, affine=True)

        return _pair(lib, _generator(lib, latent, width, levels), _critic(lib, width, levels, norm))

    def training(lib: Any, network: Any, wrap: Callable[[Any], Any], **options: Any) -> Step:
        generator, critic = wrap(network.generator), wrap(network.critic)
        descent = lib.optim.Adam(network.critic.parameters(), lr=1e-4, betas=(0.5, 0.9), **options)

        def gradient_penalty(real: Any, fake: Any, alpha: Any) -> Any:
            between = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
            gradients = _gradient(lib, critic(between), between)
            return ((gradients.flatten(1).norm(2, dim=1) - 1) ** 2).mean()

        def step(real: Any, noise: Any, alpha: Any) -> Any:
            descent.zero_grad()
            with lib.no_grad():
                fake = generator(noise)
            loss = critic(fake).mean() - critic(real).mean() + 10.0 * gradient_penalty(real, fake, alpha)
            loss.backward()
            descent.step()
            return loss

        return step

    def examples(rng: np.random.Generator, batch: int) -> list[Any]:
        return [*_images_and_noise(4 << levels, latent)(rng, batch), rng.random((batch, 1, 1, 1), np.float32)]

    return Model(name, network, _latent(latent), examples, training, images=True, part=_the_generator)


def _gradient(lib: Any, outputs: Any, inputs: Any) -> Any:
    grad = getattr(lib, "grad", None) or lib.autograd.grad
    return grad(outputs, inputs, grad_outputs=lib.ones_like(outputs), create_graph=True)[0]


def _images_and_noise(side: int, latent: int) -> Callable[[np.random.Generator, int], list[Any]]:
    return lambda rng, batch: [*images(side)(rng, batch), *_latent(latent)(rng, batch)]


def _the_generator(pair: Any) -> Any:
    return pair.generator


# -- diffusion ---------------------------------------------------------------------------------------------------


def _denoiser(lib: Any, noisy: bool, width: int, levels: int, groups: int) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class ResBlock(nn.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(groups, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
            self.norm2, self.conv2 = nn.GroupNorm(groups, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
            self.time, self.dropout = nn.Linear(4 * width, outputs), nn.Dropout(0.1 * noisy)
            self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

        def forward(self, x: Any, t: Any) -> Any:
            h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
            h = self.conv2(self.dropout(F.silu(self.norm2(h))))
            return self.skip(x) + h

    class AttentionBlock(nn.Module):  # type: ignore[misc]
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.norm = nn.GroupNorm(groups, channels)
            self.qkv, self.proj = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

        def forward(self, x: Any) -> Any:
            B, C, H, W = x.shape
            q, k, v = self.qkv(self.norm(x)).reshape(B, 3, C, H * W).unbind(1)
            weights = F.softmax(lib.bmm(q.transpose(1, 2), k) * C**-0.5, dim=-1)
            h = lib.bmm(v, weights.transpose(1, 2)).reshape(B, C, H, W)
            return x + self.proj(h)

    class Denoiser(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            half = width // 2
            self.register_buffer("frequencies", lib.exp(lib.arange(half) * (-np.log(10000.0) / half)))
            self.time_mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
            self.conv_in, widths = nn.Conv2d(3, width, 3, padding=1), [width << n for n in range(levels)]
            pairs = list(pairwise(widths))
            self.downs = nn.ModuleList([ResBlock(a, b) for a, b in pairs])
            self.shrinks = nn.ModuleList([nn.Conv2d(b, b, 3, stride=2, padding=1) for _, b in pairs])
            self.mid1, self.mid, self.mid2 = (
                ResBlock(widths[-1], widths[-1]), AttentionBlock(widths[-1]), ResBlock(widths[-1], widths[-1])
            )  # fmt: skip
            self.grows = nn.ModuleList([nn.Conv2d(b, b, 3, padding=1) for _, b in reversed(pairs)])
            self.ups = nn.ModuleList([ResBlock(2 * b, a) for a, b in reversed(pairs)])
            self.norm_out, self.conv_out = nn.GroupNorm(groups, width), nn.Conv2d(width, 3, 3, padding=1)

        def embedded(self, t: Any) -> Any:
            angles = t[:, None] * self.frequencies[None]
            return self.time_mlp(lib.cat([angles.sin(), angles.cos()], dim=-1))

        def forward(self, x: Any, t: Any) -> Any:
            t, h, skips = self.embedded(t), self.conv_in(x), []
            for down, shrink in zip(self.downs, self.shrinks):
                h = down(h, t)
                skips.append(h)
                h = shrink(h)
            h = self.mid2(self.mid(self.mid1(h, t)), t)
            for grow, up in zip(self.grows, self.ups):
                h = grow(F.interpolate(h, scale_factor=2, mode="nearest"))
                h = up(lib.cat([h, skips.pop()], dim=1), t)
            return self.conv_out(F.silu(self.norm_out(h)))

    return Denoiser()


def diffusion(name: str, side: int = 32, width: int = 32, levels: int = 3, groups: int = 8) -> Model:
    """The U-Net of Ho et al. (2020), which finds the noise in an image: group norms, time steps, attention."""

    def inputs(rng: np.random.Generator, batch: int) -> list[Any]:
        return [*images(side)(rng, batch), rng.integers(0, 1000, (batch,))]

    def examples(rng: np.random.Generator, batch: int) -> list[Any]:
        kept = rng.random((batch, 1, 1, 1), np.float32)
        return [*inputs(rng, batch), *images(side)(rng, batch), kept]

    def loss(lib: Any, run: Any, x: Any, t: Any, noise: Any, kept: Any) -> Any:
        seen = kept.sqrt() * x + (1 - kept).sqrt() * noise
        return lib.nn.functional.mse_loss(run(seen, t), noise)

    return Model(
        name,
        lambda lib, noisy: _denoiser(lib, noisy, width, levels, groups),
        inputs,
        examples,
        supervised(loss, "Adam", lr=2e-4),
        images=True,
        noisy=True,
    )
