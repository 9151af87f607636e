package external

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/tooltest"
)

// password is that of the NATS user tools of the stations of these tests.
const password = "the password of tool servers"

// How do I serve my tool to a station that runs elsewhere?
func Example_serve() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	st, stop, err := herald(ctx, "127.0.0.1:0") // it runs elsewhere as a rule
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	serving, end := context.WithCancel(ctx)
	defer end()
	served := make(chan error, 1)
	go func() { served <- Weather(serving, st.URL(), password) }()
	// The call is tried again until the program is there.
	last, err := ended(ctx, st.Client(), events.Task{ID: "tomorrow", Agent: "forecaster", Task: "What will the weather be?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	end()
	fmt.Println(last.Status, last.Result.Output, <-served)
	// Output: completed It will be: rain in Oslo <nil>
}

// TestForecast is how a tool that is served is tested: like every other.
func TestForecast(t *testing.T) {
	t.Parallel()
	tooltest.Exam(t, Forecast{}, func(t *testing.T) tool.Env { return tooltest.Env(t) }, `{"city":"Oslo"}`)
}

// TestServedGuarded shows that the gatekeeper judges a served tool like any other, and that a call is given up where no
// program serves it.
func TestServedGuarded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	st, stop, err := herald(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for agent, want := range map[string]events.Kind{"indoors": events.CallRefused, "unserved": events.CallFailed} {
		if _, err := ended(ctx, st.Client(), events.Task{ID: agent, Agent: agent, Task: "What will the weather be?"}); err != nil {
			t.Fatal(err)
		}
		n := 0
		for item, err := range st.Client().Events(ctx, agent, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if item.Payload.Kind() == want {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: %d events %s, want one", agent, n, want)
		}
	}
}
