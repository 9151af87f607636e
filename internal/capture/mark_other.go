//go:build !linux

package capture

import (
	"io/fs"
	"os"
)

// markOf tells a file's state.
func markOf(info fs.FileInfo) mark {
	return mark{Size: info.Size(), ModTime: info.ModTime().UnixNano()}
}

const openFlags = os.O_RDONLY
