package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/llm"
)

// Errors of a request that its provider has taken.
var (
	// errLate is a request without a whole answer in the time of one.
	errLate = errors.New("no whole answer in time")
	// errNoSummary is an answer that is no summary. The provider works, so that this is no outage.
	errNoSummary = errors.New("the model gave no summary of the history")
)

// timed bounds each request to a model.
type timed struct {
	llm.Model
	limit time.Duration
}

// timed puts the time limit of a request around a model, where one is set.
func (r *Role) timed(m llm.Model) llm.Model {
	if r.cfg.Timeout <= 0 {
		return m
	}
	return timed{m, r.cfg.Timeout}
}

// Ask implements llm.Model.
func (m timed) Ask(ctx context.Context, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	limited, cancel := context.WithTimeout(ctx, m.limit)
	defer cancel()
	a, err := m.Model.Ask(limited, req, sink)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return a, &llm.Error{Class: llm.Transient, Err: fmt.Errorf("%w, which is %s", errLate, m.limit),
			Hint: "raise INSPAN_MODEL_TIMEOUT where answers take longer"}
	}
	return a, err
}

// failure is what the log records of a request to the models ref that was not answered; begun is true where the answer
// had begun, so that it is paid for.
func (r *Role) failure(cause error, ref string, begun bool) turn.Failure {
	remedy, after := llm.RemedyOf(cause)
	f := turn.Failure{Error: cause.Error(), Class: "permanent", Retryable: remedy == llm.Wait,
		Repair: remedy == llm.Repair, RetryAfter: after, MaxWait: r.cfg.MaxWait, Begun: begun || errors.Is(cause, errLate)}
	e, ok := errors.AsType[*llm.Error](cause)
	if !ok {
		return f
	}
	f.Class = string(e.Class)
	if remedy == llm.Never || errors.Is(cause, errNoSummary) {
		return f
	}
	f.Provider, f.HTTPStatus = e.Provider, e.Status
	if f.Provider == "" {
		f.Provider, _, _ = strings.Cut(ref, "/")
	}
	return f
}
