package kernel

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Key names one aggregate among those of all names, for stores that have one space of names. Runs were there before the
// others and are named by their id alone; "session.s-1" is the session s-1. No id has a dot.
func Key(aggregate, id string) string {
	if aggregate == events.RunAggregate {
		return id
	}
	return aggregate + "." + id
}

// ParseKey undoes Key.
func ParseKey(key string) (aggregate, id string) {
	if aggregate, id, ok := strings.Cut(key, "."); ok {
		return aggregate, id
	}
	return events.RunAggregate, key
}

// Of returns an error for an entry that is not of an aggregate of that name, or whose id is no token.
func (e Entry) Of(aggregate string) error {
	if e.Aggregate != "" && e.Aggregate != aggregate {
		return fmt.Errorf("an event of %s %.64q is not for the log of aggregate %s", e.Aggregate, e.ID, aggregate)
	}
	return events.CheckID(aggregate, e.ID)
}

// TimerName returns the family and the name of a timer as subjects have them. A name is {family}.{id}; the families of
// runs began before there were other aggregates, those of all others name theirs: "lease.x" of a session is
// "session-lease.x".
func TimerName(aggregate, name string) (family, full string, err error) {
	family, id, ok := strings.Cut(name, ".")
	if !ok || !events.ValidID(family) || !events.ValidID(id) || strings.Contains(family, "-") {
		return "", "", fmt.Errorf("timer %q: want {family}.{id}, and no hyphen in the family", name)
	}
	if aggregate != events.RunAggregate {
		family = aggregate + "-" + family
	}
	return family, family + "." + id, nil
}

// ownFamily is the family of a timer without the name of its aggregate; ok is false for one of another aggregate.
func ownFamily(aggregate, family string) (own string, ok bool) {
	if aggregate == events.RunAggregate {
		return family, !strings.Contains(family, "-")
	}
	return strings.CutPrefix(family, aggregate+"-")
}
