"""A generative adversarial network with a penalty on gradients, which has a second derivative."""

import numpy as np
import torch
import torch.autograd as autograd
import torch.nn as nn
from torch.autograd import Variable

Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
rng = np.random.RandomState(0)


def mlp(sizes):
    layers = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        if i + 2 < len(sizes):
            layers.append(nn.LeakyReLU(0.2, inplace=True))
    return nn.Sequential(*layers)


def compute_gradient_penalty(D, real_samples, fake_samples):
    alpha = Tensor(rng.random_sample((real_samples.size(0), 1)))
    interpolates = (alpha * real_samples + ((1 - alpha) * fake_samples)).requires_grad_(True)
    d_interpolates = D(interpolates)
    fake = Variable(Tensor(real_samples.shape[0], 1).fill_(1.0), requires_grad=False)
    gradients = autograd.grad(
        outputs=d_interpolates,
        inputs=interpolates,
        grad_outputs=fake,
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


generator, discriminator = mlp([3, 8, 2]), mlp([2, 8, 1])
for p in list(generator.parameters()) + list(discriminator.parameters()):
    p.data = Tensor(rng.uniform(-0.5, 0.5, p.shape))
optimizer_G = torch.optim.Adam(generator.parameters(), lr=0.01, betas=(0.5, 0.9))
optimizer_D = torch.optim.RMSprop(discriminator.parameters(), lr=0.01)
one = torch.tensor(1, dtype=torch.float)
mone = one * -1
for i in range(4):
    real = Variable(Tensor(rng.normal(1, 0.3, (5, 2))))
    optimizer_D.zero_grad()
    z = Variable(Tensor(np.random.RandomState(i).normal(0, 1, (5, 3))))
    fake = generator(z).detach()
    penalty = compute_gradient_penalty(discriminator, real.data, fake.data)
    d_loss = -torch.mean(discriminator(real)) + torch.mean(discriminator(fake)) + 10 * penalty
    d_loss.backward()
    optimizer_D.step()
    optimizer_G.zero_grad()
    g_cost = discriminator(generator(z)).mean().view(1)
    g_cost.backward(mone.view(1))
    optimizer_G.step()
    print("loss", d_loss.item())
    print("loss", g_cost.item())
