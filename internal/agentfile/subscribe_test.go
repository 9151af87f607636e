package agentfile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
)

func TestSubscribe(t *testing.T) {
	t.Parallel()
	parse := func(list string) (events.Agent, []agentfile.Warning, error) {
		return agentfile.Parse("a", []byte("---\nmodel: scripted/x\nsubscribe:\n"+list+"---\nDo it.\n"))
	}
	t.Run("TRIG-10 a subscription has a subject, a task and what a task may have", func(t *testing.T) {
		t.Parallel()
		a, warnings, err := parse("  - {subject: orders.*.new, task: 'See {{order.id}}', session: 's-{{order.id}}', repo: '{{repo}}', ref: main, autonomy: 2, variables: {n: 3, who: '{{by}}'}}\n  - {subject: alerts.>, task_template: Look}\n")
		if err != nil || len(warnings) != 0 {
			t.Fatal(err, warnings)
		}
		want := events.Subscription{Subject: "orders.*.new", Task: "See {{order.id}}", Session: "s-{{order.id}}", Repo: "{{repo}}", Ref: "main", Autonomy: 2, Variables: map[string]string{"n": "3", "who": "{{by}}"}}
		if len(a.Subscribe) != 2 || fmt.Sprint(a.Subscribe[0]) != fmt.Sprint(want) || a.Subscribe[1].Task != "Look" || a.Subscribe[1].Subject != "alerts.>" {
			t.Errorf("%+v", a.Subscribe)
		}
	})
	for name, list := range map[string]string{
		"a subject of the station":     "  - {subject: station.default.run.x.stream, task: x}\n",
		"all subjects":                 "  - {subject: '>', task: x}\n",
		"a first token that is any":    "  - {subject: '*.run.>', task: x}\n",
		"the interface of JetStream":   "  - {subject: $JS.API.>, task: x}\n",
		"agents of NATS":               "  - {subject: agents.prompt.a.b.c, task: x}\n",
		"no subject":                   "  - {task: x}\n",
		"no task":                      "  - {subject: a.b}\n",
		"two tasks":                    "  - {subject: a.b, task: x, task_template: y}\n",
		"a template that does not end": "  - {subject: a.b, task: 'x {{y'}\n",
		"code in a template":           "  - {subject: a.b, task: '{{#each x}}'}\n",
		"an unknown key":               "  - {subject: a.b, task: x, agent: other}\n",
		"two for one message":          "  - {subject: a.*, task: x}\n  - {subject: a.b, task: y}\n",
		"a long text":                  "  - {subject: a.b, task: '" + strings.Repeat("x", events.MaxSubscriptionText+1) + "'}\n",
		"too many":                     strings.Repeat("  - {subject: a.b, task: x}\n", events.MaxSubscriptions+1),
	} {
		t.Run("TRIG-10 is refused: "+name, func(t *testing.T) {
			t.Parallel()
			if a, _, err := parse(list); err == nil {
				t.Errorf("%+v", a.Subscribe)
			}
		})
	}
}
