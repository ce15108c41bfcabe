"""Gaussian Mixture Attention in PyTorch."""
