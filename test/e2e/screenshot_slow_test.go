//go:build slow

package e2e

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

// TestScreenshot lets agents in real sandboxes look at pages with the browser of this machine, through the egress proxy.
func TestScreenshot(t *testing.T) {
	t.Parallel()
	if !slices.ContainsFunc([]string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
		"chrome-headless-shell"}, func(name string) bool { _, err := exec.LookPath(name); return err == nil }) {
		t.Skip("NOT TESTED: there is no browser on this machine: install chromium")
	}
	sandboxtest.Need(t, bwrap.New("", ""))
	const blue = `<title>blue</title><body style="margin:0;background:#0000ff"><script>document.body.style.background="#00ff00"</script>`
	w := newWorld(t)
	w.ports.Egress = network(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprint(rw, blue)
	})
	w.tune = func(c *service.Config) { c.Sandbox = "bwrap" }
	open := events.Sandbox{Mode: "bwrap", AllowedHosts: []string{"*.example"}}
	closed := events.Sandbox{Mode: "bwrap"}
	tools := []string{"screenshot", "bash"}
	w.agent(events.Agent{Name: "remote", Tools: tools, Sandbox: open},
		calling("screenshot", `{url: "http://page.example/", width: 300, height: 200, save_as: shots/page.png}`))
	w.agent(events.Agent{Name: "away", Tools: tools, Sandbox: open}, calling("screenshot", `{url: "https://evil.test/"}`))
	w.agent(events.Agent{Name: "closed", Tools: tools, Sandbox: closed}, calling("screenshot", `{url: "http://page.example/"}`))
	w.agent(events.Agent{Name: "outside", Tools: tools, Sandbox: closed}, calling("screenshot", `{path: "../../x.html"}`))
	w.agent(events.Agent{Name: "file", Tools: tools, Sandbox: closed}, fmt.Sprintf(`
turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: %q}}
  - when: {turn: 2}
    calls:
      - {name: screenshot, input: {path: "a b.html", width: 300, height: 200}}
  - when: {turn: 3}
    text: "Result: {{result.1}}"
`, "echo '"+blue+"' > 'a b.html'"))
	w.agent(events.Agent{Name: "server", Tools: append(tools, "bash_output", "kill_shell"), Sandbox: closed}, fmt.Sprintf(`
turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: %q}}
  - when: {turn: 2}
    calls:
      - {name: bash, input: {command: "python3 -m http.server 8123 --bind 127.0.0.1", run_in_background: true}}
  - when: {turn: 3}
    calls:
      - {name: bash, input: {command: "for i in $(seq 100); do (exec 3<>/dev/tcp/127.0.0.1/8123) 2>/dev/null && break; sleep 0.2; done"}}
  - when: {turn: 4}
    calls:
      - {name: screenshot, input: {url: "http://localhost:8123/", width: 300, height: 200}}
  - when: {turn: 5}
    text: "Result: {{result.1}}"
`, "echo '"+blue+"' > index.html"))
	w.start()
	for _, tc := range []struct{ id, agent, want string }{
		{"ART-15 SBX-13 a page of an allowed host is seen through the proxy", "remote", "300x200 pixels"},
		{"ART-15 a page of the workspace is seen, with its script", "file", "300x200 pixels"},
		{"ART-15 a server that the step runs in the background is seen", "server", "300x200 pixels"},
		{"ART-15 SBX-13 a page of another host is not", "away", "could not be loaded"},
		{"ART-15 SBX-13 without a network there is no page of others", "closed", "has no network access"},
		{"ART-15 a file outside of the workspace is refused", "outside", "leaves the workspace"},
	} {
		t.Run(tc.id, func(t *testing.T) {
			w := w.on(t)
			w.task(events.Task{ID: "shot-" + tc.agent, Agent: tc.agent, Task: "go"})
			s := w.ended("shot-" + tc.agent)
			rec := s.ToolCallHistory.At(s.ToolCallHistory.Len() - 1)
			if got := rec.Result + " " + rec.Hint; !strings.Contains(got, tc.want) {
				t.Fatalf("got %s\n%s", got, strings.Join(results(s), "\n"))
			}
			all := artifact.Latest(s)
			if !strings.Contains(tc.want, "pixels") {
				if len(all) != 0 {
					t.Errorf("there are artifacts: %+v", all)
				}
				return
			}
			i := slices.IndexFunc(all, func(a events.Artifact) bool { return a.Type == events.ArtifactScreenshot })
			if i < 0 {
				t.Fatalf("no artifact of type screenshot: %+v", all)
			}
			data, err := w.ports.Artifacts.Get(w.ctx(), s.HarnessID, all[i].Ref())
			if err != nil {
				t.Fatal(err)
			}
			img, err := png.Decode(bytes.NewReader(data))
			if err != nil || img.Bounds().Dx() != 300 || img.Bounds().Dy() != 200 {
				t.Fatalf("%v", err)
			}
			if r, g, b, _ := img.At(150, 100).RGBA(); r != 0 || g != 0xffff || b != 0 {
				t.Errorf("the middle is %x %x %x, want the green that the script of the page sets", r, g, b)
			}
			if len(rec.Images) != 1 {
				t.Errorf("the model is shown %d pictures", len(rec.Images))
			}
		})
	}
}
