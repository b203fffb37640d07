"""ONNX operators over tensors, by family; `jit.onnx.table` finds them."""
