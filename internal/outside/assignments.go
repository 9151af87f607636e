package outside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/inspan/inspan/internal/assign"
	"github.com/inspan/inspan/internal/intake"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
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
	if err := got.Fault(); err != nil {
		return a.respond(ctx, got.Refused(err))
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
		r, err := a.response(ctx, got, item.State)
		if err != nil {
			return fmt.Errorf("assignment %s: %w", got.WorkID, err)
		}
		return a.respond(ctx, r)
	}
	return fmt.Errorf("assignment %s: its run has not ended", got.WorkID)
}

// response is that to an assignment whose run has ended. What the station sends of it is stored before: whoever has the
// response finds it.
func (a assignments) response(ctx context.Context, got assign.Assignment, s run.State) (assign.Response, error) {
	made, err := a.c.Artifacts().List(ctx, s.HarnessID)
	if err != nil {
		return assign.Response{}, err
	}
	plain := make([]events.Artifact, len(made))
	for i, one := range made {
		plain[i] = one.Artifact
	}
	r := got.ResponseTo(s, plain)
	if !a.cfg.MessagesSync || !a.cfg.MessagesReports {
		r = r.Withhold()
	}
	if !a.cfg.MessagesSync || a.cfg.MessagesFiles == "" {
		return r, nil
	}
	r.Files = a.cfg.MessagesFiles
	for i := range r.Artifacts {
		if r.Artifacts[i].Object, err = a.copied(ctx, got, made[i]); err != nil {
			return r, err
		}
	}
	if a.cfg.MessagesLogs {
		log := eventsOf(ctx, a.c, s.HarnessID)
		defer log.stop()
		r.Log = got.ObjectOf("runs/" + s.HarnessID + "/events.jsonl")
		err = a.source.PutObject(ctx, r.Files, r.Log, "", log)
	}
	return r, err
}

// copied copies an artifact to the management plane, and returns the name of the copy: "" where its bytes are no longer
// there, or in the workspace alone.
func (a assignments) copied(ctx context.Context, got assign.Assignment, one client.Artifact) (string, error) {
	content, err := a.c.Artifacts().Content(ctx, one)
	if _, elsewhere := errors.AsType[*client.ElsewhereError](err); elsewhere || errors.Is(err, client.ErrExpired) ||
		errors.Is(err, client.ErrDamaged) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer content.Close()
	name := got.ObjectOf(one.Key)
	return name, a.source.PutObject(ctx, a.cfg.MessagesFiles, name, one.SHA256, content)
}

// eventsOf reads the events of a run as lines of JSON. stop must be called.
func eventsOf(ctx context.Context, c *client.Client, runID string) *lines {
	next, stop := iter.Pull2(c.Events(ctx, runID, 0))
	return &lines{next: next, stop: stop}
}

type lines struct {
	next func() (client.Item, error, bool)
	stop func()
	rest []byte
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		item, err, more := l.next()
		if !more {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		l.rest = append(bytes.Clone(item.Bytes), '\n')
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
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
