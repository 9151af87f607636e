package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// RunRequest is the body of a request to start a run.
type RunRequest struct {
	// Agent that does the work, and what it is to do.
	Agent string `json:"agent_id"`
	Task  string `json:"task"`
	// Session that the run belongs to; a new one begins with its first run.
	Session   string            `json:"session_id,omitempty"`
	Variables map[string]string `json:"variables,omitempty"`
	// Repo is a git repository to work in, Ref a branch, a tag or a commit of it.
	Repo string `json:"repo,omitempty"`
	Ref  string `json:"ref,omitempty"`
	// Autonomy is 1 to 5, Model "provider/name", Timeout a duration such as 30m; the agent's where they are left out.
	Autonomy *int   `json:"autonomy,omitempty"`
	Model    string `json:"model,omitempty"`
	Timeout  string `json:"timeout,omitempty"`
	// MaxTokens and MaxUSD bound what the requests of the run's model use.
	MaxTokens *int64       `json:"max_tokens,omitempty"`
	MaxUSD    *json.Number `json:"max_usd,omitempty"`
}

// RunAnswer is how a run stands.
type RunAnswer struct {
	Run    string        `json:"run_id"`
	Status events.Status `json:"status"`
	// Result of a run that has ended.
	Result *run.Final `json:"result,omitempty"`
	// Gates that wait for an answer.
	Gates []*run.Gate `json:"gates,omitempty"`
	// Info is the row of the run in the index.
	Info *run.Info `json:"run,omitempty"`
}

// ControlRequest is the body of a request to steer a run; it may be left out.
type ControlRequest struct {
	Reason string `json:"reason,omitempty"`
}

const (
	// maxWait is the most that a request waits for the end of a run, startWait for its beginning.
	maxWait   = 10 * time.Minute
	startWait = 20 * time.Second
	// maxKey is the most bytes of an Idempotency-Key.
	maxKey = 255
)

// run starts a run.
func (g *Gateway) run(c *call) error {
	var in RunRequest
	if err := c.read(&in, true); err != nil {
		return err
	}
	wait, err := c.wait()
	if err != nil {
		return err
	}
	if wait > 0 && !c.token.Has(tokens.Read) {
		return &Problem{Status: http.StatusForbidden, Code: "scope",
			Detail: "who waits for the result reads it: the token does not have the scope runs:read",
			Hint:   "leave wait out"}
	}
	t := events.Task{ID: client.NewID(), Agent: in.Agent, Task: in.Task, Session: in.Session, Variables: in.Variables,
		Repo: in.Repo, Ref: in.Ref, Autonomy: in.Autonomy, Model: in.Model, Timeout: in.Timeout, MaxTokens: in.MaxTokens,
		MaxUSD: in.MaxUSD, By: c.token.Name}
	if err := c.keyed(&t); err != nil {
		return err
	}
	same, err := g.start(c.r.Context(), t)
	if s, ok := errors.AsType[*client.SilentError](err); ok {
		c.w.Header().Set("Location", "/api/v1/runs/"+s.Run)
		return c.json(http.StatusAccepted, RunAnswer{Run: s.Run, Status: "queued"})
	}
	if err != nil {
		return err
	}
	if !same {
		return &Problem{Status: http.StatusUnprocessableEntity, Code: "duplicate_id", Run: t.ID,
			Detail: "the Idempotency-Key belongs to another task", Hint: "send the same body as before, or another key"}
	}
	return g.awaited(c, t.ID, wait)
}

// keyedID is the id of the run of a key. The name of the token is in it, so no one reaches a run of another by guessing
// its key.
func keyedID(token, key string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "inspan idempotency key 1\n%d:%s%s", len(token), token, key))
	return "key-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:26]
}

// start starts the run of a task, unless it is there. same is false where a run of that id is of another task.
func (g *Gateway) start(ctx context.Context, t events.Task) (same bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	want, err := t.Digest()
	if err != nil {
		return false, err
	}
	got, err := g.digest(ctx, t.ID)
	if errors.Is(err, client.ErrNotFound) {
		if _, err := g.client.Start(ctx, t); err != nil {
			return false, err
		}
		got, err = g.digest(ctx, t.ID)
	}
	return got == want, err
}

// digest is that of the task of a run; ErrNotFound where there is no such run.
func (g *Gateway) digest(ctx context.Context, id string) (string, error) {
	for item, err := range g.client.Events(ctx, id, 0) {
		if err != nil {
			return "", err
		}
		if created := item.State.Created; created != nil {
			return created.TaskDigest, nil
		}
	}
	return "", &client.NotFoundError{What: "run", ID: id}
}

// wait is how long a request waits for the end of a run.
func (c *call) wait() (time.Duration, error) {
	text := c.r.URL.Query().Get("wait")
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxWait {
		return 0, bad(fmt.Sprintf("wait: %.32q is no duration of at most %s", text, maxWait), "such as wait=30s")
	}
	return d, nil
}

// awaited answers with a run once it has ended, or as it stands when the time is over.
func (g *Gateway) awaited(c *call, id string, wait time.Duration) error {
	c.w.Header().Set("Location", "/api/v1/runs/"+id)
	if wait == 0 {
		s, err := g.client.State(c.r.Context(), id)
		if err != nil {
			return err
		}
		return c.standing(s)
	}
	release, ok := g.limits.stream(c.token.Name)
	if !ok {
		return tooManyStreams()
	}
	defer release()
	if err := c.endless(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), wait)
	defer cancel()
	ctx, end := g.running(ctx)
	defer end()
	var s run.State
	for item, err := range g.client.Watch(ctx, id, 0) {
		if err != nil {
			if ctx.Err() == nil || c.r.Context().Err() != nil {
				return err
			}
			break // the time is over
		}
		s = item.State
	}
	if s.Sequence == 0 { // the time was over before the first event
		var err error
		if s, err = g.client.State(c.r.Context(), id); err != nil {
			return err
		}
	}
	if err := http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(g.cfg.WriteWait)); err != nil {
		return err
	}
	return c.standing(s)
}

// running is a context that ends with the gateway, too.
func (g *Gateway) running(ctx context.Context) (until context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-g.stopping:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); watch.Wait() }
}

// standing answers with how a run stands: 200 where it has ended.
func (c *call) standing(s run.State) error {
	status := http.StatusAccepted
	if s.Status.Ended() {
		status = http.StatusOK
	}
	return c.json(status, c.answer(s))
}

// answer is how a run stands, as far as the token may read it.
func (c *call) answer(s run.State) RunAnswer {
	a := RunAnswer{Run: s.HarnessID, Status: s.Status}
	if c.token.Has(tokens.Read) {
		a.Result, a.Gates = run.FinalOf(s), s.Waiting()
	}
	return a
}

func tooManyStreams() *Problem {
	return &Problem{Status: http.StatusTooManyRequests, Code: "streams",
		Detail: "too many requests wait for events or an end",
		Hint:   "close one first", after: later}
}

// one shows a run.
func (g *Gateway) one(c *call) error {
	ctx, cancel := c.within()
	defer cancel()
	wait, err := c.wait()
	if err != nil {
		return err
	}
	id := c.r.PathValue("run")
	info, err := g.client.Runs().Get(ctx, id)
	if err != nil {
		return err
	}
	if wait > 0 {
		return g.awaited(c, id, wait)
	}
	s, err := g.client.State(ctx, id)
	if err != nil {
		return err
	}
	answer := RunAnswer{Run: id, Status: s.Status, Result: run.FinalOf(s), Gates: s.Waiting(), Info: &info}
	return c.json(http.StatusOK, answer)
}

// control steers a run.
func control(action string) func(*Gateway, *call) error {
	return func(g *Gateway, c *call) error {
		ctx, cancel := c.within()
		defer cancel()
		var in ControlRequest
		if err := c.read(&in, false); err != nil {
			return err
		}
		s, err := g.client.Control(ctx, c.r.PathValue("run"), events.Control{Action: action, By: c.token.Name,
			Reason: in.Reason})
		if err != nil {
			return err
		}
		return c.json(http.StatusOK, c.answer(s))
	}
}

// body is the body of a request, of at most so many bytes.
func (c *call) body(most int64) ([]byte, error) {
	b, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, most))
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, big
	}
	if err != nil {
		return nil, &Problem{Status: http.StatusRequestTimeout, Code: "body",
			Detail: "the body did not come in time or is cut off"}
	}
	return b, nil
}
