package top

import (
	"context"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/inspan/inspan/internal/cli/budgets"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Overview is what a station does at a time.
type Overview struct {
	At      time.Time `json:"at"`
	Station string    `json:"station"`
	Server  string    `json:"server_version"`
	// Durability of the server, in words.
	Durability string `json:"durability"`
	// Halted says who stopped the station, when and why; nil where it works.
	Halted *events.Halt `json:"halted,omitempty"`
	// Budgets are those of projects, users and the station.
	Budgets []budgets.Standing `json:"budgets,omitempty"`
	Roles   []Role             `json:"roles"`
	Runs    []Going            `json:"runs"`
	Gates   []Gate             `json:"gates"`
	// Today is about the runs that began since midnight, in the zone of the person.
	Today Today `json:"today"`
	// Missing are the parts that this user may not read, or that did not come in time.
	Missing []string `json:"missing,omitempty"`
}

// Role is a role of the station. Lag is how long nothing was delivered to it although something waits.
type Role struct {
	Role      string `json:"role"`
	Instances int    `json:"instances"`
	Waiting   uint64 `json:"waiting"`
	Open      uint64 `json:"open"`
	LagMS     int64  `json:"lag_ms"`
	queued    bool
}

// Going is a run under way.
type Going struct {
	Run    string `json:"run"`
	Agent  string `json:"agent"`
	Status string `json:"status"`
	// Phase is what it waits for, as inspan why says it in one word.
	Phase   string          `json:"phase"`
	Step    string          `json:"step,omitempty"`
	Steps   int             `json:"steps"`
	Done    int             `json:"steps_completed"`
	Created time.Time       `json:"created_at"`
	Cost    events.MicroUSD `json:"cost_micro_usd"`
	Tokens  int             `json:"tokens"`
}

// Gate is a gate that waits.
type Gate struct {
	Gate  string    `json:"gate"`
	Since time.Time `json:"since"`
	What  string    `json:"what"`
}

// Today sums the runs that began today.
type Today struct {
	Runs   int             `json:"runs"`
	Failed int             `json:"failed"`
	Cost   events.MicroUSD `json:"cost_micro_usd"`
	Tokens int             `json:"tokens"`
}

// mostPhases is how many runs are looked at more closely than the index does.
const mostPhases = 20

// reader reads overviews. It keeps the phases of runs that have not moved.
type reader struct {
	c      *client.Client
	zone   *time.Location
	phases map[string]phase
}

type phase struct {
	sequence uint64
	text     string
}

// read reads what the station does. Only the index must be there; what else is missing is named.
func (r *reader) read(ctx context.Context) (Overview, error) {
	o := Overview{At: time.Now().In(r.zone), Station: r.c.Station(), Runs: []Going{}, Gates: []Gate{}}
	all, err := r.c.Runs().List(ctx)
	if err != nil {
		return o, err
	}
	health, err := r.c.Health(ctx)
	o.missing("services", err)
	o.Server, o.Durability = health.ServerVersion, health.Durability
	halted, err := client.NewHalts(r.c).Get(ctx)
	o.missing("halts", err)
	if halted.Halted {
		o.Halted = &halted
	}
	set, err := client.NewBudgets(r.c).Get(ctx)
	o.missing("budgets", err)
	o.Budgets = budgets.Standings(set, o.At)
	queues, err := r.c.Queues(ctx)
	o.missing("queues", err)
	o.Roles = roles(health, queues, o.At)
	year, month, day := o.At.Date()
	midnight := time.Date(year, month, day, 0, 0, 0, 0, r.zone)
	for _, i := range all {
		o.count(i, midnight)
		if i.Status.Ended() {
			delete(r.phases, i.HarnessID)
			continue
		}
		o.Runs = append(o.Runs, r.going(ctx, i, len(o.Runs) < mostPhases))
	}
	sort.SliceStable(o.Gates, func(i, j int) bool { return o.Gates[i].Since.Before(o.Gates[j].Since) })
	return o, nil
}

func (o *Overview) missing(what string, err error) {
	switch {
	case errors.Is(err, client.ErrDenied):
		o.Missing = append(o.Missing, what+" (this user may not ask)")
	case err != nil:
		o.Missing = append(o.Missing, what)
	}
}

// roles joins the instances that answered with the queues.
func roles(h client.Health, queues []client.Queue, now time.Time) []Role {
	out := []Role{}
	for _, service := range events.Services() {
		one := Role{Role: string(service), Instances: h.Services[string(service)]}
		if i := slices.IndexFunc(queues, func(q client.Queue) bool { return q.Role == one.Role }); i >= 0 {
			q := queues[i]
			one.Waiting, one.Open, one.queued = q.Waiting, q.Open, true
			if q.Waiting > 0 && !q.Delivered.IsZero() {
				one.LagMS = max(0, now.Sub(q.Delivered).Milliseconds())
			}
		}
		out = append(out, one)
	}
	return out
}

// count adds a run to the gates and to the sums of today.
func (o *Overview) count(i run.Info, midnight time.Time) {
	if i.Status == events.Running {
		for _, g := range i.Gates {
			o.Gates = append(o.Gates, Gate{i.HarnessID + "/" + g.ID, g.CreatedAt, g.Description})
		}
	}
	if i.CreatedAt.Before(midnight) {
		return
	}
	o.Today.Runs++
	if i.Status == events.Failed && i.FinishReason != events.FinishHandedOff {
		o.Today.Failed++
	}
	o.Today.Cost += i.Cost + i.Lost.Cost
	o.Today.Tokens += i.InputTokens + i.OutputTokens
}

// going is a run as the index has it, closely with what it waits for.
func (r *reader) going(ctx context.Context, i run.Info, closely bool) Going {
	g := Going{Run: i.HarnessID, Agent: i.AgentName, Status: runtree.StatusOf(i), Step: i.CurrentStep, Steps: i.StepsTotal,
		Done: i.StepsCompleted, Created: i.CreatedAt, Cost: i.Cost + i.Lost.Cost, Tokens: i.InputTokens + i.OutputTokens}
	g.Phase = g.Status
	if i.Status != events.Running || !closely {
		return g
	}
	known := r.phases[i.HarnessID]
	if known.sequence != i.Sequence || known.text == "" {
		s, err := r.c.State(ctx, i.HarnessID)
		if err != nil {
			return g
		}
		if waits := view.Waits(s, time.Now()); len(waits) > 0 {
			known = phase{i.Sequence, waits[0].On}
			r.phases[i.HarnessID] = known
		}
	}
	if known.text != "" {
		g.Phase = known.text
	}
	return g
}
