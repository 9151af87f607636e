package pool

import (
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

// headTime is how long a program may take to say what it asks for.
const headTime = time.Minute

// Local serves requests of the commands of a call: at the proxy of its sandbox, or on the loopback of this machine
// where the sandbox has that and is not isolated. end closes it.
func Local(out *Egress, mode sandbox.Mode) (serve func(http.Handler) (string, bool), end func()) {
	var s *http.Server
	served := make(chan struct{})
	serve = func(h http.Handler) (string, bool) {
		if base, ok := out.Local(h); ok {
			return base, true
		}
		if mode != sandbox.Host || s != nil {
			return "", false
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", false
		}
		s = &http.Server{Handler: h, ReadHeaderTimeout: headTime, ErrorLog: log.New(io.Discard, "", 0)}
		go func() { // end waits for it
			defer close(served)
			_ = s.Serve(l)
		}()
		return "http://" + l.Addr().String(), true
	}
	return serve, func() {
		_, _ = out.Local(nil)
		if s != nil {
			_ = s.Close()
			<-served
		}
	}
}
