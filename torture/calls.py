"""Calls of every shape: what a learner is told, in any order and of any kind, is heard whole or refused whole."""
