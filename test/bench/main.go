// Command bench measures whole stations and, in the same run on the same server, the bare floor under them: as many
// guarded appends and deliveries with handlers that do nothing else. Its figures are ratios first; a shared machine
// makes absolute ones unreliable.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/memory"
	"github.com/inspan/inspan/internal/natsserver"
)

// config of a measurement.
type config struct {
	runs, steps, inFlight, parked, long int
	rounds                              int
	only                                string
	jsonPath                            string
	split, single, disk, up             bool
	mode                                string
	pair                                string
	// profile and allocs are the files for profiles of the rounds, peer the program of test/bench/peers.
	profile, allocs, peer string
}

func main() {
	var c config
	var serve, store, reportTo string
	var lazy, staged bool
	var node member
	flag.IntVar(&c.runs, "runs", 500, "W1: runs")
	flag.IntVar(&c.steps, "steps", 10, "W1: steps (turns with one tool call) per run")
	flag.IntVar(&c.inFlight, "in-flight", 64, "W1: runs under way at a time")
	flag.IntVar(&c.parked, "parked", 5000, "W4: runs that wait at a gate")
	flag.IntVar(&c.long, "long", 2000, "W6: turns of one run")
	flag.StringVar(&c.only, "only", "", "measure only this one: W1, W2, W3, W4, W6 or W7")
	flag.StringVar(&c.jsonPath, "json", "", "also write the figures to this file")
	flag.IntVar(&c.rounds, "rounds", 5, "W1: the contenders take turns so often")
	flag.IntVar(&node.number, "node", 0, "internal: number of this server in a cluster")
	flag.StringVar(&node.routes, "routes", "", "internal: addresses of the servers of the cluster")
	flag.BoolVar(&c.split, "split", false,
		"a connection and memory for each role, as five programs have, instead of one for all")
	flag.BoolVar(&c.disk, "disk", false,
		"let the server gather batches on its disk, as one that is not in our process does")
	flag.BoolVar(&c.single, "single", false, "send each append alone, do not group them")
	flag.BoolVar(&c.up, "up", false,
		"W1 and W2: measure a station in one process as inspan up is, instead of plain roles and a server of its own")
	flag.StringVar(&c.mode, "mode", "", "measure only with this way to sync: always or lazy")
	flag.StringVar(&c.pair, "pair", "",
		"W1: also measure the other way of something, by turns: single, disk, split or up (as inspan up is)")
	flag.StringVar(&c.peer, "peer", "",
		"W1: also measure this program, that of test/bench/peers, over PostgreSQL; NOT RUN where that is not installed")
	flag.StringVar(&reportTo, "report", "",
		"measure throughput and cost, and write performance.md and its drawings to this folder")
	flag.StringVar(&c.profile, "cpuprofile", "", "write a CPU profile of the measurement to this file; of W1 the rounds")
	flag.StringVar(&c.allocs, "allocprofile", "", "write where the measurement allocates to this file; of W1 the rounds")
	flag.StringVar(&serve, "serve", "", "internal: be the NATS server and listen here")
	flag.StringVar(&store, "store", "", "internal: folder of the server")
	flag.BoolVar(&staged, "staged", false, "internal: gather batches in memory")
	flag.BoolVar(&lazy, "lazy", false, "internal: acknowledge before syncing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if serve == "" { // as the programs do whose parts are measured
		go memory.Pace(ctx)
	}
	var err error
	switch {
	case serve != "":
		err = server(ctx, store, lazy, staged, node)
	case reportTo != "":
		err = report(ctx, c, reportTo)
	default:
		err = measure(ctx, c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// member says which server of a cluster this is; number 0 is none.
type member struct {
	number int
	routes string
}

// server is the child process that the measurements talk to over loopback TCP.
func server(ctx context.Context, store string, lazy, staged bool, node member) error {
	cfg := natsserver.Config{Name: "bench", StoreDir: store, Host: "127.0.0.1", Port: -1, LazySync: lazy}
	if node.number > 0 {
		routes := strings.Split(node.routes, ",")
		_, port, err := net.SplitHostPort(routes[node.number-1])
		if err != nil {
			return err
		}
		cfg.Name = fmt.Sprintf("bench-%d", node.number)
		cfg.Cluster = natsserver.Cluster{Name: "bench", Routes: routes}
		if cfg.Cluster.Port, err = net.LookupPort("tcp", port); err != nil {
			return err
		}
	}
	s, err := natsserver.Start(cfg)
	if err != nil {
		return err
	}
	fmt.Println(s.URL())
	if staged {
		stage(ctx, s)
	}
	<-ctx.Done()
	s.Shutdown()
	return nil
}

// stage waits until the logs of both stations are there and lets the server gather their batches in memory, as a
// station in one process does when it was set up.
func stage(ctx context.Context, s *natsserver.Server) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if n, err := s.StageInMemory(); err != nil || n >= 2 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// figures of one workload in one durability mode.
type figures struct {
	Workload, Mode string
	Steps          int     `json:",omitempty"`
	PerSecond      float64 `json:",omitempty"`
	FloorPerSecond float64 `json:",omitempty"`
	// PostgresPerSecond is that of the step checkpointer, where it was compared.
	PostgresPerSecond float64 `json:",omitempty"`
	// PeerPerSecond is that of a durable workflow library, where it was compared.
	PeerPerSecond float64 `json:",omitempty"`
	// Ratio is floor / measured, of rounds side by side: how many times slower than doing nothing.
	Ratio          float64 `json:",omitempty"`
	P50MS, P99MS   float64 `json:",omitempty"`
	AppendsPerStep float64 `json:",omitempty"`
	BytesPerEvent  float64 `json:",omitempty"`
	CPUPer1000     float64 `json:",omitempty"`
	// AllocsPerStep and AllocKiBPerStep are those of this process: with -up the server and the roles, else the roles.
	AllocsPerStep   float64 `json:",omitempty"`
	AllocKiBPerStep float64 `json:",omitempty"`
	PeakRSSMiB      float64 `json:",omitempty"`
	Note            string  `json:",omitempty"`
}

func measure(ctx context.Context, c config) error {
	fmt.Printf("%s, %d cores, %s\n\n", runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format("2006-01-02"))
	fmt.Printf("%-4s %-6s %7s %9s %9s %6s %9s %9s %8s %7s %9s %8s  %s\n", "what", "fsync", "steps", "steps/s", "floor/s",
		"ratio", "p50 ms", "p99 ms",
		"appends", "B/fact", "cpu s/1k", "rss MiB", "note")
	workloads := []struct {
		name string
		run  func(context.Context, config, *bed) (figures, error)
	}{{"W2", w2}, {"W3", w3}, {"W4", w4}, {"W6", w6}}
	var all []figures
	for _, many := range []struct {
		name  string
		nodes int
	}{{"W1", 0}, {"W7", 3}} {
		if c.only != "" && c.only != many.name {
			continue
		}
		f, err := w1(ctx, c, many.nodes)
		if err != nil {
			return fmt.Errorf("%s: %w", many.name, err)
		}
		all = append(all, f...)
	}
	for _, lazy := range c.modes() {
		for _, w := range workloads {
			if c.only != "" && c.only != w.name {
				continue
			}
			f, err := one(ctx, c, lazy, w.name, w.run)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			all = append(all, f)
			show(f)
		}
	}
	if c.jsonPath == "" {
		return nil
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	return os.WriteFile(c.jsonPath, append(b, '\n'), 0o644)
}

// modes are the ways to sync that are measured.
func (c config) modes() []bool {
	switch c.mode {
	case "always":
		return []bool{false}
	case "lazy":
		return []bool{true}
	}
	return []bool{false, true}
}

func one(ctx context.Context, c config, lazy bool, name string, run func(context.Context, config, *bed) (figures,
	error)) (figures, error) {
	b, err := newBed(ctx, how{lazy: lazy, split: c.split, single: c.single, disk: c.disk, up: c.up})
	if err != nil {
		return figures{}, err
	}
	defer b.close()
	var f figures
	err = c.profiled(func() (err error) {
		f, err = run(ctx, c, b)
		return err
	})
	f.Workload, f.Mode = name, "always"
	if lazy {
		f.Mode = "lazy"
	}
	return f, err
}

func show(f figures) {
	num := func(v float64, digits int) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf("%.*f", digits, v)
	}
	fmt.Printf("%-4s %-6s %7d %9s %9s %6s %9s %9s %8s %7s %9s %8s  %s\n", f.Workload, f.Mode, f.Steps, num(f.PerSecond, 0),
		num(f.FloorPerSecond, 0),
		num(f.Ratio, 2), num(f.P50MS, 2), num(f.P99MS, 2), num(f.AppendsPerStep, 2), num(f.BytesPerEvent, 0),
		num(f.CPUPer1000, 2), num(f.PeakRSSMiB, 0), f.Note)
}
