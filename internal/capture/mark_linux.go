package capture

import (
	"io/fs"
	"syscall"
)

// markOf tells a file's state. The time of the last change of its inode cannot be set back, as its time can.
func markOf(info fs.FileInfo) mark {
	m := mark{Size: info.Size(), ModTime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		m.Change, m.Inode = st.Ctim.Nano(), st.Ino
	}
	return m
}

// openFlags keep the opening of a file from waiting for somebody at the other end of a pipe.
const openFlags = syscall.O_RDONLY | syscall.O_NONBLOCK
