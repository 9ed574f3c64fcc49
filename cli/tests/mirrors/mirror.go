// Package mirror declares structs of the ABI as a Go program does.
package mirror

import "unsafe"

const (
	STAGE_EXECUTE = 3
	STAGE_RECORD  = 4
)

type Buffer struct {
	struct_size uint64
	extensions  unsafe.Pointer
	kind        uint32
	data        unsafe.Pointer
	rank        int64
	dims        *int64
}

type Args struct {
	struct_size uint64
	extensions  unsafe.Pointer
	size        int64
	types       *uint32
	args        *unsafe.Pointer
}
