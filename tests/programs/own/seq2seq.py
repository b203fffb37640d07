"""Translation with attention: an encoder, a decoder that takes one word at a time, and packed sequences."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

rng = np.random.RandomState(0)
SOS, EOS = 1, 2


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size):
        super(EncoderRNN, self).__init__()
        self.embedding = nn.Embedding(input_size, hidden_size, padding_idx=0)
        self.gru = nn.GRU(hidden_size, hidden_size, bidirectional=True)
        self.hidden_size = hidden_size

    def forward(self, input_seqs, input_lengths, hidden=None):
        packed = pack_padded_sequence(self.embedding(input_seqs), input_lengths)
        outputs, hidden = self.gru(packed, hidden)
        outputs, output_lengths = pad_packed_sequence(outputs)
        return outputs[:, :, : self.hidden_size] + outputs[:, :, self.hidden_size :], hidden


class Attn(nn.Module):
    def __init__(self, hidden_size):
        super(Attn, self).__init__()
        self.attn = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden, encoder_outputs):
        energies = torch.sum(hidden * self.attn(encoder_outputs), dim=2).t()
        return F.softmax(energies, dim=1).unsqueeze(1)


class DecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size):
        super(DecoderRNN, self).__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size)
        self.attn = Attn(hidden_size)
        self.concat = nn.Linear(hidden_size * 2, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, input_step, last_hidden, encoder_outputs):
        rnn_output, hidden = self.gru(self.embedding(input_step), last_hidden)
        weights = self.attn(rnn_output, encoder_outputs)
        context = weights.bmm(encoder_outputs.transpose(0, 1))
        both = torch.cat((rnn_output.squeeze(0), context.squeeze(1)), 1)
        return self.out(torch.tanh(self.concat(both))), hidden


encoder, decoder = EncoderRNN(9, 6), DecoderRNN(6, 9)
for p in [*encoder.parameters(), *decoder.parameters()]:
    p.data = torch.tensor(rng.uniform(-0.5, 0.5, p.shape), dtype=torch.float32)
optimizers = [optim.SGD(encoder.parameters(), lr=0.1), optim.Adam(decoder.parameters(), lr=0.01)]
for step in range(3):
    lengths = sorted(rng.randint(2, 6, 4).tolist(), reverse=True)
    source = pad_sequence([torch.tensor(rng.randint(3, 9, n)) for n in lengths])
    target = pad_sequence([torch.tensor([*rng.randint(3, 9, n - 1), EOS]) for n in lengths])
    mask = (target != 0).bool()
    for optimizer in optimizers:
        optimizer.zero_grad()
    encoder_outputs, hidden = encoder(source, torch.tensor(lengths))
    hidden = hidden[:1]
    decoder_input = torch.LongTensor([[SOS for _ in range(4)]])
    loss, total = 0, 0
    for t in range(target.size(0)):
        output, hidden = decoder(decoder_input, hidden, encoder_outputs)
        if t % 2:
            decoder_input = target[t].view(1, -1)
        else:
            _, topi = output.topk(1)
            decoder_input = torch.LongTensor([[topi[i][0] for i in range(4)]])
        crossEntropy = -torch.log(torch.gather(F.softmax(output, 1), 1, target[t].view(-1, 1)).squeeze(1))
        loss = loss + crossEntropy.masked_select(mask[t]).mean() if mask[t].any() else loss
        total += mask[t].sum().item()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    print("loss", loss.item(), total)
