package mirror

import (
	"fmt"
	"io/fs"
	"syscall"
)

// number is what else tells one content of a file from another: its inode and when that changed.
func number(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(st.Ino, " ", st.Ctim.Sec, ".", st.Ctim.Nsec)
}
