"""Inspection of a traced function: its kernels, where its time goes, why lines are one kernel or are not."""
