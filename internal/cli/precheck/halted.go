package precheck

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/halts"
	"github.com/inspan/inspan/pkg/client"
)

// WarnOfHalt says on standard error that what is dispatched now waits, where the station is halted.
func WarnOfHalt(ctx context.Context, a *app.App, c *client.Client) {
	if h, err := client.NewHalts(c).Get(ctx); err == nil && h.Halted {
		fmt.Fprintf(a.Err, "inspan: the station is %s; the task waits until inspan release\n", halts.Line(h, time.Now()))
	}
}
