package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// errNoPostgres means that there is nothing to compare with on this machine.
var errNoPostgres = errors.New("NOT COMPARED with PostgreSQL: no postgres and initdb on the path; install it (apt-get install postgresql) and put its bin folder on the path")

// postgres is a PostgreSQL server of its own with its default settings (fsync on), and a step checkpointer over it:
// what durable workflow libraries on a database do, and nothing else. It is a yardstick, not a harness: no queue, no
// deliveries, no decisions, no views.
type postgres struct {
	dir    string
	child  *exec.Cmd
	pool   *pgxpool.Pool
	rounds int
	lastly bytes.Buffer
}

// pgConnections is how many connections the checkpointer has; more only slow it down.
const pgConnections = 64

func startPostgres(ctx context.Context) (*postgres, error) {
	server, errServer := exec.LookPath("postgres")
	initdb, errInit := exec.LookPath("initdb")
	if errServer != nil || errInit != nil {
		return nil, errNoPostgres
	}
	dir, err := os.MkdirTemp("", "inspan-bench-pg-")
	if err != nil {
		return nil, err
	}
	p := &postgres{dir: dir}
	if err := p.start(ctx, server, initdb); err != nil {
		p.close()
		return nil, fmt.Errorf("postgres: %w\n%s", err, p.lastly.String())
	}
	return p, nil
}

func (p *postgres) start(ctx context.Context, server, initdb string) error {
	attr, err := p.unprivileged()
	if err != nil {
		return err
	}
	data := filepath.Join(p.dir, "data")
	make := exec.CommandContext(ctx, initdb, "-D", data, "-U", "bench", "-A", "trust", "--no-sync")
	make.SysProcAttr, make.Dir, make.Stdout, make.Stderr = attr, p.dir, &p.lastly, &p.lastly
	if err := make.Run(); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	p.child = exec.Command(server, "-D", data, "-k", p.dir, "-c", "listen_addresses=", "-c",
		"max_connections="+strconv.Itoa(pgConnections+10))
	p.child.SysProcAttr, p.child.Dir, p.child.Stderr = attr, p.dir, &p.lastly
	if err := p.child.Start(); err != nil {
		return err
	}
	cfg, err := pgxpool.ParseConfig("host=" + p.dir + " user=bench dbname=postgres")
	if err != nil {
		return err
	}
	cfg.MaxConns = pgConnections
	if p.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	return p.setUp(ctx)
}

// unprivileged lets the server run as somebody else where we are root, because it refuses to be root.
func (p *postgres) unprivileged() (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("a user to run postgres as, which refuses to be root: %w", err)
		}
	}
	uid, _ := strconv.Atoi(who.Uid) // numbers on Linux
	gid, _ := strconv.Atoi(who.Gid)
	if err := os.Chown(p.dir, uid, gid); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// setUp makes the table once the server answers.
func (p *postgres) setUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := p.pool.Exec(ctx, "CREATE TABLE step (run text, n int, phase int, body bytea, PRIMARY KEY (run, n, phase))")
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		}
	}
}

// round checkpoints steps of runs: for each step a row before and a row after it, each in a transaction of its own. The
// rows of a step have as many bytes as the events of one. It returns steps per second.
func (p *postgres) round(ctx context.Context, runs, steps, inFlight int) (float64, error) {
	p.rounds++
	payload := bytes.Repeat([]byte("x"), (2200+900+850+1000)/2)
	next := make(chan string) // a run for whoever is free
	errs := make(chan error, inFlight)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	begin := time.Now()
	for range inFlight {
		wg.Go(func() {
			for run := range next {
				for n := range 2 * steps {
					if _, err := p.pool.Exec(ctx, "INSERT INTO step VALUES ($1, $2, $3, $4)", run, n/2, n%2, payload); err != nil {
						errs <- err
						cancel()
						return
					}
				}
			}
		})
	}
	for i := range runs {
		select {
		case next <- fmt.Sprintf("%d-%d", p.rounds, i):
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	select {
	case err := <-errs:
		return 0, fmt.Errorf("postgres: %w", err)
	default:
		return float64(runs*steps) / time.Since(begin).Seconds(), nil
	}
}

func (p *postgres) close() {
	if p.pool != nil {
		p.pool.Close()
	}
	if p.child != nil && p.child.Process != nil {
		_ = p.child.Process.Signal(syscall.SIGINT) // a fast shutdown; it may be gone
		_ = p.child.Wait()
	}
	_ = os.RemoveAll(p.dir)
}
