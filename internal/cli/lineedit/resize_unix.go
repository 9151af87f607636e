//go:build unix

package lineedit

import (
	"os"
	"os/signal"
	"syscall"
)

// resizes returns a channel of changes of the terminal's size until stop is called.
func resizes() (changed <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1) // one that waits stands for those that come
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}
