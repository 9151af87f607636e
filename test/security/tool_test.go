package security

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// asRole makes TestAsRole, in a copy of this test's program, be a service.
const asRole = "INSPAN_TEST_AS_ROLE"

// TestAsRole tests nothing: it is how a test starts a service as a process of its own.
func TestAsRole(t *testing.T) {
	if role := os.Getenv(asRole); role != "" {
		if code := program.Main(all.Program(events.Service(role), &service.Config{})); code != 0 {
			t.Errorf("%s ended with %d", role, code)
		}
	}
}

// burglar is what a command of a tool tries. What it finds it prints backwards, so that it is not masked.
func burglar(natsAddress, other string) string {
	host, port, _ := strings.Cut(natsAddress, ":")
	return fmt.Sprintf(`
echo begun
if (exec 3<>/dev/tcp/%s/%s && read -t 2 -r line <&3 && [ "${line:0:4}" = INFO ]) 2>/dev/null; then echo REACHED nats; fi
for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do tr '\0' '\n' <"$f" 2>/dev/null | rev; done
for d in .. ../.. ../other "$(dirname %q)" %q /work /workspace /tmp /root /home; do
  if cat "$d/loot.txt" "$d"/*/loot.txt 2>/dev/null | grep -q loot; then echo REACHED other workspace by "$d"; fi
done
ln -s %q/loot.txt link 2>/dev/null; grep -q loot link 2>/dev/null && echo REACHED other workspace by link
(kill -0 %d) 2>/dev/null && echo REACHED a process of the host
echo ended
`, host, port, other, other, other, os.Getpid())
}

// burgle runs the burglar as a tool call of an agent and returns what it found.
func (a *aviary) burgle(t *testing.T, c *client.Client, agent string) (found []string) {
	t.Helper()
	five := 5
	id, err := c.Start(within(t), events.Task{ID: "run-" + agent, Agent: agent, Task: "go", Autonomy: &five, Session: agent})
	if err != nil {
		t.Fatal(err)
	}
	if s := ended(t, c, id); s.Status != events.Completed {
		t.Fatalf("the run of %s is %s", agent, s.Status)
	}
	var out string
	for item, err := range c.Events(within(t), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if done, ok := item.Payload.(*events.CallFinishedData); ok {
			out = done.Output
			if done.OutputRef != nil {
				b, err := c.Object(within(t), *done.OutputRef)
				if err != nil {
					t.Fatal(err)
				}
				out = string(b)
			}
		}
	}
	if !strings.Contains(out, "begun") || !strings.Contains(out, "ended") {
		t.Fatalf("the command of %s did not do its work: %.2000s", agent, out)
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "REACHED ") {
			found = append(found, strings.TrimSpace(strings.TrimPrefix(line, "REACHED ")))
		}
	}
	for _, s := range a.secrets {
		if s == canary("tool") {
			continue // that one is given to commands
		}
		backwards := []byte(s)
		slices.Reverse(backwards)
		if strings.Contains(out, string(backwards)) || strings.Contains(out, s) {
			found = append(found, "the secret "+s)
		}
	}
	return found
}

// tools lets a command in a shut sandbox and one in an open one try the same. missing says why it cannot be tried here.
func tools(t *testing.T) (shut, open []string, missing error) {
	if _, err := backends.Local("").Pick(t.Context(), sandbox.Bwrap); errors.Is(err, sandbox.ErrUnavailable) {
		return nil, nil, err
	} else if err != nil {
		t.Fatal(err)
	}
	a := newAviary(t, func(cfg *service.Config) { cfg.Sandbox, cfg.SandboxReaches = "bwrap", true }) // the open one is host
	other := filepath.Join(a.dir, "work", "session", "other")
	for path, text := range map[string]string{filepath.Join(other, "loot.txt"): "loot\n",
		filepath.Join(a.dir, "work", "session", "shut", "do.sh"): burglar(hostOf(t, a.url), other), filepath.Join(a.dir, "work", "session", "open", "do.sh"): burglar(hostOf(t, a.url), other)} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := a.as("operator")
	return a.burgle(t, c, "shut"), a.burgle(t, c, "open"), nil
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// serveProcess runs a role as a process of its own, with its secrets in its environment as they are in a container.
func (a *aviary) serveProcess(role events.Service, cfg service.Config) {
	a.t.Helper()
	program, err := os.Executable()
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "-test.run=^TestAsRole$")
	cmd.Env = append(os.Environ(), asRole+"="+string(role), "INSPAN_STATION="+cfg.Station, "INSPAN_NATS_URL="+cfg.NATSURL, "INSPAN_NATS_MONITOR="+cfg.NATSMonitor,
		"INSPAN_NATS_USER="+cfg.NATSUser, "INSPAN_NATS_PASSWORD="+cfg.NATSPassword.Reveal(), "INSPAN_STATION_KEY="+cfg.StationKey.Reveal(),
		"INSPAN_SANDBOX_SECRETS="+cfg.SandboxSecrets.Reveal(), "INSPAN_ANTHROPIC_API_KEY="+cfg.AnthropicKey.Reveal(), "INSPAN_OPENAI_API_KEY="+cfg.OpenAIKey.Reveal(), "INSPAN_GEMINI_API_KEY="+cfg.GeminiKey.Reveal(),
		"INSPAN_WORKSPACE="+cfg.Workspace, "INSPAN_SANDBOX="+cfg.Sandbox, "INSPAN_HTTP="+cfg.HTTP, "INSPAN_LOG_LEVEL="+cfg.LogLevel,
		"INSPAN_SANDBOX_REACHES_STATION="+strconv.FormatBool(cfg.SandboxReaches))
	cmd.Stdout, cmd.Stderr = &a.log, &a.log
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { cancel(); _ = cmd.Wait() }) // it is killed
}
