package service

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
)

// TestMonitoring looks whether the dashboards and alert rules ask for metrics that there are.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	m.Damage(func() error { return nil })
	m.Requests()
	m.Archive(func() time.Duration { return 0 })
	m.Archive(func() time.Duration { return 0 }) // a persister that begins again
	m.Halted("planner", func(context.Context) (bool, bool) { return false, true })
	m.Queue(events.Planner, func(context.Context, events.Service) (uint64, uint64, error) { return 0, 0, nil })
	m.Station(noStats{})
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: st.Journal(), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	m.Ledger(events.Planner, ledger.Stats)
	there := map[string]bool{}
	descs := make(chan *prometheus.Desc)
	go func() { m.registry.Describe(descs); close(descs) }()
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range descs {
		there[name.FindStringSubmatch(d.String())[1]] = true
	}
	folder := filepath.Join("..", "..", "deploy", "monitoring")
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		t.Run("the metrics that "+file+" asks for exist", func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(folder, file))
			if err != nil {
				t.Fatal(err)
			}
			used := regexp.MustCompile(`inspan_[a-z_]+`).FindAllString(string(raw), -1)
			if len(used) < 10 {
				t.Fatalf("%d names of metrics in it", len(used))
			}
			for _, n := range used {
				base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(n, "_bucket"), "_sum"), "_count")
				if !there[n] && !there[base] {
					t.Errorf("there is no metric %s", n)
				}
			}
		})
	}
	t.Run("the dashboard is JSON, and its panels do not overlap", func(t *testing.T) {
		raw, err := os.ReadFile(filepath.Join(folder, "dashboard.json"))
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Panels []struct {
				Title string
				Pos   struct{ X, Y, W, H int } `json:"gridPos"`
			}
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		taken := map[[2]int]string{}
		for _, p := range d.Panels {
			for x := p.Pos.X; x < p.Pos.X+p.Pos.W; x++ {
				for y := p.Pos.Y; y < p.Pos.Y+p.Pos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s is at %d,%d, where %q is", p.Title, x, y, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	})
}

type noStats struct{ kernel.StationStats }

func TestNames(t *testing.T) {
	t.Parallel()
	var l names
	for i := range 2 * maxNames {
		if got, want := l.bounded(strconv.Itoa(i)), strconv.Itoa(i); (got == want) != (i < maxNames) {
			t.Errorf("name %d became %q", i, got)
		}
	}
	if l.bounded("7") != "7" {
		t.Error("a name that was seen is no longer known")
	}
}
