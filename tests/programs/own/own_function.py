"""Functions with backwards of their own: a straight-through estimator, a reversed gradient, a swish that saves little."""

import numpy as np
import torch
import torch.nn as nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

rng = np.random.RandomState(0)


class Binarize(Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.sign()

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input.ge(1)] = 0
        grad_input[input.le(-1)] = 0
        return grad_input


class GradReverse(Function):
    @staticmethod
    def forward(ctx, x, lambd):
        ctx.lambd = lambd
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg() * ctx.lambd, None


class Swish(Function):
    @staticmethod
    def forward(ctx, x, beta=1.0):
        ctx.save_for_backward(x)
        ctx.beta = beta
        return x * torch.sigmoid(beta * x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(ctx.beta * x)
        if not ctx.needs_input_grad[0]:
            return None, None
        return grad * (s + ctx.beta * x * s * (1 - s)), None


class BinaryLinear(nn.Linear):
    def forward(self, input):
        if not hasattr(self.weight, "org"):
            self.weight.org = self.weight.data.clone()
        return nn.functional.linear(Binarize.apply(input), self.weight, self.bias)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Linear(4, 8)
        self.label = BinaryLinear(8, 3)
        self.domain = nn.Linear(8, 2)

    def forward(self, x, lambd):
        h = Swish.apply(self.features(x))
        return self.label(h), self.domain(GradReverse.apply(h, lambd))


net = Net()
for p in net.parameters():
    p.data.copy_(torch.from_numpy(rng.uniform(-1, 1, p.shape)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
criterion = nn.CrossEntropyLoss()
for step in range(4):
    x = torch.from_numpy(rng.randn(6, 4)).float()
    y, d = torch.from_numpy(rng.randint(0, 3, 6)), torch.from_numpy(rng.randint(0, 2, 6))
    label, domain = net(x, 0.3)
    loss = criterion(label, y) + criterion(domain, d)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
assert torch.autograd.gradcheck(
    lambda t: GradReverse.apply(t, -1.0), (torch.rand(3, dtype=torch.double, requires_grad=True),)
)
