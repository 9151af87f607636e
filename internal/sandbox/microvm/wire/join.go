package wire

import (
	"io"
	"net"
	"sync"
)

// Join passes on what two connections say to each other until both have ended, and closes them.
func Join(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { pass(a, b) })
	both.Go(func() { pass(b, a) })
	both.Wait()
	_, _ = a.Close(), b.Close() // no one is left to be told
}

// pass carries one direction and tells the other end that it is over.
func pass(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	switch {
	case err != nil || !ok:
		_ = to.Close() // a stream's Close ends its own direction alone
	default:
		_ = half.CloseWrite() // it may be gone
	}
	if err != nil {
		_ = from.Close()
	}
}
