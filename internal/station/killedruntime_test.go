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

// TestKilledRuntime kills a station with kill -9 while a program of others works for it: one that keeps its sessions in a
// folder of the machine, and one that keeps them in its HOME, which is gone with the sandbox.
func TestKilledRuntime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runtime events.Runtime
		toml    string
	}{
		"over ACP, whose sessions outlive the sandbox": {runtimetest.Runtime(events.DriverACP, t.TempDir()),
			"kind = \"acp\"\nsession = {resume = true}\n"},
		"as Claude Code, whose sessions are in its HOME": {runtimetest.Homely(events.DriverClaude),
			fmt.Sprintf("kind = \"cli\"\nheadless = {parser = \"claude\"}\nsession = {resume = true, transcripts = [%q]}\n",
				runtimetest.Homely(events.DriverClaude).Transcripts[0])},
	} {
		t.Run("PLUS-12c SAFE-4 SAFE-7 after kill -9 a program "+name+" goes on in its session, and nothing is done by the dead", func(t *testing.T) {
			t.Parallel()
			killedRuntime(t, c.runtime, c.toml)
		})
	}
}

func killedRuntime(t *testing.T, r events.Runtime, toml string) {
	dir := t.TempDir()
	var env []string
	for name, value := range r.Env {
		env = append(env, fmt.Sprintf("%s = %q", name, value))
	}
	for name, text := range map[string]string{
		"agents/outside.prompt": "---\nruntime: fake\ntools: [bash]\nsandbox: {mode: host, network: {enabled: true}}\n---\nWork.\n",
		"agents/runtimes/fake.toml": fmt.Sprintf("name = \"fake\"\ncommand = %q\nenv = {%s}\ncapabilities = {gate_tools = \"native\"}\n%s",
			os.Args[0], strings.Join(env, ", "), toml),
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
	ended := false
	seen(t, c, func(item client.Item) bool { // with what is stored of the session after it, where that is
		switch d := item.Payload.(type) {
		case *events.CallFinishedData:
			ended = ended || d.Parent != ""
		case *events.CallProgressedData:
			return ended && d.Transcript != nil
		}
		return ended && len(r.Transcripts) == 0
	})
	p.kill()

	p = start(t, dir)
	defer p.kill()
	c = dial(t, p.says("up"))
	n := map[events.Kind]int{}
	stored := 0
	var said []string
	last := seen(t, c, func(item client.Item) bool {
		n[item.Payload.Kind()]++
		switch d := item.Payload.(type) {
		case *events.CallFinishedData:
			if d.Parent != "" {
				said = append(said, d.Output)
			}
		case *events.CallProgressedData:
			if d.Transcript != nil {
				stored++
			}
		}
		return item.State.Status.Ended()
	})
	if last.State.Status != events.Completed || n[events.CallProgressed]-stored != 1 || (stored > 0) != (len(r.Transcripts) > 0) ||
		n[events.CallFailed] != 0 || strings.Join(said, "") != "one\none\ntwo\n" || !strings.Contains(last.State.Plan.Steps[0].Output, "done") {
		t.Errorf("%s, %v, %d stored, %q", last.State.Status, n, stored, said)
	}
	if r, err := operator.Audit(within(t), c, "r", operator.Trust{}); err != nil || !r.Sound {
		t.Errorf("audit: %v, %+v", err, r.First)
	}
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
