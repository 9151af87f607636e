package topology

import (
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Receivers lists the roles that receive events of a kind of an aggregate.
func Receivers(aggregate string, k events.Kind) []events.Service {
	return who(func(h Subscriptions) bool { return h.Receives(aggregate, k) })
}

// Receives reports whether events of a kind of an aggregate are delivered to the role.
func (h Subscriptions) Receives(aggregate string, k events.Kind) bool {
	if aggregate == events.RunAggregate {
		return h.All || slices.Contains(h.Events, k)
	}
	return slices.Contains(h.Others, Interest{aggregate, k})
}

// ReceiverOfInput returns the role that receives an outsider on a subject of a station; ok is false where no one does.
func ReceiverOfInput(station, subject string) (role events.Service, ok bool) {
	rest, ours := strings.CutPrefix(subject, "station."+station+".")
	return first(who(func(h Subscriptions) bool {
		return ours && slices.ContainsFunc(h.Inputs, func(pattern string) bool { return matches(pattern, rest) })
	}))
}

// ReceiverOfTimer returns the role that sets and receives timers of a family; ok is false where no one does.
func ReceiverOfTimer(family string) (role events.Service, ok bool) {
	return first(who(func(h Subscriptions) bool { return slices.Contains(h.Timers, family) }))
}

func who(receives func(Subscriptions) bool) []events.Service {
	var roles []events.Service
	for _, role := range events.Services() {
		if receives(SubscriptionsOf(role)) {
			roles = append(roles, role)
		}
	}
	return roles
}

func first(roles []events.Service) (events.Service, bool) {
	if len(roles) == 0 {
		return "", false
	}
	return roles[0], true
}

// matches compares a subject with a pattern in which "*" is any one token.
func matches(pattern, subject string) bool {
	p, t := strings.Split(pattern, "."), strings.Split(subject, ".")
	if len(p) != len(t) {
		return false
	}
	for i := range p {
		if t[i] == "" || p[i] != "*" && p[i] != t[i] {
			return false
		}
	}
	return true
}
