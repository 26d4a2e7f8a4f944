"""Element types as NumPy knows them."""
import numpy as np

NUMPY = {'bool': np.bool_, 'u8': np.uint8, 'i8': np.int8, 'u16': np.uint16, 'i16': np.int16, 'u32': np.uint32,
         'i32': np.int32, 'u64': np.uint64, 'i64': np.int64, 'f16': np.float16, 'f32': np.float32, 'f64': np.float64,
         'bf16': np.uint16,  # numpy has no bfloat16: its bits
         'u4': np.uint8, 'i4': np.int8,  # nor four bits: a byte each, here
         'string': np.object_}  # of str
# Numbers that are only moved and converted: a plan has their bytes, one for each.
CODES = {'f8e4m3fn': np.uint8, 'f8e4m3fnuz': np.uint8, 'f8e5m2': np.uint8, 'f8e5m2fnuz': np.uint8, 'f4e2m1': np.uint8,
         'f8e8m0': np.uint8, 'u2': np.uint8, 'i2': np.int8}
# What NumPy gets from the package ml_dtypes.
ML_DTYPES = {'bf16': 'bfloat16', 'u4': 'uint4', 'i4': 'int4', 'f8e4m3fn': 'float8_e4m3fn', 'f8e4m3fnuz': 'float8_e4m3fnuz',
             'f8e5m2': 'float8_e5m2', 'f8e5m2fnuz': 'float8_e5m2fnuz', 'f4e2m1': 'float4_e2m1fn',
             'f8e8m0': 'float8_e8m0fnu', 'u2': 'uint2', 'i2': 'int2'}

STRINGS = 'OUST'  # the kinds of arrays that may hold strings

_SMALL = ('u4', 'i4', 'u2', 'i2')  # integers of less than a byte
_TAGS = {np.dtype(NUMPY[tag]): tag for tag in reversed(NUMPY) if tag not in ML_DTYPES}
_ML_TAGS = {name: tag for tag, name in ML_DTYPES.items()}


def tagged(array):
    """(weft's name of the element type, the array as NUMPY has that type), C-contiguous."""
    array = np.asarray(array)
    array = np.require(array, dtype=array.dtype.newbyteorder('='), requirements='C')
    if array.dtype.kind in STRINGS:
        return 'string', array
    tag = _ML_TAGS.get(array.dtype.name) or _TAGS.get(array.dtype)
    if tag is None:
        raise TypeError(f'found elements of {array.dtype}, expected one of {", ".join([*NUMPY])}')
    return tag, stored(array, tag)


def stored(array, tag):
    """An array of ml_dtypes' type for this one as NUMPY's or CODES'; others as they are."""
    if _ML_TAGS.get(array.dtype.name) != tag:
        return array
    bits = (NUMPY | CODES)[tag]
    return array.astype(bits) if tag in _SMALL else array.view(bits)


def loaded(array, tag):
    """The inverse: an array of NUMPY's or CODES' type as ml_dtypes' for this one, if that has it."""
    if tag not in ML_DTYPES:
        return array
    import ml_dtypes
    dtype = getattr(ml_dtypes, ML_DTYPES[tag])
    return array.astype(dtype) if tag in _SMALL else array.view(dtype)


def packed(array, where):
    """(shape, the bytes of each element) of an array of strings. What is no UTF-8 stands in a str as surrogates
    (PEP 383)."""
    texts = []
    for element in array.ravel().tolist():
        if not isinstance(element, (str, bytes)):
            from weft import Error
            raise Error(2, f'found an element of {type(element).__name__}, expected a str', where)
        try:
            texts.append(element if isinstance(element, bytes) else element.encode('utf-8', 'surrogateescape'))
        except UnicodeEncodeError:
            from weft import Error
            raise Error(2, f'found {element!a}, which is no text', where) from None
    return list(array.shape), texts


def unpacked(shape, texts):
    """The inverse: an array of str."""
    array = np.empty(len(texts), np.object_)
    array[:] = [text.decode('utf-8', 'surrogateescape') for text in texts]
    return array.reshape(shape)
