// Package work gives prompts to the runtimes of agents, as calls of the tool runtime.
//
// Promises: that a prompt is about to be sent stands in the log before it is sent, with the session of the program
// where that is known. What the program asks to do is put to the gatekeeper, and answered only with what it decided and
// what the log has. What it had begun when it ended is unknown in the log before it is started again. The files of its
// session are stored when it first speaks, before it is answered, after each call inside, and at the end. A program
// that asks no one is started only in a sandbox that isolates. A call whose toolrunner was lost goes on in the session
// that it had; where that is not possible its outcome is unknown.
package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/runtime/acp"
	"github.com/inspan/inspan/internal/runtime/headless"
	"github.com/inspan/inspan/internal/runtime/pty"
	"github.com/inspan/inspan/internal/runtime/transcript"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/toolbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// DriverOf returns what speaks the protocol of a runtime.
func DriverOf(r events.Runtime) (runtime.Driver, error) {
	switch r.Driver {
	case events.DriverACP:
		return acp.Driver{}, nil
	case events.DriverClaude:
		return headless.Claude{}, nil
	case events.DriverCodex:
		return headless.Codex{}, nil
	case events.DriverPTY:
		return pty.Driver{}, nil
	}
	return nil, fmt.Errorf("runtime %s: there is no driver %q", r.Name, r.Driver)
}

// uuid is a name of a session that follows from a key, in the form of a random UUID.
func uuid(key string) string {
	sum := sha256.Sum256([]byte("session of a runtime\n" + key))
	sum[6], sum[8] = sum[6]&0x0f|0x40, sum[8]&0x3f|0x80
	s := hex.EncodeToString(sum[:16])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// Tool returns the tool that gives prompts to the runtime of an agent.
func Tool(a events.Agent, secrets map[string]secret.Value) tool.Tool {
	return &prompting{agent: a, secrets: secrets}
}

// prompting implements tool.Tool.
type prompting struct {
	agent   events.Agent
	secrets map[string]secret.Value
}

var _ tool.Verifier = (*prompting)(nil)

// maxRestarts is how often a program that ends in the middle of its work is started again within one call.
const maxRestarts = 2

// goOn is the prompt of a session that is gone on with.
const goOn = "Your work was interrupted: the program that you run in was ended and started again, and the workspace is " +
	"as it was then. Look at what is there, and finish what you were asked to do. What you had begun when it ended may " +
	"have taken effect.\n\nYou were asked:\n\n"

// Spec implements tool.Tool.
func (*prompting) Spec() tool.Spec { return toolbox.SpecOfRuntime() }

// Verify implements tool.Verifier: a call that was lost is made again where that is to go on with its session, or where
// the program was given no work yet.
func (p *prompting) Verify(_ context.Context, c tool.Call) (bool, tool.Result, error) {
	if c.Env.Inner == nil {
		return false, tool.Result{}, errors.New("this toolrunner does not drive programs")
	}
	session, begun := c.Env.Inner.Earlier()
	switch {
	case !begun || session != "" && p.agent.Runtime.Resumes:
		return false, tool.Result{}, nil
	case session == "":
		return false, tool.Result{}, errors.New("the session of the program had no name yet")
	}
	return false, tool.Result{}, fmt.Errorf("%w: runtime %s resumes none", runtime.ErrCannotResume, p.agent.Runtime.Name)
}

// Run implements tool.Tool.
func (p *prompting) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var args struct {
		Prompt string `json:"prompt"`
	}
	if err := json.Unmarshal(c.Input, &args); err != nil {
		return tool.Result{}, tool.Fail(tool.Invalid, "fix the arguments and retry", err)
	}
	if c.Env.Inner == nil {
		return tool.Result{}, tool.Fail(tool.Permanent, "update the toolrunners of the station",
			errors.New("this toolrunner does not drive programs"))
	}
	if err := p.confined(c.Env.Sandbox.Mode()); err != nil {
		return tool.Result{}, err
	}
	d, err := DriverOf(*p.agent.Runtime)
	if err != nil {
		return tool.Result{}, tool.Fail(tool.Permanent, "update the toolrunners of the station", err)
	}
	b := newBridge(ctx, *p.agent.Runtime, c)
	m, env, err := p.meter(ctx, c, b)
	if err != nil {
		return tool.Result{}, err
	}
	if m != nil {
		defer m.Close()
	}
	session, begun := c.Env.Inner.Earlier()
	for tries := 0; ; tries++ {
		reply, err := p.converse(b, d, c, env, work{session, begun, args.Prompt})
		if err == nil {
			return shown(c.Env, reply), nil
		}
		if b.ctx.Err() != nil { // the call has ended, or the log does not take what it does
			return tool.Result{}, context.Cause(b.ctx)
		}
		named := b.name()
		switch {
		case !b.begun() && !begun: // it did nothing
			return tool.Result{}, p.unsent(err)
		case errors.Is(err, runtime.ErrEnded) && named != "" && p.agent.Runtime.Resumes && tries < maxRestarts:
			if err := b.again(); err != nil {
				return tool.Result{}, err
			}
			session, begun = named, true
		default:
			return tool.Result{}, tool.Fail(tool.Unknown, events.OutcomeUnknownHint,
				fmt.Errorf("runtime %s was lost during its work, and it is unknown how far it came: %w", p.agent.Runtime.Name, err))
		}
	}
}

// confined refuses a program that asks no one where the sandbox does not keep it from anything.
func (p *prompting) confined(m sandbox.Mode) error {
	if p.agent.Runtime.Gate == events.RuntimeAsks || runtime.Isolates(m) && !p.agent.Sandbox.Network {
		return nil
	}
	why := "in sandbox " + string(m) + ", which does not isolate"
	if runtime.Isolates(m) {
		why = "with an open network"
	}
	return tool.Fail(tool.Denied,
		"give the agent a sandbox that isolates, with sandbox.network.allowed_hosts for its model, or a runtime that asks",
		fmt.Errorf("runtime %s asks no one before it acts, and is not started %s", p.agent.Runtime.Name, why))
}

// work is what a program is given to do, in the session of that name where it had begun.
type work struct {
	session string
	begun   bool
	prompt  string
}

// converse starts the program and gives it its work, or has it go on.
func (p *prompting) converse(b *bridge, d runtime.Driver, c tool.Call, env []string, w work) (runtime.Reply, error) {
	spec := runtime.Spec{Runtime: *p.agent.Runtime, Sandbox: c.Env.Sandbox, Secrets: p.secrets, Env: env, Host: b,
		Session: uuid(c.Key)}
	prompt := w.prompt
	if w.begun {
		if w.session == "" {
			return runtime.Reply{}, runtime.ErrCannotResume
		}
		spec.Resume, prompt = w.session, goOn+prompt
		if err := p.restore(b.ctx, c, w.session); err != nil {
			return runtime.Reply{}, fmt.Errorf("%w: %w", runtime.ErrCannotResume, err)
		}
	}
	talk, err := d.Start(b.ctx, spec)
	if err != nil {
		return runtime.Reply{}, err
	}
	defer talk.Close()
	if err := b.prompted(); err != nil {
		return runtime.Reply{}, err
	}
	defer b.keepWhile()()
	ctx, stop := b.pulse.watch(b.ctx, time.Duration(p.agent.Runtime.StuckMS)*time.Millisecond)
	defer stop()
	reply, err := talk.Prompt(ctx, prompt)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, runtime.ErrStuck) {
		err = fmt.Errorf("%w: %w", runtime.ErrEnded, cause) // and so it is started again
	}
	if err == nil {
		b.keep()
	}
	return reply, err
}

// restore puts the files of a session back that an earlier attempt stored: the HOME that they were in is gone with its
// sandbox.
func (p *prompting) restore(ctx context.Context, c tool.Call, session string) error {
	files, err := c.Env.Inner.Kept(ctx)
	if err != nil {
		return err
	}
	return transcript.Put(ctx, c.Env.Sandbox, *p.agent.Runtime, session, files)
}

// unsent explains a program that did not come as far as to be given its work.
func (p *prompting) unsent(err error) error {
	if _, ok := errors.AsType[*tool.Error](err); ok {
		return err
	}
	return tool.Fail(tool.Permanent,
		"an operator can look at it with: inspan runtimes check "+p.agent.Runtime.Name+
			"; a program that the sandbox does not show is named in INSPAN_SANDBOX_READ_ONLY",
		fmt.Errorf("runtime %s cannot be used: %w", p.agent.Runtime.Name, err))
}

// shown is what the agent, and whoever reads the run, sees of a reply.
func shown(env tool.Env, r runtime.Reply) tool.Result {
	text := r.Text
	if r.Failed {
		text = r.Reason + "\n" + text
	}
	if strings.TrimSpace(text) == "" {
		text = "(the program said nothing)"
	}
	out := tool.Show(env, text)
	out.Failed = r.Failed
	return out
}
