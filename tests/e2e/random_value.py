"""What the values of random networks are."""
from dataclasses import dataclass

import numpy as np


class Reject(Exception):
    """A node that can't be added here."""


@dataclass
class Value:
    name: str
    array: np.ndarray
    noisy: tuple
    exact: bool = True  # no rounding on the way from the inputs

    @property
    def shape(self):
        return self.array.shape

    @property
    def rank(self):
        return self.array.ndim

    @property
    def kind(self):
        return self.array.dtype.kind
