// Command peers does the workload of test/bench with a durable workflow library over PostgreSQL, DBOS Transact, and
// nothing of ours: runs of steps, each a turn of a model that answers at once and a call of a tool that does nothing.
// It is a module of its own, so that nothing else depends on the library.
//
// The benchmark starts it with the address of a database and asks for rounds on its input, a line each: runs, steps,
// runs at a time. It answers each with a line: seconds of wall clock, seconds of its own CPU time.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// work is the input of a workflow.
type work struct{ Steps int }

// turn and result are as long as those that the agent and the tool of the benchmark make.
var (
	turn   = strings.Repeat("t", 1024)
	result = strings.Repeat("r", 200)
)

// agent is a workflow of steps: each checkpoints a turn, then the call that it asks for.
func agent(ctx dbos.DBOSContext, w work) (string, error) {
	for range w.Steps {
		if _, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return turn, nil }, dbos.WithStepName("turn")); err != nil {
			return "", err
		}
		if _, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return result, nil }, dbos.WithStepName("call")); err != nil {
			return "", err
		}
	}
	return "done", nil
}

func main() {
	if err := run(os.Args, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: %s DATABASE_URL", args[0])
	}
	ctx, err := dbos.NewDBOSContext(context.Background(), dbos.Config{AppName: "bench", DatabaseURL: args[1],
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(ctx, agent)
	if err := dbos.Launch(ctx); err != nil {
		return err
	}
	defer dbos.Shutdown(ctx, 10*time.Second)
	fmt.Fprintln(out, "ready")
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var runs, steps, inFlight int
		if _, err := fmt.Sscan(lines.Text(), &runs, &steps, &inFlight); err != nil {
			return fmt.Errorf("a line of %q: %w", lines.Text(), err)
		}
		begin, before := time.Now(), spent()
		if err := round(ctx, runs, steps, inFlight); err != nil {
			return err
		}
		fmt.Fprintf(out, "%f %f\n", time.Since(begin).Seconds(), (spent() - before).Seconds())
	}
	return lines.Err()
}

// round does runs of steps, so many at a time.
func round(ctx dbos.DBOSContext, runs, steps, inFlight int) error {
	next, errs := make(chan struct{}, runs), make(chan error, inFlight)
	for range runs {
		next <- struct{}{}
	}
	close(next)
	var wg sync.WaitGroup
	for range inFlight {
		wg.Go(func() {
			for range next {
				handle, err := dbos.RunWorkflow(ctx, agent, work{Steps: steps})
				if err == nil {
					_, err = handle.GetResult()
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// spent is the CPU time of this process so far.
func spent() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail with these arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
