"""Policy gradients on a small world, with draws from a list."""

from itertools import count

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

rng = np.random.RandomState(0)
eps = np.finfo(np.float32).eps.item()


class Policy(nn.Module):
    def __init__(self):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(4, 16)
        self.dropout = nn.Dropout(p=0.0)
        self.affine2 = nn.Linear(16, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.dropout(self.affine1(x)))
        return F.softmax(self.affine2(x), dim=1)


policy = Policy()
for p in policy.parameters():
    p.data.copy_(torch.from_numpy(rng.uniform(-0.5, 0.5, p.shape)))
optimizer = optim.Adam(policy.parameters(), lr=1e-2)


def select_action(state):
    state = torch.from_numpy(state).float().unsqueeze(0)
    probs = policy(state)
    action = int(rng.rand() < probs[0, 1].item())
    policy.saved_log_probs.append(torch.log(probs[0, action]).view(1))
    return action


def finish_episode():
    R = 0
    returns = []
    for r in policy.rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_loss = [-log_prob * R for log_prob, R in zip(policy.saved_log_probs, returns)]
    optimizer.zero_grad()
    policy_loss = torch.cat(policy_loss).sum()
    policy_loss.backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]
    return policy_loss.item()


for i_episode in count(1):
    state = rng.randn(4)
    for t in range(1, 8):
        action = select_action(state)
        state = 0.9 * state + (action - 0.5) * np.ones(4)
        policy.rewards.append(float(-abs(state).sum()))
    print("loss", finish_episode())
    if i_episode == 3:
        break
