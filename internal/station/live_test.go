package station_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

func TestLive(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprintf("OBS-12 SAFE-6 with the rights of its users a station has what is live kept, tells its watchers and a channel, without NATS %v", alone), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{"agents/greeter.prompt": strings.Replace(coder, "scripted/coder", "scripted/greeter", 1), "scripts/greeter.yaml": "turns:\n  - text: Good morning.\n"} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Replace(text, "name: coder", "name: greeter", 1)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			base, err := service.FromEnv()
			if err != nil {
				t.Fatal(err)
			}
			base.Streaming = "jetstream,channel"
			said := make(chan streaming.Replay, 64) // more than is said
			st, err := station.Up(within(t), station.Config{StoreDir: filepath.Join(dir, "store"), AgentsDir: filepath.Join(dir, "agents"), ScriptsDir: filepath.Join(dir, "scripts"),
				Sandbox: "host", LazySync: !alone, Alone: alone, Log: zerolog.Nop(), Base: base, Replayed: said})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := st.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			c := operator.Local(st.Local(), "", nil)
			if !alone {
				if c, err = operator.On(st.Conn(), st.Name()); err != nil {
					t.Fatal(err)
				}
			}
			greet(t, c, said)
			if alone {
				return
			}
			mine, err := st.Conn().Station(st.Name())
			if err != nil {
				t.Fatal(err)
			}
			if kept, _, err := mine.Replay(within(t), "hello", 0); err != nil || len(kept) == 0 {
				t.Errorf("%d messages are kept: %v", len(kept), err)
			}
		})
	}
}

// greet carries a run out and hears its text as a watcher and on the channel.
func greet(t *testing.T, c *client.Client, said <-chan streaming.Replay) {
	t.Helper()
	text, whole := "", make(chan struct{})
	stop, err := c.Stream(within(t), "hello", func(p client.Piece) {
		if text += p.Text; p.Done {
			close(whole)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := c.Dispatch(within(t), events.Task{ID: "hello", Agent: "greeter", Task: "greet"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-whole:
	case <-within(t).Done():
		t.Fatal("the watcher does not hear the end")
	}
	var received strings.Builder
	j := streaming.NewJoiner(func(p streaming.Piece) { received.WriteString(p.Content) })
	for len(said) > 0 {
		m := <-said
		j.Take(m.Data)
	}
	if stop(); text != "Good morning." || received.String() != text {
		t.Errorf("the watcher heard %q, the channel %q", text, received.String())
	}
}
