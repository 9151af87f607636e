package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"

	"github.com/coder/websocket"

	"github.com/inspan/inspan/internal/sandbox/mirror/mirrortest"
)

// Channels of version 5 of the protocol.
const (
	stdin  = 0
	stdout = 1
	stderr = 2
	status = 3
	closed = 255
)

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	p, f := s.pods[r.PathValue("name")], s.faults
	s.mu.Unlock()
	switch {
	case p == nil || p.ending:
		refuse(w, http.StatusNotFound, "NotFound", "the pod is not there")
		return
	case q.Get("container") != at(p.object, "spec", "containers", 0, "name") || len(q["command"]) == 0 ||
		q.Get("stdin") != "true" || q.Get("stdout") != "true" || q.Get("stderr") != "true":
		refuse(w, http.StatusBadRequest, "BadRequest", "not an exec")
		return
	}
	speaks := []string{"v5.channel.k8s.io"}
	if f.Old {
		speaks = []string{"v4.channel.k8s.io"}
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: speaks})
	if err != nil {
		return // it has answered
	}
	defer func() { _ = conn.CloseNow() }() // it has said what it had to say
	conn.SetReadLimit(1 << 20)
	proc, err := p.machine.Start(q["command"], nil, "/", true)
	if err != nil {
		send(r.Context(), conn, status, fmt.Sprintf(`{"status":"Failure","reason":"InternalError","message":%q}`, err))
		return
	}
	e := &session{server: s, conn: conn, proc: proc, cut: f.Cut}
	e.serve(r.Context())
}

// session is one exec.
type session struct {
	server *Server
	conn   *websocket.Conn
	proc   *mirrortest.Process
	cut    string
}

func send(ctx context.Context, conn *websocket.Conn, channel byte, text string) {
	_ = conn.Write(ctx, websocket.MessageBinary, append([]byte{channel}, text...)) // who does not hear it has gone
}

func (e *session) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go e.listen(ctx, cancel)
	done := make(chan *os.ProcessState, 1)
	go func() {
		var outputs sync.WaitGroup
		outputs.Go(func() { e.pass(ctx, cancel, stdout, e.proc.Stdout) })
		outputs.Go(func() { e.pass(ctx, cancel, stderr, e.proc.Stderr) })
		outputs.Wait()
		done <- e.proc.Wait()
	}()
	select {
	case state := <-done:
		verdict := map[string]any{"metadata": map[string]any{}, "status": "Success"}
		if code := state.ExitCode(); code != 0 {
			verdict = map[string]any{"metadata": map[string]any{}, "status": "Failure", "reason": "NonZeroExitCode",
				"message": "command terminated with non-zero exit code",
				"details": map[string]any{"causes": []any{map[string]any{"reason": "ExitCode", "message": strconv.Itoa(code)}}}}
		}
		text, err := json.Marshal(verdict)
		if err == nil {
			send(ctx, e.conn, status, string(text))
		}
		_ = e.conn.Close(websocket.StatusNormalClosure, "") // who does not hear it has gone
	case <-ctx.Done():
	}
}

// listen passes on the input, until it is closed or the connection is.
func (e *session) listen(ctx context.Context, gone context.CancelFunc) {
	for {
		_, data, err := e.conn.Read(ctx)
		if err != nil {
			gone()
			return
		}
		switch {
		case len(data) == 2 && data[0] == closed && data[1] == stdin:
			_ = e.proc.Stdin.Close() // the second time is as good as the first
		case len(data) > 1 && data[0] == stdin:
			_, _ = e.proc.Stdin.Write(data[1:]) // a program that has ended reads nothing
		}
	}
}

// pass sends an output until its end. Where no one listens any more, the program is not held up.
func (e *session) pass(ctx context.Context, gone context.CancelFunc, channel byte, r io.Reader) {
	buf := make([]byte, 1+32<<10)
	buf[0] = channel
	for {
		n, err := r.Read(buf[1:])
		if e.cut != "" && bytes.Contains(buf[1:1+n], []byte(e.cut)) {
			e.server.Fail(Faults{})
			_ = e.conn.CloseNow() // on purpose
			gone()
		}
		if n > 0 {
			_ = e.conn.Write(ctx, websocket.MessageBinary, buf[:1+n])
		}
		if err != nil {
			return
		}
	}
}
