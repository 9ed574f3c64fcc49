"""A mirror of the ABI with ctypes, as in programs that build call frames in Python."""

import ctypes

STAGE_EXECUTE = 3
STAGE_RECORD = 4


class Buffer(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extensions", ctypes.c_void_p),
        ("kind", ctypes.c_uint32),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    ]


class Args(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extensions", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("types", ctypes.POINTER(ctypes.c_uint32)),
        ("args", ctypes.POINTER(ctypes.c_void_p)),
    ]
