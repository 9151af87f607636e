package service

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
)

// maxNames bounds how many values one label has whose values come from runs, such as the names of models. What comes
// later is counted as "other".
const maxNames = 100

// eventMetrics count what the services of one process append. Each event is appended by one service, so the sum over
// all processes counts it once; an append whose answer was lost is not counted.
type eventMetrics struct {
	events, ended, tokens, cost, deferred, calls, gates *prometheus.CounterVec
	took                                                prometheus.Histogram
	models, tools                                       names
}

func newEventMetrics(registry *prometheus.Registry) *eventMetrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(v)
		return v
	}
	m := &eventMetrics{
		events: vec("inspan_events_total", "Events of runs that this process appended, by kind.", "kind"),
		ended: vec("inspan_runs_ended_total",
			"Runs that ended, by status, finish reason and whether acceptance checks verified them.",
			"status", "reason", "verified"),
		tokens: vec("inspan_tokens_total", "Tokens that models counted, by model and direction.", "model", "direction"),
		cost: vec("inspan_cost_usd_total", "Cost of model requests in US dollars by the runs' prices, by model.",
			"model"),
		deferred: vec("inspan_turns_deferred_total", "Model requests that failed and are tried again, by class of error.",
			"class"),
		calls: vec("inspan_tool_calls_total", "Tool calls that ended, by tool and result.", "tool", "result"),
		gates: vec("inspan_gates_total", "Gates, by what happened: opened, approved, rejected or expired.", "event"),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "inspan_run_seconds",
			Help: "Time from the creation of a run to its end.", Buckets: prometheus.ExponentialBuckets(0.1, 4, 10)}),
		models: names{}, tools: names{},
	}
	registry.MustRegister(m.took)
	// What an alert divides by or compares is there from the start: a rate needs a first value.
	for _, event := range []events.Kind{events.GateOpened, events.GateApproved, events.GateRejected, events.GateExpired} {
		m.gates.WithLabelValues(gateEvents[event])
	}
	for _, created := range []events.Kind{events.RunCreated, events.RunCompleted, events.RunFailed} {
		m.events.WithLabelValues(string(created))
	}
	return m
}

// gateEvents are the values of the label event of inspan_gates_total.
var gateEvents = map[events.Kind]string{events.GateOpened: "opened", events.GateApproved: "approved",
	events.GateRejected: "rejected", events.GateExpired: "expired"}

// count takes one event that was appended, age after its run was created.
func (m *eventMetrics) count(p events.Payload, age time.Duration) {
	kind := p.Kind()
	m.events.WithLabelValues(string(kind)).Inc()
	if event := gateEvents[kind]; event != "" {
		m.gates.WithLabelValues(event).Inc()
	}
	switch d := p.(type) {
	case *events.TurnFinishedData:
		if d.Provider != events.HarnessProvider {
			m.use(d.ModelRef, d.InputTokens, d.OutputTokens, d.Cost)
		}
	case *events.HistoryCompactedData:
		m.use(d.ModelRef, d.InputTokens, d.OutputTokens, d.Cost)
	case *events.CallSettledData:
		m.use("of a program", d.InputTokens, d.OutputTokens, d.Cost)
	case *events.TurnDeferredData:
		m.deferred.WithLabelValues(d.Class).Inc()
	case *events.CallFinishedData:
		m.calls.WithLabelValues(m.tools.bounded(d.Tool), "finished").Inc()
	case *events.CallFailedData:
		m.calls.WithLabelValues(m.tools.bounded(d.Tool), "failed").Inc()
	case *events.CallRefusedData:
		m.calls.WithLabelValues(m.tools.bounded(d.Tool), "refused").Inc()
	}
	if result := resultOf(p); result != nil {
		m.ended.WithLabelValues(string(result.Status), result.FinishReason, verified(result)).Inc()
		m.took.Observe(age.Seconds())
	}
}

func (m *eventMetrics) use(model string, input, output int, cost events.MicroUSD) {
	model = m.models.bounded(model)
	m.tokens.WithLabelValues(model, "input").Add(float64(input))
	m.tokens.WithLabelValues(model, "output").Add(float64(output))
	m.cost.WithLabelValues(model).Add(float64(cost) / 1e6)
}

// resultOf returns how a run ended; nil where the event is no end of one.
func resultOf(p events.Payload) *events.Result {
	switch d := p.(type) {
	case *events.RunCompletedData:
		return &d.Result
	case *events.RunFailedData:
		return &d.Result
	}
	return nil
}

func verified(r *events.Result) string {
	if len(r.Verified) > 0 {
		return "true"
	}
	return "false"
}

// names are the values of a label that were seen, at most maxNames of them.
type names struct {
	mu   sync.Mutex
	seen map[string]bool // guarded by mu
}

// bounded returns the name, or "other" where there are too many.
func (l *names) bounded(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.seen[name]:
		return name
	case len(l.seen) >= maxNames:
		return "other"
	case l.seen == nil:
		l.seen = map[string]bool{}
	}
	l.seen[name] = true
	return name
}

// logEnd writes one line for a run that ended: who asked for it, what it was, what it cost and whether it is verified.
// Neither the task nor the answer is in it: they may hold what a log must not.
func logEnd(log zerolog.Logger, t runlog.StoredEvent) {
	r := resultOf(t.Payload)
	if r == nil {
		return
	}
	by := ""
	if c := t.Before.Created; c != nil {
		by = c.By
	}
	line := log.Info().Str("run", t.Before.HarnessID).Str("agent", t.Before.AgentName)
	if session := t.Before.Identity.Session; session != "" {
		line = line.Str("session", session)
	}
	line.Str("claimed_by", by).Str("status", string(r.Status)).Str("reason", r.FinishReason).
		Bool("verified", len(r.Verified) > 0).Int("turns", r.TotalSteps).Int("tool_calls", r.ToolCallCount).
		Int("tokens", r.TotalTokens).Float64("cost_usd", float64(r.Cost)/1e6).
		Dur("took_ms", t.Event.Time.Sub(t.Before.CreatedAt)).Msg("run ended")
}
