"""Networks for images: convolutions, and two that cut an image into patches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from benchmarks.models.model import Model, classification, images, supervised, with_classes

CLASSES = 100
RATE = 1e-5
"""Of networks with batch norms and plain gradient descent. With so few images the roundings of a batch norm become
errors of some percent in gradients, in any library; larger steps would make different losses of them."""


def _classifier(
    name: str, network: Any, size: int, training_size: int, optimizer: str, settings: dict[str, Any], **facts: Any
) -> Model:
    return Model(
        name,
        network,
        images(size),
        with_classes(images(training_size), CLASSES),
        supervised(classification, optimizer, **settings),
        images=True,
        **facts,
    )


# -- ResNet ------------------------------------------------------------------------------------------------------


def _basic_block(lib: Any) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class BasicBlock(nn.Module):  # type: ignore[misc]
        expansion = 1

        def __init__(self, inputs: int, width: int, stride: int, downsample: Any) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.downsample = downsample

        def forward(self, x: Any) -> Any:
            identity = x if self.downsample is None else self.downsample(x)
            out = F.relu(self.bn1(self.conv1(x)))
            return F.relu(self.bn2(self.conv2(out)) + identity)

    return BasicBlock


def _bottleneck(lib: Any) -> Any:
    nn = lib.nn

    class Bottleneck(nn.Module):  # type: ignore[misc]
        expansion = 4

        def __init__(self, inputs: int, width: int, stride: int, downsample: Any) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, width, kernel_size=1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, kernel_size=3, stride=stride, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3 = nn.Conv2d(width, width * self.expansion, kernel_size=1, bias=False)
            self.bn3 = nn.BatchNorm2d(width * self.expansion)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = downsample

        def forward(self, x: Any) -> Any:
            identity = x
            out = self.relu(self.bn1(self.conv1(x)))
            out = self.relu(self.bn2(self.conv2(out)))
            out = self.bn3(self.conv3(out))
            if self.downsample is not None:
                identity = self.downsample(x)
            out += identity
            return self.relu(out)

    return Bottleneck


def _resnet(lib: Any, bottleneck: bool, layers: Sequence[int], width: int) -> Any:
    nn = lib.nn
    Block = _bottleneck(lib) if bottleneck else _basic_block(lib)

    class ResNet(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inplanes = width
            self.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.relu = nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
            stages = [self._make_layer(width << n, blocks, 1 if n == 0 else 2) for n, blocks in enumerate(layers)]
            self.layers = nn.Sequential(*stages)
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(self.inplanes, CLASSES)

        def _make_layer(self, planes: int, blocks: int, stride: int) -> Any:
            downsample, out = None, planes * Block.expansion
            if stride != 1 or self.inplanes != out:
                convolution = nn.Conv2d(self.inplanes, out, kernel_size=1, stride=stride, bias=False)
                downsample = nn.Sequential(convolution, nn.BatchNorm2d(out))
            first = Block(self.inplanes, planes, stride, downsample)
            self.inplanes = out
            return nn.Sequential(first, *[Block(out, planes, 1, None) for _ in range(1, blocks)])

        def forward(self, x: Any) -> Any:
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.avgpool(self.layers(x))
            return self.fc(x.flatten(1))

    return ResNet()


def resnet(
    name: str, bottleneck: bool, layers: Sequence[int], width: int = 64, size: int = 224, training_size: int = 64
) -> Model:
    """A residual network of He et al. (2015), as in torchvision."""
    return _classifier(
        name,
        lambda lib, noisy: _resnet(lib, bottleneck, layers, width),
        size,
        training_size,
        "SGD",
        dict(lr=RATE, momentum=0.9, weight_decay=1e-4),
    )


# -- MobileNetV2 -------------------------------------------------------------------------------------------------

MOBILE_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks and the stride of the first one."""


def _mobilenet(lib: Any, noisy: bool, stages: Sequence[Sequence[int]], last: int) -> Any:
    nn = lib.nn

    def conv_bn_relu(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> Any:
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True))

    class InvertedResidual(nn.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
            super().__init__()
            hidden = inputs * expand
            self.use_res_connect = stride == 1 and inputs == outputs
            layers = [] if expand == 1 else [conv_bn_relu(inputs, hidden, kernel=1)]
            layers += [conv_bn_relu(hidden, hidden, stride=stride, groups=hidden)]
            layers += [nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
            self.conv = nn.Sequential(*layers)

        def forward(self, x: Any) -> Any:
            return x + self.conv(x) if self.use_res_connect else self.conv(x)

    class MobileNetV2(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            channels = 32
            features = [conv_bn_relu(3, channels, stride=2)]
            for expand, outputs, blocks, stride in stages:
                for n in range(blocks):
                    features.append(InvertedResidual(channels, outputs, stride if n == 0 else 1, expand))
                    channels = outputs
            features.append(conv_bn_relu(channels, last, kernel=1))
            self.features = nn.Sequential(*features)
            self.classifier = nn.Sequential(nn.Dropout(0.2 * noisy), nn.Linear(last, CLASSES))

        def forward(self, x: Any) -> Any:
            return self.classifier(self.features(x).mean([2, 3]))

    return MobileNetV2()


def mobilenet(
    name: str,
    stages: Sequence[Sequence[int]] = MOBILE_STAGES,
    last: int = 1280,
    size: int = 224,
    training_size: int = 64,
) -> Model:
    """MobileNetV2 of Sandler et al. (2018): depthwise convolutions between 1x1 ones."""
    return _classifier(
        name,
        lambda lib, noisy: _mobilenet(lib, noisy, stages, last),
        size,
        training_size,
        "SGD",
        dict(lr=RATE, momentum=0.9, weight_decay=4e-5, nesterov=True),
        noisy=True,
    )


# -- EfficientNet ------------------------------------------------------------------------------------------------

EFFICIENT_STAGES = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)  # fmt: skip
"""Expansion, channels, blocks, the stride of the first one, and the size of the kernel."""


def _mbconv(lib: Any, noisy: bool) -> Any:
    nn = lib.nn

    def conv_bn(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [convolution, nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01)]

    class SqueezeExcite(nn.Module):  # type: ignore[misc]
        def __init__(self, channels: int, squeezed: int) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
            self.avgpool, self.activation, self.gate = nn.AdaptiveAvgPool2d(1), nn.SiLU(inplace=True), nn.Sigmoid()

        def forward(self, x: Any) -> Any:
            scale = self.gate(self.fc2(self.activation(self.fc1(self.avgpool(x)))))
            return scale * x

    class MBConv(nn.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int, stride: int, expand: int, kernel: int, drop: float) -> None:
            super().__init__()
            hidden = inputs * expand
            layers = [] if expand == 1 else [*conv_bn(inputs, hidden, 1), nn.SiLU(inplace=True)]
            layers += [*conv_bn(hidden, hidden, kernel, stride, hidden), nn.SiLU(inplace=True)]
            layers += [SqueezeExcite(hidden, max(1, inputs // 4)), *conv_bn(hidden, outputs, 1)]
            self.block = nn.Sequential(*layers)
            self.residual, self.drop = stride == 1 and inputs == outputs, drop * noisy

        def forward(self, x: Any) -> Any:
            return x + self.drop_path(self.block(x)) if self.residual else self.block(x)

        def drop_path(self, x: Any) -> Any:
            if not self.training or self.drop == 0.0:
                return x
            keep = lib.rand(x.shape[0], 1, 1, 1) >= self.drop
            return x * keep / (1 - self.drop)

    return conv_bn, MBConv


def _efficientnet(lib: Any, noisy: bool, stages: Sequence[Sequence[int]], last: int) -> Any:
    nn = lib.nn
    conv_bn, MBConv = _mbconv(lib, noisy)

    class EfficientNet(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            channels, total = 32, sum(stage[2] for stage in stages)
            blocks: list[Any] = []
            for expand, outputs, count, stride, kernel in stages:
                for n in range(count):
                    drop = 0.2 * len(blocks) / total
                    blocks.append(MBConv(channels, outputs, stride if n == 0 else 1, expand, kernel, drop))
                    channels = outputs
            self.stem = nn.Sequential(*conv_bn(3, 32, 3, 2), nn.SiLU(inplace=True))
            self.blocks = nn.Sequential(*blocks)
            self.head = nn.Sequential(*conv_bn(channels, last, 1), nn.SiLU(inplace=True))
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.classifier = nn.Sequential(nn.Dropout(0.2 * noisy), nn.Linear(last, CLASSES))

        def forward(self, x: Any) -> Any:
            x = self.avgpool(self.head(self.blocks(self.stem(x))))
            return self.classifier(lib.flatten(x, 1))

    return EfficientNet()


def efficientnet(
    name: str,
    stages: Sequence[Sequence[int]] = EFFICIENT_STAGES,
    last: int = 1280,
    size: int = 224,
    training_size: int = 64,
) -> Model:
    """EfficientNet of Tan and Le (2019), with squeeze-and-excitation and stochastic depth."""
    return _classifier(
        name,
        lambda lib, noisy: _efficientnet(lib, noisy, stages, last),
        size,
        training_size,
        "AdamW",
        dict(lr=1e-4, weight_decay=1e-2),
        noisy=True,
    )


# -- ConvNeXt ----------------------------------------------------------------------------------------------------


def _convnext(lib: Any, depths: Sequence[int], widths: Sequence[int]) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class LayerNorm2d(nn.LayerNorm):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            x = x.permute(0, 2, 3, 1)
            x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
            return x.permute(0, 3, 1, 2)

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.dwconv = nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim)
            self.norm = nn.LayerNorm(dim, eps=1e-6)
            self.pwconv1, self.pwconv2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
            self.act = nn.GELU()
            self.gamma = nn.Parameter(1e-6 * lib.ones(dim))

        def forward(self, x: Any) -> Any:
            shortcut = x
            x = self.dwconv(x).permute(0, 2, 3, 1)  # (N, C, H, W) -> (N, H, W, C)
            x = self.gamma * self.pwconv2(self.act(self.pwconv1(self.norm(x))))
            return shortcut + x.permute(0, 3, 1, 2)

    class ConvNeXt(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            stages = [nn.Conv2d(3, widths[0], kernel_size=4, stride=4), LayerNorm2d(widths[0], eps=1e-6)]
            for n, (depth, width) in enumerate(zip(depths, widths)):
                if n:
                    stages += [LayerNorm2d(widths[n - 1], eps=1e-6), nn.Conv2d(widths[n - 1], width, 2, stride=2)]
                stages += [Block(width) for _ in range(depth)]
            self.features = nn.Sequential(*stages)
            self.norm, self.head = nn.LayerNorm(widths[-1], eps=1e-6), nn.Linear(widths[-1], CLASSES)

        def forward(self, x: Any) -> Any:
            return self.head(self.norm(self.features(x).mean([-2, -1])))

    return ConvNeXt()


def convnext(
    name: str,
    depths: Sequence[int] = (2, 2, 6, 2),
    widths: Sequence[int] = (40, 80, 160, 320),
    size: int = 160,
    training_size: int = 64,
) -> Model:
    """ConvNeXt of Liu et al. (2022), of the size called atto."""
    return _classifier(
        name,
        lambda lib, noisy: _convnext(lib, depths, widths),
        size,
        training_size,
        "AdamW",
        dict(lr=1e-4, weight_decay=0.05),
    )


# -- U-Net -------------------------------------------------------------------------------------------------------


def _unet(lib: Any, width: int, levels: int, classes: int) -> Any:
    nn = lib.nn

    def double_conv(inputs: int, outputs: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False), nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, kernel_size=3, padding=1, bias=False), nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        )  # fmt: skip

    class Up(nn.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.up = nn.ConvTranspose2d(inputs, outputs, kernel_size=2, stride=2)
            self.conv = double_conv(inputs, outputs)

        def forward(self, x: Any, skip: Any) -> Any:
            return self.conv(lib.cat([skip, self.up(x)], dim=1))

    class UNet(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            widths = [width << n for n in range(levels + 1)]
            self.inc = double_conv(3, width)
            pairs = list(pairwise(widths))
            self.downs = nn.ModuleList([nn.Sequential(nn.MaxPool2d(2), double_conv(a, b)) for a, b in pairs])
            self.ups = nn.ModuleList([Up(b, a) for a, b in reversed(pairs)])
            self.outc = nn.Conv2d(width, classes, kernel_size=1)

        def forward(self, x: Any) -> Any:
            found = [self.inc(x)]
            for down in self.downs:
                found.append(down(found[-1]))
            x = found.pop()
            for up in self.ups:
                x = up(x, found.pop())
            return self.outc(x)

    return UNet()


def unet(
    name: str, width: int = 16, levels: int = 4, size: int = 128, training_size: int = 64, classes: int = 4
) -> Model:
    """A U-Net of Ronneberger et al. (2015) with batch norms: a class for each pixel."""

    def loss(lib: Any, run: Any, x: Any, target: Any) -> Any:
        return lib.nn.functional.cross_entropy(run(x), target)

    return Model(
        name,
        lambda lib, noisy: _unet(lib, width, levels, classes),
        images(size),
        with_classes(images(training_size), classes, training_size, training_size),
        supervised(loss, "Adam", lr=1e-4),
        images=True,
    )


# -- patches -----------------------------------------------------------------------------------------------------


def _vit(lib: Any, noisy: bool, size: int, patch: int, width: int, depth: int, heads: int) -> Any:
    nn = lib.nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
            self.attention = nn.MultiheadAttention(width, heads, dropout=0.1 * noisy, batch_first=True)
            self.dropout = nn.Dropout(0.1 * noisy)
            inner, outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.mlp = nn.Sequential(inner, nn.GELU(), nn.Dropout(0.1 * noisy), outer, nn.Dropout(0.1 * noisy))

        def forward(self, x: Any) -> Any:
            y = self.ln_1(x)
            y, _ = self.attention(y, y, y, need_weights=False)
            x = x + self.dropout(y)
            return x + self.mlp(self.ln_2(x))

    class VisionTransformer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv_proj = nn.Conv2d(3, width, kernel_size=patch, stride=patch)
            self.class_token = nn.Parameter(lib.zeros(1, 1, width))
            self.pos_embedding = nn.Parameter(lib.zeros(1, (size // patch) ** 2 + 1, width))
            self.dropout = nn.Dropout(0.1 * noisy)
            self.layers = nn.Sequential(*[Block() for _ in range(depth)])
            self.ln, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, CLASSES)

        def forward(self, x: Any) -> Any:
            x = self.conv_proj(x).flatten(2).transpose(1, 2)
            x = lib.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1)
            x = self.layers(self.dropout(x + self.pos_embedding))
            return self.head(self.ln(x)[:, 0])

    return VisionTransformer()


def vit(name: str, size: int = 128, patch: int = 16, width: int = 256, depth: int = 6, heads: int = 4) -> Model:
    """A vision transformer of Dosovitskiy et al. (2020), written as in torchvision."""
    return _classifier(
        name,
        lambda lib, noisy: _vit(lib, noisy, size, patch, width, depth, heads),
        size,
        size,
        "AdamW",
        dict(lr=1e-4, weight_decay=0.05),
        training_batch=4,
        noisy=True,
    )


def _mixer(lib: Any, size: int, patch: int, width: int, depth: int) -> Any:
    nn = lib.nn
    patches = (size // patch) ** 2

    class MixerBlock(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.tokens = nn.Sequential(nn.Linear(patches, width // 2), nn.GELU(), nn.Linear(width // 2, patches))
            self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.norm2(x))

    class Mixer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, width, kernel_size=patch, stride=patch)
            self.blocks = nn.Sequential(*[MixerBlock() for _ in range(depth)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

        def forward(self, x: Any) -> Any:
            x = self.blocks(self.stem(x).flatten(2).transpose(1, 2))
            return self.head(self.norm(x).mean(dim=1))

    return Mixer()


def mixer(name: str, size: int = 128, patch: int = 16, width: int = 256, depth: int = 6) -> Model:
    """An MLP-Mixer of Tolstikhin et al. (2021)."""
    return _classifier(
        name,
        lambda lib, noisy: _mixer(lib, size, patch, width, depth),
        size,
        size,
        "Adam",
        dict(lr=1e-4),
        training_batch=4,
    )
