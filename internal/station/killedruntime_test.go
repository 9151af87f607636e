package station_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/runtime/runtimetest"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// TestKilledRuntime kills a station with kill -9 while a program of others works for it.
func TestKilledRuntime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := runtimetest.Runtime(events.DriverACP, t.TempDir())
	var env []string
	for name, value := range r.Env {
		env = append(env, fmt.Sprintf("%s = %q", name, value))
	}
	for name, text := range map[string]string{
		"agents/outside.prompt": "---\nruntime: fake\ntools: [bash]\nsandbox: {mode: host, network: {enabled: true}}\n---\nWork.\n",
		"agents/runtimes/fake.toml": fmt.Sprintf("name = \"fake\"\nkind = \"acp\"\ncommand = %q\nenv = {%s}\n"+
			"session = {resume = true}\ncapabilities = {gate_tools = \"native\"}\n", os.Args[0], strings.Join(env, ", ")),
	} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, dir)
	c := dial(t, p.says("up"))
	_, err := c.Start(within(t), events.Task{ID: "r", Agent: "outside", Task: "!bash echo one\n!again echo two\n!stay\n!say done"})
	if err != nil {
		t.Fatal(err)
	}
	seen(t, c, func(item client.Item) bool {
		d, ok := item.Payload.(*events.CallFinishedData)
		return ok && d.Parent != ""
	})
	p.kill()

	t.Run("PLUS-12c SAFE-4 SAFE-7 after kill -9 the program goes on in its session, and nothing is done by the dead", func(t *testing.T) {
		p := start(t, dir)
		defer p.kill()
		c := dial(t, p.says("up"))
		n := map[events.Kind]int{}
		var said []string
		last := seen(t, c, func(item client.Item) bool {
			n[item.Payload.Kind()]++
			if d, ok := item.Payload.(*events.CallFinishedData); ok && d.Parent != "" {
				said = append(said, d.Output)
			}
			return item.State.Status.Ended()
		})
		if last.State.Status != events.Completed || n[events.CallProgressed] != 1 || n[events.CallFailed] != 0 ||
			strings.Join(said, "") != "one\none\ntwo\n" || !strings.Contains(last.State.Plan.Steps[0].Output, "done") {
			t.Errorf("%s, %v, %q", last.State.Status, n, said)
		}
		if r, err := operator.Audit(within(t), c, "r", operator.Trust{}); err != nil || !r.Sound {
			t.Errorf("audit: %v, %+v", err, r.First)
		}
	})
}

// seen watches the run until something is so, and returns what was seen last.
func seen(t *testing.T, c *client.Client, so func(client.Item) bool) (last client.Item) {
	t.Helper()
	for item, err := range c.Watch(within(t), "r", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if last = item; so(item) {
			return item
		}
	}
	t.Fatal("the run was not seen to come so far")
	return last
}
