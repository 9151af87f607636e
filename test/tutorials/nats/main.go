// Command nats is what the tutorials use of the nats command: pub, req and sub, which print as it does. Where the real
// one is installed, make tutorials uses that.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nats: error:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("nats", flag.ContinueOnError)
	server := flags.String("s", nats.DefaultURL, "server")
	key := flags.String("nkey", "", "file of an NKey seed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	args = flags.Args()
	if len(args) < 2 {
		return fmt.Errorf("want pub, req or sub and a subject, got %q", args)
	}
	var opts []nats.Option
	if *key != "" {
		nkey, err := nats.NkeyOptionFromSeed(*key)
		if err != nil {
			return err
		}
		opts = append(opts, nkey)
	}
	conn, err := nats.Connect(*server, opts...)
	if err != nil {
		return err
	}
	defer conn.Close()
	verb, subject := args[0], args[1]
	now := func() string { return time.Now().Format("15:04:05") }
	switch {
	case verb == "pub" && len(args) == 3:
		if err := conn.Publish(subject, []byte(args[2])); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s Published %d bytes to %q\n", now(), len(args[2]), subject)
		return conn.Flush()
	case verb == "req" && len(args) == 3:
		fmt.Fprintf(out, "%s Sending request on %q\n", now(), subject)
		begun := time.Now()
		m, err := conn.Request(subject, []byte(args[2]), time.Minute)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s Received with rtt %s\n%s\n\n", now(), time.Since(begun), m.Data)
		return nil
	case verb == "sub":
		return receive(ctx, conn, subject, out)
	default:
		return fmt.Errorf("the tutorials use no %q", args)
	}
}

func receive(ctx context.Context, conn *nats.Conn, subject string, out io.Writer) error {
	sub, err := conn.SubscribeSync(subject)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s Subscribing on %s\n", time.Now().Format("15:04:05"), subject)
	for n := 1; ; n++ {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil // interrupted
		}
		fmt.Fprintf(out, "[#%d] Received on %q\n%s\n\n", n, m.Subject, m.Data)
	}
}
