"""Learning to learn: inner steps on functional weights, with gradients through them."""

from collections import OrderedDict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

rng = np.random.RandomState(0)


class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()
        self.net = nn.Sequential(OrderedDict([("l1", nn.Linear(1, 8)), ("relu1", nn.Tanh()), ("l2", nn.Linear(8, 1))]))

    def forward(self, x):
        return self.net(x)

    def argforward(self, x, weights):
        x = torch.tanh(F.linear(x, weights[0], weights[1]))
        return F.linear(x, weights[2], weights[3])


model = Model()
for p in model.parameters():
    p.data.copy_(torch.from_numpy(rng.uniform(-0.5, 0.5, p.shape)))
weights = list(model.parameters())
meta_optimiser = torch.optim.Adam(weights, 0.01)
criterion = nn.MSELoss()


def inner_loop(amplitude, phase):
    temp_weights = [w.clone() for w in weights]
    x = torch.from_numpy(rng.uniform(-2, 2, (5, 1))).float()
    for _ in range(2):
        loss = criterion(model.argforward(x, temp_weights), amplitude * torch.sin(x + phase))
        grad = torch.autograd.grad(loss, temp_weights, create_graph=True)
        temp_weights = [w - 0.1 * g for w, g in zip(temp_weights, grad)]
    x = torch.from_numpy(rng.uniform(-2, 2, (5, 1))).float()
    return criterion(model.argforward(x, temp_weights), amplitude * torch.sin(x + phase))


for iteration in range(4):
    meta_loss = 0
    for _ in range(2):
        meta_loss += inner_loop(rng.uniform(0.5, 2), rng.uniform(0, 3))
    meta_grads = torch.autograd.grad(meta_loss, model.parameters())
    for w, g in zip(weights, meta_grads):
        w.grad = g
    meta_optimiser.step()
    print("loss", meta_loss.item() / 2)
