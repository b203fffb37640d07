"""A generator that is held to even steps: one result of a network is differentiated by another, and hooks look at it."""

import math

import numpy as np
import torch
from torch import autograd, nn, optim
from torch.nn import functional as F

rng = np.random.RandomState(0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.style, self.image = nn.Linear(4, 6), nn.Linear(6, 16)

    def forward(self, z):
        latent = F.leaky_relu(self.style(z), 0.2)
        return torch.tanh(self.image(latent)).view(-1, 1, 4, 4), latent


def draw(*sizes):
    return torch.from_numpy(rng.standard_normal(sizes)).float()


def path_lengths(image, latent):
    noise = draw(*image.shape) / math.sqrt(image.shape[2] * image.shape[3])
    (grad,) = autograd.grad(outputs=(image * noise).sum(), inputs=latent, create_graph=True)
    return grad.pow(2).sum(1).sqrt()


generator, critic = Generator(), nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Softplus(), nn.Linear(8, 1))
for p in [*generator.parameters(), *critic.parameters()]:
    p.data.copy_(torch.from_numpy(rng.uniform(-0.5, 0.5, p.shape)))
g_optimizer = optim.Adam(generator.parameters(), lr=0.02, betas=(0.0, 0.99))
d_optimizer = optim.Adam(critic.parameters(), lr=0.02, betas=(0.0, 0.99))
mean = 0.0
for step in range(8):
    real = draw(3, 1, 4, 4).requires_grad_()
    score = critic(real)
    (slope,) = autograd.grad(score.sum(), real, create_graph=True)
    d_loss = F.softplus(-score).mean() + F.softplus(critic(generator(draw(3, 4))[0].detach())).mean()
    d_loss = d_loss + slope.pow(2).flatten(1).sum(1).mean()
    critic.zero_grad()
    d_loss.backward()
    d_optimizer.step()
    print("loss", d_loss.item())

    image, latent = generator(draw(3, 4))
    lengths = path_lengths(image, latent)
    mean = mean + 0.1 * (lengths.mean().item() - mean)
    g_loss = F.softplus(-critic(image)).mean() + (lengths - mean).pow(2).mean()
    generator.zero_grad()
    g_loss.backward()
    g_optimizer.step()
    print("loss", g_loss.item())

    image, latent = generator(draw(3, 4))
    seen = []
    latent.register_hook(lambda grad: seen.append(grad.norm().item()))
    latent.retain_grad()
    image.abs().sum().backward()
    print("loss", latent.grad.abs().sum().item() + seen[0])
