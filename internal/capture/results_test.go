package capture

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/pkg/tool"
)

func TestFailure(t *testing.T) {
	t.Parallel()
	results := Results{Mask: func(s string) string { return s }}
	busy := tool.Fail(tool.Transient, "wait a little", errors.New("the line is busy"))
	for _, tc := range []struct {
		name  string
		cause error
		want  call.Failure
	}{
		{"a class and a hint are said once, each in its place", busy, call.Failure{Error: "the line is busy", Class: "transient", Hint: "wait a little", Transient: true, Took: time.Second}},
		{"one in the middle of a text stays there", fmt.Errorf("dial: %w", busy),
			call.Failure{Error: "dial: transient: the line is busy (wait a little)", Class: "transient", Hint: "wait a little", Transient: true, Took: time.Second}},
		{"anything else will fail again", errors.New("no such thing"), call.Failure{Error: "no such thing", Class: "permanent", Took: time.Second}},
		{"a class without a cause", &tool.Error{Class: tool.Timeout}, call.Failure{Error: "timeout: <nil>", Class: "timeout", Took: time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := results.Failure(tc.cause, time.Second); got.Error != tc.want.Error || got.Class != tc.want.Class || got.Hint != tc.want.Hint || got.Transient != tc.want.Transient || got.Took != tc.want.Took {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
