"""An optimizer of 2018 with the number first in `add_` and `addcdiv_`, and a schedule derived from `_LRScheduler`."""

import math

import numpy as np
import torch
import torch.nn as nn
from torch.optim.lr_scheduler import _LRScheduler
from torch.optim.optimizer import Optimizer, required

rng = np.random.RandomState(0)


class BertAdam(Optimizer):
    def __init__(self, params, lr=required, warmup=-1, t_total=-1, b1=0.9, b2=0.999, e=1e-6, weight_decay=0.01):
        if lr is not required and lr < 0.0:
            raise ValueError("Invalid learning rate: {} - should be >= 0.0".format(lr))
        defaults = dict(lr=lr, warmup=warmup, t_total=t_total, b1=b1, b2=b2, e=e, weight_decay=weight_decay)
        super(BertAdam, self).__init__(params, defaults)

    def step(self, closure=None):
        loss = None
        if closure is not None:
            loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.data
                if grad.is_sparse:
                    raise RuntimeError("does not support sparse gradients")
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["next_m"] = torch.zeros_like(p.data)
                    state["next_v"] = torch.zeros_like(p.data)
                next_m, next_v = state["next_m"], state["next_v"]
                beta1, beta2 = group["b1"], group["b2"]
                next_m.mul_(beta1).add_(1 - beta1, grad)
                next_v.mul_(beta2).addcmul_(1 - beta2, grad, grad)
                update = next_m / (next_v.sqrt() + group["e"])
                if group["weight_decay"] > 0.0:
                    update += group["weight_decay"] * p.data
                p.data.add_(-group["lr"] * update)
                state["step"] += 1
        return loss


class RAdamLike(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super(RAdamLike, self).__init__(params, dict(lr=lr, betas=betas, eps=eps))

    def __setstate__(self, state):
        super(RAdamLike, self).__setstate__(state)

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["step"], state["exp_avg"], state["exp_avg_sq"] = (
                        0,
                        p.data.new(p.size()).zero_(),
                        torch.zeros_like(p),
                    )
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                beta1, beta2 = group["betas"]
                state["step"] += 1
                exp_avg.mul_(beta1).add_(1 - beta1, p.grad.data)
                exp_avg_sq.mul_(beta2).addcmul_(1 - beta2, p.grad.data, p.grad.data)
                denom = exp_avg_sq.sqrt().add_(group["eps"])
                step_size = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
                p.data.addcdiv_(-step_size, exp_avg, denom)


class Warmup(_LRScheduler):
    def __init__(self, optimizer, steps, last_epoch=-1):
        self.steps = steps
        super(Warmup, self).__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base_lr * min(1.0, (self.last_epoch + 1) / self.steps) for base_lr in self.base_lrs]


for kind in (BertAdam, RAdamLike):
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
    for p in model.parameters():
        p.data.copy_(torch.from_numpy(rng.uniform(-1, 1, p.shape)))
    optimizer = kind(model.parameters(), lr=0.05)
    scheduler = Warmup(optimizer, 3)
    for step in range(4):
        x = torch.Tensor(rng.randn(6, 3))
        optimizer.zero_grad()
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print("loss", loss.item(), scheduler.get_last_lr())
x, M, a, b = torch.ones(2), torch.ones(2, 2), torch.ones(2, 3), torch.ones(3, 2)
print("loss", torch.addmm(0.5, M, 2, a, b).sum().item(), torch.add(x, 3, x).sum().item())
