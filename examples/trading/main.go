package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("trading", flag.ContinueOnError)
	url := flags.String("station", "", "NATS address of a station that records the steps; empty runs without one")
	id := flags.String("id", "trading", "id of the harness on the station")
	polls := flags.Int("polls", 0, "end after so many polls; 0 goes on until it is interrupted")
	interval := flags.Duration("interval", pollInterval, "time between polls")
	if err := flags.Parse(args); err != nil {
		return err
	}
	options := []harness.Option{harness.WithoutReplay(),
		harness.WithPublisher(harness.PublisherFunc(func(p harness.Published) {
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
	h := &TradingHarness{market: &waves{}, interval: *interval, polls: *polls}
	began := time.Now()
	err := harness.Run(ctx, h, config(), options...)
	s := h.State()
	fmt.Fprintf(out, "%d polls in %s: balance %.2f, position %.1f\n", h.CurrentStep(),
		time.Since(began).Round(time.Second), s.Balance, s.Position)
	return err
}
