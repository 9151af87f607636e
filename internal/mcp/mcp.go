// Package mcp lets agents use the tools of servers that speak the Model Context Protocol.
//
// Promises: a server is a stranger. What a model is shown of its tools is what an operator pinned; each call looks at
// what the server says now, and a tool that is not what was pinned is not called. A program runs inside a sandbox like
// that of the run. It lives on after the call where the call has a home for it (package live), else it is gone, with
// all that it started, before Run returns. So it is where a call was given up that may have an effect, and the server
// did not answer it. What a server says is data, bounded in bytes and in time; what it asks of us (sampling,
// elicitation, roots) is refused. A call that was sent and not answered is never called failed where it may have taken
// effect: its outcome is unknown. Secrets are looked up here and nowhere written.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/mcp/live"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/toolbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// New makes a toolbox whose pinned tools can be run. secrets may be nil where nothing is run.
func New(base *tool.Registry, secrets map[string]secret.Value) *toolbox.Toolbox {
	return toolbox.New(base, func(s events.MCPServer, pin events.MCPTool) tool.Tool {
		return &remote{server: s, pin: pin, secrets: secrets}
	})
}

// remote is one pinned tool of a server.
type remote struct {
	server  events.MCPServer
	pin     events.MCPTool
	secrets map[string]secret.Value
}

var _ tool.Tool = (*remote)(nil)

// Spec implements tool.Tool.
func (t *remote) Spec() tool.Spec { return toolbox.SpecOf(t.server, t.pin) }

// keyMeta is where a server that knows of it finds the idempotency key of a call.
const keyMeta = "dev.inspan/idempotency-key"

// Run implements tool.Tool: it reaches the server, looks whether the tool is still what was pinned, and calls it.
func (t *remote) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var args map[string]any
	d := json.NewDecoder(strings.NewReader(string(c.Input)))
	d.UseNumber()
	if err := d.Decode(&args); err != nil {
		return tool.Result{}, tool.Fail(tool.Invalid, "send a JSON object", err)
	}
	for tries := 1; ; tries++ {
		r, err := t.reach(ctx, c)
		if err != nil {
			return tool.Result{}, t.unsent(ctx, err)
		}
		res, err := t.call(ctx, r, c, args)
		r.leave()
		if !errors.Is(err, errStale) || tries == maxStale {
			return res, err
		}
	}
}

// maxStale is how many connections that turn out to be of no use a call tries; they are as good as a new one is.
const maxStale = 3

// errStale means that a connection that was kept was of no use, and nothing was called.
var errStale = errors.New("the connection of an earlier call is lost")

// reached is a server that a call was given, until it leaves.
type reached struct {
	*session
	use *live.Use // nil where the server lives for this call alone
}

// reach gives a call its server: one that lives on between calls, where the call has a home for it.
func (t *remote) reach(ctx context.Context, c tool.Call) (reached, error) {
	homed, ok := c.Env.Sandbox.(live.Homed)
	want := live.Want{Server: t.server.Name, Definition: definition(t.server), Program: t.server.URL == "",
		Start: func(ctx context.Context, sb sandbox.Sandbox) (live.Conn, error) {
			s, err := open(ctx, t.server, t.secrets, sb, t.server.Protocol)
			if err != nil {
				return nil, err // a *session that is nil is a Conn that is none
			}
			return s, nil
		}}
	if ok && homed.Home().Allows(want) {
		use, err := homed.Home().Use(ctx, want)
		if err != nil {
			return reached{}, err
		}
		return reached{use.Conn().(*session), use}, nil
	}
	s, err := open(ctx, t.server, t.secrets, c.Env.Sandbox, t.server.Protocol)
	return reached{s, nil}, err
}

// definition distinguishes servers whose connections must not stand for each other.
func definition(s events.MCPServer) string {
	s.Tools, s.Effects = nil, nil // each call looks at these
	b, err := json.Marshal(s)
	if err != nil {
		return "" // it consists of texts and numbers
	}
	return events.HashOf(b)
}

// leave gives the server back, or ends it.
func (r reached) leave() {
	if r.use != nil {
		r.use.Leave()
		return
	}
	r.Close()
}

// discard ends a server that may still work on a call that was given up, or does not follow the protocol.
func (r reached) discard() {
	if r.use != nil {
		r.use.Discard()
	}
}

// call looks whether the tool is what was pinned, and calls it. The error is errStale where the call may be made with
// another connection at once.
func (t *remote) call(ctx context.Context, r reached, c tool.Call, args map[string]any) (tool.Result, error) {
	informed := r.cancelled.next()
	ctx, x := begin(ctx)
	defer func() {
		if ctx.Err() != nil && !r.leaveCall(x, informed, tool.Effect(t.pin.Effect) == tool.Read && r.use != nil) {
			r.discard()
		}
	}()
	if err := t.unchanged(ctx, r.session); err != nil {
		_, ours := errors.AsType[*tool.Error](err)
		if err = r.explain(x, err); !ours && ctx.Err() == nil {
			if r.discard(); r.use != nil && !r.use.Fresh {
				err = fmt.Errorf("%w: %w", errStale, err)
			}
		}
		return tool.Result{}, t.unsent(ctx, err)
	}
	res, err := r.session.session.CallTool(ctx, &sdk.CallToolParams{Name: t.pin.Name, Arguments: args,
		Meta: sdk.Meta{keyMeta: c.Key}})
	if err != nil {
		_, answered := refusal(err)
		failed := t.unanswered(ctx, r, x, err) // before the end, which has an error of its own
		if ctx.Err() == nil && (!answered || r.lost(x)) {
			r.discard()
		}
		return tool.Result{}, failed
	}
	if res.InputRequests != nil || res.RequestState != "" {
		return tool.Result{}, tool.Fail(tool.Permanent, "use another tool, or other arguments",
			fmt.Errorf("the server %s sent a request to the client during the call, which is refused", t.server.Name))
	}
	out := show(c.Env, res)
	if r.mask != nil {
		out.Output = r.mask(out.Output)
		if out.Full != nil {
			out.Full = []byte(r.mask(string(out.Full)))
		}
	}
	if r.use != nil {
		out.Output = r.use.Note() + out.Output + r.use.Refused()
	}
	return out, nil
}

// errChanged means that a tool is not what was pinned.
var errChanged = errors.New("the tool differs from its pin")

// unchanged reports whether the server still has the tool as it was pinned.
func (t *remote) unchanged(ctx context.Context, s *session) error {
	why := "the server no longer has this tool"
	err := s.tools(ctx, func(p agentfile.ToolPin) bool {
		if p.Name != t.pin.Name {
			return true
		}
		why = ""
		if p.Digest != t.pin.Digest {
			why = fmt.Sprintf("the digest of its name, description and schema is %.12s, the pinned digest is %.12s", p.Digest,
				t.pin.Digest)
		}
		return false
	})
	if err != nil {
		return err
	}
	if why != "" {
		return tool.Fail(tool.Denied,
			"an operator can review the change with: inspan tools --agent FILE --check, and accept it with: inspan tools --agent FILE --pin",
			fmt.Errorf("%w: %s of the server %s is disabled: %s", errChanged, t.pin.Name, t.server.Name, why))
	}
	return nil
}

// unsent explains a failure before the call was sent: nothing can have happened, so it may be tried again.
func (t *remote) unsent(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := errors.AsType[*tool.Error](err); ok {
		return err
	}
	hint := "use another tool if the problem persists"
	if d, ok := Downloads(t.server.Command); ok {
		hint += fmt.Sprintf("; %s downloads the server at each start, which needs the network: an operator can install it once with inspan mcp install", d.Runner)
	}
	return tool.Fail(tool.Transient, hint, fmt.Errorf("the server %s cannot be used: %w", t.server.Name, clean(err)))
}

// unanswered explains a failure after the call was sent.
func (t *remote) unanswered(ctx context.Context, r reached, x *exchange, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err = r.explain(x, err)
	if _, ok := errors.AsType[*tool.Error](err); ok {
		return err
	}
	if e, ok := refusal(err); ok && !r.lost(x) {
		class := tool.Permanent
		if e.Code == codeInvalidParams {
			class = tool.Invalid
		}
		return tool.Fail(class, "fix the arguments or use another tool", fmt.Errorf("the server %s refused the call: %w",
			t.server.Name, clean(err)))
	}
	lost := fmt.Errorf("the connection to the server %s was lost during the call: %w", t.server.Name, clean(err))
	if tool.Effect(t.pin.Effect) == tool.Once {
		return tool.Fail(tool.Unknown,
			"it is unknown whether the call took effect: check the current state before you repeat it; the same call needs the approval of a person", lost)
	}
	return tool.Fail(tool.Transient, "use another tool if the problem persists", lost)
}
