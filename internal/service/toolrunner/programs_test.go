package toolrunner

import (
	"reflect"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestDeniedPrograms(t *testing.T) {
	t.Parallel()
	deny := func(id string, argv ...string) events.Rule {
		return events.Rule{ID: id, Tool: "bash", Match: events.Match{Argv: argv}, Action: "deny", Reason: "not here"}
	}
	station, agent := []events.Rule{deny("s", "nc", "**")}, []events.Rule{deny("a", "curl", "**"), deny("b", "git", "push", "**"), deny("c", "mkfs*", "**")}
	for name, c := range map[string]struct {
		station, agent []events.Rule
		want           []string
	}{
		"none, and nothing of the built-in rules": {nil, nil, nil},
		"the station's":                            {station, nil, []string{"nc"}},
		"the agent's too, whole programs only":     {station, agent, []string{"curl", "nc"}},
		"rules that cannot be read deny elsewhere": {[]events.Rule{{ID: ""}}, nil, nil},
	} {
		t.Run("GUARD-12 "+name, func(t *testing.T) {
			t.Parallel()
			programs := deniedPrograms(c.station)
			for range 2 {
				if got := programs(c.agent); !reflect.DeepEqual(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			}
		})
	}
}
