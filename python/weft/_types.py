"""Element types as NumPy knows them."""
import numpy as np

NUMPY = {'bool': np.bool_, 'u8': np.uint8, 'i8': np.int8, 'u16': np.uint16, 'i16': np.int16, 'u32': np.uint32,
         'i32': np.int32, 'u64': np.uint64, 'i64': np.int64, 'f16': np.float16, 'f32': np.float32, 'f64': np.float64,
         'bf16': np.uint16,  # numpy has no bfloat16: its bits
         'u4': np.uint8, 'i4': np.int8}  # nor four bits: a byte each, here
