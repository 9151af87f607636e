package docgen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// shipped is the station that the configurations in deploy/ are for.
const shipped = "default"

// authConf is deploy/nats/auth.conf: the users of a NATS server that carries one station (SAFE-6). Every service asks at
// start whether the consumers of all roles are there, so each may look at them; the planner also sets the station up and
// registers agents.
func authConf() []byte {
	p := &page{}
	p.say("# Made by make docs from internal/topology: the users of station %q. Everything that is not listed is denied.", shipped)
	p.say("# Passwords come from the environment of the server. For another station, or to keep the setup rights apart from the")
	p.say("# planner's, see docs/deploy.md.")
	p.say("authorization {\n  users: [")
	for _, role := range events.Services() {
		publish, subscribe := topology.Permissions(shipped, role)
		for _, other := range events.Services() {
			for _, c := range topology.Consumers(shipped, other) {
				publish = append(publish, "$JS.API.CONSUMER.INFO."+c.Stream+"."+c.Name)
			}
		}
		if role == events.Planner {
			more, answers := topology.SetupPermissions(shipped)
			publish, subscribe = append(publish, more...), append(subscribe, answers...)
		}
		user(p, string(role), publish, subscribe)
	}
	publish, subscribe := topology.UserPermissions(shipped, "operator", topology.MayDispatch, topology.MayWatch, topology.MayApprove)
	user(p, "operator", publish, subscribe)
	p.say("  ]\n}")
	return p.bytes()
}

func user(p *page, name string, publish, subscribe []string) {
	p.say("    {\n      user: %s\n      password: $INSPAN_PASSWORD_%s\n      permissions: {", name, strings.ToUpper(name))
	p.say("        publish: { allow: [\n%s        ] }", quoted(publish))
	p.say("        subscribe: { allow: [\n%s        ] }", quoted(subscribe))
	p.say("        allow_responses: { max: 1, expires: \"1m\" }\n      }\n    }")
}

func quoted(subjects []string) string {
	var b strings.Builder
	for _, s := range slices.Compact(slices.Sorted(slices.Values(subjects))) {
		fmt.Fprintf(&b, "          %q\n", s)
	}
	return b.String()
}
