"""NVIDIA's GPUs: where arrays on them come from, and the device that stands in for one."""
