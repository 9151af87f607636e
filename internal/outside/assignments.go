package outside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/assign"
	"github.com/inspan/inspan/internal/intake"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// codeAssignment is the code of dead letters of assignments.
const codeAssignment = "bad_assignment"

// assignments has the assignments of a management plane be worked off.
type assignments struct {
	cfg     service.Messages
	c       *client.Client
	source  jet.Messages
	letters kernel.Refusals
	failed  func(error)
}

// run works off assignments until ctx ends.
func (a assignments) run(ctx context.Context) error {
	said := ""
	for ctx.Err() == nil {
		err := a.source.Jobs(ctx, "inspan-"+a.c.Station()+"-assignments", a.cfg.MessagesWork, a.cfg.MessagesWorkMost, a.work)
		if ctx.Err() == nil && err != nil && said != err.Error() {
			said = err.Error()
			a.failed(err)
		}
		if kernel.Sleep(ctx, 2*time.Second) != nil {
			return nil
		}
	}
	return nil
}

// work starts the run of an assignment, waits for its end and stores the response. A process that ends meanwhile leaves
// the run; the next one that is given the assignment waits on.
func (a assignments) work(ctx context.Context, m intake.Message) error {
	got, err := assign.Read(m.Data)
	if err != nil {
		return a.letter(ctx, m, err)
	}
	t := got.TaskOf(a.c.Station(), "management plane")
	err = start(ctx, a.c, t)
	if refused, ok := errors.AsType[*intake.RefusedError](err); ok {
		return a.respond(ctx, got.Refused(refused))
	}
	if err != nil {
		return fmt.Errorf("assignment %s: %w", got.WorkID, err)
	}
	for item, err := range a.c.Watch(ctx, t.ID, 0) {
		if err != nil {
			return fmt.Errorf("assignment %s: %w", got.WorkID, err)
		}
		if !item.State.Status.Ended() {
			continue
		}
		made, err := a.c.Artifacts().List(ctx, t.ID)
		if err != nil {
			return fmt.Errorf("assignment %s: %w", got.WorkID, err)
		}
		plain := make([]events.Artifact, len(made))
		for i, one := range made {
			plain[i] = one.Artifact
		}
		return a.respond(ctx, got.ResponseTo(item.State, plain))
	}
	return fmt.Errorf("assignment %s: its run has not ended", got.WorkID)
}

// respond stores a response, once for each work_id.
func (a assignments) respond(ctx context.Context, r assign.Response) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the response to %s: %w", r.WorkID, err)
	}
	return a.source.Once(ctx, a.cfg.MessagesWorkDone+"."+r.WorkID, b)
}

// letter writes the dead letter of an assignment that no response could be sent for.
func (a assignments) letter(ctx context.Context, m intake.Message, why error) error {
	text := string(m.Data[:min(len(m.Data), 8<<10)])
	return a.letters.Refuse(ctx, intake.By, kernel.DeadLetter{Subject: m.Subject, Time: time.Now().UTC(),
		Code: codeAssignment, Reason: why.Error(), Hint: "assign the work again, with another message", Data: text,
		DataBytes: len(m.Data)})
}
