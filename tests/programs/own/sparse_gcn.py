"""A graph convolutional network over a sparse adjacency matrix that comes from scipy, as citation networks are learned."""

import math

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.nn.modules.module import Module
from torch.nn.parameter import Parameter

rng = np.random.RandomState(0)


class GraphConvolution(Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        self.bias = Parameter(torch.FloatTensor(out_features))
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.copy_(torch.from_numpy(rng.uniform(-stdv, stdv, self.weight.shape)))
        self.bias.data.copy_(torch.from_numpy(rng.uniform(-stdv, stdv, self.bias.shape)))

    def forward(self, input, adj):
        support = torch.mm(input, self.weight)
        output = torch.spmm(adj, support)
        return output + self.bias


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass):
        super().__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        return F.log_softmax(self.gc2(x, adj), dim=1)


class SparseAttention(nn.Module):
    """Attention along the edges: the softmax goes over the entries of each row."""

    def __init__(self, adj, features):
        super().__init__()
        self.register_buffer("adj", adj)
        self.score = Parameter(torch.from_numpy(rng.uniform(-1, 1, features).astype(np.float32)))

    def forward(self, x):
        rows, columns = self.adj.indices()
        scores = F.leaky_relu((x[rows] * x[columns]) @ self.score)
        edges = torch.sparse_coo_tensor(self.adj.indices(), scores, self.adj.size())
        return torch.sparse.mm(torch.sparse.softmax(edges, dim=1), x)


def normalize(mx):
    rowsum = np.array(mx.sum(1)).flatten()
    return sp.diags(np.power(rowsum, -1.0)).dot(mx)


def sparse_mx_to_torch_sparse_tensor(sparse_mx):
    sparse_mx = sparse_mx.tocoo().astype(np.float32)
    indices = torch.from_numpy(np.vstack((sparse_mx.row, sparse_mx.col)).astype(np.int64))
    values = torch.from_numpy(sparse_mx.data)
    shape = torch.Size(sparse_mx.shape)
    return torch.sparse.FloatTensor(indices, values, shape)


n = 30
links = rng.randint(0, n, (60, 2))
adj = sp.coo_matrix((np.ones(len(links)), (links[:, 0], links[:, 1])), shape=(n, n), dtype=np.float32)
adj = adj + adj.T.multiply(adj.T > adj) - adj.multiply(adj.T > adj)
adj = sparse_mx_to_torch_sparse_tensor(normalize(adj + sp.eye(n)))
assert adj.is_sparse and adj.layout is torch.sparse_coo and adj._nnz() == adj._values().size(0)
features = torch.FloatTensor(rng.rand(n, 6))
labels = torch.LongTensor(rng.randint(0, 3, n))
model = GCN(features.shape[1], 8, 3)
attention = SparseAttention(adj.coalesce(), 6)
if torch.cuda.is_available():
    model, attention, adj = model.cuda(), attention.cuda(), adj.cuda()
    features, labels = features.cuda(), labels.cuda()
optimizer = optim.Adam([*model.parameters(), *attention.parameters()], lr=0.01, weight_decay=5e-4)
for _epoch in range(5):
    model.train()
    optimizer.zero_grad()
    output = model(attention(features), adj)
    loss_train = F.nll_loss(output[:20], labels[:20])
    loss_train.backward()
    optimizer.step()
    print("loss", loss_train.item())
    model.eval()
    rows = torch.sparse.mm(adj.to_sparse_csr(), model(features, adj))
    print("loss", F.nll_loss(rows, labels).item(), torch.sparse.sum(adj.t(), 1).to_dense().mean().item())
