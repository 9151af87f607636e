package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("coding", flag.ContinueOnError)
	url := flags.String("station", "", "NATS address of a station that records the steps; empty runs without one")
	id := flags.String("id", "coding", "id of the harness on the station")
	agent := flags.String("agent", "", "agent of the station that works the tickets off; empty is a rule of this program")
	if err := flags.Parse(args); err != nil {
		return err
	}
	options := []harness.Option{harness.WithPublisher(harness.PublisherFunc(func(p harness.Published) {
		fmt.Fprintf(out, "%d %s -> %s\n", p.Step.Number, p.Step.Input, p.Step.Output)
	}))}
	if *url != "" {
		c, err := client.Connect(ctx, client.Config{URL: *url})
		if err != nil {
			return err
		}
		defer c.Close()
		options = append(options, harness.OnStation(c, *id))
	}
	todo := tickets()
	h := &CodingHarness{tickets: todo, coder: coder(), reviewer: reviewer(), agent: *agent}
	if err := harness.Run(ctx, h, config(todo), options...); err != nil {
		return err
	}
	s := h.State()
	fmt.Fprintf(out, "ticketsRemaining %d, completed %v\n", s.TicketsRemaining, s.Completed)
	return nil
}
