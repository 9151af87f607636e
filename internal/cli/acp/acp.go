// Package acp has inspan acp: an agent of the station for editors, over the Agent Client Protocol on standard input
// and output.
//
// Promises: a prompt is a run in the session, followed by the same client as that of every other command. What the
// model writes and the tools do is shown as it comes; a gate asks the editor's person, and no answer is no decision.
// Standard output has messages of the protocol and nothing else. A run goes on when the editor is gone, as far as its
// station does.
package acp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/dispatch"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const (
	// protocolVersion is the one that is spoken here.
	protocolVersion = 1
	// maxLine is the most bytes of a message of the editor, maxSessions how many sessions it may have open.
	maxLine     = 4 << 20
	maxSessions = 256
)

// command is inspan acp.
type command struct {
	App   *app.App
	flags dispatch.RunFlags
}

// Command makes inspan acp.
func Command(a *app.App) *cobra.Command {
	c := &command{App: a}
	cmd := &cobra.Command{
		Use: "acp AGENT", Short: "Offer an agent to an editor that speaks the Agent Client Protocol",
		Long: `An editor such as Zed starts this command and speaks the Agent Client Protocol (version 1) with it on standard
input and output. Each prompt is a run in a session of the station; its text and tool calls are shown as they come, and
a gate asks you in the editor. Sessions stay at the station: the editor can load them again.

As with inspan run, a session works on a copy of the editor's project: "inspan merge SESSION" brings what it made.
With --in-place it works on the files themselves. Where no station listens at --server, one is started here.`,
		Example: `  inspan acp coder
  inspan acp coder --in-place --autonomy 2
  # Zed, settings.json:
  #   "agent_servers": {"Inspan": {"command": "inspan", "args": ["acp", "coder"]}}`,
		Args: app.Args(1),
		RunE: c.run,
	}
	fl := cmd.Flags()
	fl.StringVar(&c.flags.Model, "model", a.Lookup("MODEL", ""), "other model, provider/name (MODEL)")
	fl.IntVar(&c.flags.Autonomy, "autonomy", 0, "1 to 5; the agent's, else 3, if not given")
	fl.IntVar(&c.flags.MaxCalls, "max-tool-calls", 0, "budget of tool calls for each prompt")
	fl.IntVar(&c.flags.MaxSteps, "max-steps", 0, "most model turns for each prompt; the agent's, else 50, if not given")
	fl.StringVar(&c.flags.Timeout, "timeout", "", "time limit of each prompt, for example 30m")
	fl.BoolVar(&c.flags.Own, "ephemeral", false, "do not look for a station, start one in this process")
	fl.StringVar(&c.flags.Store, "store", "", "folder of a station started in this process; .inspan if not given")
	c.flags.Add(a, cmd)
	c.flags.Flags(a, cmd)
	return cmd
}

func (c *command) run(cmd *cobra.Command, args []string) (err error) {
	if c.App.CanAsk() {
		return app.Usage("acp is for editors, which start it (inspan acp --help); to talk to the agent here: inspan repl %s",
			args[0])
	}
	c.flags = c.flags.Of(c.App)
	if _, err := c.flags.Task(args[0], strings.NewReader("")); err != nil {
		return err
	}
	ctx := cmd.Context()
	c.flags.Store = cmp.Or(c.flags.Store, c.App.Folder)
	h, err := dispatch.ReachHost(ctx, c.App, c.flags)
	if err != nil {
		return err
	}
	s := &server{app: c.App, c: h.C, flags: c.flags, agent: args[0], out: c.App.Out, sessions: map[string]*session{},
		waiting: map[string]chan message{}}
	s.place = func(ctx context.Context, copied *workcopy.Copy, task *events.Task) (*dispatch.Visit, error) {
		if c.flags.InPlace() {
			if err := c.flags.SoundInPlace(c.App, copied); err != nil {
				return nil, err
			}
			return h.Enter(ctx, c.App, copied, task)
		}
		return nil, h.Place(ctx, c.App, copied, c.flags, task)
	}
	defer func() { err = errors.Join(err, dispatch.LeaveHost(c.App, h, run.State{})) }()
	return s.serve(ctx, c.App.In)
}

// server speaks with one editor.
type server struct {
	app   *app.App
	c     *client.Client
	flags dispatch.RunFlags
	agent string
	// place has a task work where its session does.
	place func(ctx context.Context, copied *workcopy.Copy, task *events.Task) (*dispatch.Visit, error)
	// working are the requests under way.
	working sync.WaitGroup

	writing sync.Mutex
	out     io.Writer // guarded by writing

	mu sync.Mutex
	// Guarded by mu: the sessions of this editor, the number of the last request to it, and those that wait for its
	// answer.
	sessions map[string]*session
	last     int
	waiting  map[string]chan message
}

// message is any message of JSON-RPC.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
	// raw parts of a message that came.
	params, result json.RawMessage
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// Codes of errors.
const (
	codeParse    = -32700
	codeRequest  = -32600
	codeMethod   = -32601
	codeParams   = -32602
	codeInternal = -32603
	codeMissing  = -32002
)

// UnmarshalJSON implements json.Unmarshaler.
func (m *message) UnmarshalJSON(b []byte) error {
	var in struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
		Result  json.RawMessage `json:"result"`
		Error   *rpcError       `json:"error"`
	}
	err := json.Unmarshal(b, &in)
	*m = message{Version: in.Version, ID: in.ID, Method: in.Method, Error: in.Error, params: in.Params, result: in.Result}
	return err
}

// errTooLong means that the editor sent more than a message may have.
var errTooLong = fmt.Errorf("a message has more than %d bytes", maxLine)

// serve answers the editor until its end of standard input, or ctx. Requests under way end with it; their runs do not.
func (s *server) serve(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); s.working.Wait(); s.close() }()
	type line struct {
		text []byte
		err  error
	}
	lines := make(chan line) // unbuffered: a reader that waits at the end is left behind
	go func() {
		r := bufio.NewReaderSize(in, maxLine)
		for {
			text, err := r.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				err = errTooLong
			}
			select {
			case lines <- line{bytes.Clone(text), err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		select {
		case l := <-lines:
			if len(bytes.TrimSpace(l.text)) > 0 && !errors.Is(l.err, errTooLong) {
				s.receive(ctx, l.text)
			}
			if errors.Is(l.err, io.EOF) {
				return nil
			}
			if l.err != nil {
				s.answer(nil, nil, &rpcError{codeRequest, l.err.Error()})
				return l.err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// close lets the copies of projects go.
func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ss := range s.sessions {
		ss.copied.Close()
	}
}

// receive takes one message.
func (s *server) receive(ctx context.Context, text []byte) {
	var m message
	if !json.Valid(text) {
		s.answer(nil, nil, &rpcError{codeParse, "the message is not JSON"})
		return
	}
	if err := json.Unmarshal(text, &m); err != nil || m.Version != "2.0" {
		s.answer(nil, nil, &rpcError{codeRequest, "the message is none of JSON-RPC 2.0"})
		return
	}
	switch {
	case m.Method == "" && len(m.ID) > 0:
		s.mu.Lock()
		answer := s.waiting[string(m.ID)]
		delete(s.waiting, string(m.ID))
		s.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	case m.Method == "session/cancel":
		s.cancel(ctx, m.params)
	case len(m.ID) == 0: // a notification that is not known
	default:
		carry := func() (any, error) { return s.request(ctx, m) }
		if m.Method == "session/prompt" {
			// It has its session before the next message is read, which may cancel it.
			ss, text, err := s.claim(m.params)
			carry = func() (any, error) { return s.prompt(ctx, ss, text, err) }
		}
		s.working.Go(func() {
			result, err := carry()
			var e *rpcError
			if err != nil {
				e = s.refusal(err)
			}
			s.answer(m.ID, result, e)
		})
	}
}

// request carries out a request.
func (s *server) request(ctx context.Context, m message) (any, error) {
	switch m.Method {
	case "initialize":
		return map[string]any{"protocolVersion": protocolVersion, "authMethods": []any{},
			"agentInfo": map[string]any{"name": "inspan", "title": "Inspan: " + s.agent, "version": "1"},
			"agentCapabilities": map[string]any{"loadSession": true,
				"promptCapabilities": map[string]bool{"image": false, "audio": false, "embeddedContext": true},
				"mcpCapabilities":    map[string]bool{"http": false, "sse": false}}}, nil
	case "session/new":
		return s.begin(ctx, m.params)
	case "session/load":
		return s.load(ctx, m.params)
	}
	return nil, &rpcError{codeMethod, fmt.Sprintf("this agent does not have the method %.64q", m.Method)}
}

// refusal is an error as the editor gets it, with what to do next.
func (s *server) refusal(err error) *rpcError {
	if e, ok := errors.AsType[*rpcError](err); ok {
		return e
	}
	code := codeInternal
	if errors.Is(err, client.ErrNotFound) {
		code = codeMissing
	}
	return &rpcError{code, terminal.Sanitize(err.Error()) + app.Hint(err)}
}

// send writes a message. An editor that is gone has no use for it.
func (s *server) send(m message) {
	m.Version = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		b, _ = json.Marshal(message{Version: "2.0", ID: m.ID, Error: &rpcError{codeInternal, err.Error()}})
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, _ = s.out.Write(append(b, '\n'))
}

// answer answers a request; one whose id is not known has null.
func (s *server) answer(id json.RawMessage, result any, e *rpcError) {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	if e == nil && result == nil {
		result = struct{}{}
	}
	s.send(message{ID: id, Result: result, Error: e})
}

// ask makes a request of the editor and waits for its answer. Where ctx ends first the editor is told that none is
// needed any more.
func (s *server) ask(ctx context.Context, method string, params any, into any) error {
	answer := make(chan message, 1) // whoever answers does not wait
	s.mu.Lock()
	s.last++
	id := fmt.Sprint(s.last)
	s.waiting[id] = answer
	s.mu.Unlock()
	s.send(message{ID: json.RawMessage(id), Method: method, Params: params})
	select {
	case m := <-answer:
		if m.Error != nil {
			return m.Error
		}
		return json.Unmarshal(m.result, into)
	case <-ctx.Done():
		s.mu.Lock()
		delete(s.waiting, id)
		s.mu.Unlock()
		s.send(message{Method: "$/cancel_request", Params: map[string]any{"requestId": json.RawMessage(id)}})
		return context.Cause(ctx)
	}
}

// wait is a context for what the station is to answer soon.
func (s *server) wait(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(s.app.Wait, time.Second))
}
