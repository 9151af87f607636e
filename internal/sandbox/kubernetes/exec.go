package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/mirror"
	"github.com/inspan/inspan/internal/sandbox/rest"
)

// The exec of a pod over a WebSocket: each message begins with the number of a channel. Version 5 of the protocol can
// close one, which tells a command the end of its input.
const (
	protocol = "v5.channel.k8s.io"

	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelError  = 3 // the status at the end
	channelClose  = 255

	// maxMessage is the most bytes of a message that is taken, inputChunk of one that is sent.
	maxMessage = 1 << 20
	inputChunk = 32 << 10
	// alive is how often the connection is tried; one that does not answer for as long is cut.
	alive = 30 * time.Second
	// obituary is how often a pod in which nothing could be run is looked at.
	obituary = 20
	// inputGrace is how long a Read of Stdin that is still blocked is waited for.
	inputGrace = 100 * time.Millisecond
)

// load reads a command line from stdin, its length first, and becomes it. So nothing of it is in the address of a
// request.
const load = `IFS= read -r n && s=$(head -c "$n"; echo .) && eval "${s%.}"`

// machine is one pod.
type machine struct {
	cluster *cluster
	claim   string // the claim that it was got by; empty for a pod that was made
	name    string // the pod, and its container
	sandbox string
	disk    int64 // the limit of its files in bytes, 0 without
}

var _ mirror.Remote = (*machine)(nil)

// End implements mirror.Remote.
func (m *machine) End(ctx context.Context) error {
	defer m.cluster.http.CloseIdleConnections()
	return m.remove(ctx)
}

// remove returns when the pod is gone, and the claim that it was got by.
func (m *machine) remove(ctx context.Context) error {
	if m.claim != "" {
		return m.cluster.unclaim(ctx, m.claim)
	}
	return m.cluster.remove(ctx, m.name)
}

// quoted is a command line as text for a shell, which becomes the command.
func quoted(args []string) string {
	var b strings.Builder
	b.WriteString("exec")
	for _, arg := range args {
		b.WriteString(" '" + strings.ReplaceAll(arg, "'", `'\''`) + "'")
	}
	return b.String()
}

// dial opens an exec.
func (m *machine) dial(ctx context.Context) (*websocket.Conn, error) {
	query := url.Values{"container": {m.sandbox}, "command": {"/bin/sh", "-c", load}, "stdin": {"true"},
		"stdout": {"true"}, "stderr": {"true"}}
	header := http.Header{}
	if err := m.cluster.authorize(header); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCluster, err)
	}
	at := m.cluster.url + m.cluster.pods(m.name) + "/exec?" + query.Encode()
	conn, res, err := websocket.Dial(ctx, at, &websocket.DialOptions{HTTPClient: m.cluster.http, HTTPHeader: header,
		Subprotocols: []string{protocol}})
	if err != nil {
		if res != nil && res.Body != nil && res.StatusCode != http.StatusSwitchingProtocols {
			err = m.cluster.client().Refused(res)
		}
		return nil, fmt.Errorf("%w: exec in pod %s: %w", ErrCluster, m.name, err)
	}
	if got := conn.Subprotocol(); got != protocol {
		return nil, errors.Join(fmt.Errorf("%w: exec in pod %s: the server chose the protocol %.40q, not %s: Kubernetes 1.30 or newer is required", ErrCluster, m.name, got, protocol), conn.CloseNow())
	}
	conn.SetReadLimit(maxMessage)
	return conn, nil
}

// Run implements mirror.Remote.
func (m *machine) Run(ctx context.Context, p mirror.Program) error {
	killed, err := m.exec(ctx, p)
	if err == nil && !killed || ctx.Err() != nil {
		return err
	}
	return errors.Join(err, m.ended(ctx))
}

// ended says why the pod runs no more, nil where it runs or that is not known. A node ends what runs in a pod a little
// before it says so.
func (m *machine) ended(ctx context.Context) error {
	tick := time.NewTicker(m.cluster.cfg.Poll)
	defer tick.Stop()
	for range obituary {
		var p pod
		err := m.cluster.call(ctx, http.MethodGet, m.cluster.pods(m.name), nil, &p)
		switch {
		case rest.Missing(err):
			return fmt.Errorf("%w %s is missing: it was deleted, or its node was lost", ErrPod, m.name)
		case err != nil:
			return nil // the cluster cannot be asked, which the command's own error says
		case p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded":
			over := fmt.Errorf("%w %s has ended: %s", ErrPod, m.name, waits(p.Status))
			if p.Status.Reason == "Evicted" && m.disk > 0 {
				return fmt.Errorf("%w: %d bytes: %w", sandbox.ErrDisk, m.disk, over)
			}
			return over
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// exec runs a program and returns when its end was received, or the connection broke, and whether it was killed.
func (m *machine) exec(ctx context.Context, p mirror.Program) (killed bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conn, err := m.dial(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.CloseNow() }() // it has said what it had to say
	var talking sync.WaitGroup
	talking.Go(func() { keep(ctx, conn, cancel) })
	sent := make(chan struct{})
	go func() { // a Read of Stdin may never return
		defer close(sent)
		if err := send(ctx, conn, p); err != nil && ctx.Err() == nil {
			cancel(fmt.Errorf("%w: %w", mirror.ErrCut, err))
		}
	}()
	end, err := receive(ctx, conn, p)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
	} else {
		err = end.verdict()
	}
	cancel(nil)
	talking.Wait()
	left := time.NewTimer(inputGrace)
	defer left.Stop()
	select {
	case <-sent:
	case <-left.C:
	}
	return end.killed(), err
}

// keep tries the connection now and then.
func keep(ctx context.Context, conn *websocket.Conn, cut context.CancelCauseFunc) {
	tick := time.NewTicker(alive)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		inner, cancel := context.WithTimeout(ctx, alive)
		err := conn.Ping(inner)
		cancel()
		if err != nil && ctx.Err() == nil {
			cut(fmt.Errorf("%w: no response: %w", mirror.ErrCut, err))
			return
		}
	}
}

// send sends the command line and its input.
func send(ctx context.Context, conn *websocket.Conn, p mirror.Program) error {
	text := quoted(p.Args)
	var input io.Reader = strings.NewReader(fmt.Sprintf("%d\n%s", len(text), text))
	if p.Stdin != nil {
		input = io.MultiReader(input, p.Stdin)
	}
	buf := make([]byte, 1+inputChunk)
	buf[0] = channelStdin
	for {
		n, err := input.Read(buf[1:])
		if n > 0 {
			if werr := conn.Write(ctx, websocket.MessageBinary, buf[:1+n]); werr != nil {
				return werr
			}
		}
		if err != nil { // its end, or the reader's own error: the program sees the end of its input
			return conn.Write(ctx, websocket.MessageBinary, []byte{channelClose, channelStdin})
		}
	}
}

// ending is the status at the end of an exec.
type ending struct {
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Details struct {
		Causes []struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"causes"`
	} `json:"details"`
}

// verdict is nil where the program ran to its end, with whatever code.
func (e ending) verdict() error {
	if e.Status == "Success" || e.Reason == "NonZeroExitCode" {
		return nil
	}
	return fmt.Errorf("%w: exec: %.60q %.*q", ErrCluster, e.Reason, maxWord, e.Message)
}

// killed reports whether the program was ended by SIGKILL, as all programs of a pod are that its node ends.
func (e ending) killed() bool {
	for _, c := range e.Details.Causes {
		if c.Reason == "ExitCode" && c.Message == "137" {
			return true
		}
	}
	return false
}

// hear passes on output until the status has come.
func receive(ctx context.Context, conn *websocket.Conn, p mirror.Program) (ending, error) {
	buf := make([]byte, 64<<10)
	for {
		_, r, err := conn.Reader(ctx)
		if err != nil {
			return ending{}, fmt.Errorf("%w: %w", mirror.ErrCut, err)
		}
		if _, err := io.ReadFull(r, buf[:1]); err != nil {
			return ending{}, fmt.Errorf("%w: an empty message: %w", mirror.ErrCut, err)
		}
		var to io.Writer
		switch buf[0] {
		case channelStdout:
			to = p.Stdout
		case channelStderr:
			to = p.Stderr
		case channelError:
			var e ending
			if err := json.NewDecoder(r).Decode(&e); err != nil {
				return e, fmt.Errorf("%w: the status: %w", mirror.ErrCut, err)
			}
			return e, nil
		default:
			to = io.Discard
		}
		for err == nil {
			var n int
			n, err = r.Read(buf)
			_, _ = to.Write(buf[:n]) // which never fails
		}
		if !errors.Is(err, io.EOF) {
			return ending{}, fmt.Errorf("%w: %w", mirror.ErrCut, err)
		}
	}
}

// script runs a script of one line and says why it failed.
func (m *machine) script(ctx context.Context, script, path string, in io.Reader, out io.Writer) error {
	errs, over := &word{}, &last{to: out}
	err := m.Run(ctx, mirror.Program{Args: []string{"/bin/sh", "-c", script + ` && printf %s "$2"`, "sh", path, done},
		Stdin: in, Stdout: over, Stderr: errs})
	if err == nil && !over.isDone() {
		err = fmt.Errorf("%w: it was not executed: %.*q", ErrCluster, maxWord, errs.text)
	}
	return err
}

// Put implements mirror.Remote.
func (m *machine) Put(ctx context.Context, path string, body io.Reader) error {
	if err := m.script(ctx, `cat > "$1"`, path, body, io.Discard); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	return nil
}

// Get implements mirror.Remote.
func (m *machine) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	d := &download{PipeReader: r, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		err := m.script(ctx, `cat < "$1"`, path, nil, w)
		_ = w.CloseWithError(err) // which never fails
	}()
	return d, nil
}

// download is a file that is read. Close ends it.
type download struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

// Close implements io.Closer.
func (d *download) Close() error {
	d.cancel()
	err := d.PipeReader.Close()
	<-d.done
	return err
}

// done is said behind an output that is whole.
const done = "whole"

// last keeps the end of an output back, to see whether it is whole.
type last struct {
	to   io.Writer
	held []byte
}

func (l *last) Write(p []byte) (int, error) {
	n := len(p)
	if keep := len(done); n >= keep {
		_, _ = l.to.Write(l.held) // a reader that went away ends the exec by its context
		_, _ = l.to.Write(p[:n-keep])
		l.held = append(l.held[:0], p[n-keep:]...)
		return n, nil
	}
	l.held = append(l.held, p...)
	if over := len(l.held) - len(done); over > 0 {
		_, _ = l.to.Write(l.held[:over])
		l.held = append(l.held[:0], l.held[over:]...)
	}
	return n, nil
}

func (l *last) isDone() bool { return string(l.held) == done }

// word keeps the beginning of an error text.
type word struct{ text []byte }

func (w *word) Write(p []byte) (int, error) {
	w.text = append(w.text, p[:min(len(p), max(0, maxWord-len(w.text)))]...)
	return len(p), nil
}
