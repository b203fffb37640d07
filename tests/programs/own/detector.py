"""A detection head with anchors: matching, hard negatives, ragged targets, suppression into tensors that are reused."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

rng = np.random.RandomState(0)


def overlaps(a, b):
    low = torch.max(a[:, None, :2], b[None, :, :2])
    high = torch.min(a[:, None, 2:], b[None, :, 2:])
    inter = torch.clamp(high - low, min=0).prod(2)
    area = lambda boxes: (boxes[:, 2:] - boxes[:, :2]).prod(1)
    return inter / (area(a)[:, None] + area(b)[None] - inter)


def suppress(boxes, scores, threshold=0.2):
    """The idiom of 2017: pieces of `out=` tensors that get shorter from turn to turn."""
    keep = scores.new(scores.size(0)).zero_().long()
    x1, y1, x2, y2 = boxes.t()
    area = torch.mul(x2 - x1, y2 - y1)
    idx = scores.sort(0)[1]
    xx1, yy1, xx2, yy2 = (boxes.new() for _ in range(4))
    count = 0
    while idx.numel() > 0:
        i = idx[-1]
        keep[count] = i
        count += 1
        idx = idx[:-1]
        for source, out in ((x1, xx1), (y1, yy1), (x2, xx2), (y2, yy2)):
            torch.index_select(source, 0, idx, out=out)
        w = torch.clamp(xx2.clamp(max=x2[i].item()) - xx1.clamp(min=x1[i].item()), min=0)
        h = torch.clamp(yy2.clamp(max=y2[i].item()) - yy1.clamp(min=y1[i].item()), min=0)
        inter = w * h
        idx = idx[(inter / (area[idx] + area[i] - inter)).le(threshold)]
    return keep[:count]


class Head(nn.Module):
    def __init__(self, classes=3):
        super(Head, self).__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(True), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU(True))
        self.loc, self.conf = nn.Conv2d(8, 4, 3, padding=1), nn.Conv2d(8, classes, kernel_size=3, padding=1)
        steps = torch.arange(4).float().add_(0.5).div_(4)
        centres = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), -1).view(-1, 2).flip(1)
        self.register_buffer("anchors", torch.cat([centres - 0.2, centres + 0.2], 1).clamp_(min=0, max=1))

    def forward(self, x):
        x = self.features(x)
        flat = lambda t, n: t.permute(0, 2, 3, 1).contiguous().view(t.size(0), -1, n)
        return flat(self.loc(x), 4), flat(self.conf(x), 3)


def multibox(loc, conf, targets, anchors):
    wanted, labels = torch.Tensor(loc.size(0), anchors.size(0), 4), torch.LongTensor(loc.size(0), anchors.size(0))
    for at, target in enumerate(targets):
        found = overlaps(target[:, :4], anchors)
        best, number = found.max(0, keepdim=True)
        best.squeeze_(0), number.squeeze_(0)
        best.index_fill_(0, found.max(1)[1], 2)
        labels[at] = target[number, 4].long() + 1
        labels[at][best < 0.3] = 0
        wanted[at] = target[number, :4] - anchors
    positive = labels > 0
    count = positive.sum(1, keepdim=True)
    loss = F.cross_entropy(conf.view(-1, 3), labels.view(-1), reduction="none").view_as(labels)
    ranked = loss.detach().masked_fill(positive, 0)
    rank = ranked.sort(1, descending=True)[1].sort(1)[1]
    chosen = positive | (rank < torch.clamp(3 * count, max=labels.size(1) - 1).expand_as(rank))
    mask = positive.unsqueeze(2).expand_as(loc)
    return (F.smooth_l1_loss(loc[mask].view(-1, 4), wanted[mask].view(-1, 4), reduction="sum") + loss[chosen].sum()) / (
        count.sum().float()
    )


def collate(batch):
    return torch.stack([image for image, _ in batch]), [torch.FloatTensor(boxes) for _, boxes in batch]


data = []
for _ in range(6):
    low = rng.uniform(0, 0.5, (rng.randint(1, 4), 2))
    boxes = np.hstack([low, low + rng.uniform(0.2, 0.5, low.shape), rng.randint(0, 2, (len(low), 1))])
    data.append((torch.from_numpy(rng.rand(3, 16, 16)).float(), boxes.tolist()))
net = Head()
for p in net.parameters():
    p.data.copy_(torch.from_numpy(rng.uniform(-0.3, 0.3, p.shape)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
for epoch in range(2):
    for images, targets in DataLoader(data, batch_size=2, collate_fn=collate):
        optimizer.zero_grad()
        loss = multibox(*net(images), targets, net.anchors)
        loss.backward()
        optimizer.step()
        print("loss", loss.item())
with torch.no_grad():
    kept = suppress(net.anchors, torch.from_numpy(rng.rand(16)).float())
print("loss", float(kept.sum()), len(kept))
