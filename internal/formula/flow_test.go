package formula

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/inspan/inspan/pkg/events"
)

func loaded(t testing.TB, text string) (*Formula, error) {
	t.Helper()
	return Load(fstest.MapFS{"f.formula.toml": &fstest.MapFile{Data: []byte(text)}}, "f")
}

func TestFlow(t *testing.T) {
	t.Parallel()
	m, err := loaded(t, `formula = "f"
[vars.deep]
type = "boolean"
default = true
[vars.dirs]
type = "array"
default = ["a", "b"]
[defaults]
agent = "coder"
timeout = "10m"
retry = {max_attempts = 3, backoff = "1s", factor = 2}
[[steps]]
id = "look"
title = "look"
[[steps]]
id = "fix"
title = "fix one"
when = "vars.deep and steps.look.output.files != []"
for_each = "steps.look.output.files"
max_concurrency = 4
join = "any"
retry = {max_attempts = 2, on = "any", on_exhausted = "soft_fail"}
scope = {name = "tree", teardown = "clean"}
[[steps]]
id = "each-dir"
title = "x"
loop = {over = "vars.dirs"}
timeout = "1m"
[[steps]]
id = "which"
kind = "switch"
conditions = [{if = "steps.fix.status == \"skipped\"", next = "ask"}]
default = "rest"
[[steps]]
id = "ask"
kind = "approval"
message = "Land it?"
approvers = ["overseer"]
timeout = "24h"
on_timeout = "approve"
[[steps]]
id = "rest"
kind = "wait"
duration = "2s"
[[steps]]
id = "clean"
title = "clean up"
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range m.Steps() {
		if none := slices.Contains([]string{"which", "ask", "rest"}, s.ID); none != (s.Agent == "") {
			t.Errorf("the step %s is shown with the agent %q", s.ID, s.Agent)
		}
	}
	c, err := m.Compile(map[string]string{"dirs": `["x_y", "z"]`})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, st := range c.Plan.Steps {
		b, _ := json.Marshal(st.Flow)
		got[st.ID] = strings.Join(st.Needs, ",") + " " + string(b)
	}
	for id, want := range map[string]string{
		"look": ` {"retry":{"max_attempts":3,"backoff_ms":1000,"factor":2},"timeout_ms":600000}`,
		"fix": `look {"when":"vars.deep and steps.look.output.files != []","each":{"over":"steps.look.output.files","parallel":4,"need":1},` +
			`"retry":{"max_attempts":2,"on":"any","on_exhausted":"soft_fail"}}`,
		"each-dir": ` {"each":{"over":"vars.dirs","parallel":1},"retry":{"max_attempts":3,"backoff_ms":1000,"factor":2},"timeout_ms":60000}`,
		"which":    `fix {"kind":"set","set":"\"ask\" if (steps.fix.status == \"skipped\") else (\"rest\")"}`,
		"ask":      `which {"kind":"approval","when":"steps[\"which\"].output == \"ask\"","approval":{"approvers":["overseer"],"timeout_ms":86400000,"on_timeout":"approve"}}`,
		"rest":     `which {"kind":"wait","when":"steps[\"which\"].output == \"rest\"","wait_ms":2000}`,
		"clean":    `fix {"retry":{"max_attempts":3,"backoff_ms":1000,"factor":2},"timeout_ms":600000,"always":true}`,
	} {
		if got[id] != want {
			t.Errorf("step %s:\n got %s\nwant %s", id, got[id], want)
		}
	}
	if b, _ := json.Marshal(c.Plan.Vars); string(b) != `{"deep":true,"dirs":["x_y","z"]}` {
		t.Errorf("vars %s", b)
	}
}

// wake is a step that waits for a signal, with an agent that is woken.
func wake(w string) string { return "kind = \"wait\"\nsignal = \"x\"\nwake = " + w }

func TestFlowRefusals(t *testing.T) {
	t.Parallel()
	const head = "formula = \"f\"\n[vars.n]\ntype = \"integer\"\ndefault = 1\n[[steps]]\nid = \"a\"\ntitle = \"do\"\n[[steps]]\nid = \"b\"\ntitle = \"do\"\n"
	for _, c := range []struct{ text, want string }{
		{`when = "steps.c.output == 1"`, `11:9: steps[1].when: there is no step "c"`},
		{`when = "vars.m == 1"`, `11:9: steps[1].when: there is no variable "m"; there are: n`},
		{`when = "1 == vars.m"`, `11:14: steps[1].when: there is no variable "m"`},
		{`when = "steps.a.result"`, `11:9: steps[1].when: a step has no "result"`},
		{`when = "x > 1"`, `11:9: steps[1].when: x is nothing that can be used here`},
		{`when = "steps.a.output =="`, `11:26: steps[1].when: `},
		{`when = "len(steps) > 1"`, `11:13: steps[1].when: steps is used without a name`},
		{`when = "open(vars.n)"`, `11:9: steps[1].when: open is no function`},
		{`when = "steps.b.output"`, `11:9: steps[1].when: steps need each other: b needs b`},
		{`when = 1`, `11:8: steps[1].when: want a text, got a whole number`},
		{`retry = {max_attempts = -1}`, `11:25: steps[1].retry.max_attempts: "-1" is out of range; want 1 to 20`},
		{`retry = {max_attempts = 100000000000000000000}`, `11:25: the file is not TOML: toml: decimal number is too large`},
		{`retry = {max_attempts = 21}`, `11:25: steps[1].retry.max_attempts: "21" is out of range`},
		{`retry = {backoff = "-1s"}`, `11:20: steps[1].retry.backoff: "-1s" is no duration`},
		{`retry = {backoff = "1000000h"}`, `11:20: steps[1].retry.backoff: "1000000h" is no duration`},
		{`retry = {factor = 1e300}`, `11:19: steps[1].retry.factor: "1e300" is no factor`},
		{`retry = {factor = nan}`, `11:19: steps[1].retry.factor: "nan" is no factor`},
		{`retry = {on_exhausted = "ignore"}`, `11:25: steps[1].retry.on_exhausted: "ignore" is none of`},
		{`timeout = "soon"`, `11:11: steps[1].timeout: "soon" is no duration`},
		{`timeout = "5m"` + "\nchild = \"own\"", `8:3: steps[1]: step "b": a step that is a run of its own has no timeout`},
		{`for_each = "steps.c.output"`, `11:13: steps[1].for_each: there is no step "c"`},
		{`max_concurrency = 2`, `11:19: steps[1].max_concurrency: max_concurrency goes with for_each`},
		{"for_each = \"steps.a.output\"\nmax_concurrency = 0", `12:19: steps[1].max_concurrency: "0" is out of range`},
		{"for_each = \"steps.a.output\"\njoin = \"most\"", `12:8: steps[1].join: "most" is no join`},
		{`loop = {max = 3}`, `step "b": a loop needs a list, or a condition that ends it`},
		{`loop = {until = "last == 1", max = 501}`, `11:36: steps[1].loop.max: "501" is out of range; want 1 to 500`},
		{`loop = {until = "first"}`, `11:18: steps[1].loop.until: first is nothing that can be used here`},
		{`kind = "tool"`, `11:8: steps[1].kind: a step of kind "tool" is not supported; known here: agent, approval`},
		{`kind = "check"`, `11:8: steps[1].kind: a step of kind check has no checks; add accept`},
		{"kind = \"check\"\naccept = {max_attempts = 2, checks = [{kind = \"command\", run = \"true\"}]}", `11:8: steps[1].kind: no agent can do better after a check failed`},
		{"kind = \"check\"\nchild = \"own\"\naccept = \"true\"", `step "b": a step that only checks has no kind`},
		{`kind = "wait"`, `11:8: steps[1].kind: a step of kind wait has neither a duration nor a signal; add duration`},
		{"kind = \"wait\"\nsignal = \"a b\"", `12:10: steps[1].signal: "a b" is no name of a signal`},
		{"kind = \"wait\"\nsignal = \"x\"\nduration = \"1s\"", `13:12: steps[1].duration: duration goes with kind = "wait" without a signal`},
		{"kind = \"wait\"\nsignal = \"x\"\non_timeout = \"skip\"", `on_timeout of a signal is fail or skip, and goes with a timeout`},
		{"kind = \"wait\"\nsignal = \"x\"\ntimeout = \"1s\"\non_timeout = \"approve\"", `14:14: steps[1].on_timeout: "approve" is none of fail, skip`},
		{wake(`{every = "0s", until = "last"}`), `13:17: steps[1].wake.every: "0s" is no duration`},
		{wake(`{every = "-1s", until = "last"}`), `13:17: steps[1].wake.every: "-1s" is no duration`},
		{wake(`{every = "721h", until = "last"}`), `13:17: steps[1].wake.every: "721h" is no duration; write a time such as "30m", at most 720h0m0s`},
		{wake(`{every = "99999999999999h", until = "last"}`), `13:17: steps[1].wake.every: "99999999999999h" is no duration`},
		{wake(`{every = 5, until = "last"}`), `13:17: steps[1].wake.every: want a text, got a whole number`},
		{wake(`{every = "1s", factor = 0.5, until = "last"}`), `13:32: steps[1].wake.factor: "0.5" is no factor; want 1 to 100`},
		{wake(`{every = "1s", factor = -2, until = "last"}`), `13:32: steps[1].wake.factor: "-2" is no factor`},
		{wake(`{every = "1s", factor = inf, until = "last"}`), `13:32: steps[1].wake.factor: "inf" is no factor`},
		{wake(`{every = "1m", most = "1s", until = "last"}`), `13:30: steps[1].wake.most: "1s" is less than every; want at least the time of every`},
		{wake(`{every = "1m", most = "0s", until = "last"}`), `13:30: steps[1].wake.most: "0s" is no duration`},
		{wake(`{every = "1m"}`), `13:8: steps[1].wake: wake does not say what ends the wait; add until`},
		{wake(`{until = "last"}`), `13:8: steps[1].wake: wake does not say when the agent looks first; add every`},
		{wake(`{every = "1m", until = "first"}`), `13:32: steps[1].wake.until: first is nothing that can be used here`},
		{wake(`{every = "1m", until = "last", max = 3}`), `13:39: steps[1].wake.max: unknown key "max"; known here: every, factor, most, until`},
		{wake("\"1m\""), `13:8: steps[1].wake: want a table`},
		{wake(`{every = "1m", until = "last"}`) + "\naccept = \"true\"", `no agent carries out the step "b"`},
		{"kind = \"wait\"\nduration = \"1s\"\nwake = {every = \"1m\", until = \"last\"}", `13:8: steps[1].wake: wake goes with kind = "wait" and a signal`},
		{"wake = {every = \"1m\", until = \"last\"}", `11:8: steps[1].wake: wake goes with kind = wait`},
		{"signal = \"x\"", `11:10: steps[1].signal: signal goes with kind = wait`},
		{`kind = "set"`, `11:8: steps[1].kind: a step of kind set has no value`},
		{`value = "1"`, `11:9: steps[1].value: value goes with kind = set or transform`},
		{"kind = \"approval\"\non_timeout = \"escalate\"", `12:14: steps[1].on_timeout: on_timeout escalate does not say who is asked then; add escalate_to`},
		{"kind = \"approval\"\non_timeout = \"escalated\"", `12:14: steps[1].on_timeout: on_timeout "escalated" is not supported`},
		{"kind = \"approval\"\nescalate_to = [\"lead\"]", `escalate_to goes with on_timeout escalate`},
		{`escalate_to = ["lead"]`, `11:1: steps[1].escalate_to: escalate_to goes with kind`},
		{"kind = \"approval\"\napprovers = [\"@role/lead\"]", `12:14: steps[1].approvers[0]: the approver "@role/lead" is no name`},
		{"kind = \"approval\"\nagent = \"coder\"", `no agent carries out the step "b"`},
		{"kind = \"approval\"\non_timeout = \"approve\"", `on_timeout goes with a timeout`},
		{`approvers = ["x"]`, `11:1: steps[1].approvers: approvers goes with kind`},
		{`scope = {teardown = "c"}`, `11:21: steps[1].scope.teardown: there is no step "c"`},
		{"kind = \"switch\"\nconditions = [{if = \"True\", next = \"c\"}]", `12:36: steps[1].conditions[0].next: there is no step "c"`},
		{`when = "` + strings.Repeat("1 + ", 2000) + `1"`, `11:9: steps[1].when: the expression has 8001 bytes, the limit is 4096`},
	} {
		_, err := loaded(t, head+c.text+"\n")
		if err == nil || !strings.Contains(err.Error(), "f.formula.toml:") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
	m, err := loaded(t, "formula = \"f\"\n[vars.list]\ntype = \"array\"\n[[steps]]\nid = \"a\"\ntitle = \"do\"\nfor_each = \"vars.list\"\n")
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{`{"a": 1}`: "is no array", `null`: "is no array", "[" + strings.Repeat("1,", 5<<20) + "1]": "the limit is 65536"} {
		if _, err := m.Compile(map[string]string{"list": value}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: got %.200v, want %s", value, err, want)
		}
	}
}

// many is a formula of that many steps, each but the first with a condition on the one before.
func many(n int) string {
	var b strings.Builder
	b.WriteString("formula = \"f\"\n[defaults]\nagent = \"coder\"\n")
	for i := range n {
		fmt.Fprintf(&b, "[[steps]]\nid = \"s%d\"\ntitle = \"step %d\"\n", i, i)
		if i > 0 {
			fmt.Fprintf(&b, "needs = [\"s%d\"]\n", i-1)
		}
	}
	return b.String()
}

func TestWake(t *testing.T) {
	t.Parallel()
	const head = "formula = \"f\"\n[defaults]\nretry = {max_attempts = 2}\ntimeout = \"1m\"\n[[steps]]\nid = \"hold\"\n"
	m, err := loaded(t, head+"title = \"Look.\"\nagent = \"watcher\"\ntimeout = \"24h\"\n"+
		wake(`{every = "1s", factor = 2.5, most = "1h", until = "last.live"}`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"hold","description":"Look.","agent":"watcher","flow":{"kind":"wait","wait_ms":86400000,"signal":"x",` +
		`"wake":{"every_ms":1000,"factor":2.5,"most_ms":3600000,"until":"last.live"}}}`
	if b, _ := json.Marshal(c.Plan.Steps[0]); string(b) != want {
		t.Errorf("got %s\nwant %s", b, want)
	}
	if _, err := loaded(t, head+wake(`{every = "1s", until = "last"}`)); err == nil || !strings.Contains(err.Error(), "has no title and no description") {
		t.Errorf("an agent that is asked nothing: %v", err)
	}
}

func TestStepLimit(t *testing.T) {
	t.Parallel()
	m, err := loaded(t, many(MaxSteps))
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Compile(nil)
	if err != nil || len(c.Plan.Steps) != MaxSteps {
		t.Fatalf("%v", err)
	}
	if b, _ := json.Marshal(c.Plan); len(b) > events.MaxEvent {
		t.Errorf("%d bytes", len(b))
	}
	if _, err := loaded(t, many(MaxSteps+1)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the limit is %d", MaxSteps)) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkThousandSteps is a formula of 1,000 steps, from its bytes to its plan.
func BenchmarkThousandSteps(b *testing.B) {
	text := many(1000)
	b.ReportAllocs()
	for b.Loop() {
		m, err := loaded(b, text)
		if err == nil {
			_, err = m.Compile(nil)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
