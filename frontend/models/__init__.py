"""Models of PyTorch to graphs: modules as regions, operators with their lines, shapes, FLOPs and bytes.

torch is imported when a model is asked for, and never before.
"""
