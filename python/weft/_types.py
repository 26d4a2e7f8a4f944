"""Element types as NumPy knows them."""
import numpy as np

NUMPY = {'bool': np.bool_, 'u8': np.uint8, 'i8': np.int8, 'u16': np.uint16, 'i16': np.int16, 'u32': np.uint32,
         'i32': np.int32, 'u64': np.uint64, 'i64': np.int64, 'f16': np.float16, 'f32': np.float32, 'f64': np.float64,
         'bf16': np.uint16,  # numpy has no bfloat16: its bits
         'u4': np.uint8, 'i4': np.int8}  # nor four bits: a byte each, here
# Those that it gets from the package ml_dtypes.
ML_DTYPES = {'bf16': 'bfloat16', 'u4': 'uint4', 'i4': 'int4'}

_SMALL = ('u4', 'i4')  # than a byte
_TAGS = {np.dtype(NUMPY[tag]): tag for tag in reversed(NUMPY) if tag not in ML_DTYPES}
_ML_TAGS = {name: tag for tag, name in ML_DTYPES.items()}


def tagged(array):
    """(weft's name of the element type, the array as NUMPY has that type), C-contiguous."""
    array = np.asarray(array)
    array = np.require(array, dtype=array.dtype.newbyteorder('='), requirements='C')
    tag = _ML_TAGS.get(array.dtype.name) or _TAGS.get(array.dtype)
    if tag is None:
        raise TypeError(f'found elements of {array.dtype}, expected one of {", ".join([*NUMPY])}')
    return tag, stored(array, tag)


def stored(array, tag):
    """An array of ml_dtypes' type for this one as NUMPY's; others as they are."""
    if _ML_TAGS.get(array.dtype.name) != tag:
        return array
    return array.astype(NUMPY[tag]) if tag in _SMALL else array.view(NUMPY[tag])


def loaded(array, tag):
    """The inverse: an array of NUMPY's type as ml_dtypes' for this one, if that has it."""
    if tag not in ML_DTYPES:
        return array
    import ml_dtypes
    dtype = getattr(ml_dtypes, ML_DTYPES[tag])
    return array.astype(dtype) if tag in _SMALL else array.view(dtype)
