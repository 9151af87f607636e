package local

import (
	"io/fs"
	"syscall"
)

// diskSize is what a file takes on disk, in bytes; linked ones are told apart by id.
func diskSize(info fs.FileInfo) (size int64, id [2]uint64, linked bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size(), id, false
	}
	// stat(2) counts blocks of 512 bytes, whatever the file system's own are.
	return int64(st.Blocks) * 512, [2]uint64{uint64(st.Dev), uint64(st.Ino)}, st.Nlink > 1 && info.Mode().IsRegular()
}
