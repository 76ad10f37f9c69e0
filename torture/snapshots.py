"""Damaged, forged and oversized snapshots, and files that several processes write."""
