package part

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Names derives the ids of what planners make by themselves. Whoever does not have the station's key cannot guess them,
// and whoever derives one from the same things derives the same one.
type Names struct {
	Station string
	Key     []byte
}

// Child is the id of the child of a step, or of a call or review of it.
func (n Names) Child(parent, step, call string, attempt int) string {
	if call != "" {
		step += "|" + call
	}
	return n.run(events.ChildPrefix, "child", parent, step, attempt)
}

// Firing is the id of the run of a firing of a schedule.
func (n Names) Firing(schedule string, number int) string {
	return n.run(events.FiringPrefix, "firing", schedule, number)
}

// Binding is the id of the run of a binding of a work item.
func (n Names) Binding(item string, epoch int) string {
	return n.run(events.WorkRunPrefix, "binding", item, epoch)
}

// Wake is the id of the run of an agent that mail woke.
func (n Names) Wake(address string, epoch int) string {
	return n.run(events.MailRunPrefix, "mail", address, epoch)
}

// Landing is the id of the run of an attempt of a merge queue.
func (n Names) Landing(queue string, number, attempt int) string {
	return n.run(events.LandingRunPrefix, "landing", queue, number, attempt)
}

// StepItem is the id of the work item of a step of a formula.
func (n Names) StepItem(run, step string) string {
	return n.run(events.WorkStepPrefix, "tracked", run, step)
}

// Message is the id of a message that the station sends by itself.
func (n Names) Message(kind string, of ...any) string {
	return events.MailPrefix + lower.EncodeToString(n.derive(kind, of)[:10])
}

func (n Names) run(prefix, kind string, of ...any) string {
	return prefix + lower.EncodeToString(n.derive(kind, of)[:16])
}

func (n Names) derive(kind string, of []any) []byte {
	mac := hmac.New(sha256.New, n.Key)
	fmt.Fprintf(mac, "%s|%s", kind, n.Station)
	for _, part := range of {
		fmt.Fprintf(mac, "|%v", part)
	}
	return mac.Sum(nil)
}

// NotDerived refuses ids in tasks of outsiders that only planners give: those of children, firings, work items, merge
// queues and mail.
func NotDerived(id string) error {
	switch {
	case strings.HasPrefix(id, events.ChildPrefix):
		return fmt.Errorf("the id %q begins with %s, as only those of child runs do", id, events.ChildPrefix)
	case strings.HasPrefix(id, events.FiringPrefix):
		return fmt.Errorf("the id %q begins with %s, as only those of runs of schedules do", id, events.FiringPrefix)
	case strings.HasPrefix(id, events.MailRunPrefix):
		return fmt.Errorf("the id %q begins with %s, as only those of runs of agents do that mail woke", id,
			events.MailRunPrefix)
	case strings.HasPrefix(id, events.LandingRunPrefix):
		return fmt.Errorf("the id %q begins with %s, as only those of runs of merge queues do", id, events.LandingRunPrefix)
	case strings.HasPrefix(id, events.WorkRunPrefix):
		return fmt.Errorf("the id %q begins with %s, as only those of runs of work items do", id, events.WorkRunPrefix)
	}
	return nil
}

var lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Token is a short token for any text: the same for the same text, and hardly ever for another.
func Token(s string) string {
	h := sha256.Sum256([]byte(s))
	return lower.EncodeToString(h[:10])
}
