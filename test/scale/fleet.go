package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/pkg/events"
)

// Times of processes.
const (
	// startWithin bounds the start of a process, stopWithin its end after SIGTERM: a service drains for 25 s.
	startWithin, stopWithin = time.Minute, 40 * time.Second
	// lookEvery is how often a log is looked at for the line that a service receives.
	lookEvery = 10 * time.Millisecond
)

// fleet is processes on this machine: servers, and services that reach them over loopback TCP.
type fleet struct {
	dir string
	// servers are the NATS servers, urls their addresses, monitor that of the monitoring page of the first.
	servers       []*process
	urls, monitor string
	// services are those that run, ended the CPU time of those that have ended.
	services []*process
	started  int
}

// process is one program that runs.
type process struct {
	// role is that of a service, empty for a server; place names it and its settings.
	role  events.Service
	place string
	cmd   *exec.Cmd
	log   string
	// gone is closed when it has ended, unasked is true where no one asked for that.
	gone chan struct{}
}

// programs builds the five services into a folder.
func programs(ctx context.Context, dir string) error {
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, role := range events.Services() {
		args = append(args, "github.com/inspan/inspan/cmd/"+string(role))
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build the services, which works in a checkout of the repository: %w\n%s", err, out)
	}
	return nil
}

// serve starts NATS servers, each a process.
func (f *fleet) serve(nodes int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var routes []string
	for range nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		routes = append(routes, l.Addr().String())
		l.Close()
	}
	var outs []*bufio.Reader
	for i := range nodes {
		cmd := exec.Command(self, "-phase", "serve", "-store", filepath.Join(f.dir, fmt.Sprintf("nats%d", i+1)), "-node", fmt.Sprint(i+1),
			"-routes", strings.Join(routes, ","))
		cmd.Env, cmd.Dir, cmd.Stderr = f.env(), f.dir, os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return err
		}
		p := &process{place: fmt.Sprintf("server %d", i+1), cmd: cmd, gone: make(chan struct{})}
		f.servers, outs = append(f.servers, p), append(outs, bufio.NewReader(out))
	}
	var urls []string
	for i, out := range outs {
		var url, monitor string
		if _, err := fmt.Fscan(out, &url, &monitor); err != nil {
			return fmt.Errorf("server %d did not start: %w", i+1, err)
		}
		urls = append(urls, url)
		if f.monitor == "" {
			f.monitor = monitor
		}
	}
	for _, p := range f.servers { // what they print was read
		go p.wait()
	}
	f.urls = strings.Join(urls, ",")
	return nil
}

// wait takes note of the end of a process.
func (p *process) wait() {
	_ = p.cmd.Wait() // what it has to say is in its log
	close(p.gone)
}

// beServer is the process of a NATS server. It prints its addresses and serves until ctx ends.
func beServer(ctx context.Context, o options, to io.Writer) error {
	cfg := natsserver.Config{Name: fmt.Sprintf("scale-%d", o.node), StoreDir: o.store, Host: "127.0.0.1", Port: -1, MonitorPort: -1}
	if routes := strings.Split(o.routes, ","); len(routes) > 1 {
		_, port, err := net.SplitHostPort(routes[o.node-1])
		if err != nil {
			return err
		}
		cfg.Cluster = natsserver.Cluster{Name: "scale", Routes: routes}
		if cfg.Cluster.Port, err = net.LookupPort("tcp", port); err != nil {
			return err
		}
	}
	s, err := natsserver.Start(cfg)
	if err != nil {
		return err
	}
	defer s.Shutdown()
	if _, err := fmt.Fprintln(to, s.URL(), s.MonitorURL()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// env is the environment of every process: nothing of this one's settings, so that services have their defaults.
func (f *fleet) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.dir, "TMPDIR=" + f.dir}
}

// start begins a service and returns without waiting for it.
func (f *fleet) start(role events.Service, place string, env []string) (*process, error) {
	f.started++
	p := &process{role: role, place: place, log: filepath.Join(f.dir, fmt.Sprintf("%s.%d.log", role, f.started)), gone: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(filepath.Join(f.dir, "bin", string(role)))
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = f.dir, log, log
	p.cmd.Env = append(f.env(), "INSPAN_NATS_URL="+f.urls, "INSPAN_NATS_MONITOR="+f.monitor, "INSPAN_STATION="+name,
		"INSPAN_HTTP=", fmt.Sprintf("INSPAN_REPLICAS=%d", len(f.servers)),
		// A toolrunner that begins looks at every workspace that is there and reads its run: each has a folder of its own, so
		// that none of that is in a window. The tool has no use for files.
		fmt.Sprintf("INSPAN_WORKSPACE=%s.%d", filepath.Join(f.dir, "work"), f.started),
		"INSPAN_SANDBOX=host", "INSPAN_SANDBOX_REACHES_STATION=true", "INSPAN_MAX_RUNS=0", "INSPAN_MAX_RUNS_PER_MINUTE=0")
	p.cmd.Env = append(p.cmd.Env, env...)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	f.services = append(f.services, p)
	go p.wait()
	return p, nil
}

// ready waits until a service receives.
func (p *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		if strings.Contains(string(b), `"receiving"`) {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.gone:
			return p.ended()
		case <-ctx.Done():
			return fmt.Errorf("%s does not receive after %s; the end of its log is: %s", p.role, startWithin, lastLine(b))
		}
	}
}

func (p *process) ended() error {
	b, _ := os.ReadFile(p.log) // a server has none
	return fmt.Errorf("%s has ended, unasked; the end of its log is: %s", p.place, lastLine(b))
}

func lastLine(log []byte) string {
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return lines[len(lines)-1]
}

// stop ends processes and waits until they are gone; one that does not end in time is killed.
func stop(all []*process) {
	for _, p := range all {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	}
	late := time.NewTimer(stopWithin)
	defer late.Stop()
	for _, p := range all {
		select {
		case <-p.gone:
		case <-late.C:
			late.Reset(0)
			_ = p.cmd.Process.Kill() // as above
			<-p.gone
		}
	}
}

// become starts and stops services until those of a layout run, and reports whether any was started. Services that it
// shares with what runs stay.
func (f *fleet) become(ctx context.Context, l layout) (begun bool, err error) {
	want := l.places()
	var stay, leave, fresh []*process
	for _, p := range f.services {
		if i := slices.IndexFunc(want, func(w place) bool { return w.role == p.role && w.name == p.place }); i >= 0 {
			want, stay = slices.Delete(want, i, i+1), append(stay, p)
		} else {
			leave = append(leave, p)
		}
	}
	f.services = stay
	stop(leave)
	for _, w := range want {
		p, err := f.start(w.role, w.name, l.settings(f.dir, w.role))
		if err != nil {
			return false, err
		}
		fresh = append(fresh, p)
	}
	for _, p := range fresh {
		if err := p.ready(ctx); err != nil {
			return false, err
		}
	}
	return len(fresh) > 0, f.healthy()
}

// healthy is an error where a process has ended unasked.
func (f *fleet) healthy() error {
	var errs []error
	for _, p := range slices.Concat(f.servers, f.services) {
		select {
		case <-p.gone:
			errs = append(errs, p.ended())
		default:
		}
	}
	return errors.Join(errs...)
}

// spent is the CPU time of the processes of each role so far; that of the servers is under "server", that of this
// process under "load".
func (f *fleet) spent() (map[string]time.Duration, error) {
	all := map[string]time.Duration{}
	add := func(role string, pid int) error {
		d, err := cpuTime(pid)
		all[role] += d
		return err
	}
	for _, p := range f.servers {
		if err := add(server, p.cmd.Process.Pid); err != nil {
			return nil, err
		}
	}
	for _, p := range f.services {
		if err := add(string(p.role), p.cmd.Process.Pid); err != nil {
			return nil, err
		}
	}
	return all, add(loader, os.Getpid())
}

// Names of what has CPU time besides the roles.
const (
	server = "server"
	loader = "load"
)

// end ends all processes.
func (f *fleet) end() {
	stop(f.services)
	stop(f.servers)
}
