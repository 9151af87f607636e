package toolrunner

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/pkg/events"
)

// deniedPrograms returns the programs that the station's rules and an agent's deny as a whole, so that sandboxes close
// their files. Those of the built-in rules are left to the guards: what they name (mkfs, shutdown) needs privileges
// that no such sandbox has, and a search for their files would be paid by everybody.
func deniedPrograms(station []events.Rule) func(guards []events.Rule) []string {
	var known sync.Map // lists by the rules of agents, which are few
	return func(guards []events.Rule) []string {
		if len(station)+len(guards) == 0 {
			return nil
		}
		key, err := json.Marshal(guards)
		if err != nil {
			return nil // as below
		}
		if list, ok := known.Load(string(key)); ok {
			return list.([]string) //nolint:forcetypeassert // nothing else is stored
		}
		list := deniedBesideBuiltin(station, guards)
		known.Store(string(key), list)
		return list
	}
}

// deniedBesideBuiltin are the programs that rules deny besides those of the built-in rules.
func deniedBesideBuiltin(station, guards []events.Rule) []string {
	set, err := guard.Build(station, guards)
	plain, failed := guard.Build()
	if err != nil || failed != nil {
		return nil // the gatekeeper refuses every call of rules that cannot be read
	}
	known := plain.DeniedPrograms()
	return slices.DeleteFunc(set.DeniedPrograms(), func(name string) bool { return slices.Contains(known, name) })
}
