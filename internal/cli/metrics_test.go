package cli_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/cli"
)

func TestUpMetrics(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	shown := make(chan string, 1)
	said := &ending{on: "Ctrl+C stops"}
	said.end = func() { said.end = func() {}; shown <- said.text.String() }
	var errs buffer
	ended := make(chan int, 1)
	go func() {
		ended <- cli.MainAlone(ctx, []string{"up", "--store", filepath.Join(d.dir, "store"), "--port", "0",
			"--sandbox", "host", "--agents", filepath.Join(d.dir, "agents"), "--scripts", filepath.Join(d.dir, "scripts"),
			"--metrics", "127.0.0.1:0", "--accept-lazy-fsync", "--log", "info"}, strings.NewReader(""), said, &errs)
	}()
	var text string
	select {
	case text = <-shown:
	case code := <-ended:
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	server := regexp.MustCompile(`nats://\S+`).FindString(text)
	address := regexp.MustCompile(`http://\S+/metrics`).FindString(text)
	get := func(url string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		raw, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	run := inspan(t, "--server", server, "run", "reader", "count me")
	if run.code != 0 {
		t.Fatalf("%+v", run)
	}
	page := get(address)
	for _, want := range []string{`inspan_runs_ended_total{reason="agent_done",status="completed",verified="false"} 1`,
		`inspan_events_total{kind="run.created"} 1`, `inspan_tokens_total{direction="output",model="scripted/reader"}`,
		"inspan_runs_active 0", "inspan_run_seconds_count 1", `inspan_queue_waiting{role="toolrunner"} `,
		"inspan_store_damage 0", `inspan_store_limit_bytes{store="the disk of `} {
		if !strings.Contains(page, want) {
			t.Errorf("OBS-23 /metrics lacks %s", want)
		}
	}
	if got := get(strings.TrimSuffix(address, "metrics") + "readyz"); got != "ready\n" {
		t.Errorf("readyz: %q", got)
	}
	t.Run("CLI-9 a port in use is named", func(t *testing.T) {
		taken := strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/metrics")
		s := inspan(t, "up", "--store", filepath.Join(t.TempDir(), "store"), "--port", "0", "--metrics", taken)
		if s.code != 1 || !strings.Contains(s.err, taken+" of --metrics is in use") {
			t.Errorf("%+v", s)
		}
		if s := inspan(t, "up", "--metrics", "9464"); s.code != 2 || !strings.Contains(s.err, "host:port") {
			t.Errorf("%+v", s)
		}
	})
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	t.Run("OBS-23 the log has one line for the end of a run, without its task", func(t *testing.T) {
		if line := errs.String(); strings.Count(line, "run ended") != 1 || !strings.Contains(line, "verified=false") ||
			strings.Contains(line, "count me") {
			t.Errorf("the log: %s", line)
		}
	})
}
