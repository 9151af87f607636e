package station

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// hub is the roles of one process as one station: whatever is asked of it is asked as the role that may. A local store
// stands in for all of them at once, so it must see them as one.
type hub map[events.Service]service.Ports

// primary is what a local store stands in for. asked is the connection that tells whether the log is there, log and
// inbox are what all roles append to and receive from.
func (h hub) primary(asked *jet.Conn, log kernel.Journal, inbox kernel.Inbox) localstore.Primary {
	return localstore.Primary{Journal: log, Inbox: inbox, Timers: hubTimers{h},
		Blobs: h[events.Toolrunner].Blobs, Refusals: hubRefusals{h}, Connected: asked.Connected, Answers: asked.Answers}
}

type hubInbox struct{ h hub }

// Listen implements kernel.Inbox.
func (i hubInbox) Listen(ctx context.Context, role events.Service, workers int, receive func(context.Context,
	kernel.Message)) error {
	return i.h[role].Inbox.Listen(ctx, role, workers, receive)
}

type hubTimers struct{ h hub }

// Set implements kernel.Timers, as the role that receives the timer.
func (t hubTimers) Set(ctx context.Context, run, name string, at time.Time, after uint64) error {
	family, _, _ := strings.Cut(name, ".")
	if role, ok := topology.ReceiverOfTimer(family); ok {
		return t.h[role].Timers.Set(ctx, run, name, at, after)
	}
	return fmt.Errorf("timer %q: no role receives timers of family %q", name, family)
}

type hubRefusals struct{ h hub }

// Refuse implements kernel.Refusals.
func (r hubRefusals) Refuse(ctx context.Context, by events.Service, d kernel.DeadLetter) error {
	return r.h[by].Refusals.Refuse(ctx, by, d)
}

// Refused implements kernel.Refusals.
func (r hubRefusals) Refused(ctx context.Context, by events.Service, m kernel.Message) (bool, error) {
	return r.h[by].Refusals.Refused(ctx, by, m)
}

// author is the journal of a role in a process that appends the events of all roles through one connection: the rights
// of the role's user do not reach so far, so it keeps to the role's own kinds itself.
type author struct {
	kernel.Journal
	role events.Service
}

// Append implements kernel.Journal.
func (a author) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if word, ok := events.Lookup(e.Kind); !ok || word.Author != a.role {
		return kernel.Ack{Outcome: kernel.Denied, Err: fmt.Errorf("%s does not say %s", a.role, e.Kind)}
	}
	return a.Journal.Append(ctx, e)
}

// Position implements kernel.Renumberer, for the journal behind it.
func (a author) Position(ctx context.Context, id string, given uint64) (now uint64, ok bool, err error) {
	return kernel.Position(ctx, a.Journal, id, given)
}

var _ kernel.Renumberer = author{}
