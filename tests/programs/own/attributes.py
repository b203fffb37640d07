"""A tour of old forms: constructors, kinds of tensors, results with names, sizes from numpy, private names."""

import copy
import pickle

import numpy as np
import torch
import torch.nn as nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.utils import _pair
from torch.types import Device, Number

rng = np.random.RandomState(0)
values = torch.Tensor(rng.rand(3, 3))
print("loss", values.sum().item())
print("loss", torch.svd(values).S.sum().item())
print("loss", torch.linalg.qr(values).R.diagonal().abs().sum().item())
print("loss", values.median(0).values.sum().item(), values.sort(1).indices.sum().item())
assert torch.Tensor([1, 2]).type() == "torch.FloatTensor" and torch.LongTensor(2, 3).shape == (2, 3)
assert values.type(torch.DoubleTensor).type() == "torch.DoubleTensor"
assert torch.Tensor(torch.Size([4, 5])).shape == (4, 5) and values.new(2).shape == (2,)
assert torch.zeros(np.int64(2), 3).view(-1, np.int64(2)).shape == (3, 2)
assert torch.ones(1).repeat(np.int64(2), 2).shape == (2, 2) and torch.ones(6).view(torch.tensor(2), 3).shape == (2, 3)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
assert values.to(device).device.type == device.type and not values.is_sparse and values.itemsize == 4
assert _pair(3) == (3, 3) and isinstance(nn.BatchNorm2d(2), _BatchNorm) and isinstance(nn.Conv1d(1, 1, 1), _ConvNd)
assert isinstance(3.0, Number) and Device is not None
assert nn.init._calculate_fan_in_and_fan_out(torch.ones(4, 3, 2, 2)) == (12, 16)
assert values.nbytes == 36 and values.storage().size() == 9 and values[1:].storage_offset() == 3
assert values.untyped_storage().data_ptr() == values.storage().data_ptr() == values.data_ptr()
assert isinstance(values.split(1), tuple) and isinstance(values.unbind(0), tuple)
assert torch.range(1, 3).tolist() == [1.0, 2.0, 3.0] and torch.is_tensor(values)
assert not hasattr(torch, "no_such_name") and getattr(torch, "no_such_name", None) is None
try:
    import torch.no_such_module
except ImportError as error:
    assert "no_such_module" in str(error)
linear = pickle.loads(pickle.dumps(copy.deepcopy(nn.Linear(2, 2))))
assert linear.state_dict()._metadata[""]["version"] == 1
torch.set_default_dtype(torch.float64)
print("loss", (torch.tensor([1.0, 2.0]) / 3).sum().item(), torch.ones(2).dtype == torch.double)
torch.set_default_tensor_type("torch.FloatTensor")
assert torch.tensor(1.0).dtype is torch.float32 and torch.get_default_dtype() == torch.float


@torch.jit.script
def scripted(x, y):
    return x * y + y


@torch.jit.ignore
def ignored(x):
    return x


compiled = torch.compile(nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
for p in compiled.parameters():
    p.data.copy_(torch.from_numpy(rng.rand(*p.shape)))
print("loss", scripted(values, ignored(values)).sum().item(), compiled(values).sum().item())
