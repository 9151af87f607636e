package runtree

import (
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// CostText is what a run cost, "" where nothing is known of it.
func CostText(cost events.MicroUSD) string {
	if cost == 0 {
		return ""
	}
	return cost.String()
}

// The statuses that a list shows: those of a run, and two that say more.
const (
	statusHeld    = "held"
	statusWaiting = "waiting"
)

// StatusOf is the status that a list shows for a run.
func StatusOf(i run.Info) string {
	switch {
	case i.Held != "":
		return statusHeld
	case len(i.Gates) > 0 && i.Status == events.Running:
		return statusWaiting
	}
	return string(i.Status)
}

// Statuses are all that StatusOf returns.
var Statuses = []string{string(events.Created), string(events.Running), statusWaiting, string(events.Paused),
	string(events.Completed), string(events.Failed), statusHeld}
