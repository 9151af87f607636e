package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// peer is a durable workflow library of others that does the same steps: the program of test/bench/peers over a
// PostgreSQL server of its own.
type peer struct {
	postgres *postgres
	child    *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Reader
	// spent is the CPU time of its rounds so far, the database's included, done their steps.
	spent time.Duration
	done  int
}

func startPeer(ctx context.Context, program string) (*peer, error) {
	p := &peer{}
	var err error
	if p.postgres, err = startPostgres(ctx); err != nil {
		return nil, err
	}
	p.child = exec.Command(program, "postgres://bench@/postgres?host="+p.postgres.dir)
	p.child.Stderr = os.Stderr
	if p.in, err = p.child.StdinPipe(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	out, err := p.child.StdoutPipe()
	if err == nil {
		err = p.child.Start()
	}
	if err != nil {
		p.child = nil
		return nil, errors.Join(err, p.close())
	}
	p.out = bufio.NewReader(out)
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		return nil, errors.Join(fmt.Errorf("%s says %q", program, line), err, p.close())
	}
	if _, err := p.round(ctx, 64, 10, 64); err != nil { // to warm up
		return nil, errors.Join(err, p.close())
	}
	p.spent, p.done = 0, 0
	return p, nil
}

// round does runs of steps and returns steps per second.
func (p *peer) round(_ context.Context, runs, steps, inFlight int) (float64, error) {
	before := p.postgres.spent()
	if _, err := fmt.Fprintln(p.in, runs, steps, inFlight); err != nil {
		return 0, err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	var took, own float64
	if _, err := fmt.Sscan(line, &took, &own); err != nil {
		return 0, fmt.Errorf("an answer of %q: %w", line, err)
	}
	p.spent += p.postgres.spent() - before + time.Duration(own*float64(time.Second))
	p.done += runs * steps
	return float64(runs*steps) / took, nil
}

// note says what its rounds cost.
func (p *peer) note() string {
	return fmt.Sprintf("%.2f s of CPU per 1,000 steps", p.spent.Seconds()/float64(p.done)*1000)
}

func (p *peer) close() error {
	var err error
	if p.child != nil {
		err = errors.Join(p.in.Close(), p.child.Wait())
	}
	p.postgres.close()
	return err
}

// spent is the CPU time of the server so far, with that of the processes that it started.
func (p *postgres) spent() time.Duration {
	server := strconv.Itoa(p.child.Process.Pid)
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	var ticks int64
	for _, e := range all {
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // no process, or one that has gone
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
		own, of := fields[11:13], fields[1]
		if e.Name() == server {
			own, of = fields[11:15], server // with those that have ended
		}
		for _, f := range own {
			if n, err := strconv.ParseInt(f, 10, 64); err == nil && of == server {
				ticks += n
			}
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond // 100 ticks a second on Linux
}
