package sandboxtest

import "golang.org/x/sys/unix"

// exchange gives two paths each other's place, in one moment.
func exchange(a, b string) error { return unix.RenamexNp(a, b, unix.RENAME_SWAP) }
