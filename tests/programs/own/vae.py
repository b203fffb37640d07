"""A variational autoencoder whose noise comes from a list, so that every run is the same."""

import numpy as np
import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F

rng = np.random.RandomState(0)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(36, 20)
        self.fc21 = nn.Linear(20, 5)
        self.fc22 = nn.Linear(20, 5)
        self.fc3 = nn.Linear(5, 20)
        self.fc4 = nn.Linear(20, 36)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.as_tensor(rng.randn(*std.shape), dtype=std.dtype, device=std.device)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 36))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 36), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


class Pictures(torch.utils.data.Dataset):
    def __init__(self, count):
        self.data = rng.rand(count, 1, 6, 6)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return torch.FloatTensor(self.data[index]), index


model = VAE()
with torch.no_grad():
    for name, p in model.named_parameters():
        p.copy_(torch.tensor(rng.uniform(-0.3, 0.3, p.shape), dtype=torch.float))
optimizer = optim.Adam(model.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(Pictures(10), batch_size=4, shuffle=False, drop_last=True)
for epoch in range(2):
    model.train()
    train_loss = 0
    for batch_idx, (data, _) in enumerate(loader):
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print("loss", train_loss / len(loader.dataset))
