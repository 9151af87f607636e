package planner

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/funding"
	"github.com/inspan/inspan/services/planner/part"
	"github.com/inspan/inspan/services/planner/resolve"
	"github.com/inspan/inspan/services/planner/schedules"
	"github.com/inspan/inspan/services/planner/sessions"
	"github.com/inspan/inspan/services/planner/team"
)

// testNames give the ids of the planners of tests.
var testNames = part.Names{Station: "s1", Key: []byte("key")}

// Timers of the parts.
const (
	mailTimer   = "wake.mail"
	expiryTimer = "expire.binding"
	wakeTimer   = "fire.next"
)

// assembly is what a planner of a test has beside runs; nothing of what is zero.
type assembly struct {
	made      resolve.Config
	schedules *schedules.Config
	team      team.Config
	budgets   funding.Config
	sessions  *sessions.Log
}

// assemble makes a planner of its parts, as the program does.
func assemble(t interface {
	Helper()
	Fatal(args ...any)
}, cfg Config, a assembly) (*Role, error) {
	t.Helper()
	made, err := resolve.New(a.made)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Names, cfg.Resolve = testNames, made
	cfg.Parts = func(runs part.Runs) (all Parts, err error) {
		if a.schedules != nil {
			a.schedules.Names = testNames
			if all.Schedules, err = schedules.New(*a.schedules, runs); err != nil {
				return all, err
			}
		}
		if a.sessions != nil {
			if all.Sessions, err = sessions.New(sessions.Config{Log: *a.sessions, Blobs: a.made.Blobs, Resolve: made, Windows: a.made.Windows}, runs); err != nil {
				return all, err
			}
		}
		a.team.Names, a.team.Agents = testNames, a.made.Agents
		if all.Team, err = team.New(a.team, runs); err != nil {
			return all, err
		}
		all.Budgets, err = funding.New(a.budgets, runs)
		return all, err
	}
	return New(cfg)
}

func (r *Role) Scheduler() *schedules.Scheduler { return r.parts.Schedules.(*schedules.Scheduler) }
func (r *Role) Assigner() *team.Assigner        { return r.parts.Team.(*team.Team).Items() }
func (r *Role) Postmaster() *team.Postmaster    { return r.parts.Team.(*team.Team).Mail() }

// fill puts a message into the mailbox of an agent.
func fill(r *Role, m events.Mail, now time.Time) error {
	_, id, err := events.ParseAddress(m.To)
	if err != nil {
		return err
	}
	_, err = r.Postmaster().Change(context.Background(), id, func(s mailbox.State) (mailbox.State, error) {
		return mailbox.Deliver(s, m, nil, events.MailBy{}, now)
	})
	return err
}
