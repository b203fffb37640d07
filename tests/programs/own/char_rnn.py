"""A network that learns to continue a text character by character, written as in 2017: Variables and tensor kinds."""

import numpy as np
import torch
import torch.nn as nn
from torch.autograd import Variable

TEXT = "the quick brown fox jumps over the lazy dog. "
CHARACTERS = sorted(set(TEXT))


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size, n_layers=1):
        super(RNN, self).__init__()
        self.hidden_size = hidden_size
        self.n_layers = n_layers
        self.encoder = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, n_layers)
        self.decoder = nn.Linear(hidden_size, output_size)

    def forward(self, input, hidden):
        input = self.encoder(input.view(1, -1))
        output, hidden = self.gru(input.view(1, 1, -1), hidden)
        return self.decoder(output.view(1, -1)), hidden

    def init_hidden(self):
        return Variable(torch.zeros(self.n_layers, 1, self.hidden_size))


def char_tensor(string):
    tensor = torch.zeros(len(string)).long()
    for c in range(len(string)):
        tensor[c] = CHARACTERS.index(string[c])
    return Variable(tensor)


def train(model, optimizer, criterion, inp, target):
    hidden = model.init_hidden()
    model.zero_grad()
    loss = 0
    for c in range(len(inp)):
        output, hidden = model(inp[c], hidden)
        loss += criterion(output, target[c].unsqueeze(0))
    loss.backward()
    torch.nn.utils.clip_grad_norm(model.parameters(), 5)
    optimizer.step()
    return loss.data / len(inp)


def evaluate(model, prime, length):
    hidden = model.init_hidden()
    inp = char_tensor(prime)
    for p in range(len(prime) - 1):
        _, hidden = model(inp[p], hidden)
    inp, predicted = inp[-1], prime
    for _ in range(length):
        output, hidden = model(inp, hidden)
        top = output.data.view(-1).div(0.8).exp().topk(1)[1][0]
        predicted += CHARACTERS[top]
        inp = char_tensor(CHARACTERS[top])
    return predicted


model = RNN(len(CHARACTERS), 12, len(CHARACTERS), 2)
rng = np.random.RandomState(0)
for p in model.parameters():
    p.data = torch.FloatTensor(rng.uniform(-0.3, 0.3, tuple(p.size())))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
criterion = nn.CrossEntropyLoss()
for epoch in range(4):
    chunk = TEXT[epoch : epoch + 13]
    loss = train(model, optimizer, criterion, char_tensor(chunk[:-1]), char_tensor(chunk[1:]))
    print("loss", float(loss))
assert len(evaluate(model, "th", 6)) == 8
assert isinstance(torch.zeros(1), torch.FloatTensor) and torch.zeros(1).type() == "torch.FloatTensor"
