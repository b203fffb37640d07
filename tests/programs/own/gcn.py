"""A graph convolutional network with a dense adjacency matrix and parameters made of raw tensors."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.nn.modules.module import Module
from torch.nn.parameter import Parameter

rng = np.random.RandomState(0)


class GraphConvolution(Module):
    def __init__(self, in_features, out_features, bias=True):
        super(GraphConvolution, self).__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        if bias:
            self.bias = Parameter(torch.FloatTensor(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.copy_(torch.from_numpy(rng.uniform(-stdv, stdv, self.weight.shape)))
        if self.bias is not None:
            self.bias.data.copy_(torch.Tensor(rng.uniform(-stdv, stdv, self.bias.shape)))

    def forward(self, input, adj):
        support = torch.mm(input, self.weight)
        output = torch.matmul(adj, support)
        return output + self.bias if self.bias is not None else output

    def __repr__(self):
        return self.__class__.__name__ + " (" + str(self.in_features) + " -> " + str(self.out_features) + ")"


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super(GCN, self).__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


def normalize(mx):
    return mx / mx.sum(1, keepdims=True)


def accuracy(output, labels):
    preds = output.max(1)[1].type_as(labels)
    correct = preds.eq(labels).double()
    return correct.sum() / len(labels)


n = 20
adj = (rng.rand(n, n) < 0.2).astype(np.float32)
adj = torch.FloatTensor(normalize(np.maximum(adj, adj.T) + np.eye(n)))
features = torch.FloatTensor(normalize(rng.rand(n, 6)))
labels = torch.LongTensor(rng.randint(0, 3, n))
idx_train = torch.LongTensor(range(12))
idx_val = torch.LongTensor(np.arange(12, 20))
model = GCN(nfeat=features.shape[1], nhid=8, nclass=labels.max().item() + 1, dropout=0.0)
optimizer = optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(5):
    model.train()
    optimizer.zero_grad()
    output = model(features, adj)
    loss_train = F.nll_loss(output[idx_train], labels[idx_train])
    loss_train.backward()
    optimizer.step()
    model.eval()
    output = model(features, adj)
    print("loss", loss_train.item())
    print(
        "loss", F.nll_loss(output[idx_val], labels[idx_val]).item(), accuracy(output[idx_val], labels[idx_val]).item()
    )
